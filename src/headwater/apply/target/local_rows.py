"""Rows of the target with who has written them, as statements return them.

Values are text as the types of the target's columns print it; None is NULL.

PostgreSQL: access/transam/commit_ts.c (pg_xact_commit_timestamp_origin), utils/adt/rowtypes.c (record_out).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

COMMIT_OF = "pg_catalog.pg_xact_commit_timestamp_origin"
_FIELD = re.compile(r'"((?:[^"\\]|""|\\.)*)"|([^,]*)', re.DOTALL)
_ESCAPED = re.compile(r'""|\\(.)', re.DOTALL)


@dataclass(frozen=True)
class LocalRow:
    """A row of the target's.

    Attributes:
        table: OID of the table, or partition, that it is in; place: its ``ctid``.
        values: by column.
        xid: that has written it; origin: ``roident`` of that, 0 for local, None if it is not known.
        time: of its commit, as a timestamptz's text; None if it is not known.
    """

    table: int
    place: str
    values: dict[str, str | None]
    xid: int
    origin: int | None
    time: str | None

    @classmethod
    def parse(cls, record: str, columns: tuple[str, ...]) -> LocalRow:
        """Read what :func:`record_of` has selected.

        Args:
            record: it; columns: names of the table's columns.
        """
        origin, xid, time, table, place, *values = parse_record(record)
        number = None if origin is None else int(origin)
        own = dict(zip(columns, values, strict=True))
        return cls(int(table or 0), place or "", own, int(xid or 0), number, time)


def record_of(alias: str, *, has_times: bool) -> str:
    """Write the expression of a row with who has written it.

    Args:
        alias: of the row; has_times: the server tracks commit times.
    """
    if not has_times:
        return f"ROW(NULL::oid, {alias}.xmin, NULL::timestamptz, {alias}.tableoid, {alias}.ctid, {alias}.*)::text"
    return f"(SELECT {_record(alias)} FROM {COMMIT_OF}({alias}.xmin) AS s)"


def record_if(alias: str, differs: str) -> str:
    """Write the same expression, which is NULL unless the commit ``s`` of the row meets a condition."""
    return f"(SELECT {_record(alias)} FROM {COMMIT_OF}({alias}.xmin) AS s WHERE {differs})"


def _record(alias: str) -> str:
    return f'ROW(s.roident, {alias}.xmin, s."timestamp", {alias}.tableoid, {alias}.ctid, {alias}.*)::text'


def parse_record(text: str) -> list[str | None]:
    """Read the text of a composite value, as record_out writes it."""
    fields: list[str | None] = []
    at, end = 1, len(text) - 1
    while True:
        match = _FIELD.match(text, at, end)
        assert match is not None
        if match[1] is not None:
            fields.append(_ESCAPED.sub(lambda escaped: escaped[1] or '"', match[1]))
        else:
            fields.append(match[2] or None)
        at = match.end() + 1
        if at > end:
            return fields
