"""Functions that decide about conflicts, as a user would write them."""

from __future__ import annotations

from headwater.apply.incoming.conflict_rules import Answer, MetConflict


def merge(conflict: MetConflict) -> Answer:
    """Have both texts in the row."""
    if conflict.local is None or conflict.remote is None:
        return "keep_local"
    return {"v": f"{conflict.local['v']}+{conflict.remote['v']}"}


def local_wins(conflict: MetConflict) -> Answer:
    """Leave what is there, whatever it is."""
    assert conflict.remote_time is not None
    assert conflict.remote_origin.startswith("headwater_")
    return "keep_local"


def wrong(_conflict: MetConflict) -> Answer:
    """Answer what is no answer."""
    return "perhaps"
