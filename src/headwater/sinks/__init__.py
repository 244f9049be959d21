"""Change tables in a lake: Parquet, Delta and Iceberg.

In: typed columns of changes and of the rows that were there before (``rows/typed.py``). Out: files, and one commit a
table that says what was landed with them. Must not know: records of the WAL, how pages lie in a backup.
"""

from __future__ import annotations
