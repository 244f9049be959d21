"""Changes as statements on the target's tables.

The text of a statement depends on the relation, and on which columns are sent. It depends, too, on which of the values
that a row is looked up by are NULL. It is made once for each such form, and kept with the relation.

Invariants: of a plain table only its own rows are changed (ONLY), of a partitioned one those of its partitions. Each
update or delete changes one row at most; the count that the server returns is 0 if it was not there.

PostgreSQL: worker.c (apply_handle_insert and so on, slot_store_data, slot_modify_data), executor/execReplication.c.

Known gaps: statements fire triggers FOR EACH STATEMENT that are ENABLE REPLICA or ALWAYS, the apply worker does not.
A new value for a column GENERATED ALWAYS AS IDENTITY is a DELETE and an INSERT, as SQL has no update for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from headwater.apply.incoming.messages import BINARY, NULL, UNCHANGED, SentTuple
from headwater.apply.target.connection import Bound, Statement
from headwater.apply.target.lengths import check
from headwater.apply.target.local_rows import record_if, record_of
from headwater.apply.target.lookup import Lookup, NoLookup
from headwater.apply.target.relations import PARTITIONED, MappedRelation
from headwater.errors import TargetError
from headwater.receiver.replication_connection import quoted

Values = tuple[bytes | None, ...]


@dataclass(frozen=True, slots=True)
class _Plan:
    """A statement, with the way to its values.

    Attributes:
        statement: it; formats: of its values.
        sets, keys: take values of the new tuple and of the one that is looked up.
        columns: the place of the column that each value is of.
    """

    statement: Statement
    formats: tuple[int, ...]
    sets: Callable[[Values], Values]
    keys: Callable[[Values], Values]
    columns: tuple[int, ...]


def insert(mapped: MappedRelation, new: SentTuple) -> Bound:
    """Return the statement of an insert.

    Raises:
        TargetError: the tuple has fewer columns than the relation.
    """
    plan = mapped.plans.get(new.kinds)
    if plan is None:
        plan = mapped.plans[new.kinds] = _insert_plan(mapped, new)
    return Bound(plan.statement, new.values, plan.formats)


def update(mapped: MappedRelation, old: SentTuple | None, new: SentTuple) -> Bound:
    """Return the statement of an update; what is unchanged is left as it is.

    Raises:
        TargetError: rows of the table cannot be looked up, or a tuple has too few columns.
    """
    search = new if old is None else old
    lookup = _lookup(mapped)
    moved = _moved(mapped, lookup, old, new) if mapped.always else ()
    key = (new.kinds, search.kinds, moved)
    plan = mapped.plans.get(key)
    if plan is None:
        plan = mapped.plans[key] = _update_plan(mapped, lookup, search, new, moved)
    return Bound(plan.statement, plan.sets(new.values) + plan.keys(search.values), plan.formats)


def delete(mapped: MappedRelation, old: SentTuple) -> Bound:
    """Return the statement of a delete.

    Raises:
        TargetError: rows of the table cannot be looked up, or the tuple has too few columns.
    """
    key = ("delete", old.kinds)
    plan = mapped.plans.get(key)
    if plan is None:
        plan = mapped.plans[key] = _delete_plan(mapped, _lookup(mapped), old)
    return Bound(plan.statement, plan.keys(old.values), plan.formats)


def checks(mapped: MappedRelation, search: SentTuple) -> list[Bound]:
    """Return what is to be sent before a row is looked up: it fails if the row has a value that is too long.

    Or if there is no partition for it (22012).

    Raises:
        TargetError: the tuple has fewer columns than the relation.
    """
    bounds = []
    if mapped.lengths:
        bounds.append(_planned(mapped, search, "lengths", _length_plan))
    if mapped.routing is not None:
        bounds.append(_planned(mapped, search, "route", _route_plan))
    return bounds


def length_checks(mapped: MappedRelation, row: SentTuple) -> list[tuple[int, Bound]]:
    """Return for each column whose value may be too long its place, and what fails if it is."""
    return [
        (
            length.sent,
            Bound(check([length], mapped.types), (row.values[length.sent],), _formats(row.kinds[length.sent :][:1])),
        )
        for length in mapped.lengths
    ]


def choice(mapped: MappedRelation, row: SentTuple) -> Bound | None:
    """Return the statement that gives the number of a row's partition; None if it depends on what is not sent."""
    routing = mapped.routing
    if routing is None or any(row.kinds[at] == UNCHANGED for at in routing.places):
        return None
    return _planned(mapped, row, "choice", _choice_plan)


