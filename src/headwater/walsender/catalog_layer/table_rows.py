r"""Rows of a table that a SELECT asks for, read from the base backup and WAL, as COPY reads them.

In: a SELECT of columns of one table, perhaps with a condition, that :mod:`headwater.walsender.sql.copy_shapes` knows
behind ``COPY (``. Out: its rows as values, each in the format that its column is wanted in. Whether the user may read
the table is asked of the catalogs' server, where the user's role has its rights.

PostgreSQL: copyto.c (CopyAttributeOutText, CopySendInt32). Known gaps: as those of COPY.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from itertools import pairwise

from headwater.errors import SessionError
from headwater.jobs.local_engine import LocalEngine
from headwater.pg.sqlstates import INSUFFICIENT_PRIVILEGE
from headwater.protocol.backend_messages import Column, Value
from headwater.slots.kept_state import KeptState
from headwater.walsender.catalog_server.asked_connection import AskedConnection
from headwater.walsender.copying.copied_rows import CopySource, copied_rows
from headwater.walsender.elsewhere import NotAnsweredError
from headwater.walsender.sql.copy_shapes import CopyTable, parse_copy

_BINARY_HEADER = 19
_ESCAPE = re.compile(rb"\\(.)", re.S)
_ESCAPED = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}
_STAR = re.compile(r"\s*(?:SELECT\s+\*\s+FROM|TABLE)\s+", re.I)

_RIGHTS = """
SELECT pg_catalog.row_security_active(c.oid), pg_catalog.has_table_privilege(c.oid, 'SELECT')
OR ($4 = '' AND (SELECT pg_catalog.bool_and(pg_catalog.has_column_privilege(c.oid, a, 'SELECT'))
FROM pg_catalog.unnest($3::pg_catalog.text[]) a))
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relname = $2
"""
"""Asks for a table, columns of it, and whether there is a condition: is row security on, may the columns be read."""


@dataclass(frozen=True)
class TableRows:
    """A SELECT of rows of one table.

    Attributes:
        copy: what is read; columns: of the result.
    """

    copy: CopyTable
    columns: tuple[Column, ...]

    def check_rights(self, connection: AskedConnection) -> None:
        """Check that the role of a connection may read what is asked for.

        Raises:
            SessionError: it may not.
            NotAnsweredError: it may read some rows only.
        """
        copy = self.copy
        names = "{" + ",".join(map(_array_element, copy.columns or ())) + "}"
        is_filtered, may_read = connection.ask(_RIGHTS, (copy.schema, copy.table, names, copy.where or ""))[0]
        if may_read != b"t":
            raise SessionError(f"permission denied for table {copy.table}", sqlstate=INSUFFICIENT_PRIVILEGE)
        if is_filtered == b"t":
            raise NotAnsweredError(f'row security of "{copy.schema}.{copy.table}" leaves out rows for this user')

    def rows(
        self, source: CopySource, at: KeptState, formats: Sequence[int], settings: Mapping[str, str]
    ) -> Generator[tuple[Value, ...], None, None]:
        """Read the rows, as they are wanted.

        Args:
            source: of rows; at: the state as of which they are wanted.
            formats: of the columns, as :meth:`headwater.walsender.elsewhere.Elsewhere.answer_elsewhere` has them.
            settings: that values are printed under.

        Raises:
            HeadwaterError: they cannot be read.
        """
        count = len(self.columns)
        forms = list(formats) if len(formats) == count else [formats[0] if formats else 0] * count
        places = sorted(set(forms)) or [0]
        with ExitStack() as stack:
            each = [stack.enter_context(closing(self._rows(source, at, form, settings))) for form in places]
            for both in zip(*each, strict=True):
                yield both[0] if len(both) == 1 else tuple(both[form][i] for i, form in enumerate(forms))

    def _rows(
        self, source: CopySource, at: KeptState, form: int, settings: Mapping[str, str]
    ) -> Generator[tuple[Value, ...], None, None]:
        copy = replace(self.copy, is_binary=bool(form))
        copied = copied_rows(source, at, copy, LocalEngine(), {**settings, "client_encoding": "UTF8"})
        with closing(copied.batches) as batches:
            for batch in batches:
                data = batch.data.tobytes()
                payloads = [data[start:stop] for start, stop in pairwise(batch.offsets.tolist())]
                yield from map(_text_row, payloads) if not form else _binary_rows(payloads)


def table_rows(sql: str, columns: tuple[Column, ...]) -> TableRows | None:
    """Read a statement; None if it is no SELECT of columns of one table.

    Args:
        sql: the statement; columns: of its result.
    """
    if any(not column.table or column.number < 1 for column in columns):
        return None  # Such as user, which is a function without parentheses.
    star = _STAR.match(sql)
    if star is not None:
        names = ", ".join('"' + column.name.replace('"', '""') + '"' for column in columns)
        sql = f"SELECT {names} FROM {sql[star.end() :]}"
    copy = parse_copy(f"COPY ({sql}) TO STDOUT")
    if copy is None or copy.columns is None or len(copy.columns) != len(columns):
        return None
    return TableRows(copy, columns)


def _text_row(payload: bytes) -> tuple[Value, ...]:
    return tuple(None if text == b"\\N" else _unescaped(text) for text in payload[:-1].split(b"\t"))


def _unescaped(text: bytes) -> bytes:
    if b"\\" not in text:
        return text
    return _ESCAPE.sub(lambda match: _ESCAPED.get(match[1], match[1]), text)


def _binary_rows(payloads: Sequence[bytes]) -> Iterator[tuple[Value, ...]]:
    for payload in payloads:
        start = _BINARY_HEADER if payload.startswith(b"PGCOPY\n\xff\r\n\0") else 0
        count = int.from_bytes(payload[start : start + 2], "big", signed=True)
        if count >= 0:
            yield tuple(_fields(payload, start + 2, count))


def _fields(payload: bytes, at: int, count: int) -> Iterator[Value]:
    for _ in range(count):
        length = int.from_bytes(payload[at : at + 4], "big", signed=True)
        at += 4
        yield None if length < 0 else payload[at : at + length]
        at += max(length, 0)


def _array_element(name: str) -> str:
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
