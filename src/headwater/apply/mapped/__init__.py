"""Maps of what comes in, on its way to the appliers: other names, less columns and rows, masks, a delay.

In: pieces of a stream, or rows of a copy, as the source sends them. Out: the same, as a source would send them whose
tables are as the rules have them. So all appliers take them as they are. They must not know of rules.
"""

from __future__ import annotations