def probe(mapped: MappedRelation, search: SentTuple) -> Bound:
    """Return an insert of the row that is looked up: the server says by it why no partition is there."""
    places = {column.name: at for at, column in enumerate(mapped.sent.columns)}
    sent = [name for name in mapped.stored if name in places]
    values = [f"${sent.index(name) + 1}" if name in places else "NULL" for name in mapped.stored]
    names = ", ".join(map(quoted, mapped.stored))
    sql = f"INSERT INTO {_table(mapped)} ({names}) OVERRIDING SYSTEM VALUE VALUES ({', '.join(values)})"
    chosen = [places[name] for name in sent]
    statement = Statement(sql, tuple(mapped.types[at] for at in chosen))
    formats = tuple(int(search.kinds[at] == BINARY) for at in chosen)
    return Bound(statement, tuple(search.values[at] for at in chosen), formats)


def find(mapped: MappedRelation, search: SentTuple, *, has_times: bool, differs: str | None = None) -> Bound:
    """Return the statement that locks the row that is looked up, and returns it with who has written it.

    Args:
        mapped: the table; search: what is looked for; has_times: the server tracks commit times.
        differs: condition on its commit ``s``: otherwise a NULL is returned; None for no condition.

    Raises:
        TargetError: see :func:`delete`.
    """
    key = ("find", search.kinds, has_times, differs)
    plan = mapped.plans.get(key)
    if plan is None:
        plan = mapped.plans[key] = _find_plan(mapped, _lookup(mapped), search, has_times, differs)
    return Bound(plan.statement, plan.keys(search.values), plan.formats)


def truncate(relations: Sequence[MappedRelation], restart_seqs: bool) -> Bound:
    """Return the statement that empties tables together."""
    names = ", ".join(map(_own, relations))
    return Bound(Statement(f"TRUNCATE {names} {'RESTART' if restart_seqs else 'CONTINUE'} IDENTITY RESTRICT"))


def guard(mapped: MappedRelation) -> Bound:
    """Return a statement that fails (22012) if the table is no longer what it was when it was mapped."""
    return mapped.guard


def column_of(mapped: MappedRelation, bound: Bound, parameter: int) -> int | None:
    """Return the place of the sent column that a parameter of a statement is for.

    Args:
        mapped: the relation; bound: a statement of it; parameter: from 1 on.
    """
    for plan in filter(_is_plan, mapped.plans.values()):
        if plan.statement is bound.statement and parameter <= len(plan.columns):
            return int(plan.columns[parameter - 1])
    return None


def _is_plan(value: object) -> bool:
    return isinstance(value, _Plan)


def _table(mapped: MappedRelation) -> str:
    return f"{quoted(mapped.namespace)}.{quoted(mapped.name)}"


def _own(mapped: MappedRelation) -> str:
    return _table(mapped) if mapped.kind == PARTITIONED else f"ONLY {_table(mapped)}"


def _lookup(mapped: MappedRelation) -> Lookup:
    if isinstance(mapped.lookup, NoLookup):
        raise mapped.lookup.error()
    return mapped.lookup


def _checked(mapped: MappedRelation, *tuples: SentTuple) -> None:
    for row in tuples:
        if len(row.kinds) < len(mapped.types):
            raise TargetError(
                f"logical replication column {len(row.kinds) + 1} not found in tuple: "
                f"only {len(row.kinds)} column(s) received",
                sqlstate="08P01",
            )


def _moved(mapped: MappedRelation, lookup: Lookup, old: SentTuple | None, new: SentTuple) -> tuple[int, ...]:
    """Return the places of identity columns that may get another value than the row has."""
    by = {column.sent for column in lookup.columns}
    return tuple(
        at
        for at in mapped.always
        if new.kinds[at] != UNCHANGED
        and (at not in by or (old is not None and (old.kinds[at], old.values[at]) != (new.kinds[at], new.values[at])))
    )


def _insert_plan(mapped: MappedRelation, new: SentTuple) -> _Plan:
    _checked(mapped, new)
    count = len(mapped.types)
    names = ", ".join(quoted(column.name) for column in mapped.sent.columns)
    values = ", ".join(f"${number}" for number in range(1, count + 1))
    overriding = "OVERRIDING SYSTEM VALUE " if mapped.always else ""
    sql = f"INSERT INTO {_table(mapped)} ({names}) {overriding}VALUES ({values})"
    if not count:
        sql = f"INSERT INTO {_table(mapped)} DEFAULT VALUES"
    # The same text is the same statement, whichever values are NULL.
    statement = mapped.plans.setdefault("insert", _Plan(Statement(sql, mapped.types), (), _none, _none, ())).statement
    return _Plan(statement, _formats(new.kinds), _none, _none, tuple(range(count)))


