"""Where the bytes of WAL lie: segment files in directories, archives and stores, packed or not, on timelines.

In: addresses. Out: the bytes of segments, in the order of their LSNs.
"""

from __future__ import annotations
