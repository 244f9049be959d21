"""Tables that leave the choice of ``--tables``, or come into it, because they have another name from then on.

A partition that is detached from a table which is left out (``--exclude``, or as it is paused) comes into it likewise.

In: a planned window, in the thread that plans, and which tables are chosen; later, what the lake has. Out: a warning of
a table that leaves, as its changes do not land from then on; of one that comes, an error where something has landed of
it, or where it is mirrored: rows or changes of the time before would be missing.

Other modules report what becomes a partition or is one no more (:mod:`headwater.landing.tables.partition_rows`).

Known gap: a table that goes out of the choice and back in one transaction, which truncates it or has ALTER TABLE
rewrite it in between.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headwater.catalog.relation import RelationSchema
from headwater.catalog.store.catalog_store import CatalogStore
from headwater.catalog.store.historic_catalog import HistoricCatalog
from headwater.errors import LakeError, errors_of_table, warn
from headwater.lakes.target_directory import Lake
from headwater.landing.tables.catalog_changes import CatalogWindow, of_relations
from headwater.landing.tables.window_cuts import CrowdedWindowError
from headwater.pg.catalogs import PG_CLASS, PG_NAMESPACE
from headwater.pg.lsn import Lsn
from headwater.plugins.rows.plugin import TableChoice
from headwater.plugins.table_patterns import qualified_name
from headwater.reorder.slices.unwanted_changes import PassedOver

_UNCHOSEN = "its changes from before, while it was not chosen, have not landed"


@dataclass(frozen=True)
class ChoiceChange:
    """A table that is chosen from a commit on, or is not any more.

    Attributes:
        lsn: START of the commit record.
        root: the table in the lake; before, after: the relation that has another name, itself or a partition.
        is_chosen: from then on.
        is_inside: it is chosen before and after the commit, and was not at changes of that transaction.
        is_detached: it is no partition any more of a table that is left out.
    """

    lsn: int
    root: RelationSchema
    before: RelationSchema
    after: RelationSchema
    is_chosen: bool
    is_inside: bool = False
    is_detached: bool = False


def choice_changes(window: CatalogWindow, choice: TableChoice, unwanted: PassedOver) -> tuple[ChoiceChange, ...]:
    """Find the changes of the choice in a window, in the order of the commits.

    Args:
        window: it.
        choice: which tables land.
        unwanted: changes of tables that are not chosen.
    """
    if choice.is_everything:
        return ()
    store, places = window.store, window.updated(PG_CLASS)
    for _, lsn in window.updated(PG_NAMESPACE):
        places |= {(oid, lsn) for oid in store.view(lsn).tables()}
    renamed = [_change(store, choice, oid, lsn) for lsn, oid in of_relations(places)]
    inside = [_inside(store, choice, version, lsn) for lsn, version in unwanted.beside_ddl() if lsn in window]
    by_place = {(change.lsn, change.after.oid): change for change in (*inside, *renamed) if change is not None}
    return tuple(by_place[place] for place in sorted(by_place))


def _change(store: CatalogStore, choice: TableChoice, oid: int, lsn: int) -> ChoiceChange | None:
    was_in, is_in = store.view(lsn), store.view(lsn + 1)
    before, after = was_in.relation(oid), is_in.relation(oid)
    if before is None or after is None or after.kind not in "rp":
        return None
    if before.rewrite_of or after.rewrite_of:
        return None
    if before.topmost != after.topmost:
        return _detached(choice, before, was_in, after, is_in)
    is_chosen = choice.chooses(after, is_in)
    root = is_in.relation(after.topmost)
    if root is None or choice.chooses(before, was_in) == is_chosen:
        return None
    return ChoiceChange(lsn, root, before, after, is_chosen)


def _detached(
    choice: TableChoice, before: RelationSchema, was_in: HistoricCatalog, after: RelationSchema, is_in: HistoricCatalog
) -> ChoiceChange | None:
    """Return a table that is chosen, and was a partition of one that is left out."""
    if after.is_partition or not choice.leaves_out(before, was_in) or not choice.chooses(after, is_in):
        return None
    return ChoiceChange(was_in.lsn, after, before, after, True, is_detached=True)


def _inside(store: CatalogStore, choice: TableChoice, version: RelationSchema, lsn: int) -> ChoiceChange | None:
    """Return a table that was not chosen when it was changed, and is by the end of that transaction."""
    view = store.view(lsn + 1)
    after = view.relation(version.oid)
    if after is None or after.kind not in "rp" or version.topmost != after.topmost or version.rewrite_of:
        return None
    root = view.relation(after.topmost)
    if root is None or not choice.chooses(after, view):
        return None
    was_in = store.view(lsn)
    was = was_in.relation(version.oid)
    return ChoiceChange(lsn, root, version, after, True, was is not None and choice.chooses(was, was_in))


def require_whole(changes: Iterable[ChoiceChange], lake: Lake, *, is_mirror: bool) -> None:
    """See that nothing of a table is missing in the lake that has been chosen again, or later than it had rows.

    Args:
        changes: of a window.
        lake: where its tables land.
        is_mirror: rows are kept, not changes.

    Raises:
        LakeError: something is, or may be.
        CrowdedWindowError: it is in the window, which is to be planned once more with these tables chosen.
    """
    for change in changes:
        with errors_of_table(change.root.oid, qualified_name(change.root)):
            _require_whole(change, lake, is_mirror)


def _require_whole(change: ChoiceChange, lake: Lake, is_mirror: bool) -> None:
    if change.is_detached:
        if is_mirror:
            raise _without_rows(change)
        return
    if change.is_inside:
        raise CrowdedWindowError(_gap(change, _UNCHOSEN), None, frozenset({change.root.oid, change.after.oid}))
    if not change.is_chosen:
        warn(f"{_renamed(change)}, which --tables does not choose: its changes do not land from there on")
    elif lake.names.has_relation(change.root.oid):
        raise _gap(change, _UNCHOSEN)
    elif is_mirror:
        raise _gap(change, "the rows that it had before have not landed")
    else:
        warn(f"{_renamed(change)}, which --tables chooses: what it had before has not landed")


def _without_rows(change: ChoiceChange) -> LakeError:
    return LakeError(
        f'table "{qualified_name(change.after)}" was a partition of a table that is left out: the rows that it has '
        "from then are not known",
        lsn=change.lsn,
        hint="leave it out, too (--exclude), or take its rows from a backup of after that (headwater lake reload)",
    )


def _renamed(change: ChoiceChange) -> str:
    return (
        f'table "{qualified_name(change.before)}" is called "{qualified_name(change.after)}" from {Lsn(change.lsn)} on'
        if qualified_name(change.before) != qualified_name(change.after)
        else f'table "{qualified_name(change.after)}" is in another place from {Lsn(change.lsn)} on'
    )


def _gap(change: ChoiceChange, what: str) -> LakeError:
    return LakeError(
        f"{_renamed(change)}, which --tables chooses: {what}",
        lsn=change.lsn,
        hint="choose all names that the table has had (--tables), and land it to another place, or from a base backup "
        "of after that",
    )
