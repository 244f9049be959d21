"""Relations of the source, mapped to tables of the target by their names.

PostgreSQL: replication/logical/relation.c (logicalrep_rel_open).
"""

from __future__ import annotations

from dataclasses import dataclass

from headwater.apply.target.connection import TargetConnection
from headwater.apply.target.session import TargetFacts
from headwater.errors import TargetError
from headwater.remote_slots.announced_relations import SentRelation

_TABLE = """
SELECT c.oid, c.relkind::text FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relname = $2
"""
_COLUMNS = """
SELECT attname, atttypid FROM pg_catalog.pg_attribute WHERE attrelid = $1::oid AND attnum > 0 AND NOT attisdropped
"""


@dataclass(frozen=True)
class MappedRelation:
    """A relation of the source, and the table of the target for it.

    Attributes:
        sent: the relation as it was announced.
        oid: the table's; namespace, name: its names; kind: ``relkind``.
        types: OID of the type of the table's column for each that is sent.
    """

    sent: SentRelation
    oid: int
    namespace: str
    name: str
    kind: str
    types: tuple[int, ...]


def map_relation(connection: TargetConnection, _facts: TargetFacts, sent: SentRelation) -> MappedRelation:
    """Map a relation to the target's table of its name.

    Raises:
        TargetError: there is none that would do.
    """
    rows = connection.rows(_TABLE, (sent.namespace, sent.name))
    if not rows:
        text = f'logical replication target relation "{sent.namespace}.{sent.name}" does not exist'
        raise TargetError(text, sqlstate="55000")
    ((oid, kind),) = rows
    types = {str(name): int(str(oid)) for name, oid in connection.rows(_COLUMNS, (oid,))}
    columns = tuple(types[column.name] for column in sent.columns)
    return MappedRelation(sent, int(str(oid)), sent.namespace, sent.name, str(kind), columns)
