"""``headwater decode``: a window of WAL into an output plugin's messages."""

from __future__ import annotations

import errno
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import pyarrow as pa
import pyarrow.parquet as pq

from headwater.cli.progress import step_progress
from headwater.errors import HeadwaterError, UsageError
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
    _check_output("--out", out, is_parquet)
    if stats_json is not None:
        _check_output("--stats-json", stats_json, False)
    _check_scratch(scratch)
    open_request(request)
    form = MessageForm.ARROW if is_parquet else MessageForm.LINES_WITH_LSN if with_lsn else MessageForm.LINES
    with step_progress() as progress:
        progress("start Spark", 0, 1)
        spark = spark_session(master)
        warm_up(spark)
        progress("start Spark", 1, 1)
        started = time.perf_counter()
        with decode(spark, request, progress, form, scratch or _scratch(out)) as result:
            write_began = time.perf_counter()
            _write(result, out, is_parquet)
            result.seconds["write"] = time.perf_counter() - write_began
            finished = time.perf_counter()
            figures = _figures(result, started - began, finished - started)
    if stats:
        _print_stats(figures)
    if stats_json is not None:
        Path(stats_json).write_text(json.dumps(figures, indent=2) + "\n")


def _check_output(flag: str, out: str, is_parquet: bool) -> None:
    """Refuse a file that could not be written, before anything is read.

    Raises:
        UsageError: it is a directory, or lies in none, or may not be made or written there.
    """
    if out == "-":
        return
    path = Path(out)
    parent = _target(path).parent
    hint = f"choose another {flag}"
    if not parent.is_dir():
        raise UsageError(f'cannot write "{out}": no such directory', hint=f"make it, or choose another {flag}")
    if path.is_dir():
        raise UsageError(f'cannot write "{out}": it is a directory', hint=hint)
    if _is_special(path) and is_parquet:
        raise UsageError(f'cannot write "{out}": it is no regular file, which Parquet needs', hint=hint)
    refusal = _refusal(path, parent)
    if refusal is not None:
        raise UsageError(f'cannot write "{out}": {refusal}', hint=hint)


def _check_scratch(scratch: str | None) -> None:
    if scratch is None:
        return
    refusal = _refusal(None, Path(scratch))
    if refusal is not None:
        raise UsageError(f'cannot use --scratch "{scratch}": {refusal}, expected a directory that can be written to')


def _refusal(path: Path | None, parent: Path) -> str | None:
    """Why a device cannot be written, or no file be made in a directory; None if it can."""
    try:
        if path is not None and _is_special(path):
            return None if os.access(path, os.W_OK) else os.strerror(errno.EACCES)
        with tempfile.TemporaryFile(dir=parent):
            return None
    except OSError as error:
        return error.strerror or str(error)


def _is_special(path: Path) -> bool:
    """A device or pipe: there is no file to be made beside it."""
    return path.exists() and not path.is_file() and not path.is_dir()


def _target(path: Path) -> Path:
    """The file that is written when a path is, symbolic links followed."""
    return Path(os.path.realpath(path))


def _scratch(out: str) -> str | None:
    """Unfinished output waits beside the file it becomes, or where temporary files go."""
    return None if out == "-" or _is_special(Path(out)) else str(_target(Path(out)).parent)


def _write(result: DecodeResult, out: str, is_parquet: bool) -> None:
    if out == "-":
        _copy_lines(result, sys.stdout.fileno(), "standard output")
    elif _is_special(Path(out)):
        _append_lines(result, Path(out), out)
    else:
        with _whole_file(_target(Path(out)), out) as part:
            if is_parquet:
                _write_parquet(result, part)
            else:
                _append_lines(result, part, out)


@contextmanager
def _whole_file(path: Path, out: str) -> Iterator[Path]:
    """A file that takes its name only when it is complete; `out` is what errors call it."""
    try:
        descriptor, part = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise _write_error(error, out) from None
    os.close(descriptor)
    try:
        yield Path(part)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(part, 0o666 & ~umask)
        os.replace(part, path)
    except OSError as error:
        Path(part).unlink(missing_ok=True)
        raise _write_error(error, out) from None
    except BaseException:
        Path(part).unlink(missing_ok=True)
        raise


def _append_lines(result: DecodeResult, path: Path, out: str) -> None:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
    except OSError as error:
        raise _write_error(error, out) from None
    try:
        _copy_lines(result, descriptor, out)
    finally:
        os.close(descriptor)


def _copy_lines(result: DecodeResult, descriptor: int, out: str) -> None:
    for file in result.files:
        with open(file.path, "rb") as source:
            while chunk := source.read(1 << 20):
                try:
                    _write_all(descriptor, memoryview(chunk))
                except BrokenPipeError:
                    raise
                except OSError as error:
                    raise _write_error(error, out) from None


def _write_all(descriptor: int, data: memoryview) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def _write_error(error: OSError, out: str) -> HeadwaterError:
    return HeadwaterError(f"could not write output: {error.strerror or error}", file=out)


def _write_parquet(result: DecodeResult, path: Path) -> None:
    kind = pa.string() if result.is_text else pa.binary()
    schema = pa.schema([("lsn", pa.int64()), ("xid", pa.int64()), ("data", kind)])
    with pq.ParquetWriter(path, schema, compression="snappy", use_dictionary=["xid"]) as writer:
        for table in result.tables():
            writer.write_table(table.cast(schema))


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
