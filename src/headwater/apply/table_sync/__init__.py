"""Initial copies of tables beside the stream: which tables there are, their rows, and the way until both are one."""

from __future__ import annotations
