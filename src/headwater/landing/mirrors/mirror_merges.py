"""The merges that the mirrors of a window need, in which order, and what is committed of each then.

In: the window's tables, and what tasks have staged of them. Out: merges, which tasks run
(:class:`~headwater.landing.mirrors.merge_task.Merge`), and one :class:`~headwater.landing.mirrors.landed_files.Settled`
a mirror. A mirror that rows come to (:mod:`headwater.landing.tables.attached_rows`) is merged after the one that they
leave, and committed before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from headwater.errors import LakeError, errors_of_table
from headwater.lakes.lake_table import DataFile, LakeTable, Sought
from headwater.landing.mirrors.deletes_beside import can_delete_beside, deleted_rows, merges_beside
from headwater.landing.mirrors.first_rows import first_groups
from headwater.landing.mirrors.folding import Folding, foldings
from headwater.landing.mirrors.landed_files import Landing, MergeTask, Merging, Settled, Written
from headwater.landing.mirrors.merge_plan import Group, groups, is_closed, is_small
from headwater.landing.mirrors.merge_task import Merge, Merged, MergedFile, Moved
from headwater.landing.mirrors.mirror_form import MirrorForm
from headwater.landing.mirrors.replaced_rows import Ending
from headwater.landing.mirrors.staged_changes import staged_rows
from headwater.landing.tables.attached_rows import Handover, changes_besides
from headwater.landing.tables.change_rows import STAGED, StagedChanges


def settled_mirrors(
    landings: Sequence[Landing], written: Mapping[int, Sequence[Written]], merging: Merging
) -> Iterator[Settled]:
    """Give the commits of mirrors; of one that rows come to before the one that they leave.

    Args:
        landings: of a window.
        written: what tasks have staged, by the number of the table, in the order of the output.
        merging: runs merges.

    Raises:
        LakeError: changes do not fit the tables.
    """
    for landing in landings:
        with errors_of_table(*landing.changes.source):
            _require_columns(landing, written.get(landing.number, []))
    staged = {landing.number: list(written.get(landing.number, [])) for landing in landings}
    done: dict[int, list[Merged]] = {landing.number: [] for landing in landings}
    leaving = _leaving(landings)
    stages = list(_stages(landings, leaving))
    for stage in stages:
        merges: list[MergeTask] = []
        merges += [merge for landing in stage for merge in _merges(landing, staged, leaving, merging)]
        merges += [ending for landing in stage for ending in _endings(landing)]
        for merged in merging.run(merges) if merges else []:
            done[merged.table].append(merged)
            for moved in merged.moved:
                _insert(staged[moved.table], moved)
        folds = [fold for landing in stage for fold in _foldings(landing, staged, done, merging)]
        for merged in merging.run(folds) if folds else []:
            done[merged.table].append(merged)
    for turn, landing in ((turn, landing) for turn, stage in enumerate(reversed(stages)) for landing in stage):
        files, parts = staged[landing.number], done[landing.number]
        last = _last(landing, files)
        replaced = _replaced(landing)
        if files or parts or replaced or landing.schema != landing.table.landed.schema:
            added = [file for part in parts for file in part.added]
            removed = [*replaced, *(path for part in parts for path in part.removed)]
            deleted = {path: rows for path, rows in deleted_rows(parts).items() if path not in removed}
            yield Settled(landing, added, removed, last, sum(file.file.rows for file in files), deleted, turn)


def _foldings(
    landing: Landing, staged: Mapping[int, Sequence[Written]], done: Mapping[int, Sequence[Merged]], merging: Merging
) -> Iterator[Folding]:
    """Yield tasks that fold deletes away, if a mirror's rows were deleted beside its files."""
    files, parts = staged[landing.number], done[landing.number]
    if any(part.removed for part in parts) or not can_delete_beside(landing, files):
        return
    yield from foldings(landing, deleted_rows(parts), _last(landing, files), merging.rewrite_budget)


def _replaced(landing: Landing) -> list[str]:
    """Return the files of a mirror that go as wholes, as another table has taken the place of theirs."""
    assert landing.mirror is not None
    if landing.mirror.replaces is None or landing.mirror.has_history:
        return []
    return list(landing.table.concerned(Sought((), (), True)))


def _endings(landing: Landing) -> Iterator[Ending]:
    """Yield the tasks that end a history's versions, as another table has taken the place of theirs."""
    form = landing.mirror
    assert form is not None
    if form.replaces is None or not form.has_history:
        return
    for path, file in landing.table.concerned(Sought((), (), True, has_history=True)).items():
        if not is_closed(file):
            place = landing.table.locate(path)
            yield Ending(
                table=landing.number,
                name=path,
                path=place,
                size=file.size,
                schema=form.schema,
                staging=form.staging,
                gone=form.replaces,
                deleted=file.deleted,
            )


def _last(landing: Landing, files: Sequence[Written]) -> int:
    """Return the START of the last commit record that a table has."""
    assert landing.source.story is not None
    return max([landing.table.landed.commit_lsn, landing.source.story.changed_at, *(file.last for file in files)])


