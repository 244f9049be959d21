"""The subscriptions of a target as it has them itself, where no launcher can be asked."""

from __future__ import annotations

from headwater.apply.launcher.run_status import Json, lsn_text, tables_json
from headwater.apply.progress.installation import install
from headwater.apply.progress.standing import list_names, missing, read_standing
from headwater.apply.progress.subscriptions import read_subscription, read_tables
from headwater.apply.streamed.parallel_origins import read_reached
from headwater.apply.target.connection import TargetConnection

_PUBLICATIONS = "SELECT pg_catalog.unnest(subpublications) FROM headwater.subscription WHERE subname = $1"
_APPLICATION = "headwater subscription"


def standings_of(target: str, name: str | None = None) -> list[Json]:
    """Return the status of the subscriptions that a target has, or of one of them; none where there are none.

    Raises:
        ServerError: the target refuses, or is not there.
    """
    with TargetConnection(target, _APPLICATION) as connection:
        names = [each for each in list_names(connection) if name in (None, each)]
        return [_standing(connection, each) for each in names]


def _standing(connection: TargetConnection, name: str) -> Json:
    standing, subscription = read_standing(connection, name), read_subscription(connection, name)
    tables = [] if subscription is None else read_tables(connection, subscription)
    return {
        "subname": name,
        "state": "enabled" if standing.is_enabled else "disabled",
        "enabled": standing.is_enabled,
        "parameters": {parameter: list(values) for parameter, values in standing.parameters},
        "durable_lsn": lsn_text(read_reached(connection, name, flushed=True)),
        "tables": tables_json(tables),
    }


def read_places(target: str, name: str) -> tuple[str, list[str]]:
    """Return the slot and the publications of a subscription.

    Raises:
        ServerError: there is none of that name, or the target refuses.
    """
    with TargetConnection(target, _APPLICATION) as connection:
        if name not in list_names(connection):
            raise missing(name)
        install(connection)
        subscription = read_subscription(connection, name)
        if subscription is None:
            raise missing(name)
        rows = connection.rows(_PUBLICATIONS, (name,))
        return subscription.slot, [str(publication) for (publication,) in rows]
