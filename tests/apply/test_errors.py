"""Changes that a target refuses: the same error as the stock worker's, of the same transaction; mended, both go on."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from apply.differential import OURS, STOCK, Differential, Logged, differential, stock_log
from packaged_servers import is_packaged
from serving.service import wait_until

pytestmark = pytest.mark.server

TABLES = (
    "CREATE TABLE t (id int PRIMARY KEY, n int, note text)",
    "CREATE TABLE other (id int PRIMARY KEY)",
    "INSERT INTO t VALUES (1, 1, 'x')",
)


@dataclass(frozen=True)
class Cause:
    """Why the target refuses.

    Attributes:
        breaks: what makes it so, on the target; work: what it refuses; mends: what takes the cause away.
        sqlstate: that it refuses with.
        binary: values are sent in binary form.
    """

    breaks: str
    work: str
    mends: str
    sqlstate: str
    binary: bool = False


INSERT = "INSERT INTO t VALUES (2, 2, 'y')"
CAUSES = {
    "a unique violation": Cause("INSERT INTO t VALUES (2)", INSERT, "DELETE FROM t WHERE id = 2", "23505"),
    "one of an update": Cause(
        "INSERT INTO t VALUES (2)", "UPDATE t SET id = 2 WHERE id = 1", "DELETE FROM t WHERE id = 2", "23505"
    ),
    "a missing table": Cause("ALTER TABLE t RENAME TO gone", INSERT, "ALTER TABLE gone RENAME TO t", "55000"),
    "a missing column": Cause(
        "ALTER TABLE t RENAME note TO gone", INSERT, "ALTER TABLE t RENAME gone TO note", "55000"
    ),
    "two missing columns": Cause(
        "ALTER TABLE t DROP note, DROP n", INSERT, "ALTER TABLE t ADD n int, ADD note text", "55000"
    ),
    "a CHECK": Cause(
        "ALTER TABLE t ADD CONSTRAINT small CHECK (n < 2)", INSERT, "ALTER TABLE t DROP CONSTRAINT small", "23514"
    ),
    "a NOT NULL": Cause(
        "ALTER TABLE t ADD more int NOT NULL DEFAULT 1; ALTER TABLE t ALTER more DROP DEFAULT",
        INSERT,
        "ALTER TABLE t ALTER more SET DEFAULT 1",
        "23502",
    ),
    "a wrong type": Cause(
        "ALTER TABLE t ALTER note TYPE int USING 0", INSERT, "ALTER TABLE t ALTER note TYPE text", "22P02"
    ),
    "no replica identity": Cause(
        "ALTER TABLE t DROP CONSTRAINT t_pkey",
        "UPDATE t SET n = 3 WHERE id = 1",
        "ALTER TABLE t ADD PRIMARY KEY (id)",
        "55000",
    ),
    "a view": Cause(
        "ALTER TABLE t RENAME TO gone; CREATE VIEW t AS SELECT * FROM gone",
        INSERT,
        "DROP VIEW t; ALTER TABLE gone RENAME TO t",
        "42809",
    ),
    "a generated column": Cause(
        "ALTER TABLE t DROP n; ALTER TABLE t ADD n int GENERATED ALWAYS AS (1) STORED",
        INSERT,
        "ALTER TABLE t DROP n; ALTER TABLE t ADD n int",
        "55000",
    ),
    "a trigger": Cause(
        "CREATE FUNCTION fails() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE 'no' USING ERRCODE = 'P0042'; END $$; "
        "CREATE TRIGGER fails BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION fails(); "
        "ALTER TABLE t ENABLE REPLICA TRIGGER fails",
        INSERT,
        "DROP TRIGGER fails ON t",
        "P0042",
    ),
    "a foreign key of a truncated table": Cause(
        "CREATE TABLE points (id int REFERENCES t)", "TRUNCATE t", "DROP TABLE points", "0A000"
    ),
    "a wrong type of binary values": Cause(
        "ALTER TABLE t ALTER n TYPE bigint", INSERT, "ALTER TABLE t ALTER n TYPE int", "08P01", binary=True
    ),
}
MAJORS = (14, 15, 16, 17, 18, 19)
DAILY = 16


def cases() -> Iterator[object]:
    """Give the causes on each major."""
    for major in filter(is_packaged, MAJORS):
        for name in CAUSES:
            marks = [] if major == DAILY else [pytest.mark.slow]
            yield pytest.param(name, major, marks=marks, id=f"{name}-{major}")


class Shared:
    """The pair that causes of a major meet, one after the other; made anew behind one that failed."""

    def __init__(self) -> None:
        self._stack, self._kind = ExitStack(), (0, False)
        self._pair: Differential | None = None

    @contextmanager
    def lent(self, directory: Path, major: int, binary: bool) -> Iterator[Differential]:
        """Lend the pair, with the rows that its tables had first."""
        if self._pair is None or self._kind != (major, binary):
            self.close()
            flags, options = (["--binary"], "binary = true") if binary else ([], "")
            begun = differential(directory, (major, major), TABLES, flags=flags, options=options)
            self._pair, self._kind = self._stack.enter_context(begun), (major, binary)
        # Of rows that the targets have had themselves 18 and later tell, too, before they come to the error.
        self._pair.on_source("TRUNCATE t, other; INSERT INTO t VALUES (1, 1, 'x')")
        try:
            yield self._pair
        except BaseException:
            self._pair = None
            self._stack.__exit__(*sys.exc_info())
            raise

    def close(self) -> None:
        """End it."""
        self._pair = None
        self._stack.close()


@pytest.fixture(scope="module")
def shared() -> Iterator[Shared]:
    shared = Shared()
    yield shared
    shared.close()


@pytest.mark.parametrize(("name", "major"), list(cases()))
def test_the_same_error(shared: Shared, tmp_path_factory: pytest.TempPathFactory, name: str, major: int) -> None:
    cause = CAUSES[name]
    with shared.lent(tmp_path_factory.mktemp("pair"), major, cause.binary) as pair:
        pair.on_source("INSERT INTO other VALUES (1)")
        pair.catch_up(is_clean=False)
        before = len(errors_of_stock(pair)), len(errors_of_ours(pair))
        pair.on_targets(cause.breaks)
        pair.on_source(f"BEGIN; INSERT INTO other VALUES (2); {cause.work}; COMMIT", "INSERT INTO other VALUES (3)")
        end = pair.mark()
        wait_until(lambda: both_have_failed(pair, end, before))
        stock, ours = errors_of_stock(pair)[before[0]], errors_of_ours(pair)[before[1]]
        assert (ours.sqlstate, ours.message) == (stock.sqlstate, stock.message)
        assert stock.sqlstate == cause.sqlstate
        if major >= 15:
            assert ours.context == stock.context
        pair.compare()
        pair.on_targets(cause.mends)
        pair.catch_up(is_clean=False)
        pair.compare()


def both_have_failed(pair: Differential, end: int, before: tuple[int, int]) -> bool:
    """Tell whether both have more errors than before; neither goes on."""
    assert pair.worker.process.poll() is None
    assert max(pair.confirmed(STOCK), pair.confirmed(OURS)) < end
    return len(errors_of_stock(pair)) > before[0] and len(errors_of_ours(pair)) > before[1]


def errors_of_stock(pair: Differential) -> list[Logged]:
    """Return the stock worker's errors."""
    return [without_origin(entry) for entry in stock_log(pair.target) if entry.level == "ERROR"]


