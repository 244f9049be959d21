"""Codes in the rows of an index: the kinds of changes, what an xid has done, how a transaction ended."""

from __future__ import annotations

INSERTS, UPDATES, DELETES_OLD, DELETES_BARE, SPECULATIVE, CONFIRMS, SUPER_DELETES = 1, 2, 4, 8, 16, 32, 64
"""The bits of a change row's ``kinds``."""

UNSETTLED = 128
"""A bit of ``kinds``: the last change leaves TOAST chunks or a speculative insert pending; do not cut after it."""

CHUNKS = 256
"""A bit of ``kinds``: inserts into a TOAST relation are among the row's."""

HAS_BASE, CATALOG_CHANGE = 1, 2
"""The bits of an xid row: something was queued (a base snapshot exists); the catalog was changed."""

COMMAND_SHIFT, COMMAND_MASK = 3, 0x7FFFFFFF
"""The numbers of commands where the WAL has none: the LSN of a catalog change is shifted by so many bits, and these
bits of it are kept. Inside a stretch of :data:`COMMAND_SPAN` bytes they grow.
"""

COMMAND_SPAN = COMMAND_MASK + 1 << COMMAND_SHIFT

COMMIT, ABORT, COMMIT_PREPARED, ABORT_PREPARED, PREPARE = 0, 2, 3, 4, 1
"""The kinds of transaction ends: the opcode of the XACT record, shifted by four."""
