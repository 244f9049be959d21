"""The note of a target that lands from a slot: which slot, and how far it was read.

::

    slot.json     the slot's name, the publications, and the LSN up to which all tables have everything

It stands for the state that a target has which lands from WAL: a slot has that itself. The slot is confirmed only up to
what is written here, so what the server has forgotten, all tables have. In a store the note is written on the condition
that it is the one that was read: a run that was stopped, and goes on beside another one, confirms nothing.
"""

from __future__ import annotations

from datetime import datetime

from headwater.errors import LakeError
from headwater.lakes.bound_names import save_object
from headwater.lakes.lake_table import errors_at
from headwater.lakes.landing_target import LandingTarget, load_object, own_directory
from headwater.lakes.stores.places import is_there
from headwater.lakes.target_directory import Lake
from headwater.pg.lsn import Lsn
from headwater.remote_slots.slot_address import SlotAddress

_NOTE = "slot.json"
_LOG_BYTES = 1 << 20


def lands_from_slot(target: LandingTarget) -> bool:
    """Tell whether a target lands from a slot."""
    return is_there(own_directory(target.where) / _NOTE)


def require_no_slot(target: LandingTarget) -> None:
    """See that a target does not land from a slot, where it is to land from WAL.

    Raises:
        LakeError: it does.
    """
    if lands_from_slot(target):
        raise LakeError(
            "the tables land from a slot, which numbers columns otherwise than the catalog",
            file=str(target.where),
            hint="go on with the slot's address (--wal), or land to another place",
        )


class SlotProgress:
    """The progress of a target that lands from a slot.

    Args:
        lake: the target; address: the slot.

    Raises:
        LakeError: the target lands from WAL, or from another slot; or its note cannot be read.
    """

    def __init__(self, lake: Lake, address: SlotAddress) -> None:
        self._lake, self._address = lake, address
        self._path = own_directory(lake.target.where) / _NOTE
        with errors_at(lake.target.where):
            note = load_object(self._path)
        if not note and lake.registry.chosen is not None:
            raise LakeError(
                "the tables have landed from WAL, and columns of a slot have no numbers to go on by",
                file=str(lake.target.where),
                hint="land the slot's to another place",
            )
        if note and (note["slot"], note["publications"]) != (address.slot, sorted(address.publications)):
            raise LakeError(
                f'the tables land from the slot "{note["slot"]}" and publications {", ".join(note["publications"])}',
                file=str(lake.target.where),
                hint="land from another slot, or of other publications, to another place",
            )
        self.reached: int | None = int(Lsn.parse(note["reached"])) if note else None
        self._logged, self._commits = -1, -1

    def begin(self, lsn: int) -> None:
        """Note that the target lands from the slot, from an LSN on."""
        if self.reached is None:
            self._note(lsn)

    def resolve(self, lsn: int, commit_time: datetime | None) -> None:
        """Note that all tables have everything up to an LSN.

        Args:
            lsn: it; commit_time: the latest since the call before; None for none.

        Raises:
            LakeError: it cannot be written.
        """
        commits = self._lake.tables.commits
        if commits != self._commits or lsn // _LOG_BYTES != self._logged // _LOG_BYTES:
            self._lake.progress.note_resolved(lsn, commit_time)
            self._logged, self._commits = lsn, commits
        self._note(lsn)

    def _note(self, lsn: int) -> None:
        publications = sorted(self._address.publications)
        with errors_at(self._lake.target.where):
            save_object(
                self._path, {"slot": self._address.slot, "publications": publications, "reached": str(Lsn(lsn))}
            )
        self.reached = lsn
