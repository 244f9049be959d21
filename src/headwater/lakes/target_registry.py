"""The notes of a target, in files of JSON that are whole or not there.

::

    target.json     what the tables are made of, of which source they are, and which of its tables land
    detached.json   OIDs of partitions that took rows with them
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from headwater.errors import LakeError
from headwater.lakes.bound_names import save_object
from headwater.lakes.lake_table import errors_at
from headwater.lakes.landing_target import ITS_OWN, NEVER, PYTHON_IMPL, LandingTarget, load_object, own_directory
from headwater.lakes.stores.places import StorePath
from headwater.pg.lsn import Lsn
from headwater.plugins.table_patterns import TablePatterns
from headwater.rows.columns.column_types import AS_STRING

_TARGET, _DETACHED = "target.json", "detached.json"
_SOURCE, _TABLES, _ADDING = "source", "tables", "adding"


@dataclass(frozen=True)
class Adding:
    """Tables that are being added to those of a target.

    Attributes:
        tables: which land then.
        lsn: where the target has come to; their rows are those that they had there.
    """

    tables: TablePatterns
    lsn: int


class TargetRegistry:
    """The notes of a target. Each method raises LakeError where a note cannot be read or written.

    Args:
        target: the target.
    """

    def __init__(self, target: LandingTarget) -> None:
        self._target = target
        self._own = own_directory(target.where)
        self._known: dict[str, dict[str, Any]] = {}

    def require_settings(self) -> None:
        """See that the tables are made as the target wants them, or note how they are made.

        Raises:
            LakeError: they are made otherwise.
        """
        target = self._target
        self._require("format", target.format)
        self._require("mode", target.mode, "changelog")
        self._require("catalog", target.iceberg_catalog or ITS_OWN, ITS_OWN)
        self._require("namespace", target.namespace or ITS_OWN, ITS_OWN)
        self._require("ducklake-catalog", target.ducklake_catalog or ITS_OWN, ITS_OWN)
        self._require("catalog-impl", target.catalog_impl, PYTHON_IMPL)
        self._require("snapshot", target.snapshot, NEVER)
        self._require("jsonb", target.jsonb, AS_STRING)

    def require_source(self, source: str) -> None:
        """See that the target's tables are of a database of a cluster, or note it.

        Args:
            source: see :class:`~headwater.lakes.lake_table.Landed`.

        Raises:
            LakeError: they are of another one.
        """
        self._require(_SOURCE, source)

    @property
    def source(self) -> str:
        """The database that the tables are of; empty where nothing has landed yet."""
        return str(self._load(_TARGET).get(_SOURCE, ""))

    @property
    def chosen(self) -> TablePatterns | None:
        """The tables that land; None where nothing has landed yet."""
        patterns = self._load(_TARGET).get(_TABLES)
        return None if patterns is None else TablePatterns.of_text(str(patterns))

    @property
    def adding(self) -> Adding | None:
        """The tables that a run has begun to add; None for none."""
        note = self._load(_TARGET).get(_ADDING)
        return None if note is None else Adding(TablePatterns.of_text(note["tables"]), int(Lsn.parse(note["lsn"])))

    def choose(self, tables: TablePatterns) -> None:
        """Note which tables land from here on; those that were being added are there."""
        self._note_choice({_TABLES: tables.as_text})

    def note_adding(self, adding: Adding) -> None:
        """Note that other tables are about to be added: until they are there, nothing else lands."""
        self._note_choice({_ADDING: {"tables": adding.tables.as_text, "lsn": str(Lsn(adding.lsn))}})

    def note_detached(self, oids: Iterable[int]) -> None:
        """Note partitions of mirrored tables that have taken rows with them."""
        noted = self._load(_DETACHED)
        added = {str(oid): True for oid in oids if str(oid) not in noted}
        if added:
            self._save(_DETACHED, noted | added)

    def forget_detached(self, oid: int) -> None:
        """Forget a former partition, whose rows are in a mirror of its own by now."""
        noted = self._load(_DETACHED)
        if noted.pop(str(oid), None) is not None:
            self._save(_DETACHED, noted)

    def is_detached(self, oid: int) -> bool:
        """Tell whether a relation is noted by :meth:`note_detached`."""
        return str(oid) in self._load(_DETACHED)

    def _note_choice(self, choice: dict[str, Any]) -> None:
        noted = self._load(_TARGET)
        chosen = {name: value for name, value in noted.items() if name != _ADDING} | choice
        if chosen != noted:
            self._save(_TARGET, chosen)

    def _require(self, setting: str, value: str, default: str | None = None) -> None:
        """See that a setting is as it was, or note it; a target from before it was noted has `default`."""
        noted = self._load(_TARGET)
        if default is not None and _SOURCE in noted:
            noted.setdefault(setting, default)
        if noted.get(setting, value) != value:
            raise LakeError(
                f"the tables have {setting} {noted[setting]}, not {value}",
                file=str(self._target.where),
                hint="land to another place",
            )
        if setting not in noted:
            self._save(_TARGET, {**noted, setting: value})

    def _load(self, name: str) -> dict[str, Any]:
        """Read a note; of a store once, as who holds the target alone writes them."""
        if name in self._known:
            return dict(self._known[name])
        with errors_at(self._target.where):
            note = load_object(self._own / name)
        if isinstance(self._own, StorePath):
            self._known[name] = dict(note)
        return note

    def _save(self, name: str, value: dict[str, Any]) -> None:
        with errors_at(self._target.where):
            save_object(self._own / name, value)
        if isinstance(self._own, StorePath):
            self._known[name] = dict(value)
