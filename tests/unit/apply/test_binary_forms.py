"""Arrays and rows for COPY in binary form, beside plain twins."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.apply.batches.forms import CopyFormat, Forms, MixedFormsError, array_of, copied, forms_of
from headwater.remote_slots.framed_messages import Cells
from headwater.rows.items import BINARY, NULL, TEXT

INT4 = 23
ROWS = st.lists(st.tuples(*[st.none() | st.binary(max_size=9)] * 2), min_size=1, max_size=9)
Rows = list[tuple[bytes | None, ...]]


def _cells(rows: Rows) -> tuple[np.ndarray, Cells]:
    values = [value for row in rows for value in row]
    lengths = [len(value or b"") for value in values]
    kinds = np.array([NULL if value is None else BINARY for value in values], np.uint8)
    starts = np.cumsum([0, *lengths[:-1]]).astype(np.int64)
    data = np.frombuffer(b"".join(value or b"" for value in values) or b"-", np.uint8)
    return data, (kinds, starts, np.array(lengths, np.int32))


def _value(value: bytes | None) -> bytes:
    return struct.pack(">i", -1) if value is None else struct.pack(">i", len(value)) + value


@given(ROWS)
def test_arrays(rows: Rows) -> None:
    data, cells = _cells(rows)
    chosen = np.arange(len(rows), dtype=np.int64)[::-1].copy()
    values = [row[1] for row in reversed(rows)]
    header = struct.pack(">iiIii", 1, int(None in values), INT4, len(rows), 1)
    assert array_of(data, cells, chosen, 2, 1, INT4) == header + b"".join(map(_value, values))


@given(ROWS)
def test_rows_for_copy(rows: Rows) -> None:
    data, cells = _cells(rows)
    lines = (struct.pack(">h", 2) + b"".join(map(_value, row)) for row in rows)
    expected = b"PGCOPY\n\xff\r\n\0" + struct.pack(">ii", 0, 0) + b"".join(lines) + struct.pack(">h", -1)
    assert copied(data, cells, np.arange(len(rows), dtype=np.int64), 2, CopyFormat.BINARY) == expected


def test_forms_of_columns() -> None:
    kinds = np.array([BINARY, TEXT, NULL, BINARY, NULL, NULL], np.uint8)
    cells = kinds, np.zeros(6, np.int64), np.zeros(6, np.int32)
    forms = forms_of(np.array([0, 3], np.int64), 3, cells)
    assert forms == Forms((True, False, False), has_text=True)
    assert forms.copy_format is None
    assert forms.formats([2, 0]) == (0, 1)
    assert Forms((True, False), has_text=False).copy_format == CopyFormat.BINARY
    assert Forms((False, False), has_text=True).copy_format == CopyFormat.TEXT
    kinds[4] = BINARY
    with pytest.raises(MixedFormsError):
        forms_of(np.array([0, 3], np.int64), 3, cells)
