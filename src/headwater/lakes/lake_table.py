"""One table in the lake, whatever its format: what was landed in it, and how more is.

A commit has files that tasks have written, under names that no other attempt uses, and says with them how far the table
has come: both are there, or neither. So a run that was killed begins again where the tables say, and nothing comes
twice.
"""

from __future__ import annotations

import math
import os
import re
import uuid
from abc import ABC, abstractmethod
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Generic, Self, TypeVar

import pyarrow as pa

from headwater.base.locks import lock, open_lock
from headwater.base.overlapped import overlapped
from headwater.base.system_errors import reason_of
from headwater.errors import LakeConflictError, LakeError
from headwater.lakes.deletes.deleted_rows import DeletedRows, Positions
from headwater.lakes.stores.places import Where


@contextmanager
def errors_at(place: str | Where) -> Iterator[None]:
    """Raise errors of the system as ours."""
    try:
        yield
    except OSError as error:
        raise LakeError(reason_of(error), file=str(error.filename or place)) from None


def lock_alone(path: Path, place: Path) -> int:
    """Hold a file's lock, which goes with the process, or with the descriptor that is returned.

    Args:
        path: the file, which is made; place: what errors name.

    Raises:
        LakeConflictError: another process holds it.
        LakeError: it cannot be made, or locked.
    """
    with errors_at(place):
        descriptor = open_lock(path, 0o644)
        try:
            if not lock(descriptor):
                hint = "end it, or land to another place"
                raise LakeConflictError("another process lands there", file=str(place), hint=hint)
        except BaseException:
            os.close(descriptor)
            raise
    return descriptor


def remove_files(paths: Iterable[Path], older_than: float = math.inf) -> Expired:
    """Remove files for ever.

    Args:
        paths: they; older_than: seconds since 1970; those that were changed, or got their name, later stay.
    """
    files = bytes = 0
    for path in paths:
        with suppress(FileNotFoundError):
            status = path.stat()
            if status.st_ctime < older_than:
                path.unlink()
                files, bytes = files + 1, bytes + status.st_size
    return Expired(files, bytes)


_NAME = re.compile(r"part-[0-9A-F]{16}-[0-9a-f]{32}\.parquet")


def file_name(commit_lsn: int) -> str:
    """Return a name that no other attempt to write a file uses.

    Args:
        commit_lsn: START of the last commit record in the file.
    """
    return f"part-{commit_lsn:016X}-{uuid.uuid4().hex}.parquet"


UNPLACED = "unplaced"
"""The directory of files that belong to no commit yet, in formats where a glob is a way to read a table."""


def staged_path(place: str, name: str) -> str:
    """Tell where a file is written that a commit gives its name: where a glob finds it, under a name that it does not.

    Args:
        place: the directory that tasks write to; name: the file's.
    """
    path = os.path.join(place, name)
    return f"{path}.{UNPLACED}" if os.path.basename(place) == UNPLACED else path


def is_written_here(name: str) -> bool:
    """Tell whether a file's name is one of ours."""
    return _NAME.fullmatch(name) is not None


def require_no_others(place: Path) -> None:
    """See that a directory in which no table is yet has no files that would be taken for the table's.

    Raises:
        LakeError: it has.
    """
    names = os.listdir(place) if place.is_dir() else []
    if any(name.endswith(".parquet") and not is_written_here(name) for name in names):
        raise LakeError(
            "a directory with files of something else",
            file=str(place),
            hint="land to another place, or move them away: who reads the directory would read both",
        )


def require_source(known: str, source: str, place: Where | None, table: str = "the table") -> None:
    """See that a table's rows are of the database that lands.

    Args:
        known: the database that they are of; source: the one that they must be of.
        place: the table's directory; None for a table of a catalog, which has a namespace.
        table: its name in errors.

    Raises:
        LakeError: they are of another one.
    """
    if known != source:
        raise LakeError(
            f"{table} has rows of {known or 'something else'}, not of {source}",
            file=None if place is None else str(place),
            hint=f"land another server, or another database, to another {'namespace' if place is None else 'place'}",
        )


@dataclass(frozen=True)
class DataFile:
    """A file of rows.

    Attributes:
        path: below the table's place.
        rows: how many, those that are deleted beside it included; size: bytes.
        lower, upper: the least and the greatest value of columns, for readers that pass over files.
        nulls: how many nulls columns have.
        deleted: rows that are deleted beside it; None for none.
    """

    path: str
    rows: int
    size: int
    lower: dict[str, Any] = field(default_factory=dict)
    upper: dict[str, Any] = field(default_factory=dict)
    nulls: dict[str, int] = field(default_factory=dict)
    deleted: DeletedRows | None = None

    @property
    def left(self) -> int:
        """How many of its rows are not deleted."""
        return self.rows - (0 if self.deleted is None else self.deleted.count)


