"""The things that a transaction that reads by one snapshot holds open with others, until it ends."""

from __future__ import annotations

from contextlib import ExitStack


class Held:
    """The things that a transaction holds.

    Attributes:
        opened: what is open; None before anything is. stack: closes it.
    """

    def __init__(self) -> None:
        self.opened: object | None = None
        self.stack = ExitStack()

    def close(self) -> None:
        """Let go of it."""
        self.opened = None
        self.stack.close()
