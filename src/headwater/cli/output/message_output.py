"""The place of the messages of ``headwater decode``: standard output, a file of lines, a Parquet file, a device.

A regular file is written in a hidden directory beside its place while later messages are still decoded. It moves there
when all of it is written. What cannot be taken back (standard output, a device) gets nothing before everything is
decoded.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from headwater.base.system_errors import errors_as, reason_of, system_error
from headwater.base.temporary_directories import OwnDirectory
from headwater.cli.process.setup import STANDARD_OUTPUT
from headwater.errors import CatalogError, HeadwaterError, UsageError
from headwater.pipeline.outputs import DecodeResult, Deliver
from headwater.pipeline.slices.message_files import check_text, message_schema, message_table, parquet_writer


class MessageOutput(Protocol):
    """A taker of the files of a decoding.

    Attributes:
        early: takes one file after the other as they are made, or None: :meth:`finish` takes all.
    """

    @property
    def early(self) -> Deliver | None: ...

    def finish(self, result: DecodeResult) -> None:
        """Write what is left, as everything is decoded."""


class RunOutput(Protocol):
    """A taker of the files of one output of a run, of its database or databases.

    Attributes:
        is_late: what it has written it cannot take back, so it writes nothing before all outputs are there.
    """

    @property
    def is_late(self) -> bool: ...

    def deliver(self, label: str) -> Deliver | None:
        """Return a function that takes a database's files as they are made."""

    def finish(self, results: Mapping[str, DecodeResult]) -> None:
        """Write what is left, as everything is decoded."""


class OneDatabase:
    """A taker of the files of one database, whichever it is; a :class:`RunOutput`."""

    def __init__(self, output: MessageOutput) -> None:
        self._output = output
        self._label: str | None = None

    @property
    def is_late(self) -> bool:
        return self._output.early is None

    def deliver(self, label: str) -> Deliver | None:
        """See :class:`RunOutput`.

        Raises:
            CatalogError: a second database is created under the name that was asked for.
        """
        if self._label not in (None, label):
            raise CatalogError(
                f'the WAL creates more than one database "{self._label}"', hint="give --all-databases and --out DIR/"
            )
        self._label = label
        return self._output.early

    def finish(self, results: Mapping[str, DecodeResult]) -> None:
        (result,) = results.values()
        self._output.finish(result)


class Lines:
    """Lines to a descriptor; `out` is what errors call it."""

    def __init__(self, descriptor: int, out: str) -> None:
        self._descriptor, self._out = descriptor, out

    def early(self, path: str) -> None:
        with open(path, "rb") as source:
            while chunk := source.read(1 << 20):
                try:
                    _write_all(self._descriptor, memoryview(chunk))
                except BrokenPipeError:
                    raise
                except OSError as error:
                    raise system_error("write output", error, file=self._out) from None

    def finish(self, result: DecodeResult) -> None:
        """Do nothing: nothing is left to do."""


class _Late:
    """Lines to where they cannot be taken back from."""

    early = None

    def __init__(self, lines: Lines) -> None:
        self._lines = lines

    def finish(self, result: DecodeResult) -> None:
        for file in result.files:
            self._lines.early(file.path)


def _new_file(path: Path) -> pa.OSFile:
    return pa.OSFile(os.fsencode(path), "wb")  # type: ignore[arg-type]  # bytes too: names need not be UTF-8


class _Parquet:
    """A Parquet file of ``lsn, xid, data``; the first file of messages says what kind of data."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writer: Any = None
        self._file: pa.OSFile | None = None

    def early(self, path: str) -> None:
        table = message_table(path)
        writer = self._open(table.schema)
        for batch in table.to_batches():
            writer.write_batch(check_text(batch))

    def finish(self, result: DecodeResult) -> None:
        self._open(message_schema(result.is_text)).close()

    def close(self) -> None:
        """Let go of the file, complete or not."""
        if self._writer is not None:
            self._writer.close()
        if self._file is not None:
            self._file.close()

    def _open(self, schema: pa.Schema) -> Any:
        if self._writer is None:
            self._file = _new_file(self._path)
            self._writer = parquet_writer(self._file, schema)
        return self._writer


class PartFiles:
    """A directory of Parquet files as tasks write them, in the order of their names; and ``_SUCCESS``, Spark's mark."""

    def __init__(self, directory: Path, marks_end: bool = True) -> None:
        self._directory = directory
        self._marks_end = marks_end
        self._count = 0

    def early(self, path: str) -> None:
        place = self._next()
        shutil.move(path, place)
        # A task's file is for nobody else; this one is for whom the directory is.
        place.chmod(self._directory.stat().st_mode & 0o666)

    def finish(self, result: DecodeResult) -> None:
        if not self._count:
            with _new_file(self._next()) as sink:
                parquet_writer(sink, message_schema(result.is_text)).close()
        if self._marks_end:
            (self._directory / "_SUCCESS").touch()

    def _next(self) -> Path:
        self._count += 1
        return self._directory / f"part-{self._count - 1:05d}.snappy.parquet"


