"""Change tables in a lake: Parquet, Delta and Iceberg.

In: typed columns of changes (``rows/typed.py``). Out: files, and one commit a table that says what was landed with
them. Must not know: the WAL, plugins. So far the tables by themselves; what lands in them is not written yet.
"""

from __future__ import annotations
