"""The output plugin ``pgoutput``."""

from __future__ import annotations
