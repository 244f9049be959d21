"""A table of Parquet files, with a log of manifests that says which files are its, and how far it has come.

::

    orders/part-….parquet                                  rows; what a glob finds, orders/**/*.parquet too
    orders/_headwater/00000000000000000007.json            the seventh commit
    orders/_headwater/unplaced/part-….parquet.unplaced     written by tasks, in no commit yet
    orders/_headwater/removed/part-….parquet.removed       taken away by a commit; for who reads an earlier one

A commit is a manifest that gets its name by a hard link, which fails where there is one of that number: whoever was
second gets an error. Files get their places after that; a run that ends in between is completed by the next to open the
table, and what was staged for no commit is removed. Files that a commit takes away leave the directory likewise, and
stay until somebody expires them. Every 64th manifest names all files. Who has a table open holds a lock on it, which
goes with its process.

Tables of before have ``staged`` for ``unplaced``, and files in both with their own names, which a glob over all
directories finds: who opens the table to write to it renames them.

In a store nothing is renamed: tasks write files where they stay, and a manifest is an object that is written on the
condition that there is none of its number. The last one is looked for by its number, so that nothing is listed::

    orders/data/part-….parquet                             rows; of commits, of earlier ones, and of none
    orders/_headwater/00000000000000000007.json            the seventh commit

So a glob finds too much there: who reads the files reads the manifests first. Files that left the table stay until
somebody expires them, as do those of no commit. The target's fence stands for the lock
(:mod:`headwater.lakes.stores.fence`).

Files of a table that is partitioned lie in directories that are called as their partitions (``region=eu/``), and have
all columns. Where they are staged, or taken away, they lie side by side. Manifests have the partitions, in a format of
their own.

Rows that are deleted beside files (``--write-mode merge-on-read``) are in the manifest of the commit, with their files
(:mod:`headwater.lakes.deletes.listed_deletes`). Such a manifest has another format: who does not know it says so.

Known gaps: a reader by glob may come between a commit and its files.
"""

from __future__ import annotations

import base64
import json
import math
import os
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow.dataset import dataset

from headwater.base.overrides import override
from headwater.base.whole_files import sync_directory
from headwater.errors import LakeConflictError, LakeError
from headwater.lakes.deletes.deleted_rows import Positions, left_rows
from headwater.lakes.deletes.listed_deletes import ListedRows
from headwater.lakes.file_bounds import read_bounds, written_bounds
from headwater.lakes.lake_table import (
    UNPLACED,
    DataFile,
    Expired,
    LakeFormat,
    LakeTable,
    Landed,
    TableSize,
    errors_at,
    is_written_here,
    lock_alone,
    remove_files,
    require_no_others,
    require_source,
    staged_path,
)
from headwater.lakes.stores.places import (
    NO_OPTIONS,
    StorePath,
    Where,
    add_file,
    folder_of,
    is_there,
    place_of,
    read_file,
    readable,
)
from headwater.pg.lsn import Lsn
from headwater.rows.columns.arrow import no_rows

WHOLE_EVERY = 64
_REMOVED, _STAGED_BEFORE = "removed", "staged"
_NAME = re.compile(r"(\d{20})\.json")
_FORMAT, _WITH_DELETES, _WITH_PARTITIONS = 1, 2, 3

DATA = "data"
"""The folder of files of rows, in a store."""


