"""Visibility of versions, against the rule spelled out."""

from __future__ import annotations

from bisect import bisect_left

from hypothesis import given
from hypothesis import strategies as st

from headwater.catalog.versions import (
    FROZEN_XID,
    INVALID_COMMAND_ID,
    NEVER,
    Fates,
    OwnCommands,
    Timeline,
    Version,
    visible_to,
)
from headwater.rmgr.heap import TupleBytes

ROW = TupleBytes(1, 0, 24, b"\0row")
XIDS = st.integers(3, 12)
COMMANDS = st.one_of(st.integers(0, 5), st.just(INVALID_COMMAND_ID))
COMMITS = st.dictionaries(XIDS, st.integers(1, 12))


def version_of(inserter: int, cmin: int, deleters: dict[int, int]) -> Version:
    version = Version(inserter, inserter, ROW)
    version.cmin = cmin
    version.deleters = dict(deleters)
    return version


VERSIONS = st.builds(
    version_of, st.one_of(XIDS, st.just(FROZEN_XID)), COMMANDS, st.dictionaries(XIDS, COMMANDS, max_size=3)
)


def fates_of(commits: dict[int, int], committed_before: frozenset[int] = frozenset()) -> Fates:
    fates = Fates(committed_before.__contains__)
    for xid, lsn in commits.items():
        fates.commit([xid], lsn)
    return fates


@given(st.lists(VERSIONS, max_size=6), COMMITS, st.frozensets(XIDS), st.integers(1, 14))
def test_timeline_is_the_rule_at_every_lsn(
    versions: list[Version], commits: dict[int, int], before: frozenset[int], lsn: int
) -> None:
    fates = fates_of(commits, before)
    timeline = Timeline(versions, fates)
    nobody = OwnCommands(frozenset(), 0)
    expected = {id(version) for version in versions if visible_to(version, lsn, nobody, fates)}
    assert {id(version) for version in timeline.rows[bisect_left(timeline.ends, lsn)]} == expected
    assert timeline.ends == sorted(set(timeline.ends))
    assert timeline.ends[-1] == NEVER


@given(VERSIONS, COMMITS, st.integers(1, 14), st.frozensets(XIDS, max_size=3), st.integers(0, 6))
def test_historic_mvcc(
    version: Version, commits: dict[int, int], lsn: int, own: frozenset[int], command_id: int
) -> None:
    """HeapTupleSatisfiesHistoricMVCC, step by step."""
    fates = fates_of(commits)
    is_inserted = (
        version.cmin < command_id
        if version.inserter in own
        else version.inserter == FROZEN_XID or commits.get(version.inserter, NEVER) < lsn
    )
    is_deleted = False
    for xid, cmax in version.deleters.items():
        if xid in own:
            is_deleted |= cmax != INVALID_COMMAND_ID and cmax < command_id
        else:
            is_deleted |= commits.get(xid, NEVER) < lsn
    assert visible_to(version, lsn, OwnCommands(own, command_id), fates) == (is_inserted and not is_deleted)


def test_commit_in_the_log_overrules_hints_and_clog() -> None:
    fates = Fates({7, 8}.__contains__)
    fates.hint(7)
    fates.hint(9)
    assert [fates.commit_lsn(xid) for xid in (7, 8, 9, 10)] == [0, 0, 0, NEVER]
    fates.commit([7, 8, 9], 100)
    fates.abort([10])
    assert [fates.commit_lsn(xid) for xid in (7, 8, 9, 10)] == [100, 100, 100, NEVER]


def test_a_known_command_is_kept() -> None:
    version = version_of(5, INVALID_COMMAND_ID, {6: 3})
    version.delete(6)
    version.delete(7, 4)
    version.absorb(version_of(5, 2, {6: INVALID_COMMAND_ID, 8: 1}))
    assert (version.cmin, version.deleters) == (2, {6: 3, 7: 4, 8: 1})
