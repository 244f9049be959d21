"""The output plugin ``wal2json``."""

from __future__ import annotations
