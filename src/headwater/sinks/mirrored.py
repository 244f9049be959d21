"""What happens to the rows of mirrored tables in a window without a change of a row, and by what rows are told.

In: a planned window and the catalog that was rolled forward over it, in the thread that plans. Out: a
:class:`TableStory` of each table.

- Rows are told by the columns of the replica identity, which the WAL has of every row that is updated or deleted; under
  REPLICA IDENTITY FULL by the primary key or, if there is none, as wholes.
- A partition that is detached or dropped takes its rows with it; one that is attached brings some, unless it is new.
- ADD COLUMN gives rows that are there the column's default, which only ``pg_attribute.attmissingval`` has.
- What is unlogged has no WAL.

What ALTER TABLE writes anew is no concern of this module: the WAL has the rows of the new heap.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from headwater.catalog.relation import Column, RelationSchema
from headwater.catalog.store import CatalogStore
from headwater.catalog.tables import CatalogTable
from headwater.errors import LakeError
from headwater.pg.catalogs import FIRST_NORMAL_OBJECT_ID, PG_ATTRIBUTE, PG_CLASS
from headwater.rows.arrow import is_shown
from headwater.sinks.change_rows import has_identity

_KEYS = (("pg_class", "oid"), ("pg_attribute", "attrelid"), ("pg_inherits", "inhrelid"))


@dataclass(frozen=True)
class Identity:
    """By what rows of a table are told.

    Attributes:
        columns: names of the key's, in the source.
        is_whole: rows are told by all of their columns.
    """

    columns: tuple[str, ...] = ()
    is_whole: bool = False

    @property
    def is_none(self) -> bool:
        """Rows only come."""
        return not self.columns and not self.is_whole


@dataclass(frozen=True)
class TableStory:
    """What happens to a table in a window.

    Attributes:
        identity: by what its rows are told.
        members: OIDs of the relations whose rows are its.
        gone: relations that took their rows with them, each with the LSN of the commit record.
        missing: by number what columns that were added have in rows from before: the source's column, that has it.
        refusal: why the window cannot be mirrored; None if it can.
        changed_at: START of the last commit record that has changed its definition; -1 for none.
    """

    identity: Identity = Identity()
    members: frozenset[int] = frozenset()
    gone: tuple[tuple[int, int], ...] = ()
    missing: tuple[tuple[int, Column], ...] = ()
    refusal: LakeError | None = field(default=None, compare=False)
    changed_at: int = -1


Span = tuple[int, RelationSchema | None]
"""What a relation is from a commit on: START of its record, -1 for what was before the window."""


class WindowCatalog:
    """What the catalog says of a window.

    Args:
        store: rolled forward over it.
        lo, hi: LSNs where it begins and ends.
    """

    def __init__(self, store: CatalogStore, lo: int, hi: int) -> None:
        self._store, self._lo, self._hi = store, lo, hi
        self.spans = {oid: list(self._spans(oid)) for oid in sorted(self._changed())}

    def _changed(self) -> set[int]:
        """Relations whose definition has changed."""
        tables = [self._store.tables[PG_CLASS], self._store.tables[PG_ATTRIBUTE]]
        tables += [table for table in self._store.tables.values() if table.layout.name == "pg_inherits"]
        return {oid for table in tables for oid in self._touched(table) if oid >= FIRST_NORMAL_OBJECT_ID}

    def _touched(self, table: CatalogTable) -> Iterator[int]:
        for version in table.made_versions():
            if any(self._lo <= lsn < self._hi for lsn in self._store.fates.lifetime(version)):
                oid = table.first_key(version)
                assert isinstance(oid, int)
                yield oid

    def _spans(self, oid: int) -> Iterator[Span]:
        ends = {end for key in _KEYS for end in self._store.timeline_of((*key, oid)).ends}
        yield -1, self._relation(oid, self._lo)
        for lsn in sorted(end for end in ends if self._lo <= end < self._hi):
            yield lsn, self._relation(oid, lsn + 1)

    def _relation(self, oid: int, lsn: int) -> RelationSchema | None:
        found = self._store.view(lsn).relation(oid)
        return found if found is not None and found.kind in "rp" and not found.rewrite_of else None

    def tables(self) -> set[int]:
        """OIDs of the topmost tables of the relations that have changed."""
        return {found.topmost for spans in self.spans.values() for _, found in spans if found is not None}

    def at_end(self, oid: int) -> RelationSchema | None:
        """A table as it is at the window's end."""
        return self._relation(oid, self._hi)

    def story(self, last: RelationSchema, versions: Sequence[RelationSchema]) -> TableStory:
        """What happens to a table.

        Args:
            last: it, at the window's end.
            versions: of the relations that its changes are of.
        """
        return _Story(last, versions, self.spans).told()


