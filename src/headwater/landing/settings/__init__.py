"""Settings of tables, bound to the tables and columns of the source that they are of.

In: settings by names (``lakes/settings``), relations of the source. Out: what each table is landed by, and notes of it
in the target. Must not know: how changes are read or merged.
"""

from __future__ import annotations
