"""Messages of landing when it cannot go on, and what a user did next.

The first table of docs/reference/messages.md, done.

Each story does to a server what its message is about, and runs the commands of its steps. Then the mirror is compared
with the table of the server.
"""

from __future__ import annotations

import re
import shlex
import shutil
import warnings
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

from headwater.cli.commands import cli
from headwater.errors import HeadwaterError
from headwater.lakes.landing_target import LandingTarget
from headwater.lakes.target_directory import Lake
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_programs
from landing.mirrors import columns_by_number, mirror_rows, read_table, server_rows

pytestmark = [pytest.mark.server]

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "messages.md"
TABLE = "CREATE TABLE orders (id int PRIMARY KEY, amount numeric(6,2)); INSERT INTO orders VALUES (1, 1.5)"
LAND = "land --wal {wal} --catalog {backup} --to {lake} --mode current"
PAUSING = f"{LAND} --on-table-error pause"
RELOAD = "lake reload {lake} public.orders --wal {wal} --catalog {backup}"
USED_BEFORE = {"--snapshot never"}
FLAGS = re.compile(r"--[a-z-]+(?: [a-z]+\b)?")


@dataclass(frozen=True)
class Step:
    """Work on the server, and a command behind it.

    Attributes:
        work: statements; command: its words.
        expected: what it says; status: its exit status, None where it raises that.
        backs_up: the command has a backup of behind the work; is_locked: another process lands while it runs.
    """

    work: str = ""
    command: str = LAND
    expected: str = ""
    status: int | None = 0
    backs_up: bool = False
    is_locked: bool = False


@dataclass(frozen=True)
class Story:
    """One row of the page.

    Attributes:
        message: as it begins there; setup: before the first backup; steps: in their order.
        table: what the mirror is of, at the end.
    """

    message: str
    setup: str
    steps: tuple[Step, ...]
    table: str = "orders"


def reloaded(work: str, expected: str, command: str = PAUSING) -> tuple[Step, ...]:
    """List the steps of a table that is paused, and gets its rows from a newer backup."""
    return (
        Step(work, command.replace(" --on-table-error pause", ""), expected, None),
        Step("", command, "is paused", 3),
        Step("INSERT INTO orders (id) VALUES (7)", command, "stays paused", 3, backs_up=True),
        Step("", RELOAD),
    )


NAN = "INSERT INTO orders VALUES (2, 'NaN')"
STORIES = {
    "value": Story(
        'column "amount" of table',
        TABLE,
        (Step(NAN, expected="holds NaN, which", status=None), Step(command=f"{LAND} --on-unrepresentable null")),
    ),
    "paused": Story(
        "table public.orders is paused",
        TABLE,
        (
            Step(NAN, PAUSING, "table public.orders is paused, the others go on: column", 3),
            Step(command="lake resume {lake} public.orders --wal {wal} --catalog {backup} --on-unrepresentable null"),
        ),
    ),
    "attribute": Story(
        "an attribute of",
        "CREATE TYPE size AS (w int, h int); CREATE TABLE orders (id int PRIMARY KEY, of size); "
        "INSERT INTO orders VALUES (1, '(1,2)')",
        reloaded("ALTER TYPE size ADD ATTRIBUTE d int; INSERT INTO orders VALUES (2, '(1,2,3)')", "an attribute of"),
    ),
    "label": Story(
        "a label of",
        "CREATE TYPE mood AS ENUM ('sad'); CREATE TABLE orders (id int PRIMARY KEY, of mood); "
        "INSERT INTO orders VALUES (1, 'sad')",
        reloaded("ALTER TYPE mood RENAME VALUE 'sad' TO 'glad'", "a label of"),
    ),
    "identity": Story(
        'table "public.orders" has no replica identity',
        "CREATE TABLE orders (id int); INSERT INTO orders VALUES (1)",
        (
            Step("UPDATE orders SET id = 2", expected="has no replica identity, and a row of it", status=None),
            Step("ALTER TABLE orders REPLICA IDENTITY FULL", f"{LAND} --exclude public.orders"),
            Step("", f"{LAND} --exclude public.orders", backs_up=True),
            Step("", LAND, "it was excluded until now", 3),
            Step("", RELOAD),
        ),
    ),
    "gone": Story(
        "table public.orders: a row is updated",
        TABLE,
        reloaded("UPDATE orders SET amount = 2", "a row is updated that is not there", f"{PAUSING} --snapshot never"),
    ),
    "columns": Story(
        "table public.orders has other columns",
        TABLE,
        (
            Step(),
            Step(
                "ALTER TABLE orders ADD note text; INSERT INTO orders VALUES (3, 3, 'x')",
                f"{LAND} --schema-evolution fail",
                "has other columns than in the lake: ",
                None,
            ),
            Step(command=f"{LAND} --schema-evolution evolve"),
        ),
    ),
    "replaced": Story(
        'table "public.orders" is another table',
        TABLE,
        (
            Step(),
            Step(
                f"DROP TABLE orders; {TABLE.replace('1.5', '2.5')}",
                f"{LAND} --on-table-replaced error",
                'table "public.orders" is another table from there on',
                None,
            ),
            Step(command=f"{LAND} --on-table-replaced follow"),
        ),
    ),
    "renamed": Story(
        'table "public.orders" is called "public.ordered" now',
        TABLE,
        (
            Step(),
            Step(
                "ALTER TABLE orders RENAME TO ordered; INSERT INTO ordered VALUES (4, 4)",
                LAND,
                'table "public.orders" is called "public.ordered" now, and lands under that name from there on',
            ),
        ),
        "ordered",
    ),
    "databases": Story(
        "the cluster has more than one database",
        f"{TABLE}; CREATE DATABASE second",
        (
            Step(expected="the cluster has more than one database", status=None),
            Step(command=f"{LAND} --database postgres"),
        ),
    ),
    "segment": Story(
        "WAL segment",
        TABLE,
        (
            Step(
                "SELECT pg_switch_wal(); CREATE TABLE more (id int); SELECT pg_switch_wal(); DROP TABLE more",
                LAND.replace("{wal}", "{gap}"),
                '" is missing',
                None,
            ),
            Step(command=f"{LAND.replace('{wal}', '{gap}')} --wal {{wal}}"),
        ),
    ),
    "locked": Story(
        "another process lands",
        TABLE,
        (
            Step(),
            Step(NAN.replace("NaN", "2"), expected="another process lands there", status=None, is_locked=True),
            Step(),
        ),
    ),
}


