"""``headwater decode``: a window of WAL into an output plugin's messages."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import click

from headwater.cli.message_output import check_output, message_output, unfinished_place, writing_refused
from headwater.cli.progress import step_progress
from headwater.errors import UsageError
from headwater.pg.lsn import Lsn
from headwater.pipeline.decode import DecodeResult, decode
from headwater.pipeline.message_files import MessageForm
from headwater.pipeline.request import DecodeRequest, open_request
from headwater.pipeline.spark import spark_session, warm_up


def _pairs(values: tuple[str, ...], flag: str) -> tuple[tuple[str, str], ...]:
    pairs = []
    for value in values:
        name, equals, text = value.partition("=")
        if not equals or not name:
            raise UsageError(f'invalid value for {flag}: "{value}", expected NAME=VALUE')
        pairs.append((name, text))
    return tuple(pairs)


@click.command("decode")
@click.option("--wal", required=True, metavar="PATH", help="Directory of WAL segments: pg_wal, or an archive.")
@click.option("--catalog", required=True, metavar="PATH", help="Data directory or plain base backup.")
@click.option("--database", metavar="NAME", help="Database to decode; default: the only one that is no template.")
@click.option("--start", metavar="LSN", help="Leave out transactions that committed before it.")
@click.option("--end", metavar="LSN", help="Stop there, as the server does with upto_lsn.")
@click.option("--plugin", default="test_decoding", show_default=True, metavar="NAME", help="Output plugin.")
@click.option("-o", "--option", "options", multiple=True, metavar="OPTION=VALUE", help="Option of the plugin.")
@click.option("-c", "--set", "settings", multiple=True, metavar="NAME=VALUE", help="Session setting (TimeZone, ...).")
@click.option("--out", default="-", show_default=True, metavar="-|FILE", help="Lines, or FILE.parquet: lsn, xid, data.")
@click.option("--with-lsn", is_flag=True, help="Lines as LSN<TAB>XID<TAB>DATA.")
@click.option("--master", metavar="MASTER", help="Spark master; default: local[*].")
@click.option("--scratch", metavar="DIR", help="Directory that driver and workers share for unfinished output.")
@click.option("--stats", is_flag=True, help="Print what was decoded and how long each step took.")
@click.option("--stats-json", metavar="FILE", help="The same as JSON.")
def decode_command(
    wal: str,
    catalog: str,
    database: str | None,
    start: str | None,
    end: str | None,
    plugin: str,
    options: tuple[str, ...],
    settings: tuple[str, ...],
    out: str,
    with_lsn: bool,
    master: str | None,
    scratch: str | None,
    stats: bool,
    stats_json: str | None,
) -> None:
    """Decode WAL into the messages of an output plugin."""
    request = DecodeRequest(
        wal=wal,
        catalog=catalog,
        database=database,
        plugin=plugin,
        options=_pairs(options, "-o"),
        start=None if start is None else Lsn.parse(start),
        end=None if end is None else Lsn.parse(end),
        settings=_pairs(settings, "--set"),
    )
    began = time.perf_counter()
    is_parquet = out.endswith(".parquet")
    if is_parquet and with_lsn:
        raise UsageError("--with-lsn is for lines; a Parquet file has the columns lsn and xid anyway")
    check_output("--out", out, is_parquet)
    if stats_json is not None:
        check_output("--stats-json", stats_json, False)
    _check_scratch(scratch)
    open_request(request)
    form = MessageForm.ARROW if is_parquet else MessageForm.LINES_WITH_LSN if with_lsn else MessageForm.LINES
    with step_progress() as progress:
        progress("start Spark", 0, 1)
        spark = spark_session(master)
        warm_up(spark)
        progress("start Spark", 1, 1)
        started = time.perf_counter()
        with (
            message_output(out) as output,
            decode(spark, request, progress, form, scratch or unfinished_place(out), output.early) as result,
        ):
            write_began = time.perf_counter()
            output.finish(result)
            finished = time.perf_counter()
            result.seconds["write"] = finished - write_began
            figures = _figures(result, started - began, finished - started)
    if stats:
        _print_stats(figures)
    if stats_json is not None:
        Path(stats_json).write_text(json.dumps(figures, indent=2) + "\n")


def _check_scratch(scratch: str | None) -> None:
    if scratch is None:
        return
    refusal = writing_refused(Path(scratch))
    if refusal is not None:
        raise UsageError(f'cannot use --scratch "{scratch}": {refusal}, expected a directory that can be written to')


def _figures(result: DecodeResult, startup: float, total: float) -> dict[str, object]:
    return {
        "wal_bytes": result.wal_bytes,
        "transactions": result.transactions,
        "changes": result.changes,
        "messages": result.messages,
        "consistent_at": str(Lsn(result.consistent_at)),
        "end": str(Lsn(result.end_lsn)),
        "startup_seconds": round(startup, 3),
        "decode_seconds": round(total, 3),
        "steps": {name: round(seconds, 3) for name, seconds in result.seconds.items()},
    }


def _print_stats(figures: dict[str, object]) -> None:
    for name, value in figures.items():
        print(f"{name}: {value}", file=sys.stderr)
