"""The catalog rung: a store rolled forward against the server's own catalog."""

from __future__ import annotations
