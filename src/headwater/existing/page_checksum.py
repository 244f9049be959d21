"""Checksums of heap pages (PostgreSQL: ``storage/checksum_impl.h``)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from headwater.rows.collect._page_tuples import PAGE

CHECKSUMS_ON = 1
"""``data_checksum_version`` of a cluster whose pages all have checksums (PG_DATA_CHECKSUM_VERSION)."""

_PRIME = np.uint32(16777619)
_BASE_OFFSETS = """
5B1F36E9 B8525960 02AB50AA 1DE66D2A 79FF467A 9BB9F8A3 217E7CD2 83E13D2C
F8D4474F E39EB970 42C6AE16 993216FA 7B093B5D 98DAFF3C F718902A 0B1C9CDB
E58F764B 187636BC 5D7B3BB1 E73DE7DE 92BEC979 CCA6C0B2 304A0979 85AA43D4
783125BB 6CA8EAA2 E407EAC6 4B5CFC3E 9FBF8C76 15CA20BE F2CA9FD3 959BD756
"""
_SUMS = np.array([int(word, 16) for word in _BASE_OFFSETS.split()], np.uint32)
_CHECKSUM_AT, _UPPER_AT = 8, 14


def first_wrong_page(pages: NDArray[np.uint8], first: int, wanted: NDArray[np.bool_]) -> int | None:
    """Find the first of some pages whose checksum is not that of what it holds.

    Args:
        pages: uint8[n * PAGE].
        first: number of the first one in its relation.
        wanted: bool[n] the pages that are looked at; new ones, which are all zeros and have none, are passed over.

    Returns:
        its number in the relation, None if all are right.
    """
    table = pages.reshape(-1, PAGE)
    upper = table[:, _UPPER_AT].astype(np.int64) | table[:, _UPPER_AT + 1].astype(np.int64) << 8
    new = np.flatnonzero(upper == 0)
    is_new = np.zeros(len(table), np.bool_)
    is_new[new] = ~table[new].any(axis=1)
    checked = np.flatnonzero(wanted & ~is_new)
    copies = table[checked].copy()
    stored = copies[:, _CHECKSUM_AT].astype(np.int64) | copies[:, _CHECKSUM_AT + 1].astype(np.int64) << 8
    copies[:, _CHECKSUM_AT : _CHECKSUM_AT + 2] = 0
    expected = (_block_sums(copies).astype(np.int64) ^ (checked + first)) % 65535 + 1
    wrong = np.flatnonzero(stored != expected)
    return int(checked[wrong[0]]) + first if len(wrong) else None


def _block_sums(pages: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """Compute uint32[n] pg_checksum_block of n pages."""
    words = pages.view("<u4").reshape(len(pages), PAGE // (4 * len(_SUMS)), len(_SUMS))
    sums = np.tile(_SUMS, (len(pages), 1))
    nothing = np.zeros_like(sums)
    for row in [*(words[:, number] for number in range(words.shape[1])), nothing, nothing]:
        mixed = sums ^ row
        sums = mixed * _PRIME ^ mixed >> np.uint32(17)
    combined: NDArray[np.uint32] = np.bitwise_xor.reduce(sums, axis=1)
    return combined


def with_checksums(data: bytearray, numbers: Iterable[int]) -> bytearray:
    """Return pages of a relation's first file, some of them with the checksum of what they hold now.

    Args:
        data: whole pages; numbers: of those that were changed.
    """
    for number in numbers:
        page = np.frombuffer(data, np.uint8, PAGE, number * PAGE)[None].copy()
        page[:, _CHECKSUM_AT : _CHECKSUM_AT + 2] = 0
        checksum = (int(_block_sums(page)[0]) ^ number) % 65535 + 1
        data[number * PAGE + _CHECKSUM_AT : number * PAGE + _CHECKSUM_AT + 2] = checksum.to_bytes(2, "little")
    return data
