"""Expressions as catalogs hold them: the text of ``pg_node_tree`` into values.

Such text is what ``nodeToString`` writes. A node is ``{NAME :field value ...}``, a list ``(...)``. Lists of integers,
OIDs and transaction ids, and sets, are ``(i 1 2)``, ``(o 1 2)``, ``(x 1 2)`` and ``(b 1 2)``. Nothing is ``<>``, a
string of its own ``"text"``, a datum ``4 [ 1 0 0 0 0 0 0 0 ]``. All else are words, in which a backslash takes the next
character as it is. Fields are read by their names, as major versions differ in the fields of a node. Only the caller
that asks for a field knows what its word means: a number, a name or a letter.

PostgreSQL: ``nodes/outfuncs.c``, ``nodes/read.c`` (pg_strtok, nodeRead), ``nodes/readfuncs.c`` (readDatum).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from headwater.errors import CatalogError

_TOKEN = re.compile(r"[(){}]|(?:\\.|[^\s(){}\\]|\\(?=\Z))+", re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_NUMBERS = frozenset("ioxb")
_MAX_DEPTH = 250
"""The most nodes and lists that may lie inside one another; a server's own stack allows for some thousands."""


class Datum(NamedTuple):
    """A constant's bytes: all eight of its word if it is passed by value, else the datum with its header.

    Attributes:
        length: bytes that count.
        data: the bytes.
    """

    length: int
    data: bytes


class Quoted(NamedTuple):
    """A string that stands as a value of its own."""

    text: str


class Numbers(NamedTuple):
    """A list of numbers, or a set of them.

    Attributes:
        kind: ``i`` integers, ``o`` OIDs, ``x`` transaction ids, ``b`` a set.
        values: the numbers.
    """

    kind: str
    values: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Words:
    """A field that has several words, one after another, as arrays of plan nodes have."""

    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Node:
    """A node of an expression's tree.

    Attributes:
        name: the node's name as it is written, in capitals.
        fields: pairs of names and values in their order.
    """

    name: str
    fields: tuple[tuple[str, Value], ...]

    def __getitem__(self, field: str) -> Value:
        for name, value in self.fields:
            if name == field:
                return value
        raise CatalogError(f"node {self.name} has no field {field}, which a node of this name is expected to have")

    def has(self, field: str) -> bool:
        """Tell whether there is such a field, be it empty."""
        return any(name == field for name, _ in self.fields)

    def word(self, field: str) -> str:
        """Return a field's word; empty for ``<>``.

        Raises:
            CatalogError: the field holds something else, or is missing.
        """
        value = self[field]
        if value is not None and not isinstance(value, str):
            raise self._unlike(field, "a word")
        return value or ""

    def integer(self, field: str) -> int:
        """Return a field's number; raises as :meth:`word`."""
        try:
            return int(self.word(field))
        except ValueError:
            raise self._unlike(field, "a number") from None

    def boolean(self, field: str) -> bool:
        """Return a field's truth; raises as :meth:`word`."""
        word = self.word(field)
        if word not in ("true", "false"):
            raise self._unlike(field, "true or false")
        return word == "true"

    def node(self, field: str) -> Node:
        """Return the node in a field; raises as :meth:`word`."""
        value = self[field]
        if not isinstance(value, Node):
            raise self._unlike(field, "a node")
        return value

    def maybe_node(self, field: str) -> Node | None:
        """Return the node in a field, None for ``<>``; raises as :meth:`word`."""
        return None if self[field] is None else self.node(field)

    def nodes(self, field: str) -> tuple[Node, ...]:
        """Return the nodes in a field's list, none for ``<>``; raises as :meth:`word`."""
        value = self[field]
        value = () if value is None else value
        if not isinstance(value, tuple) or isinstance(value, Datum | Quoted | Numbers):
            raise self._unlike(field, "a list of nodes")
        nodes = tuple(item for item in value if isinstance(item, Node))
        if len(nodes) != len(value):
            raise self._unlike(field, "a list of nodes")
        return nodes

    def numbers(self, field: str) -> tuple[int, ...]:
        """Return the numbers in a field's list, none for ``<>``; raises as :meth:`word`."""
        value = self[field]
        if value is not None and not isinstance(value, Numbers):
            raise self._unlike(field, "a list of numbers")
        return value.values if value is not None else ()

    def _unlike(self, field: str, expected: str) -> CatalogError:
        shown = str(self[field])
        shown = shown if len(shown) <= 60 else f"{shown[:60]}..."
        return CatalogError(f"field {field} of node {self.name} holds {shown}, expected {expected}")


