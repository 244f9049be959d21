"""What happens to the rows of mirrored tables in a window without a change of a row, and by what rows are told.

In: a planned window and the catalog that was rolled forward over it, in the thread that plans. Out: a
:class:`TableStory` of each table.

- Rows are told by the columns of the replica identity, which the WAL has of every row that is updated or deleted; under
  REPLICA IDENTITY FULL by the primary key or, if there is none, as wholes.
- A partition that is detached or dropped takes its rows with it, also one that its own transaction has made; one that
  is attached brings some, unless it and what is below it are new and have had no changes, chosen or not. Where both are
  mirrored the rows go from one mirror to the other (:mod:`headwater.landing.tables.attached_rows`).
- ADD COLUMN gives rows that are there the column's default, which only ``pg_attribute.attmissingval`` has.
- What is unlogged has no WAL.
- A type that takes the stored values of another one over, or a label of an enum that gets another name, makes rows that
  are there say something else (:mod:`headwater.landing.tables.stored_types`).

What ALTER TABLE writes anew is no concern of this module: the WAL has the rows of the new heap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise

from headwater.catalog.relation import Column, RelationSchema, TypeInfo
from headwater.catalog.versions import NEVER
from headwater.errors import LakeError
from headwater.lakes.paused import RELOADED_OR_CHANGES
from headwater.landing.tables.attached_rows import Arrival, Departure
from headwater.landing.tables.catalog_changes import CatalogWindow, of_relations
from headwater.landing.tables.stored_types import Retyped, Rewritten, retyped, says_the_same
from headwater.pg.catalogs import PG_ATTRIBUTE, PG_CLASS, PG_ENUM, PG_INHERITS
from headwater.pipeline.windows.assemble import Assembly
from headwater.reorder.slices.unwanted_changes import PassedOver
from headwater.rows.columns.arrow import is_shown

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
        gone: relations that took their rows with them.
        coming: relations that have brought rows with them.
        detached: those that are gone and there still, with their rows in no mirror.
        missing: by number what columns that were added have in rows from before: the source's column, that has it.
        retyped: columns in which rows from before the window say something else now.
        rewritten: columns whose type is another one now, and for which the server has written relations anew.
        refusal: why the window cannot be mirrored; None if it can.
        refused_at: what has landed up to there is not concerned.
        changed_at: START of the last commit record that has changed its definition; -1 for none.
    """

    identity: Identity = Identity()
    members: frozenset[int] = frozenset()
    gone: tuple[Departure, ...] = ()
    coming: tuple[Arrival, ...] = ()
    detached: frozenset[int] = frozenset()
    missing: tuple[tuple[int, Column], ...] = ()
    retyped: tuple[Retyped, ...] = ()
    rewritten: tuple[Rewritten, ...] = ()
    refusal: LakeError | None = field(default=None, compare=False)
    refused_at: int = -1
    changed_at: int = -1

    def has_gone(self, relation: int, lsn: int) -> bool:
        """Whether a relation took its rows with it at a commit."""
        return any(one.relation == relation and one.lsn == lsn for one in self.gone)


Roots = Mapping[int, frozenset[int]]
"""By relation, OIDs of the tables that its changes in the window are of: itself, or roots."""

Wants = Callable[[RelationSchema], bool]
"""Whether rows of a table are wanted."""

Span = tuple[int, RelationSchema | None]
"""What a relation is from a commit on: START of its record, -1 for what was before the window."""


