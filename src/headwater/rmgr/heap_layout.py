"""The offsets of fields in records of HEAP and HEAP2 that kernels look at (PostgreSQL: ``access/heapam_xlog.h``).

Offsets count from the start of the main data, sizes are bytes; alike in 14 to 19.
"""

from __future__ import annotations

from headwater.rmgr.heap import HEADER_SIZE

HEAP_HEADER_SIZE = 5
"""The size of the header before a tuple's bytes from its null bitmap on (SizeOfHeapHeader)."""

MOST_TUPLES = 2048
"""A bound of the offset numbers of a page, which are smaller (MaxOffsetNumber)."""

INFOMASK_AT, HOFF_AT = 2, 4
"""The offsets of ``t_infomask`` and ``t_hoff`` in that header, after ``t_infomask2``."""

SHARED_SIZE = 4
"""The size of the two counts before a tuple whose record lacks bytes at its ends: how many at each."""

UNLOGGED_SIZE = HEADER_SIZE - HEAP_HEADER_SIZE
"""The bytes of a tuple on its page, from whose start ``t_hoff`` counts, that a logged tuple lacks."""

DELETE_OFFNUM_AT, OLD_OFFNUM_AT, NEW_OFFNUM_AT = 4, 4, 12
"""HEAP: offset numbers in DELETE and UPDATE; INSERT begins with its own."""

INSERT_FLAGS_AT, INSERT_SIZE = 2, 3
DELETE_FLAGS_AT, DELETE_SIZE = 7, 8
UPDATE_FLAGS_AT, UPDATE_SIZE = 7, 14
TRUNCATE_COUNT_AT, TRUNCATE_FLAGS_AT, TRUNCATE_SIZE = 4, 8, 12
"""HEAP: the old tuple of DELETE and UPDATE, and the relations of TRUNCATE, begin after the size.

TRUNCATE begins with its database.
"""

MULTI_INSERT_COUNT_AT, MULTI_INSERT_SIZE, MULTI_TUPLE_SIZE = 2, 4, 7
NEW_CID_CMIN_AT, NEW_CID_CMAX_AT, NEW_CID_SPC_AT, NEW_CID_DB_AT, NEW_CID_REL_AT, NEW_CID_SIZE = 4, 8, 16, 20, 24, 34
"""HEAP2: MULTI_INSERT begins with its flags, NEW_CID with its toplevel xid. A tuple of MULTI_INSERT has a header of its
own, which begins with its length without that header."""
