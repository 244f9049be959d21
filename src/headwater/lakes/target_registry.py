"""The notes of a target, in files of JSON that are whole or not there.

::

    target.json         what the tables are made of, of which source they are, and which of its tables land
    detached.json       OIDs of partitions that took rows with them
    table_settings.json by OIDs, settings of tables that have some, and which columns they are of
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headwater.errors import LakeError
from headwater.lakes.bound_names import save_object
from headwater.lakes.catalogs.table_places import OF_TARGET
from headwater.lakes.lake_table import errors_at
from headwater.lakes.landing_target import (
    ITS_OWN,
    NEVER,
    PYTHON_IMPL,
    TABLE_SETTINGS,
    LandingTarget,
    load_object,
    own_directory,
)
from headwater.lakes.settings.table_settings import fingerprint
from headwater.lakes.stores.places import StorePath
from headwater.pg.lsn import Lsn
from headwater.plugins.table_patterns import TablePatterns
from headwater.rows.columns.column_types import AS_STRING

_TARGET, _DETACHED, _SETTINGS = "target.json", "detached.json", "table_settings.json"
_SOURCE, _TABLES, _ADDING = "source", "tables", "adding"
_SECRET = "mask-secret"


@dataclass(frozen=True)
class Adding:
    """Tables that are being added to those of a target.

    Attributes:
        tables: which land then.
        lsn: where the target has come to; their rows are those that they had there.
    """

    tables: TablePatterns
    lsn: int


@dataclass(frozen=True)
class TableNote:
    """The settings of a table that lands.

    Attributes:
        table: its name in the source when it landed first, by which its settings are found.
        settings: those that stay (:attr:`~headwater.lakes.settings.table_settings.TableSettings.fixed`).
        columns: numbers of columns, by the names that settings have for them.
        arranging: numbers of the columns that partition, sort or identify rows, by these names.
    """

    table: str
    settings: Mapping[str, Any]
    columns: Mapping[str, tuple[int, ...]]
    arranging: Mapping[str, int] = field(default_factory=dict)


class TargetRegistry:
    """The notes of a target. Each method raises LakeError where a note cannot be read or written.

    Args:
        target: the target.
    """

    def __init__(self, target: LandingTarget) -> None:
        self._target = target
        self._own = own_directory(target.where)
        self._known: dict[str, dict[str, Any]] = {}
        self._tables: dict[int, TableNote] | None = None

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
        self._require("table-location", target.table_location, OF_TARGET)

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

    @property
    def table_notes(self) -> Mapping[int, TableNote]:
        """The settings that tables have landed with, by OIDs."""
        if self._tables is None:
            noted = self._load(_SETTINGS)
            self._tables = {int(oid): _table_note(note) for oid, note in noted.items()}
        return self._tables

    def table_note(self, oid: int) -> TableNote | None:
        """Return the settings that a table has landed with; None for none."""
        return self.table_notes.get(oid)

    def mode_of(self, oid: int | None) -> str:
        """Return what is kept of a table that has landed."""
        note = None if oid is None else self.table_note(oid)
        return str((note.settings if note is not None else {}).get("mode", self._target.mode))

    def note_table(self, oid: int, note: TableNote) -> None:
        """Note with which settings a table lands."""
        if self.table_notes.get(oid) != note:
            self._tables = {**self.table_notes, oid: note}
            self._save(_SETTINGS, {str(oid): _note_object(note) for oid, note in self._tables.items()})

    def forget_table(self, oid: int) -> None:
        """Forget the settings of a table of which nothing has landed."""
        self._tables = {known: note for known, note in self.table_notes.items() if known != oid}
        self._save(_SETTINGS, {str(known): _note_object(note) for known, note in self._tables.items()})

    def note_entries(self) -> None:
        """Note the settings that the target is given, for who lands there without them; of the secret only which."""
        entries = [entry.as_object for entry in self._target.tables]
        noted, secret = self._load(_TARGET), fingerprint(self._target.mask_secret)
        hashed = {_SECRET: noted.get(_SECRET, secret)} if any(entry.has_hashes for entry in self._target.tables) else {}
        newer = {**noted, TABLE_SETTINGS: entries} | hashed
        if newer != noted and (entries or TABLE_SETTINGS in noted):
            self._save(_TARGET, newer)

    def require_secret(self, secret: bytes) -> None:
        """See that masks are made with the same secret as before.

        Raises:
            LakeError: it is another one.
        """
        noted, own = self._load(_TARGET), fingerprint(secret)
        if any(entry.has_hashes for entry in self._target.tables) and noted.get(_SECRET, own) != own:
            raise LakeError(
                "masks are made with another secret than before",
                file=str(self._target.where),
                hint="give the same --mask-secret-file or HEADWATER_MASK_SECRET, or land to another place",
            )

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


def _table_note(note: Mapping[str, Any]) -> TableNote:
    columns = {str(name): tuple(map(int, numbers)) for name, numbers in note["columns"].items()}
    arranging = {str(name): int(number) for name, number in note.get("arranging", {}).items()}
    return TableNote(str(note["table"]), note["settings"], columns, arranging)


def _note_object(note: TableNote) -> dict[str, Any]:
    columns = {name: list(numbers) for name, numbers in note.columns.items()}
    arranging = {"arranging": dict(note.arranging)} if note.arranging else {}
    return {"table": note.table, "settings": dict(note.settings), "columns": columns, **arranging}
