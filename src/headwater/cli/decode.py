"""``headwater decode``: a window of WAL into an output plugin's messages."""

from __future__ import annotations

import fcntl
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headwater.cli.database_output import databases_output, split_out
from headwater.cli.decode_flags import DecodeFlags
from headwater.cli.decode_source import DecodeSource, check_kept_apart, decode_source
from headwater.cli.message_output import check_output, is_directory, message_output, unfinished_place, writing_refused
from headwater.cli.progress import step_progress
from headwater.cli.surroundings import STANDARD_OUTPUT
from headwater.errors import CatalogError, HeadwaterError, UsageError
from headwater.kept_memory import peak_memory
from headwater.pg.lsn import Lsn
from headwater.pipeline.databases import ChosenDatabases
from headwater.pipeline.decode import DecodedDatabases, DecodeResult, Deliver, decode, decode_databases
from headwater.pipeline.message_files import MessageForm
from headwater.pipeline.request import open_request
from headwater.pipeline.run_index import WindowBounds
from headwater.pipeline.spark import spark_session, warm_up
from headwater.pipeline.task_run import Progress
from headwater.slots.kept_state import KeptState, keep_state


def run_decode(flags: DecodeFlags) -> None:
    """Decode a window.

    Args:
        flags: as given.

    Raises:
        HeadwaterError: it cannot be done.
    """
    began = time.perf_counter()
    form = _checked_form(flags)
    with decode_source(flags) as source:
        if source.is_delivered(flags.out):
            return
        if flags.slot is not None:
            check_kept_apart(flags.out)
        if source.choice is None:
            figures = _decode(flags, source, form, began)
        elif flags.is_of_several:
            figures = _decode_several(flags, source, form, began)
        else:
            figures = _decode_created(flags, source, form, began)
    if flags.stats:
        _print_stats(figures)
    if flags.stats_json is not None:
        _write_stats(figures, Path(flags.stats_json))


def _decode(flags: DecodeFlags, source: DecodeSource, form: MessageForm, began: float) -> dict[str, object]:
    """All of it, once it is known what is read; returns figures."""
    open_request(source.request, kept=source.kept)
    with step_progress(flags.quiet) as progress:
        spark = _started_spark(flags.master, progress)
        started = time.perf_counter()
        with (
            message_output(flags.out, source.placing(flags.out)) as output,
            decode(
                spark,
                source.request,
                progress,
                form,
                flags.scratch,
                output.early,
                unfinished_place(flags.out),
                WindowBounds(flags.window_bytes),
                source.kept,
                _keeper(flags.keep_states),
            ) as result,
        ):
            write_began = time.perf_counter()
            output.finish(result)
            source.delivered(result, flags.out)
            finished = time.perf_counter()
            result.seconds["write"] = finished - write_began
            return _figures(result, started - began, finished - started)


def _decode_created(flags: DecodeFlags, source: DecodeSource, form: MessageForm, began: float) -> dict[str, object]:
    """A database that is created in the window."""
    with message_output(flags.out) as output:
        label: str | None = None

        def deliver(found: str) -> Deliver | None:
            nonlocal label
            if label not in (None, found):
                raise CatalogError(
                    f'the WAL creates more than one database "{label}"', hint="give --all-databases and --out DIR/"
                )
            label = found
            return output.early

        place = unfinished_place(flags.out)
        with _decoding(flags, source, form, deliver, place) as (decoded, startup, started):
            (result,) = decoded.databases.values()
            output.finish(result)
            return _figures(result, startup - began, time.perf_counter() - started)


def _decode_several(flags: DecodeFlags, source: DecodeSource, form: MessageForm, began: float) -> dict[str, object]:
    """Several databases; returns figures of each."""
    place = unfinished_place(split_out(flags.out)[0])
    with (
        databases_output(flags.out) as output,
        _decoding(flags, source, form, output.deliver, place) as (decoded, startup, started),
    ):
        output.finish(decoded)
        seconds = startup - began, time.perf_counter() - started
        return {label: _figures(result, *seconds) for label, result in decoded.databases.items()}


