"""The last transaction of a window, as far as it is known without decoding it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from headwater.errors import PluginError
from headwater.pipeline.windows.driver_messages import WantedMessages
from headwater.pipeline.windows.last_transaction import (
    MANY,
    UNTOLD,
    changes_in_mind,
    last_changes,
    require_told,
    with_changes,
)
from headwater.plugins.api import WANT_ALL, WANT_INSERT
from headwater.reorder.announced_schemas import NOTHING_REMEMBERED
from headwater.reorder.plan import Plan, RelationUse
from headwater.reorder.slices.changes import candidate_rows, choose
from headwater.reorder.slices.resolve import wanted_kinds
from headwater.rmgr.index.wal_index import Request
from unit.reorder.plain_reorder import PlainRelation
from unit.reorder.sliced import MAJOR, Sliced, index_parts
from unit.rmgr import plain_records as plain

TABLE, OTHER = 20000, 20002
INSERT, OTHER_INSERT, UPDATE = plain.insert(700, TABLE), plain.insert(700, OTHER), plain.update(700, TABLE)
SPECULATIVE = plain.insert(700, TABLE, flags=4 | 8)
UPSERT = SPECULATIVE, plain.confirm(700, TABLE)
GIVEN_UP = SPECULATIVE, plain.delete(700, TABLE, super_delete=True)
MESSAGE = plain.message(700, b"m")


def message_count(records: list[bytes], wants: int = WANT_ALL, may_leave_out: bool = False) -> int | None:
    """Count the messages of the last transaction of these records, which commits: 0, 1, MANY or UNTOLD."""
    made = plain.frames(records)
    index = index_parts(made, 1, Request((plain.DATABASE,), (), MAJOR))

    def resolve(file: int, _committed: int, _own: int) -> PlainRelation:
        return PlainRelation(file, wants, file, 0, False)

    sliced = Sliced(made, index, resolve, frozenset(), False)
    plan = sliced.plan()
    rows, txns = index.rows, sliced.txns
    candidates = candidate_rows(rows, txns, np.ones(len(txns.xid), np.bool_), lambda _origin: False)
    uses = [RelationUse(use.schema, wants) for use in plan.relations]
    resolution = np.zeros(len(candidates.at), np.int64)
    choice = choose(rows, candidates, resolution, uses, len(txns.xid))
    kinds = wanted_kinds(np.full(len(candidates.at), wants, np.int64))
    messages = rows.messages
    wanted_messages = WantedMessages(np.where(messages.transactional, txns.txn_of(messages.owner), -1), messages)
    return last_changes(rows, candidates, choice, kinds, wanted_messages, plan.units, may_leave_out=may_leave_out)


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ([INSERT], 1),
        ([UPDATE], 1),
        ([INSERT, INSERT], MANY),
        ([INSERT, OTHER_INSERT], MANY),
        ([INSERT, MESSAGE], MANY),
        ([MESSAGE], 1),
        ([MESSAGE, MESSAGE], MANY),
        ([plain.multi_insert(700, TABLE, 1)], 1),
        ([plain.multi_insert(700, TABLE, 3)], MANY),
        ([*UPSERT], 1),
        ([*UPSERT, *UPSERT], MANY),
        ([*UPSERT, INSERT], MANY),
        ([*GIVEN_UP, *UPSERT], 1),
    ],
)
def test_changes_and_messages_are_counted(records: list[bytes], expected: int) -> None:
    before = [plain.insert(701, TABLE), plain.insert(701, TABLE), plain.commit(701)]
    assert message_count([*before, *records, plain.commit(700)]) == expected


def test_what_is_left_out_makes_it_uncertain() -> None:
    assert message_count([INSERT, UPDATE, plain.commit(700)], WANT_INSERT) == UNTOLD
    assert message_count([INSERT, UPDATE, OTHER_INSERT, plain.commit(700)], WANT_INSERT) == MANY
    assert message_count([UPDATE, UPDATE, plain.commit(700)], WANT_INSERT) == 0
    assert message_count([INSERT, MESSAGE, plain.commit(700)], may_leave_out=True) == UNTOLD
    assert message_count([MESSAGE, plain.commit(700)], may_leave_out=True) == 1


def test_a_window_without_transactions_says_nothing() -> None:
    assert message_count([plain.message(0, b"bare", transactional=False)]) is None


def test_what_is_known_goes_from_window_to_window() -> None:
    assert changes_in_mind(NOTHING_REMEMBERED) == 0
    assert changes_in_mind(with_changes(with_changes(NOTHING_REMEMBERED, 1), MANY)) == MANY


def _plan(records: list[bytes]) -> Plan:
    made = plain.frames(records)
    index = index_parts(made, 1, Request((plain.DATABASE,), (), MAJOR))
    return Sliced(made, index, lambda *_: PlainRelation(TABLE, WANT_ALL, TABLE, 0, False), frozenset(), False).plan()


def test_a_message_that_is_first_must_know() -> None:
    bare = plain.message(0, b"bare", transactional=False)
    units = _plan([bare, INSERT, plain.commit(700)]).units
    require_told(MANY, units)
    require_told(UNTOLD, _plan([INSERT, plain.commit(700), bare]).units)
    with pytest.raises(PluginError, match="depends on the transaction before it") as raised:
        require_told(UNTOLD, units)
    assert raised.value.lsn == units.commit_lsn[0]
    require_told(UNTOLD, replace(units, txn=units.txn[:0]))
