"""``headwater decode``: a window of WAL into an output plugin's messages."""

from __future__ import annotations

import fcntl
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, cast

from headwater.base.system_errors import reason_of
from headwater.cli.decode_flags import CommandOfOutputs, DecodeFlags, OutputFlags
from headwater.cli.process.setup import STANDARD_OUTPUT, printing_aside
from headwater.errors import HeadwaterError, UsageError, errors_of_output
from headwater.pg.lsn import Lsn

if TYPE_CHECKING:
    from headwater.cli.decode_source import DecodeSource
    from headwater.cli.output.message_output import RunOutput
    from headwater.pipeline.outputs import Decoded, DecodeResult
    from headwater.pipeline.slices.message_files import MessageForm
    from headwater.slots.kept_state import KeptState


def _run(flags: DecodeFlags) -> None:
    """Decode WAL into the messages of an output plugin, or of several: --plugin A --out X --plugin B --out Y."""
    from headwater.base.malloc_settings import keep_freed_memory

    # Before anything is imported that starts threads: a heap that a thread has made for itself is not kept.
    keep_freed_memory()
    from headwater.cli.decode_source import check_kept_apart, decode_source

    began = time.perf_counter()
    forms = _checked_forms(flags)
    with printing_aside(), decode_source(flags) as source:
        if source.is_delivered(flags.outputs[0].out):
            return
        if flags.slot is not None:
            check_kept_apart(flags.outputs[0].out)
        figures = _decode(flags, source, forms, began)
    if flags.stats:
        _print_stats(figures)
    if flags.stats_json is not None:
        _write_stats(figures, Path(flags.stats_json))


decode_command = CommandOfOutputs("decode", DecodeFlags, _run)


def _decode(flags: DecodeFlags, source: DecodeSource, forms: Sequence[MessageForm], began: float) -> dict[str, object]:
    """Decode what is read, write it, and return figures."""
    from headwater.cli.output.database_output import split_out
    from headwater.cli.output.message_output import unfinished_place
    from headwater.cli.process.progress import step_progress
    from headwater.pipeline.decode import RunSettings, decode_run
    from headwater.pipeline.open_run import open_run
    from headwater.pipeline.outputs import Output
    from headwater.pipeline.windows.run_index import WindowBounds

    run = open_run(source.requests, source.choice, source.kept)
    places = [split_out(output.out)[0] if flags.is_of_several else output.out for output in flags.outputs]
    with step_progress(flags.quiet) as progress, ExitStack() as stack:
        engine = flags.tasks.choose(progress).for_bytes(run.wal_bytes)
        started = time.perf_counter()
        writing = [stack.enter_context(_opened(output.out, flags, source)) for output in flags.outputs]
        decoded = stack.enter_context(
            decode_run(
                engine,
                run,
                [Output(*parts) for parts in zip(source.requests, forms, (w.deliver for w in writing), strict=True)],
                RunSettings(
                    progress=progress,
                    scratch=flags.scratch,
                    place=next(filter(None, map(unfinished_place, places)), None),
                    bounds=WindowBounds(flags.window_bytes),
                    keep=_keeper(flags.keep_states),
                ),
            )
        )
        write_began = time.perf_counter()
        for number, output in sorted(enumerate(writing), key=lambda pair: pair[1].is_late):
            with errors_of_output(source.requests[number].output):
                output.finish({label: results[number] for label, results in decoded.databases.items()})
        source.delivered(decoded, flags.outputs[0].out)
        finished = time.perf_counter()
        decoded.seconds["write"] = finished - write_began
        return _figures(flags, decoded, started - began, finished - started)


@contextmanager
def _opened(out: str, flags: DecodeFlags, source: DecodeSource) -> Iterator[RunOutput]:
    """Open what an ``--out`` names."""
    from headwater.cli.output.database_output import databases_output
    from headwater.cli.output.message_output import OneDatabase, message_output

    if flags.is_of_several:
        with databases_output(out) as several:
            yield several
    else:
        with message_output(out, source.placing(out)) as output:
            yield OneDatabase(output)


def _keeper(keep_states: str | None) -> Callable[[KeptState], None] | None:
    """Return a function that keeps the states after windows."""
    from headwater.cli.output.message_output import writing_refused
    from headwater.slots.kept_state import keep_state

    if keep_states is None:
        return None
    directory = Path(keep_states)
    refusal = writing_refused(directory)
    if refusal is not None:
        raise UsageError(f'cannot use --keep-states "{keep_states}": {refusal}, expected a directory to write to')

    def keep(state: KeptState) -> None:
        keep_state(directory, state)

    return keep


def _checked_forms(flags: DecodeFlags) -> list[MessageForm]:
    """Return the form of each output, once it is known that it can be written where the flags say."""
    from headwater.cli.output.message_output import check_output, check_scratch

    forms = [_checked_form(output, flags.is_of_several) for output in flags.outputs]
    if flags.stats_json is not None:
        check_output("--stats-json", flags.stats_json, False)
    check_scratch(flags.scratch)
    return forms


def _checked_form(output: OutputFlags, is_of_several: bool) -> MessageForm:
    from headwater.cli.output.database_output import split_out
    from headwater.cli.output.message_output import check_output, is_directory
    from headwater.pipeline.slices.message_files import MessageForm

    out = output.out
    is_parquet = out.endswith(".parquet") or is_directory(out)
    if is_parquet and output.with_lsn:
        raise UsageError("--with-lsn is for lines; a Parquet file has the columns lsn and xid anyway")
    check_output("--out", split_out(out)[0] if is_of_several else out, is_parquet)
    if out == "-":
        _check_standard_output()
    if is_parquet:
        return MessageForm.PARQUET if is_directory(out) else MessageForm.ARROW
    return MessageForm.LINES_WITH_LSN if output.with_lsn else MessageForm.LINES


def _check_standard_output() -> None:
    if fcntl.fcntl(STANDARD_OUTPUT, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
        raise UsageError("cannot write to standard output: it is closed", hint="open it, or give --out FILE")


def _figures(flags: DecodeFlags, decoded: Decoded, startup: float, total: float) -> dict[str, object]:
    """Return the figures of the only output of the only database; or by database, and by output."""

    def of_output(number: int) -> dict[str, object]:
        figures: dict[str, object] = {
            label: _figures_of(results[number], decoded, startup, total) for label, results in decoded.databases.items()
        }
        return figures if flags.is_of_several else cast("dict[str, object]", figures.popitem()[1])

    if len(flags.outputs) == 1:
        return of_output(0)
    return {
        "wal_bytes_indexed": decoded.indexed,
        "wal_bytes_decoded": decoded.read_again,
        **{output.out: of_output(number) for number, output in enumerate(flags.outputs)},
    }


def _figures_of(result: DecodeResult, decoded: Decoded, startup: float, total: float) -> dict[str, object]:
    from headwater.base.malloc_settings import peak_memory

    return {
        "wal_bytes_indexed": decoded.indexed,
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
        message = f"could not write statistics: {reason_of(error)}; the output is written"
        raise HeadwaterError(message, file=str(file)) from None


def _print_stats(figures: dict[str, object]) -> None:
    for name, value in figures.items():
        print(f"{name}: {value}", file=sys.stderr)
