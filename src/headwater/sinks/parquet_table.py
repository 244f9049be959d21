"""A table of Parquet files, with a log of manifests that says which files are its, and how far it has come.

::

    orders/part-….parquet                             rows; what a glob finds
    orders/_headwater/00000000000000000007.json       the seventh commit
    orders/_headwater/staged/part-….parquet           written by tasks, in no commit yet

A commit is a manifest that gets its name by a hard link, which fails where there is one of that number: whoever was
second is told. Files get their places after that; a run that ends in between is completed by the next to open the
table, and what was staged for no commit is removed. Every 64th manifest names all files. Who has a table open holds a
lock on it, which goes with its process.

Known gaps: places in stores (``s3://``); a reader by glob may come between a commit and its files.
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow.dataset import dataset

from headwater.errors import LakeConflictError, LakeError
from headwater.pg.lsn import Lsn
from headwater.sinks.lake_table import DataFile, LakeTable, Landed, errors_at, lock_alone
from headwater.slots.value_file import sync_directory

WHOLE_EVERY = 64
_NAME = re.compile(r"(\d{20})\.json")
_FORMAT = 1


class ParquetTable(LakeTable):
    """A table in a directory of this machine, or one that all machines share.

    Args:
        place: the directory, which is made.
        source: what its rows must be of.

    Raises:
        LakeError: it cannot be read or made, or holds rows of something else.
    """

    def __init__(self, place: Path, source: str) -> None:
        self.place, self._log = place, place / "_headwater"
        with errors_at(place):
            Path(self.staging).mkdir(parents=True, exist_ok=True)
            self._lock = lock_alone(self._log / "lock", place)
            self._number = 0
            self.files: dict[str, DataFile] = {}
            self._landed = self._read(source)
            self._complete()

    def close(self) -> None:
        """See :class:`LakeTable`."""
        os.close(self._lock)

    @property
    def landed(self) -> Landed:
        """See :class:`LakeTable`."""
        return self._landed

    @property
    def staging(self) -> str:
        """See :class:`LakeTable`."""
        return str(self._log / "staged")

    def commit(self, added: list[DataFile], landed: Landed) -> None:
        """See :class:`LakeTable`."""
        with errors_at(self.place):
            number = self._number + 1
            files = {**self.files, **{file.path: file for file in added}}
            sync_directory(Path(self.staging))
            text = self._manifest(number, list(files.values()) if number % WHOLE_EVERY == 0 else added, landed)
            self._publish(number, text)
            self._number, self._landed, self.files = number, landed, files
            self._place(added)

    def _manifest(self, number: int, files: list[DataFile], landed: Landed) -> str:
        assert landed.schema is not None
        return json.dumps(
            {
                "format": _FORMAT,
                "number": number,
                "is_whole": number % WHOLE_EVERY == 0,
                "source": landed.source,
                "commit_lsn": str(Lsn(landed.commit_lsn)),
                "schema": base64.b64encode(landed.schema.serialize()).decode(),
                "files": [asdict(file) for file in files],
            },
            default=str,
        )

    def _publish(self, number: int, text: str) -> None:
        """Give a manifest its name, unless there is one."""
        part = self._log / f"{number:020}.{os.getpid()}.part"
        try:
            with part.open("x") as sink:
                sink.write(text)
                sink.flush()
                os.fsync(sink.fileno())
            os.link(part, self._log / f"{number:020}.json")
            sync_directory(self._log)
        except FileExistsError:
            raise LakeConflictError(
                f"commit {number} was made by somebody else",
                file=str(self.place),
                hint="only one land may write to a table; end the other one, and begin again",
            ) from None
        finally:
            with suppress(OSError):
                part.unlink(missing_ok=True)

    def _place(self, added: list[DataFile]) -> None:
        for file in added:
            staged = Path(self.staging) / file.path
            if staged.exists():
                os.replace(staged, self.place / file.path)
        sync_directory(self.place)

    def _complete(self) -> None:
        """Do what a run left undone: place what was committed, remove what was not."""
        self._place([self.files[name] for name in self.files.keys() & set(os.listdir(self.staging))])
        for name in os.listdir(self.staging):
            (Path(self.staging) / name).unlink(missing_ok=True)
        for part in self._log.glob("*.part"):
            part.unlink(missing_ok=True)

    def _read(self, source: str) -> Landed:
        """Follow the log."""
        landed = Landed(-1, None, source)
        for manifest in manifests(self.place):
            if manifest["is_whole"]:
                self.files = {}
            self.files |= {one["path"]: DataFile(**one) for one in manifest["files"]}
            landed = Landed(Lsn.parse(manifest["commit_lsn"]), _schema_of(manifest), manifest["source"])
            self._number = manifest["number"]
        if landed.source != source:
            raise LakeError(
                f"the table has rows of {landed.source}, not of {source}",
                file=str(self.place),
                hint="land another server, or another database, to another place",
            )
        return landed


def manifests(place: Path) -> Iterator[dict[str, Any]]:
    """Those of a table from its last whole one on, in their order.

    Raises:
        LakeError: one is damaged, or missing.
    """
    log = place / "_headwater"
    found = (_NAME.fullmatch(name) for name in os.listdir(log))
    last = max((int(match[1]) for match in found if match is not None), default=0)
    for number in range(max(last // WHOLE_EVERY * WHOLE_EVERY, 1), last + 1):
        path = log / f"{number:020}.json"
        try:
            manifest: dict[str, Any] = json.loads(path.read_text())
            if manifest["format"] != _FORMAT:
                raise LakeError(f"a manifest of format {manifest['format']}, expected {_FORMAT}", file=str(path))
        except FileNotFoundError:
            raise LakeError("a manifest is missing", file=str(path)) from None
        except (ValueError, KeyError, TypeError) as error:
            raise LakeError(f"damaged manifest: {error}", file=str(path)) from None
        yield manifest


def _schema_of(manifest: Mapping[str, Any]) -> pa.Schema:
    try:
        return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(manifest["schema"], validate=True)))
    except (ValueError, KeyError, TypeError, pa.ArrowException) as error:
        raise LakeError(f"the columns of manifest {manifest['number']} cannot be read: {error}") from None


def read_parquet_table(place: Path) -> pa.Table:
    """The rows of a table as of its last commit, wherever its files lie.

    Raises:
        LakeError: it cannot be read.
    """
    files: list[str] = []
    schema: pa.Schema | None = None
    with errors_at(place):
        for manifest in manifests(place):
            files = [] if manifest["is_whole"] else files
            files += [one["path"] for one in manifest["files"]]
            schema = _schema_of(manifest)
        if schema is None:
            raise LakeError("nothing has landed in the table", file=str(place))
        try:
            return _rows(place, files, schema)
        except FileNotFoundError:  # Who lands has put a file in its place meanwhile.
            return _rows(place, files, schema)


def _rows(place: Path, files: Sequence[str], schema: pa.Schema) -> pa.Table:
    """The rows of files, each in its place or still staged."""
    staged = place / "_headwater" / "staged"
    found = [str(place / name if (place / name).exists() else staged / name) for name in files]
    return dataset(found, schema=schema, format="parquet").to_table() if found else schema.empty_table()
