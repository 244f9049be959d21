"""Changes as rows instead of messages: what the ``headwater`` data source gives without a plugin.

:class:`RowChanges` plays the output plugin on the driver: it says which relations' changes are wanted. The tasks then
turn cells into Arrow batches here.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headwater.catalog.relation import RelationSchema
from headwater.errors import PluginError, warn
from headwater.pipeline.decode_job import DecodedSlice
from headwater.plugins.api import EMITS_ALL, CatalogView, OutputPlugin, WholeCatalog
from headwater.plugins.publication import (
    FIRST_NORMAL_OBJECT_ID,
    is_publishable,
    load_publications,
    published,
    require_publications,
)
from headwater.rows.arrow import arrow_schema, change_rows, images, typed_columns
from headwater.rows.items import LITERAL, Cells, Items, Literals, Messages, Transactions

POSTGRES_EPOCH = 946_684_800_000_000
"""2000-01-01 00:00 UTC in microseconds since 1970."""

COMMON = pa.schema(
    [
        ("_lsn", pa.int64()),
        ("_commit_lsn", pa.int64()),
        ("_seq", pa.int64()),
        ("_commit_time", pa.timestamp("us", tz="UTC")),
        ("_xid", pa.int64()),
        ("_origin", pa.string()),
        ("_op", pa.string()),
        ("_schema", pa.string()),
        ("_table", pa.string()),
    ]
)
"""Columns of every change: LSN of the change and of its commit, number inside the transaction, and so on."""

COMMON_DDL = (
    "_lsn BIGINT, _commit_lsn BIGINT, _seq BIGINT, _commit_time TIMESTAMP, _xid BIGINT, _origin STRING, "
    "_op STRING, _schema STRING, _table STRING"
)
IMAGES_DDL = "_before MAP<STRING,STRING>, _after MAP<STRING,STRING>"
_MAP = pa.map_(pa.string(), pa.string())
_OPERATIONS = pa.array(["", "insert", "update", "delete", "truncate"])


class RowChanges(OutputPlugin):
    """Wants every change of the chosen tables; runs on the driver, pickles to the tasks.

    Args:
        tables: patterns of ``schema.table`` (``*``, ``?``); none for all.
        publications: names; none for no restriction.
        major: PostgreSQL's.
    """

    name: ClassVar[str] = "rows"
    sends_schema: ClassVar[bool] = False

    def __init__(self, tables: Sequence[str], publications: Sequence[str], major: int) -> None:
        self.tables = tuple(tables)
        self.publications = tuple(publications)
        self.major = major
        self.is_text = False
        self.skips_empty = True

    def wants(self, schema: RelationSchema, catalog: CatalogView) -> int:
        """All changes of a chosen, permanent user table, or those its publications publish."""
        if schema.oid < FIRST_NORMAL_OBJECT_ID or schema.kind not in "rmp" or schema.rewrite_of:
            return 0
        if self.tables and not any(fnmatchcase(f"{schema.namespace}.{schema.name}", p) for p in self.tables):
            return 0
        if not self.publications:
            return EMITS_ALL
        if not is_publishable(schema):
            return 0
        publications = load_publications(self.publications, catalog, self.major)
        for name in set(self.publications).difference(found.name for found in publications):
            warn(f'publication "{name}" does not exist at some change in the window: it publishes nothing there')
        return published(schema, publications, catalog, self.major).emits

    def validate(self, catalog: WholeCatalog) -> None:
        """Stop if not one of the named publications has ever existed."""
        require_publications(self.publications, catalog)

    def schema_messages(self, schema: RelationSchema, catalog: CatalogView) -> list[bytes]:
        """None: rows carry their columns' names."""
        return []

    def truncate(self, schemas: Sequence[RelationSchema], cascade: bool, restart_seqs: bool) -> list[bytes]:
        """One message per relation, which becomes a row of its own."""
        return [json.dumps([schema.namespace, schema.name]).encode() for schema in schemas]

    def message(self, lsn: int, transactional: bool, prefix: bytes, content: bytes) -> list[bytes]:
        """None: a logical message is no change of a row."""
        return []

    def origin(self, name: str, lsn: int) -> list[bytes]:
        """The origin's name."""
        return [name.encode()]

    def render(
        self,
        items: Items,
        cells: Cells,
        transactions: Transactions,
        literals: Literals,
        schemas: Sequence[RelationSchema],
        schema_messages: Sequence[Sequence[bytes]],
    ) -> Messages:
        """Not for rows.

        Raises:
            PluginError: always.
        """
        raise PluginError("rows of changes have no messages")


