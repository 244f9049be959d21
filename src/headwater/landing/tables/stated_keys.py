"""Keys of mirrors that settings state, where the replica identity has none, or another one.

The WAL has to have the key of every row that is updated or deleted: all columns under REPLICA IDENTITY FULL, else those
of the index that is the identity. Whether values of a key are unique, merges find out: a row that comes twice is an
error there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headwater.catalog.relation import RelationSchema
from headwater.errors import LakeError
from headwater.landing.tables.table_events import Identity, identity_of
from headwater.plugins.table_patterns import qualified_name
from headwater.rows.columns.arrow import is_shown


def identity_by(key: Sequence[int], versions: Iterable[RelationSchema], last: RelationSchema) -> Identity:
    """Return what identifies rows of a table, by a key that settings state.

    Args:
        key: numbers of its columns; none for what the table itself has.
        versions, last: see :func:`~headwater.landing.tables.table_events.identity_of`.

    Raises:
        LakeError: the WAL does not have the key of each row; or it may be null.
    """
    if not key:
        return identity_of(versions, last)
    columns = {column.number: column for column in filter(is_shown, last.columns)}
    names = tuple(columns[number].name for number in key if number in columns)
    if len(names) < len(key):
        raise LakeError(
            f"a column of the key that settings state for table {qualified_name(last)} was dropped",
            hint="state another key, and headwater lake reload --table-settings FILE",
        )
    nullable = [columns[number].name for number in key if not columns[number].not_null]
    if nullable:
        raise LakeError(
            f'column "{nullable[0]}" is part of the key that settings state for table '
            f"{qualified_name(last)}, and may be null",
            hint="ALTER TABLE ... ALTER COLUMN ... SET NOT NULL, or state another key",
        )
    changed = [version for version in versions if not version.rewrite_of and version.kind == "r"] or [last]
    for version in changed:
        if version.kind == "r" and not _has(version, names):
            raise LakeError(
                f"the WAL has not ({', '.join(names)}), the key that settings state, of rows of table "
                f"{qualified_name(version)} that are updated or deleted",
                hint="ALTER TABLE ... REPLICA IDENTITY FULL, or USING INDEX one that has these columns; then take a "
                "base backup",
            )
    return Identity(names)


def _has(version: RelationSchema, names: Sequence[str]) -> bool:
    """Tell whether the WAL has columns of each row of a relation that is updated or deleted."""
    if version.replica_identity == "f":
        return True
    return set(names) <= {version.columns[number - 1].name for number in version.identity_columns}
