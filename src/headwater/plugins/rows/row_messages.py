"""Messages of the plugin of rows to its tasks that are no changes of rows: a truncated relation, or DDL.

It travels as the message of an item, in JSON; :mod:`headwater.pipeline.slices.row_batches` makes a row of it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from headwater.catalog.relation import RelationSchema
from headwater.definitions.objects import TableDefinition
from headwater.plugins.api import DdlEvent


@dataclass(frozen=True)
class Told:
    """A relation that was truncated, or what became of an object.

    Attributes:
        item: index of the slice's item.
        namespace, name: the relation's; None for DDL of what is no table.
        number: among the relations of its record, or the events of its transaction.
        oid: the object's.
        topmost: of a relation that was truncated, see :attr:`RelationSchema.topmost`; None of DDL.
        ddl: the event as JSON, None for a truncate.
    """

    item: int
    namespace: str | None
    name: str | None
    number: int
    oid: int
    topmost: int | None
    ddl: str | None = None


def truncate_message(schema: RelationSchema, number: int) -> bytes:
    """Make the message of a relation that was truncated.

    Args:
        schema: the relation.
        number: among the relations of its record.
    """
    return json.dumps([schema.namespace, schema.name, number, schema.oid, schema.topmost]).encode()


def ddl_message(event: DdlEvent, number: int) -> bytes:
    """Make the message of DDL.

    Args:
        event: the event.
        number: among the events of its transaction.
    """
    either = event.after or event.before
    assert either is not None
    table = either if isinstance(either, TableDefinition) else None
    names = (None, None) if table is None else (table.schema, table.name)
    structure = json.dumps(event.structure(), ensure_ascii=False)
    return json.dumps([*names, number, either.oid, None, structure]).encode()
