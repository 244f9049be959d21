"""The changes of a snapshot to a table: rows of the catalog that come, and that end (specification, "Writing Data")."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headwater.lakes.ducklake.bound_texts import bound_text, read_bound
from headwater.lakes.ducklake.catalog_table import FoundTable, columns_at, ids, schema_directory
from headwater.lakes.ducklake.catalog_tables import TABLES
from headwater.lakes.ducklake.columns import Column, arrow_type
from headwater.lakes.ducklake.merged_files import DATA_FILES, schedule
from headwater.lakes.ducklake.snapshots import NextSnapshot, quoted

_FLOATS = ("float32", "float64")


@dataclass(frozen=True)
class ColumnSeen:
    """A column of a file, by its values.

    Attributes:
        nulls: how many; lower, upper: the least and the greatest value, None for not known.
    """

    nulls: int | None
    lower: Any = None
    upper: Any = None


@dataclass(frozen=True)
class NewFile:
    """A file of rows that comes.

    Attributes:
        path: below the table's directory; rows: how many; size: bytes; footer: bytes of its footer.
        seen: of columns that are not nested, by their numbers.
    """

    path: str
    rows: int
    size: int
    footer: int
    seen: Mapping[int, ColumnSeen] = field(default_factory=dict)


@dataclass(frozen=True)
class NewDeletes:
    """A delete file that comes.

    Attributes:
        of: the number of the file of rows; before: that of the delete file that it replaces, None for none.
        path: below the table's directory; rows: how many it names; size, footer: bytes.
    """

    of: int
    before: int | None
    path: str
    rows: int
    size: int
    footer: int


def create_table(snapshot: NextSnapshot, data_path: str, schema: str, name: str, directory: str) -> FoundTable:
    """Make a table, and its schema where there is none.

    Args:
        snapshot: in which; data_path: of the catalog.
        schema, name: the table's; directory: of its files, with a slash behind.
    """
    database = snapshot.database
    known = schema_directory(database, data_path, schema)
    if known is None:
        number = snapshot.catalog_id()
        row = (number, str(uuid.uuid4()), snapshot.number, None, schema, "", True)
        database.insert("ducklake_schema", tuple(TABLES["ducklake_schema"]), [row])
        snapshot.changes.append(f"created_schema:{quoted(schema)}")
        snapshot.has_schema = True
        known = number, data_path
    is_below = directory.startswith(known[1]) and known[1] != ""
    path = directory.removeprefix(known[1]) if is_below else directory
    table = FoundTable(snapshot.catalog_id(), directory)
    own = (table.number, str(uuid.uuid4()), snapshot.number, None, known[0], name, path, is_below)
    database.insert("ducklake_table", tuple(TABLES["ducklake_table"]), [own])
    stats = (table.number, 0, 0, 0)
    database.insert("ducklake_table_stats", tuple(TABLES["ducklake_table_stats"]), [stats])
    snapshot.changes.append(f"created_table:{quoted(schema)}.{quoted(name)}")
    return table


def change_columns(snapshot: NextSnapshot, table: FoundTable, columns: Sequence[Column]) -> None:
    """Let a table have certain columns: those that are others end, and begin anew with the number that they have.

    Args:
        snapshot: in which; table: it; columns: all that it has then.
    """
    database, number = snapshot.database, table.number
    before = {column.number: column for column in columns_at(database, number, snapshot.number)}
    coming = [column for column in columns if before.get(column.number) != column]
    for column in coming:
        if column.number in before:
            database.rows(
                "UPDATE ducklake_column SET end_snapshot = ? WHERE table_id = ? AND column_id = ? AND "
                "end_snapshot IS NULL",
                [snapshot.number, number, column.number],
            )
    database.insert(
        "ducklake_column", tuple(TABLES["ducklake_column"]), [_row(snapshot, number, own) for own in coming]
    )
    if coming:
        snapshot.altered.append(number)
        if before:
            snapshot.changes.append(f"altered_table:{number}")


def _row(snapshot: NextSnapshot, table: int, column: Column) -> tuple[Any, ...]:
    kind = "" if column.is_nested else "literal"
    life = (column.number, snapshot.number, None, table, column.number)
    return (*life, column.name, column.type, None, "NULL", True, column.parent, kind, "duckdb")


def add_files(
    snapshot: NextSnapshot, table: FoundTable, columns: Sequence[Column], files: Sequence[NewFile]
) -> list[int]:
    """Add files of rows; return their numbers.

    Args:
        snapshot: in which; table: whose; columns: that it has; files: they.
    """
    if not files:
        return []
    database = snapshot.database
    ((first,),) = database.rows("SELECT next_row_id FROM ducklake_table_stats WHERE table_id = ?", [table.number])
    numbers, rows, stats = [], [], []
    begin = int(first)
    for file in files:
        number = snapshot.file_id()
        life = (number, table.number, snapshot.number, None, None, file.path, True, "parquet")
        rows.append((*life, file.rows, file.size, file.footer, begin, None, None, None, None))
        stats += [_stats(number, table.number, column, file) for column in columns if column.number in file.seen]
        begin += file.rows
        numbers.append(number)
    database.insert("ducklake_data_file", tuple(TABLES["ducklake_data_file"]), rows)
    database.insert("ducklake_file_column_stats", tuple(TABLES["ducklake_file_column_stats"]), stats)
    _change_stats(snapshot, table, columns, files, had_rows=bool(first))
    return numbers


def merge_files(
    snapshot: NextSnapshot, table: FoundTable, columns: Sequence[Column], file: NewFile, numbers: Sequence[int]
) -> int:
    """Put a file in the place of those that it is made of, in all snapshots that have them; return its number.

    Args:
        snapshot: in which; table: whose; columns: that it has.
        file: it, which says where each row comes from; numbers: of those that it is made of.
    """
    database, number = snapshot.database, snapshot.file_id()
    ((begin, most),) = database.rows(
        "SELECT min(begin_snapshot), max(coalesce(partial_max, begin_snapshot)) FROM ducklake_data_file "
        f"WHERE data_file_id IN ({ids(numbers)})"
    )
    schedule(database, table, DATA_FILES, numbers)
    life = (number, table.number, begin, None, None, file.path, True, "parquet")
    row = (*life, file.rows, file.size, file.footer, None, None, None, None, most if most > begin else None)
    database.insert("ducklake_data_file", tuple(TABLES["ducklake_data_file"]), [row])
    stats = [_stats(number, table.number, column, file) for column in columns if column.number in file.seen]
    database.insert("ducklake_file_column_stats", tuple(TABLES["ducklake_file_column_stats"]), stats)
    _count_again(snapshot, table)
    return number


def _stats(number: int, table: int, column: Column, file: NewFile) -> tuple[Any, ...]:
    seen = file.seen[column.number]
    values = None if seen.nulls is None else file.rows - seen.nulls
    bounds = bound_text(seen.lower), bound_text(seen.upper)
    return (number, table, column.number, None, values, seen.nulls, *bounds, _may_have_nan(column, file), None)


def _may_have_nan(column: Column, file: NewFile) -> bool | None:
    """Tell whether there may be a NaN; bounds of a column say that there is none."""
    if column.type not in _FLOATS:
        return None
    seen = file.seen[column.number]
    return seen.lower is None and seen.nulls != file.rows


def _change_stats(
    snapshot: NextSnapshot, table: FoundTable, columns: Sequence[Column], files: Sequence[NewFile], *, had_rows: bool
) -> None:
    """Let statistics of the table hold for the files, too: they are bounds, and hold for those that go, still."""
    database = snapshot.database
    count, size = sum(file.rows for file in files), sum(file.size for file in files)
    database.rows(
        "UPDATE ducklake_table_stats SET record_count = record_count + ?, next_row_id = next_row_id + ?, "
        "file_size_bytes = file_size_bytes + ? WHERE table_id = ?",
        [count, count, size, table.number],
    )
    known = {
        int(number): seen
        for number, *seen in database.rows(
            "SELECT column_id, contains_null, contains_nan, min_value, max_value FROM ducklake_table_column_stats "
            "WHERE table_id = ?",
            [table.number],
        )
    }
    tops = [column for column in columns if column.parent is None and not column.is_nested]
    rows = [
        (table.number, column.number, *_together(column, known.get(column.number), files, had_rows), None)
        for column in tops
    ]
    changed = [row for row in rows if known.get(row[1]) != list(row[2:-1])]
    if changed:
        numbers = ids([row[1] for row in changed])
        database.rows(
            f"DELETE FROM ducklake_table_column_stats WHERE table_id = ? AND column_id IN ({numbers})", [table.number]
        )
    database.insert("ducklake_table_column_stats", tuple(TABLES["ducklake_table_column_stats"]), changed)


def _together(
    column: Column, known: list[Any] | None, files: Sequence[NewFile], had_rows: bool
) -> tuple[bool, bool | None, str | None, str | None]:
    """Return what holds for all values that a column has had: may be null, may be NaN, bounds."""
    seen = [file.seen.get(column.number, ColumnSeen(None)) for file in files]
    has_null = any(own.nulls != 0 for own in seen) or (had_rows if known is None else bool(known[0]))
    nans = [_may_have_nan(column, file) for file in files if column.number in file.seen]
    has_nan = None if column.type not in _FLOATS else any(nans) or (known is not None and known[1] not in (False, 0))
    if known is None and had_rows:
        return has_null, has_nan, None, None
    type = arrow_type(column, [])
    lower = [own.lower for own in seen] + ([] if known is None else [read_bound(known[2], type)])
    upper = [own.upper for own in seen] + ([] if known is None else [read_bound(known[3], type)])
    return has_null, has_nan, _chosen(lower, min), _chosen(upper, max)


def _chosen(values: Sequence[Any], choose: Any) -> str | None:
    return None if any(value is None for value in values) else bound_text(choose(values))


def end_files(snapshot: NextSnapshot, table: FoundTable, numbers: Sequence[int]) -> None:
    """Take files of rows away, with their delete files.

    Args:
        snapshot: in which; table: whose; numbers: theirs.
    """
    for kind in ("ducklake_data_file", "ducklake_delete_file") if numbers else ():
        snapshot.database.rows(
            f"UPDATE {kind} SET end_snapshot = ? WHERE table_id = ? AND end_snapshot IS NULL AND "
            f"data_file_id IN ({ids(numbers)})",
            [snapshot.number, table.number],
        )
    if numbers:
        _count_again(snapshot, table)


def _count_again(snapshot: NextSnapshot, table: FoundTable) -> None:
    """Let the table's counts be those of its files."""
    snapshot.database.rows(
        "UPDATE ducklake_table_stats SET "
        "record_count = (SELECT coalesce(sum(record_count), 0) FROM ducklake_data_file f WHERE f.table_id = ? AND "
        "f.end_snapshot IS NULL), file_size_bytes = (SELECT coalesce(sum(file_size_bytes), 0) FROM "
        "ducklake_data_file f WHERE f.table_id = ? AND f.end_snapshot IS NULL) WHERE table_id = ?",
        [table.number, table.number, table.number],
    )


