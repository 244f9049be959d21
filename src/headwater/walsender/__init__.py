"""The server's side of the replication protocol: not written yet."""

from __future__ import annotations
