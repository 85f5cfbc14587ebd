"""How much of the log was acknowledged: a few bytes in the lock file, which are written after every record.

    magic, log number, salt of the log, sync 'always'?, boot, checksum | bytes acknowledged, bytes brought to the disk
    ------------------------- when a log is begun --------------------   ----------------- after each record ---------

In the log, a damaged record that was acknowledged looks like a record that a dying process has not finished: the note
tells them apart. Once written, the note is in the operating system, so it is exact after a process has died. After a
loss of power, which is recognized by another boot of the machine, it may be older than the log. Then only the bytes
that were brought to the disk count. A note that is missing, or names another log, says nothing.

Cost: one `pwrite` of 16 bytes per record, which is not brought to the disk. If it fails, the note promises fewer bytes.
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
    """A number for this boot of the machine; 0 if the system does not tell."""
    try:
        return zlib.crc32(_BOOT_FILE.read_bytes())
    except OSError:
        return 0


@dataclass(frozen=True)
class Noted:
    """The note of an earlier process."""

    number: int  # The number of the log.
    salt: int
    always: bool  # Each record was brought to the disk before its call returned.
    boot: int
    acknowledged: int
    synced: int

    @property
    def exact(self) -> bool:
        """Whether the machine has not restarted since, so that the note is up to date."""
        return self.boot != 0 and self.boot == boot()

    @property
    def promised(self) -> int:
        """The number of bytes that the log must have."""
        return self.acknowledged if self.exact else self.synced


class LengthNote:
    """The note; the engine that holds the lock writes it to the lock's descriptor."""

    def __init__(self, files: FileSystem, descriptor: int) -> None:
        self.always = False
        self.cuts = 0  # How often the log was cut, or another one was begun.
        self._synced = 0
        self._files = files
        self._descriptor = descriptor
        self._turn = threading.Lock()  # A thread of its own brings the log to the disk.

    def read(self) -> Noted | None:
        """The note in the file; None if there is no whole one."""
        data = os.pread(self._descriptor, _LENGTHS_AT + _LENGTHS.size, 0)
        if len(data) < _LENGTHS_AT + _LENGTHS.size or not data.startswith(_MAGIC):
            return None
        if _CHECKSUM.unpack_from(data, _LOG.size)[0] != zlib.crc32(data[: _LOG.size]):
            return None
        _, number, salt, always, booted = _LOG.unpack_from(data)
        return Noted(number, salt, always, booted, *_LENGTHS.unpack_from(data, _LENGTHS_AT))

    def begin(self, number: int, salt: int, size: int) -> None:
        """Another log is in use, and all of it is acknowledged and on the disk."""
        log = _LOG.pack(_MAGIC, number, salt, self.always, boot())
        head = (log + _CHECKSUM.pack(zlib.crc32(log))).ljust(_LENGTHS_AT, b"\0")
        with self._turn, contextlib.suppress(OSError):
            self.cuts += 1
            self._synced = size
            self._files.note(self._descriptor, head + _LENGTHS.pack(size, size), 0)

    def acknowledge(self, size: int, synced: bool) -> None:
        """The log has this size, and the call that wrote its last record may return."""
        if synced:
            self._synced = size
        lengths = _LENGTHS.pack(size, size) if synced else _LENGTH.pack(size)
        try:  # `contextlib.suppress` would take as long as the rest, and this runs for every record.
            self._files.note(self._descriptor, lengths, _LENGTHS_AT)
        except OSError:
            return

    def take_back(self, size: int) -> None:
        """Called before the log is cut to this size; OSError if that cannot be noted."""
        with self._turn:
            self.cuts += 1
            self._synced = min(size, self._synced)
            self._files.note(self._descriptor, _LENGTHS.pack(size, self._synced), _LENGTHS_AT)

    def brought_to_disk(self, size: int, cuts: int) -> None:
        """The log is on the disk up to this size, unless it was cut meanwhile. Any thread may call this."""
        with self._turn, contextlib.suppress(OSError):
            if cuts == self.cuts:
                self._synced = size
                self._files.note(self._descriptor, _LENGTH.pack(size), _LENGTHS_AT + _LENGTH.size)
