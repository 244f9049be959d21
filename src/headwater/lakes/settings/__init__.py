"""Settings of a target's tables by patterns of their names: values, and what they mean for one table.

In: entries as a file or a program has them. Out: the settings of a table. Must not know: formats, the source's catalog.
"""

from __future__ import annotations
