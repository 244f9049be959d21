"""WAL bytes in, records out.

In: a directory of segments. Out: which segments make one history (:mod:`~headwater.wal.directory`), the records of a
range, framed and verified (:mod:`~headwater.wal.frames`), one record taken apart (:mod:`~headwater.wal.record`), and
``pg_control`` (:mod:`~headwater.wal.control`). This room must not know what a record means: transactions, relations
and rows are for the rooms above it.
"""
