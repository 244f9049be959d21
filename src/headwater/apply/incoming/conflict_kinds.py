"""Kinds of conflicts, as servers of 18 and 19 name them, and what may be done about each.

PostgreSQL: replication/logical/conflict.c (ConflictTypeNames, errcode_apply_conflict); 18 and 19.
"""

from __future__ import annotations

from enum import StrEnum


class Kind(StrEnum):
    """A kind of conflict; its value is the server's name."""

    INSERT_EXISTS = "insert_exists"
    UPDATE_ORIGIN_DIFFERS = "update_origin_differs"
    UPDATE_EXISTS = "update_exists"
    UPDATE_DELETED = "update_deleted"
    UPDATE_MISSING = "update_missing"
    DELETE_ORIGIN_DIFFERS = "delete_origin_differs"
    DELETE_MISSING = "delete_missing"
    MULTIPLE_UNIQUE_CONFLICTS = "multiple_unique_conflicts"

    @property
    def is_unique(self) -> bool:
        """Whether a row is in the way of a unique index."""
        return self in (Kind.INSERT_EXISTS, Kind.UPDATE_EXISTS, Kind.MULTIPLE_UNIQUE_CONFLICTS)

    @property
    def is_missing(self) -> bool:
        """Whether there is no row to be changed."""
        return self in (Kind.UPDATE_MISSING, Kind.DELETE_MISSING, Kind.UPDATE_DELETED)

    @property
    def is_of_origins(self) -> bool:
        """Whether the row to be changed was written by somebody else."""
        return self in (Kind.UPDATE_ORIGIN_DIFFERS, Kind.DELETE_ORIGIN_DIFFERS)

    @property
    def sqlstate(self) -> str:
        """The server's SQLSTATE."""
        return "23505" if self.is_unique else "40001"

    @property
    def column(self) -> str:
        """The column of pg_stat_subscription_stats that counts it."""
        return f"confl_{self.value}"

    def message(self, namespace: str, name: str) -> str:
        """Return the server's message of it, for a table."""
        return f'conflict detected on relation "{namespace}.{name}": conflict={self.value}'


class Action(StrEnum):
    """An action that a rule may have for a conflict."""

    ERROR = "error"
    APPLY_REMOTE = "apply_remote"
    KEEP_LOCAL = "keep_local"
    LAST_UPDATE_WINS = "last_update_wins"
    FIRST_UPDATE_WINS = "first_update_wins"

    @property
    def is_of_times(self) -> bool:
        """Whether commit times decide."""
        return self in (Action.LAST_UPDATE_WINS, Action.FIRST_UPDATE_WINS)


def default_action(kind: Kind) -> Action:
    """Return what a subscription does."""
    if kind.is_unique:
        return Action.ERROR
    return Action.KEEP_LOCAL if kind.is_missing else Action.APPLY_REMOTE
