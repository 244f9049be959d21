"""The files that hold the bytes of WAL: segments in directories, archives and stores, packed or not, on timelines.

In: addresses. Out: the bytes of segments, in the order of their LSNs.
"""

from __future__ import annotations
