"""The transactions that come, in their order, and the blocks of them that are streamed before they end.

In: the index of a window. Out: replays, in commit order, and the state after the window.
"""

from __future__ import annotations
