"""The commands and their flags, as ``--help`` shows them.

What a command does is imported when it is run, not before: help, version and completion need neither Spark nor the
kernels. Every flag has the environment variable that its help prints, made of the command's name and the flag's own.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from headwater.cli.decode_flags import DecodeFlags
from headwater.cli.flag_declarations import (
    PATH,
    PLACE,
    Paths,
    database_flag,
    engine_flag,
    flags_like,
    flags_of,
    version_flag,
    wal_flags,
)
from headwater.cli.output_flags import CommandOfOutputs
from headwater.cli.waldump_flags import WaldumpFlags
from headwater.errors import HeadwaterError
from headwater.option_names import use_flags

F = TypeVar("F", bound=Callable[..., Any])

INSTALL_DEMO = "run: pip install 'headwater[demo]'"
CATALOG = (
    "Data directory, or base backup: a directory, or one with base.tar (.gz, .lz4, .zst); or a file of headwater "
    "catalog export."
)
CLIENT_ENCODING = "Encoding that text is sent in, by PostgreSQL's names; SQL_ASCII: as it is stored; default: UTF8."
EXCLUDE = "Not these tables, whatever else chooses them; with a partitioned table its partitions."
DEFAULT_WINDOW = 1 << 30
DEFAULT_FILE = 128 << 20
FORKS = ("main", "fsm", "vm", "init")
GROUP: dict[str, Any] = {"invoke_without_command": True, "subcommand_metavar": "COMMAND [ARGS]..."}
"""A group of commands; what it runs first is :func:`need_command`."""


def need_command(context: click.Context) -> None:
    """Show the help of a group that is given none of its commands, and end with status 2.

    Of a command that it is given, messages name the flags from here on.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help(), err=True)
        sys.exit(2)
    assert isinstance(context.command, click.Group)
    command = context.command.get_command(context, context.invoked_subcommand)
    use_flags(flags_named(command) if command is not None else ())


def flags_named(command: click.Command) -> Iterator[str]:
    """The long flags of a command, without their dashes."""
    for parameter in command.params:
        yield from (name[2:] for name in parameter.opts if name.startswith("--"))


_decode_flag, _demo_flag, _waldump_flag = flags_of("decode"), flags_of("demo"), flags_of("waldump")
_export_flag, _ddl_flag, _explain_flag = flags_of("catalog_export"), flags_of("ddl"), flags_of("publication_explain")
_land_flag, _tables_flag = flags_of("land"), flags_of("lake_tables")
_compact_flag, _expire_flag = flags_of("compact"), flags_of("expire")
_create_flag, _copy_flag, _show_flag = flags_of("slot_create"), flags_of("slot_copy"), flags_of("slot_show")
_SLOT = click.argument("path", type=Paths(path_type=Path))


