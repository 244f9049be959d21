"""Landing: changes, and rows that were there before, made into a lake's tables: of changes, or mirrors of the source's.

In: typed columns of changes and of the rows that were there before (``rows/columns/table_columns.py``). Out: files, and
what is committed of each table (``lakes/``). Must not know: records of the WAL, how pages lie in a backup, how a format
writes a commit.
"""

from __future__ import annotations
