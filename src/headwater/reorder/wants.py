"""Which changes of a relation an output plugin makes a message of: the bits of ``SlicePlugin.wants``."""

from __future__ import annotations

WANT_INSERT, WANT_UPDATE, WANT_DELETE, WANT_BARE_DELETE, WANT_TRUNCATE = 1, 2, 4, 8, 16
"""A bare DELETE has no old tuple."""

WANT_ALL = 31

TRUNCATE_IF_DETACHED = 32
"""A TRUNCATE is wanted once the relation is no partition any more, of an entry that outlives changes of it (14)."""
