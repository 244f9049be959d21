"""Output plugins of one's own, which are called for each change."""

from __future__ import annotations
