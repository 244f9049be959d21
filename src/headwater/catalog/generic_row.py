"""A row of any catalog with its columns by name: for values that are read seldom, and in many different ways.

In: a tuple of a catalog and its layout. Out: Python values. A row is taken apart once, when its first column is asked
for. Long values are put together from the chunks that a view has of them; a value whose chunks are not followed is an
error.

PostgreSQL: ``heaptuple.c`` (heap_deform_tuple).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from functools import cached_property

from headwater.catalog import fields
from headwater.catalog.long_values import Chunks, long_value
from headwater.catalog.pages import HEAP_HASNULL, HEAP_NATTS_MASK
from headwater.errors import CatalogError
from headwater.pg.catalogs import CatalogLayout, align_up
from headwater.pg.encodings import decode_name
from headwater.rmgr.heap import TupleBytes


class NamedRow:
    """A row of a catalog.

    Args:
        layout: the catalog's layout.
        data: the tuple.
        encoding: the database's encoding, for names and texts.
        chunks: finds the chunks of values that are stored out of line.
    """

    def __init__(self, layout: CatalogLayout, data: TupleBytes, encoding: str, chunks: Chunks) -> None:
        self._layout = layout
        self._data = data
        self._encoding = encoding
        self._chunks = chunks

    @property
    def catalog(self) -> str:
        """The catalog's name."""
        return self._layout.name

    def has(self, name: str) -> bool:
        """Tell whether this major version's catalog has the column, and the row a value in it."""
        return self._layout.has(name) and self._stored(name) is not None

    def oid(self, name: str) -> int:
        """Read a column of type ``oid``, or another unsigned number; 0 for NULL."""
        return int.from_bytes(self._stored(name) or b"", "little")

    def integer(self, name: str) -> int:
        """Read a signed number, whatever its length; 0 for NULL."""
        return int.from_bytes(self._stored(name) or b"", "little", signed=True)

    def flag(self, name: str) -> bool:
        """Read a ``bool``; false for NULL, and where this major version has no such column."""
        return self._layout.has(name) and self._stored(name) == b"\x01"

    def letter(self, name: str) -> str:
        """Read a ``"char"``; empty for zero, and where this major version has no such column."""
        return (self._stored(name) or b"\0").rstrip(b"\0").decode("latin-1") if self._layout.has(name) else ""

    def word(self, name: str, words: Mapping[str, str]) -> str:
        """Return the word that a ``"char"`` stands for.

        Raises:
            CatalogError: the letter stands for no known word.
        """
        word = words.get(self.letter(name))
        if word is None:
            expected = ", ".join(words)
            raise CatalogError(
                f"{name} of a row of {self.catalog} is {self.letter(name)!r}, expected one of {expected}"
            )
        return word

    def name(self, name: str) -> str:
        """Read a ``name``."""
        return decode_name((self._stored(name) or b"").partition(b"\0")[0], self._encoding)

    def text(self, name: str) -> str | None:
        """Read a ``text`` or ``pg_node_tree``; None for NULL, and where this major version has no such column.

        Raises:
            CatalogError: the text is stored where it cannot be read.
        """
        content = self._content(name)
        return None if content is None else decode_name(content, self._encoding)

    def numbers(self, name: str) -> tuple[int, ...]:
        """Read an ``int2vector``, or an array of ``int2``; empty for NULL. Raises as :meth:`text`."""
        return self._array(name, "h", 2)

    def oids(self, name: str) -> tuple[int, ...]:
        """Read an ``oidvector``, or an array of ``oid``; empty for NULL. Raises as :meth:`text`."""
        return self._array(name, "I", 4)

    def texts(self, name: str) -> tuple[str, ...]:
        """Read an array of ``text``; empty for NULL. Raises as :meth:`text`."""
        content = self._content(name)
        if content is None:
            return ()
        texts = fields.text_array(struct.pack("<I", len(content) + 4 << 2) + content)
        return tuple(decode_name(text, self._encoding) for text in texts)

    def raw_value(self, name: str) -> bytes | None:
        """Return a column as it is stored; None for NULL."""
        return self._stored(name)

    def values(self) -> dict[str, int | str | bool]:
        """Read the columns of fixed length by name: numbers, and names and letters as text."""
        values: dict[str, int | str | bool] = {}
        for column in self._layout.columns:
            value = self._stored(column.name)
            if value is None or column.length < 0:
                continue
            if column.length == 1:
                values[column.name] = value == b"\x01" if value in (b"\0", b"\x01") else self.letter(column.name)
            elif column.length == 64:
                values[column.name] = self.name(column.name)
            else:
                values[column.name] = self.oid(column.name) if column.length == 4 else self.integer(column.name)
        return values

    def raw(self) -> TupleBytes:
        """Return the tuple; two rows are equal if their tuples are."""
        return self._data

    def _array(self, name: str, code: str, size: int) -> tuple[int, ...]:
        content = self._content(name)
        if content is None:
            return ()
        count, at = fields.array_data(content)
        if at + size * count > len(content):
            raise CatalogError(f"{name} of a row of {self.catalog} is too short")
        return struct.unpack_from(f"<{count}{code}", content, at)

    def _content(self, name: str) -> bytes | None:
        """Return a varlena's content, wherever it lies."""
        stored = self._stored(name) if self._layout.has(name) else None
        if stored is None:
            return None
        content = fields.payload(stored)
        return self._outside(name, stored) if content is None else content

    def _outside(self, name: str, pointer: bytes) -> bytes | None:
        try:
            return long_value(pointer, self._layout.oid, self._chunks)
        except CatalogError as error:
            raise CatalogError(f"{name} of a row of {self.catalog} {error.message}") from None

    def _stored(self, name: str) -> bytes | None:
        return self._columns.get(name)

    @cached_property
    def _columns(self) -> dict[str, bytes]:
        """All columns that are not NULL, as they are stored."""
        data, columns, at = self._data, dict[str, bytes](), 0
        body, natts = data.body, data.infomask2 & HEAP_NATTS_MASK
        has_nulls = bool(data.infomask & HEAP_HASNULL)
        for number, column in enumerate(self._layout.columns[:natts]):
            if has_nulls and not data.tail[number >> 3] >> (number & 7) & 1:
                continue
            if column.length > 0 or at >= len(body) or body[at] == 0:
                at = align_up(at, column.align)
            length = column.length if column.length > 0 else fields.varlena_size(body, at)
            if length <= 0 or at + length > len(body):
                raise CatalogError(f"row of {self.catalog} ends inside its column {column.name}")
            columns[column.name] = body[at : at + length]
            at += length
        return columns