def _planned(
    mapped: MappedRelation, row: SentTuple, name: str, plan_of: Callable[[MappedRelation, SentTuple], _Plan]
) -> Bound:
    """Return a check that depends on the forms of values alone."""
    plan = mapped.plans.get((name, row.kinds))
    if plan is None:
        plan = mapped.plans[name, row.kinds] = plan_of(mapped, row)
    return Bound(plan.statement, plan.keys(row.values), plan.formats)


def _length_plan(mapped: MappedRelation, search: SentTuple) -> _Plan:
    places = tuple(length.sent for length in mapped.lengths)
    return _check_plan(mapped, search, "lengths", places, lambda: check(mapped.lengths, mapped.types))


def _route_plan(mapped: MappedRelation, search: SentTuple) -> _Plan:
    routing = mapped.routing
    assert routing is not None
    return _check_plan(mapped, search, "route", routing.places, lambda: routing.check(mapped.types))


def _choice_plan(mapped: MappedRelation, row: SentTuple) -> _Plan:
    routing = mapped.routing
    assert routing is not None
    return _check_plan(mapped, row, "choice", routing.places, lambda: routing.choice(mapped.types))


def _check_plan(
    mapped: MappedRelation, row: SentTuple, name: str, places: tuple[int, ...], make: Callable[[], Statement]
) -> _Plan:
    _checked(mapped, row)
    # The same text is the same statement, whichever values are NULL.
    statement = mapped.plans.setdefault(name, _Plan(make(), (), _none, _none, places)).statement
    return _Plan(statement, _formats(bytes(row.kinds[at] for at in places)), _none, _getter(places), places)


def _update_plan(
    mapped: MappedRelation, lookup: Lookup, search: SentTuple, new: SentTuple, moved: tuple[int, ...]
) -> _Plan:
    _checked(mapped, search, new)
    sets = [at for at, kind in enumerate(new.kinds[: len(mapped.types)]) if kind != UNCHANGED]
    has_value = _has_value(search)
    keys = lookup.parameters(has_value)
    fixed = [at for at in mapped.always if at in sets and at not in moved]
    sets = [at for at in sets if at not in fixed]
    where = _within(mapped, lookup.where(has_value, len(sets) + 1))
    names = [quoted(column.name) for column in mapped.sent.columns]
    numbers = {at: f"${number}" for number, at in enumerate(sets, 1)}
    texts = [f"{names[at]} = {numbers[at]}" for at in sets if at not in moved]
    if texts and not moved and mapped.kind == PARTITIONED and mapped.returned_if is not None:
        sql = _updating_tree(mapped, mapped.returned_if, where, texts)
    elif moved:
        sql = _moving(mapped, lookup, where, texts, {at: (names[at], numbers[at]) for at in sets}, moved)
    else:
        sql = _updating(mapped, lookup, where, texts)
        sql += _returning(mapped) if texts else ""
    types = tuple(mapped.types[at] for at in [*sets, *keys])
    formats = _formats(bytes([*(new.kinds[at] for at in sets), *(search.kinds[at] for at in keys)]))
    return _Plan(Statement(sql, types), formats, _getter(sets), _getter(keys), (*sets, *keys))


def _delete_plan(mapped: MappedRelation, lookup: Lookup, old: SentTuple) -> _Plan:
    _checked(mapped, old)
    has_value = _has_value(old)
    keys = lookup.parameters(has_value)
    where = _within(mapped, lookup.where(has_value, 1))
    sql = f"DELETE FROM {_own(mapped)} AS target {_row(mapped, lookup, where, 'USING')}{_returning(mapped)}"
    formats = _formats(bytes(old.kinds[at] for at in keys))
    return _Plan(Statement(sql, tuple(mapped.types[at] for at in keys)), formats, _none, _getter(keys), tuple(keys))


def _find_plan(
    mapped: MappedRelation, lookup: Lookup, search: SentTuple, has_times: bool, differs: str | None
) -> _Plan:
    _checked(mapped, search)
    has_value = _has_value(search)
    keys = lookup.parameters(has_value)
    record = record_of("target", has_times=has_times) if differs is None else record_if("target", differs)
    where = _within(mapped, lookup.where(has_value, 1))
    sql = f"SELECT {record} FROM {_own(mapped)} AS target WHERE {where} LIMIT 1 FOR UPDATE"
    formats = _formats(bytes(search.kinds[at] for at in keys))
    return _Plan(Statement(sql, tuple(mapped.types[at] for at in keys)), formats, _none, _getter(keys), tuple(keys))


def _within(mapped: MappedRelation, where: str) -> str:
    return f"{where} AND {mapped.within}" if mapped.within else where


