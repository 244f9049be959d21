"""The standing of a subscription as its target has it: whether it is enabled, and what was set of its parameters.

It outlives every process, and whoever applies the subscription looks at it once a second. Parameters that were set go
before what the process was started with, until they are reset.

PostgreSQL: pg_subscription (subenabled and others), subscriptioncmds.c (AlterSubscription).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from headwater.apply.progress import run_states
from headwater.apply.target.connection import TargetConnection
from headwater.errors import TargetError

DDL = (
    """
    CREATE TABLE IF NOT EXISTS headwater.subscription_parameter (
        srsubid int4 NOT NULL REFERENCES headwater.subscription ON DELETE CASCADE,
        name text NOT NULL,
        setting text[] NOT NULL,
        PRIMARY KEY (srsubid, name)
    )
    """,
)
"""Adds what is missing to the schema ``headwater``."""

# Both by one look: what is set may change between two.
_READ = """
SELECT coalesce(r.subenabled, true), p.name, p.number, p.value
FROM headwater.subscription s LEFT JOIN headwater.subscription_run r USING (subname) LEFT JOIN (
    SELECT srsubid, name, number, value
    FROM headwater.subscription_parameter, pg_catalog.unnest(setting) WITH ORDINALITY AS u (value, number)
) p ON p.srsubid = s.subid
WHERE s.subname = $1 ORDER BY p.name, p.number
"""
_IS_THERE = "SELECT pg_catalog.to_regclass('headwater.subscription_parameter') IS NOT NULL"
_NAMED = "SELECT subid FROM headwater.subscription WHERE subname = $1 FOR UPDATE"
_RESET = "DELETE FROM headwater.subscription_parameter WHERE srsubid = $1::int4 AND name = $2"
_SET = """
INSERT INTO headwater.subscription_parameter (srsubid, name, setting) VALUES ($1::int4, $2, $3::text[])
"""
_LIST = "SELECT subname FROM headwater.subscription ORDER BY subname"
_OBJECT_MISSING = "42704"

Parameters = tuple[tuple[str, tuple[str, ...]], ...]
"""Parameters that were set: names of flags without dashes, and the values of each, ordered by name."""


@dataclass(frozen=True)
class Standing:
    """A subscription's standing.

    Attributes:
        is_there: the target has the subscription.
        is_enabled: it is to be applied; parameters: what was set.
    """

    is_there: bool = False
    is_enabled: bool = True
    parameters: Parameters = field(default=())


def read_standing(connection: TargetConnection, subscription: str) -> Standing:
    """Read the standing of a subscription; of one that is not there, that of a new one.

    Raises:
        ServerError: the target refuses, or is lost.
    """
    if connection.rows(_IS_THERE) != [("t",)]:
        return Standing()
    rows = connection.rows(_READ, (subscription,))
    if not rows:
        return Standing()
    parameters: dict[str, tuple[str, ...]] = {}
    for _, name, _, value in rows:
        if name is not None:
            parameters[name] = (*parameters.get(name, ()), str(value))
    return Standing(True, rows[0][0] == "t", tuple(parameters.items()))


def list_names(connection: TargetConnection) -> list[str]:
    """List the subscriptions that a target has."""
    if connection.rows(_IS_THERE) != [("t",)]:
        return []
    return [str(name) for (name,) in connection.rows(_LIST)]


def set_enabled(connection: TargetConnection, subscription: str, *, is_enabled: bool) -> None:
    """Enable or disable a subscription.

    Raises:
        TargetError: there is none of that name.
    """
    if not connection.rows(_NAMED, (subscription,)):
        raise missing(subscription)
    (run_states.enable if is_enabled else run_states.disable)(connection, subscription)


def set_parameters(
    connection: TargetConnection, subscription: str, values: dict[str, Sequence[str]], resets: Sequence[str] = ()
) -> None:
    """Set parameters of a subscription, and reset others; in a transaction, if it is to be all or nothing.

    Raises:
        TargetError: there is none of that name.
    """
    rows = connection.rows(_NAMED, (subscription,))
    if not rows:
        raise missing(subscription)
    number = str(rows[0][0])
    for name in (*resets, *values):
        connection.rows(_RESET, (number, name))
    for name, setting in values.items():
        connection.rows(_SET, (number, name, array_text(setting)))


def array_text(values: Sequence[str]) -> str:
    """Write texts as an array of the server's."""
    escaped = (value.replace("\\", "\\\\").replace('"', '\\"') for value in values)
    return "{" + ",".join(f'"{value}"' for value in escaped) + "}"


def missing(subscription: str) -> TargetError:
    """Return the error that there is no subscription of a name."""
    return TargetError(f'subscription "{subscription}" does not exist', sqlstate=_OBJECT_MISSING)
