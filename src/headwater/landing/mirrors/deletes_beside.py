"""Merges that delete rows beside a mirror's files (merge-on-read): which rows, an index of keys says.

In: a mirror of whose keys there are hashes, and its staged changes. Out: merges of the files that may have rows with
keys of these, each with where in it they may be. New rows go to files of their own; nothing is rewritten.

What concerns a mirror as a whole, or rows that no key tells, is merged as ever, by files: so are changes that are as
many as half of its rows. A mirror that has been rewritten so, the index follows at the next window.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headwater.lakes.deletes.deleted_rows import Positions
from headwater.lakes.history_rows import TO_LSN, in_columns, read_rows, schema_of
from headwater.lakes.lake_table import DataFile, errors_at
from headwater.landing.key_index.index import Candidates, KeyIndex
from headwater.landing.key_index.key_hashes import Hashes, has_hash, key_hashes
from headwater.landing.mirrors.candidate_rows import rows_at
from headwater.landing.mirrors.landed_files import Landing, Merging, Written
from headwater.landing.mirrors.merge_plan import Group, groups, is_closed
from headwater.landing.mirrors.merge_task import Merge, Merged, MergedFile
from headwater.landing.mirrors.staged_changes import in_range, staged_rows

_WHOLE = Group(None, None, ())

_FEWEST = 2
"""Times as many rows as changes: where there are fewer, files are rewritten."""


def can_delete_beside(landing: Landing, files: Sequence[Written]) -> bool:
    """Tell whether rows that changes end are to be deleted beside a mirror's files.

    Args:
        landing: the mirror's; files: that tasks have staged.
    """
    form, table = landing.mirror, landing.table
    assert form is not None
    if not table.deletes_beside or not files or form.replaces is not None or form.is_partition:
        return False
    if form.gone or form.rewrites_all or form.rewritten or any(file.kills for file in files):
        return False
    if form.identity.is_whole or (not form.key and not form.identity.is_none):
        return False
    if not all(has_hash(form.schema.field(name).type) for name in form.key):
        return False
    return _FEWEST * sum(file.file.rows for file in files) <= sum(file.left for file in valid_files(landing).values())


def valid_files(landing: Landing) -> dict[str, DataFile]:
    """Return a mirror's files, by their paths; of a history those that have versions which have not ended."""
    assert landing.mirror is not None
    files, has_history = landing.table.files, landing.mirror.has_history
    return {path: file for path, file in files.items() if not (has_history and is_closed(file))}


def merges_beside(landing: Landing, files: Sequence[Written], merging: Merging) -> Iterator[Merge]:
    """Yield the tasks of a mirror.

    Args:
        landing, files: see :func:`can_delete_beside`; merging: how merges are run.

    Raises:
        LakeError: the index cannot be written, or a file not be read; or what says which rows are deleted is damaged.
    """
    form = landing.mirror
    assert form is not None
    for group, candidates in _candidates(landing, files, merging) if form.key else [(_WHOLE, {})]:
        yield Merge(
            table=landing.number,
            form=form,
            changes=_paths(landing, files),
            above=group.above,
            upto=group.upto,
            files=tuple(_merged_files(landing, candidates)),
            small=frozenset(),
            last=max(file.last for file in files),
            size=sum(file.file.size for file in files),
            source=landing.changes.source,
        )


def _paths(landing: Landing, files: Sequence[Written]) -> tuple[str, ...]:
    return tuple(f"{landing.changes.staging}/{file.file.path}" for file in files)


def _candidates(
    landing: Landing, files: Sequence[Written], merging: Merging
) -> Iterator[tuple[Group, dict[str, Candidates]]]:
    """Yield groups of changes, with the rows that they may be of, by paths of files."""
    assert landing.mirror is not None
    key, valid, place = landing.mirror.key, valid_files(landing), merging.indexes / landing.name
    keys = staged_rows(_paths(landing, files), key)
    hashes, first = key_hashes([keys[name] for name in key]), keys[key[0]]
    with errors_at(place):
        index = _index(landing, key, place)
        index.follow({path: file.rows for path, file in valid.items()})
    may_be_there = _between(first, key[0], valid.values())
    is_one = any(file.moves_unchanged for file in files)
    for group in [_WHOLE] if is_one else groups({}, key[0], first, touches_all=False):
        with errors_at(place):
            candidates = index.find(hashes[may_be_there & in_range(first, group.above, group.upto)])
        yield group, candidates


def _between(values: pa.ChunkedArray[Any], name: str, files: Iterable[DataFile]) -> NDArray[np.bool_]:
    """Tell of keys whether files may have them, by the bounds of their first column: new ones are often beyond all.

    Args:
        values: of that column; name: its name; files: the mirror's.
    """
    known = list(files)
    if (
        not known
        or not pa.types.is_integer(values.type)
        or any(name not in file.lower or name not in file.upper for file in known)
    ):
        return np.ones(len(values), np.bool_)
    numbers = values.to_numpy()
    least, most = min(file.lower[name] for file in known), max(file.upper[name] for file in known)
    is_between: NDArray[np.bool_] = (numbers >= least) & (numbers <= most)
    return is_between


def _index(landing: Landing, key: Sequence[str], place: Path) -> KeyIndex:
    """Open the index of a mirror's keys."""
    assert landing.mirror is not None
    schema = pa.schema([landing.mirror.schema.field(name) for name in key])

    def read(path: str) -> Hashes:
        file = landing.table.locate(path)
        there = schema_of(file).names
        # A file from before a column of the key has rows that are all deleted.
        rows = in_columns(read_rows(file, [name for name in key if name in there]), schema)
        return key_hashes(rows.columns)

    return KeyIndex(place, [(field.name, str(field.type)) for field in schema], read)


def _merged_files(landing: Landing, candidates: Mapping[str, Candidates]) -> Iterator[MergedFile]:
    """Yield files that have rows that were candidates and are there still, in the order of their names."""
    table = landing.table
    assert landing.mirror is not None
    for path in sorted(candidates):
        file, rows = table.files[path], candidates[path]
        if file.deleted is not None:
            rows = rows.filtered(~np.isin(rows.rows, file.deleted.positions()))
        if landing.mirror.has_history and file.nulls.get(TO_LSN) != file.rows:
            ends = rows_at(landing.mirror.schema, [TO_LSN], table.locate(path), rows)[TO_LSN]
            rows = rows.filtered(ends.is_null().to_numpy())
        if len(rows.rows):
            yield MergedFile(path, table.locate(path), file.deleted, rows)


def deleted_rows(parts: Iterable[Merged]) -> dict[str, Positions]:
    """Return the rows of files that merges of a mirror delete, each once, by names of the files."""
    rows: dict[str, list[Positions]] = {}
    for part in parts:
        for name, positions in part.deleted.items():
            rows.setdefault(name, []).append(positions)
    return {name: np.sort(np.concatenate(positions)) for name, positions in rows.items()}
