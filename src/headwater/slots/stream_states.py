"""The states of a stream at offsets that it may have to begin at again, with what its plugin remembers.

Kept in memory; with a directory also there, one file each (:mod:`headwater.slots.kept_state`), in a directory for each
session, named after the LSN where the session began. A file is whole or not there.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from headwater.base.system_errors import errors_as
from headwater.errors import SlotError
from headwater.slots.kept_state import KeptState, file_name, keep_state, lsn_of_name
from headwater.slots.value_file import load_value

_SUFFIX = ".state"


class StreamStates:
    """States of one stream, by (where its session began, LSN).

    Args:
        directory: where they outlive the process; made when it is needed. None for memory alone.
    """

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        self._kept: dict[tuple[int, int], KeptState] = {}

    def keep(self, since: int, kept_state: KeptState) -> None:
        """Keep a state.

        Raises:
            SlotError: it cannot be written.
        """
        if self._directory is not None:
            session = self._directory / _session_name(since)
            with errors_as(SlotError, "make directory", session):
                session.mkdir(mode=0o700, parents=True, exist_ok=True)
            keep_state(session, kept_state)
        self._kept[since, kept_state.state.lsn] = kept_state

    def find(self, since: int, lsn: int) -> KeptState | None:
        """Return the state of a session at an LSN, None if there is none.

        Raises:
            SlotError: its file is damaged.
        """
        if (since, lsn) not in self._kept and self._directory is not None:
            path = self._directory / _session_name(since) / file_name(lsn)
            if path.is_file():
                self._kept[since, lsn] = load_value(path, KeptState)
        return self._kept.get((since, lsn))

    def newest(self) -> tuple[int, KeptState] | None:
        """Return the state at the highest LSN, and where its session began; None if there is none at all."""
        keys = [*self._kept, *((since, lsn) for since, lsn, _ in self._files())]
        if not keys:
            return None
        since, lsn = max(keys, key=lambda key: (key[1], key[0]))
        state = self.find(since, lsn)
        return None if state is None else (since, state)

    def forget_before(self, lsn: int) -> None:
        """Remove the states before an LSN, of whatever session.

        Raises:
            SlotError: a file does not go.
        """
        self._kept = {place: state for place, state in self._kept.items() if place[1] >= lsn}
        with errors_as(SlotError, "remove", self._directory):
            for _, lsn_of_file, path in list(self._files()):
                if lsn_of_file < lsn:
                    path.unlink(missing_ok=True)
            for session in self._sessions():
                if not any(session.iterdir()):
                    session.rmdir()

    def _sessions(self) -> list[Path]:
        if self._directory is None or not self._directory.is_dir():
            return []
        return [path for path in self._directory.iterdir() if _began(path) is not None]

    def _files(self) -> Iterator[tuple[int, int, Path]]:
        for session in self._sessions():
            since = _began(session)
            for path in session.iterdir():
                lsn = lsn_of_name(path.name)
                if since is not None and lsn is not None:
                    yield since, lsn, path


def _session_name(since: int) -> str:
    return file_name(since).removesuffix(_SUFFIX)


def _began(session: Path) -> int | None:
    return lsn_of_name(session.name + _SUFFIX)
