"""Layouts as Iceberg's metadata has them: partition specs, sort orders, and the values that manifests have of a file.

A spec has a field's source by its id. Values in manifests are what Iceberg stores: years, months and hours since 1970,
days and moments as integers.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal
from uuid import UUID

import numpy as np
from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionSpec
from pyiceberg.partitioning import PartitionField as IcebergField
from pyiceberg.schema import assign_fresh_schema_ids
from pyiceberg.table.sorting import (
    UNSORTED_SORT_ORDER,
    UNSORTED_SORT_ORDER_ID,
    NullOrder,
    SortDirection,
    SortOrder,
)
from pyiceberg.table.sorting import SortField as IcebergSortField
from pyiceberg.table.update import AddSortOrderUpdate, AssertDefaultSortOrderId, SetDefaultSortOrderUpdate
from pyiceberg.transforms import IdentityTransform, Transform, parse_transform
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    IcebergType,
    IntegerType,
    LongType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from headwater.errors import LakeError
from headwater.lakes.layout.table_layout import Partition, TableLayout
from headwater.lakes.layout.transforms import HOUR, MONTH, YEAR, PartitionField

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table import Transaction
    from pyiceberg.table.metadata import TableMetadata

_EPOCH_YEAR = 1970
_UNITS: dict[str, Literal["M", "h"]] = {MONTH: "M", HOUR: "h"}


def with_ids(schema: Schema) -> Schema:
    """Return columns with ids, by which a spec can name them."""
    return assign_fresh_schema_ids(schema)


def partition_spec(layout: TableLayout, schema: Schema) -> PartitionSpec:
    """Return the spec of a table that is made.

    Args:
        layout: the table's; schema: its columns, with ids.
    """
    fields = [
        IcebergField(
            source_id=schema.find_field(field.column, case_sensitive=True).field_id,
            field_id=PARTITION_FIELD_ID_START + number,
            transform=_transform(field),
            name=field.name,
        )
        for number, field in enumerate(layout.partition)
    ]
    return PartitionSpec(*fields, spec_id=0)


def sort_order(layout: TableLayout, schema: Schema) -> SortOrder:
    """Return the sort order of a table that is made; see :func:`partition_spec`."""
    fields = [
        IcebergSortField(
            source_id=schema.find_field(field.column, case_sensitive=True).field_id,
            transform=IdentityTransform(),
            direction=SortDirection.DESC if field.descending else SortDirection.ASC,
            null_order=NullOrder.NULLS_FIRST if field.nulls_first else NullOrder.NULLS_LAST,
        )
        for field in layout.sort
    ]
    return SortOrder(*fields, order_id=1 if fields else 0)


def lay_out(transaction: Transaction, layout: TableLayout, *, is_new: bool) -> None:
    """See that a table has a layout, or give it one from its next commit on.

    Args:
        transaction: of that commit; layout: the one that files that come have.
        is_new: the table may have had another one.

    Raises:
        LakeError: it has another one.
    """
    if not layout and not is_new:
        return  # Another program may have partitioned the table: files that come have no partition, as before.
    metadata = transaction.table_metadata
    is_partitioned = _spec_texts(metadata) == [
        (field.name, str(_transform(field)), field.column) for field in layout.partition
    ]
    is_sorted = _order_texts(metadata) == [str(field) for field in sort_order(layout, metadata.schema()).fields]
    if (not is_partitioned or not is_sorted) and not is_new:
        raise LakeError(
            f"the table is {'sorted' if is_partitioned else 'partitioned'} otherwise than its settings say",
            hint="somebody else has changed that: change it back, or headwater lake reload --table-settings FILE",
        )
    if not is_partitioned:
        with transaction.update_spec() as update:
            for known in metadata.spec().fields:
                update.remove_field(known.name)
        with transaction.update_spec() as update:
            for field in layout.partition:
                update.add_field(field.column, _transform(field), field.name)
    if not is_sorted and not layout.sort:
        _forget_order(transaction)
    elif not is_sorted:
        with transaction.update_sort_order(case_sensitive=True) as order:
            for own in layout.sort:
                nulls = NullOrder.NULLS_FIRST if own.nulls_first else NullOrder.NULLS_LAST
                (order.desc if own.descending else order.asc)(own.column, IdentityTransform(), nulls)


def _forget_order(transaction: Transaction) -> None:
    """Let a table have no sort order: pyiceberg (0.12.0) sets the last order instead of the one without fields."""
    metadata = transaction.table_metadata
    is_there = metadata.sort_order_by_id(UNSORTED_SORT_ORDER_ID) is not None
    adding = () if is_there else (AddSortOrderUpdate.model_validate({"sort-order": UNSORTED_SORT_ORDER}),)
    transaction._apply(
        (*adding, SetDefaultSortOrderUpdate.model_validate({"sort-order-id": UNSORTED_SORT_ORDER_ID})),
        (AssertDefaultSortOrderId.model_validate({"default-sort-order-id": metadata.default_sort_order_id}),),
    )


def _spec_texts(metadata: TableMetadata) -> list[tuple[str, str, str | None]]:
    schema = metadata.schema()
    return [(own.name, str(own.transform), schema.find_column_name(own.source_id)) for own in metadata.spec().fields]


def _order_texts(metadata: TableMetadata) -> list[str]:
    order = metadata.sort_order_by_id(metadata.default_sort_order_id)
    return [] if order is None else [str(field) for field in order.fields]


def placed(partition: Partition, metadata: TableMetadata) -> tuple[int, Record]:
    """Return the id of the spec that a file comes with, and its values.

    Args:
        partition: of the file; metadata: of the table, with the layout that files have.
    """
    specs = metadata.specs()
    if not partition:
        return next((number for number, spec in sorted(specs.items()) if not spec.fields), 0), Record()
    spec, schema = metadata.spec(), metadata.schema()
    types = spec.partition_type(schema).fields
    values = [
        None if text is None else _value(text, str(own.transform), part.field_type)
        for text, own, part in zip(partition, spec.fields, types, strict=True)
    ]
    return spec.spec_id, Record(*values)


def partition_of(spec_id: int, values: Record, metadata: TableMetadata) -> Partition:
    """Return what a file's values are called; see :func:`placed`."""
    spec = metadata.specs()[spec_id]
    types = spec.partition_type(metadata.schema()).fields
    return tuple(
        None if values[at] is None else _text(values[at], str(own.transform), types[at].field_type)
        for at, own in enumerate(spec.fields)
    )


