"""What kinds of invalidation messages there are (PostgreSQL: ``SHAREDINVAL..._ID`` of ``storage/sinval.h``)."""

from __future__ import annotations

CATALOG, RELCACHE, SMGR, RELMAP, SNAPSHOT, RELSYNC = -1, -2, -3, -4, -5, -6
"""Ids of messages; from 0 on the id is a catalog cache's. RELSYNC came with 18."""