class WindowCatalog:
    """What the catalog says of a window.

    Args:
        window: it.
        assembly: of its changes.
    """

    def __init__(self, window: CatalogWindow, assembly: Assembly) -> None:
        self._window, self._assembly = window, assembly
        self.spans = {oid: list(self._spans(oid)) for oid in sorted(self._changed())}
        self._types_changed_at = max(self._types_gone(), default=-1)

    def _changed(self) -> set[int]:
        """Relations whose definition has changed."""
        catalogs = (PG_CLASS, PG_ATTRIBUTE, PG_INHERITS)
        return {oid for catalog in catalogs for _, oid in of_relations(self._window.changed(catalog))}

    def _types_gone(self) -> Iterator[int]:
        """Where labels of enums and attributes of composite types were removed, or others took their place."""
        yield from (lsn for _, lsn in self._window.removed(PG_ENUM))
        for oid, lsn in self._window.removed(PG_CLASS) | self._window.removed(PG_ATTRIBUTE):
            if any(row.kind == "c" for row in self._window.end.class_rows(oid)):
                yield lsn

    def _spans(self, oid: int) -> Iterator[Span]:
        store = self._window.store
        versions = [version for key in _KEYS for version in store.versions((*key, oid))]
        # Of what one transaction has made and removed a timeline says nothing.
        ends = {end for version in versions for end in store.fates.lifetime(version)}
        yield -1, self._relation(oid, self._window.lo)
        for lsn in sorted(end for end in ends if end in self._window):
            yield lsn, self._relation(oid, lsn + 1)

    def _relation(self, oid: int, lsn: int) -> RelationSchema | None:
        found = self._window.store.view(lsn).relation(oid)
        return found if found is not None and found.kind in "rp" and not found.rewrite_of else None

    def _file(self, oid: int, lsn: int) -> int:
        """``relfilenode`` of a relation."""
        return next((row.filenode for row in self._window.store.view(lsn).class_rows(oid)), 0)

    def tables(self) -> set[int]:
        """OIDs of the topmost tables of the relations that have changed, or whose rows say something else."""
        changed = {found.topmost for spans in self.spans.values() for _, found in spans if found is not None}
        return changed | set(self._retyped())

    def _retyped(self) -> Iterator[int]:
        """Tables with a column whose values say something else now, though it is of the same type."""
        for oid in self._window.end.tables() if self._types_changed_at >= 0 else ():
            before, now = self._relation(oid, self._window.lo), self.at_end(oid)
            if before is not None and now is not None and retyped(now, before, ()):
                yield now.topmost

    def at_end(self, oid: int) -> RelationSchema | None:
        """A table as it is at the window's end."""
        return self._relation(oid, self._window.hi)

    def before_leaving(self, oid: int) -> RelationSchema | None:
        """A table as it was before it became a partition of another one; None if it did not."""
        for (_, before), (_, after) in pairwise(self.spans.get(oid, [])):
            if before is not None and after is not None and before.topmost == oid != after.topmost:
                return before
        return None

    def story(
        self,
        last: RelationSchema,
        versions: Sequence[RelationSchema],
        roots: Roots,
        firsts: Mapping[int, int],
        wants: Wants,
    ) -> TableStory:
        """What happens to a table.

        Args:
            last: it, at the window's end.
            versions: of the relations that its changes are of.
            roots: of all tables' changes; firsts: LSNs of their first ones.
            wants: whether a table is mirrored.
        """
        return _Story(
            *(last, versions, roots, firsts, wants, self.spans, self._relation, self._file),
            *(self._assembly.catalog_times, self._assembly.unwanted, self._window.lo, self._types_changed_at),
        ).told()