def _transform(field: PartitionField) -> Transform[Any, Any]:
    return parse_transform(f"{field.kind}[{field.width}]" if field.width else field.kind)


def _value(text: str, transform: str, type: IcebergType) -> Any:
    """Return a partition's value as it is stored."""
    if transform == YEAR:
        return int(text) - _EPOCH_YEAR
    if transform in _UNITS:
        moment = f"{text[:-3]}T{text[-2:]}" if transform == HOUR else text
        return int(np.datetime64(moment, _UNITS[transform]).astype(np.int64))
    if isinstance(type, DateType):
        return int(np.datetime64(text, "D").astype(np.int64))
    if isinstance(type, TimestampType | TimestamptzType):
        return int(np.datetime64(text.replace(" ", "T").removesuffix("Z"), "us").astype(np.int64))
    if isinstance(type, TimeType):
        return int(np.datetime64(f"1970-01-01T{text}", "us").astype(np.int64))
    if isinstance(type, IntegerType | LongType):
        return int(text)
    if isinstance(type, BooleanType):
        return text == "true"
    return Decimal(text) if isinstance(type, DecimalType) else UUID(text) if isinstance(type, UUIDType) else text


def _text(value: Any, transform: str, type: IcebergType) -> str:
    """Return a stored value as a partition is called."""
    if transform == YEAR:
        return str(np.datetime64(value, "Y"))
    if transform in _UNITS:
        return str(np.datetime64(value, _UNITS[transform])).replace("T", "-")
    if isinstance(type, DateType):
        return str(np.datetime64(value, "D"))
    if isinstance(type, TimestampType | TimestamptzType):
        moment = str(np.datetime64(value, "us"))
        return f"{moment}Z" if isinstance(type, TimestamptzType) else moment.replace("T", " ")
    if isinstance(type, TimeType):
        return str(np.datetime64(value, "us")).partition("T")[2]
    if isinstance(type, BooleanType):
        return "true" if value else "false"
    return format(value, "f") if isinstance(value, Decimal) else str(value)