@click.command("decode", cls=CommandOfOutputs)
@wal_flags(_decode_flag)
@_decode_flag("--catalog", type=PLACE, metavar="PATH", help=CATALOG)
@_decode_flag(
    "--slot", type=PATH, metavar="PATH", help="Go on where this slot stands, and let it advance; see headwater slot."
)
@_decode_flag("--peek", is_flag=True, help="With --slot: do not let it advance.")
@_decode_flag(
    "--from-state",
    type=PATH,
    metavar="FILE|DIR",
    help="Begin with a kept state instead of --catalog, the newest in DIR that lies at or before --start.",
)
@_decode_flag(
    "--keep-states", type=PATH, metavar="DIR", help="Keep the state behind each window of WAL, for --from-state."
)
@_decode_flag(
    "--database",
    multiple=True,
    metavar="NAME",
    help="Database to decode, also one that is created in the window; default: the only one that is no template.",
)
@_decode_flag(
    "--all-databases",
    is_flag=True,
    help="Decode every database that accepts connections and is no template, and those that are created in the window.",
)
@version_flag(_decode_flag)
@_decode_flag("--start", metavar="LSN", help="Leave out transactions that committed before it.")
@_decode_flag("--end", metavar="LSN", help="Stop there, as the server does with upto_lsn.")
@_decode_flag(
    "--plugin",
    metavar="NAME",
    help="Output plugin: test_decoding (default), pgoutput, wal2json, debezium. Each of several begins an output, with "
    "the flags that follow it.",
)
@_decode_flag("--user", metavar="ROLE", help="Session settings are this role's, too (ALTER ROLE ... SET).")
@_decode_flag("-o", "--option", "options", multiple=True, metavar="NAME=VALUE", help="Option of the plugin.")
@_decode_flag("-c", "--set", "settings", multiple=True, metavar="NAME=VALUE", help="Session setting (TimeZone, ...).")
@_decode_flag("--client-encoding", metavar="NAME", help=CLIENT_ENCODING)
@_decode_flag(
    "--tables",
    multiple=True,
    metavar="PATTERN[,PATTERN]",
    help="Only changes of tables SCHEMA.TABLE that match, with * and ?. Transactions without any are as the plugin has "
    "them: test_decoding shows them empty without -o skip-empty-xacts=1.",
)
@_decode_flag("--exclude", multiple=True, metavar="PATTERN[,PATTERN]", help=EXCLUDE)
@_decode_flag(
    "--publish",
    multiple=True,
    metavar="TABLE",
    help="Only this table, its columns and rows: 'shop.orders(id, total) WHERE total > 100', as in CREATE PUBLICATION. "
    "Needs headwater[publish].",
)
@_decode_flag(
    "--unknown-types",
    type=click.Choice(["error", "hex", "null"]),
    help="What becomes of a value whose type has no text form here: an error (default), its stored bytes as \\x..., or "
    "NULL.",
)
@_decode_flag(
    "--on-level-gap",
    type=click.Choice(["error", "skip"]),
    default="error",
    show_default=True,
    help="Where wal_level falls below logical in the window: an error, or leave out what was written until it was "
    "raised again, and warn with the LSNs.",
)
@_decode_flag("--two-phase", is_flag=True, help="Decode prepared transactions at PREPARE.")
@_decode_flag("--ddl", is_flag=True, help="Tell DDL, too, with a plugin that does; headwater ddl prints it by itself.")
@_decode_flag(
    "--from-replica-level",
    is_flag=True,
    help="Decode WAL of wal_level replica, too, as far as it holds rows; each is marked as (complete) or (partial).",
)
@_decode_flag(
    "--out",
    type=PATH,
    default="-",
    show_default=True,
    metavar="-|FILE|DIR/",
    help="Lines; FILE.parquet: lsn, xid, data; DIR/: the same in part files, in the order of their names. Of several "
    "databases DIR/, DIR/{database}.parquet or DIR/{database}.txt.",
)
@_decode_flag("--with-lsn", is_flag=True, help="Lines as LSN<TAB>XID<TAB>DATA.")
@engine_flag(_decode_flag)
@_decode_flag("--master", metavar="MASTER", help="Spark master; default: local[*].")
@_decode_flag(
    "--scratch", type=PATH, metavar="DIR", help="Directory that driver and workers share for unfinished output."
)
@_decode_flag(
    "--window-bytes",
    type=click.IntRange(1),
    default=DEFAULT_WINDOW,
    show_default=True,
    metavar="BYTES",
    help="WAL that is planned at a time; whole segments.",
)
@_decode_flag("-q", "--quiet", is_flag=True, help="Do not show progress: no bar, no line now and then.")
@_decode_flag("--stats", is_flag=True, help="Print what was decoded and how long each step took.")
@_decode_flag("--stats-json", type=PATH, metavar="FILE", help="The same as JSON.")
def decode_command(**flags: Any) -> None:
    """Decode WAL into the messages of an output plugin, or of several: --plugin A --out X --plugin B --out Y."""
    from headwater.base.malloc_settings import keep_freed_memory

    # Before anything is imported that starts threads: a heap that a thread has made for itself is not kept.
    keep_freed_memory()
    from headwater.cli.decode import run_decode

    run_decode(DecodeFlags(**flags))


