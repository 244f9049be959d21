"""A state in a file of its own, so that what follows can be decoded without what came before, and without a catalog.

A directory of them has one file for each LSN, named after it; the order of names is the order of LSNs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from headwater.errors import SlotError
from headwater.pg.lsn import Lsn
from headwater.reorder.commits.state import State
from headwater.slots.value_file import load_value, save_value

_NAME = re.compile(r"([0-9A-F]{8})-([0-9A-F]{8})\.state")


@dataclass(frozen=True)
class KeptState:
    """A state, and what else of the catalog's files decoding needs.

    Attributes:
        state: it.
        server_settings: settings that values are printed under, as the server's configuration had them.
    """

    state: State
    server_settings: tuple[tuple[str, str], ...] = ()


def keep_state(directory: Path, kept_state: KeptState) -> Path:
    """Write a state into a directory.

    Raises:
        SlotError: it cannot be written.
    """
    path = directory / file_name(kept_state.state.lsn)
    save_value(path, kept_state)
    return path


def file_name(lsn: int) -> str:
    """Name of the file of the state at an LSN."""
    return f"{lsn >> 32:08X}-{lsn & 0xFFFFFFFF:08X}.state"


def lsn_of_name(name: str) -> int | None:
    """Return the LSN that a file is named after; None for a file that is no state's."""
    match = _NAME.fullmatch(name)
    return None if match is None else int(match[1], 16) << 32 | int(match[2], 16)


def find_state(path: Path, start: int | None) -> KeptState:
    """Return a state to begin with.

    Args:
        path: its file, or a directory of states.
        start: of a directory, the newest state at or before this LSN is taken; None for the oldest.

    Raises:
        SlotError: there is none, or it is damaged.
    """
    if not path.is_dir():
        return load_value(path, KeptState)
    states = sorted((lsn, name) for name in path.iterdir() if (lsn := lsn_of_name(name.name)) is not None)
    fitting = [name for lsn, name in states if start is None or lsn <= start]
    if not states:
        raise SlotError("no kept state in directory", file=str(path), hint="headwater decode --keep-states makes them")
    if not fitting:
        first = Lsn(states[0][0])
        raise SlotError(f"no kept state at or before {Lsn(start or 0)}, the first is at {first}", file=str(path))
    return load_value(fitting[0] if start is None else fitting[-1], KeptState)