class _ManifestTable(LakeTable):
    """A table that its manifests make one.

    Args:
        place: where it is; source: what its rows must be of.
        deletes_beside: commits delete rows beside files.

    Raises:
        LakeError: it cannot be read, or holds rows of something else.
    """

    def __init__(self, place: Where, source: str, *, deletes_beside: bool = False) -> None:
        self._where, self._deletes_beside = place, deletes_beside
        self._number = 0
        self._files: dict[str, DataFile] = {}
        self._landed = self._read(source)

    @property
    def version(self) -> int:
        """The number of the manifest; see :class:`LakeTable`."""
        return self._number or -1

    @property
    def files(self) -> Mapping[str, DataFile]:
        return self._files

    @property
    def deletes_beside(self) -> bool:
        return self._deletes_beside

    @override
    def commit_deleting(
        self, added: list[DataFile], landed: Landed, removed: Sequence[str], deleted: Mapping[str, Positions]
    ) -> None:
        there = {path: self._files[path] for path in deleted}
        changed = [replace(file, deleted=ListedRows.of(file.deleted, deleted[path])) for path, file in there.items()]
        self.commit([*added, *changed], landed, removed)

    @override
    def commit(
        self, added: list[DataFile], landed: Landed, removed: Sequence[str] = (), *, has_same_rows: bool = False
    ) -> None:
        with errors_at(self._where):
            number = self._number + 1
            files = _changed(self._files, added, removed)
            self._publish(number, self._manifest(number, files, added, landed, removed))
            self._number, self._landed, self._files = number, landed, files

    def _manifest(
        self,
        number: int,
        files: Mapping[str, DataFile],
        added: Sequence[DataFile],
        landed: Landed,
        removed: Sequence[str],
    ) -> str:
        assert landed.schema is not None
        is_whole = number % WHOLE_EVERY == 0
        listed = list(files.values()) if is_whole else added
        has_deletes, has_partitions = (
            any(file.deleted is not None for file in listed),
            any(file.partition for file in listed),
        )
        return json.dumps(
            {
                "format": _WITH_PARTITIONS if has_partitions else _WITH_DELETES if has_deletes else _FORMAT,
                "number": number,
                "is_whole": is_whole,
                "source": landed.source,
                "commit_lsn": str(Lsn(landed.commit_lsn)),
                "schema": base64.b64encode(landed.schema.serialize()).decode(),
                "files": [_shown(file) for file in listed],
                "removed": list(removed),
            },
        )

    def _publish(self, number: int, text: str) -> None:
        """Give a manifest its name, unless there is one."""
        try:
            add_file(_manifest_path(self._where, number), [text.encode()])
        except FileExistsError:
            raise LakeConflictError(
                f"commit {number} was made by somebody else",
                file=str(self._where),
                hint="only one land may write to a table; end the other one, and begin again",
            ) from None

    def _read(self, source: str) -> Landed:
        """Follow the log."""
        landed = Landed(-1, None, source)
        for manifest in manifests(self._where):
            self._files = _followed(self._files, manifest)
            landed = Landed(Lsn.parse(manifest["commit_lsn"]), _schema_of(manifest), manifest["source"])
            self._number = manifest["number"]
        require_source(landed.source, source, self._where)
        return landed


class ParquetTable(_ManifestTable):
    """A table in a directory of this machine, or one that all machines share.

    Args:
        place: the directory, which is made.
        source: what its rows must be of.
        deletes_beside: commits delete rows beside files.

    Raises:
        LakeError: it cannot be read or made, or holds rows of something else.
    """

    def __init__(self, place: Path, source: str, *, deletes_beside: bool = False) -> None:
        self.place, self._log = place, place / "_headwater"
        with errors_at(place):
            if not _last_number(place):
                require_no_others(place)
            for part in (self._log / UNPLACED, self._log / _REMOVED):
                part.mkdir(parents=True, exist_ok=True)
            self._lock = lock_alone(self._log / "lock", place)
            super().__init__(place, source, deletes_beside=deletes_beside)
            self._complete()

    def close(self) -> None:
        os.close(self._lock)

    @property
    def staging(self) -> str:
        return str(self._log / UNPLACED)

    def locate(self, path: str) -> str:
        return str(self.place / path)

    @override
    def commit(
        self, added: list[DataFile], landed: Landed, removed: Sequence[str] = (), *, has_same_rows: bool = False
    ) -> None:
        with errors_at(self.place):
            sync_directory(Path(self.staging))
            super().commit(added, landed, removed, has_same_rows=has_same_rows)
            self._place(added)
            self._take_away(removed)

    def _place(self, added: list[DataFile]) -> None:
        if not added:
            return
        for file in added:
            staged = next((path for path in _staged_paths(self._log, file.path) if path.exists()), None)
            if staged is not None:
                (self.place / file.path).parent.mkdir(parents=True, exist_ok=True)
                os.replace(staged, self.place / file.path)
        parents = {folder for file in added for folder in Path(file.path).parents}
        for folder in sorted(parents, key=lambda folder: len(folder.parts), reverse=True):
            sync_directory(self.place / folder)

    def _take_away(self, removed: Iterable[str]) -> None:
        for path in removed:
            with suppress(FileNotFoundError):
                os.replace(self.place / path, _removed_path(self._log, path))

    def _complete(self) -> None:
        """Do what a run left undone: place what was committed, take away what is gone, remove what was not."""
        staged = [path for name in (UNPLACED, _STAGED_BEFORE) for path in (self._log / name).glob("*")]
        named = {os.path.basename(path): file for path, file in self._files.items()}
        self._place([file for path in staged if (file := named.get(path.name.removesuffix(f".{UNPLACED}")))])
        self._take_away(set(_placed(self.place)) - self._files.keys())
        for path in (self._log / _REMOVED).glob("*.parquet"):
            os.replace(path, _removed_path(self._log, path.name))
        for path in (*staged, *self._log.glob("*.part")):
            path.unlink(missing_ok=True)


