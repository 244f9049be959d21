"""Catalogs: all versions of their rows, found by key.

In: versions, as heaps read or redo makes them (:mod:`headwater.catalog.store.heaps`), and bases: the rows of the backup
or of an image, as flat arrays. Out: the versions under a key. A base is sorted by key when it is first asked; its rows
become versions only when redo or a look-up touches them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any
from weakref import ReferenceType, ref

import numpy as np

from headwater.catalog.pages import HEAP_HASEXTERNAL, TUPLE_IS_SENT
from headwater.catalog.store.version_rows import XID_MASK, VersionRows
from headwater.catalog.versions import INVALID_COMMAND_ID, Dependency, Fates, Key, Version
from headwater.errors import CatalogError
from headwater.pg.catalogs import CatalogLayout
from headwater.rmgr.heap import HEADER_SIZE, TupleBytes

KEYS: dict[str, dict[str, tuple[str, ...]]] = {
    "pg_attribute": {"attrelid": ("attrelid",)},
    "pg_authid": {"oid": ("oid",)},
    "pg_class": {"oid": ("oid",), "filenode": ("relfilenode", "reltablespace")},
    "pg_collation": {"oid": ("oid",)},
    "pg_database": {"oid": ("oid",)},
    "pg_enum": {"enumtypid": ("enumtypid",)},
    "pg_index": {"indrelid": ("indrelid",)},
    "pg_inherits": {"inhrelid": ("inhrelid",)},
    "pg_namespace": {"oid": ("oid",), "nspname": ("nspname",)},
    "pg_operator": {"oid": ("oid",)},
    "pg_proc": {"oid": ("oid",)},
    "pg_publication": {"pubname": ("pubname",), "oid": ("oid",)},
    "pg_publication_namespace": {"pnnspid": ("pnnspid",)},
    "pg_publication_rel": {"prrelid": ("prrelid",)},
    "pg_range": {"rngtypid": ("rngtypid",), "rngmultitypid": ("rngmultitypid",)},
    "pg_replication_origin": {"roident": ("roident",)},
    "pg_sequence": {"seqrelid": ("seqrelid",)},
    "pg_toast_6106": {"chunk_id": ("chunk_id",)},
    "pg_ts_config": {"oid": ("oid",)},
    "pg_ts_dict": {"oid": ("oid",)},
    "pg_type": {"oid": ("oid",), "typname": ("typname",)},
}
"""The fixed columns that each catalog is looked up by; two OIDs make one key, the second one in the high half."""

DEFINITION_KEYS: dict[str, dict[str, tuple[str, ...]]] = {
    "pg_am": {"oid": ("oid",)},
    "pg_attrdef": {"adrelid": ("adrelid",)},
    "pg_constraint": {"oid": ("oid",), "conrelid": ("conrelid",), "contypid": ("contypid",)},
    "pg_depend": {"objid": ("objid",), "refobjid": ("refobjid",)},
    "pg_description": {"objoid": ("objoid",)},
    "pg_event_trigger": {"oid": ("oid",)},
    "pg_extension": {"oid": ("oid",)},
    "pg_index": {"indrelid": ("indrelid",), "indexrelid": ("indexrelid",)},
    "pg_inherits": {"inhrelid": ("inhrelid",), "inhparent": ("inhparent",)},
    "pg_opclass": {"oid": ("oid",), "opcintype": ("opcintype",)},
    "pg_partitioned_table": {"partrelid": ("partrelid",)},
    "pg_policy": {"oid": ("oid",)},
    "pg_publication_namespace": {"pnnspid": ("pnnspid",), "pnpubid": ("pnpubid",)},
    "pg_publication_rel": {"prrelid": ("prrelid",), "prpubid": ("prpubid",)},
    "pg_rewrite": {"oid": ("oid",), "ev_class": ("ev_class",)},
    "pg_statistic_ext": {"oid": ("oid",)},
    "pg_tablespace": {"oid": ("oid",)},
    "pg_toast_2604": {"chunk_id": ("chunk_id",)},
    "pg_toast_2606": {"chunk_id": ("chunk_id",)},
    "pg_toast_2609": {"chunk_id": ("chunk_id",)},
    "pg_toast_2610": {"chunk_id": ("chunk_id",)},
    "pg_toast_3350": {"chunk_id": ("chunk_id",)},
    "pg_trigger": {"oid": ("oid",)},
}
"""The columns where definitions are asked for; catalogs that are not here are looked up by :data:`KEYS`."""

WHOLE = "*"
"""The index that has all rows of a catalog under key 0."""

UPDATED_IN_PLACE = frozenset({"pg_class", "pg_database"})
"""Catalogs with rows that change with no new version (heap_inplace_update)."""

VEILED = frozenset({"pg_authid"})
"""Catalogs of whose rows an image has only the columns that every row has."""


class VersionBase:
    """Rows that become versions when they are asked for, each once.

    Args:
        rows: the rows.
        multis: for each row, the multixact that may have deleted it.
        update_xid: resolves a multixact to its updater, 0 without one.

    Attributes:
        rows: the rows.
        taken: the versions made so far, by row.
    """

    def __init__(
        self,
        rows: VersionRows,
        multis: dict[int, int] | None = None,
        update_xid: Callable[[int], int] | None = None,
    ) -> None:
        self.rows = rows
        self.taken: dict[int, Version] = {}
        self._catalog: ReferenceType[CatalogTable] | None = None
        self._multis = multis or {}
        self._update_xid = update_xid

    def belong_to(self, catalog: CatalogTable) -> None:
        """Make the versions belong to a catalog, which holds them, and is not held."""
        self._catalog = ref(catalog)

    def version(self, row: int) -> Version:
        """Return a row's version; it is taken into its catalog when it is made."""
        version = self.taken.get(row)
        if version is None:
            version = self.taken[row] = self._make(row)
            catalog = None if self._catalog is None else self._catalog()
            if catalog is not None:
                catalog.admit(version)
        return version

    def _make(self, row: int) -> Version:
        rows = self.rows
        inserter = int(rows.inserter[row])
        version = Version(int(rows.xmin[row]), inserter & XID_MASK, rows.tuple_at(row))
        version.cmin = int(rows.cmin[row])
        version.copied_deleter = int(rows.copied_deleter[row]) & XID_MASK
        lo, hi = np.searchsorted(rows.deleter_row, row, "left"), np.searchsorted(rows.deleter_row, row, "right")
        for at in range(lo, hi):
            version.delete(int(rows.deleter_xid[at]) & XID_MASK, int(rows.deleter_command[at]))
        multi = self._multis.get(row)
        if multi is not None and self._update_xid is not None:
            deleter = self._update_xid(multi)
            if deleter:
                version.delete(deleter)
                version.copied_deleter = deleter
        return version

    def take_multis(self) -> None:
        """Make versions of all rows that a multixact may have deleted."""
        for row in self._multis:
            self.version(row)

    def named_by(self, xid: int) -> list[Version]:
        """List the versions that a transaction inserted or deleted, as far as the rows say."""
        versions = [self.version(row) for row in self.rows.named_by(xid)]
        by_multi = (self.taken[row] for row in self._multis if row in self.taken)
        return versions + [version for version in by_multi if xid in version.deleters]


