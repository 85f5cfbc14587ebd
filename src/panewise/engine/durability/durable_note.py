"""How much of the log has been acknowledged: a few bytes in the lock file that follow every record.

    magic, log number, salt of the log, sync 'always'?, boot, checksum | bytes acknowledged, bytes brought to the disk
    ------------------------- when a log is begun --------------------   ----------------- after each record ---------

A record that a call returned from and one that a dying process left half written look alike in the log: the note tells
them apart. The note is the operating system's once it is written, so after the death of a process it is exact. After a
loss of power, found by another boot of the machine, it may be older than the log: then only the bytes that had been
brought to the disk count. A note that is missing, or names another log than there is, says nothing.

Cost: one `pwrite` of 16 bytes a record, which is not brought to the disk. Where it fails the note stays too small, and
says less.
"""

from __future__ import annotations

import contextlib
import os
import struct
import threading
import zlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from panewise.state.durable_files import FileSystem

_MAGIC = b"PANENOTE"
_LOG = struct.Struct("<8sQI?xxxQ")
_CHECKSUM = struct.Struct("<I")
_LENGTH = struct.Struct("<Q")
_LENGTHS = struct.Struct("<QQ")
_LENGTHS_AT = 40
_BOOT_FILE = Path("/proc/sys/kernel/random/boot_id")


@cache
def boot() -> int:
    """This boot of the machine; 0 where the system does not say."""
    try:
        return zlib.crc32(_BOOT_FILE.read_bytes())
    except OSError:
        return 0


@dataclass(frozen=True)
class Noted:
    """What an earlier process has noted."""

    number: int  # The number of the log.
    salt: int
    always: bool  # each record was brought to the disk before its call returned
    boot: int
    acknowledged: int
    synced: int

    @property
    def exact(self) -> bool:
        """Whether nothing but processes has died since."""
        return self.boot != 0 and self.boot == boot()

    @property
    def promised(self) -> int:
        """The bytes of the log that must be there."""
        return self.acknowledged if self.exact else self.synced


class LengthNote:
    """Written by the one engine that holds the lock, to the lock's descriptor."""

    def __init__(self, files: FileSystem, descriptor: int) -> None:
        self.always = False
        self.cuts = 0  # how often the log has lost bytes, or another one has been begun
        self._synced = 0
        self._files = files
        self._descriptor = descriptor
        self._turn = threading.Lock()  # the log is brought to the disk by a thread of its own

    def read(self) -> Noted | None:
        """What is there; None where there is no whole note."""
        data = os.pread(self._descriptor, _LENGTHS_AT + _LENGTHS.size, 0)
        if len(data) < _LENGTHS_AT + _LENGTHS.size or not data.startswith(_MAGIC):
            return None
        if _CHECKSUM.unpack_from(data, _LOG.size)[0] != zlib.crc32(data[: _LOG.size]):
            return None
        _, number, salt, always, booted = _LOG.unpack_from(data)
        return Noted(number, salt, always, booted, *_LENGTHS.unpack_from(data, _LENGTHS_AT))

    def begin(self, number: int, salt: int, size: int) -> None:
        """The log of this number is the one in use, and all of it is acknowledged and on the disk."""
        log = _LOG.pack(_MAGIC, number, salt, self.always, boot())
        head = (log + _CHECKSUM.pack(zlib.crc32(log))).ljust(_LENGTHS_AT, b"\0")
        with self._turn, contextlib.suppress(OSError):
            self.cuts += 1
            self._synced = size
            self._files.note(self._descriptor, head + _LENGTHS.pack(size, size), 0)

    def acknowledge(self, size: int, synced: bool) -> None:
        """The log ends here, and the call that wrote its last record may return."""
        if synced:
            self._synced = size
        lengths = _LENGTHS.pack(size, size) if synced else _LENGTH.pack(size)
        try:  # `contextlib.suppress` would take as long as the rest, and this runs for every record.
            self._files.note(self._descriptor, lengths, _LENGTHS_AT)
        except OSError:
            return

    def take_back(self, size: int) -> None:
        """The log is going to be cut to this size; OSError where that cannot be noted."""
        with self._turn:
            self.cuts += 1
            self._synced = min(size, self._synced)
            self._files.note(self._descriptor, _LENGTHS.pack(size, self._synced), _LENGTHS_AT)

    def brought_to_disk(self, size: int, cuts: int) -> None:
        """In any thread: the log is on the disk up to here, unless it was cut meanwhile."""
        with self._turn, contextlib.suppress(OSError):
            if cuts == self.cuts:
                self._synced = size
                self._files.note(self._descriptor, _LENGTH.pack(size), _LENGTHS_AT + _LENGTH.size)