class StoreParquetTable(_ManifestTable):
    """A table in a store.

    Args:
        place: where; source: what its rows must be of.

    Raises:
        LakeError: it cannot be read, or holds rows of something else.
    """

    def __init__(self, place: StorePath, source: str) -> None:
        super().__init__(place, source)
        self._folder = folder_of(place / DATA)

    def close(self) -> None:
        """See :class:`LakeTable`; the target's fence keeps others out."""

    @property
    def staging(self) -> str:
        return self._folder

    def locate(self, path: str) -> str:
        return f"{self._folder}/{path}"


class ParquetFormat(LakeFormat[Where]):
    """Parquet tables; there is nothing that they share.

    Args:
        deletes_beside: see :class:`ParquetTable`.
    """

    def __init__(self, *, deletes_beside: bool = False) -> None:
        self._deletes_beside = deletes_beside

    @override
    def table(self, place: Where, source: str, name: str) -> LakeTable:
        if isinstance(place, StorePath):
            return StoreParquetTable(place, source)
        return ParquetTable(place, source, deletes_beside=self._deletes_beside)

    @override
    def expire(self, place: Where, name: str, kept_versions: Container[int], older_than: datetime) -> Expired:
        """See :class:`LakeFormat`: files that were taken away; the manifests stay."""
        if isinstance(place, StorePath):
            return _expired(place, kept_versions, older_than.timestamp())
        with errors_at(place):
            last = _last_number(place)
            numbers = [at for at in range(1, last + 1) if at in kept_versions]
            used = {os.path.basename(path) for at in numbers for path in _files_at(place, at)[0]}
            away = (place / "_headwater" / _REMOVED).glob("*.parquet*")
            unused = (path for path in away if path.name.removesuffix(f".{_REMOVED}") not in used)
            return remove_files(unused, older_than.timestamp())

    @override
    def size(self, place: Where, name: str, version: int) -> TableSize:
        with errors_at(place):
            return TableSize.of(_files_at(place, version)[0].values())

    @override
    def schema(self, place: Where, name: str, version: int) -> pa.Schema | None:
        with errors_at(place):
            return _files_at(place, version)[1]


def _expired(place: StorePath, kept_versions: Container[int], older_than: float) -> Expired:
    """Remove files of a table in a store that are of no version which somebody may read still.

    Args:
        place: the table's; kept_versions: some of these versions.
        older_than: seconds since 1970; others are those that were the last one at some time since then.
    """
    store, last = place.store, _last_number(place)
    written = {store.address(key): time for key, _, time in store.listed(f"{place.key}/_headwater/")}
    numbers = range(1, last + 1)
    is_later = {at for at in numbers if written.get(str(_manifest_path(place, at + 1)), math.inf) >= older_than}
    used = _files_of_versions(place, [at for at in numbers if at in kept_versions or at in is_later])
    removed = Expired(0, 0)
    for key, size, time in list(store.listed(f"{place.key}/{DATA}/")):
        if key.rpartition("/")[2] not in used and time < older_than:
            store.guard()
            store.remove(key)
            removed = Expired(removed.files + 1, removed.bytes + size)
    return removed


