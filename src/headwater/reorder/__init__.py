"""Transactions put back together from index entries, and the plan that decodes them.

In: indexes of the WAL (:mod:`headwater.rmgr.index.wal_index`) and the historic catalog. Out: the commit order, and the
plan: the slices that decode tasks work on. This room reads no row and opens no file; it must not know what Spark is.
"""
