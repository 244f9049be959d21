"""The form of a table that mirrors one of the source, for tasks (:mod:`headwater.landing.mirrors.merge_task`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from headwater.lakes.deletes.deleted_rows import DeletedRows
from headwater.lakes.history_rows import VALID_FIELDS, read_rows, valid_rows
from headwater.lakes.layout.table_layout import NO_LAYOUT, TableLayout
from headwater.landing.tables.attached_rows import Departure
from headwater.landing.tables.stored_types import Retyped, Rewritten
from headwater.landing.tables.table_events import Identity

PARTITION = pa.field("_partition_oid", pa.int64())
"""Not ``_partition``: Iceberg has a column of that name for each table, and Spark reads none that has another one."""


def own_fields(*, has_history: bool, is_partitioned: bool) -> tuple[pa.Field[Any], ...]:
    """Return columns of a mirror that are none of the source's, before those."""
    return (*(VALID_FIELDS if has_history else ()), *((PARTITION,) if is_partitioned else ()))


@dataclass(frozen=True)
class MirrorForm:
    """The form of a mirror, for tasks; pickles.

    Attributes:
        name: of the table in the lake.
        schema: its columns.
        source_columns: the columns of these that are the source's now.
        identity: what identifies rows; key: the key's columns in the lake.
        staging: where files are written.
        has_history: all versions of its rows are kept.
        gone: see :class:`~headwater.landing.tables.table_events.TableStory`.
        fills: what columns that the files do not have yet hold in their rows, as arrays of one value.
        becomes: columns that the files do not have yet, by those of another type that hold their values.
        retyped: columns in which the files' rows mean something else now.
        rewritten: where the server has rewritten rows for the type of a column; names: of columns, by number.
        is_partition: the table is a partition of another one by now, which has its rows.
        replaces: the table has taken another one's place at the beginning of the window: what has ended that one's
            rows, before all changes.
        is_partitioned: rows say in which partition they are.
        layout: of its files.
        source: the table's name in messages, as its source has it; source_names: likewise of columns, by those in the
            lake.
    """

    name: str
    schema: pa.Schema
    source_columns: tuple[str, ...]
    identity: Identity
    key: tuple[str, ...]
    staging: str
    has_history: bool
    gone: tuple[Departure, ...] = ()
    fills: Mapping[str, pa.Array[Any]] = field(default_factory=dict)
    becomes: Mapping[str, str] = field(default_factory=dict)
    retyped: Mapping[str, Retyped] = field(default_factory=dict)
    rewritten: tuple[Rewritten, ...] = ()
    names: Mapping[int, str] = field(default_factory=dict)
    is_partition: bool = False
    replaces: Departure | None = None
    is_partitioned: bool = False
    layout: TableLayout = NO_LAYOUT
    source: str = ""
    source_names: Mapping[str, str] = field(default_factory=dict)

    @property
    def table(self) -> str:
        """The table in a message."""
        return f"table {self.source or self.name}"

    def column(self, name: str) -> str:
        """Return a column in a message, by its name in the lake."""
        return f'column "{self.source_names.get(name, name)}" of {self.table}'

    @property
    def own(self) -> tuple[str, ...]:
        """Names of the columns that are none of the source's."""
        own = own_fields(has_history=self.has_history, is_partitioned=self.is_partitioned)
        return tuple(field.name for field in own)

    @property
    def rewrites_all(self) -> bool:
        """Whether no file stays as it is."""
        return bool(self.fills or self.becomes or self.retyped)

    @property
    def is_steady(self) -> bool:
        """Whether the files' columns are as they were."""
        return not (self.becomes or self.retyped or self.rewritten)

    def is_rewritten(self, file: pa.Schema) -> bool:
        """Tell whether rows of a file are from before the server rewrote all of them, so that none is left."""
        rewritten = {self.names[column.number] for column in self.rewritten}
        held = {name: name if name in file.names else self.becomes.get(name) for name in rewritten}
        return any(
            there in file.names and file.field(there).type != self.schema.field(name).type
            for name, there in held.items()
        )

    def valid(self, path: str, columns: Sequence[str] | None = None, deleted: DeletedRows | None = None) -> pa.Table:
        """Return rows of a file that are there still, but for those that are deleted; some columns, or all."""
        return (valid_rows if self.has_history else read_rows)(path, columns, deleted)

    @property
    def told_by(self) -> tuple[str, ...]:
        """The columns in the lake that identify rows."""
        if self.identity.is_whole:
            return (*((PARTITION.name,) if self.is_partitioned else ()), *self.source_columns)
        return self.key
