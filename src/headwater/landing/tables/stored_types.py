"""Stored rows of a column whose type has become another one: whether they still say the same.

``ALTER TABLE`` rewrites a table where the values of a column become others. Where they are stored alike it changes the
catalog alone, and what is printed may be something else: an ``integer`` of -1 is an ``oid`` of 4294967295. A label of
an enum is in the catalog alone from the first, as are the attributes of a composite type. Rows of a mirror hold what
was printed.

PostgreSQL: ``tablecmds.c`` (ATColumnChangeRequiresRewrite), ``pg_cast.dat`` (``castmethod`` ``b``).

Known gap: ``regclass`` and its kin print names; one that has changed since stays in rows that are there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headwater.catalog.relation import Column, RelationSchema, TypeInfo
from headwater.rows.columns.arrow import is_shown
from headwater.rows.text_tables import base_type

_TEXT = 25
_BITS = frozenset({1560, 1562})
_MOMENTS = frozenset({1114, 1184})
"""Of which a mirror's rows are converted, where the server takes them over."""


@dataclass(frozen=True)
class Retyped:
    """A column.

    Attributes:
        number: ``attnum``.
        older, newer: the names of its types.
        is_reshaped: a composite type in it has other attributes.
        lsn: START of the commit record from which on it is so; None if that is not known.
    """

    number: int
    older: str
    newer: str
    is_reshaped: bool
    lsn: int | None = None


@dataclass(frozen=True)
class Rewritten:
    """A column that got another type with a file that the server has rewritten, be there any rows left for it.

    Attributes:
        number: ``attnum``, of the table's.
        relation: OID of the table, or of a partition.
        lsn: START of the commit record.
    """

    number: int
    relation: int
    lsn: int


def retyped(last: RelationSchema, earlier: RelationSchema, versions: Iterable[RelationSchema]) -> list[Retyped]:
    """Return columns in which rows of an earlier version say something else now.

    Args:
        last: the table.
        earlier: it, or a partition of it, as it was when rows were written that nothing has rewritten.
        versions: of the relations that there are changes of; one that ALTER TABLE has written has what is stored now.
    """
    rewritten = [version for version in versions if version.rewrite_of]
    return list(_retyped(last, earlier, rewritten))


def _retyped(
    last: RelationSchema, earlier: RelationSchema, rewritten_versions: list[RelationSchema]
) -> Iterable[Retyped]:
    for column in last.columns:
        older = _column_in(last, earlier, column)
        if older is None or older.type is None or column.type is None or says_the_same(older.type, column.type):
            continue
        written = [
            rewritten.type
            for version in rewritten_versions
            if (rewritten := _column_in(last, version, column)) is not None
        ]
        if not any(type is not None and says_the_same(type, column.type) for type in written):
            is_reshaped = prints_alike(older.type, column.type)
            yield Retyped(column.number, older.type.display_name, column.type.display_name, is_reshaped)


def _column_in(last: RelationSchema, version: RelationSchema, column: Column) -> Column | None:
    """Return a column of a table in a version of it, or of a partition, whose columns have other numbers."""
    if not is_shown(column):
        return None
    if last.oid in (version.oid, version.rewrite_of):
        own = version.columns[column.number - 1] if column.number <= len(version.columns) else None
    else:
        own = next((candidate for candidate in version.columns if candidate.name == column.name), None)
    return own if own is not None and is_shown(own) else None


def says_the_same(older: TypeInfo, newer: TypeInfo) -> bool:
    """Tell whether whatever is stored of a type is the same value under another one."""
    return prints_alike(older, newer) and _attributes(older) == _attributes(newer)


def _attributes(type: TypeInfo) -> tuple[object, ...]:
    """Return the attributes of the composite types in a type, by their numbers."""
    base = base_type(type)
    own = tuple(
        (attribute.number, attribute.name, _attributes(attribute.type))
        for attribute in base.attributes
        if attribute.type is not None
    )
    inner = [part for part in (base.element, base.subtype) if part is not None]
    return own, *map(_attributes, inner)


def prints_alike(older: TypeInfo, newer: TypeInfo) -> bool:
    """Tell whether whatever is stored of a type prints as the same under another one."""
    older, newer = base_type(older), base_type(newer)
    if older.oid != newer.oid:
        return _is_alike(older, newer)
    known = dict(newer.labels)
    if any(known.get(oid, label) != label for oid, label in older.labels):
        return False
    return all(prints_alike(part, other) for part, other in _parts(older, newer))


def _is_alike(older: TypeInfo, newer: TypeInfo) -> bool:
    """Tell whether values of two different types print alike."""
    if older.element is not None and newer.element is not None:
        return prints_alike(older.element, newer.element)
    both = {older.oid, newer.oid}
    return both <= _BITS or both <= _MOMENTS or (_is_text(older) and _is_text(newer))


def _is_text(type: TypeInfo) -> bool:
    """Tell whether a type is text, ``varchar`` or ``char``, or prints as text does (``citext``)."""
    return type.oid in (_TEXT, 1042, 1043) or type.output == "textout"


def _parts(older: TypeInfo, newer: TypeInfo) -> Iterable[tuple[TypeInfo, TypeInfo]]:
    """Yield what both are made of, in pairs."""
    inner = [(older.element, newer.element), (older.subtype, newer.subtype)]
    inner += [
        (attribute.type, other.type) for attribute, other in zip(older.attributes, newer.attributes, strict=False)
    ]
    yield from ((part, other) for part, other in inner if part is not None and other is not None)
