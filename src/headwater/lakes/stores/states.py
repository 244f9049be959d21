"""States in a folder, each in a file named after its LSN, of which there are a few at most."""

from __future__ import annotations

from collections.abc import Iterable

from headwater.errors import SlotError
from headwater.lakes.stores.places import StorePath, Where, names_in, put_file, read_file, remove_file
from headwater.slots.kept_state import KeptState, file_name, find_state, keep_state, lsn_of_name
from headwater.slots.value_file import value_of, value_pieces

_NEWEST = (1 << 63) - 1


def keep_state_in(folder: Where, kept_state: KeptState) -> None:
    """Write a state.

    Raises:
        SlotError: it cannot be written.
        LakeError: likewise, in a store.
    """
    if isinstance(folder, StorePath):
        put_file(folder / file_name(kept_state.state.lsn), value_pieces(kept_state))
    else:
        keep_state(folder, kept_state)


def kept_state_at(path: Where) -> KeptState:
    """Read a state.

    Raises:
        SlotError: it is damaged, or not there.
        LakeError: it cannot be read in a store.
    """
    if not isinstance(path, StorePath):
        return find_state(path, None)
    raw = read_file(path)
    if raw is None:
        raise SlotError("the state is not there", file=str(path))
    return value_of(bytearray(raw), KeptState, str(path))


def newest_state(folder: Where) -> KeptState | None:
    """Return the state of the greatest LSN; None for none. Raises as :func:`kept_state_at`."""
    if not isinstance(folder, StorePath):
        return find_state(folder, _NEWEST) if any(folder.glob("*.state")) else None
    lsns = [lsn for name in names_in(folder) if (lsn := lsn_of_name(name)) is not None]
    return kept_state_at(folder / file_name(max(lsns))) if lsns else None


def remove_states(folder: Where, needed: Iterable[int]) -> None:
    """Remove all states but those of some LSNs.

    Raises:
        OSError: one cannot be removed.
        LakeError: likewise, in a store.
    """
    names = {file_name(lsn) for lsn in needed}
    for name in names_in(folder):
        if name.endswith(".state") and name not in names:
            remove_file(folder / name)