Value: TypeAlias = "Node | Datum | Quoted | Numbers | Words | tuple[Value, ...] | str | None"
"""The value of a field; a list is a plain tuple."""


def parse_node_tree(text: str) -> Value:
    """Take the text of a node tree apart.

    Args:
        text: one value: mostly a node, for ``pg_index.indexprs`` a list.

    Raises:
        CatalogError: the text is malformed, or nested too deep.
    """
    reader = _Reader(text)
    value = reader.value(reader.next(), 0)
    if reader.at < len(reader.tokens):
        raise reader.malformed(f'"{reader.tokens[reader.at]}" behind its end')
    return value


class _Reader:
    """The tokens of a text, and how far they are read."""

    def __init__(self, text: str) -> None:
        self.tokens = _TOKEN.findall(text)
        self.at = 0

    def malformed(self, fault: str) -> CatalogError:
        return CatalogError(f"malformed node tree: {fault} (token {self.at + 1} of {len(self.tokens)})")

    def peek(self) -> str:
        if self.at >= len(self.tokens):
            raise self.malformed("the text ends in the middle")
        return str(self.tokens[self.at])

    def next(self) -> str:
        token = self.peek()
        self.at += 1
        return token

    def value(self, token: str, depth: int) -> Value:
        if depth > _MAX_DEPTH:
            raise self.malformed(f"more than {_MAX_DEPTH} nodes lie inside one another")
        if token == "{":
            return self._node(depth)
        if token == "(":
            return self._list(depth)
        if token in (")", "}"):
            raise self.malformed(f'unexpected "{token}"')
        if token == "<>":
            return None
        if len(token) > 1 and token[0] == token[-1] == '"':
            return Quoted(_ESCAPE.sub(r"\1", token[1:-1]))
        return _ESCAPE.sub(r"\1", token)

    def _node(self, depth: int) -> Node:
        name, fields = self.next(), []
        while (token := self.next()) != "}":
            if token[0] != ":":
                raise self.malformed(f'"{token}" in node {name}, expected a field')
            fields.append((token[1:], self._field(depth)))
        return Node(name, tuple(fields))

    def _field(self, depth: int) -> Value:
        """Read the value of a field: its first token may be anything, the tokens after it go on to the next field."""
        first = self.value(self.next(), depth + 1)
        if self.peek() == "[" and isinstance(first, str):
            return self._datum(first)
        words = [first]
        while self.peek() != "}" and self.peek()[0] != ":":
            words.append(self.value(self.next(), depth + 1))
        if len(words) == 1:
            return first
        texts = tuple(word for word in words if isinstance(word, str))
        if len(texts) != len(words):
            raise self.malformed("several values in a field")
        return Words(texts)

    def _datum(self, length: str) -> Datum:
        self.next()
        numbers = []
        while (token := self.next()) != "]":
            numbers.append(self._integer(token) & 255)
        return Datum(self._integer(length), bytes(numbers))

    def _list(self, depth: int) -> Value:
        kind = self.peek()
        if kind in _NUMBERS:
            self.next()
            values = []
            while (token := self.next()) != ")":
                values.append(self._integer(token))
            return Numbers(kind, tuple(values))
        items = []
        while (token := self.next()) != ")":
            items.append(self.value(token, depth + 1))
        return tuple(items)

    def _integer(self, token: str) -> int:
        try:
            return int(token)
        except ValueError:
            raise self.malformed(f'"{token}", expected a number') from None
