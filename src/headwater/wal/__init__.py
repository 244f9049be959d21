"""WAL bytes in, records out.

In: places of segments (:mod:`~headwater.wal.place`), in whatever form an archive keeps them
(:mod:`~headwater.wal.segment_forms`). Out: which segments make one history (:mod:`~headwater.wal.directory`), the
records of a range, framed and verified (:mod:`~headwater.wal.frames`), one record taken apart
(:mod:`~headwater.wal.record`), and ``pg_control`` (:mod:`~headwater.wal.control`). This room must not know what a
record means: transactions, relations and rows are for the rooms above it.
"""