@click.command("waldump", short_help="Show the records of the WAL, or statistics of them.")
@wal_flags(_waldump_flag, required=True)
@_waldump_flag("-s", "--start", metavar="LSN", help="Begin there; default: the first record.")
@_waldump_flag("-e", "--end", metavar="LSN", help="Stop there; default: the end of the log.")
@_waldump_flag("-n", "--limit", type=click.IntRange(1), metavar="N", help="Show so many records.")
@_waldump_flag(
    "-r", "--rmgr", "managers", multiple=True, metavar="NAME", help="Only of this resource manager; list: their names."
)
@_waldump_flag("-x", "--xid", type=click.IntRange(0, 2**32 - 1), metavar="XID", help="Only of this transaction.")
@_waldump_flag("-R", "--relation", metavar="T/D/R", help="Only about blocks of this file: tablespace/database/number.")
@_waldump_flag(
    "-B", "--block", type=click.IntRange(0, 2**32 - 2), metavar="N", help="With --relation, only about this block."
)
@_waldump_flag("-F", "--fork", type=click.Choice(FORKS), help="Only about blocks of this fork.")
@_waldump_flag("-w", "--fullpage", is_flag=True, help="Only records with a page image.")
@_waldump_flag("-b", "--bkp-details", is_flag=True, help="Show the blocks of a record in lines of their own.")
@_waldump_flag("-q", "--quiet", is_flag=True, help="Show no record: read them and check them.")
@_waldump_flag(
    "-z",
    "--stats",
    type=click.Choice(["rmgr", "record"]),
    is_flag=False,
    flag_value="rmgr",
    help="Show statistics instead of records: of resource managers, or with =record of kinds of records.",
)
def waldump_command(**flags: Any) -> None:
    """Show the records of the WAL as pg_waldump does, each once its checksum was verified."""
    from headwater.cli.waldump import run_waldump

    run_waldump(WaldumpFlags(**flags))


@click.group("catalog", short_help="Read a server's catalog into a file.", **GROUP)
@click.pass_context
def catalog_command(context: click.Context) -> None:
    """The catalog of a server whose files cannot be reached."""
    need_command(context)


@catalog_command.command("export")
@click.argument("dsn")
@click.argument("file", type=Paths(path_type=Path, dir_okay=False))
@_export_flag("--checkpoint", is_flag=True, help="Let the server make a checkpoint first: less WAL is needed then.")
def catalog_export_command(dsn: str, file: Path, checkpoint: bool) -> None:
    """Write the catalog of the database that DSN names to FILE, for --catalog.

    Prints from where on WAL is needed, and where decoding begins: transactions that commit behind it are decoded. The
    server must run with wal_level = logical; the role needs REPLICATION. Waits until all transactions end that run now.
    """
    from headwater.cli.catalog import run_export

    run_export(dsn, file, checkpoint)


@click.group("publication", short_help="What publications would send of a window.", **GROUP)
@click.pass_context
def publication_command(context: click.Context) -> None:
    """What publications would send of a window of WAL."""
    need_command(context)


@publication_command.command("explain")
@wal_flags(_explain_flag, required=True)
@_explain_flag("--catalog", type=PLACE, required=True, metavar="PATH", help=CATALOG)
@database_flag(_explain_flag)
@version_flag(_explain_flag)
@_explain_flag("--start", metavar="LSN", help="Leave out transactions that committed before it.")
@_explain_flag("--end", metavar="LSN", help="Stop there, as the server does with upto_lsn.")
@_explain_flag(
    "--publication",
    "publications",
    multiple=True,
    metavar="NAME",
    help="A publication; default: all that there are at the end.",
)
@_explain_flag("--json", "as_json", is_flag=True, help="Print JSON.")
def publication_explain_command(**flags: Any) -> None:
    """Print which tables, rows and bytes each publication would send, and why the rest is left out. Sends nothing."""
    from headwater.cli.publication import run_explain

    run_explain(**flags)


@click.command("demo", short_help="Run a server, stop it, decode its WAL, compare.")
@_demo_flag("--seed", type=int, default=1, show_default=True, help="Seed of the shop workload.")
def demo_command(seed: int) -> None:
    """Run a server, stop it, decode its WAL, compare with what the server said."""
    try:
        from headwater.cli.demo import run_demo
    except ImportError as error:
        if error.name is not None and error.name.partition(".")[0] != "psycopg":
            raise
        raise HeadwaterError(f"the demo needs the extra demo: {error}", hint=INSTALL_DEMO) from None

    sys.exit(run_demo(seed=seed))