@contextmanager
def message_output(out: str, place: Callable[[Path, Path], None] | None = None) -> Iterator[MessageOutput]:
    """Open what ``--out`` names; a file is there after the ``with`` block, or nothing is.

    Args:
        out: ``-``, or a path that :func:`check_output` has let pass.
        place: moves a whole file to its place, None for a plain rename.

    Raises:
        HeadwaterError: it cannot be written.
    """
    if out == "-":
        yield _Late(Lines(STANDARD_OUTPUT, "standard output"))
    elif is_directory(out):
        with whole_file(target(Path(out)), out, place or os.replace, Path.mkdir) as part:
            yield PartFiles(part)
    elif _is_special(Path(out)):
        with appending(Path(out), out) as lines:
            yield _Late(lines)
    else:
        with whole_file(target(Path(out)), out, place or os.replace) as part:
            if out.endswith(".parquet"):
                with parquet(part) as output:
                    yield output
            else:
                with appending(part, out) as lines:
                    yield lines


@contextmanager
def parquet(path: Path) -> Iterator[MessageOutput]:
    """Write a Parquet file in place of a file that is there already."""
    output = _Parquet(path)
    try:
        yield output
    finally:
        output.close()


@contextmanager
def appending(path: Path, out: str) -> Iterator[Lines]:
    """Append lines to a file that is there already; `out` is what errors call it."""
    with errors_as(HeadwaterError, "write output", out):
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
    try:
        yield Lines(descriptor, out)
    finally:
        os.close(descriptor)


@contextmanager
def whole_file(
    path: Path, out: str, place: Callable[[Path, Path], object], make: Callable[[Path], object] = Path.touch
) -> Iterator[Path]:
    """Make a file, or directory, that takes its place only when it is complete; `out` is what errors call it."""
    with errors_as(HeadwaterError, "write output", out), OwnDirectory(path.parent, hidden=True) as directory:
        part = directory / path.name
        make(part)
        yield part
        place(part, path)


def is_directory(out: str) -> bool:
    """Tell whether ``--out`` names a directory of part files."""
    return out.endswith("/")


def _write_all(descriptor: int, data: memoryview) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def check_output(flag: str, out: str, is_parquet: bool) -> None:
    """Refuse a file that could not be written, before anything is read.

    Args:
        flag: the option that names it.
        out: ``-`` or a path.
        is_parquet: it becomes a Parquet file.

    Raises:
        UsageError: it is a directory, or lies in none, or may not be made or written there.
    """
    if out == "-":
        return
    path = Path(out)
    parent = target(path).parent
    hint = f"choose another {flag}"
    if not parent.is_dir():
        raise UsageError(f'cannot write "{out}": no such directory', hint=f"make it, or choose another {flag}")
    if path.is_dir() and not is_directory(out):
        raise UsageError(f'cannot write "{out}": it is a directory', hint=f"{hint}, or {out}/ for part files")
    if is_directory(out) and path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise UsageError(f'cannot write "{out}": it exists and is not empty', hint=hint)
    if _is_special(path) and is_parquet:
        raise UsageError(f'cannot write "{out}": it is no regular file, which Parquet needs', hint=hint)
    refusal = _refusal(path, parent)
    if refusal is not None:
        raise UsageError(f'cannot write "{out}": {refusal}', hint=hint)


def unfinished_place(out: str) -> str | None:
    """Return the place of unfinished output: beside the file it becomes, or with temporary files (None)."""
    return None if out == "-" or _is_special(Path(out)) else str(target(Path(out)).parent)


def writing_refused(directory: Path) -> str | None:
    """Say why no file can be made in a directory; None if it can."""
    return _refusal(None, directory)


def check_scratch(scratch: str | None) -> None:
    """Check that files can be made in the directory that --scratch names.

    Raises:
        UsageError: they cannot.
    """
    refusal = None if scratch is None else writing_refused(Path(scratch))
    if refusal is not None:
        raise UsageError(f'cannot use --scratch "{scratch}": {refusal}, expected a directory that can be written to')


def _refusal(path: Path | None, parent: Path) -> str | None:
    """Say why a device cannot be written, or no file be made in a directory; None if it can."""
    try:
        if path is not None and _is_special(path):
            return None if os.access(path, os.W_OK) else os.strerror(errno.EACCES)
        with tempfile.TemporaryFile(dir=parent):
            return None
    except OSError as error:
        return reason_of(error)


def _is_special(path: Path) -> bool:
    """Tell whether it is a device or pipe, beside which no file is to be made."""
    return path.exists() and not path.is_file() and not path.is_dir()


def target(path: Path) -> Path:
    """Return the file that is written when a path is, symbolic links followed."""
    return Path(os.path.realpath(path))
