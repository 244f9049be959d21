"""Relations as a slot announces them: messages R made schemas, with numbers for their columns.

The protocol tells no ``attnum``. A column is numbered by its name: it keeps the number that it had first, whatever
becomes of the table. So a column that is renamed is another one, which begins empty; a slot does not tell that it was
there before.

The replica identity is as of the change: its columns are marked in the message. What else a catalog has of a relation
is not known: partitions, primary keys under REPLICA IDENTITY FULL, defaults, dropped columns.

PostgreSQL: proto.c (logicalrep_write_rel, logicalrep_write_attrs).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from headwater.catalog.relation import Column, RelationSchema, TypeInfo
from headwater.errors import DecodingError
from headwater.pg.lsn import Lsn
from headwater.plugins.pgoutput.protocol import IS_REPLICA_IDENTITY

Numbers = Callable[[int, str], Mapping[str, int]]
"""Gives the numbers that columns of a relation, by OID and name ``schema.table``, have from before, by their names."""


@dataclass(frozen=True)
class SentColumn:
    """A column as R has it."""

    name: str
    type_oid: int
    typmod: int
    is_key: bool


@dataclass(frozen=True)
class SentRelation:
    """A relation as R has it.

    Attributes:
        oid: its own; namespace, name: its names.
        replica_identity: ``relreplident``.
        columns: those that are sent.
    """

    oid: int
    namespace: str
    name: str
    replica_identity: str
    columns: tuple[SentColumn, ...]

    @classmethod
    def parse(cls, message: bytes, lsn: int) -> SentRelation:
        """Read a message R, in UTF8.

        Raises:
            DecodingError: it is malformed.
        """
        try:
            return cls._parse(message)
        except (ValueError, struct.error, IndexError):
            raise DecodingError("malformed message R of a slot", lsn=lsn) from None

    @classmethod
    def _parse(cls, message: bytes) -> SentRelation:
        (oid,) = struct.unpack_from(">I", message, 1)
        namespace, name, rest = message[5:].split(b"\0", 2)
        identity, count = struct.unpack_from(">cH", rest)
        columns, at = [], 3
        for _ in range(count):
            end = rest.index(b"\0", at + 1)
            type_oid, typmod = struct.unpack_from(">Ii", rest, end + 1)
            is_key = bool(rest[at] & IS_REPLICA_IDENTITY)
            columns.append(SentColumn(rest[at + 1 : end].decode(), type_oid, typmod, is_key))
            at = end + 9
        if at != len(rest):
            raise ValueError(at)
        return cls(oid, namespace.decode() or "pg_catalog", name.decode(), identity.decode(), tuple(columns))


@dataclass(frozen=True)
class Version:
    """A version of a relation.

    Attributes:
        schema: it; columns that it does not have, or that are not sent, are there as dropped ones.
        places: int32[] the cell of each column that is sent, in the order of the message.
    """

    schema: RelationSchema
    places: NDArray[np.int32] = field(compare=False)


class AnnouncedRelations:
    """The relations that a slot has announced so far, with all versions that they have had.

    Args:
        types: gives types by their OIDs.
        numbers: gives the numbers that columns have from before.
    """

    def __init__(self, types: Callable[[list[int]], list[TypeInfo]], numbers: Numbers) -> None:
        self._types, self._numbers = types, numbers
        self._known: dict[int, dict[str, int]] = {}
        self._versions: dict[bytes, int] = {}
        self.versions: list[Version] = []
        self.current: dict[int, int] = {}
        """The version that each relation has at present, by its OID."""

    def forget_current(self) -> None:
        """Note that a new session begins, in which each is announced again before its first change."""
        self.current.clear()

    def announce(self, message: bytes, lsn: int) -> int:
        """Take a message R, and return the number of the version.

        Raises:
            DecodingError: it is malformed, or what it says cannot be.
            CatalogError: the server does not have one of its types any more.
            ConnectionLostError: the server cannot be asked for them.
        """
        sent = SentRelation.parse(message, lsn)
        number = self._versions.get(message)
        if number is None:
            number = self._versions[message] = len(self.versions)
            self.versions.append(self._version(sent))
        self.current[sent.oid] = number
        return number

    def _version(self, sent: SentRelation) -> Version:
        if sent.oid not in self._known:
            self._known[sent.oid] = dict(self._numbers(sent.oid, f"{sent.namespace}.{sent.name}"))
        known = self._known[sent.oid]
        for column in sent.columns:
            known.setdefault(column.name, max(known.values(), default=0) + 1)
        types = self._types([column.type_oid for column in sent.columns])
        columns = {
            known[column.name]: _column(known[column.name], column, type)
            for column, type in zip(sent.columns, types, strict=True)
        }
        last = max(known.values(), default=0)
        places = np.array([known[column.name] - 1 for column in sent.columns], np.int32)
        key = tuple(sorted(known[column.name] for column in sent.columns if column.is_key))
        schema = RelationSchema(
            oid=sent.oid,
            namespace=sent.namespace,
            name=sent.name,
            kind="r",
            persistence="p",
            replica_identity=sent.replica_identity,
            identity_columns=key if sent.replica_identity in "di" else (),
            columns=tuple(columns.get(number) or _dropped(number) for number in range(1, last + 1)),
        )
        return Version(schema, places)


def _column(number: int, sent: SentColumn, type: TypeInfo) -> Column:
    return Column(number, sent.name, type, sent.typmod, type.typlen, type.typalign, False)


def _dropped(number: int) -> Column:
    return Column(number, f"........pg.dropped.{number}........", None, -1, -1, "i", True)


def unannounced(oid: int, lsn: int) -> DecodingError:
    """Return the error of a change of a relation that the server has not announced."""
    return DecodingError(f"the slot has a change of relation {oid} at {Lsn(lsn)}, which was not announced", lsn=lsn)
