"""Fast defaults as the kernels want them: payloads without varlena headers, decompressed.

In: the datum that ``pg_attribute.attmissingval`` holds. Mirrors ``AttrMissing`` of ``access/tupdesc_details.h``; no
server keeps a value there that is stored out of line.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from headwater.catalog.relation import Column
from headwater.errors import CatalogError
from headwater.rows._compression import decompress, raw_size


def missing_payload(column: Column, label: str) -> bytes | None:
    """Return the payload of a column's fast default, None if it has none.

    Args:
        column: a table's column, or a composite's attribute.
        label: its name in an error.

    Raises:
        CatalogError: the datum is malformed.
    """
    datum = column.missing
    if datum is None or column.is_dropped:
        return None
    payload = varlena_payload(datum) if column.attlen == -1 else datum
    if payload is None or (column.attlen > 0 and len(datum) != column.attlen):
        raise CatalogError(f"{label} has a malformed missing value of {len(datum)} bytes")
    return payload


def varlena_payload(datum: bytes) -> bytes | None:
    """Return a varlena's payload, decompressed; None if it is malformed or out of line (access/varatt.h)."""
    if not datum or datum[0] == 1:
        return None
    if datum[0] & 1:
        return datum[1:] if datum[0] >> 1 == len(datum) else None
    if len(datum) < 4 or int.from_bytes(datum[:4], "little") >> 2 != len(datum):
        return None
    return _decompressed(datum[4:]) if datum[0] & 2 else datum[4:]


def _decompressed(payload: bytes) -> bytes | None:
    src = joined([payload])
    size = raw_size(src, 0, len(src))
    out = np.empty(max(size, 0), dtype=np.uint8)
    return out.tobytes() if decompress(src, 0, len(src), out, 0) == size else None


def joined(pieces: Sequence[bytes]) -> NDArray[np.uint8]:
    """Join the pieces in an array that may be written to (read-only ones are another kernel type)."""
    return np.frombuffer(bytearray(b"".join(pieces)), dtype=np.uint8)
