"""Rules for conflicts as they are given, and what decides between two times."""

from __future__ import annotations

import pytest

from headwater.apply.conflicts.decisions import Nodes, is_remote_later
from headwater.apply.conflicts.wording import Writer
from headwater.apply.incoming.conflict_kinds import Action, Kind
from headwater.apply.incoming.conflict_rules import ConflictRules
from headwater.errors import UsageError

WRONG = {
    "malformed": ["insert_exists"],
    "unknown kind": ["insert_missing=error"],
    "unknown action": ["insert_exists=skip"],
    "contradict|two rules": ["t:insert_exists=error", "public.t:insert_exists=keep_local"],
    "no local row": ["update_missing=last_update_wins"],
    "nothing to apply": ["delete_missing=apply_remote"],
    "without --retain-deleted": ["update_deleted=keep_local"],
    "cannot load": ["insert_exists=python:apply.decides:none"],
    "is no function": ["insert_exists=python:apply.decides"],
}
MICROSECOND_AFTER_2000 = 1


@pytest.mark.parametrize("text", WRONG)
def test_rules_that_are_wrong(text: str) -> None:
    with pytest.raises(UsageError, match=text):
        ConflictRules.parse(WRONG[text])


def test_times_are_not_known_at_prepare() -> None:
    with pytest.raises(UsageError, match="at PREPARE"):
        ConflictRules.parse(["insert_exists=first_update_wins"], two_phase=True)


def test_a_rule_of_a_table_comes_first() -> None:
    rules = ConflictRules.parse(["insert_exists=keep_local", "s.t:insert_exists=apply_remote"])
    assert rules.rule("s.t", Kind.INSERT_EXISTS).action == Action.APPLY_REMOTE
    assert rules.rule("s.other", Kind.INSERT_EXISTS).action == Action.KEEP_LOCAL
    assert not rules.rule("s.t", Kind.UPDATE_MISSING).is_given


@pytest.mark.parametrize(
    ("time", "own", "source", "is_later"),
    [
        ("2000-01-01 00:00:00.000002+00", "1/5", "2/5", False),
        ("2000-01-01 00:00:00+00", "2/5", "1/5", True),
        ("2000-01-01 01:00:00.000001+01", "1/5", "2/5", True),
        ("2000-01-01 01:00:00.000001+01", "2/5", "1/5", False),
        (None, "2/5", "1/5", True),
    ],
)
def test_which_is_later(time: str | None, own: str, source: str, is_later: bool) -> None:
    assert is_remote_later(Writer(7, time, 0, None), MICROSECOND_AFTER_2000, Nodes(own, source, {})) == is_later


def test_the_node_of_another_subscription() -> None:
    nodes = Nodes("5/1", "3/1", {"headwater_from_c": "4/1"})
    writer = Writer(7, "2000-01-01 00:00:00.000001+00", 9, "headwater_from_c")
    assert not is_remote_later(writer, MICROSECOND_AFTER_2000, nodes)
    assert is_remote_later(writer, MICROSECOND_AFTER_2000, Nodes("1/1", "5/1", nodes.by_origin))
