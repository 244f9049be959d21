"""Conditions of rows that come in, computed as the server computes row filters of publications.

In: a condition in SQL, and tuples as they are sent. Out: which of them meet it. The condition is analyzed and computed
by :mod:`headwater.filters`, on values that are read from their text. What that cannot compute exactly is refused
before any row: functions and types that are not known there, and columns of types whose text is not read here.

PostgreSQL: replication/pgoutput/pgoutput.c (pgoutput_row_filter), commands/publicationcmds.c.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headwater.apply.incoming.map_rules import RowCondition, TableName
from headwater.apply.incoming.messages import NULL, UNCHANGED, SentTuple
from headwater.apply.mapped.source_facts import SourceFacts
from headwater.catalog.relation import Column, RowFilters, TypeInfo
from headwater.errors import (
    CatalogError,
    ExpressionError,
    HeadwaterError,
    PluginError,
    RowFilterError,
    UnsupportedFilterError,
    UsageError,
)
from headwater.filters import columns as raw
from headwater.filters import literals
from headwater.filters.analysis import analyzed
from headwater.filters.changes import compiled
from headwater.filters.columns import RawColumn
from headwater.filters.filter import Filter
from headwater.filters.parts import type_info
from headwater.pg.functions import built_in_types
from headwater.remote_slots.announced_relations import SentColumn, SentRelation

_INFINITE_DAYS = {"infinity": (1 << 31) - 1, "-infinity": -(1 << 31)}
_INFINITE_TIMES = {"infinity": (1 << 63) - 1, "-infinity": -(1 << 63)}
_FLOATS = {"NaN", "Infinity", "-Infinity"}
_TEXTS = (literals.TEXT, literals.VARCHAR, literals.BPCHAR)
READABLE = frozenset(
    {
        literals.BOOL,
        literals.INT2,
        literals.INT4,
        literals.INT8,
        literals.NUMERIC,
        literals.FLOAT8,
        *_TEXTS,
        literals.DATE,
        literals.TIMESTAMP,
        literals.TIMESTAMPTZ,
        literals.UUID_TYPE,
    }
)
"""OIDs of the types whose text is read here."""
_OLD_ROW = "old rows do not have it: REPLICA IDENTITY FULL sends them whole, or publish inserts alone"


class RowError(Exception):
    """A row on which a condition has no verdict.

    Attributes:
        row: its number among those that were judged; error: why.
    """

    def __init__(self, row: int, error: HeadwaterError) -> None:
        super().__init__(row, error)
        self.row, self.error = row, error


@dataclass(frozen=True)
class RowFilter:
    """The condition of a relation.

    Attributes:
        rule: it; filter: computes it; types: OIDs of the columns by their numbers, which are places plus one.
        encoding: of the source's database.
    """

    rule: RowCondition
    filter: Filter
    types: Mapping[int, int]
    encoding: str

    def verdicts(self, rows: Sequence[SentTuple], older: Sequence[SentTuple | None] | None = None) -> NDArray[np.bool_]:
        """Tell which rows meet it.

        Args:
            rows: them; older: old rows that have the values which were not written again.

        Returns:
            bool[n].

        Raises:
            RowError: a row has a value that cannot be read here, or the condition fails for it as for the server.
        """
        columns = {number: self._column(number, rows, older) for number in self.filter.columns}
        try:
            return self.filter.verdict(columns, len(rows))
        except ExpressionError as error:
            failure = self.filter.first_error(columns, len(rows))
            raise RowError(*(failure or (0, error))) from None
        except RowFilterError as error:
            raise RowError(self._first_refused(columns, len(rows)), error) from None

    def _first_refused(self, columns: Mapping[int, RawColumn], count: int) -> int:
        """Return the first row with which there is no verdict."""
        low, high = 0, count
        while high - low > 1:
            middle = (low + high) // 2
            part = {number: _part(column, low, middle) for number, column in columns.items()}
            try:
                self.filter.verdict(part, middle - low)
                low = middle
            except RowFilterError:
                high = middle
        return low

    def _column(self, number: int, rows: Sequence[SentTuple], older: Sequence[SentTuple | None] | None) -> RawColumn:
        place, type = number - 1, self.types[number]
        payloads: list[bytes] = []
        kinds = np.empty(len(rows), np.uint8)
        for at, row in enumerate(rows):
            if row.kinds[place] == UNCHANGED and older is not None and (old := older[at]) is not None:
                row = old
            kind = row.kinds[place]
            kinds[at] = {NULL: raw.NULL, UNCHANGED: raw.UNCHANGED}.get(kind, raw.VALUE)
            payloads.append(self._payload(row.values[place], type, at) if kind not in (NULL, UNCHANGED) else b"")
        lengths = np.array([len(payload) for payload in payloads], np.int32)
        starts = np.cumsum(lengths, dtype=np.int64) - lengths
        return RawColumn(kinds, starts, lengths, np.frombuffer(b"".join(payloads) or b"\0", np.uint8))

    def _payload(self, value: bytes | None, type: int, row: int) -> bytes:
        assert value is not None
        try:
            return _payload(value.decode(), type, self.encoding)
        except HeadwaterError as error:
            raise RowError(row, error) from None


def _part(column: RawColumn, first: int, last: int) -> RawColumn:
    chosen = slice(first, last)
    return RawColumn(column.kind[chosen], column.start[chosen], column.length[chosen], column.data)


def _payload(text: str, type: int, encoding: str) -> bytes:
    """Read a value as the source prints it into what is stored."""
    if type == literals.FLOAT8 and text in _FLOATS:
        return struct.pack("<d", float(text))
    if type == literals.DATE and text in _INFINITE_DAYS:
        return _INFINITE_DAYS[text].to_bytes(4, "little", signed=True)
    if type in (literals.TIMESTAMP, literals.TIMESTAMPTZ) and text in _INFINITE_TIMES:
        return _INFINITE_TIMES[text].to_bytes(8, "little", signed=True)
    return literals.literal(text, type, encoding)


def row_filter(rule: RowCondition, sent: SentRelation, facts: SourceFacts) -> RowFilter:
    """Make the filter of a relation.

    Args:
        rule: the condition; sent: the relation as the source has it; facts: of the source.

    Raises:
        UsageError: it is none, cannot be computed exactly here, or looks at what old rows do not have.
    """
    try:
        program = _compiled(rule, sent, facts)
    except (PluginError, RowFilterError, CatalogError) as error:
        raise UsageError(f"{rule.text}: {error.message}", hint=error.hint) from None
    for number in sorted(program.columns):
        _check_column(rule, sent, sent.columns[number - 1], facts)
    types = {number: sent.columns[number - 1].type_oid for number in program.columns}
    return RowFilter(rule, program, types, facts.encoding)


def _compiled(rule: RowCondition, sent: SentRelation, facts: SourceFacts) -> Filter:
    major = facts.version.major
    collations = facts.collations.get(TableName(sent.namespace, sent.name), {})
    columns = tuple(
        _column(number, column, collations.get(column.name, 0), major) for number, column in enumerate(sent.columns, 1)
    )
    tree = analyzed(_parsed(rule), columns, major, facts.encoding)
    filters = compiled(RowFilters((tree,), (), (), columns, facts.locale), facts.version, facts.encoding)
    filters.check()
    assert filters.insert is not None
    for number in filters.insert.columns:
        column = sent.columns[number - 1]
        if column.type_oid in _TEXTS and column.name not in collations:
            raise UnsupportedFilterError(f'the collation of column "{column.name}" is not known')
    return filters.insert


def _check_column(rule: RowCondition, sent: SentRelation, column: SentColumn, facts: SourceFacts) -> None:
    table = f"{sent.namespace}.{sent.name}"
    if column.type_oid not in READABLE:
        name = built_in_types(facts.version.major)[column.type_oid].name
        raise UsageError(f'{rule.text}: values of column "{column.name}", of type {name}, are not read here')
    if facts.publishes_old_rows and not (column.is_key or sent.replica_identity == "f"):
        raise UsageError(
            f'{rule.text}: column "{column.name}" used in the WHERE expression is not part of the replica identity of '
            f'table "{table}"',
            hint=_OLD_ROW,
        )


def _column(number: int, sent: SentColumn, collation: int, major: int) -> Column:
    types = built_in_types(major)
    info = type_info(sent.type_oid, major) if sent.type_oid in types else _foreign_type(sent.type_oid)
    return Column(number, sent.name, info, sent.typmod, info.typlen, info.typalign, False, collation=collation)


def _foreign_type(oid: int) -> TypeInfo:
    return TypeInfo(oid, f"with OID {oid}", "", f"with OID {oid}", "b", -1, "i", False)


def _parsed(rule: RowCondition) -> Mapping[str, object]:
    """Parse a condition.

    Raises:
        UsageError: it is none, or the library that has PostgreSQL's grammar is missing.
    """
    parse = _grammar(rule)
    fields: object = parse(f"CREATE PUBLICATION p FOR TABLE t WHERE ({rule.expression}\n)")
    match fields:
        case [{"stmt": {"CreatePublicationStmt": {"pubobjects": [{"PublicationObjSpec": spec}], **more}}}]:
            if more.keys() == {"pubname"} and "whereClause" in spec.get("pubtable", {}):
                return dict(spec["pubtable"]["whereClause"])
    raise UsageError(f"{rule.text}: that is not a condition alone")


def _grammar(rule: RowCondition) -> Callable[[str], object]:
    try:
        import pgparse  # who gives no condition need not have it
    except ImportError:
        hint = "run: pip install 'headwater[publish]'"
        raise UsageError(f"{rule.text} needs pgparse", hint=hint) from None

    def parse(text: str) -> object:
        try:
            return pgparse.parse(text)
        except pgparse.PGQueryError as error:
            raise UsageError(f"{rule.text}: {error}") from None

    return parse
