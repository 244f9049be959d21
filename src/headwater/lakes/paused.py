"""Tables of a target that land no further while the others do: why, where they stand, and the state to go on from.

::

    shop/_headwater/paused.json                        the tables, by the OIDs of the source's
    shop/_headwater/paused/00000000-01552C90.state     the state where tables stand; one for all that stand there

A table is noted before anything of the window lands that it cannot take in. So a run that is killed at any moment
leaves it out from there on, or has not come to it yet. A state is written before it is named, and goes when no table
stands there any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from headwater.errors import LakeError
from headwater.lakes.bound_names import save_object
from headwater.lakes.lake_table import errors_at
from headwater.lakes.landing_target import load_object
from headwater.lakes.stores.places import Where, is_there, make_folder
from headwater.lakes.stores.states import keep_state_in, kept_state_at, remove_states
from headwater.pg.lsn import Lsn
from headwater.slots.kept_state import KeptState, file_name

NAME = "paused.json"
_NEVER = datetime.fromtimestamp(0, UTC)

RELOADED = (
    "let the others go on (--on-table-error pause), then give it the rows of a backup of after that (headwater lake "
    "reload)"
)
"""What helps a table that its changes alone do not bring further."""
RELOADED_OR_CHANGES = f"{RELOADED}, or land its changes only (--mode changelog)"

LANDING, PAUSED, EXCLUDED = "landing", "paused", "excluded"
"""States of a table: it lands, it cannot go on, or the user has excluded it."""


@dataclass(frozen=True)
class PausedTable:
    """A table that lands no further.

    Attributes:
        oid: of the source's table.
        name: in the lake; the source's where it has none there.
        reason: why, in one line.
        is_excluded: because the user has said so.
        lsn: where in the WAL the reason lies; None if that is not known.
        stands_at: it has everything of transactions that committed before that LSN, of which the state is kept; None
            where it may lack rows that it had before its first changes.
        since: when it was paused; with a time zone.
    """

    oid: int
    name: str
    reason: str
    is_excluded: bool = False
    lsn: int | None = None
    stands_at: int | None = None
    since: datetime = _NEVER

    @property
    def state(self) -> str:
        """One of :data:`PAUSED` and :data:`EXCLUDED`."""
        return EXCLUDED if self.is_excluded else PAUSED


class PausedTables:
    """The paused tables of a target, as who lands writes them.

    Args:
        directory: of what is the target's own.

    Raises:
        LakeError: they are damaged.
    """

    def __init__(self, directory: Where) -> None:
        self._directory = directory
        self._tables = paused_tables(directory)

    @property
    def tables(self) -> Mapping[int, PausedTable]:
        """The tables, by their OIDs."""
        return self._tables

    @property
    def oids(self) -> frozenset[int]:
        """The OIDs of all paused tables."""
        return frozenset(self._tables)

    @property
    def stand_at(self) -> dict[str, int]:
        """The LSNs where tables stand, by their names; 0 for one that may lack rows."""
        return stand_at(self._tables.values())

    def add(self, table: PausedTable, kept_state: KeptState | None) -> None:
        """Note a table, in place of what is noted of it.

        Args:
            table: it; kept_state: where it stands, None for none.

        Raises:
            LakeError: it cannot be written.
            SlotError: likewise.
        """
        if kept_state is not None and not is_there(self._path(kept_state.state.lsn)):
            with errors_at(self._states):
                make_folder(self._states)
            keep_state_in(self._states, kept_state)
        noted = replace(table, stands_at=None if kept_state is None else kept_state.state.lsn, since=datetime.now(UTC))
        self._save({**self._tables, table.oid: noted})

    def say(self, oid: int, reason: str) -> None:
        """Note another reason, of a table that the user does not exclude any more.

        Raises:
            LakeError: it cannot be written.
        """
        self._save({**self._tables, oid: replace(self._tables[oid], reason=reason, is_excluded=False)})

    def remove(self, oids: Iterable[int]) -> None:
        """Forget tables, which land again.

        Raises:
            LakeError: it cannot be written.
        """
        gone = set(oids)
        self._save({oid: table for oid, table in self._tables.items() if oid not in gone})

    def kept_state(self, table: PausedTable) -> KeptState | None:
        """Return the state where a table stands; None for none.

        Raises:
            SlotError: it is damaged.
        """
        return None if table.stands_at is None else kept_state_at(self._path(table.stands_at))

    @property
    def _states(self) -> Where:
        return self._directory / "paused"

    def _path(self, lsn: int) -> Where:
        return self._states / file_name(lsn)

    def _save(self, tables: dict[int, PausedTable]) -> None:
        if tables == self._tables:
            return
        with errors_at(self._directory):
            save_object(self._directory / NAME, {str(oid): _written(table) for oid, table in tables.items()})
            remove_states(self._states, [table.stands_at for table in tables.values() if table.stands_at is not None])
        self._tables = tables


def stand_at(tables: Iterable[PausedTable]) -> dict[str, int]:
    """Tell where tables stand, by their names; of several of one name the first place, 0 for one that may lack rows."""
    places: dict[str, int] = {}
    for table in tables:
        places[table.name] = min(places.get(table.name, table.stands_at or 0), table.stands_at or 0)
    return places


def paused_tables(directory: Where) -> dict[int, PausedTable]:
    """Return the paused tables of a target, by their OIDs.

    Args:
        directory: of what is the target's own.

    Raises:
        LakeError: what is noted of them is damaged.
    """
    path = directory / NAME
    with errors_at(directory):
        known = load_object(path)
    try:
        return {int(oid): _read(int(oid), value) for oid, value in known.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise LakeError(f"damaged: {error}", file=str(path)) from None


def _written(table: PausedTable) -> dict[str, Any]:
    return {
        "name": table.name,
        "state": table.state,
        "reason": table.reason,
        "lsn": lsn_text(table.lsn),
        "stands_at": lsn_text(table.stands_at),
        "since": table.since.isoformat(),
    }


def _read(oid: int, value: Mapping[str, Any]) -> PausedTable:
    lsn, stands = (None if value[name] is None else int(Lsn.parse(value[name])) for name in ("lsn", "stands_at"))
    since = datetime.fromisoformat(value["since"])
    return PausedTable(
        oid=oid,
        name=str(value["name"]),
        reason=str(value["reason"]),
        is_excluded=value["state"] == EXCLUDED,
        lsn=lsn,
        stands_at=stands,
        since=since,
    )


def lsn_text(lsn: int | None) -> str | None:
    """Return an LSN as the server prints it; None for None."""
    return None if lsn is None else str(Lsn(lsn))