def add_deletes(snapshot: NextSnapshot, table: FoundTable, deletes: Sequence[NewDeletes]) -> list[int]:
    """Add delete files, in the place of those that files had; return their numbers."""
    before = [own.before for own in deletes if own.before is not None]
    if before:
        snapshot.database.rows(
            f"UPDATE ducklake_delete_file SET end_snapshot = ? WHERE delete_file_id IN ({ids(before)})",
            [snapshot.number],
        )
    numbers = [snapshot.file_id() for _ in deletes]
    rows = [
        (number, table.number, snapshot.number, None, own.of, own.path, True, "parquet", own.rows, own.size, own.footer)
        for number, own in zip(numbers, deletes, strict=True)
    ]
    snapshot.database.insert("ducklake_delete_file", tuple(TABLES["ducklake_delete_file"])[:-2], rows)
    return numbers


def note_settings(snapshot: NextSnapshot, table: FoundTable, settings: Mapping[str, str]) -> None:
    """Note of a table how far it has come."""
    database = snapshot.database
    keys: Iterable[str] = settings
    for key in keys:
        database.rows(
            "DELETE FROM ducklake_metadata WHERE scope = 'table' AND scope_id = ? AND key = ?", [table.number, key]
        )
    rows = [(key, value, "table", table.number) for key, value in settings.items()]
    database.insert("ducklake_metadata", tuple(TABLES["ducklake_metadata"]), rows)