def change_batch(decoded: DecodedSlice, single: RelationSchema | None) -> pa.RecordBatch:
    """The changes of a slice as rows.

    Args:
        decoded: the slice.
        single: the only table, whose own typed columns are wanted; None for before and after images.

    Returns:
        the columns of :data:`COMMON`, then the images or the table's columns.
    """
    changes = decoded.changes
    schemas = [use.schema for use in changes.relations]
    rows = change_rows(changes.items)
    batches = [_row_batch(decoded, rows, schemas, single), _truncate_batch(decoded, single)]
    table = pa.Table.from_batches([batch for batch in batches if batch.num_rows] or batches[:1])
    order = pc.sort_indices(table, [("_commit_lsn", "ascending"), ("_seq", "ascending")])
    ordered = table.take(order) if batches[1].num_rows else table
    return ordered.combine_chunks().to_batches()[0] if len(ordered) else batches[0]


def _row_batch(
    decoded: DecodedSlice, rows: NDArray[np.int64], schemas: Sequence[RelationSchema], single: RelationSchema | None
) -> pa.RecordBatch:
    items = decoded.changes.items
    layout = pa.array(items.layout[rows])
    names = [pa.array([getattr(s, part) for s in schemas], pa.string()).take(layout) for part in ("namespace", "name")]
    common = _common(decoded, rows, pa.array(items.kind[rows]), names)
    if single is not None:
        own = typed_columns(decoded.cells, items, single, schemas=schemas, rows=rows)
        return pa.RecordBatch.from_arrays([*common, *own.columns], schema=_schema(single))
    shown = images(decoded.cells, items, schemas, rows)
    return pa.RecordBatch.from_arrays([*common, shown.before, shown.after], schema=_schema(None))


def _truncate_batch(decoded: DecodedSlice, single: RelationSchema | None) -> pa.RecordBatch:
    """One row per truncated relation."""
    items, literals = decoded.changes.items, decoded.changes.literals
    which, named = [], []
    for item in np.flatnonzero(items.kind == LITERAL):
        literal = items.layout[item]
        for message in range(literals.first[literal], literals.first[literal + 1]):
            data = literals.data[literals.offsets[message] : literals.offsets[message + 1]].tobytes()
            which.append(int(item))
            named.append(json.loads(data))
    names = [pa.array([name[part] for name in named], pa.string()) for part in (0, 1)]
    rows = np.array(which, np.int64)
    common = _common(decoded, rows, pa.array(np.full(len(rows), 4, np.uint8)), names)
    schema = _schema(single)
    rest = [pa.nulls(len(rows), field.type) for field in list(schema)[len(COMMON) :]]
    return pa.RecordBatch.from_arrays([*common, *rest], schema=schema)


def _schema(single: RelationSchema | None) -> pa.Schema:
    own = arrow_schema(single) if single is not None else pa.schema([("_before", _MAP), ("_after", _MAP)])
    return pa.schema([*COMMON, *own])


def _common(
    decoded: DecodedSlice, rows: NDArray[np.int64], kinds: pa.Array, names: Sequence[pa.Array]
) -> list[pa.Array]:
    items, transactions = decoded.changes.items, decoded.changes.transactions
    txn = items.txn[rows]
    time = transactions.commit_time[txn] + POSTGRES_EPOCH
    return [
        pa.array(items.lsn[rows]),
        pa.array(transactions.commit_lsn[txn]),
        pa.array(_sequence(decoded)[rows]),
        pa.array(time).view(pa.timestamp("us", tz="UTC")),
        pa.array(transactions.xid[txn].astype(np.int64)),
        _origins(decoded).take(pa.array(txn)),
        _OPERATIONS.take(kinds),
        *names,
    ]


def _sequence(decoded: DecodedSlice) -> NDArray[np.int64]:
    """int64[n] the number of each item among the output of its transaction, from 0; chunk rows do not count."""
    items, transactions = decoded.changes.items, decoded.changes.transactions
    counts = items.kind <= LITERAL
    before: NDArray[np.int64] = np.cumsum(counts) - counts
    padded = np.append(before, before[-1] + counts[-1] if len(before) else 0)
    numbers: NDArray[np.int64] = before - padded[transactions.item_start[items.txn]]
    return numbers


def _origins(decoded: DecodedSlice) -> pa.StringArray:
    """The origin's name of every transaction, null for local ones."""
    literals = decoded.changes.literals
    names = []
    for number in decoded.changes.transactions.origin:
        message = literals.first[number - 1]
        data = literals.data[literals.offsets[message] : literals.offsets[message + 1]].tobytes() if number else None
        names.append(data.decode() if data is not None else None)
    return pa.array(names, pa.string())
