"""Tables in a lake, as Parquet, Delta and Iceberg have them, by our own hand or Spark's: files, and commits of them.

In: typed rows, and what is to be said with them. Out: files, one commit a table that says what has landed, and in which
versions tables belong together. Must not know: changes, what is kept of them (``sinks/``), records of the WAL.
"""

from __future__ import annotations