@click.command("ddl")
@wal_flags(_ddl_flag, required=True)
@_ddl_flag("--catalog", type=PLACE, required=True, metavar="PATH", help=CATALOG)
@database_flag(_ddl_flag)
@version_flag(_ddl_flag)
@_ddl_flag("--start", metavar="LSN", help="Leave out transactions that committed before it.")
@_ddl_flag("--end", metavar="LSN", help="Stop there, as the server does with upto_lsn.")
@_ddl_flag(
    "--format",
    "form",
    type=click.Choice(["sql", "json"]),
    default="sql",
    show_default=True,
    help="Statements that repeat it, or an object a line with the definitions before and behind.",
)
@_ddl_flag(
    "--window-bytes",
    type=click.IntRange(1),
    default=DEFAULT_WINDOW,
    show_default=True,
    metavar="BYTES",
    help="WAL that is planned at a time.",
)
def ddl_command(**flags: Any) -> None:
    """Print what a window of WAL has changed of tables, types, indexes and other objects, in commit order."""
    from headwater.cli.ddl import DdlFlags, run_ddl

    run_ddl(DdlFlags(**flags))


@click.command("land")
@wal_flags(_land_flag, required=True)
@_land_flag("--catalog", type=PLACE, required=True, metavar="PATH", help=CATALOG)
@database_flag(_land_flag)
@version_flag(_land_flag)
@_land_flag("--end", metavar="LSN", help="Stop there, as the server does with upto_lsn.")
@_land_flag("--tables", multiple=True, metavar="PATTERN[,PATTERN]", help="Only these tables.")
@_land_flag("--exclude", multiple=True, metavar="PATTERN[,PATTERN]", help=EXCLUDE)
@_land_flag("--to", type=PATH, required=True, metavar="DIR", help="Where the tables are.")
@_land_flag(
    "--format",
    "form",
    type=click.Choice(["parquet", "delta", "iceberg"]),
    default="parquet",
    show_default=True,
    help="Of the tables.",
)
@_land_flag(
    "--iceberg-catalog",
    metavar="NAME",
    help="Catalog in pyiceberg's configuration; default: a file of SQLite in the directory.",
)
@_land_flag(
    "--catalog-impl",
    type=click.Choice(["python", "spark"]),
    default="python",
    show_default=True,
    help="Who writes: libraries of Python, without a JVM; or the connector that Spark is configured with.",
)
@_land_flag(
    "--namespace",
    metavar="NAME",
    help="Of all tables in that catalog; default: the source's schemas. Of Spark's: CATALOG, or CATALOG.NAMESPACE.",
)
@_land_flag(
    "--mode",
    type=click.Choice(["changelog", "current", "history"]),
    default="changelog",
    show_default=True,
    help="What the tables hold: every change as a row; the source's rows; these with all versions that they have had.",
)
@_land_flag(
    "--snapshot",
    type=click.Choice(["initial", "never"]),
    default="initial",
    show_default=True,
    help="Whether rows land that tables had when the base backup was taken, before their changes.",
)
@_land_flag(
    "--client-encoding",
    metavar="NAME",
    help="Encoding that text of a database in SQL_ASCII is in; default: UTF8. In the lake it is always UTF8.",
)
@_land_flag(
    "--on-unrepresentable",
    type=click.Choice(["error", "null", "string", "bytes"]),
    default="error",
    show_default=True,
    help="What becomes of values that a column cannot hold; string: columns of such types are text, and text that is "
    "no UTF-8 is escaped; bytes: columns of text are bytes.",
)
@_land_flag(
    "--jsonb",
    type=click.Choice(["string", "variant"]),
    default="string",
    show_default=True,
    help="What columns of jsonb are; variant: VARIANT, which Spark's own writers have.",
)
@_land_flag(
    "--schema-evolution",
    type=click.Choice(["evolve", "fail", "split"]),
    default="evolve",
    show_default=True,
    help="When a table gets other columns: let those of the lake follow, stop, or begin another table.",
)
@_land_flag(
    "--on-table-replaced",
    type=click.Choice(["follow", "new", "error"]),
    default="follow",
    show_default=True,
    help="When another table gets the name of one that lands: go on with its rows, let it land beside, or stop.",
)
@_land_flag(
    "--on-table-error",
    type=click.Choice(["stop", "pause"]),
    help="When a table cannot go on: stop, or pause it and let the others land (default with --follow). headwater lake "
    "resume and reload bring it back. The exit status is 3 when tables are paused at the end.",
)
@_land_flag("--follow-oid", is_flag=True, help="Mirrors stay with a table that is renamed; else with the name.")
@_land_flag(
    "--window-bytes",
    type=click.IntRange(1),
    default=DEFAULT_WINDOW,
    show_default=True,
    metavar="BYTES",
    help="WAL that is committed at a time.",
)
@_land_flag(
    "--follow",
    is_flag=True,
    help="Go on as the WAL grows. SIGINT or SIGTERM ends it behind the present window, a second one at once.",
)
@_land_flag(
    "--poll-seconds",
    type=click.FloatRange(0.01),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="With --follow: look for WAL so often where nothing tells that it comes (stores, shared directories).",
)
@_land_flag(
    "--progress",
    type=click.Choice(["auto", "json", "none"]),
    default="auto",
    show_default=True,
    help="On standard error: a bar on a terminal, else lines now and then; or an object of JSON a window, one a line.",
)
@_land_flag("--metrics", metavar="HOST:PORT", help="Serve metrics for Prometheus there. Needs headwater[metrics].")
@engine_flag(_land_flag)
@_land_flag("--master", metavar="MASTER", help="Spark master; default: local[*].")
@_land_flag("--stats-json", is_flag=True, help="Print what has landed, and how long each step took, as JSON.")
@_land_flag("-q", "--quiet", is_flag=True, help="Do not show progress, nor what has landed at the end.")
def land_command(**flags: Any) -> None:
    """Land the changes of WAL in typed tables, each once, from where the last run has come to."""
    from headwater.cli.land import LandFlags, run_land

    sys.exit(run_land(LandFlags(**flags)))


