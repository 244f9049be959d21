"""Places where a window can be cut, so that what is too much for one commit of a table lands in two.

In: what stands in the way of landing a window, and where the definitions of the tables that it concerns change in it.
Out: the same as an error that says before which commit the window is to end (:class:`CrowdedWindowError`). Who runs
passes (:mod:`headwater.landing.landing`) lands the window up to there, and then the rest of it.

A window that begins with the commit that changes a definition has no older rows of that definition. So nearly all that
cannot be landed in one piece can be landed in two. A window is cut where the refusal says that it is too much, if a
definition changes there, else at the first change. Each cut lies strictly inside, so this ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from headwater.catalog.relation import RelationSchema
from headwater.errors import DecodingError, HeadwaterError, LakeConflictError, LakeError
from headwater.landing.tables.catalog_changes import CatalogWindow, of_relations
from headwater.pg.catalogs import PG_ATTRIBUTE, PG_CLASS, PG_ENUM, PG_INHERITS
from headwater.pipeline.requests.scope import Scope

_OF_RELATIONS = (PG_CLASS, PG_ATTRIBUTE, PG_INHERITS)


class CrowdedWindowError(LakeError):
    """A window has too much of a table for one commit of it, or has to be planned otherwise.

    Args:
        cause: the error, if the window cannot be cut.
        cut: START of the commit record before which the window is to end; None to plan it once more.
        oids: tables that are also to be chosen in it, whatever their names.
    """

    def __init__(self, cause: HeadwaterError, cut: int | None, oids: frozenset[int] = frozenset()) -> None:
        super().__init__(cause.message, lsn=cause.lsn, file=cause.file, hint=cause.hint)
        self.cause, self.cut, self.oids = cause, cut, oids

    def beside(self, before: CrowdedWindowError | None) -> CrowdedWindowError:
        """Join this error with another that was found before of the same window."""
        if before is None:
            return self
        cut = before.cut if self.cut is None else self.cut
        return CrowdedWindowError(self.cause, cut, self.oids | before.oids)


class WindowChanges:
    """The places where definitions change in a window.

    Args:
        window: the window.
    """

    def __init__(self, window: CatalogWindow) -> None:
        self._window = window
        self._of: dict[int, set[int]] = {}
        for catalog in _OF_RELATIONS:
            for lsn, oid in of_relations(window.changed(catalog)):
                self._of.setdefault(oid, set()).add(lsn)
        self._of_types = {lsn for _, lsn in window.removed(PG_ENUM)}
        composites = (oid for oid in self._of if any(row.kind == "c" for row in window.end.class_rows(oid)))
        self._of_types.update(lsn for oid in composites for lsn in self._of[oid])

    def of(self, relations: Iterable[int]) -> tuple[int, ...]:
        """Return STARTs of the commit records that change relations, or types; ascending.

        Args:
            relations: their OIDs.
        """
        return tuple(sorted(self._of_types.union(*(self._of.get(oid, ()) for oid in relations))))

    def wanted(self, wants: Callable[[RelationSchema], bool]) -> tuple[int, ...]:
        """Return the same of all tables that are wanted, before the window or after it.

        Args:
            wants: tells whether one is, as it is at some time.
        """
        views = self._window.store.view(self._window.lo), self._window.end
        versions_of = {oid: [view.relation(oid) for view in views] for oid in self._of}
        return self.of(
            oid for oid, versions in versions_of.items() if any(version and wants(version) for version in versions)
        )


def crowded(error: HeadwaterError, changes: Iterable[int], lo: int, scope: Scope) -> HeadwaterError:
    """Return the error of a window as one that says where to cut it; the error itself if nothing is gained by that.

    Args:
        error: what stands in the way.
        changes: STARTs of commit records that change definitions of the tables that it is about.
        lo: LSN where the window begins.
        scope: of what is landed.
    """
    if isinstance(error, CrowdedWindowError) or not _is_of_rows(error):
        return error
    inside = sorted(lsn for lsn in changes if scope.end_before(lsn) > lo)
    if not inside:
        return error
    return CrowdedWindowError(error, error.lsn if error.lsn in inside else inside[0])


def _is_of_rows(error: HeadwaterError) -> bool:
    """Tell whether rows, or what they are made of, stand in the way, and not a file or another process."""
    if isinstance(error, LakeConflictError):
        return False
    return isinstance(error, LakeError | DecodingError) and error.file is None
