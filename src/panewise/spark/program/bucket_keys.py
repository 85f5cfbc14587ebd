"""Keys of buckets, chosen so that Spark's hash spreads them evenly over the shuffle partitions.

Spark puts a row with the long `key` into the partition `pmod(murmur3(key, 42), partitions)`. A fragment's bucket `i`
gets the first key, of those that belong to the fragment, that Spark puts into partition `i mod partitions`.
"""

from __future__ import annotations

from functools import cache

FRAGMENT_BITS = 20  # keys per fragment
_MASK = 0xFFFFFFFF


def spark_partition(key: int, partitions: int) -> int:
    """Where Spark's exchange sends a row with this key.

    >>> [spark_partition(key, 2) for key in (0, 1, 2)]
    [1, 1, 0]
    """
    number = key & 0xFFFFFFFFFFFFFFFF
    mixed = _mix_end(_mix(_mix(42, number & _MASK), number >> 32), 8)
    signed = mixed - (1 << 32) if mixed >> 31 else mixed
    return signed % partitions


@cache
def bucket_keys(fragment: int, buckets: int, partitions: int) -> tuple[int, ...]:
    """One key per bucket of a fragment."""
    keys: list[int] = []
    # Fragments of one bucket begin at different partitions, so that they do not all share one.
    first = fragment if buckets == 1 else 0
    candidate = fragment << FRAGMENT_BITS
    for bucket in range(buckets):
        wanted = (first + bucket) % partitions
        while spark_partition(candidate, partitions) != wanted:
            candidate += 1
        keys.append(candidate)
        candidate += 1
    return tuple(keys)


def _mix(hashed: int, word: int) -> int:
    word = _rotated(word * 0xCC9E2D51 & _MASK, 15) * 0x1B873593 & _MASK
    return (_rotated(hashed ^ word, 13) * 5 + 0xE6546B64) & _MASK


def _mix_end(hashed: int, length: int) -> int:
    hashed ^= length
    hashed = (hashed ^ hashed >> 16) * 0x85EBCA6B & _MASK
    hashed = (hashed ^ hashed >> 13) * 0xC2B2AE35 & _MASK
    return hashed ^ hashed >> 16


def _rotated(word: int, by: int) -> int:
    return (word << by | word >> (32 - by)) & _MASK
