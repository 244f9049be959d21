"""The forms of values of a run of changes, text or binary, and the parameters and data for COPY that are made of them.

A source sends a column's values in binary form if their type has one, all others as text: a column has one form. Types
without arrays of their own, such as arrays, go as text in arrays of text. In binary form there is no such way: a table
that has such a column is not folded.

PostgreSQL: proto.c (logicalrep_write_tuple). Formats of COPY as of commands/copyfromparse.c.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from headwater.apply.batches import _binary as _b
from headwater.apply.batches import _folding as _f
from headwater.remote_slots.framed_messages import Cells
from headwater.rows.items import BINARY, TEXT

Int64s = NDArray[np.int64]

_SIGNATURE = np.frombuffer(b"PGCOPY\n\xff\r\n\0", np.uint8)


class CopyFormat(Enum):
    """A format of COPY."""

    TEXT = "text"
    BINARY = "binary"


class MixedFormsError(Exception):
    """A column has values in both forms."""


@dataclass(frozen=True)
class Forms:
    """The forms of the columns of a run.

    Attributes:
        binary: of each column, whether its values are in binary form.
        has_text: whether some column has text.
    """

    binary: tuple[bool, ...]
    has_text: bool

    @property
    def copy_format(self) -> CopyFormat | None:
        """The format that COPY takes rows in; None if it has none for them."""
        if not any(self.binary):
            return CopyFormat.TEXT
        return None if self.has_text else CopyFormat.BINARY

    def formats(self, places: Sequence[int]) -> tuple[int, ...]:
        """Return the formats of parameters that are arrays of columns, by their places."""
        return tuple(int(self.binary[at]) for at in places)


def forms_of(first: Int64s, columns: int, cells: Cells) -> Forms:
    """Look at the forms of a run.

    Args:
        first: int64[n] the first cell of the tuple that each change is about; columns: cells of a tuple.
        cells: of all tuples.

    Raises:
        MixedFormsError: a column has both.
    """
    has_binary, has_text = np.zeros(columns, np.bool_), np.zeros(columns, np.bool_)
    for column in range(columns):
        kinds = cells[0][first + column]
        has_binary[column], has_text[column] = (kinds == BINARY).any(), (kinds == TEXT).any()
    if (has_binary & has_text).any():
        raise MixedFormsError
    return Forms(tuple(has_binary.tolist()), bool(has_text.any()))


def array_of(
    data: NDArray[np.uint8], rows: Cells, chosen: Int64s, columns: int, column: int, binary_type: int | None
) -> bytes:
    """Write a column of rows as an array.

    Args:
        data: uint8[] that values lie in; rows: kinds, starts, lengths of them.
        chosen: int64[n] numbers of rows; columns: cells of each; column: which of them.
        binary_type: OID of the type of values in binary form; None for text.
    """
    if binary_type is None:
        out = np.empty(_f.array_size(data, rows, chosen, columns, column), np.uint8)
        return out[: _f.write_array(data, rows, chosen, columns, column, out)].tobytes()
    out = np.empty(_b.array_size(rows, chosen, columns, column), np.uint8)
    return out[: _b.write_array(data, rows, chosen, columns, column, binary_type, out)].tobytes()


def copied(data: NDArray[np.uint8], rows: Cells, chosen: Int64s, columns: int, copy_format: CopyFormat) -> bytes:
    """Write rows for COPY; see :func:`array_of`."""
    if copy_format == CopyFormat.TEXT:
        out = np.empty(_f.copy_size(rows, chosen, columns), np.uint8)
        return out[: _f.write_copy(data, rows, chosen, columns, out)].tobytes()
    out = np.empty(_b.copy_size(rows, chosen, columns), np.uint8)
    return out[: _b.write_copy(data, rows, chosen, columns, _SIGNATURE, out)].tobytes()
