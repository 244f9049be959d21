"""The output plugin ``test_decoding``."""

from __future__ import annotations
