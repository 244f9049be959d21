"""Windows of WAL planned: indexed, put in commit order against the catalog, cut into slices.

In: open requests. Out: plans, and the state after each window. Runs on the driver.
"""

from __future__ import annotations
