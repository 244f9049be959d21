"""Events of the rows of mirrored tables in a window without a change of a row, and what identifies the rows.

In: what a table and its partitions were in the window (:mod:`headwater.landing.tables.table_spans`), in the thread that
plans. Out: a :class:`TableStory` of each table.

- Rows are identified by the columns of the replica identity, which the WAL has of every row that is updated or deleted;
  under REPLICA IDENTITY FULL by the primary key or, if there is none, as wholes.
- Rows come and leave with partitions (:mod:`headwater.landing.tables.partition_rows`).
- ADD COLUMN gives rows that are there the column's default, which only ``pg_attribute.attmissingval`` has.
- What is unlogged has no WAL.
- A type may take the stored values of another one over, or a label of an enum get another name. Then rows that are
  there say something else (:mod:`headwater.landing.tables.stored_types`).

What ALTER TABLE rewrites is no concern of this module: the WAL has the rows of the new heap.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from headwater.catalog.relation import Column, RelationSchema, TypeInfo
from headwater.catalog.versions import NEVER
from headwater.errors import LakeError
from headwater.lakes.paused import RELOADED_OR_CHANGES
from headwater.landing.tables.attached_rows import Arrival, Departure
from headwater.landing.tables.partition_rows import coming, detached, gone
from headwater.landing.tables.stored_types import Retyped, Rewritten, retyped, says_the_same
from headwater.landing.tables.table_spans import Step, TableSpans
from headwater.rows.columns.arrow import is_shown


@dataclass(frozen=True)
class Identity:
    """The columns that identify a row of a table.

    Attributes:
        columns: names of the key's, in the source.
        is_whole: all columns together identify rows.
    """

    columns: tuple[str, ...] = ()
    is_whole: bool = False

    @property
    def is_none(self) -> bool:
        """Whether rows only come."""
        return not self.columns and not self.is_whole


@dataclass(frozen=True)
class TableStory:
    """The events of a table in a window.

    Attributes:
        identity: what identifies its rows.
        members: OIDs of the relations whose rows are its.
        gone: relations that took their rows with them.
        coming: relations that have brought rows with them.
        detached: relations that are gone and there still, with their rows in no mirror.
        missing: by number what columns that were added have in rows from before: the source's column, that has it.
        retyped: columns in which rows from before the window say something else now.
        rewritten: columns whose type is another one now, and for which the server has rewritten relations.
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
        """Tell whether a relation took its rows with it at a commit."""
        return any(departure.relation == relation and departure.lsn == lsn for departure in self.gone)


def story_of(table: TableSpans) -> TableStory:
    """Return the events of a table in a window.

    Args:
        table: what it and its partitions were.
    """
    older = tuple(_retyped_before(table))
    changed_at = _changed_at(table, has_retyped=bool(older))
    story = TableStory(members=table.members, changed_at=changed_at)
    try:
        identity = identity_of(table.versions, table.last)
    except LakeError as error:
        return replace(story, refusal=error, refused_at=NEVER)
    try:
        departures, arrivals, missing = tuple(gone(table)), tuple(coming(table)), _missing(table)
        _require_same_values(table)
    except LakeError as error:
        return replace(story, identity=identity, refusal=error, refused_at=changed_at)
    return replace(
        story,
        identity=identity,
        gone=departures,
        coming=arrivals,
        detached=detached(table, departures),
        missing=tuple(sorted(missing.items())),
        retyped=older,
        rewritten=tuple(_rewritten(table)),
    )


def _changed_at(table: TableSpans, *, has_retyped: bool) -> int:
    """Find the last commit that has changed the definition of a relation of the table; -1 for none."""
    spans = [*table.own.values(), *table.passing.values()]
    # A label of an enum changes no relation, only what rows say.
    types = table.catalog.types_changed_at if has_retyped else -1
    return max([types, *(lsn for own in spans for lsn, _ in own)])


def _retyped_before(table: TableSpans) -> Iterator[Retyped]:
    """Find columns in which rows from before the window say something else at its end."""
    before = table.catalog.relation(table.last.oid, table.catalog.lo)
    if before is not None:
        yield from _retyped_since(table, before)


def _retyped_since(table: TableSpans, version: RelationSchema) -> Iterator[Retyped]:
    """Find columns in which rows of a version say something else at the window's end, as nothing rewrote them."""
    for column in retyped(table.last, version, table.versions):
        changes = list(_new_types(table, table.last.columns[column.number - 1]))
        if column.is_reshaped or not changes or not all(change.is_rewritten for change in changes):
            # Where the type is the same, what it is made of has changed.
            lsn = max((change.lsn for change in changes), default=table.catalog.types_changed_at)
            yield replace(column, lsn=lsn if lsn >= 0 else None)


