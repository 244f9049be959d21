"""Rules for what comes in: as they are written, what is refused before the first row, and what becomes of rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from apply.target_pairs import OURS, SOURCE, Pair, pair_of
from headwater.apply.batches.batch_applier import BatchCounts
from headwater.apply.incoming.map_rules import MapRules, TableName, read_rules
from headwater.apply.incoming.requests import ApplyRequest
from headwater.apply.worker import ApplyWorker
from headwater.errors import HeadwaterError, TargetError, UsageError

SOURCE_TABLES = (
    "CREATE TABLE s.a (id int PRIMARY KEY, note text, n numeric, mood text)",
    "CREATE TABLE s.b (id int PRIMARY KEY, note text)",
    'CREATE TABLE s."Odd one" ("Id" int PRIMARY KEY, note varchar(20))',
    "CREATE TABLE s.whole (k int, y text)",
    "ALTER TABLE s.whole REPLICA IDENTITY FULL",
)


@pytest.fixture(scope="module", params=[16, *(pytest.param(major, marks=pytest.mark.slow) for major in (14, 18))])
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    with pair_of(request.param) as servers:
        yield servers


def _tables(pair: Pair, target: tuple[str, ...] | None = None) -> None:
    for database, statements in ((SOURCE, SOURCE_TABLES), (OURS, SOURCE_TABLES if target is None else target)):
        pair.run(database, "DROP SCHEMA IF EXISTS s CASCADE", "CREATE SCHEMA s", *statements)


def _request(pair: Pair, rules: MapRules, **options: Any) -> ApplyRequest:
    """Make a slot and its publication, behind which work is done."""
    number = next(pair.numbers)
    pair.run(
        SOURCE,
        f"CREATE PUBLICATION p_{number} FOR ALL TABLES",
        f"SELECT pg_create_logical_replication_slot('maps_{number}', 'pgoutput')",
    )
    return pair.request(f"maps_{number}", f"p_{number}", maps=rules, **options)


def _apply(pair: Pair, request: ApplyRequest) -> BatchCounts:
    """Apply all that there is, and let go of the slot; return how many batches there were."""
    try:
        worker = ApplyWorker(_ending(request, pair.end()), lambda _: None)
        worker.run()
        return worker.batches
    finally:
        (publication,) = request.slot.publications
        pair.run(SOURCE, f"DROP PUBLICATION {publication}", f"SELECT pg_drop_replication_slot('{request.slot.slot}')")


def _ending(request: ApplyRequest, end: int) -> ApplyRequest:
    return replace(request, end=end)


@pytest.mark.parametrize(
    ("rules", "text"),
    [
        ({"renames": ["a=b"]}, "--rename a=b: that is no rename"),
        ({"renames": ["a.b=c.d.e"]}, "that is no rename"),
        ({"renames": ["a.*=b.c"]}, "that is no rename"),
        ({"renames": ["a.b=c.d", "a.b=c.e"]}, "--rename a.b=c.d and --rename a.b=c.e contradict each other"),
        ({"renames": ["a.*=c.*", "A.*=d.*"]}, "contradict each other"),
        ({"renames": ["a.b.c=x", "a.b.d=x"]}, "contradict each other"),
        ({"renames": ["a.b.c=x"], "excluded": ["a.b.c"]}, "contradict each other"),
        ({"masks": ["a.b.c=null", "a.b.c=literal:x"]}, "--mask a.b.c=null and --mask a.b.c=literal:... contradict"),
        ({"masks": ["a.b.c=null"], "excluded": ["a.b.c"]}, "contradict each other"),
        ({"masks": ["a.b.c=secret"]}, "there is no such mask"),
        ({"masks": ["a.b.c=keep-last:x"]}, "there is no such mask"),
        ({"masks": ["a.b.c=sha256"]}, "--mask a.b.c=sha256 needs a secret"),
        ({"masks": ["a.b=null"]}, "no column is named"),
        ({"excluded": ["a.b"]}, "no column is named"),
        ({"left_out": ["b"]}, "that is no table"),
        ({"left_out": ["a.b*"], "renames": ["a.b1=c.d"]}, "contradict each other"),
        ({"conditions": ["a.b x > 1"]}, "that is no condition"),
        ({"conditions": ["a.b: x > 1", "a.b: x > 2"]}, "contradict each other"),
        ({"renames": ["a." + 64 * "x" + "=c.d"]}, "longer than any"),
    ],
)
def test_rules_that_are_none(rules: dict[str, Any], text: str) -> None:
    with pytest.raises(UsageError) as refused:
        read_rules(**rules)
    assert text in str(refused.value)


def test_names() -> None:
    rules = read_rules(
        renames=["Shop.Orders=new.orders", 'shop.*="Other".*', '"Shop"."A.b=c"=x.y', "shop.a.b=C"],
        left_out=["shop.log_?", '"Shop".b*'],
    )
    targets = {name: str(rules.target(TableName("shop", name))) for name in ("orders", "items", "Orders")}
    assert targets == {"orders": "new.orders", "items": "Other.items", "Orders": "Other.Orders"}
    assert str(rules.target(TableName("Shop", "A.b=c"))) == "x.y"
    assert [rules.leaves_out(TableName("shop", name)) for name in ("log_1", "log_12", "log")] == [True, False, False]
    assert rules.leaves_out(TableName("Shop", "bx"))
    assert rules.columns[0].value == "c"
    assert [str(table) for table, _ in rules.sources(TableName("Other", "items"))] == ["shop.items"]
    assert rules.sources(TableName("Other", "orders")) == []


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no table": ({"renames": ["s.none=s.a"]}, '--rename s.none=s.a: table "s.none" is not published'),
    "no schema": ({"renames": ["none.*=s.*"]}, 'no table of schema "none" is published'),
    "no pattern": ({"left_out": ["s.c*"]}, "--exclude-table s.c*: no such table is published"),
    "no column": ({"renames": ["s.a.none=x"]}, 'table "s.a" of the source sends no column "none"'),
    "no masked column": ({"masks": ["s.a.none=null"]}, 'table "s.a" of the source sends no column "none"'),
    "no target": ({"renames": ["s.b=s.none"]}, 'logical replication target relation "s.none" does not exist'),
    "no target column": ({"renames": ["s.b.note=x"]}, 'is missing replicated column: "x"'),
    "same column": ({"renames": ["s.a.note=mood"]}, 'two columns of table "s.a" would be called "mood"'),
    "key left out": ({"excluded": ["s.a.id"]}, "of the key, which may not be left out"),
    "column of a full key": ({"excluded": ["s.whole.y"]}, "FULL, so all columns are of the key"),
    "masked key": ({"masks": ["s.a.id=null"]}, 'column "id" is of the key by which rows are looked up'),
    "literal as key": ({"masks": ["s.a.id=literal:7"]}, "is of the key by which rows are looked up"),
    "hash of a number": ({"masks": ["s.a.n=sha256"]}, "the target's column is of type numeric, expected one of text"),
    "long hash": ({"masks": ['s."Odd one".note=sha256']}, "64 characters do not fit character varying(20)"),
    "literal": ({"masks": ["s.a.n=literal:abc"]}, "its type numeric does not take the text (SQLSTATE 22P02)"),
    "long literal": ({"masks": ['s."Odd one".note=literal:123456789012345678901']}, "21 characters do not fit"),
    "no condition": ({"conditions": ["s.a: id >"]}, "--where s.a: id >: syntax error"),
    "two conditions": ({"conditions": ["s.a: id > 1) WITH (publish = 'insert'"]}, "that is not a condition alone"),
    "another type": ({"conditions": ["s.a: id + 1"]}, "argument of PUBLICATION WHERE must be type boolean"),
    "condition's column": ({"conditions": ["s.a: none > 1"]}, 'column "none" does not exist'),
    "beside the key": ({"conditions": ["s.a: note = 'x'"]}, "is not part of the replica identity of table"),
    "volatile": ({"conditions": ["s.a: id > random()"]}, 'the function "random" in a condition is not supported'),
    "not computed": ({"conditions": ["s.whole: y ~ '[[:alpha:]]+(?=x)'"]}, "--where s.whole"),
    "our schema": ({"renames": ["s.*=headwater.*"]}, 'table "s.a" would come to the schema "headwater"'),
    "shared and copied": ({"renames": ["s.a=s.b"]}, 'tables "s.a" and "s.b" both come to "s.b"'),
}


@pytest.mark.parametrize("case", WRONG)
def test_refused_before_the_first_row(pair: Pair, case: str) -> None:
    given, text = WRONG[case]
    rules = read_rules(**given, secret=b"x")
    _tables(pair)
    request = _request(pair, rules)
    if case == "shared and copied":
        request = replace(request, copies_data=True)
    pair.run(SOURCE, "INSERT INTO s.b VALUES (1, 'row')")
    with pytest.raises(UsageError) as refused:
        _apply(pair, request)
    assert text in str(refused.value)
    assert pair.rows(OURS)["s.b"] == []


def test_tables_under_other_names(pair: Pair) -> None:
    """Two tables come to one; what is left out leaves no trace, in TRUNCATE neither."""
    target = (
        "CREATE TABLE s.all_of_them (id int PRIMARY KEY, text text, n numeric, mood text)",
        "CREATE TABLE s.other (k int, y text)",
        "CREATE TABLE s.here (id int PRIMARY KEY)",
    )
    rules = read_rules(
        renames=["s.a=s.all_of_them", "s.b=s.all_of_them", "s.a.note=text", "s.b.note=text", "s.whole=s.other"],
        left_out=['s."Odd one"'],
    )
    _tables(pair, target)
    request = _request(pair, rules)
    pair.run(
        SOURCE,
        "INSERT INTO s.a VALUES (1, 'a', 1.5, 'm'), (2, 'b', 2, NULL)",
        "INSERT INTO s.b VALUES (11, 'c'), (12, 'd')",
        *(f"UPDATE s.b SET note = note || '{number}' WHERE id = 11" for number in range(20)),
        """INSERT INTO s."Odd one" VALUES (1, 'gone')""",
        "INSERT INTO s.whole VALUES (1, 'x'), (1, NULL)",
        "UPDATE s.whole SET y = 'z' WHERE y IS NULL",
        'TRUNCATE s."Odd one", s.whole',
        'TRUNCATE s."Odd one"',
        "INSERT INTO s.whole VALUES (7, 'behind')",
        "DELETE FROM s.a WHERE id = 2",
    )
    _apply(pair, request)
    rows = pair.rows(OURS)
    long = "c" + "".join(map(str, range(20)))
    assert rows["s.all_of_them"] == ["(1,a,1.5,m)", f"(11,{long},,)", "(12,d,,)"]
    assert rows["s.other"] == ["(7,behind)"]


def test_batches_take_what_is_mapped(pair: Pair) -> None:
    """Other names, columns left out, masks and conditions leave tables foldable."""
    target = ("CREATE TABLE s.other (id text PRIMARY KEY, text text, n numeric)",)
    _tables(pair, target)
    rules = read_rules(
        renames=["s.a=s.other", "s.a.note=text"],
        excluded=["s.a.mood"],
        masks=["s.a.id=hmac-sha256", "s.a.note=keep-last:1"],
        conditions=["s.a: id % 2 = 0"],
        left_out=["s.b", "s.whole", 's."Odd one"'],
        secret=b"x",
    )
    request = _request(pair, rules)
    pair.run(SOURCE, "INSERT INTO s.a VALUES (0)")
    ApplyWorker(_ending(request, pair.end()), lambda _: None).run()
    inserts = "INSERT INTO s.a SELECT g, 'n' || g, g FROM generate_series({}, {}) g"
    pair.run(SOURCE, *(inserts.format(at, at + 9) for at in range(1, 200, 10)))
    worker = ApplyWorker(_ending(request, pair.end()), lambda _: None)
    worker.run()
    pair.run(SOURCE, "UPDATE s.a SET n = n + 1 WHERE id < 100", "DELETE FROM s.a WHERE id > 150")
    for counts in (worker.batches, _apply(pair, request)):
        assert (counts.tried > 0, counts.fallbacks) == (True, 0)
    query = "SELECT repeat('*', length(note) - 1) || right(note, 1), n FROM s.a WHERE id % 2 = 0 ORDER BY id"
    assert sorted(pair.run(OURS, "SELECT text, n FROM s.other"), key=str) == sorted(pair.run(SOURCE, query), key=str)


def test_changes_of_one_row_from_two_tables(pair: Pair) -> None:
    """Their order counts across both tables, in batches, too."""
    target = ("CREATE TABLE s.a (id int PRIMARY KEY, note text, n numeric, mood text)", *SOURCE_TABLES[2:])
    _tables(pair, target)
    request = _request(pair, read_rules(renames=["s.b=s.a"]))
    work = ["INSERT INTO s.a VALUES (1, 'a')", "INSERT INTO s.b VALUES (2, 'b')"]
    pair.run(SOURCE, *work)
    for number in range(20):
        pair.run(
            SOURCE, f"UPDATE s.a SET note = 'a{number}'", f"UPDATE s.b SET id = {number % 2 + 2}, note = 'b{number}'"
        )
    pair.run(SOURCE, "UPDATE s.b SET note = 'last'")
    _apply(pair, request)
    assert pair.rows(OURS)["s.a"] == ["(1,a19,,)", "(3,last,,)"]


def test_errors_name_both_ends(pair: Pair) -> None:
    target = ("CREATE TABLE s.other (id int PRIMARY KEY, words text CHECK (words <> 'bad'))",)
    _tables(pair, target)
    rules = read_rules(
        renames=["s.b=s.other", "s.b.note=words"], left_out=["s.a", "s.whole", 's."Odd one"'], secret=b"x"
    )
    request = _request(pair, rules)
    pair.run(SOURCE, "INSERT INTO s.b VALUES (1, 'bad')")
    with pytest.raises(TargetError) as refused:
        _apply(pair, request)
    assert refused.value.sqlstate == "23514"
    assert 'for replication target relation "s.other" in transaction' in str(refused.value.context)
    assert '"s.other" is table "s.b" of the source, --rename s.b=s.other' in str(refused.value.context)


CONDITIONS = ("s.a: id BETWEEN 2 AND 5", "s.whole: k > 1 AND (y IS NULL OR y LIKE 'k%')")


@pytest.mark.parametrize("batches", [True, False])
def test_rows_come_into_a_condition_and_leave_it(pair: Pair, batches: bool) -> None:
    _tables(pair)
    rules = read_rules(conditions=CONDITIONS)
    request = _request(pair, rules, batches=batches)
    pair.run(
        SOURCE,
        "INSERT INTO s.a SELECT g, 'n' || g, g / 2.0, repeat('m', 10) FROM generate_series(0, 30) g",
        "INSERT INTO s.whole SELECT g % 4, CASE WHEN g % 3 > 0 THEN 'k' || g END FROM generate_series(0, 30) g",
        "UPDATE s.a SET id = id + 100 WHERE id IN (2, 20)",
        "UPDATE s.a SET id = 2 WHERE id = 9",
        "UPDATE s.a SET note = 'changed' WHERE id < 10",
        "DELETE FROM s.a WHERE id IN (4, 7)",
        "UPDATE s.whole SET y = 'other' WHERE y = 'k7'",
        "UPDATE s.whole SET k = k + 1",
        "UPDATE s.whole SET k = -k WHERE k % 4 = 2",
        "DELETE FROM s.whole WHERE y IS NULL AND k > 3",
    )
    _apply(pair, request)
    expected = {
        "s.a": "SELECT x::text FROM s.a x WHERE id BETWEEN 2 AND 5 ORDER BY 1",
        "s.whole": "SELECT x::text FROM s.whole x WHERE k > 1 AND (y IS NULL OR y LIKE 'k%') ORDER BY 1",
    }
    rows = pair.rows(OURS)
    for table, query in expected.items():
        assert rows[table] == [text for (text,) in pair.run(SOURCE, query)]
        assert rows[table]


@pytest.mark.parametrize("batches", [True, False])
def test_a_row_that_a_condition_fails_for(pair: Pair, batches: bool) -> None:
    """What was committed before is applied; the error names the condition."""
    _tables(pair)
    request = _request(pair, read_rules(conditions=["s.a: 10 / id > 1"]), batches=batches)
    pair.run(SOURCE, "INSERT INTO s.a VALUES (5)", "INSERT INTO s.a VALUES (4)")
    pair.run(SOURCE, "INSERT INTO s.a VALUES (2), (0)", "INSERT INTO s.a VALUES (3)")
    with pytest.raises(TargetError) as refused:
        _apply(pair, request)
    assert refused.value.message == "division by zero"
    assert 'row filter of table "s.a" of the source, --where s.a: 10 / id > 1' in str(refused.value.context)
    assert pair.rows(OURS)["s.a"] == ["(4,,,)", "(5,,,)"]


def test_a_value_that_was_not_sent(pair: Pair) -> None:
    _tables(pair)
    pair.run(SOURCE, "ALTER TABLE s.a ALTER note SET STORAGE EXTERNAL")
    request = _request(pair, read_rules(conditions=["s.a: id > 10"]))
    pair.run(SOURCE, "INSERT INTO s.a VALUES (1, repeat('x', 5000))", "UPDATE s.a SET id = 11")
    with pytest.raises(TargetError) as refused:
        _apply(pair, request)
    assert 'value of column "note" was not sent' in refused.value.message


def test_a_table_that_no_longer_fits(pair: Pair) -> None:
    """Rules are checked again when a table is announced in another form."""
    _tables(pair)
    request = _request(pair, read_rules(conditions=["s.a: id > 1"]))
    pair.run(
        SOURCE, "INSERT INTO s.a VALUES (2)", "ALTER TABLE s.a REPLICA IDENTITY NOTHING", "INSERT INTO s.a VALUES (3)"
    )
    pair.run(SOURCE, "ALTER TABLE s.a ADD COLUMN more int")
    worker = ApplyWorker(_ending(request, pair.end()), lambda _: None)
    worker._has_checked = True  # as of a run that began before
    with pytest.raises(HeadwaterError) as refused:
        worker.run()
    assert "is not part of the replica identity" in str(refused.value)
    (publication,) = request.slot.publications
    pair.run(SOURCE, f"DROP PUBLICATION {publication}", f"SELECT pg_drop_replication_slot('{request.slot.slot}')")
    assert pair.rows(OURS)["s.a"] == ["(2,,,)"]


def test_no_secret_on_the_command_line(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"\n")
    from headwater.cli.shared_flags import MapFlags

    with pytest.raises(UsageError, match="is empty"):
        MapFlags(secret_file=str(secret)).rules()
    secret.write_bytes(b"salt\n")
    assert MapFlags(secret_file=str(secret)).rules().secret == b"salt"
    assert "salt" not in repr(MapFlags(secret_file=str(secret)).rules())