@contextmanager
def _decoding(
    flags: DecodeFlags,
    source: DecodeSource,
    form: MessageForm,
    deliver: Callable[[str], Deliver | None],
    place: str | None,
) -> Iterator[tuple[DecodedDatabases, float, float]]:
    """What was decoded of several databases, and when Spark had started and decoding began."""
    assert source.choice is not None
    ChosenDatabases.open(source.request, source.choice)
    with step_progress(flags.quiet) as progress:
        spark = _started_spark(flags.master, progress)
        started = time.perf_counter()
        bounds = WindowBounds(flags.window_bytes)
        with decode_databases(
            spark, source.request, source.choice, progress, form, flags.scratch, deliver, place, bounds
        ) as decoded:
            yield decoded, started, started


def _started_spark(master: str | None, progress: Progress) -> Any:
    progress("start Spark", 0, 1)
    spark = spark_session(master)
    warm_up(spark)
    progress("start Spark", 1, 1)
    return spark


def _keeper(keep_states: str | None) -> Callable[[KeptState], None] | None:
    """What keeps the states behind windows."""
    if keep_states is None:
        return None
    directory = Path(keep_states)
    refusal = writing_refused(directory)
    if refusal is not None:
        raise UsageError(f'cannot use --keep-states "{keep_states}": {refusal}, expected a directory to write to')

    def keep(kept: KeptState) -> None:
        keep_state(directory, kept)

    return keep


def _checked_form(flags: DecodeFlags) -> MessageForm:
    """What the tasks write, once it is known that it can be written where the flags say."""
    is_parquet = flags.out.endswith(".parquet") or is_directory(flags.out)
    if is_parquet and flags.with_lsn:
        raise UsageError("--with-lsn is for lines; a Parquet file has the columns lsn and xid anyway")
    check_output("--out", split_out(flags.out)[0] if flags.is_of_several else flags.out, is_parquet)
    if flags.out == "-":
        _check_standard_output()
    if flags.stats_json is not None:
        check_output("--stats-json", flags.stats_json, False)
    _check_scratch(flags.scratch)
    if is_parquet:
        return MessageForm.PARQUET if is_directory(flags.out) else MessageForm.ARROW
    return MessageForm.LINES_WITH_LSN if flags.with_lsn else MessageForm.LINES


def _check_standard_output() -> None:
    if fcntl.fcntl(STANDARD_OUTPUT, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
        raise UsageError("cannot write to standard output: it is closed", hint="open it, or give --out FILE")


def _check_scratch(scratch: str | None) -> None:
    if scratch is None:
        return
    refusal = writing_refused(Path(scratch))
    if refusal is not None:
        raise UsageError(f'cannot use --scratch "{scratch}": {refusal}, expected a directory that can be written to')


def _figures(result: DecodeResult, startup: float, total: float) -> dict[str, object]:
    return {
        "wal_bytes": result.wal_bytes,
        "wal_bytes_decoded": result.read_again,
        "transactions": result.transactions,
        "changes": result.changes,
        "changes_passed_over": result.passed_over,
        "changes_filtered_out": result.filtered,
        "messages": result.messages,
        "consistent_at": str(Lsn(result.consistent_at)),
        "end": str(Lsn(result.end_lsn)),
        "startup_seconds": round(startup, 3),
        "decode_seconds": round(total, 3),
        "peak_memory_bytes": peak_memory(),
        "steps": {name: round(seconds, 3) for name, seconds in result.seconds.items()},
    }


def _write_stats(figures: dict[str, object], file: Path) -> None:
    try:
        file.write_text(json.dumps(figures, indent=2) + "\n")
    except OSError as error:
        message = f"could not write statistics: {error.strerror or error}; the output is written"
        raise HeadwaterError(message, file=str(file)) from None


def _print_stats(figures: dict[str, object]) -> None:
    for name, value in figures.items():
        print(f"{name}: {value}", file=sys.stderr)