def _rewritten(table: TableSpans) -> Iterator[Rewritten]:
    """Find columns for whose types all relations that have them were rewritten."""
    for column in filter(is_shown, table.last.columns):
        changes = list(_new_types(table, column))
        # One relation that is not rewritten has rows with the older values still.
        if all(change.is_rewritten for change in changes):
            yield from (Rewritten(column.number, change.relation, change.lsn) for change in changes)


@dataclass(frozen=True)
class _TypeChange:
    """A column of a relation that got another type.

    Attributes:
        relation: its OID; lsn: START of the commit record.
        is_rewritten: the relation has another file from then on.
    """

    relation: int
    lsn: int
    is_rewritten: bool


def _new_types(table: TableSpans, column: Column) -> Iterator[_TypeChange]:
    """Find where a column of the table got another type, in it and its partitions."""
    for step in table.steps():
        if step.before is None or step.after is None or step.after.kind != "r":
            continue
        number = _number_in(table, step.oid, column)
        older, newer = _type_of(step.before, number), _type_of(step.after, number)
        if older is not None and newer is not None and not says_the_same(older, newer):
            files = {table.catalog.filenode(step.oid, lsn) for lsn in (step.lsn, step.lsn + 1)}
            yield _TypeChange(step.oid, step.lsn, is_rewritten=len(files) > 1)


def _number_in(table: TableSpans, oid: int, column: Column) -> int:
    """Find the number that a column has in a partition; 0 where there is none of its name."""
    if oid == table.last.oid:
        return column.number
    last = next(schema for _, schema in reversed(table.own[oid]) if schema is not None)
    return next((own.number for own in last.columns if is_shown(own) and own.name == column.name), 0)


def _type_of(version: RelationSchema, number: int) -> TypeInfo | None:
    """Return the type of a column that a version of a relation has; None where it has none of the number."""
    column = version.columns[number - 1] if 0 < number <= len(version.columns) else None
    return column.type if column is not None and is_shown(column) else None


def _require_same_values(table: TableSpans) -> None:
    """See that rows that the window has written say at its end what they said.

    Raises:
        LakeError: they do not.
    """
    for version in table.versions:
        for column in _retyped_since(table, version):
            # One that is reshaped may be fine: who reads a value that fits no column says so.
            if not column.is_reshaped:
                name = table.last.columns[column.number - 1].name
                raise says_otherwise(f'column "{name}" of table {table.last.namespace}.{table.last.name}', column)


def _missing(table: TableSpans) -> dict[int, Column]:
    """Find columns that were added, with what rows from before have in them; by their numbers in the table.

    Raises:
        LakeError: relations of the table have different values there.
    """
    missing: dict[int, Column] = {}
    numbers = {column.name: column.number for column in table.last.columns if is_shown(column)}
    for step in table.steps():
        for schema, column in _added(step):
            number = column.number if schema.oid == table.last.oid else numbers.get(column.name)
            if number is None or column.missing is None:
                continue
            # A mirror's column is filled with one value, whichever relation a row is of.
            if missing.setdefault(number, column).missing != column.missing:
                raise table.refusal(schema, f'has another default in column "{column.name}" than others', step.lsn)
    return missing


def _added(step: Step) -> Iterator[tuple[RelationSchema, Column]]:
    """Find columns that a relation with rows gets; yields the relation, too."""
    if step.before is None or step.after is None:
        return
    known = {column.number for column in step.before.columns}
    for column in step.after.columns:
        if column.number not in known and is_shown(column):
            yield step.after, column


def says_otherwise(name: str, column: Retyped) -> LakeError:
    """Return the error of rows that the server has not rewritten, and that say something else now.

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


def identity_of(versions: Iterable[RelationSchema], last: RelationSchema) -> Identity:
    """Find what identifies the rows that the changes of a window are of.

    Args:
        versions: of the changed relations.
        last: the table at the window's end; it counts where there are no changes.

    Raises:
        LakeError: they are identified by several things.
    """
    # Partitioned tables have no rows, and the copy that a rewrite makes has the identity of its original.
    changed = [version for version in versions if not version.rewrite_of and version.kind == "r"] or [last]
    strict = {
        _names(version, version.identity_columns, last)
        for version in changed
        if version.replica_identity in "di" and version.has_identity
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
    whole = [version for version in changed if version.replica_identity == "f"]
    keys = {_names(version, version.primary_key_columns, last) for version in whole}
    if len(keys) == 1 and keys != {()}:
        return Identity(keys.pop())
    return Identity(is_whole=bool(whole))


def _names(version: RelationSchema, numbers: Iterable[int], last: RelationSchema) -> tuple[str, ...]:
    """Return the names of columns of a relation in the table at the window's end; a partition has the same."""
    newest = last if version.oid == last.oid else version
    return tuple(
        (version if newest.columns[number - 1].is_dropped else newest).columns[number - 1].name for number in numbers
    )
