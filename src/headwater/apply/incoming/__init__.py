"""Messages of pgoutput as values, and the slot that they come from."""

from __future__ import annotations
