"""PostgreSQL's own regression scripts of test_decoding as a workload: psql runs them, and walsenders tell of them.

The scripts are PostgreSQL's and no part of this project: ``tools/fetch_regression_scripts.py`` has put them beside the
servers. What they print is not looked at; what a server's plugins say of their WAL is. psql is given a script piece by
piece, as walsenders must have caught up before anything is rolled back. All scripts of a major run on one server.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Timer
from typing import IO, Any

import psycopg

from headwater.base.cache_places import server_cache
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.local_servers.server_programs import find_client
from oracle.isolation_spec import IsolationSpec, SpecRun
from oracle.streamed_runs import Run, Streams, run_live
from oracle.streams import (
    PGOUTPUT,
    STREAMED,
    TEST_DECODING,
    TWO_PHASE,
    Options,
    is_said_by,
    newest_streaming,
    plugin_of,
)

SCRIPTS_OF = {14: 15, 15: 15, 16: 15, 17: 17, 18: 18, 19: 18}
"""Whose scripts a major is given: Debian has no sources of the others."""

EVERYTHING = "everything"
PUBLISHED: Mapping[str, str] = {"inserts": "WITH (publish = 'insert, truncate')", EVERYTHING: ""}
"""Options of the publication of all tables: where updates are published, tables without identity refuse them."""

PSQL_MAJOR = 16
SCRIPT = "regression script"
"""Prefix of the messages that say which script begins."""

LEFT_OUT = "test_empty_transaction"
"""What is in a paragraph that older servers are not given: they tell of prepared transactions without changes, at which
test_decoding of 18.4 crashes (a known gap: prepared_without_changes)."""

WHOLE_SINCE = {17: 11, 18: 6}
"""The minor releases since which they are."""

_WAITS = re.compile(r"^\s*(rollback\b|abort\b|begin\b[^;]*;|vacuum\b|cluster\b|reindex\b)", re.IGNORECASE)
"""Before which walsenders catch up: what they have not read yet would not be streamed, or catalogs would be locked that
they look into, and the two wait for each other."""

_PATIENCE_SECONDS = 120
_DOLLAR_QUOTE = re.compile(r"\$\w*\$")
_SETTINGS = "-c lc_messages=C -c DateStyle=Postgres,MDY -c TimeZone=PST8PDT -c IntervalStyle=postgres_verbose"


def scripts_of(major: int) -> Path | None:
    """Return the folder of the scripts that a major is given, None if they have not been fetched."""
    folder = server_cache() / "sources" / str(SCRIPTS_OF[major]) / "contrib" / "test_decoding"
    return folder if folder.is_dir() else None


def asked(major: int, published: str = "") -> Streams:
    """List what walsenders are asked for: asked at the end, slots would not find catalogs that scripts have rewritten.

    Where everything is published, statements fail that would not, and their transactions are rolled back before
    anybody could wait for walsenders: what these had streamed by then is not to be known.
    """
    streamed = (*newest_streaming(major), ("publication_names", "pub_all"), ("messages", "true"))
    whole = tuple(option for option in streamed if option[0] != "streaming")
    streams: dict[str, Options] = {
        "test_decoding": (),
        "test_decoding, more": TEST_DECODING["test_decoding, more"],
        f"test_decoding, {TWO_PHASE}": (),
        f"test_decoding, {STREAMED}": (("stream-changes", "1"),),
        f"test_decoding, {STREAMED}, {TWO_PHASE}": (("stream-changes", "1"), ("skip-empty-xacts", "1")),
        "pgoutput, all": PGOUTPUT["pgoutput, all"],
        f"pgoutput, {STREAMED}": (*streamed, ("binary", "true")),
        f"pgoutput, {TWO_PHASE}": (*whole, ("two_phase", "on")),
        f"pgoutput, {STREAMED}, {TWO_PHASE}": (*streamed, ("two_phase", "on")),
    }
    chosen = [(name, options) for name, options in streams.items() if published != EVERYTHING or STREAMED not in name]
    return {name: (plugin_of(name), options) for name, options in chosen if is_said_by(name, major)}


def run_scripts(major: int, scripts: Path, published: str, directory: Path) -> Run:
    """Run all scripts and specs.

    Args:
        major: PostgreSQL's.
        scripts: their folder.
        published: a key of :data:`PUBLISHED`.
        directory: where files are left.
    """

    def work(server: EmbeddedPostgres, read_all: Callable[[], object]) -> None:
        def catch_up() -> None:
            # A script that has locked catalogs goes on as it is.
            with suppress(psycopg.errors.LockNotAvailable):
                read_all()

        with server.connect() as connection:
            for path in sorted(scripts.glob("sql/*.sql")):
                _begin(connection, path)
                run_script(server, path, catch_up, directory / f"{path.stem}.out")
            for path in sorted(scripts.glob("specs/*.spec")):
                _begin(connection, path)
                run_spec(server, path, catch_up)

    setup = [f"CREATE PUBLICATION pub_all FOR ALL TABLES {PUBLISHED[published]}"]
    return run_live(major, directory, setup, asked(major, published), work)


def _begin(connection: psycopg.Connection[Any], script: Path) -> None:
    connection.execute("SELECT pg_logical_emit_message(false, %s, %s)", [SCRIPT, script.name])


def run_script(server: EmbeddedPostgres, script: Path, catch_up: Callable[[], object], printed: Path) -> None:
    """Let psql run a script to its end, whatever of it fails.

    Raises:
        OSError: psql has not come to the end.
    """
    psql = find_client("psql", PSQL_MAJOR)
    assert psql is not None
    environment = server.client_environment() | {"PGOPTIONS": _SETTINGS}
    with (
        printed.with_suffix(".err").open("w") as errors,
        subprocess.Popen(
            [str(psql), "-X", "-q", "-o", str(printed)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            cwd=printed.parent,
            env=environment,
            text=True,
        ) as process,
        ExitStack() as stack,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        stack.callback(_killed_after(process, _PATIENCE_SECONDS).cancel)
        quote = ""
        for number, line in enumerate(_lines(server, script)):
            if not quote and _WAITS.match(line):
                _wait_for(process.stdin, process.stdout, f"before line {number}")
                catch_up()
            process.stdin.write(line)
            for tag in _DOLLAR_QUOTE.findall(line):
                quote = "" if tag == quote else quote or tag
        _wait_for(process.stdin, process.stdout, "the end of the script")
        process.stdin.close()


def _killed_after(process: subprocess.Popen[str], seconds: float) -> Timer:
    timer = Timer(seconds, process.kill)
    timer.start()
    return timer


def _lines(server: EmbeddedPostgres, script: Path) -> list[str]:
    text = script.read_text()
    if LEFT_OUT in text:
        with server.connect() as connection:
            version = connection.info.server_version
        if version % 10000 < WHOLE_SINCE.get(version // 10000, 0):
            text = "\n\n".join(part for part in text.split("\n\n") if LEFT_OUT not in part)
    return text.splitlines(keepends=True)


def _wait_for(stdin: IO[str], stdout: IO[str], mark: str) -> None:
    """Wait until psql has done all that it was given."""
    stdin.write(f"\\echo {mark}\n")
    stdin.flush()
    for line in stdout:
        if line == f"{mark}\n":
            return
    raise OSError("psql ended before its script")


def run_spec(server: EmbeddedPostgres, path: Path, catch_up: Callable[[], object]) -> None:
    """Run all permutations of a spec."""

    def before_step(statements: str) -> None:
        if _WAITS.match(statements):
            catch_up()

    def connect(name: str) -> psycopg.Connection[Any]:
        return server.connect(application_name=name)

    SpecRun(path.stem, connect, before_step).run(IsolationSpec.parse(path.read_text()))
