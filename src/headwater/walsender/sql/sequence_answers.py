"""The query of a subscriber of 19 for the values of sequences, answered from the catalog and from who knows the values.

In: the text. Out: the result; None for any other query. Rows come in the order in which the sequences are named.

PostgreSQL: replication/logical/sequencesync.c (copy_sequences), commands/sequence.c (pg_get_sequence_data).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum, auto

from headwater.catalog.generic_row import NamedRow
from headwater.catalog.store.historic_catalog import HistoricCatalog
from headwater.errors import SessionError
from headwater.existing.sequence_values import SequenceValue
from headwater.pg.lsn import lsn_text
from headwater.pg.sqlstates import FEATURE_NOT_SUPPORTED
from headwater.pg.version import Version
from headwater.protocol.backend_messages import Column, Value
from headwater.walsender.sql.results import (
    Result,
    Row,
    bool_column,
    bool_value,
    int4_column,
    int8_column,
    lsn_column,
    number_value,
    oid_column,
    selected,
    text_value,
)
from headwater.walsender.sql.shapes import Shape, first_match
from headwater.walsender.sql.tokens import tokens_of


class _Query(Enum):
    VALUES = auto()


def _has_sequences(version: Version) -> bool:
    return version.publishes_sequences


_SHAPE = Shape(
    _Query.VALUES,
    """
    SELECT s.seqidx, has_sequence_privilege(c.oid, 'SELECT'), ps.*,
    seq.seqtypid, seq.seqstart, seq.seqincrement, seq.seqmin, seq.seqmax, seq.seqcycle
    FROM (VALUES {triples sequences}) AS s (schname, seqname, seqidx)
    JOIN pg_namespace n ON n.nspname = s.schname
    JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = s.seqname
    JOIN pg_sequence seq ON seq.seqrelid = c.oid
    JOIN LATERAL pg_get_sequence_data(seq.seqrelid) AS ps ON true
    """,
    _has_sequences,
)
_NUMBERS = "seqstart", "seqincrement", "seqmin", "seqmax"


@dataclass(frozen=True)
class AskedSequence:
    """A sequence that is asked for.

    Attributes:
        number: that the client counts it by.
        row: of ``pg_sequence``.
    """

    number: str
    row: NamedRow

    @property
    def oid(self) -> int:
        """Its OID."""
        return self.row.oid("seqrelid")


@dataclass(frozen=True)
class SequenceQuery:
    """A query for values of sequences.

    Attributes:
        triples: schemas, names, and numbers that the client counts them by.
        version: that was announced.
    """

    triples: tuple[str, ...]
    version: Version

    @staticmethod
    def parse(text: str, version: Version) -> SequenceQuery | None:
        """Read a query; None if it is another one, or the version would not understand it."""
        tokens = tokens_of(text)
        match = None if tokens is None else first_match((_SHAPE,), tokens, version)
        return None if match is None else SequenceQuery(match[1].texts("sequences"), version)

    def asked(self, catalog: HistoricCatalog) -> list[AskedSequence]:
        """Find the sequences; those that are not there are passed over.

        Raises:
            SessionError: the catalog was taken without what sequences are.
        """
        if not catalog.follows("pg_sequence"):
            raise SessionError(
                "sequences are not known: the state that this begins with was made by an earlier release",
                sqlstate=FEATURE_NOT_SUPPORTED,
            )
        return list(self._existing(catalog))

    def _existing(self, catalog: HistoricCatalog) -> Iterator[AskedSequence]:
        for schema, name, number in zip(*[iter(self.triples)] * 3, strict=True):
            oid = catalog.relation_named(schema, name)
            rows = [] if oid is None else catalog.named_rows("pg_sequence", "seqrelid", oid)
            yield from (AskedSequence(number, row) for row in rows)

    def result(
        self,
        catalog: HistoricCatalog,
        asked: list[AskedSequence],
        values: Mapping[int, SequenceValue],
        *,
        may_read: bool,
    ) -> Result:
        """Return the answer.

        Args:
            catalog: that has them.
            asked: the sequences.
            values: by OID; a sequence without one has NULL.
            may_read: whether the client may see them.
        """
        rows = [self._row(sequence, values.get(sequence.oid) if may_read else None, may_read) for sequence in asked]
        return selected(_columns(catalog), rows)

    def _row(self, asked: AskedSequence, value: SequenceValue | None, may_read: bool) -> Row:
        data: tuple[Value, ...] = (None, None, None)
        if value is not None:
            page_lsn = text_value(lsn_text(value.page_lsn, self.version))
            data = number_value(value.last), bool_value(value.is_called), page_lsn
        row = asked.row
        numbers = (number_value(row.integer(name)) for name in _NUMBERS)
        limits = number_value(row.oid("seqtypid")), *numbers, bool_value(row.flag("seqcycle"))
        return (number_value(int(asked.number)), bool_value(may_read), *data, *limits)


def _columns(catalog: HistoricCatalog) -> list[Column]:
    asked = int4_column("seqidx"), bool_column("has_sequence_privilege")
    data = int8_column("last_value"), bool_column("is_called"), lsn_column("page_lsn")
    limits = oid_column("seqtypid"), *map(int8_column, _NUMBERS), bool_column("seqcycle")
    oid = catalog.relation_named("pg_catalog", "pg_sequence")
    relation = None if oid is None else catalog.relation(oid)
    if oid is None or relation is None:
        return [*asked, *data, *limits]
    numbers = {column.name: column.number for column in relation.columns}
    return [*asked, *data, *(replace(column, table=oid, number=numbers[column.name]) for column in limits)]