@dataclass(frozen=True)
class _Story:
    """One call of :meth:`WindowCatalog.story`."""

    last: RelationSchema
    versions: Sequence[RelationSchema]
    roots: Roots
    firsts: Mapping[int, int]
    wants: Wants
    all_spans: dict[int, list[Span]]
    relation: Callable[[int, int], RelationSchema | None]
    file: Callable[[int, int], int]
    times: Mapping[int, int]
    unwanted: PassedOver
    lo: int
    types_changed_at: int

    @cached_property
    def spans(self) -> dict[int, list[Span]]:
        """Of the relations that are, or were, the table or a partition of it."""
        return {oid: spans for oid, spans in self.all_spans.items() if any(self._is_ours(found) for _, found in spans)}

    @cached_property
    def passing(self) -> dict[int, list[Span]]:
        """Of relations that were it, or a partition of it, inside a transaction only, and have had changes then."""
        own = sorted({one.rewrite_of or one.oid for one in self.versions} - self.spans.keys())
        return {oid: self.all_spans[oid] for oid in own if oid in self.all_spans}

    @cached_property
    def apart(self) -> frozenset[int]:
        """Other tables that have changes of their own."""
        return frozenset(root for own in self.roots.values() for root in own) - {self.last.oid}

    def told(self) -> TableStory:
        """All of it."""
        members = frozenset({one.rewrite_of or one.oid for one in self.versions} | set(self.spans))
        noted = [*self.spans.values(), *self.passing.values()]
        changed = max((lsn for spans in noted for lsn, _ in spans), default=-1)
        if self.retyped:
            changed = max(changed, self.types_changed_at)
        try:
            identity = identity_of(self.versions, self.last)
        except LakeError as error:
            return TableStory(members=members, refusal=error, refused_at=NEVER, changed_at=changed)
        try:
            gone, coming, missing = tuple(self._gone()), tuple(self._coming()), tuple(sorted(self._missing().items()))
            self._require_same_values()
        except LakeError as error:
            return TableStory(identity, members, refusal=error, refused_at=changed, changed_at=changed)
        detached = frozenset(one.relation for one in gone if self._is_left(one.relation, one.lsn))
        return TableStory(
            identity, members, gone, coming, detached, missing, self.retyped, self.rewritten, changed_at=changed
        )

    @cached_property
    def retyped(self) -> tuple[Retyped, ...]:
        """Columns in which rows from before the window say something else at its end."""
        before = self.relation(self.last.oid, self.lo)
        return () if before is None else tuple(self._retyped_since(before))

    def _retyped_since(self, version: RelationSchema) -> Iterator[Retyped]:
        """Columns in which rows of a version say something else at the window's end, as nothing wrote them anew."""
        for one in retyped(self.last, version, self.versions):
            changes = list(self._new_types(self.last.columns[one.number - 1]))
            if one.is_reshaped or not changes or not all(is_anew for *_, is_anew in changes):
                # Where the type is the same, what it is made of has changed.
                lsn = max((at for _, at, _ in changes), default=self.types_changed_at)
                yield replace(one, lsn=lsn if lsn >= 0 else None)

    @cached_property
    def rewritten(self) -> tuple[Rewritten, ...]:
        """Columns for whose types all relations that have them were written anew."""
        found = [(column.number, list(self._new_types(column))) for column in filter(is_shown, self.last.columns)]
        return tuple(
            Rewritten(number, oid, lsn)
            for number, changes in found
            if all(is_anew for *_, is_anew in changes)
            for oid, lsn, _ in changes
        )

    def _new_types(self, column: Column) -> Iterator[tuple[int, int, bool]]:
        """Where a column got another type: OID of the relation, LSN, and whether that has another file from then on."""
        for oid, spans in self.spans.items():
            number = self._number_in(oid, spans, column)
            for (_, before), (lsn, after) in pairwise(spans):
                if before is not None and after is not None and after.kind == "r":
                    older, newer = _type_of(before, number), _type_of(after, number)
                    if older is not None and newer is not None and not says_the_same(older, newer):
                        yield oid, lsn, self.file(oid, lsn) != self.file(oid, lsn + 1)

    def _number_in(self, oid: int, spans: Sequence[Span], column: Column) -> int:
        """The number that a column has in a partition; 0 where there is none of its name."""
        if oid == self.last.oid:
            return column.number
        last = next(found for _, found in reversed(spans) if found is not None)
        return next((one.number for one in last.columns if is_shown(one) and one.name == column.name), 0)

    def _require_same_values(self) -> None:
        """Whether rows that the window has written say at its end what they said."""
        for version in self.versions:
            for one in self._retyped_since(version):
                if one.is_reshaped:
                    continue  # told where a value is read that fits no column
                name = self.last.columns[one.number - 1].name
                raise says_otherwise(f'column "{name}" of table {self.last.namespace}.{self.last.name}', one)

    @property
    def _is_dropped(self) -> bool:
        """The table itself was dropped: its mirror stays."""
        return self.all_spans.get(self.last.oid, [(0, self.last)])[-1][1] is None

    def _gone(self) -> Iterator[Departure]:
        if self._is_dropped:
            yield from self._gone_before()
            return
        self._require_all_rows()
        for oid, spans in self.spans.items():
            for (_, before), (lsn, after) in pairwise(spans):
                self._require_logged(before, after, lsn)
                if self._is_ours(before) and not self._is_ours(after):
                    self._require_known(oid, before, lsn)
                    yield self._departure(oid, lsn)
            self._require_steady(oid, spans)
        yield from self._passed(self.passing)

    def _gone_before(self) -> Iterator[Departure]:
        """What has left a table that is dropped in the end: itself, where it became a partition of another one."""
        own = {self.last.oid} & self.all_spans.keys()
        for oid in own & self.spans.keys():
            for (_, before), (lsn, after) in pairwise(self.spans[oid]):
                if self._is_ours(before) and after is not None and not self._is_ours(after):
                    yield self._departure(oid, lsn)
        yield from self._passed(own & self.passing.keys())

    def _passed(self, oids: Iterable[int]) -> Iterator[Departure]:
        """What has left with the transaction that it came with."""
        for oid in oids:
            # A partition as its transaction ends leaves its own mirror once: later it has no changes of its own.
            left = self.passing[oid][1:2] if oid == self.last.oid else self.passing[oid][1:]
            yield from (self._departure(oid, lsn) for lsn, _ in left)

    def _departure(self, oid: int, lsn: int) -> Departure:
        return Departure(oid, lsn, self.times.get(lsn))

    def _is_left(self, oid: int, lsn: int) -> bool:
        """Whether a relation that has taken its rows with it is there still, and they are in no mirror."""
        if self.all_spans[oid][-1][1] is None:
            return False
        after = self.relation(oid, lsn + 1)
        table = None if after is None else self.relation(after.topmost, lsn + 1)
        return table is None or not self.wants(table)

    def _coming(self) -> Iterator[Arrival]:
        for oid, spans in self.spans.items() if not self._is_dropped else ():
            for (_, before), (lsn, after) in pairwise(spans):
                if after is not None and self._is_ours(after) and not self._is_ours(before):
                    yield from self._arriving(oid, before, after, lsn)

    def _is_ours(self, schema: RelationSchema | None) -> bool:
        return schema is not None and schema.topmost == self.last.oid

    def _require_known(self, oid: int, before: RelationSchema | None, lsn: int) -> None:
        """Whether it is known which rows leave with a relation."""
        if before is not None and before.kind == "p" and oid != self.last.oid and self._has_left_alone(oid, lsn):
            raise self._refusal(before, "has partitions and was detached: which rows went with it is not known", lsn)

    def _has_left_alone(self, oid: int, lsn: int) -> bool:
        """Whether a partition with partitions of its own is there still."""
        return any(at == lsn and found is not None for at, found in self.all_spans[oid])

    def _arriving(self, oid: int, before: RelationSchema | None, after: RelationSchema, lsn: int) -> Iterator[Arrival]:
        """What a relation brings with it that is the table, or a partition of it, from a commit on."""
        if oid == self.last.oid:
            if before is not None:
                yield from self._back(before, lsn)
            return
        if not self.wants(after):
            return  # an excluded partition, whose rows are none of the table's
        brought = list(self._brought(oid, after, lsn))
        if not any(self._was_apart(other, lsn) or not self._is_new(other, lsn) for other in brought):
            return
        root, is_wanted = self.relation(self.last.oid, lsn + 1), self._was_apart(oid, lsn)
        if before is not None:
            is_wanted = before.topmost == oid and self.wants(before)
        if after.kind == "p" or not is_wanted or root is None or self._was_ours(oid, lsn):
            raise self._unknown(after, brought, lsn)
        yield Arrival.of(after, root, self._departure(oid, lsn))

    def _unknown(self, which: RelationSchema, brought: Iterable[int], lsn: int) -> LakeError:
        """The error of rows that come and are not known."""
        if any(self.unwanted.has_before(oid, lsn) for oid in brought):
            why = "had changes before it was attached, and --tables did not choose it then: its rows are not known"
            return self._refusal(which, why, lsn, "choose such tables, too (--tables), and land this one anew")
        return self._refusal(which, "was there before it was attached: its rows are not known to be none", lsn)

    def _back(self, before: RelationSchema, lsn: int) -> Iterator[Arrival]:
        """What the table has got as a partition, until a commit."""
        root = self.relation(before.topmost, lsn)
        if root is not None and self.wants(root) and not self._was_ours(self.last.oid, lsn):
            yield Arrival.of(root, before, self._departure(before.oid, lsn))
        elif self.versions or self._was_ours(self.last.oid, lsn):
            raise left_with_rows(self.last, lsn)

    def _was_apart(self, oid: int, lsn: int) -> bool:
        """Whether a relation had changes of its own before a commit."""
        return oid in self.apart and self.firsts.get(oid, NEVER) < lsn

    def _was_ours(self, oid: int, lsn: int) -> bool:
        """Whether a relation was the table, or a partition of it, earlier in the window."""
        return any(self._is_ours(found) for at, found in self.all_spans[oid] if at < lsn)

    def _brought(self, oid: int, after: RelationSchema, lsn: int) -> Iterator[int]:
        """What is attached with a relation: with one that has partitions itself, these."""
        yield oid
        for other in sorted(self.all_spans.keys() | self.apart) if after.kind == "p" else ():
            if self._is_ours(self.relation(other, lsn + 1)) and not self._is_ours(self.relation(other, lsn)):
                yield other

    def _is_new(self, oid: int, lsn: int) -> bool:
        """Whether a relation was made in the window, and was not ours before, nor had changes that nobody wanted."""
        spans = self.all_spans.get(oid)
        earlier = [] if spans is None else [found for at, found in spans if at < lsn]
        is_new = bool(earlier) and earlier[0] is None and not any(map(self._is_ours, earlier))
        return is_new and not self.unwanted.has_before(oid, lsn)

    def _require_all_rows(self) -> None:
        """Whether no transaction had the table as a partition, put rows into it, and detached it again."""
        seen = {found.topmost for _, found in self.all_spans.get(self.last.oid, []) if found is not None}
        if self.roots.get(self.last.oid, frozenset()) - seen - {self.last.oid}:
            raise left_with_rows(self.last)

    def _require_steady(self, oid: int, spans: Sequence[Span]) -> None:
        """Whether a partition has had no changes of its own, detached and attached again by one transaction."""
        lsn, last = spans[-1]
        if last is not None and oid in self.apart and all(self._is_ours(found) for _, found in spans):
            raise self._refusal(last, "was changed while a transaction had it detached", lsn)

    def _require_logged(self, before: RelationSchema | None, after: RelationSchema | None, lsn: int) -> None:
        if before is not None and after is not None and before.persistence == "p" and after.persistence == "u":
            raise self._refusal(after, "was set unlogged: its changes are not in the WAL", lsn)

    def _missing(self) -> dict[int, Column]:
        """Columns that have come, with what rows from before have in them."""
        found: dict[int, Column] = {}
        wanted = {column.name: column.number for column in self.last.columns if is_shown(column)}
        for spans in self.spans.values():
            for (_, before), (lsn, after) in pairwise(spans):
                for column in _added(before, after):
                    number = (
                        column.number if after is not None and after.oid == self.last.oid else wanted.get(column.name)
                    )
                    if number is None or column.missing is None:
                        continue
                    if found.setdefault(number, column).missing != column.missing:
                        assert after is not None
                        raise self._refusal(after, f'has another default in column "{column.name}" than others', lsn)
        return found

    def _refusal(self, which: RelationSchema, why: str, lsn: int, hint: str = "") -> LakeError:
        what = "table" if which.oid == self.last.oid else "partition"
        return LakeError(
            f'{what} "{which.namespace}.{which.name}" {why}',
            lsn=lsn,
            hint=hint or RELOADED_OR_CHANGES,
        )


