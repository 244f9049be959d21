"""DETAIL of conflicts, word for word as servers of 18 and 19 log it.

PostgreSQL: replication/logical/conflict.c (errdetail_apply_conflict, build_tuple_value_details of 18, get_tuple_desc of
19), executor/execMain.c (ExecBuildSlotValueDescription), access/index/genam.c (BuildIndexValueDescription).

Known gaps: values are cut at 64 bytes of UTF8, whatever the database's encoding. Who lacks the right to see columns is
not told of them partly, but not at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headwater.apply.conflicts.local_tables import LocalTable, UniqueIndex
from headwater.apply.conflicts.remote_rows import virtual_columns
from headwater.apply.incoming.conflict_kinds import Kind

MOST_BYTES = 64
Values = Mapping[str, str | None]


@dataclass(frozen=True)
class Writer:
    """The writer of a row, or the one who has deleted it.

    Attributes:
        xid: the transaction; time: of its commit, None if it is not known.
        origin: ``roident``, 0 for local; name: the origin's, None if there is none of that number any more.
    """

    xid: int
    time: str | None
    origin: int
    name: str | None

    def by(self, other: str = "") -> str:
        """Return the words for it; other stands before the name of an origin."""
        if not self.origin:
            return "locally"
        return "by a non-existent origin" if self.name is None else f'by {other}origin "{self.name}"'


@dataclass(frozen=True)
class Existing:
    """A local row of a conflict.

    Attributes:
        values: its values; writer: who has written it.
        index, key: the unique index that it is in the way by, and its values there; None if none.
    """

    values: Values
    writer: Writer
    index: UniqueIndex | None = None
    key: tuple[str | None, ...] = ()


@dataclass(frozen=True)
class Described:
    """A conflict as messages describe it.

    Attributes:
        kind: its kind; table: that it is in.
        existing: local rows; remote, search: the remote row, and the row that was looked for; None if there is none.
        deleted: who has deleted the row, if that is known.
    """

    kind: Kind
    table: LocalTable
    existing: tuple[Existing, ...] = ()
    remote: Values | None = None
    search: Values | None = None
    deleted: Writer | None = None

    @property
    def search_text(self) -> str | None:
        """The columns that the row was looked for by, in the server's words."""
        if self.search is None:
            return None
        identity = self.table.identity
        if identity is None:
            return f"replica identity full {_row(self.table, self.search)}"
        return f"replica identity {_key(identity, [self.search.get(_plain(key.shown)) for key in identity.keys])}"

    @property
    def remote_text(self) -> str | None:
        """The remote row, in the server's words."""
        return None if self.remote is None else f"remote row {_row(self.table, self.remote)}"


def detail_of(conflict: Described, *, is_inline: bool) -> str:
    """Return DETAIL of a conflict.

    Args:
        conflict: it; is_inline: rows stand behind a colon, as of 19 on, rather than in a line of their own.
    """
    if conflict.kind.is_unique:
        return "\n".join(_unique(conflict, is_inline=is_inline))
    if is_inline:
        return _inline(conflict)
    local = [f"existing local row {_row(conflict.table, row.values)}" for row in conflict.existing]
    return (
        f"{_sentence(conflict)}.\n{_capital('; '.join(_parts([*local, conflict.remote_text, conflict.search_text])))}."
        f"{_deleted(conflict)}"
    )


def _inline(conflict: Described) -> str:
    local = [f"local row {_row(conflict.table, row.values)}" for row in conflict.existing]
    parts = _parts([*local, conflict.remote_text, conflict.search_text])
    return f"{_sentence(conflict)}: {', '.join(parts)}.{_deleted(conflict)}"


def _deleted(conflict: Described) -> str:
    """Write the line that says who has deleted the row."""
    if conflict.kind != Kind.UPDATE_DELETED:
        return ""
    writer, text = conflict.deleted, "\nThe row to be updated was deleted"
    if writer is None or writer.time is None:
        return f"{text}."
    return f"{text} {writer.by('a different ')} in transaction {writer.xid} at {writer.time}."


def _sentence(conflict: Described) -> str:
    kind = conflict.kind
    if kind.is_of_origins:
        writer = conflict.existing[0].writer
        verb = "Updating" if kind == Kind.UPDATE_ORIGIN_DIFFERS else "Deleting"
        by = writer.by("a different ")
        return f"{verb} the row that was modified {by} in transaction {writer.xid} at {writer.time}"
    return f"Could not find the row to be {'deleted' if kind == Kind.DELETE_MISSING else 'updated'}"


def _unique(conflict: Described, *, is_inline: bool) -> list[str]:
    lines = []
    if is_inline:
        lines.append(
            f"Could not apply remote change: {', '.join(_parts([conflict.remote_text, conflict.search_text]))}."
        )
    for row in conflict.existing:
        assert row.index is not None
        writer = row.writer
        by = f" {writer.by()}" if writer.time else ""
        at = f" at {writer.time}" if writer.time else ""
        text = f'Key already exists in unique index "{row.index.name}", modified{by} in transaction {writer.xid}{at}'
        key, local = f"key {_key(row.index, row.key)}", f"local row {_row(conflict.table, row.values)}"
        if is_inline:
            lines.append(f"{text}: {key}, {local}.")
            continue
        parts = _parts([key, f"existing {local}", conflict.remote_text, conflict.search_text])
        lines += [f"{text}.", f"{_capital('; '.join(parts))}."]
    return lines


def _parts(parts: Sequence[str | None]) -> list[str]:
    return [part for part in parts if part is not None]


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _row(table: LocalTable, values: Values) -> str:
    virtual = virtual_columns(table)
    texts = ("virtual" if name in virtual else _cut(values.get(name)) for name in table.names)
    return f"({', '.join(texts)})"


def _key(index: UniqueIndex, values: Sequence[str | None]) -> str:
    names = ", ".join(key.shown for key in index.keys)
    return f"({names})=({', '.join('null' if value is None else value for value in values)})"


def _cut(value: str | None) -> str:
    if value is None:
        return "null"
    data = value.encode()
    return value if len(data) <= MOST_BYTES else data[:MOST_BYTES].decode(errors="ignore") + "..."


def _plain(shown: str) -> str:
    """Return a column's name as it is, without quotes."""
    return shown[1:-1].replace('""', '"') if shown.startswith('"') else shown