class KeyIndex:
    """Versions of a catalog by key.

    Args:
        layout: the catalog's layout.
        columns: one fixed column of 4 or 64 bytes, or two of 4.
        bases: the catalog's bases; the caller adds to them.
    """

    def __init__(self, layout: CatalogLayout, columns: Sequence[str], bases: list[VersionBase]) -> None:
        lengths = {column.name: column.length for column in layout.columns}
        self._fields = tuple((layout.offsets[name], lengths[name]) for name in columns)
        self._bases = bases
        self._loaded: dict[Key, int] = {}
        self.versions: dict[Key, list[Version]] = {}

    def find(self, key: Key) -> list[Version]:
        """Find all versions under a key, those of the bases included."""
        seen = self._loaded.get(key, 0)
        for base in self._bases[seen:]:
            keys, rows = base.rows.sorted_keys(self._fields)
            value = keys.dtype.type(key)
            lo, hi = np.searchsorted(keys, value, "left"), np.searchsorted(keys, value, "right")
            for row in rows[lo:hi].tolist():
                base.version(row)
        self._loaded[key] = len(self._bases)
        return self.versions.get(key, [])


class _KeyReader:
    """A reader of the keys that a catalog's rows are looked up by, all keys of a row at once.

    Args:
        layout: the catalog's layout.
        keys: the columns of each index.
    """

    def __init__(self, layout: CatalogLayout, keys: dict[str, tuple[str, ...]]) -> None:
        lengths = {column.name: column.length for column in layout.columns}
        names = sorted({name for columns in keys.values() for name in columns}, key=layout.offsets.__getitem__)
        form, end = "<", 0
        for name in names:
            form += f"{layout.offsets[name] - end}x" + ("I" if lengths[name] == 4 else f"{lengths[name]}s")
            end = layout.offsets[name] + lengths[name]
        self._struct = struct.Struct(form)
        self._catalog = layout.name
        self._places = [(index, [names.index(name) for name in columns]) for index, columns in keys.items()]
        self._last: tuple[tuple[Any, ...], tuple[Dependency, ...]] = (), ()

    def keys(self, data: TupleBytes) -> tuple[Dependency, ...]:
        """Read a tuple's keys, in the order of the indexes; neighbours with the same keys share them."""
        values = self._struct.unpack_from(data.tail, data.hoff - HEADER_SIZE)
        if values == self._last[0]:
            return self._last[1]
        keys = tuple([(self._catalog, index, as_key([values[at] for at in places])) for index, places in self._places])
        self._last = values, keys
        return keys


