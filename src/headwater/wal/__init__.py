"""WAL bytes in, records out.

In: places of segments (:mod:`~headwater.wal.segments.place`), in whatever form an archive keeps them
(:mod:`~headwater.wal.segments.segment_forms`). Out: which segments make one history
(:mod:`~headwater.wal.segments.directory`), the records of a range, framed and verified
(:mod:`~headwater.wal.records.frames`), one record taken apart (:mod:`~headwater.wal.records.record`), and
``pg_control`` (:mod:`~headwater.wal.control`). This room must not know what a record means: transactions, relations and
rows are for the rooms above it.
"""