def _leaving(landings: Sequence[Landing]) -> dict[int, list[Handover]]:
    """Return rows that go from one mirror to another, by the number of the one that they leave.

    Raises:
        LakeError: columns of one become others also.
    """
    handovers: dict[int, list[Handover]] = {landing.number: [] for landing in landings}
    givers = {landing.source.last.oid: landing for landing in landings}
    for landing in landings:
        assert landing.source.story is not None
        for arrival in landing.source.story.coming:
            giver = givers.get(arrival.giver)
            if giver is None or arrival.lsn <= landing.table.landed.commit_lsn:
                continue  # it has no mirror, as it has had no rows; or they have come already
            assert giver.mirror is not None
            assert isinstance(giver.changes, StagedChanges)
            assert isinstance(landing.changes, StagedChanges)
            with errors_of_table(*landing.changes.source):
                if not giver.mirror.is_steady:
                    raise changes_besides(giver.name, landing.name, arrival.lsn)
                handover = Handover.of(arrival, giver.changes, landing.number, landing.changes)
            handovers[giver.number].append(handover)
    return handovers


def _stages(landings: Sequence[Landing], leaving: Mapping[int, Sequence[Handover]]) -> Iterator[list[Landing]]:
    """Yield mirrors that can be merged at once; each after those whose rows come to it.

    Raises:
        LakeError: rows go in a circle.
    """
    known = {landing.number: landing for landing in landings}
    sorter = TopologicalSorter[int]({landing.number: () for landing in landings})
    for giver, handovers in leaving.items():
        for handover in handovers:
            sorter.add(handover.table, giver)
    try:
        sorter.prepare()
    except CycleError:
        (first, *_) = (handover for handovers in leaving.values() for handover in handovers)
        with errors_of_table(*known[first.table].changes.source):
            raise LakeError(
                "partitions with rows go from one table to another, and others back, in one window",
                lsn=first.arrival.lsn,
                hint="end the window before that (--end), and go on from there",
            ) from None
    while sorter.is_active():
        ready = sorter.get_ready()
        yield [known[number] for number in sorted(ready)]
        sorter.done(*ready)


def _insert(files: list[Written], moved: Moved) -> None:
    """Put rows that come with a commit before what it, and later ones, have changed."""
    at = next((number for number, file in enumerate(files) if file.last >= moved.lsn), len(files))
    files.insert(at, Written(moved.table, moved.file, moved.lsn))


def _merges(
    landing: Landing,
    staged: Mapping[int, Sequence[Written]],
    leaving: Mapping[int, Sequence[Handover]],
    merging: Merging,
) -> Iterator[Merge]:
    """Yield the tasks of a mirror; as many as can run at once, if there is enough for them."""
    files = staged[landing.number]
    if not leaving[landing.number] and can_delete_beside(landing, files):
        yield from merges_beside(landing, files, merging)
        return
    form, kills = landing.mirror, any(file.kills for file in files)
    assert form is not None
    if not files and not form.gone and not form.rewrites_all:
        return
    paths = tuple(f"{landing.changes.staging}/{file.file.path}" for file in files)
    touches_all = kills or bool(form.gone) or form.rewrites_all
    sought = Sought(paths, form.key, touches_all or form.identity.is_whole, form.has_history)
    mine = {} if form.replaces is not None else _of_valid_rows(landing.table, sought)
    if not mine and files and not form.gone and all(file.was_there for file in files):
        key = None if form.identity.is_whole or not form.key else form.schema.field(form.key[0])
        first = first_groups(files, landing.changes.staging, key)
        yield from (_merge(landing, form, group, own, _last(landing, files), leaving) for group, own in first)
        return
    is_one = form.identity.is_whole or not form.key or any(file.moves_unchanged for file in files) or not paths
    if is_one:
        touched = [Group(None, None, tuple(file for file in mine.values() if _concerns(form, file, touches_all)))]
    else:
        values = staged_rows(paths, [form.key[0]])[0]
        touched = groups(mine, form.key[0], values, touches_all=touches_all, tasks=merging.parallel)
    for group in touched:
        yield _merge(landing, form, group, files, _last(landing, files), leaving)


def _merge(
    landing: Landing,
    form: MirrorForm,
    group: Group,
    files: Sequence[Written],
    last: int,
    leaving: Mapping[int, Sequence[Handover]],
) -> Merge:
    """Return the task of a group, whose changes are in files."""
    return Merge(
        table=landing.number,
        form=form,
        changes=tuple(f"{landing.changes.staging}/{file.file.path}" for file in files),
        above=group.above,
        upto=group.upto,
        files=tuple(MergedFile(file.path, landing.table.locate(file.path), file.deleted) for file in group.files),
        small=frozenset(file.path for file in group.files if is_small(file)),
        last=last,
        size=sum(file.size for file in group.files) + sum(file.file.size for file in files),
        leaving=tuple(leaving[landing.number]),
        source=landing.changes.source,
    )


def _of_valid_rows(table: LakeTable, sought: Sought) -> dict[str, DataFile]:
    """Return files that changes may be of; versions that have ended are in such as nobody rewrites."""
    files = table.concerned(sought)
    return {path: file for path, file in files.items() if not (sought.has_history and is_closed(file))}


def _require_columns(landing: Landing, files: Sequence[Written]) -> None:
    """See that a mirror can have rows.

    Raises:
        LakeError: their table has no columns.
    """
    assert landing.mirror is not None
    if files and not landing.mirror.source_columns:
        schema = landing.source.last
        first = staged_rows([f"{landing.changes.staging}/{files[0].file.path}"], [STAGED["_lsn"]])[0][0]
        raise LakeError(
            f'table "{schema.namespace}.{schema.name}" has no columns, and has rows: a mirror cannot have them',
            lsn=first.as_py(),
            hint="land it to another place, as changes (--mode changelog), or leave it out there (--exclude)",
        )


def _concerns(form: MirrorForm, file: DataFile, touches_all: bool) -> bool:
    """Tell whether changes that are not told by a key's first column may be of a file's rows."""
    return not form.identity.is_none or touches_all or is_small(file)
