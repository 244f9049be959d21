"""A plugin's description of a relation: which of its changes give messages, and how it is announced."""

from __future__ import annotations

from typing import NamedTuple

from headwater.catalog.relation import RowFilters

WANT_INSERT, WANT_UPDATE, WANT_DELETE, WANT_BARE_DELETE, WANT_TRUNCATE = 1, 2, 4, 8, 16
"""A bare DELETE has no old tuple."""

WANT_ALL = 31

TRUNCATE_IF_DETACHED = 32
"""A TRUNCATE is wanted once the relation is no partition any more, of an entry that outlives changes of it (14)."""


class Description(NamedTuple):
    """A plugin's description of a relation.

    Attributes:
        wants: bits of WANT_*.
        messages: the messages that announce it.
        filters: they decide which of the wanted changes of rows give messages; None: all of them.
    """

    wants: int = 0
    messages: tuple[bytes, ...] = ()
    filters: RowFilters | None = None

    @property
    def certain(self) -> int:
        """Bits of WANT_* of changes that give messages, whatever is in their rows."""
        return certain_wants(self.wants, self.filters)


def certain_wants(wants: int, filters: RowFilters | None) -> int:
    """Return those of some WANT_* bits whose changes no row filter looks at."""
    if filters is None:
        return wants
    kinds = ((filters.insert, WANT_INSERT), (filters.update, WANT_UPDATE), (filters.delete, WANT_DELETE))
    return wants & ~sum(bit for trees, bit in kinds if trees)
