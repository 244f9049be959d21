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
        dead_letters: patterns of tables whose refused rows become dead letters; empty for none.
        retries: dead letters are tried again first.
        pauses: a table whose row is refused is paused.
        resumes: patterns of paused tables that are to go on.
    """

    enables: bool = False
    skip_lsn: int | None = None
    dead_letters: tuple[str, ...] = ()
    retries: bool = False
    pauses: bool = False
    resumes: tuple[str, ...] = ()

    @property
    def sets_aside(self) -> bool:
        """Whether changes may be put into the target's tables for that, or taken out of them."""
        return bool(self.dead_letters or self.resumes or self.retries or self.pauses)

    @property
    def puts_back(self) -> bool:
        """Whether something that was set aside is to be applied first."""
        return bool(self.resumes or self.retries)
