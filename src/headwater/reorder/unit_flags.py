"""Flags of a slice's units: the part of a transaction, or of a message that is in none, that a slice holds."""

from __future__ import annotations

BEGINS_HERE, ENDS_HERE, WROTE_BEFORE, BARE, MAY_HAVE_WRITTEN, STREAMED = 1, 2, 4, 8, 16, 32
"""Bits: a huge transaction is cut over several slices; a bare unit is a non-transactional message, or the end of a
transaction without its changes; a streamed one is a block of a transaction in progress. Of a bare unit,
WROTE_BEFORE says that the transaction before it is in other slices, which have given more than one message of changes
(``leads_messages`` of an output plugin). MAY_HAVE_WRITTEN takes the place of WROTE_BEFORE where row filters decide
whether the slices before have given any message of the transaction."""
