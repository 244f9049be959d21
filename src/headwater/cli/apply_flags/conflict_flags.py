"""Flags that say what is done about conflicts, and where they are told of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwater.cli.flags import from_choice, from_flag

if TYPE_CHECKING:
    from headwater.apply.incoming.conflict_rules import ConflictRules


@dataclass(frozen=True, kw_only=True)
class ConflictFlags:
    """The flags of conflicts."""

    conflicts: Sequence[str] = from_flag(
        "--conflict",
        multiple=True,
        metavar="[TABLE:]KIND=ACTION",
        help="What is done about a kind of conflict: error, apply_remote, keep_local, last_update_wins, "
        "first_update_wins, or python:package.module:function; default: what a subscription does.",
    )
    log_conflicts: str = from_choice(
        "--log-conflicts",
        "log",
        "table",
        "both",
        help="Where conflicts are told of: on standard error, or in headwater.conflicts on the target.",
    )

    def rules(self, *, two_phase: bool) -> ConflictRules:
        """Return the rules.

        Args:
            two_phase: transactions are applied at PREPARE.

        Raises:
            UsageError: one is malformed, or two contradict each other.
        """
        from headwater.apply.incoming.conflict_rules import ConflictRules

        return ConflictRules.parse(self.conflicts, log=self.log_conflicts, two_phase=two_phase)