def as_key(values: Sequence[int | bytes]) -> Key:
    """Make the key of one name, one OID, or two OIDs."""
    first = values[0]
    if isinstance(first, bytes):
        return first.rstrip(b"\0")
    if len(values) == 1:
        return first
    second = values[1]
    assert isinstance(second, int)
    return first | second << 32


class CatalogTable:
    """A catalog: all versions of its rows.

    Args:
        layout: the catalog's columns.
        fates: the fates of transactions, shared by all catalogs.
        changed: takes the keys under which something may be found otherwise; shared by all catalogs, and emptied by
            their owner.
        with_definitions: whether it is looked up by :data:`DEFINITION_KEYS`, if it has any.

    Attributes:
        bases: rows that become versions when they are looked up.
        is_changed: whether anything has changed since the bases were added.
        whole: the dependency of answers that rest on all rows of the catalog.
    """

    def __init__(
        self, layout: CatalogLayout, fates: Fates, changed: set[Dependency], with_definitions: bool = False
    ) -> None:
        keys = KEYS.get(layout.name, {})
        keys = DEFINITION_KEYS.get(layout.name, keys) if with_definitions else keys
        self.layout = layout
        self.fates = fates
        self.bases: list[VersionBase] = []
        self.indexes = {name: KeyIndex(layout, columns, self.bases) for name, columns in keys.items()}
        self.is_changed = False
        self._changed = changed
        self._reader = _KeyReader(layout, keys)
        self._primary = next(iter(self.indexes.values()))
        self.whole: Dependency = (layout.name, WHOLE, 0)

    def name_of(self, version: Version) -> bytes:
        """Return the name of a row of a catalog that is looked up by name before all, such as ``pg_publication``."""
        key = self.keys_of(version)[0][2]
        assert isinstance(key, bytes)
        return key

    def find(self, index: str, key: Key) -> list[Version]:
        """Find all versions under a key of an index of :data:`KEYS`, or those of :data:`WHOLE`."""
        if index == WHOLE:
            return list(self.all_versions())
        return self.indexes[index].find(key)

    def add_base(self, base: VersionBase) -> None:
        """Take in rows that become versions when they are looked up."""
        base.belong_to(self)
        self.bases.append(base)

    def made_versions(self) -> list[Version]:
        """List all versions that are objects already, each once."""
        return [version for versions in self._primary.versions.values() for version in versions]

    def versions_between(self, lo: int, hi: int) -> list[Version]:
        """Return the versions that commits have made or ended whose record starts in ``[lo, hi)``, and some others.

        A transaction that was open where an image was taken has its rows in a base, though it commits later.
        """
        for base in self.bases:
            for xid in (base.rows.named & XID_MASK).tolist():
                if self.fates.recorded(xid) is not None and lo <= self.fates.commit_lsn(xid) < hi:
                    base.named_by(xid)
        return self.made_versions()

    def all_versions(self) -> Iterator[Version]:
        """Give all versions of all rows."""
        for base in self.bases:
            for row in range(len(base.rows)):
                base.version(row)
        yield from self.made_versions()

    def keys_of(self, version: Version) -> tuple[Dependency, ...]:
        """Return all keys that find the version: (catalog, index, key); its columns must be long enough."""
        keys = version.keys
        if keys is None:
            keys = version.keys = self._reader.keys(version.data)
        return keys

    def note_change(self, version: Version) -> None:
        """Note that look-ups by the version's keys may have another result from here on."""
        self.is_changed = True
        self._changed.update(self.keys_of(version))
        self._changed.add(self.whole)

    def add(self, version: Version) -> None:
        """Take a version in.

        Raises:
            CatalogError: the version's row is shorter than every row of this catalog.
        """
        self.admit(version)
        self.note_change(version)

    def admit(self, version: Version) -> None:
        """Take in a version that a base has had all along. Raises what :meth:`add` does."""
        self.require_row(version.data)
        for _, index, key in self.keys_of(version):
            self.indexes[index].versions.setdefault(key, []).append(version)

    def discard(self, version: Version) -> None:
        """Take a version back."""
        self.note_change(version)
        for _, index, key in self.keys_of(version):
            versions = self.indexes[index].versions.get(key, [])
            if version in versions:
                versions.remove(version)

    def first_key(self, version: Version) -> Key:
        """Return a version's key in the catalog's first index.

        Raises:
            CatalogError: the version's row is shorter than every row of this catalog.
        """
        self.require_row(version.data)
        return self.keys_of(version)[0][2]

    def row_mates(self, version: Version) -> list[Version]:
        """List the known versions that share a version's first key. Raises what :meth:`first_key` does."""
        return self._primary.find(self.first_key(version))

    def original_of(self, copy: Version, candidates: Iterable[Version]) -> Version | None:
        """Find the version of which a rewritten heap's version is a copy.

        Two versions of one row may be alike to the byte: a transaction changed it there and back. Of these the copy has
        the deleter of its original, or is the last one, if it has none. A version that its own transaction deleted has
        that deleter in every copy.
        """
        known = [v for v in candidates if v.xmin == copy.xmin and (copy.deleters or v.xmin not in v.deleters)]
        same = [v for v in known if v.data.body == copy.data.body]
        if not same and known and self.layout.name in {*UPDATED_IN_PLACE, *VEILED}:
            # Bytes of the fixed part may have changed since the copy, or an image lacks others; OID and file have not.
            keys = self.keys_of(copy)
            same = [v for v in known if self.keys_of(v) == keys and len(v.data.body) == len(copy.data.body)]
        if not same and copy.data.infomask & HEAP_HASEXTERNAL:
            # A rewrite puts a tuple with values out of line together again (heap_toast_insert_or_update).
            same = [v for v in known if v.data.infomask & HEAP_HASEXTERNAL and self._fixed(v) == self._fixed(copy)]
        if not same:
            # The stored bytes of a row that a server sent are not known. Nobody has changed it: it is the last version.
            same = [v for v in known if v.data.infomask2 & TUPLE_IS_SENT and self.keys_of(v) == self.keys_of(copy)]

        def likeness(v: Version) -> tuple[bool, int]:
            if copy.copied_deleter:
                return copy.copied_deleter in v.deleters, 0
            return v.xmin not in v.deleters, v.cmin if v.cmin != INVALID_COMMAND_ID else -1

        return max(same, key=likeness, default=None)

    def _fixed(self, version: Version) -> bytes:
        """Return the columns that every row has, all at the same place."""
        return version.data.body[: self.layout.fixed_length]

    def is_row(self, data: TupleBytes) -> bool:
        """Tell whether a tuple is long enough to be a row of this catalog."""
        return len(data.tail) + HEADER_SIZE >= data.hoff + self.layout.fixed_length

    def require_row(self, data: TupleBytes) -> None:
        """Check that a tuple has all columns of fixed length.

        Raises:
            CatalogError: the tuple has not.
        """
        if not self.is_row(data):
            raise CatalogError(
                f"row of {self.layout.name} has {len(data.tail) + HEADER_SIZE - data.hoff} bytes, "
                f"expected at least {self.layout.fixed_length}"
            )
