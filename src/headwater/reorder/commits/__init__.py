"""Which transactions come, in what order, and which blocks of them are streamed before they end.

In: the index of a window. Out: replays, in commit order, and the state behind the window.
"""

from __future__ import annotations
