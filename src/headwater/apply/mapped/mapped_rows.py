"""Rows of an initial copy, mapped as changes of the stream are: in COPY's text format, block by block.

In: rows as the source copies them out, of the columns that are asked for. Out: rows as the target copies them in. A
block may end amid a row.

PostgreSQL: commands/copyto.c (CopyAttributeOutText), copyfromparse.c (CopyReadAttributesText).
"""

from __future__ import annotations

import re

from headwater.apply.incoming.messages import NULL, TEXT, SentTuple
from headwater.apply.mapped.row_filters import RowError
from headwater.apply.mapped.stream_map import error_of_row
from headwater.apply.mapped.table_maps import TableMap
from headwater.errors import DecodingError

_NULL = b"\\N"
_ESCAPED = re.compile(rb"\\(.)", re.DOTALL)
_SPECIAL = re.compile(rb"[\\\b\f\n\r\t\v]")
_LETTERS = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}
_WRITTEN = {value: b"\\" + letter for letter, value in _LETTERS.items()} | {b"\\": b"\\\\"}


class MappedRows:
    """The rows of one copy.

    Args:
        table: the map; places: of the source's columns that are copied out, in their order.
    """

    def __init__(self, table: TableMap, places: tuple[int, ...]) -> None:
        self._table, self._places = table, places
        self._rest = b""
        self._natts = len(table.source.columns)

    def take(self, block: bytes) -> bytes:
        """Map the rows of a block that are whole with those before.

        Raises:
            TargetError: the condition fails for a row.
            DecodingError: a row has another number of columns.
        """
        *lines, self._rest = (self._rest + block).split(b"\n")
        rows = list(map(self._row, lines))
        condition = self._table.condition
        if condition is not None and rows:
            try:
                passes = condition.verdicts(rows)
            except RowError as error:
                raise error_of_row(self._table, error.error) from None
            rows = [row for row, is_in in zip(rows, passes.tolist(), strict=True) if is_in]
        return b"".join(_line(self._table.row(row)) for row in rows)

    def finish(self) -> None:
        """See that no row is left.

        Raises:
            DecodingError: the last one is not whole.
        """
        if self._rest:
            raise DecodingError("rows of a copy end amid a row")

    def _row(self, line: bytes) -> SentTuple:
        fields = line.split(b"\t") if self._places else []
        if len(fields) != len(self._places):
            raise DecodingError(f"a row of a copy has {len(fields)} columns, expected {len(self._places)}")
        kinds, values = bytearray([NULL]) * self._natts, list[bytes | None]([None]) * self._natts
        for place, field in zip(self._places, fields, strict=True):
            if field != _NULL:
                kinds[place] = TEXT
                values[place] = _ESCAPED.sub(_read, field) if b"\\" in field else field
        return SentTuple(bytes(kinds), tuple(values))


def copied_places(table: TableMap) -> tuple[int, ...]:
    """Return the places of the source's columns that a copy needs: those that come, and those that are looked at."""
    if table.places is None:
        return tuple(range(len(table.source.columns)))
    looked_at = set[int]() if table.condition is None else {number - 1 for number in table.condition.filter.columns}
    return tuple(sorted(looked_at | set(table.places)))


def _read(match: re.Match[bytes]) -> bytes:
    return _LETTERS.get(match[1], match[1])


def _line(row: SentTuple) -> bytes:
    return b"\t".join(map(_field, row.values)) + b"\n"


def _field(value: bytes | None) -> bytes:
    if value is None:
        return _NULL
    return _SPECIAL.sub(lambda match: _WRITTEN[match[0]], value) if _SPECIAL.search(value) else value
