"""The command in this process, as the tests of slots run it."""

from __future__ import annotations

from slots.conftest import command

__all__ = ["command"]
