"""The index of a mirror's keys: a note of the files that are in it, and runs of their entries.

::

    keys.json      {"version", "key", "next", "files": {path: [number, rows]}, "runs": [[name, entries], ...]}
    ….run          see headwater.landing.key_index.runs

A file is in the index as a whole, or not at all. So it does not matter who has made a version of the table: files that
it has and the index has not are read (:meth:`KeyIndex.follow`); of files that are gone, what is found does not count,
and goes when runs are merged. Rows that are deleted in a file stay in the index until the file goes.

Runs are kept so that each is more than four times as large as all that came after it. Damage is noticed by checksums,
and answered by an index that is made anew. So nothing is synced to the disk.

Known gaps: files are read one after the other, in this process.
"""

from __future__ import annotations

import json
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.base.whole_files import write_whole
from headwater.landing.key_index.key_hashes import Hashes
from headwater.landing.key_index.runs import ENTRY, DamagedRunError, Entries, Run, in_order, merged, write_run

BYTES_A_ROW = 20
"""Of an index on the disk, at most, when it has followed; of small ones more."""

_VERSION = 1
_NOTE = "keys.json"
_TIMES = 4
_MADE_AT_ONCE = 1 << 21
"""Entries of a run that is made of files."""
_MOST_RUNS = 128
"""That are open at a time."""
_DEAD = 1 << 16
"""Entries of files that are gone, which do not matter."""


@dataclass(frozen=True)
class Candidates:
    """Rows of a file that may have keys that were sought.

    Attributes:
        rows: int64[n] positions in the file, ascending.
        hashes: uint64[n] numbers of their keys.
    """

    rows: NDArray[np.int64]
    hashes: Hashes

    def filtered(self, mask: NDArray[np.bool_]) -> Candidates:
        """Return those that a mask chooses."""
        return Candidates(self.rows[mask], self.hashes[mask])


@dataclass
class _Note:
    """The files that are in an index, by path with number and rows, and its runs, the oldest first."""

    files: dict[str, tuple[int, int]] = field(default_factory=dict)
    runs: list[tuple[str, int]] = field(default_factory=list)
    next: int = 0

    @property
    def entries(self) -> int:
        return sum(entries for _, entries in self.runs)

    @property
    def living(self) -> NDArray[np.uint32]:
        """Numbers of the files, ascending."""
        return np.array(sorted(number for number, _ in self.files.values()), np.uint32)


