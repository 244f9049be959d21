"""The command on several databases: what it writes, and what it says of requests that cannot be served."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from psycopg import Connection

from bad_input.command import CommandHere
from bad_input.servers import copy_wal, run, small_server
from headwater import DatabaseChoice, DecodeRequest
from headwater.catalog.copy.data_directory import DataDirectory
from headwater.cli.output.database_output import file_name
from headwater.errors import CatalogError
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.pipeline.requests.open_output import OpenOutput
from headwater.pipeline.requests.open_request import open_request
from headwater.pipeline.requests.scope import Scope
from headwater.pipeline.windows.database_fold import DatabaseFold
from headwater.pipeline.windows.databases import ChosenDatabases, may_be_created, warn_of_namesakes
from headwater.pipeline.windows.index_job import IndexTask, index_in_threads
from headwater.pipeline.windows.run_index import Run, WindowBounds
from headwater.pipeline.windows.windows import WalPass
from headwater.rmgr.index.wal_index import Request

pytestmark = [pytest.mark.server]

LINES = ("-o", "include-xids=0", "-o", "skip-empty-xacts=1")


@dataclass(frozen=True)
class Window:
    """A cluster with the databases postgres, a and b/c, and one that is created in the window."""

    backup: Path
    after: Path
    wal: Path

    @property
    def flags(self) -> list[str]:
        """The flags that every command is given."""
        return ["--wal", str(self.wal), "--catalog", str(self.backup), *LINES]


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Window]:
    directory = tmp_path_factory.mktemp("several")
    with small_server(16) as server:
        run(server, "CREATE DATABASE a", 'CREATE DATABASE "b/c"')
        for database in ("postgres", "a", "b/c"):
            run(server, "CREATE TABLE t (id int)", database=database)
        server.stop()
        server.copy_data_directory(directory / "backup")
        server.start()
        run(server, "INSERT INTO t VALUES (1)", database="a")
        run(server, "INSERT INTO t VALUES (2)", database="b/c")
        run(server, "CREATE DATABASE new TEMPLATE a STRATEGY file_copy")
        run(server, "INSERT INTO t VALUES (3)", database="new")
        run(server, "DROP DATABASE a", "CREATE DATABASE a TEMPLATE new")
        run(server, "INSERT INTO t VALUES (4)", database="a")
        server.stop()
        after = server.copy_data_directory(directory / "after")
        yield Window(directory / "backup", after, copy_wal(server, directory / "wal"))


def _insert(number: int) -> bytes:
    return b"BEGIN\ntable public.t: INSERT: id[integer]:%d\nCOMMIT\n" % number


EXPECTED = {"a": _insert(1), "b%2Fc": _insert(2), "new": _insert(3), "postgres": b"", "a again": _insert(4)}


def test_a_file_of_lines_for_each(headwater: CommandHere, window: Window, tmp_path: Path) -> None:
    out = tmp_path / "written" / "{database}.txt"
    out.parent.parent.mkdir(exist_ok=True)
    assert headwater(*window.flags, "--all-databases", "--out", out).check_passed() == b""
    files = {path.name: path.read_bytes() for path in out.parent.iterdir()}
    (again,) = (name for name in files if re.fullmatch(r"a\.\d+\.txt", name))
    files["a again.txt"] = files.pop(again)
    assert files == {f"{name}.txt": lines for name, lines in EXPECTED.items()}
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_part_files_and_parquet_files(headwater: CommandHere, window: Window, tmp_path: Path, spark: Any) -> None:
    names = ["--database", "postgres", "--database", "new"]
    assert headwater(*window.flags, *names, "--out", f"{tmp_path}/parts/").check_passed() == b""
    rows = spark.read.parquet(f"{tmp_path}/parts").where("data LIKE 'table%'").select("database", "data").collect()
    assert [tuple(row) for row in rows] == [
        ("new", "table public.t: INSERT: id[integer]:3"),
    ]
    files = f"{tmp_path}/files/{{database}}.parquet"
    assert headwater(*window.flags, *names, "--out", files).check_passed() == b""
    tables = {path.name: pq.read_table(path).column("data").to_pylist() for path in (tmp_path / "files").iterdir()}
    assert tables == {f"{name}.parquet": EXPECTED[name].decode().splitlines() for name in ("postgres", "new")}


def test_several_outputs_of_each(headwater: CommandHere, window: Window, tmp_path: Path) -> None:
    """Every database is decoded for every output, also one that is created in the window; all of them or none."""
    lines, parts, refused = (tmp_path / name for name in ("lines", "parts", "refused"))
    names = ["--database", "postgres", "--database", "new", "--plugin", "test_decoding", *window.flags[4:]]
    json = ("--plugin", "wal2json", "-o", "format-version=2", "-o", "actions=insert")
    words = [*window.flags[:4], *names, "--out", f"{lines}/{{database}}.txt", *json]
    failed = headwater(*words, "--out", f"{refused}/", "-c", "DateStyle=Julian")
    failed.check_failed(f'output "{refused}/": unsupported value', status=2)
    assert not lines.exists()
    assert not refused.exists()
    assert headwater(*words, "--out", f"{parts}/").check_passed() == b""
    assert {path.name: path.read_bytes() for path in lines.iterdir()} == {
        "postgres.txt": EXPECTED["postgres"],
        "new.txt": EXPECTED["new"],
    }
    rows = [row["data"] for part in (parts / "database=new").iterdir() for row in pq.read_table(part).to_pylist()]
    assert [row.count('"id"') for row in rows if '"I"' in row] == [1]


def test_another_one_of_the_same_name(headwater: CommandHere, window: Window) -> None:
    """By its name alone, the database is meant that the catalog has."""
    run = headwater(*window.flags, "--database", "a")
    assert run.check_warned('another database "a" is created, and not decoded', "--all-databases") == _insert(1)


def test_one_that_is_created_goes_to_standard_output(headwater: CommandHere, window: Window) -> None:
    assert headwater(*window.flags, "--database", "new").check_passed() == _insert(3)


def test_nothing_is_left_of_what_fails(headwater: CommandHere, window: Window) -> None:
    names = ["--database", "b/c", "--database", "nobody"]
    failed = headwater(*window.flags, *names, "--out", f"{headwater.out}/parts/")
    failed.check_failed('database "nobody" does not exist, and the WAL creates none of that name', begun=True)
    assert list(headwater.out.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--all-databases"], 'cannot write several databases to "-"'),
        (
            ["--database", "a", "--database", "b/c", "--out", "x.parquet"],
            'several databases to "x.parquet"',
        ),
        (["--all-databases", "--database", "a", "--out", "x/"], "--all-databases takes the place of --database"),
        (["--all-databases", "--keep-states", ".", "--out", "x/"], "--keep-states is for one database"),
    ],
)
def test_flags_that_do_not_go_together(
    headwater: CommandHere, window: Window, arguments: list[str], expected: str
) -> None:
    headwater(*window.flags, *arguments).check_failed(expected, status=2)


def test_the_plugin_needs_what_each_database_has(headwater: CommandHere, window: Window) -> None:
    """An error names the database."""
    flags = [*window.flags[:4], "--plugin", "pgoutput", "-o", "proto_version=1", "-o", "publication_names=p"]
    several = ["--database", "a", "--database", "b/c", "--out", f"{headwater.out}/parts/"]
    failed = headwater(*flags, *several)
    failed.check_failed('publication "p" does not exist', 'database "', begun=True)


def test_a_pattern_that_matches_a_table_of_one(headwater: CommandHere, window: Window) -> None:
    several = ["--database", "b/c", "--database", "new", "--out", f"{headwater.out}/{{database}}"]
    failed = headwater(*window.flags, *several, "--tables", "public.nothing")
    failed.check_failed('no table matches "public.nothing"', begun=True)
    assert headwater(*window.flags, *several[:4], "--out", f"{headwater.out}/x/", "--tables", "public.t").status == 0


def _passed_over(request: DecodeRequest, names: tuple[str, ...] | None, window_bytes: int = 1 << 30) -> ChosenDatabases:
    """Run a pass; return the databases that it has found."""
    chosen = ChosenDatabases.open([request], DatabaseChoice(names))
    index = partial(index_in_threads, threads=1)
    for _ in WalPass(chosen.first, index, 1, WindowBounds(window_bytes), new_plans=chosen.new_plans):
        pass
    chosen.check_found(chosen.first[0].store)
    return chosen


def _names(chosen: ChosenDatabases) -> list[str]:
    return [plan.opened.store.database_name for plan in chosen.plans]


@pytest.mark.parametrize("window_bytes", [1 << 20, 1 << 30])
def test_what_a_database_is_when_it_is_created_counts(tmp_path: Path, window_bytes: int) -> None:
    """Not what it becomes in the same window; nor is it two where its template has files in two tablespaces."""
    with small_server(16, allow_in_place_tablespaces="on") as server:
        run(server, "CREATE TABLESPACE other LOCATION ''", "CREATE DATABASE two")
        run(server, "CREATE TABLE far (a int) TABLESPACE other", database="two")
        server.stop()
        backup = server.copy_data_directory(tmp_path / "backup")
        server.start()
        run(server, "CREATE DATABASE copied TEMPLATE two STRATEGY file_copy", "CREATE DATABASE t IS_TEMPLATE true")
        run(server, "ALTER DATABASE copied RENAME TO later", "ALTER DATABASE t IS_TEMPLATE false")
        run(server, "VACUUM FREEZE pg_database")
        server.stop()
        request = DecodeRequest(str(copy_wal(server, tmp_path / "wal")), str(backup))
    assert _names(_passed_over(request, None, window_bytes)) == ["postgres", "two", "copied"]
    with pytest.raises(CatalogError, match='it is what the database "copied" was renamed to'):
        _passed_over(request, ("later",), window_bytes)


@pytest.mark.parametrize("window_bytes", [1 << 20, 1 << 30])
def test_an_oid_that_is_used_again(tmp_path: Path, window_bytes: int) -> None:
    """The files of the two databases have the same names."""
    with small_server(16) as server:
        run(server, "CREATE DATABASE first OID 20000")
        server.stop()
        backup = server.copy_data_directory(tmp_path / "backup")
        server.start()
        for _ in range(3):
            run(server, "SELECT pg_logical_emit_message(false, 'x', 'x')", "SELECT pg_switch_wal()")
        run(server, "DROP DATABASE first", "CREATE DATABASE other", "DROP DATABASE other")
        run(server, "CREATE DATABASE second OID 20000")
        server.stop()
        request = DecodeRequest(str(copy_wal(server, tmp_path / "wal")), str(backup))
    for names in (None, ("first",), ("second",)):
        with pytest.raises(CatalogError, match='"second" was created with OID 20000, which another database had'):
            _passed_over(request, names, window_bytes)
    assert _names(_passed_over(request, ("postgres",), window_bytes)) == ["postgres"]
    alone = DatabaseFold([OpenOutput(open_request(replace(request, database="first")), Scope(1 << 20))])
    index = partial(index_in_threads, threads=1)
    with pytest.raises(CatalogError, match='"second" was created with OID 20000'):
        list(WalPass([alone], index, 1, WindowBounds(window_bytes), new_plans=warn_of_namesakes))


@pytest.mark.parametrize("window_bytes", [1 << 20, 1 << 30])
def test_a_template_whose_catalogs_are_rewritten_across_windows(tmp_path: Path, window_bytes: int) -> None:
    """A database that is copied of it joins later, and goes through those windows too."""
    with small_server(16) as server:
        run(server, "CREATE DATABASE mould")
        server.stop()
        backup = server.copy_data_directory(tmp_path / "backup")
        server.start()
        for _ in range(4):
            run(server, "VACUUM FULL pg_attribute", "VACUUM FULL pg_class", "VACUUM FULL pg_proc", database="mould")
        run(server, "CREATE DATABASE copied TEMPLATE mould STRATEGY file_copy")
        server.stop()
        request = DecodeRequest(str(copy_wal(server, tmp_path / "wal")), str(backup))
    assert _names(_passed_over(request, ("copied",), window_bytes)) == ["copied"]


def test_names_that_are_directories() -> None:
    """A database may be called as a directory and the one above it are."""
    assert [file_name("{database}", name) for name in (".", "..", "...")] == ["%2E", "%2E%2E", "..."]
    assert [file_name("", ".."), file_name("{database}.txt", ".")] == ["database=..", "..txt"]


def test_a_database_that_was_being_created_when_the_catalog_was_taken(window: Window) -> None:
    """The record that makes it is of before, its commit of after that moment."""
    request = DecodeRequest(str(window.wal), str(window.backup))
    (plan, *_) = _passed_over(request, ("postgres",)).plans
    for names in (None, ("new", "postgres")):
        chosen = ChosenDatabases.open([request], DatabaseChoice(names))
        with pytest.raises(CatalogError, match="was being created when the catalog was taken"):
            chosen.new_plans([], plan)
    assert ChosenDatabases.open([request], DatabaseChoice(("postgres",))).new_plans([], plan) == []


def test_databases_that_come_and_go_between_the_files_of_a_backup(tmp_path: Path) -> None:
    """The copy lacks their files: those of one that is created are in the WAL."""
    created, dropped = tmp_path / "created", tmp_path / "dropped"
    with small_server(16) as server:
        with server.connect() as connection:
            connection.execute("SELECT pg_backup_start('created', true)")
            shutil.copytree(server.data_directory / "base", created / "base")
            run(server, "CREATE DATABASE new", "CHECKPOINT")
            run(server, "CREATE TABLE t (id int)", "INSERT INTO t VALUES (1)", database="new")
            _copy_rest(server, connection, created)
            connection.execute("SELECT pg_backup_start('dropped', true)")
            shutil.copytree(server.data_directory / "global", dropped / "global")
            run(server, "DROP DATABASE new", "CHECKPOINT")
            _copy_rest(server, connection, dropped)
        server.stop()
        wal = str(copy_wal(server, tmp_path / "wal"))
    assert may_be_created(DecodeRequest(wal, str(created), database="new"))
    assert _names(_passed_over(DecodeRequest(wal, str(created)), None)) == ["postgres", "new"]
    assert _names(_passed_over(DecodeRequest(wal, str(dropped)), ("postgres",))) == ["postgres"]
    with pytest.raises(CatalogError, match='database "new" has no files in the copy of the catalog'):
        _passed_over(DecodeRequest(wal, str(dropped)), None)


def _copy_rest(server: EmbeddedPostgres, connection: Connection[Any], target: Path) -> None:
    for path in server.data_directory.iterdir():
        if path.is_dir() and path.name != "pg_wal" and not (target / path.name).exists():
            shutil.copytree(path, target / path.name, symlinks=True)
        elif path.is_file() and path.name != "postmaster.pid":
            shutil.copy2(path, target / path.name)
    row = connection.execute("SELECT labelfile FROM pg_backup_stop(false)").fetchone()
    assert row is not None
    (target / "backup_label").write_text(row[0])


def test_a_database_that_the_backup_has_in_parts(window: Window) -> None:
    """One whose files are copied behind the record that the catalog is of."""
    request = DecodeRequest(str(window.wal), str(window.after))
    chosen = ChosenDatabases.open([request], DatabaseChoice(("new",)))
    (plan,) = chosen.plans
    directory = plan.opened.directory
    lo = DataDirectory(window.backup).start_lsn
    task = IndexTask(directory, lo, plan.opened.store.start_lsn, Request((plan.database,), (), 16))
    for find in (chosen.new_plans, warn_of_namesakes):
        with pytest.raises(CatalogError, match='database "new" was being copied when the backup began'):
            find([Run(task, task.run())], plan)