def errors_of_ours(pair: Differential) -> list[Logged]:
    """Return those of ours."""
    return [
        without_origin(Logged(at["sqlstate"], "ERROR", at["message"], at["context"]))
        for at in _OURS.finditer(pair.worker.text())
    ]


def without_origin(entry: Logged) -> Logged:
    """Return an entry whose context does not name the origin."""
    return replace(entry, context=re.sub('origin "(pg_[0-9]+|headwater_ours)"', "origin", entry.context))


_OURS = re.compile(
    r"^headwater: (?P<message>.*) \(SQLSTATE (?P<sqlstate>\w{5})\).*\n"
    r"(?:(?!headwater).*\n)*?(?:CONTEXT:  |\t)(?P<context>processing remote data.*)\n",
    re.MULTILINE,
)


ALLOWED = {
    "a deferred constraint": ("ALTER TABLE t ADD CONSTRAINT late UNIQUE (n) DEFERRABLE INITIALLY DEFERRED", 1),
    "a foreign key": ("ALTER TABLE t ADD FOREIGN KEY (n) REFERENCES other", 99),
    "a rule": ("CREATE RULE never AS ON INSERT TO t DO INSTEAD NOTHING", 3),
    "a trigger of local changes": (
        "CREATE FUNCTION never() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$; "
        "CREATE TRIGGER never BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION never()",
        4,
    ),
}


def test_what_neither_refuses(tmp_path: Path) -> None:
    """As of a replica: its constraints that are triggers are not checked, and its rules are off."""
    with differential(tmp_path, (16, 16), TABLES) as pair:
        pair.on_source("INSERT INTO other VALUES (1)")
        pair.catch_up()
        for id, (statement, number) in enumerate(ALLOWED.values(), 10):
            pair.on_targets(statement)
            pair.on_source(f"INSERT INTO t VALUES ({id}, {number}, 'x')")
        pair.catch_up()
        assert len(pair.compare()["t"]) == 1 + len(ALLOWED)
