"""The COPY statements with which subscribers fetch a table's rows (tablesync), read into values.

In: a text. Out: the table, its columns, which of its rows, and the format; None for any other statement. Names are as
the catalog has them: unquoted ones folded, quoted ones without quotes.

PostgreSQL: replication/logical/tablesync.c (copy_table), 14 to 19.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from headwater.walsender.sql.shapes import without_end
from headwater.walsender.sql.tokens import Kind, Token, tokens_of


@dataclass(frozen=True)
class CopyTable:
    """A COPY of a table to the client.

    Attributes:
        schema, table: names of the table.
        columns: names of the columns in the order asked for; None for those that COPY without a list sends.
        is_query: whether it is COPY of a SELECT: rows of partitions belong to it, and views can be read.
        only: whether rows of tables that inherit from the table are left out.
        where: the condition as it is written, None without one.
        is_binary: whether rows are wanted in binary form.
        text: the statement as it is written.
    """

    schema: str
    table: str
    columns: tuple[str, ...] | None
    is_query: bool = False
    only: bool = False
    where: str | None = None
    is_binary: bool = False
    text: str = field(default="", compare=False)


def parse_copy(text: str) -> CopyTable | None:
    """Read a subscriber's COPY statement; None if the text is anything else."""
    tokens = tokens_of(text)
    return None if tokens is None else _Reader(text, without_end(tokens)).read()


class _Reader:
    """A reader of one statement, from token to token."""

    def __init__(self, text: str, tokens: Sequence[Token]) -> None:
        self._text = text
        self._tokens = tokens
        self._at = 0

    def read(self) -> CopyTable | None:
        if not self._takes("copy"):
            return None
        return self._query() if self._takes("(") else self._whole_table()

    def _whole_table(self) -> CopyTable | None:
        name = self._qualified()
        columns = self._names() if self._takes("(") else None
        if columns is not None and not (columns and self._takes(")")):
            return None
        return self._ended(name, columns)

    def _query(self) -> CopyTable | None:
        if not self._takes("select"):
            return None
        columns = () if self._is_at("from") else self._names()
        if columns is None or not self._takes("from"):
            return None
        only = self._takes("only")
        name = self._qualified()
        where = self._condition() if self._takes("where") else None
        return self._ended(name, columns, is_query=True, only=only, where=where) if self._takes(")") else None

    def _ended(
        self,
        name: tuple[str, str] | None,
        columns: tuple[str, ...] | None,
        *,
        is_query: bool = False,
        only: bool = False,
        where: str | None = None,
    ) -> CopyTable | None:
        """Return the statement, if it ends as it must."""
        if name is None or where == "" or not (self._takes("to") and self._takes("stdout")):
            return None
        is_binary = self._takes("with", "(", "format", "binary", ")")
        if self._at != len(self._tokens):
            return None
        return CopyTable(*name, columns, is_query, only, where, is_binary, self._text)

    def _condition(self) -> str:
        """Return the text up to the parenthesis that ends the query; empty if there is none."""
        first, depth = self._at, 0
        while self._at < len(self._tokens):
            depth += self._is_at("(") - self._is_at(")")
            if depth < 0:
                break
            self._at += 1
        if self._at in (first, len(self._tokens)):
            return ""
        return self._text[self._tokens[first].start : self._tokens[self._at - 1].end]

    def _qualified(self) -> tuple[str, str] | None:
        schema = self._name()
        table = self._name() if schema is not None and self._takes(".") else None
        return None if schema is None or table is None else (schema, table)

    def _names(self) -> tuple[str, ...] | None:
        """Take names with commas between them; None where a name is missing."""
        names = list[str]()
        while (name := self._name()) is not None:
            names.append(name)
            if not self._takes(","):
                return tuple(names)
        return None

    def _name(self) -> str | None:
        if self._at == len(self._tokens) or self._tokens[self._at].kind not in (Kind.WORD, Kind.QUOTED):
            return None
        self._at += 1
        return self._tokens[self._at - 1].text

    def _takes(self, *texts: str) -> bool:
        """Take words or signs, if all of them are next."""
        following = self._tokens[self._at : self._at + len(texts)]
        is_next = tuple(token.text for token in following) == texts and all(map(_is_bare, following))
        self._at += len(texts) if is_next else 0
        return is_next

    def _is_at(self, text: str) -> bool:
        return self._at < len(self._tokens) and self._tokens[self._at][:2] in ((Kind.WORD, text), (Kind.SIGN, text))


def _is_bare(token: Token) -> bool:
    return token.kind in (Kind.WORD, Kind.SIGN)