def says_otherwise(name: str, column: Retyped) -> LakeError:
    """The error of rows that the server has not written anew, and that say something else now.

    Args:
        name: of the column, and its table.
        column: what it was and is.
    """
    if column.older == column.newer:
        part = "an attribute" if column.is_reshaped else "a label"
        what = f"{part} of {column.newer}, the type of {name}, is another one now"
    else:
        what = f"{name} is {column.newer} now, which prints {column.older} otherwise"
    return LakeError(
        f"{what}, and the server has not written its rows anew",
        lsn=column.lsn,
        hint=RELOADED_OR_CHANGES,
    )


def left_with_rows(table: RelationSchema, lsn: int | None = None) -> LakeError:
    """The error of a table that was a partition, and has taken rows with it that its own mirror does not get."""
    return LakeError(
        f'table "{table.namespace}.{table.name}" was a partition and has rows from then, which its mirror has not',
        lsn=lsn,
        hint=f"{RELOADED_OR_CHANGES}, or leave it out (--exclude)",
    )


def _type_of(version: RelationSchema, number: int) -> TypeInfo | None:
    """The type of a column that a version of a relation has."""
    found = version.columns[number - 1] if 0 < number <= len(version.columns) else None
    return found.type if found is not None and is_shown(found) else None


def _added(before: RelationSchema | None, after: RelationSchema | None) -> Iterator[Column]:
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
        _names(one, one.identity_columns, last) for one in own if one.replica_identity in "di" and one.has_identity
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
