"""``pg_xact`` in runs, against its bytes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.base.value_codec import read_value, value_bytes
from headwater.catalog.copy.commit_log import FILE_BYTES, CommitLog, commit_log_between, commit_log_of
from headwater.errors import CatalogError

CONTENT = st.lists(st.tuples(st.sampled_from((0x00, 0x55, 0x56, 0xAA)), st.integers(1, 50)), max_size=8).map(
    lambda runs: b"".join(bytes([value]) * count for value, count in runs)
)


@given(st.dictionaries(st.sampled_from((0, 1, 2, 7)), CONTENT, max_size=3), st.data())
def test_it_says_what_the_bytes_say(files: dict[int, bytes], data: st.DataObject) -> None:
    log = read_value(CommitLog, value_bytes(commit_log_of(files, 0, 1, is_online=True)))
    number = data.draw(st.sampled_from((0, 1, 2, 3, 7)))
    content = files.get(number, b"")
    at = data.draw(st.integers(0, len(content) + 3))
    xid = (number * FILE_BYTES + at) * 4 + data.draw(st.integers(0, 3))
    expected = at < len(content) and content[at] >> xid % 4 * 2 & 3 == 1
    assert log.is_committed(xid) == expected


def test_a_file_that_should_be_there_is_missed() -> None:
    log = commit_log_of({1: bytes([0x55]) * 100}, 8 * FILE_BYTES, 10, is_online=False)
    assert log.is_committed(4 * FILE_BYTES + 3)
    for xid in (3, 4 * (FILE_BYTES + 100), 4 * 2 * FILE_BYTES - 1):
        with pytest.raises(CatalogError, match=f"status of transaction {xid}: the backup did not have it"):
            log.is_committed(xid)
    assert not log.is_committed(9 * FILE_BYTES)


def test_members_of_old_multixacts_are_not_guessed() -> None:
    log = commit_log_of({}, 100, 10, is_online=True)
    assert log.update_xid(10) == 0
    with pytest.raises(CatalogError, match="members of multixact 9 are not known any more"):
        log.update_xid(9)


@pytest.mark.parametrize(
    ("oldest", "next_xid"), [(700, 1000), (701, 999), ((1 << 32) - 100, (1 << 32) + 200), (3 << 32, (3 << 32) + 9)]
)
def test_a_span_in_which_nearly_all_committed(oldest: int, next_xid: int) -> None:
    oldest &= ~3
    failed = [xid for xid in range(oldest, next_xid) if xid % 7 == 3 or xid % 64 in (8, 9, 10, 11)]
    log = commit_log_between(oldest, next_xid, np.array(failed, np.int64), 1)
    for xid in range(max(oldest, 3), next_xid):
        assert log.is_committed(xid & 0xFFFFFFFF) == (xid not in failed)
    assert not log.is_committed(next_xid + 100 & 0xFFFFFFFF)
    with pytest.raises(CatalogError, match="could not read the status"):
        log.is_committed(oldest - 5 & 0xFFFFFFFF)