@dataclass(frozen=True)
class Landed:
    """The progress of a table.

    Attributes:
        commit_lsn: START of the commit record of the last transaction that has landed; -1 for none.
        schema: its columns, those of changes and the source's; None for a table that is not there.
        source: the origin of the rows: a system identifier and a database's OID.
    """

    commit_lsn: int
    schema: pa.Schema | None
    source: str


@dataclass(frozen=True)
class Sought:
    """The rows of a mirror that changes may be of.

    Attributes:
        changes: paths of files of changes, which have the key's columns; null there concerns no key.
        key: these columns; none for rows that are identified otherwise.
        is_all: all rows, whatever the changes are.
        has_history: the mirror has all versions of its rows.
    """

    changes: tuple[str, ...]
    key: tuple[str, ...]
    is_all: bool
    has_history: bool = False


class LakeTable(ABC):
    """A table that is open to be written; use it as a context manager, or call :meth:`close`.

    Attributes:
        properties: that the next commit gives the table, where its format has such; those that it has else stay.
    """

    properties: Mapping[str, str] = MappingProxyType({})
    _landed: Landed

    def close(self) -> None:  # noqa: B027
        """Let others write to it; where its format itself tells of others, nothing keeps them from that."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def landed(self) -> Landed:
        """The table's own record, as of when it was opened, or of the last commit."""
        return self._landed

    @property
    @abstractmethod
    def version(self) -> int:
        """The name of the last commit, by which the format reads a table as of then; -1 for none."""

    @property
    @abstractmethod
    def staging(self) -> str:
        """The directory where tasks write files, on the machine or machines that they run on."""

    @property
    @abstractmethod
    def files(self) -> Mapping[str, DataFile]:
        """The files that the table consists of, by their paths: as of when it was opened, and after each commit."""

    @property
    def size(self) -> TableSize:
        """The size of the table, as of when it was opened, and after each commit."""
        return TableSize.of(self.files.values())

    @property
    def deletes_beside(self) -> bool:
        """Whether commits delete rows beside files (:meth:`commit_deleting`)."""
        return False

    def concerned(self, sought: Sought) -> Mapping[str, DataFile]:  # noqa: ARG002
        """Return files with the rows of the table that changes may be of, and maybe others; by their paths.

        What is committed next may take these away, and no others.

        Raises:
            LakeError: they cannot be read.
        """
        return self.files

    @abstractmethod
    def locate(self, path: str) -> str:
        """Tell where a file that the table consists of is read: a path on the machine or machines that tasks run on."""

    def file_schema(self, schema: pa.Schema) -> pa.Schema:
        """Return the table's columns as tasks write them in files, with what the format wants to know them by.

        Args:
            schema: as the next commit will have them.

        Raises:
            LakeError: the table cannot have them.
        """
        return schema

    def merging_schema(self, schema: pa.Schema) -> pa.Schema:
        """Return the columns of a file that is made of several, see :meth:`file_schema`; maybe with the format's own.

        Args:
            schema: as the next commit will have them.

        Raises:
            LakeError: see there.
        """
        return self.file_schema(schema)

    def merging_rows(self, path: str, rows: pa.Table) -> pa.Table:  # noqa: ARG002
        """Return rows of a file as they go into one that is made of several.

        Args:
            path: the file's; rows: all of it, in their order, with the columns of :meth:`merging_schema`.

        Raises:
            LakeError: the file is not the table's any more.
        """
        return rows

    @abstractmethod
    def commit(
        self, added: list[DataFile], landed: Landed, removed: Sequence[str] = (), *, has_same_rows: bool = False
    ) -> None:
        """Add files and take files away, and with that say how far the table has come: all of it, or nothing.

        Args:
            added: files in ``staging``.
            landed: what the table says from then on; files may lack some of its columns.
            removed: paths of files that the table consists of, and then does no more.
            has_same_rows: the rows are the same as before, so that who follows the table passes over the commit.

        Raises:
            LakeConflictError: somebody else has written to the table.
            LakeError: it cannot be written.
        """

    def commit_deleting(
        self, added: list[DataFile], landed: Landed, removed: Sequence[str], deleted: Mapping[str, Positions]
    ) -> None:
        """Commit as :meth:`commit` does, and delete rows of files that stay.

        Args:
            added, landed, removed: see there.
            deleted: rows, by the paths of their files, that were there and are no more.

        Raises:
            LakeError: as :meth:`commit`.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class TableSize:
    """The size of a version of a table.

    Attributes:
        rows, files: how many; bytes: of the files.
    """

    rows: int
    files: int
    bytes: int

    @classmethod
    def of(cls, files: Iterable[DataFile]) -> TableSize:
        """Add up the sizes of files."""
        known = list(files)
        return cls(sum(file.left for file in known), len(known), sum(file.size for file in known))


@dataclass(frozen=True)
class Expired:
    """The files that were removed of a table.

    Attributes:
        files: how many, of rows and others; bytes: theirs.
    """

    files: int
    bytes: int


@dataclass(frozen=True)
class TableCommit:
    """The arguments of :meth:`LakeTable.commit`.

    Attributes:
        table: to commit to; added, landed, removed, has_same_rows: see there.
        deleted: see :meth:`LakeTable.commit_deleting`.
        turn: those of a later turn are not made before it, as rows that they take away are in it.
    """

    table: LakeTable
    added: list[DataFile]
    landed: Landed
    removed: Sequence[str] = ()
    has_same_rows: bool = False
    deleted: Mapping[str, Positions] = field(default_factory=dict)
    turn: int = 0

    def make(self) -> None:
        """Commit to this table.

        Raises:
            LakeError: as :meth:`LakeTable.commit`.
        """
        if self.deleted:
            self.table.commit_deleting(self.added, self.landed, self.removed, self.deleted)
            return
        self.table.commit(self.added, self.landed, self.removed, has_same_rows=self.has_same_rows)


P = TypeVar("P", bound=Where, contravariant=True)
"""Places where a format can have tables."""


class LakeFormat(ABC, Generic[P]):
    """A format of tables, as a target has it; open while somebody lands.

    Attributes:
        stages_ahead: what tasks write for a window does not depend on the commit of the one before, unless that changes
            columns.
    """

    stages_ahead = True

    @abstractmethod
    def table(self, place: P, source: str, name: str) -> LakeTable:
        """Open a table.

        Args:
            place: its directory.
            source: what its rows must be of.
            name: that of the source's table, ``schema.table``.

        Raises:
            LakeError: it cannot be read, or is another's.
        """

    def identifier(self, name: str) -> tuple[str, ...]:
        """Return the table's name where the format keeps it; each has another one.

        Args:
            name: that of the source's table.

        Raises:
            LakeError: it cannot be kept under that name.
        """
        return (name,)

    def forget_versions(self, kept_versions: Container[int], older_than: datetime) -> None:
        """Forget old versions that tables have together, before each table expires; most formats have no such.

        Args:
            kept_versions: of any table, that stay.
            older_than: those that were the last at any time since then stay, too; with a time zone.

        Raises:
            LakeError: it cannot be done.
        """

    @abstractmethod
    def expire(self, place: P, name: str, kept_versions: Container[int], older_than: datetime) -> Expired:
        """Remove what only old versions of a table consist of, and what belongs to none; the target is held alone.

        Args:
            place: its directory; name: that of the source's table.
            kept_versions: versions that stay, in addition to the last one.
            older_than: what has left the table later than that stays, too; with a time zone.

        Raises:
            LakeError: it cannot be done.
        """

    @abstractmethod
    def size(self, place: P, name: str, version: int) -> TableSize:
        """Return the size of a version of a table; nothing is locked for that.

        Args:
            place: its directory.
            name: that of the source's table.
            version: see :attr:`LakeTable.version`.

        Raises:
            LakeError: there is no such version, or it has expired.
        """

    def schema(self, place: P, name: str, version: int) -> pa.Schema | None:  # noqa: ARG002
        """Return the columns of a version of a table, which say whose they are; None where only its catalog knows.

        Args:
            place, name, version: see :meth:`size`.

        Raises:
            LakeError: see there.
        """
        return None

    def commit(self, commits: Sequence[TableCommit]) -> None:
        """Commit to the tables of a window: several of a turn at a time, or all together where the format can.

        Args:
            commits: in the order of their turns.

        Raises:
            LakeError: as :meth:`LakeTable.commit`; others may have been committed, but none of a later turn.
        """
        for _, of_turn in groupby(commits, attrgetter("turn")):
            overlapped(TableCommit.make, list(of_turn))

    def close(self) -> None:
        """Let go of what the format holds; most hold nothing."""
