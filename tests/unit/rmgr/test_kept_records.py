"""Records kept as flat arrays are those that were kept."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headwater.rmgr.index.kept_records import NONE_KEPT, KeptRecord, join_kept, keep_records
from headwater.wal.records.frames import Frames

RECORDS = st.lists(st.binary(min_size=24, max_size=70), max_size=12)


def framed(records: list[bytes]) -> Frames:
    """Frame records one after the other, as a stretch has them; an LSN is a record's number times 8."""
    data, positions = bytearray(), []
    for record in records:
        positions.append(len(data))
        whole = len(record).to_bytes(4, "little") + record[4:]
        data += whole + bytes(-len(whole) % 8)
    lsns = np.arange(len(records), dtype=np.int64) * 8
    return Frames(np.frombuffer(bytes(data), np.uint8), np.array(positions, np.int64), lsns, lsns + 8, None)


@given(RECORDS, st.data())
def test_what_is_kept_comes_back(records: list[bytes], data: st.DataObject) -> None:
    frames = framed(records)
    chosen = [number for number in range(len(records)) if data.draw(st.booleans())]
    kept_records = keep_records(frames, np.array(chosen, np.int64))
    expected = [KeptRecord(number * 8, number * 8 + 8, frames.record(number)) for number in chosen]
    assert list(kept_records) == expected
    assert len(kept_records) == len(expected)
    lsn = data.draw(st.integers(0, 8 * len(records) + 8))
    assert list(kept_records.since(lsn)) == [record for record in expected if record.lsn >= lsn]
    assert list(join_kept([kept_records, NONE_KEPT, kept_records])) == expected * 2
