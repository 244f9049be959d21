"""Changes as statements on the target's tables.

PostgreSQL: worker.c (apply_handle_insert and so on), executor/execReplication.c.
"""

from __future__ import annotations

from collections.abc import Sequence

from headwater.apply.incoming.messages import BINARY, UNCHANGED, SentTuple
from headwater.apply.target.connection import Bound, Statement
from headwater.apply.target.relations import MappedRelation
from headwater.receiver.replication_connection import quoted


def _table(mapped: MappedRelation) -> str:
    return f"{quoted(mapped.namespace)}.{quoted(mapped.name)}"


def insert(mapped: MappedRelation, new: SentTuple) -> Bound:
    """Return the statement of an insert."""
    names = ", ".join(quoted(column.name) for column in mapped.sent.columns)
    values = ", ".join(f"${number}" for number in range(1, len(new.values) + 1))
    sql = f"INSERT INTO {_table(mapped)} ({names}) VALUES ({values})"
    return Bound(Statement(sql, mapped.types), new.values, _formats(new.kinds))


def update(mapped: MappedRelation, old: SentTuple | None, new: SentTuple) -> Bound:
    """Return the statement of an update; what is unchanged is left as it is."""
    search = old or new
    sent = [at for at, kind in enumerate(new.kinds) if kind != UNCHANGED]
    keys = [at for at, column in enumerate(mapped.sent.columns) if column.is_key]
    columns = mapped.sent.columns
    sets = ", ".join(f"{quoted(columns[at].name)} = ${number}" for number, at in enumerate(sent, 1))
    where = _where(mapped, keys, len(sent) + 1)
    types = tuple(mapped.types[at] for at in [*sent, *keys])
    values = (*(new.values[at] for at in sent), *(search.values[at] for at in keys))
    formats = _formats(bytes([*(new.kinds[at] for at in sent), *(search.kinds[at] for at in keys)]))
    return Bound(Statement(f"UPDATE {_table(mapped)} SET {sets} WHERE {where}", types), values, formats)


def delete(mapped: MappedRelation, old: SentTuple) -> Bound:
    """Return the statement of a delete."""
    keys = [at for at, column in enumerate(mapped.sent.columns) if column.is_key]
    types = tuple(mapped.types[at] for at in keys)
    values = tuple(old.values[at] for at in keys)
    formats = _formats(bytes(old.kinds[at] for at in keys))
    return Bound(Statement(f"DELETE FROM {_table(mapped)} WHERE {_where(mapped, keys, 1)}", types), values, formats)


def truncate(relations: Sequence[MappedRelation], restart_seqs: bool) -> Bound:
    """Return the statement that empties tables together."""
    names = ", ".join(map(_table, relations))
    return Bound(Statement(f"TRUNCATE {names} {'RESTART' if restart_seqs else 'CONTINUE'} IDENTITY RESTRICT"))


def guard(_mapped: MappedRelation) -> Bound:
    """Return a statement that fails (22012) if the table is no longer what it was when it was mapped."""
    return Bound(Statement("SELECT 1"))


def _where(mapped: MappedRelation, keys: Sequence[int], first: int) -> str:
    columns = mapped.sent.columns
    return " AND ".join(f"{quoted(columns[at].name)} = ${number}" for number, at in enumerate(keys, first))


def _formats(kinds: bytes) -> tuple[int, ...]:
    return tuple(int(kind == BINARY) for kind in kinds) if BINARY in kinds else ()