def _files_of_versions(place: StorePath, numbers: Sequence[int]) -> set[str]:
    """Return the names of files of some versions, each manifest read once."""
    used: set[str] = set()
    by_whole: dict[int, set[int]] = {}
    for number in numbers:
        by_whole.setdefault(number // WHOLE_EVERY, set()).add(number)
    for some in by_whole.values():
        files: dict[str, DataFile] = {}
        for manifest in manifests(place, max(some)):
            files = _followed(files, manifest)
            used |= {os.path.basename(path) for path in files} if manifest["number"] in some else set()
    return used


def _last_number(place: Where) -> int:
    """Return the number of a table's last manifest; 0 for none."""
    if isinstance(place, StorePath):
        return _last_there(lambda number: is_there(_manifest_path(place, number)))
    log = place / "_headwater"
    names = (_NAME.fullmatch(name) for name in (os.listdir(log) if log.is_dir() else ()))
    return max((int(match[1]) for match in names if match is not None), default=0)


def _last_there(is_there: Callable[[int], bool]) -> int:
    """Return the last of numbers that are there from 1 on, asked for in steps that double, then halve; 0 for none."""
    low, high = 0, 1
    while is_there(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if is_there(middle) else (low, middle)
    return low


def _manifest_path(place: Where, number: int) -> Where:
    return place / "_headwater" / f"{number:020}.json"


def manifests(place: Where, upto: int | None = None) -> Iterator[dict[str, Any]]:
    """Yield the manifests of a table from its last whole one on, in their order.

    Args:
        place: the table's directory.
        upto: the number of the last; None for all.

    Raises:
        LakeError: one is damaged, or missing.
    """
    last = _last_number(place) if upto is None else upto
    for number in range(max(last // WHOLE_EVERY * WHOLE_EVERY, 1), last + 1):
        path = _manifest_path(place, number)
        try:
            text = read_file(path)
            if text is None:
                raise LakeError("a manifest is missing", file=str(path))
            manifest: dict[str, Any] = json.loads(text)
            if manifest["format"] not in (_FORMAT, _WITH_DELETES, _WITH_PARTITIONS):
                raise LakeError(
                    f"a manifest of format {manifest['format']}, expected {_WITH_PARTITIONS}", file=str(path)
                )
        except (ValueError, KeyError, TypeError) as error:
            raise LakeError(f"damaged manifest: {error}", file=str(path)) from None
        yield manifest


def _schema_of(manifest: Mapping[str, Any]) -> pa.Schema:
    try:
        return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(manifest["schema"], validate=True)))
    except (ValueError, KeyError, TypeError, pa.ArrowException) as error:
        raise LakeError(f"the columns of manifest {manifest['number']} cannot be read: {error}") from None


def _changed(files: Mapping[str, DataFile], added: Iterable[DataFile], removed: Iterable[str]) -> dict[str, DataFile]:
    """Return files by their paths, after a commit."""
    gone = set(removed)
    return {path: file for path, file in files.items() if path not in gone} | {file.path: file for file in added}


def _followed(files: Mapping[str, DataFile], manifest: Mapping[str, Any]) -> dict[str, DataFile]:
    """Return files by their paths, after a manifest.

    Raises:
        LakeError: it is damaged.
    """
    try:
        added = [_read_file(file) for file in manifest["files"]]
        return _changed({} if manifest["is_whole"] else files, added, manifest.get("removed", ()))
    except (KeyError, TypeError, ValueError) as error:
        raise LakeError(f"the files of manifest {manifest['number']} cannot be read: {error}") from None


def _shown(file: DataFile) -> dict[str, Any]:
    """Return a file in a manifest: bounds with the types that JSON has not."""
    note = asdict(file) | {"lower": written_bounds(file.lower), "upper": written_bounds(file.upper)}
    lacking = {"deleted": file.deleted is None, "partition": not file.partition}
    return {name: value for name, value in note.items() if not lacking.get(name)}


def _read_file(note: Mapping[str, Any]) -> DataFile:
    deleted = None if note.get("deleted") is None else ListedRows(**note["deleted"])
    bounds = {"lower": read_bounds(note["lower"]), "upper": read_bounds(note["upper"])}
    return DataFile(**{**note, **bounds, "deleted": deleted, "partition": tuple(note.get("partition", ()))})


def read_parquet_table(
    place: str | Where, version: int | None = None, storage_options: Mapping[str, str] = NO_OPTIONS
) -> pa.Table:
    """Return the rows of a table as of a commit, wherever its files lie.

    Args:
        place: its directory, or its address in a store.
        version: the number of the commit; None for the last.
        storage_options: fsspec's for the store, by names.

    Raises:
        LakeError: it cannot be read.
        UsageError: it is of no store that tables can be in.
    """
    place = place_of(place, storage_options).absolute()
    with errors_at(place):
        files, schema = _files_at(place, version)
        if schema is None:
            raise LakeError("nothing has landed in the table", file=str(place))
        try:
            return _rows(place, files, schema)
        except FileNotFoundError:  # Who lands has put a file in its place meanwhile.
            return _rows(place, files, schema)


def _files_at(place: Where, version: int | None) -> tuple[dict[str, DataFile], pa.Schema | None]:
    """Return the files and the columns of a table as of a commit."""
    files: dict[str, DataFile] = {}
    schema: pa.Schema | None = None
    for manifest in manifests(place, version):
        files, schema = _followed(files, manifest), _schema_of(manifest)
    return files, schema


def _rows(place: Where, files: Mapping[str, DataFile], schema: pa.Schema) -> pa.Table:
    """Return the rows of files, wherever they are, but for those that are deleted."""
    whole = [path for path, file in files.items() if file.deleted is None]
    parts = [_whole_rows(place, whole, schema)]
    for path, file in files.items():
        if file.deleted is not None:
            parts.append(left_rows(_whole_rows(place, [path], schema), file.deleted))
    return pa.concat_tables(parts)


def _whole_rows(place: Where, files: Iterable[str], schema: pa.Schema) -> pa.Table:
    """Return the rows of files, deleted or not."""
    if isinstance(place, StorePath):
        folder = folder_of(place / DATA)
        paths, system = readable(f"{folder}/{path}" for path in files)
    else:
        paths, system = [_found(place, path) for path in files], None
    if not paths:
        return no_rows(schema)
    return dataset(paths, schema=schema, format="parquet", filesystem=system, partitioning=None).to_table()


def _found(place: Path, path: str) -> str:
    """Tell where a file is that its commit has not given its place yet, or a later one has taken away."""
    log = place / "_headwater"
    places = (
        place / path,
        *_staged_paths(log, path),
        _removed_path(log, path),
        log / _REMOVED / os.path.basename(path),
    )
    return str(next((place for place in places if place.exists()), places[0]))


def _staged_paths(log: Path, path: str) -> tuple[Path, ...]:
    """Tell where a file may be that a commit has not given its place yet."""
    name = os.path.basename(path)
    return Path(staged_path(str(log / UNPLACED), name)), log / UNPLACED / name, log / _STAGED_BEFORE / name


def _removed_path(log: Path, path: str) -> Path:
    return log / _REMOVED / f"{os.path.basename(path)}.{_REMOVED}"


def _placed(place: Path) -> Iterator[str]:
    """Yield the paths of files of rows in a table's directory, and in those of its partitions."""
    for folder, folders, names in os.walk(place):
        if folder == str(place):
            folders[:] = [name for name in folders if name != "_headwater"]
        yield from (os.path.relpath(os.path.join(folder, name), place) for name in names if is_written_here(name))
