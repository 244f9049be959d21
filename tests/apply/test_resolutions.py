"""Rules for conflicts: each kind with each action, whoever was first, and what ``headwater.conflicts`` has of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from apply.target_pairs import OURS, SOURCE, Pair, pair_of
from headwater.apply.incoming.conflict_rules import ConflictRules
from headwater.apply.worker import ApplyWorker
from headwater.errors import TargetError, UsageError
from packaged_servers import is_packaged

pytestmark = pytest.mark.server

FILL = "INSERT INTO s.{0} SELECT g, g, 'fill' FROM generate_series({1}, {1} + 29) g"


@dataclass(frozen=True)
class Met:
    """A conflict.

    Attributes:
        local, remote: what leads to it, of a table; applied, kept: rows where the remote change, or local row, wins.
        merged: rows where the function ``merge`` decides; None where that keeps the local ones.
    """

    local: str
    remote: str
    applied: tuple[str, ...]
    kept: tuple[str, ...]
    merged: tuple[str, ...] | None = None


BASE, OTHER = "(1,1,base)", "(2,2,base)"
CONFLICTS = {
    "insert_exists": Met(
        "INSERT INTO s.{} VALUES (10, 11, 'local')",
        "INSERT INTO s.{} VALUES (10, 10, 'remote')",
        (BASE, "(10,10,remote)", OTHER),
        (BASE, "(10,11,local)", OTHER),
        (BASE, "(10,11,local+remote)", OTHER),
    ),
    "update_exists": Met(
        "INSERT INTO s.{} VALUES (10, 10, 'local')",
        "UPDATE s.{} SET n = 10, v = 'remote' WHERE id = 1",
        ("(1,10,remote)", OTHER),
        (BASE, "(10,10,local)", OTHER),
        ("(1,1,local+remote)", OTHER),
    ),
    "multiple_unique_conflicts": Met(
        "INSERT INTO s.{} VALUES (10, 11, 'local'), (12, 10, 'local')",
        "INSERT INTO s.{} VALUES (10, 10, 'remote')",
        (BASE, "(10,10,remote)", OTHER),
        (BASE, "(10,11,local)", "(12,10,local)", OTHER),
        (BASE, "(10,11,local+remote)", OTHER),
    ),
    "update_origin_differs": Met(
        "UPDATE s.{} SET v = 'local' WHERE id = 1",
        "UPDATE s.{} SET v = 'remote' WHERE id = 1",
        ("(1,1,remote)", OTHER),
        ("(1,1,local)", OTHER),
        ("(1,1,local+remote)", OTHER),
    ),
    "delete_origin_differs": Met(
        "UPDATE s.{} SET v = 'local' WHERE id = 1",
        "DELETE FROM s.{} WHERE id = 1",
        (OTHER,),
        ("(1,1,local)", OTHER),
    ),
    "update_missing": Met(
        "BEGIN; TRUNCATE s.{0}; INSERT INTO s.{0} VALUES (2, 2, 'base'); COMMIT",
        "UPDATE s.{} SET v = 'remote' WHERE id = 1",
        ("(1,1,remote)", OTHER),
        (OTHER,),
    ),
    "update_deleted": Met(
        "DELETE FROM s.{} WHERE id = 1",
        "UPDATE s.{} SET v = 'remote' WHERE id = 1",
        ("(1,1,remote)", OTHER),
        (OTHER,),
    ),
    "delete_missing": Met("DELETE FROM s.{} WHERE id = 1", "DELETE FROM s.{} WHERE id = 1", (OTHER,), (OTHER,)),
}
ACTIONS = {
    "apply_remote": "apply_remote",
    "keep_local": "keep_local",
    "last_update_wins": "last_update_wins",
    "first_update_wins": "first_update_wins",
    "merge": "python:apply.decides:merge",
    "local_wins": "python:apply.decides:local_wins",
}


@dataclass(frozen=True)
class Case:
    """A kind of conflict, an action for it, and whether the local change is before the remote one."""

    kind: str
    action: str
    is_early: bool

    @property
    def table(self) -> str:
        """The table of the case."""
        return f"{self.kind}_{self.action}_{'early' if self.is_early else 'late'}"

    @property
    def rule(self) -> str:
        """The rule for it."""
        return f"s.{self.table}:{self.kind}={ACTIONS[self.action]}"

    @property
    def resolution(self) -> str:
        """What is done."""
        if self.action == "merge":
            return "keep_local" if CONFLICTS[self.kind].merged is None else "row"
        if self.action.endswith("update_wins"):
            return "apply_remote" if self.is_early == (self.action == "last_update_wins") else "keep_local"
        return "keep_local" if self.action == "local_wins" else self.action

    @property
    def rows(self) -> tuple[str, ...]:
        """The rows that come of it."""
        met = CONFLICTS[self.kind]
        rows = {"apply_remote": met.applied, "keep_local": met.kept, "row": met.merged or ()}
        return rows[self.resolution]


def _cases() -> Iterator[Case]:
    for kind in CONFLICTS:
        for action in ACTIONS:
            is_missing = kind.endswith("_missing")
            if is_missing and action.endswith("update_wins"):
                continue
            if kind == "delete_missing" and action == "apply_remote":
                continue
            yield Case(kind, action, is_early=True)
            if action.endswith("update_wins"):
                yield Case(kind, action, is_early=False)


CASES = tuple(_cases())
WAYS = [(True, False), (False, False), (False, True)]
DAILY = {(18, True, False)}
RUNS = [
    pytest.param(major, *way, marks=[] if (major, *way) in DAILY else [pytest.mark.slow])
    for major in (14, 16, 18, 19)
    if is_packaged(major)
    for way in WAYS
]


@pytest.mark.parametrize(("major", "batches", "binary"), RUNS)
def test_each_kind_with_each_action(major: int, batches: bool, binary: bool) -> None:
    with pair_of(major, track_commit_timestamp="on") as pair:
        slot = begun(pair, [case.table for case in CASES])
        rules = ConflictRules.parse([case.rule for case in CASES], log="both", keeps_deleted_seconds=3600)
        run(pair, slot, batches=batches, binary=binary, conflicts=rules)
        pair.run(OURS, *(CONFLICTS[case.kind].local.format(case.table) for case in CASES if case.is_early))
        for number, case in enumerate(CASES):
            pair.run(SOURCE, f"BEGIN; {FILL.format('filled', number * 100 + 100)}; {_remote(case)}; COMMIT")
        pair.run(OURS, *(CONFLICTS[case.kind].local.format(case.table) for case in CASES if not case.is_early))
        lines = run(pair, slot, batches=batches, binary=binary, conflicts=rules)
        rows = pair.rows(OURS)
        assert {case.table: tuple(rows[f"s.{case.table}"]) for case in CASES} == {
            case.table: case.rows for case in CASES
        }
        assert len(rows["s.filled"]) == 30 * len(CASES) + 2
        noted = pair.run(OURS, "SELECT DISTINCT relname, kind, resolution FROM headwater.conflicts ORDER BY 1")
        assert noted == sorted((case.table, case.kind, case.resolution) for case in CASES)
        assert sum("conflict detected on relation" in line for line in lines) == len(CASES)
        ((counted,),) = pair.run(OURS, "SELECT confl_insert_exists FROM headwater.stat_subscription_stats")
        assert counted == sum(case.kind == "insert_exists" for case in CASES)


def test_errors_and_what_is_noted_of_them() -> None:
    with pair_of(16, track_commit_timestamp="on") as pair:
        slot = begun(pair, ["a"])
        run(pair, slot)
        pair.run(OURS, "UPDATE s.a SET v = 'local' WHERE id = 1", "DELETE FROM s.a WHERE id = 2")
        pair.run(SOURCE, "BEGIN; UPDATE s.a SET v = 'remote'; COMMIT")
        given = (["update_origin_differs=error"], ["update_origin_differs=apply_remote", "update_missing=error"])
        for texts in given:
            rules, kind = ConflictRules.parse(texts, log="both"), texts[-1].removesuffix("=error")
            for _ in range(2):
                with pytest.raises(TargetError, match=f"conflict={kind}") as refused:
                    run(pair, slot, conflicts=rules)
                assert refused.value.sqlstate == "40001"
        assert pair.rows(OURS)["s.a"] == ["(1,1,local)"]
        noted = pair.run(
            OURS,
            "SELECT kind, resolution, local_row ->> 'v', remote_row ->> 'v', key ->> 'id' FROM headwater.conflicts "
            "ORDER BY id",
        )
        assert noted == [
            ("update_origin_differs", "error", "local", "remote", "1"),
            ("update_missing", "error", None, "remote", "2"),
        ]
        counts = pair.run(
            OURS,
            "SELECT apply_error_count, confl_update_origin_differs, confl_update_missing "
            "FROM headwater.stat_subscription_stats",
        )
        assert counts == [(4, 4, 2)]
        with pytest.raises(TargetError, match="has answered 'perhaps'") as refused:
            run(pair, slot, conflicts=ConflictRules.parse(["update_origin_differs=python:apply.decides:wrong"]))
        assert refused.value.sqlstate == "39000"


def test_a_rule_that_cannot_be_followed() -> None:
    with pair_of(16) as pair:
        slot = begun(pair, ["a"])
        for rule, text in (
            ("insert_exists=last_update_wins", "track_commit_timestamp = on"),
            ("update_origin_differs=keep_local", "track_commit_timestamp = on"),
            ("s.none:insert_exists=keep_local", 'table "s.none", which the target does not have'),
        ):
            with pytest.raises(UsageError, match=text):
                run(pair, slot, conflicts=ConflictRules.parse([rule]))
        assert pair.rows(OURS)["s.a"] == []


def begun(pair: Pair, tables: list[str]) -> str:
    """Make tables on both sides, and a slot before their first rows; return the slot."""
    tables = [*tables, "filled"]
    definitions = [f"CREATE TABLE s.{table} (id int PRIMARY KEY, n int UNIQUE, v text)" for table in tables]
    for database in (SOURCE, OURS):
        pair.run(database, "CREATE SCHEMA s", *definitions)
    pair.run(SOURCE, "CREATE PUBLICATION p FOR ALL TABLES")
    _, slot = pair.slots()
    pair.run(SOURCE, *(f"INSERT INTO s.{table} VALUES (1, 1, 'base'), (2, 2, 'base')" for table in tables))
    return slot


def run(pair: Pair, slot: str, **options: object) -> list[str]:
    """Apply all that there is; return what is told."""
    lines: list[str] = []
    ApplyWorker(pair.request(slot, "p", **options), lambda _: None, lines.append).run()
    return lines


def _remote(case: Case) -> str:
    return CONFLICTS[case.kind].remote.format(case.table)


def test_what_was_met_before_an_error() -> None:
    """Conflicts of what was applied are told of once, those of what was rolled back each time."""
    with pair_of(18) as pair:
        slot = begun(pair, ["a", "b"])
        run(pair, slot)
        constraint = "ALTER TABLE s.b ADD CONSTRAINT b_n_check CHECK (v <> 'no')"
        pair.run(OURS, "DELETE FROM s.a", constraint, "INSERT INTO s.b VALUES (7, -7, 'own')")
        pair.run(SOURCE, "UPDATE s.a SET v = 'applied' WHERE id = 1")
        pair.run(SOURCE, "BEGIN; DELETE FROM s.a WHERE id = 1; UPDATE s.b SET v = 'no'; COMMIT")
        lines: list[str] = []
        for _ in range(2):
            with pytest.raises(TargetError, match="check"):
                ApplyWorker(pair.request(slot, "p"), lambda _: None, lines.append).run()
        pair.run(OURS, "ALTER TABLE s.b DROP CONSTRAINT b_n_check")
        pair.run(SOURCE, "BEGIN; DELETE FROM s.a WHERE id = 2; INSERT INTO s.b VALUES (7, 7, 'new'); COMMIT")
        with pytest.raises(TargetError, match="conflict=insert_exists"):
            ApplyWorker(pair.request(slot, "p"), lambda _: None, lines.append).run()
        kinds = [line.partition("conflict=")[2].split()[0] for line in lines if "conflict=" in line]
        assert kinds == ["update_missing", *["delete_missing"] * 4]


def test_a_role_that_may_not_look() -> None:
    """The error is the server's own, as before 18."""
    with pair_of(18) as pair:
        slot = begun(pair, ["a"])
        pair.run(
            OURS, "INSERT INTO s.a VALUES (2, 7, 'own')", "CREATE ROLE applier LOGIN", "REVOKE ALL ON s.a FROM public"
        )
        functions = (
            "pg_replication_origin_oid",
            "pg_replication_origin_create",
            "pg_replication_origin_session_setup",
            "pg_replication_origin_progress",
            "pg_replication_origin_xact_setup",
        )
        pair.run(
            OURS,
            "GRANT SET ON PARAMETER session_replication_role TO applier",
            *(f"GRANT EXECUTE ON FUNCTION {function} TO applier" for function in functions),
            f"GRANT CREATE ON DATABASE {OURS} TO applier",
            "GRANT USAGE ON SCHEMA s TO applier",
            "GRANT INSERT ON ALL TABLES IN SCHEMA s TO applier",
        )
        target = pair.place(OURS, "applier")
        with pytest.raises(TargetError, match='unique constraint "a_pkey"') as refused:
            run(pair, slot, target=target, run_as_owner=True)
        assert refused.value.sqlstate == "23505"
