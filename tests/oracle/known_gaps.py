"""Scenarios in which Headwater says something else than the server, and why.

Headwater says what the newest minor release of a major does. Servers of before May 2025 do not tell transactions that
are open what the commit of another one has changed: they go on with what their caches hold. What they say then depends
on what they had looked up before, so :data:`STALE_BEFORE_MAY_2025` may differ on them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from headwater.pg.version import Version


@dataclass(frozen=True)
class Gap:
    """A scenario in which the two differ.

    Attributes:
        streams: in which.
        reason: why.
        since: the first major on which; until: the last one, None if it goes on.
        closed: by major, the minor release that does as Headwater does.
    """

    streams: frozenset[str]
    reason: str
    since: int
    until: int | None = None
    closed: Mapping[int, int] = field(default_factory=dict)

    def is_of(self, version: Version, stream: str) -> bool:
        """Tell whether the two differ in a stream of a release."""
        is_closed = version.minor >= self.closed.get(version.major, version.minor + 1)
        return stream in self.streams and self.since <= version.major <= (self.until or version.major) and not is_closed

    @property
    def majors(self) -> str:
        """The majors that have the gap, in words."""
        if self.until == self.since:
            return str(self.since)
        return f"from {self.since} on" if self.until is None else f"{self.since} to {self.until}"


KNOWN_GAPS: dict[str, Gap] = {
    "label_renamed_behind_an_open_transaction": Gap(
        frozenset(
            {
                *("test_decoding", "test_decoding, more", "pgoutput, all", "pgoutput, binary", "pgoutput, no origin"),
                *("test_decoding, two-phase", "test_decoding, two-phase, no empty transactions", "pgoutput, two-phase"),
            }
        ),
        "the server prints the older row with the newer label, which its cache has kept from the row it printed "
        "before; Headwater prints the label as of the row",
        14,
    ),
    "root_renamed_behind_an_open_transaction": Gap(
        frozenset({"pgoutput, lists", "pgoutput, two-phase, some"}),
        "the server announces the root under the newer name, which its cache has kept from a partition that it "
        "announced before; Headwater under the name as of the row",
        15,
    ),
    "no_index_left_and_vacuumed": Gap(
        frozenset({"pgoutput, all", "pgoutput, binary", "pgoutput, no origin", "pgoutput, two-phase"}),
        "VACUUM clears pg_class.relhasindex in place: a server that decodes later what was written before says that "
        "the table has no key; Headwater says what a server says that decodes at once",
        14,
    ),
    "prepared_without_changes": Gap(
        frozenset({"pgoutput, two-phase", "pgoutput, two-phase, some"}),
        "a transaction without changes is not told of; 18.0 to 18.4 tell that it was prepared, though not begun, and "
        "how it ended; test_decoding crashes at it",
        18,
        18,
        {18: 5},
    ),
}
"""By scenario."""

DISTRIBUTING = {14: 18, 15: 13, 16: 9, 17: 5}
"""By major, the first minor release that hands invalidations on to transactions that are open (of May 2025)."""

STALE_BEFORE_MAY_2025 = frozenset(
    {
        "catalog_rows_updated_in_place",
        "column_list_of_later_behind_an_open_transaction",
        "column_lists_and_replica_identities",
        "column_lists_change_behind_an_open_transaction",
        "column_lists_of_partitions",
        "definition_by_another_between_rows",
        "definitions_rolled_back_beside_an_open_transaction",
        "delete_without_identity_behind_an_open_transaction",
        "enums",
        "everything_published_as_its_root",
        "partitions_detached_and_attached_while_written",
        "publication_seen_by_what_is_not_published",
        "publication_under_its_later_name_behind_an_open_transaction",
        "publications",
        "publications_swap_names_behind_an_open_transaction",
        "published_between_rows_of_two_transactions",
        "rewritten_catalogs",
        "roots_and_leaves_in_different_publications",
        "unasked_publication_changed_behind_an_open_transaction",
    }
)
"""Scenarios that define, or publish otherwise, what an open transaction writes to later."""


NULL_DEFAULTS = ({15: 1, 16: 2}, frozenset({"fast_defaults", "whole_rows_with_dropped_and_missing_columns"}))
"""Minor releases up to which columns that were added with a default are sent as NULL in whole old rows, as far as they
were tried, and where that shows."""


def older_minor_differs(scenario: str, version: str) -> str | None:
    """Tell why a server of an older minor release may say something else of a scenario; None if it should not.

    Args:
        scenario: its name; version: the server's, such as ``16.1``.
    """
    major, minor = (int(part) for part in re.findall(r"\d+", f"{version}.0")[:2])
    if minor < DISTRIBUTING.get(major, 0) and scenario in STALE_BEFORE_MAY_2025:
        return "servers of before May 2025 go by what their caches hold in open transactions"
    fixed, scenarios = NULL_DEFAULTS
    is_old = minor < fixed.get(major, 0) and scenario in scenarios
    return "whole old rows have NULL for columns that were added with a default" if is_old else None
