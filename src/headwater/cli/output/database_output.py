"""The place of the messages of several databases: a directory with a file, or a directory of part files, for each.

``--out DIR/`` makes ``DIR/database=NAME/part-*.parquet``, a table that Spark, DuckDB and others read with a column
``database``; ``--out DIR/{database}.txt`` lines, ``DIR/{database}.parquet`` a Parquet file. All of it is written in a
hidden directory beside ``DIR``, which takes its place when everything is there: of several databases all or none.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from headwater.cli.output.message_output import MessageOutput, PartFiles, appending, parquet, target, whole_file
from headwater.errors import UsageError
from headwater.pipeline.outputs import DecodeResult, Deliver

DATABASE = "{database}"
"""Stands for a database's name in ``--out``."""

_SPECIAL = re.compile(r"[\x00-\x1f\x7f\"#%'*/:=?\\{}\[\]^]")
"""What Spark escapes in the value of a partition's column."""


def split_out(out: str) -> tuple[str, str]:
    """Return the directory that ``--out`` makes, ending with a slash, and what it has for each database.

    Raises:
        UsageError: the messages of several databases cannot go there.
    """
    directory, _, name = out.rpartition("/")
    if (name and DATABASE not in name) or DATABASE in directory or not directory:
        raise UsageError(
            f'cannot write several databases to "{out}"',
            hint=f"give --out DIR/ for part files, DIR/{DATABASE}.parquet or DIR/{DATABASE}.txt",
        )
    return f"{directory}/", name


def file_name(pattern: str, label: str) -> str:
    """Return the name of a database's file or directory.

    Args:
        pattern: has :data:`DATABASE` in it; empty for a directory of part files.
        label: of the database.
    """
    shown = _SPECIAL.sub(lambda match: f"%{ord(match[0]):02X}", label)
    name = (pattern or f"database={DATABASE}").replace(DATABASE, shown)
    return name if name not in {".", ".."} else name.replace(".", "%2E")


class DatabasesOutput:
    """A taker of the files of several databases, made for one output; a :class:`RunOutput`.

    Args:
        directory: where its files are made.
        pattern: as :func:`file_name` takes it.
        out: what errors call it.
        stack: closes what was opened.
    """

    is_late = False

    def __init__(self, directory: Path, pattern: str, out: str, stack: ExitStack) -> None:
        self._directory, self._pattern, self._out, self._stack = directory, pattern, out, stack
        self._outputs: dict[str, MessageOutput] = {}

    def deliver(self, label: str) -> Deliver | None:
        return self._output(label).early

    def finish(self, results: Mapping[str, DecodeResult]) -> None:
        for label, result in results.items():
            self._output(label).finish(result)
        if not self._pattern:
            (self._directory / "_SUCCESS").touch()

    def _output(self, label: str) -> MessageOutput:
        if label not in self._outputs:
            self._outputs[label] = self._open(self._directory / file_name(self._pattern, label))
        return self._outputs[label]

    def _open(self, path: Path) -> MessageOutput:
        if not self._pattern:
            path.mkdir()
            return PartFiles(path, marks_end=False)
        path.touch()
        if self._pattern.endswith(".parquet"):
            return self._stack.enter_context(parquet(path))
        return self._stack.enter_context(appending(path, self._out))


@contextmanager
def databases_output(out: str) -> Iterator[DatabasesOutput]:
    """Open what ``--out`` names; the directory is there after the ``with`` block with everything in it, or is not.

    Args:
        out: what :func:`split_out` takes.

    Raises:
        HeadwaterError: it cannot be written.
    """
    directory, pattern = split_out(out)
    with whole_file(target(Path(directory)), out, os.replace, Path.mkdir) as part, ExitStack() as stack:
        yield DatabasesOutput(part, pattern, out, stack)
