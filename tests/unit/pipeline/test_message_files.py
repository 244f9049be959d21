"""Messages in Arrow batches: all of them, in order, however few fit into one."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arrow_types import values_of
from headwater.errors import HeadwaterError
from headwater.pipeline.slices import message_files
from headwater.pipeline.slices.message_files import check_text, message_batches
from headwater.rows.items import Messages


def made(data: list[bytes]) -> Messages:
    offsets = np.cumsum([0, *map(len, data)])
    lsn = np.arange(len(data), dtype=np.int64)
    return Messages(lsn, lsn + 700, offsets, np.frombuffer(b"".join(data) or b"\0", np.uint8))


@given(st.lists(st.binary(max_size=9)), st.integers(1, 20))
def test_batches_hold_all_messages(data: list[bytes], limit: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(message_files, "BATCH_BYTES", limit)
        batches = list(message_batches(made(data), is_text=False))
    table = pa.Table.from_batches(batches, message_files.message_schema(is_text=False))
    expected = [{"lsn": i, "xid": i + 700, "data": part} for i, part in enumerate(data)]
    assert table.to_pylist() == expected
    assert all(len(batch) == 1 or sum(map(len, values_of(batch["data"]))) <= limit for batch in batches)


@given(st.lists(st.sampled_from([b"text", b"\xc3\xa9", b""]), max_size=20), st.integers(0, 20))
def test_what_is_no_text_is_named(data: list[bytes], at: int) -> None:
    data.insert(at, b"\xff")
    with pytest.raises(HeadwaterError, match="not valid UTF-8") as error:
        list(map(check_text, message_batches(made(data), is_text=True)))
    assert error.value.lsn == data.index(b"\xff")
