"""Tables in a lake, Parquet and Delta: of changes, or mirrors of the source's tables.

In: typed columns of changes (``rows/typed.py``). Out: files, and one commit a table that says what was landed with
them. Must not know: the WAL, plugins.
"""

from __future__ import annotations