@click.group("lake", short_help="Show the tables that land has made.", **GROUP)
@click.pass_context
def lake_command(context: click.Context) -> None:
    """The tables that headwater land has made."""
    need_command(context)


@lake_command.command("tables")
@click.argument("directory", type=Paths(path_type=Path))
@_tables_flag(
    "--as-of", metavar="LSN|TIME", help="Versions that belonged together then; a time is UTC's, or has a zone."
)
@_tables_flag("--json", "as_json", is_flag=True, help="As JSON.")
def lake_tables_command(directory: Path, as_of: str | None, as_json: bool) -> None:
    """List the tables in DIRECTORY, in the versions in which they belong together, and up to which LSN they do."""
    from headwater.cli.lake import run_tables

    run_tables(directory, as_of, as_json)


_RESUMED = (
    *("wal", "timeline", "storage_options", "catalog", "client_encoding", "on_unrepresentable"),
    *("schema_evolution", "on_table_replaced", "follow_oid", "window_bytes", "progress", "engine", "master", "quiet"),
)
_TABLES = "tables"


@flags_like(land_command, "lake_resume", *_RESUMED, required=["wal"])
@lake_command.command("resume")
@click.argument("directory", type=Paths(path_type=Path))
@click.argument(_TABLES, nargs=-1, metavar="[TABLE]...")
def lake_resume_command(directory: Path, tables: Sequence[str], **flags: Any) -> None:
    """Land what paused tables lack, from where each stands to where the others do; headwater land goes on with them.

    All paused tables, unless some are named as they are called in DIRECTORY. Needs WAL from where they stand, and
    --catalog only for tables that were paused before they had their first rows. The exit status is 3 when some of them
    stay paused.
    """
    from headwater.cli.lake_resume import ResumeFlags, run_resume

    sys.exit(run_resume(directory, tables, ResumeFlags(**flags)))


@flags_like(land_command, "lake_reload", *_RESUMED, required=["wal", "catalog"])
@lake_command.command("reload")
@click.argument("directory", type=Paths(path_type=Path))
@click.argument(_TABLES, nargs=-1, required=True, metavar="TABLE...")
def lake_reload_command(directory: Path, tables: Sequence[str], **flags: Any) -> None:
    """Replace what tables hold by the rows that they have where the target stands, from the base backup --catalog.

    Tables may be paused or not; headwater land goes on with them. Needs WAL from the backup's beginning on.
    """
    from headwater.cli.lake_resume import ResumeFlags, run_reload

    sys.exit(run_reload(directory, tables, ResumeFlags(**flags)))


@click.command("compact")
@click.argument("directory", type=Paths(path_type=Path))
@_compact_flag(
    "--target-file-size",
    "target_file_bytes",
    type=click.IntRange(1),
    default=DEFAULT_FILE,
    show_default=True,
    metavar="BYTES",
    help="Of the files that are made; those of at least half of it stay as they are.",
)
def compact_command(directory: Path, target_file_bytes: int) -> None:
    """Make larger files of the small ones of the change tables in DIRECTORY."""
    from headwater.cli.lake import run_compact

    run_compact(directory, target_file_bytes)