class KeyIndex:
    """An index, open.

    Args:
        place: its directory, which is made.
        key: what its hashes are of: names and types of columns. An index of another key is made anew.
        read: gives the hashes of the keys in a file, by its path.

    Raises:
        OSError: it cannot be read or written.
    """

    def __init__(self, place: Path, key: Sequence[tuple[str, str]], read: Callable[[str], Hashes]) -> None:
        self._place, self._key, self._read = place, [list(column) for column in key], read
        self._note = self._load()

    def follow(self, files: Mapping[str, int]) -> None:
        """Take in the files that a table has by now, and forget others.

        Args:
            files: how many rows each has, by paths.
        """
        try:
            self._follow(files)
        except DamagedRunError:
            self._forget()
            self._follow(files)

    def find(self, hashes: Hashes) -> dict[str, Candidates]:
        """Return the rows that may have keys, by paths of their files.

        Args:
            hashes: of the keys.
        """
        files = {path: rows for path, (_, rows) in self._note.files.items()}
        try:
            return self._find(np.unique(hashes))
        except DamagedRunError:
            self._forget()
            self._follow(files)
            return self._find(np.unique(hashes))

    def _find(self, hashes: Hashes) -> dict[str, Candidates]:
        with ExitStack() as stack:
            parts = [run.find(hashes) for run in self._opened(stack, self._note.runs)]
        entries = np.concatenate([np.zeros(0, ENTRY), *parts])
        entries = entries[np.lexsort((entries["row"], entries["file"]))]
        paths = {number: path for path, (number, _) in self._note.files.items()}
        numbers, starts = np.unique(entries["file"], return_index=True)
        bounds = pairwise([*starts.tolist(), len(entries)])
        return {
            paths[number]: Candidates(entries["row"][start:end].astype(np.int64), entries["hash"][start:end])
            for number, (start, end) in zip(numbers.tolist(), bounds, strict=True)
            if number in paths
        }

    def _follow(self, files: Mapping[str, int]) -> None:
        before = dict(self._note.files)
        self._note.files = {path: known for path, known in before.items() if files.get(path) == known[1]}
        new = [path for path in files if path not in self._note.files]
        if not new and self._note.files == before:
            return
        for entries in self._entries(new):
            self._add([entries])
            if len(self._note.runs) > _MOST_RUNS:
                self._merge()
        self._merge()
        self._save()

    def _entries(self, paths: Sequence[str]) -> Iterator[Entries]:
        """Yield the entries of files, in order as many as make a run."""
        waiting: list[Entries] = []
        for path in paths:
            hashes = self._read(path)
            entries = np.zeros(len(hashes), ENTRY)
            entries["hash"], entries["file"], entries["row"] = hashes, self._note.next, np.arange(len(hashes))
            self._note.files[path] = self._note.next, len(hashes)
            self._note.next += 1
            waiting.append(entries)
            if sum(map(len, waiting)) >= _MADE_AT_ONCE:
                yield in_order(np.concatenate(waiting))
                waiting = []
        if waiting:
            yield in_order(np.concatenate(waiting))

    def _add(self, pieces: Sequence[Entries] | Iterator[Entries]) -> None:
        name = f"{secrets.token_hex(8)}.run"
        self._place.mkdir(parents=True, exist_ok=True)
        self._note.runs.append((name, write_run(self._place / name, pieces)))

    def _merge(self) -> None:
        """Merge runs until each is large beside those after it; all, where much is of files that are gone."""
        runs, rows = self._note.runs, sum(rows for _, rows in self._note.files.values())
        has_dead = self._note.entries * ENTRY.itemsize > rows * (BYTES_A_ROW - 1) + _DEAD * ENTRY.itemsize
        first, size = len(runs) - 1, 0
        while first >= 0 and (has_dead or size == 0 or runs[first][1] <= _TIMES * size):
            size += runs[first][1]
            first -= 1
        chosen = runs[first + 1 :]
        if len(chosen) < 2 and not has_dead:
            return
        with ExitStack() as stack:
            pieces = merged(list(self._opened(stack, chosen)), self._note.living)
            self._note.runs = runs[: first + 1]
            self._add(pieces)

    def _opened(self, stack: ExitStack, runs: Sequence[tuple[str, int]]) -> Iterator[Run]:
        for name, entries in runs:
            try:
                run = stack.enter_context(Run(self._place / name))
            except FileNotFoundError:
                raise DamagedRunError(f"{name} is lost") from None
            if run.entries != entries:
                raise DamagedRunError(f"{name} has {run.entries} entries, not {entries}")
            yield run

    def _forget(self) -> None:
        """Begin anew."""
        shutil.rmtree(self._place, ignore_errors=True)
        self._note = _Note()

    def _load(self) -> _Note:
        try:
            known = json.loads((self._place / _NOTE).read_text())
            if (known["version"], known["key"]) == (_VERSION, self._key):
                files = {path: (int(number), int(rows)) for path, (number, rows) in known["files"].items()}
                return _Note(files, [(str(name), int(entries)) for name, entries in known["runs"]], int(known["next"]))
        except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
            pass
        self._forget()
        return self._note

    def _save(self) -> None:
        note: dict[str, Any] = {
            "version": _VERSION,
            "key": self._key,
            "next": self._note.next,
            "files": self._note.files,
            "runs": self._note.runs,
        }
        self._place.mkdir(parents=True, exist_ok=True)
        write_whole(self._place / _NOTE, [json.dumps(note).encode()], is_lasting=False)
        names = {name for name, _ in self._note.runs}
        for path in self._place.glob("*.run"):
            if path.name not in names:
                path.unlink(missing_ok=True)
