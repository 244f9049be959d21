"""Where Headwater says something else than the server, and why; scenarios show each of them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Gap:
    """A scenario in which the two differ.

    Attributes:
        streams: in which.
        reason: why.
        since: the first major on which.
    """

    streams: frozenset[str]
    reason: str
    since: int


KNOWN_GAPS: dict[str, Gap] = {
    "label_renamed_behind_an_open_transaction": Gap(
        frozenset({"test_decoding", "test_decoding, more", "pgoutput, all", "pgoutput, binary", "pgoutput, no origin"}),
        "the server prints the older row with the newer label, which its cache has kept from the row it printed "
        "before; Headwater prints the label as of the row",
        14,
    ),
    "root_renamed_behind_an_open_transaction": Gap(
        frozenset({"pgoutput, lists"}),
        "the server announces the root under the newer name, which its cache has kept from a partition that it "
        "announced before; Headwater under the name as of the row",
        15,
    ),
    "no_index_left_and_vacuumed": Gap(
        frozenset({"pgoutput, all", "pgoutput, binary", "pgoutput, no origin"}),
        "VACUUM clears pg_class.relhasindex in place: a server that decodes later what was written before says that "
        "the table has no key; Headwater says what a server says that decodes at once",
        14,
    ),
}
"""By scenario."""
