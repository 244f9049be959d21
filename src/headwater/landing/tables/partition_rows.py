"""Rows that come to a mirror, or leave it, with their relation: a partition that is attached, detached or dropped.

- A partition that is detached or dropped takes its rows with it, also one that its own transaction has made.
- One that is attached brings some, unless it and what is below it are new and have had no changes, chosen or not.
- Where both are mirrored the rows go from one mirror to the other (:mod:`headwater.landing.tables.attached_rows`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from headwater.catalog.relation import RelationSchema
from headwater.errors import LakeError
from headwater.lakes.paused import RELOADED_OR_CHANGES
from headwater.landing.tables.attached_rows import Arrival, Departure
from headwater.landing.tables.table_spans import Step, TableSpans, steps_of


def gone(table: TableSpans) -> Iterator[Departure]:
    """Find the relations that take their rows with them.

    Raises:
        LakeError: it is not known which rows leave, or rows that came are not available.
    """
    if table.is_dropped:
        yield from _gone_before_drop(table)
        return
    _require_all_rows(table)
    # Partition 20 of table 10, where ``topmost`` says whose its rows are, and a table 30 that becomes one:
    #
    #     commit   relation   topmost before -> after   what follows for the mirror of 10
    #        100         20       10 -> 20  DETACH      rows of 20 leave: Departure(20, 100)
    #        200         30       30 -> 10  ATTACH      rows of 30 come: see `coming`
    #        300         20       20 -> gone  DROP      nothing: they have left already
    for oid, spans in table.own.items():
        for step in steps_of(oid, spans):
            _require_logged(table, step)
            if table.is_ours(step.before) and not table.is_ours(step.after):
                _require_known(table, step)
                yield table.departure(oid, step.lsn)
        _require_steady(table, oid)
    yield from _gone_at_once(table, table.passing)


def _gone_before_drop(table: TableSpans) -> Iterator[Departure]:
    """Find what has left a table that is dropped in the end: itself, where it became a partition of another one."""
    oid = table.last.oid
    for step in steps_of(oid, table.own.get(oid, ())):
        if table.is_ours(step.before) and step.after is not None and not table.is_ours(step.after):
            yield table.departure(oid, step.lsn)
    yield from _gone_at_once(table, {oid} & table.passing.keys())


def _gone_at_once(table: TableSpans, oids: Iterable[int]) -> Iterator[Departure]:
    """Find what has left with the transaction that it came with."""
    for oid in oids:
        # A partition as its transaction ends leaves its own mirror once: later it has no changes of its own.
        spans = table.passing[oid][1:2] if oid == table.last.oid else table.passing[oid][1:]
        yield from (table.departure(oid, lsn) for lsn, _ in spans)


def detached(table: TableSpans, departures: Iterable[Departure]) -> frozenset[int]:
    """Find the relations that have left and are there still, with their rows in no mirror; gives OIDs."""
    return frozenset(gone.relation for gone in departures if _is_left(table, gone.relation, gone.lsn))


def _is_left(table: TableSpans, oid: int, lsn: int) -> bool:
    if table.catalog.spans[oid][-1][1] is None:
        return False
    after = table.catalog.relation(oid, lsn + 1)
    root = None if after is None else table.catalog.relation(after.topmost, lsn + 1)
    return root is None or not table.tables.wants(root)


def coming(table: TableSpans) -> Iterator[Arrival]:
    """Find the relations that bring rows with them.

    Raises:
        LakeError: these are not known.
    """
    # Who is dropped in the end keeps its mirror as it is: rows that came are not looked for.
    for step in table.steps() if not table.is_dropped else ():
        if step.after is not None and table.is_ours(step.after) and not table.is_ours(step.before):
            if step.oid == table.last.oid:
                yield from _come_back(table, step)
            elif table.tables.wants(step.after):  # else an excluded partition, whose rows are none of the table's
                yield from _attached(table, step, step.after)


def _come_back(table: TableSpans, step: Step) -> Iterator[Arrival]:
    """Find what the table has got as a partition of another one, until a commit."""
    if step.before is None:
        return
    root = table.catalog.relation(step.before.topmost, step.lsn)
    was_ours = table.was_ours(table.last.oid, step.lsn)
    if root is not None and table.tables.wants(root) and not was_ours:
        yield Arrival.of(root, step.before, table.departure(step.oid, step.lsn))
    elif table.versions or was_ours:
        raise left_with_rows(table.last, step.lsn)


def _attached(table: TableSpans, step: Step, after: RelationSchema) -> Iterator[Arrival]:
    """Find what a relation brings with it that is a partition from a commit on."""
    oid, lsn = step.oid, step.lsn
    brought = list(_brought(table, step, after))
    # What the window has made, and nobody has changed, has no rows: most partitions are attached so.
    if not any(table.was_apart(other, lsn) or not _is_new(table, other, lsn) for other in brought):
        return
    root, is_mirrored = table.catalog.relation(table.last.oid, lsn + 1), table.was_apart(oid, lsn)
    if step.before is not None:
        is_mirrored = step.before.topmost == oid and table.tables.wants(step.before)
    # Rows go from mirror to mirror as a whole, and once in a window.
    if after.kind == "p" or not is_mirrored or root is None or table.was_ours(oid, lsn):
        raise _unknown(table, after, brought, lsn)
    yield Arrival.of(after, root, table.departure(oid, lsn))


def _brought(table: TableSpans, step: Step, after: RelationSchema) -> Iterator[int]:
    """Find what is attached with a relation: with one that has partitions itself, these; gives OIDs."""
    yield step.oid
    for oid in sorted(table.catalog.spans.keys() | table.apart) if after.kind == "p" else ():
        now, before = (table.catalog.relation(oid, lsn) for lsn in (step.lsn + 1, step.lsn))
        if table.is_ours(now) and not table.is_ours(before):
            yield oid


def _is_new(table: TableSpans, oid: int, lsn: int) -> bool:
    """Tell whether a relation was made in the window, was not ours before, and had no changes that nobody wanted."""
    earlier = [schema for at, schema in table.catalog.spans.get(oid, ()) if at < lsn]
    is_new = bool(earlier) and earlier[0] is None and not any(map(table.is_ours, earlier))
    return is_new and not table.catalog.unwanted.has_before(oid, lsn)


def _unknown(table: TableSpans, after: RelationSchema, brought: Iterable[int], lsn: int) -> LakeError:
    """Return the error of rows that come and are not known."""
    if any(table.catalog.unwanted.has_before(oid, lsn) for oid in brought):
        why = "had changes before it was attached, and --tables did not choose it then: its rows are not known"
        return table.refusal(after, why, lsn, "choose such tables, too (--tables), and land this one anew")
    return table.refusal(after, "was there before it was attached: its rows are not known to be none", lsn)


def _require_known(table: TableSpans, step: Step) -> None:
    """See that it is known which rows leave with a relation."""
    before = step.before
    if before is None or before.kind != "p" or step.oid == table.last.oid:
        return
    # Dropped, all of its partitions go and each says so itself; detached alone, they stay its own and say nothing.
    if any(lsn == step.lsn and schema is not None for lsn, schema in table.catalog.spans[step.oid]):
        raise table.refusal(before, "has partitions and was detached: which rows went with it is not known", step.lsn)


def _require_all_rows(table: TableSpans) -> None:
    """See that no transaction had the table as a partition, put rows into it, and detached it again."""
    oid = table.last.oid
    seen = {schema.topmost for _, schema in table.catalog.spans.get(oid, ()) if schema is not None}
    if table.tables.roots.get(oid, frozenset()) - seen - {oid}:
        raise left_with_rows(table.last)


def _require_steady(table: TableSpans, oid: int) -> None:
    """See that a partition has had no changes of its own, detached and attached again by one transaction."""
    spans = table.own[oid]
    lsn, last = spans[-1]
    if last is not None and oid in table.apart and all(table.is_ours(schema) for _, schema in spans):
        raise table.refusal(last, "was changed while a transaction had it detached", lsn)


def _require_logged(table: TableSpans, step: Step) -> None:
    """See that a relation is not set unlogged."""
    before, after = step.before, step.after
    if before is not None and after is not None and before.persistence == "p" and after.persistence == "u":
        raise table.refusal(after, "was set unlogged: its changes are not in the WAL", step.lsn)


def left_with_rows(table: RelationSchema, lsn: int | None = None) -> LakeError:
    """Return the error of a table that was a partition, and has rows from then that its own mirror does not get."""
    return LakeError(
        f'table "{table.namespace}.{table.name}" was a partition and has rows from then, which its mirror has not',
        lsn=lsn,
        hint=f"{RELOADED_OR_CHANGES}, or leave it out (--exclude)",
    )