@click.command("expire")
@click.argument("directory", type=Paths(path_type=Path))
@_expire_flag(
    "--older-than",
    required=True,
    metavar="AGE|TIME",
    help="Such as 7d, 12h or 30m, or a time: what was so since then can still be read.",
)
def expire_command(directory: Path, older_than: str) -> None:
    """Remove old versions of the tables in DIRECTORY, and files that belong to none."""
    from headwater.cli.lake import run_expire

    run_expire(directory, older_than)


@click.group("slot", short_help="Make, list, show, advance, copy and drop slots.", **GROUP)
@click.pass_context
def slot_command(context: click.Context) -> None:
    """Slots: a request, and how far it has been served. headwater decode --slot PATH goes on where one stands."""
    need_command(context)


@slot_command.command("create")
@_SLOT
@wal_flags(_create_flag, required=True)
@_create_flag("--catalog", type=PLACE, required=True, metavar="PATH", help=CATALOG)
@database_flag(_create_flag)
@version_flag(_create_flag)
@_create_flag(
    "--plugin",
    default="test_decoding",
    show_default=True,
    metavar="NAME",
    help="Output plugin; rows: for a stream of rows in Spark.",
)
@_create_flag("--user", metavar="ROLE", help="Session settings are this role's, too (ALTER ROLE ... SET).")
@_create_flag("-o", "--option", "options", multiple=True, metavar="NAME=VALUE", help="Option of the plugin.")
@_create_flag("-c", "--set", "settings", multiple=True, metavar="NAME=VALUE", help="Session setting (TimeZone, ...).")
@_create_flag("--client-encoding", metavar="NAME", help=CLIENT_ENCODING)
@_create_flag("--tables", multiple=True, metavar="PATTERN[,PATTERN]", help="Only changes of these tables.")
@_create_flag(
    "--unknown-types",
    type=click.Choice(["error", "hex", "null"]),
    default="error",
    show_default=True,
    help="What becomes of a value whose type has no text form here.",
)
@_create_flag("--two-phase", is_flag=True, help="Decode prepared transactions at PREPARE.")
@_create_flag("--failover", is_flag=True, help="Meant to go on from a standby; noted.")
def slot_create_command(path: Path, **flags: Any) -> None:
    """Make a slot in a new directory PATH; print where it begins."""
    from headwater.cli.slot import CreateFlags, run_create

    run_create(path, CreateFlags(**flags))


@slot_command.command("list")
@click.argument("directory", type=Paths(path_type=Path), default=".")
def slot_list_command(directory: Path) -> None:
    """List the slots in a directory, the current one by default."""
    from headwater.cli.slot import run_list

    run_list(directory)


@slot_command.command("show")
@_SLOT
@_show_flag("--json", "as_json", is_flag=True, help="As JSON.")
def slot_show_command(path: Path, as_json: bool) -> None:
    """Show what a slot is, where it stands, and what has been made of it."""
    from headwater.cli.slot import run_show

    run_show(path, as_json)


@slot_command.command("advance")
@_SLOT
@click.argument("lsn")
def slot_advance_command(path: Path, lsn: str) -> None:
    """Let a slot advance to an LSN without output; print where it stands then."""
    from headwater.cli.slot import run_advance
    from headwater.pg.lsn import Lsn

    run_advance(path, Lsn.parse(lsn))


@slot_command.command("copy")
@_SLOT
@click.argument("target", type=Paths(path_type=Path))
@_copy_flag("--plugin", metavar="NAME", help="Another output plugin.")
@_copy_flag("-o", "--option", "options", multiple=True, metavar="NAME=VALUE", help="Its options.")
def slot_copy_command(path: Path, target: Path, plugin: str | None, options: Sequence[str]) -> None:
    """Make a slot TARGET that stands where PATH does."""
    from headwater.cli.slot import run_copy

    run_copy(path, target, plugin, options)


@slot_command.command("drop")
@_SLOT
def slot_drop_command(path: Path) -> None:
    """Remove a slot."""
    from headwater.cli.slot import run_drop

    run_drop(path)
