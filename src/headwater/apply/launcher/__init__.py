"""Many subscriptions in one process tree: a process each, what the launcher says to it, and what it says of itself."""

from __future__ import annotations