EVERY_DAY = {"paused", "label", "replaced", "segment", "locked"}


@pytest.fixture
def server() -> Iterator[EmbeddedPostgres]:
    with EmbeddedPostgres(find_programs(16), autovacuum=False, wal_segment_megabytes=1) as running:
        yield running


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    "name", [title if title in EVERY_DAY else pytest.param(title, marks=pytest.mark.slow) for title in STORIES]
)
def test_what_the_page_tells_brings_the_table_back(server: EmbeddedPostgres, tmp_path: Path, name: str) -> None:
    story = STORIES[name]
    work(server, story.setup)
    places = {"wal": server.wal_directory, "lake": tmp_path / "lake", "gap": tmp_path / "gap"}
    places["backup"] = backed_up(server, tmp_path / "backup")
    for number, step in enumerate(story.steps):
        work(server, step.work)
        if step.backs_up:
            places["backup"] = backed_up(server, tmp_path / f"backup {number}")
        if "{gap}" in step.command:
            with_gap(server, places["gap"])
        assert_said(step, places)
    place = places["lake"] / f"public.{story.table}"
    with server.connect() as connection:
        numbers, rows = server_rows(connection, story.table)
    names = columns_by_number(place, "parquet")
    assert mirror_rows(read_table(place, "parquet"), [names[column] for column in numbers]) == rows
    assert sum(rows.values())


def assert_said(step: Step, places: dict[str, Path]) -> None:
    """See that a step's command says what it is to say."""
    words = [word.format(**places) for word in shlex.split(step.command)]
    with ExitStack() as stack:
        if step.is_locked:
            stack.enter_context(Lake(LandingTarget(places["lake"], mode="current")))
        warned = stack.enter_context(warnings.catch_warnings(record=True))
        warnings.simplefilter("always")
        ran = CliRunner().invoke(cli, words)
    output = "\n".join([ran.output, *(str(warning.message) for warning in warned)])
    if step.status is None:
        assert isinstance(ran.exception, HeadwaterError), output
        output = ran.exception.one_line()
    else:
        assert ran.exit_code == step.status, (output, ran.exception)
    assert step.expected in output


def work(server: EmbeddedPostgres, statements: str) -> None:
    """Run statements, each by itself."""
    with server.connect() as connection:
        for statement in filter(None, statements.split("; ")):
            connection.execute(statement)
        connection.execute("CHECKPOINT")


def backed_up(server: EmbeddedPostgres, place: Path) -> Path:
    """Copy the server's files; it runs again then."""
    server.stop()
    server.copy_data_directory(place)
    server.start()
    return place


def with_gap(server: EmbeddedPostgres, place: Path) -> None:
    """Copy an archive without the segment before the present one."""
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(server.wal_directory, place)
    with server.connect() as connection:
        row = connection.execute("SELECT pg_walfile_name(pg_current_wal_lsn() - (1 << 20))").fetchone()
    assert row is not None
    (place / row[0]).unlink()


def page_rows() -> list[tuple[str, str]]:
    """Read the messages of the first table, and what a user did next."""
    lines = PAGE.read_text().split("\n\n|")[1].splitlines()
    cells = [line.split(" | ") for line in lines if "---" not in line][1:]
    return [(message.strip("| `"), following.rstrip("| ")) for message, _, following in cells]


def test_the_page_tells_the_stories() -> None:
    """Each row has one, with the message, and the flags and commands of the steps behind it."""
    rows = page_rows()
    assert len(rows) == len(STORIES)
    for (message, following), story in zip(rows, STORIES.values(), strict=True):
        assert message.startswith(story.message)
        expected = next(step.expected for step in story.steps if step.expected)
        assert expected.partition(": column")[0] in message, (message, expected)
        first = next(number for number, step in enumerate(story.steps) if step.expected)
        commands = [step.command for step in story.steps[first + 1 :]]
        flags = {flag for command in commands for flag in FLAGS.findall(command)} - set(FLAGS.findall(LAND))
        assert all(flag in following for flag in flags - USED_BEFORE), (flags, following)
        for command in {"lake reload", "lake resume"}:
            assert any(line.startswith(command) for line in commands) == (command in following)
