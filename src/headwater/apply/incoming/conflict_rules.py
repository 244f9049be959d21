"""Rules that say what is done about conflicts, by table and kind.

A rule is ``[TABLE:]KIND=ACTION``; of a table's own rule and one for all tables the first counts. Where there is none,
conflicts are what they are for a subscription.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from headwater.apply.incoming.conflict_kinds import Action, Kind, default_action
from headwater.errors import UsageError

Values = Mapping[str, str | None]
PYTHON = "python:"


@dataclass(frozen=True)
class MetConflict:
    """A conflict as a function of the user's gets it.

    Attributes:
        kind: its kind, such as ``update_origin_differs``; relation: the table, as ``schema.table``.
        local: the local row by column, as text, None for NULL; None if there is none.
        remote: the remote row in the same way, None for a delete; columns that were not sent are not in it.
        key: what the row was looked for by; None for an insert.
        local_time, remote_time: of the commits, as ISO timestamps with zone; None if not known.
        local_origin, remote_origin: names; None for a row that was written on the target itself.
    """

    kind: str
    relation: str
    local: Values | None
    remote: Values | None
    key: Values | None
    local_time: str | None
    remote_time: str | None
    local_origin: str | None
    remote_origin: str


Answer = str | Values
"""``error``, ``apply_remote``, ``keep_local``, or the row to have, by column."""
Decide = Callable[[MetConflict], Answer]


@dataclass(frozen=True)
class Rule:
    """A rule.

    Attributes:
        action: what is done; decide: a function of the user's that says so instead.
        text: as it was given; is_given: it is not what a subscription does anyway.
    """

    action: Action
    decide: Decide | None = None
    text: str = ""
    is_given: bool = True

    @property
    def needs_times(self) -> bool:
        """Whether commit times decide."""
        return self.action.is_of_times and self.decide is None


@dataclass(frozen=True)
class ConflictRules:
    """The rules.

    Attributes:
        rules: by table, as ``schema.table``, None for all, and kind.
        logs, fills: conflicts that are no errors are told of in the log, and put into ``headwater.conflicts``.
        keeps_deleted_seconds: how long deletions are kept on the target, so that ``update_deleted`` is detected; None
            if they are not.
    """

    rules: Mapping[tuple[str | None, Kind], Rule] = field(default_factory=dict)
    logs: bool = True
    fills: bool = False
    keeps_deleted_seconds: float | None = None

    @classmethod
    def parse(
        cls,
        texts: Sequence[str],
        *,
        log: str = "log",
        two_phase: bool = False,
        keeps_deleted_seconds: float | None = None,
    ) -> ConflictRules:
        """Read rules.

        Args:
            texts: each ``[TABLE:]KIND=ACTION``; log: ``log``, ``table`` or ``both``.
            two_phase: transactions come at PREPARE, when no commit time is known.
            keeps_deleted_seconds: how long deletions are kept on the target; None: not at all.

        Raises:
            UsageError: one is malformed, two contradict each other, or a function cannot be loaded.
        """
        rules: dict[tuple[str | None, Kind], Rule] = {}
        for text in texts:
            table, kind, rule = _parsed(text)
            if kind == Kind.UPDATE_DELETED and keeps_deleted_seconds is None:
                raise UsageError("update_deleted is not told apart without --retain-deleted")
            if two_phase and rule.needs_times:
                raise UsageError(f"{rule.action} needs commit times, which are not known at PREPARE: {text}")
            if rules.get((table, kind), rule).text != rule.text:
                raise UsageError(f"two rules for one conflict: {rules[table, kind].text} and {text}")
            rules[table, kind] = rule
        return cls(rules, log in ("log", "both"), log in ("table", "both"), keeps_deleted_seconds)

    def rule(self, table: str, kind: Kind) -> Rule:
        """Return the rule for a kind of conflict of a table, as ``schema.table``."""
        given = self.rules.get((table, kind)) or self.rules.get((None, kind))
        return given or Rule(default_action(kind), is_given=False)

    def kinds(self, table: str) -> frozenset[Kind]:
        """Return the kinds that there are rules for, of a table."""
        return frozenset(kind for own, kind in self.rules if own in (None, table))

    def uses_times(self, table: str) -> bool:
        """Tell whether commit times of a table's rows, as ``schema.table``, may decide, or a function is given them."""
        rules = (rule for (own, _), rule in self.rules.items() if own in (None, table))
        return any(rule.needs_times or rule.decide is not None for rule in rules)

    @property
    def tables(self) -> list[str]:
        """The tables that have rules of their own."""
        return sorted({table for table, _ in self.rules if table is not None})

    @property
    def compares_times(self) -> bool:
        """Whether commit times decide somewhere."""
        return any(rule.needs_times for rule in self.rules.values())

    @property
    def needs_times(self) -> bool:
        """Whether something of it needs the target's commit times."""
        keeps = self.keeps_deleted_seconds is not None
        return keeps or any(rule.needs_times or kind.is_of_origins for (_, kind), rule in self.rules.items())


def _parsed(text: str) -> tuple[str | None, Kind, Rule]:
    left, equals, action = text.partition("=")
    table, _, kind = left.rpartition(":")
    if not equals:
        raise UsageError(f'conflict rule "{text}" is malformed', hint="expected [TABLE:]KIND=ACTION")
    if kind not in list(Kind):
        raise UsageError(f'unknown kind of conflict "{kind}"', hint=f"expected {', '.join(Kind)}")
    own = Kind(kind)
    name = (table if "." in table else f"public.{table}") if table else None
    if action.startswith(PYTHON):
        return name, own, Rule(Action.ERROR, _loaded(action.removeprefix(PYTHON)), text)
    if action not in list(Action):
        expected = f"{', '.join(Action)} or python:package.module:function"
        raise UsageError(f'unknown action for a conflict "{action}"', hint=f"expected {expected}")
    _check(own, Action(action), text)
    return name, own, Rule(Action(action), None, text)


def _check(kind: Kind, action: Action, text: str) -> None:
    if kind in (Kind.UPDATE_MISSING, Kind.DELETE_MISSING) and action.is_of_times:
        raise UsageError(f"there is no local row of which the time could count: {text}")
    if kind == Kind.DELETE_MISSING and action == Action.APPLY_REMOTE:
        raise UsageError(f"there is nothing to apply to a row that is not there: {text}")


def _loaded(name: str) -> Decide:
    module, colon, function = name.partition(":")
    try:
        decide = getattr(importlib.import_module(module), function) if colon else None
    except (ImportError, AttributeError, ValueError) as error:
        raise UsageError(f'cannot load "{name}" for conflicts: {error}') from None
    if not callable(decide):
        raise UsageError(f'"{name}" is no function', hint="expected python:package.module:function")
    return decide  # type: ignore[no-any-return]
