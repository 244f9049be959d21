"""Delta's log, as far as deletion vectors need it: which file has which, and commits that name them (PROTOCOL.md).

``deltalake`` (1.6.6) reads tables with vectors, and checkpoints keep them; but no action of its own names one, neither
those that it gives nor those that it takes. So the log is read here for them, and commits are files of JSON that are
written here: whole, and only if there is none of that version yet.

A log is read from its last checkpoint on. Of a path that a version of the table has, the last ``add`` says which vector
it has: a version has each path once.

Known gaps: checkpoints of version 2.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pyarrow.parquet as pq

from headwater.errors import LakeConflictError, LakeError
from headwater.lakes.stores.places import Where, add_file, arrow_source, folder_at, make_folder, names_in, read_file

FEATURE, PROPERTY = "deletionVectors", "delta.enableDeletionVectors"
CHECKPOINT_EVERY = 100
"""Versions; as ``deltalake`` does it, and cleans the log up then."""

_READER, _WRITER = 3, 7
_NTZ = "timestampNtz"
_KNOWN = {FEATURE, _NTZ, "appendOnly", "invariants", "variantType", "variantType-preview"}
"""Features of tables that commits are written to here: of columns that we write none has any, nor invariants."""
_OLD_WRITER = 2
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10}))?\.parquet")
_SAFE = "/:@!$&'()*+,;=-._~"

Action = Mapping[str, Any]


@dataclass(frozen=True)
class Protocol:
    """The features that a table asks of who reads and writes it.

    Attributes:
        reader, writer: least versions.
        features: names of features of both, where the versions have such; reader_features: those of readers.
    """

    reader: int
    writer: int
    features: frozenset[str]
    reader_features: frozenset[str]

    @classmethod
    def of(cls, reader: int, writer: int, features: Iterable[str] | None, of_readers: Iterable[str] | None) -> Protocol:
        """Return what a table says; those of before features were named have few."""
        if features is None and writer == _OLD_WRITER:
            features = ("appendOnly", "invariants")
        return cls(reader, writer, frozenset(features or ()), frozenset(of_readers or ()))

    def require_known(self, place: Where, configuration: Mapping[str, str | None]) -> None:
        """See that nothing is asked of who writes that is not done here.

        Args:
            place: the table's directory; configuration: its properties.

        Raises:
            LakeError: something is.
        """
        unknown = sorted((self.features | self.reader_features) - _KNOWN)
        if self.writer not in (1, _OLD_WRITER, _WRITER):
            unknown.append(f"writer version {self.writer}")
        if str(configuration.get("delta.appendOnly")).lower() == "true":
            unknown.append("delta.appendOnly")
        if unknown:
            raise LakeError(
                f"the table asks for {', '.join(unknown)}, which commits with deletion vectors have not",
                file=str(place),
                hint="--write-mode copy-on-write, or land to another place",
            )

    def with_vectors(self, schema: str) -> Protocol:
        """Return a protocol for vectors, and columns.

        Args:
            schema: the columns, in JSON.
        """
        wanted = {FEATURE} | ({_NTZ} if '"timestamp_ntz"' in schema else set())
        both = self.reader_features | wanted
        return Protocol(_READER, _WRITER, self.features | both, both)

    @property
    def action(self) -> Action:
        """The action that asks for it."""
        return {
            "protocol": {
                "minReaderVersion": self.reader,
                "minWriterVersion": self.writer,
                "readerFeatures": sorted(self.reader_features),
                "writerFeatures": sorted(self.features),
            }
        }


NO_TABLE = Protocol(1, _OLD_WRITER, frozenset({"appendOnly", "invariants"}), frozenset())
"""Of a table that is not there yet."""


def write_commit(log: Where, version: int, actions: Sequence[Action]) -> None:
    """Write a commit, unless somebody else has written that version.

    Args:
        log: the directory of the log, which is made; version: of the table, then; actions: of the commit.

    Raises:
        LakeConflictError: the version is there.
        OSError: it cannot be written.
        LakeError: likewise, in a store.
    """
    make_folder(log)
    if isinstance(log, Path):
        for path in log.glob("*.json.*.part"):  # of a process that was killed; who lands has the table alone
            path.unlink(missing_ok=True)
    lines = "".join(f"{json.dumps(action, separators=(',', ':'))}\n" for action in actions)
    try:
        add_file(log / f"{version:020d}.json", [lines.encode()])
    except FileExistsError:
        raise LakeConflictError(
            f"version {version} was committed meanwhile", file=str(log), hint="only one land may write to a table"
        ) from None


def logged_path(path: str) -> str:
    """Return a file's path as actions have it."""
    return quote(path, safe=_SAFE)


def vectors_in_log(log: Where, version: int) -> dict[str, Mapping[str, Any]]:
    """Return descriptors of the vectors that files have, by their paths; also of files that the version has no more.

    Args:
        log: the directory of the log; version: of the table.

    Raises:
        LakeError: the log is damaged, or of a form that is not read here.
    """
    newest: dict[str, Mapping[str, Any] | None] = {}
    for path, noted in _adds(log, version):
        newest.setdefault(unquote(path), noted)
    return {path: noted for path, noted in newest.items() if noted is not None}


def _adds(log: Where, version: int) -> Iterator[tuple[str, Mapping[str, Any] | None]]:
    """Yield paths that were added, with their vectors; the last ones first."""
    begin, parts = _checkpoint(log, version)
    for number in range(version, begin, -1):
        try:
            content = read_file(log / f"{number:020d}.json")
            if content is None:
                raise ValueError("it is lost")
            actions = [json.loads(line) for line in content.splitlines() if line]
        except (OSError, ValueError) as error:
            raise LakeError(f"version {number} of the log cannot be read: {error}", file=str(log)) from None
        for action in actions:
            if "add" in action:
                yield action["add"]["path"], action["add"].get("deletionVector")
    for part in parts:
        yield from _adds_of_checkpoint(part)


def _adds_of_checkpoint(part: str) -> Iterator[tuple[str, Mapping[str, Any] | None]]:
    with pq.ParquetFile(arrow_source(part)) as file:
        for add in file.read(columns=["add.path", "add.deletionVector"])["add"].to_pylist():
            if add is not None and add["path"] is not None:
                yield add["path"], add.get("deletionVector")


def _checkpoint(log: Where, version: int) -> tuple[int, list[str]]:
    """Find the last checkpoint at or before a version; -1 and no files for none.

    Raises:
        LakeError: it is of a form that is not read here.
    """
    parts: dict[int, list[str]] = {}
    whole: dict[int, int] = {}
    folder = folder_at(log)
    for name in sorted(name for name in names_in(log) if ".checkpoint" in name):
        known = _CHECKPOINT.fullmatch(name)
        if known is None:
            raise LakeError(f"a checkpoint of another form: {name}", file=str(log), hint="land to another place")
        number = int(known[1])
        parts.setdefault(number, []).append(f"{folder}/{name}")
        whole[number] = int(known[3] or 1)
    usable = [number for number, there in parts.items() if number <= version and len(there) == whole[number]]
    return (max(usable), parts[max(usable)]) if usable else (-1, [])
