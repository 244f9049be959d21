"""Ordinary transactions, applied in several sessions of the target at a time.

In: runs of whole transactions that can be folded. Out: the same rows, committed in the source's order. If that is asked
for, only what depends on each other keeps it. Unknown here: where transactions come from.
"""

from __future__ import annotations
