"""The log of a target: how far all of its tables have come together, window by window, and in which of their versions.

``_headwater/resolved.jsonl`` has a line for each window that all tables have. In it are its LSN and the latest commit
time up to there. It has the versions of the tables that have others than in the line before. It also says which tables
are paused, each with where it stands. So tables can be read as of one LSN, or of one moment, whatever became of them
since. A line is written after the commits: a run that is killed in between writes it when it is begun again. A line
that was cut off is none.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from headwater.errors import LakeError
from headwater.lakes.lake_table import errors_at
from headwater.lakes.stores.log_lines import lines_at, log_lines
from headwater.lakes.stores.places import Where
from headwater.pg.lsn import Lsn

NAME = "resolved.jsonl"


@dataclass(frozen=True)
class Resolved:
    """Tables of a target that belong together.

    Attributes:
        lsn: they have everything of transactions that committed before it, and nothing else.
        commit_time: of the latest of these transactions; None for none.
        written: when it was told.
        tables: versions by names: of Delta, ids of snapshots of Iceberg, numbers of manifests of Parquet.
        paused: tables of which this is not so, by names, each with the LSN before which it has everything; 0 where it
            may lack rows that it had before its first changes.
    """

    lsn: int
    commit_time: datetime | None
    written: datetime
    tables: Mapping[str, int] = field(default_factory=dict)
    paused: Mapping[str, int] = field(default_factory=dict)

    def behind(
        self,
        lsn: int,
        commit_time: datetime | None,
        written: datetime,
        tables: Mapping[str, int],
        paused: Mapping[str, int],
    ) -> Resolved:
        """Return the versions that belong together when some tables have other ones."""
        times = [time for time in (self.commit_time, commit_time) if time is not None]
        return Resolved(lsn, max(times, default=None), written, {**self.tables, **tables}, paused)


NOTHING = Resolved(0, None, datetime.fromtimestamp(0, UTC))


class ResolvedLog:
    """The log, as who lands writes it.

    Args:
        directory: that it is in.

    Raises:
        LakeError: it is damaged.
    """

    def __init__(self, directory: Where) -> None:
        self._directory, self._path = directory, directory / NAME
        with errors_at(directory):
            self._lines = log_lines(self._path)
            self.last = next(reversed(list(_states(self._lines.tail(), self._path))), NOTHING)

    def add(self, lsn: int, commit_time: datetime | None, tables: Mapping[str, int], paused: Mapping[str, int]) -> None:
        """Note that all tables have come to an LSN, but for those that are paused.

        Args:
            lsn: it; commit_time: the latest up to there that is known; tables: versions of some of them.
            paused: see :class:`Resolved`.

        Raises:
            LakeError: it cannot be written.
        """
        resolved = self.last.behind(lsn, commit_time, datetime.now(UTC), tables, paused)
        changed = {name: version for name, version in tables.items() if self.last.tables.get(name) != version}
        with errors_at(self._path):
            self._lines.append(_line(resolved, changed), _line(resolved, resolved.tables))
        self.last = resolved

    def forget(self, older_than: datetime) -> None:
        """Leave out what was followed by something else before a moment.

        Args:
            older_than: the moment; with a time zone.

        Raises:
            LakeError: it cannot be written.
        """
        with errors_at(self._path):
            states = list(resolved_states(self._directory))
            first = max((at for at, state in enumerate(states) if state.written < older_than), default=0)
            if first:
                self._lines.replace(_lines(states[first:]))


def _lines(states: list[Resolved]) -> Iterator[bytes]:
    last = NOTHING
    for state in states:
        changed = {name: version for name, version in state.tables.items() if last.tables.get(name) != version}
        yield _line(state, changed)
        last = state


def _line(state: Resolved, changed: Mapping[str, int]) -> bytes:
    time = None if state.commit_time is None else state.commit_time.isoformat()
    line: dict[str, Any] = {"lsn": str(Lsn(state.lsn)), "commit_time": time, "written": state.written.isoformat()}
    paused = {"paused": {name: str(Lsn(lsn)) for name, lsn in state.paused.items()}} if state.paused else {}
    return json.dumps(line | {"tables": dict(changed)} | paused).encode() + b"\n"


def resolved_states(directory: Where) -> Iterator[Resolved]:
    """Yield the states in a log, in their order; none where there is no log.

    Raises:
        LakeError: it is damaged.
    """
    return _states(lines_at(directory / NAME), directory / NAME)


def _states(lines: Iterable[bytes], path: Where) -> Iterator[Resolved]:
    last = NOTHING
    for number, line in enumerate(lines, 1):
        try:
            last = _read(last, json.loads(line))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise LakeError(f"damaged in line {number}: {error}", file=str(path)) from None
        yield last


def _read(last: Resolved, line: Mapping[str, Any]) -> Resolved:
    time = line["commit_time"]
    tables = {str(name): int(version) for name, version in line["tables"].items()}
    moments = None if time is None else datetime.fromisoformat(time), datetime.fromisoformat(line["written"])
    paused = {str(name): int(Lsn.parse(lsn)) for name, lsn in line.get("paused", {}).items()}
    return last.behind(Lsn.parse(line["lsn"]), *moments, tables, paused)


def resolved_at(directory: Where, lsn: int | None = None, time: datetime | None = None) -> Resolved:
    """Return the last state that tables belong together in, or the last one up to somewhere.

    Args:
        directory: the log's.
        lsn: no later than that.
        time: of which no transaction has committed later; with a time zone.

    Raises:
        LakeError: there is none.
    """
    last = None
    for state in resolved_states(directory):
        if lsn is not None and state.lsn > lsn:
            break
        if time is not None and state.commit_time is not None and state.commit_time > time:
            break
        last = state
    if last is None:
        until = f" up to {time if lsn is None else Lsn(lsn)}" if (lsn, time) != (None, None) else ""
        raise LakeError(f"nothing has been resolved{until}", file=str(directory / NAME))
    return last