@dataclass(frozen=True)
class _Story:
    """One call of :meth:`WindowCatalog.story`."""

    last: RelationSchema
    versions: Sequence[RelationSchema]
    all_spans: dict[int, list[Span]]

    @property
    def spans(self) -> dict[int, list[Span]]:
        """Of the relations that are, or were, the table or a partition of it."""
        root = self.last.oid
        return {
            oid: spans
            for oid, spans in self.all_spans.items()
            if any(found is not None and found.topmost == root for _, found in spans)
        }

    def told(self) -> TableStory:
        """All of it."""
        members = {one.rewrite_of or one.oid for one in self.versions} | set(self.spans)
        try:
            identity, gone, missing = identity_of(self.versions, self.last), list(self._gone()), self._missing()
            refusal = None
        except LakeError as error:
            identity, gone, missing, refusal = Identity(), [], {}, error
        changed = max((lsn for spans in self.spans.values() for lsn, _ in spans), default=-1)
        return TableStory(identity, frozenset(members), tuple(gone), tuple(sorted(missing.items())), refusal, changed)

    def _gone(self) -> Iterator[tuple[int, int]]:
        for oid, spans in self.spans.items():
            for (_, before), (lsn, after) in pairwise(spans):
                self._require_logged(before, after, lsn)
                was, is_now = self._is_ours(before), self._is_ours(after)
                if was and not is_now:
                    yield self._leaving(oid, before, lsn)
                elif is_now and not was:
                    self._require_empty(oid, after, lsn)

    def _is_ours(self, schema: RelationSchema | None) -> bool:
        return schema is not None and schema.topmost == self.last.oid

    def _leaving(self, oid: int, before: RelationSchema | None, lsn: int) -> tuple[int, int]:
        if before is not None and before.kind == "p" and oid != self.last.oid and self._has_left_alone(oid, lsn):
            raise self._refusal(before, "has partitions and was detached: which rows went with it is not known", lsn)
        return oid, lsn

    def _has_left_alone(self, oid: int, lsn: int) -> bool:
        """Whether a partition with partitions of its own is there still."""
        return any(at == lsn and found is not None for at, found in self.all_spans[oid])

    def _require_empty(self, oid: int, after: RelationSchema | None, lsn: int) -> None:
        assert after is not None
        spans = self.all_spans[oid]
        is_new = spans[0][1] is None and not any(one.oid == oid and one.topmost == oid for one in self.versions)
        if oid != self.last.oid and not is_new:
            raise self._refusal(after, "was there before it was attached: its rows are not known to be none", lsn)

    def _require_logged(self, before: RelationSchema | None, after: RelationSchema | None, lsn: int) -> None:
        if before is not None and after is not None and before.persistence == "p" and after.persistence == "u":
            raise self._refusal(after, "was set unlogged: its changes are not in the WAL", lsn)

    def _missing(self) -> dict[int, Column]:
        """Columns that have come, with what rows from before have in them."""
        found: dict[int, Column] = {}
        wanted = {column.name: column.number for column in self.last.columns if is_shown(column)}
        for spans in self.spans.values():
            for (_, before), (lsn, after) in pairwise(spans):
                for column in _added(before, after, self.last.oid):
                    number = (
                        column.number if after is not None and after.oid == self.last.oid else wanted.get(column.name)
                    )
                    if number is None or column.missing is None:
                        continue
                    if found.setdefault(number, column).missing != column.missing:
                        assert after is not None
                        raise self._refusal(after, f'has another default in column "{column.name}" than others', lsn)
        return found

    def _refusal(self, which: RelationSchema, why: str, lsn: int) -> LakeError:
        what = "table" if which.oid == self.last.oid else "partition"
        return LakeError(
            f'{what} "{which.namespace}.{which.name}" {why}',
            lsn=lsn,
            hint="land changes (--mode changelog), or this table anew, from a backup of after that",
        )


def _added(before: RelationSchema | None, after: RelationSchema | None, root: int) -> Iterator[Column]:
    """Columns that a table with rows gets."""
    if before is None or after is None:
        return
    known = {column.number for column in before.columns}
    yield from (column for column in after.columns if column.number not in known and is_shown(column))


def identity_of(versions: Iterable[RelationSchema], last: RelationSchema) -> Identity:
    """By what the rows are told that the changes of a window are of.

    Args:
        versions: of the relations that they are of.
        last: the table at the window's end; it counts where there are no changes.

    Raises:
        LakeError: by several things.
    """
    own = [one for one in versions if not one.rewrite_of and one.kind == "r"] or [last]
    strict = {
        _names(one, one.identity_columns, last) for one in own if one.replica_identity in "di" and has_identity(one)
    }
    if len(strict) > 1:
        shown = " and ".join(sorted(f"({', '.join(names)})" for names in strict))
        raise LakeError(
            f'the replica identity of table "{last.namespace}.{last.name}" has changed in the window, or differs from '
            f"partition to partition: {shown}",
            hint="if it has changed, end the window before that (--end), and go on from there",
        )
    if strict:
        return Identity(strict.pop())
    whole = [one for one in own if one.replica_identity == "f"]
    keys = {_names(one, one.primary_key_columns, last) for one in whole}
    if len(keys) == 1 and keys != {()}:
        return Identity(keys.pop())
    return Identity(is_whole=bool(whole))


def _names(version: RelationSchema, numbers: Iterable[int], last: RelationSchema) -> tuple[str, ...]:
    """What columns of a relation are called in the table at the window's end; in a partition they are called alike."""
    own = last if version.oid == last.oid else version
    return tuple(
        (version if own.columns[number - 1].is_dropped else own).columns[number - 1].name for number in numbers
    )
