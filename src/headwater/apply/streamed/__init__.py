"""Transactions that come in blocks before they end: spooled, and applied ahead of their end.

In: messages of pgoutput, with those of streamed blocks, and an applier for all others. Out: the same rows, commits and
errors as if each had come as a whole. Unknown here: where the messages come from.
"""

from __future__ import annotations