def _row(mapped: MappedRelation, lookup: Lookup, where: str, joined: str, also: str = "") -> str:
    """Write the rest of a statement that is for the row that is looked up."""
    if lookup.is_key:
        return f"WHERE {where}{also}"
    first = f"FROM {_own(mapped)} WHERE {where} LIMIT 1 FOR UPDATE"
    if mapped.kind == PARTITIONED:
        places = f"(SELECT tableoid AS place, ctid AS line {first}) found"
        limit = f" AND {mapped.within.replace('tableoid', 'target.tableoid', 1)}" if mapped.within else ""
        return f"{joined} {places} WHERE target.tableoid = found.place AND target.ctid = found.line{limit}{also}"
    return f"WHERE target.ctid = (SELECT ctid {first}){also}"


def _updating(mapped: MappedRelation, lookup: Lookup, where: str, texts: Sequence[str], also: str = "") -> str:
    row = _row(mapped, lookup, where, "FROM", also)
    if texts:
        return f"UPDATE {_own(mapped)} AS target SET {', '.join(texts)} {row}"
    # Nothing is sent that could be set: the row is locked, and counted.
    looked_at = "1" if mapped.returned_if is None or also else record_if("target", mapped.returned_if)
    if lookup.is_key or mapped.kind != PARTITIONED:
        return f"SELECT {looked_at} FROM {_own(mapped)} AS target {row} FOR UPDATE"
    return f"SELECT {looked_at} FROM {_own(mapped)} AS target WHERE {where}{also} LIMIT 1 FOR UPDATE"


def _updating_tree(mapped: MappedRelation, differs: str, where: str, texts: Sequence[str]) -> str:
    """Write an update of a row of partitions that returns the same as :func:`_returning`.

    A row that moves to another partition has no xmin there any more, so that is looked at where the row is found.
    """
    looked_up = (
        f"SELECT tableoid AS place, ctid AS line, {record_if('tree', differs)} AS record FROM {_own(mapped)} AS tree"
    )
    limit = f" AND {mapped.within.replace('tableoid', 'target.tableoid', 1)}" if mapped.within else ""
    return (
        f"UPDATE {_own(mapped)} AS target SET {', '.join(texts)} FROM "
        f"({looked_up} WHERE {where} LIMIT 1 FOR UPDATE) found WHERE target.tableoid = found.place "
        f"AND target.ctid = found.line{limit} RETURNING found.record"
    )


def _returning(mapped: MappedRelation) -> str:
    """Write what an update or delete returns of the row before, if somebody else has written that."""
    return "" if mapped.returned_if is None else f" RETURNING {record_if('old', mapped.returned_if)}"


def _moving(
    mapped: MappedRelation,
    lookup: Lookup,
    where: str,
    texts: Sequence[str],
    values: dict[int, tuple[str, str]],
    moved: Sequence[int],
) -> str:
    """Write an update of a row whose identity columns may change: it is then deleted and inserted anew."""
    same = " AND ".join(f"target.{values[at][0]} OPERATOR(pg_catalog.=) {values[at][1]}" for at in moved)
    new = dict(values.values())
    columns = [quoted(name) for name in mapped.stored]
    listed = ", ".join(columns)
    row = _row(mapped, lookup, where, "USING", f" AND NOT ({same})")
    updated = _updating(mapped, lookup, where, texts, f" AND {same}")
    if texts:
        updated += " RETURNING 1"
    selected = ", ".join(new.get(column, f"gone.{column}") for column in columns)
    returned = ", ".join(f"target.{column}" for column in columns)
    return (
        f"WITH changed AS ({updated}), gone AS (DELETE FROM {_own(mapped)} AS target {row} RETURNING {returned}), "
        f"made AS (INSERT INTO {_table(mapped)} ({listed}) OVERRIDING SYSTEM VALUE SELECT {selected} FROM gone "
        "RETURNING 1) SELECT 1 FROM changed UNION ALL SELECT 1 FROM made"
    )


def _has_value(row: SentTuple) -> Callable[[int], bool]:
    # What is unchanged is not sent: the apply worker takes it for NULL here.
    return lambda at: row.kinds[at] not in (NULL, UNCHANGED)


def _getter(places: Sequence[int]) -> Callable[[Values], Values]:
    if not places:
        return _none
    if len(places) == 1:
        (at,) = places
        return lambda values: (values[at],)
    get: Any = itemgetter(*places)
    return get  # type: ignore[no-any-return]


def _none(_values: Values) -> Values:
    return ()


def _formats(kinds: bytes) -> tuple[int, ...]:
    return tuple(int(kind == BINARY) for kind in kinds) if BINARY in kinds else ()
