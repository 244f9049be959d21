"""The choice of what becomes of refused changes, as it is asked for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class RefusalOptions:
    """The choice.

    Attributes:
        enables: a subscription that an error has disabled is enabled.
        skip_lsn: finish LSN of a transaction that is to be skipped, 0 to take back what was given before; None to leave
            it as it is.
    """

    enables: bool = False
    skip_lsn: int | None = None
