"""The names of tables in the lake, bound to the OIDs of the source's tables.

::

    tables.json       names, by the OIDs of the source's tables; further ones with a number behind; of tables that
                      nobody lands in any more, behind "left."
    replaced.json     by names, the OIDs of all tables that have landed there, where one has taken the place of another

A name is given once and stays. Which table of the source lands under it may change, where one takes the place of
another (:meth:`BoundNames.bind`). Columns of a table in the lake say whose they were first.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cached_property
from itertools import chain, count
from typing import Any

from headwater.catalog.relation import RelationSchema
from headwater.errors import LakeError, LakeNameError
from headwater.lakes.lake_table import errors_at
from headwater.lakes.landing_target import load_object
from headwater.lakes.stores.places import Where, put_file

TABLES, REPLACED = "tables.json", "replaced.json"
_LEFT = "left."


class BoundNames:
    """Names of a target's tables.

    Args:
        own: where the target keeps what is none of its tables.
        place: the target; identifier: see :meth:`headwater.lakes.lake_table.LakeFormat.identifier`.
        numbers_taken: a table whose name another one has gets one with a number behind.
    """

    def __init__(
        self, own: Where, place: Where, identifier: Callable[[str], tuple[str, ...]], *, numbers_taken: bool
    ) -> None:
        self._own, self._place, self._identifier = own, place, identifier
        self._numbers_taken = numbers_taken

    @cached_property
    def by_key(self) -> dict[str, str]:
        """Names by their keys, older ones first: OIDs, and after those numbers of further tables."""
        return {key: str(name) for key, name in self._load(TABLES).items()}

    @cached_property
    def _key_of(self) -> dict[str, str]:
        """Keys by names."""
        return {name: key for key, name in self.by_key.items()}

    @cached_property
    def _keys_of(self) -> dict[str, list[str]]:
        """Keys by OIDs, older ones first."""
        keys: dict[str, list[str]] = {}
        for key in self.by_key:
            keys.setdefault(key.partition(".")[0], []).append(key)
        return keys

    @cached_property
    def _name_of(self) -> dict[tuple[str, ...], str]:
        """Names by how the format knows them."""
        return {self._identifier(name): name for name in reversed(self.by_key.values())}

    @property
    def first_names(self) -> list[str]:
        """The names that the tables had which land, each when it landed first."""
        return [name for key, name in self.by_key.items() if key.isdecimal()]

    def keys(self, oid: int) -> list[str]:
        """Return the keys of the tables that a relation has."""
        return list(self._keys_of.get(str(oid), ()))

    def holder(self, name: str) -> int | None:
        """Return the OID of the table that lands under a name; None where none does."""
        key = self._key_of.get(name, "")
        return int(key.partition(".")[0]) if key and not key.startswith(_LEFT) else None

    def has_relation(self, oid: int) -> bool:
        """Tell whether a relation has a table, the first of several."""
        return str(oid) in self.by_key

    def has(self, name: str) -> bool:
        """Tell whether something lands, or has landed, under a name."""
        return name in self._key_of

    def name_of(self, oid: int) -> str | None:
        """Return the name that a table lands under, the last of several; None where it does not land."""
        keys = self.keys(oid)
        return self.by_key[keys[-1]] if keys else None

    def former(self, name: str) -> frozenset[int]:
        """Return the OIDs of the tables that have landed under a name, where there were several."""
        return frozenset(self._former.get(name, ()))

    @cached_property
    def _former(self) -> dict[str, list[int]]:
        return {name: list(map(int, oids)) for name, oids in self._load(REPLACED).items()}

    def bind(self, bindings: Mapping[str, int]) -> dict[str, str]:
        """Let tables land under names, which others may have had; in one step, and the same again does nothing.

        Args:
            bindings: OIDs by names. A table lands nowhere else then, and who had the name lands there no more.

        Returns:
            for each key that is another one now, what it was.
        """
        older, oids = dict(self.by_key), set(bindings.values())
        staying = {
            key: name for key, name in older.items() if name not in bindings and int(_oid_of(key) or -1) not in oids
        }
        left = {
            f"{_LEFT}{name}": name
            for key, name in older.items()
            if name not in bindings and key not in staying and not key.startswith(_LEFT)
        }
        bound = staying | left | {str(oid): name for name, oid in bindings.items()}
        self._note_former(bindings, left.values())
        before = self._key_of
        self._replace(bound)
        return {key: before[name] for key, name in bound.items() if before.get(name, key) != key}

    def bind_again(self, known: Mapping[str, str]) -> None:
        """Take back what :meth:`bind` has done: names by their keys are as they were."""
        self._replace(dict(known))

    def _replace(self, by_key: dict[str, str]) -> None:
        self._save(TABLES, by_key)
        self.by_key = by_key
        for name in ("_key_of", "_keys_of", "_name_of"):
            self.__dict__.pop(name, None)  # made of the older ones

    def _note_former(self, bindings: Mapping[str, int], left: Iterable[str]) -> None:
        """Note who has landed under names that others get, and under such as nobody has any more."""
        known = self._former
        newer = {**dict.fromkeys(left), **bindings}
        more = {
            name: list(dict.fromkeys(oid for oid in (*known.get(name, ()), self.holder(name), newer[name]) if oid))
            for name in newer
            if self.has(name)
        }
        if {**known, **more} != known:
            self._former = {**known, **more}
            self._save(REPLACED, self._former)

    def give(self, schema: RelationSchema) -> str:
        """Name a table of a relation; gives its key.

        Raises:
            LakeError: its name is another one's.
        """
        key, free = self._given(schema)
        self._save(TABLES, {**self.by_key, key: free})
        self._take(key, free)
        return key

    def give_each(self, schemas: Iterable[RelationSchema]) -> None:
        """Name tables of relations that have none, in one step; those that cannot have their names are left out."""
        given = False
        for schema in schemas:
            if self.has_relation(schema.oid):
                continue
            with suppress(LakeError):
                self._take(*self._given(schema))
                given = True
        if given:
            self._save(TABLES, self.by_key)

    def _given(self, schema: RelationSchema) -> tuple[str, str]:
        """Choose a key and a name for a table of a relation.

        Raises:
            LakeError: its name is another one's.
        """
        keys, name = self.keys(schema.oid), f"{schema.namespace}.{schema.name}"
        taken = self._key_of.keys() if self._numbers_taken else {self.by_key[key] for key in keys}
        free = next(name for name in chain([name], (f"{name}_{n}" for n in count(2))) if name not in taken)
        self._require_free(free, schema)
        return f"{schema.oid}.{len(keys) + 1}" if keys else str(schema.oid), free

    def _take(self, key: str, name: str) -> None:
        self.by_key[key], self._key_of[name] = name, key
        self._keys_of.setdefault(key.partition(".")[0], []).append(key)
        self._name_of.setdefault(self._identifier(name), name)

    def _require_free(self, name: str, schema: RelationSchema) -> None:
        """See that no other table has a name, in the directory or where the format keeps tables."""
        if self.has(name) or "/" in name:
            raise LakeNameError(
                f'"{name}" is another table now, of OID {schema.oid}, or no name of a directory',
                hint="land it to another place, or leave it out (--exclude)",
            )
        own = self._identifier(name)
        other = self._name_of.get(own)
        if other is not None:
            raise LakeNameError(
                f'tables "{other}" and "{name}" would both be {".".join(own)} in the catalog',
                file=str(self._place),
                hint="leave one of them out (--exclude), and land it elsewhere with another --namespace, or none",
            )

    def _load(self, name: str) -> dict[str, Any]:
        with errors_at(self._place):
            return load_object(self._own / name)

    def _save(self, name: str, value: dict[str, Any]) -> None:
        with errors_at(self._place):
            save_object(self._own / name, value)


def oids_by_name(own: Where) -> dict[str, int]:
    """Return the OIDs of the tables that land under names.

    Args:
        own: where the target keeps what is none of its tables.
    """
    known = load_object(own / TABLES)
    return {str(name): int(oid) for key, name in known.items() if (oid := _oid_of(key)) is not None}


def _oid_of(key: str) -> str | None:
    """Return the OID in a key; None where there is none."""
    first = key.partition(".")[0]
    return first if first.isdecimal() else None


def save_object(path: Where, value: dict[str, Any]) -> None:
    """Write a file of JSON that is whole or not there; what was there before is replaced."""
    put_file(path, [json.dumps(value).encode()])
