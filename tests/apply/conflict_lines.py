"""Conflicts as a stock subscription's server logs them, and as ``headwater apply`` tells of them, made comparable."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from apply.differential import OURS, STOCK, Differential
from headwater.local_servers.embedded_postgres import EmbeddedPostgres

_STOCK = re.compile(
    r"^<logical replication (?:parallel )?(?:apply |tablesync )?worker> (?P<sqlstate>\w{5}) (?P<rest>.*)$"
)
_OURS = re.compile(
    r"^headwater: (?P<message>conflict detected on .*?)(?:, resolution=\w+)? \(SQLSTATE (?P<sqlstate>\w{5})\)$"
)
_ORIGIN = re.compile(r'(replication origin )"(?:pg_\d+|headwater_ours)"')
_XID = re.compile(r"(modified|deleted)( locally| by [^\n]*?)? in transaction \d+( at [-0-9:. +]*\d)?")


@dataclass(frozen=True)
class Told:
    """A conflict.

    Attributes:
        sqlstate, message, detail, context: what both write; transactions and times of local rows are masked.
    """

    sqlstate: str
    message: str
    detail: str
    context: str


def of_stock(server: EmbeddedPostgres) -> list[Told]:
    """Read the conflicts in a server's log."""
    conflicts = []
    entries = re.split(r"\n(?=<)", server.log_file.read_text(errors="replace"))
    for at, entry in enumerate(entries):
        match = _STOCK.match(entry.partition("\n")[0])
        if match is None or "conflict detected on" not in match["rest"]:
            continue
        parts = dict(_parts(entries[at + 1 : at + 3]))
        message = match["rest"].partition(":  ")[2]
        conflicts.append(_masked(match["sqlstate"], message, parts))
    return conflicts


def of_ours(text: str) -> list[Told]:
    """Read the conflicts in what ``headwater apply`` has written."""
    conflicts = []
    entries = re.split(r"\n(?!\t)", text)
    for at, entry in enumerate(entries):
        if (match := _OURS.match(entry)) is not None:
            parts = {name: rest for name, _, rest in (part.partition(":  ") for part in entries[at + 1 : at + 3])}
            conflicts.append(_masked(match["sqlstate"], match["message"], parts))
    return conflicts


def counts(pair: Differential) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the counts of the stock subscription, and ours of the same kinds."""
    stock = _counts(pair.target, STOCK, "SELECT * FROM pg_stat_subscription_stats WHERE subname = 'stock'")
    ours = _counts(pair.target, OURS, "SELECT * FROM headwater.stat_subscription_stats")
    return stock, {name: ours.get(name) for name in stock}


def _counts(server: EmbeddedPostgres, database: str, query: str) -> dict[str, Any]:
    with server.connect(database) as session:
        cursor = session.execute(query.encode())
        names = [column.name for column in cursor.description or ()]
        rows = cursor.fetchall()
    counts = dict(zip(names, rows[0], strict=True)) if rows else {}
    return {name: count for name, count in counts.items() if name.startswith("confl_")}


def _parts(entries: Sequence[str]) -> Iterator[tuple[str, str]]:
    for entry in entries:
        match = _STOCK.match(entry.partition("\n")[0])
        if match is not None:
            name, _, rest = entry[match.start("rest") :].partition(":  ")
            yield name, rest


def _masked(sqlstate: str, message: str, parts: dict[str, str]) -> Told:
    detail = _XID.sub(
        lambda at: f"{at[1]}{at[2] or ''} in transaction X{' at T' if at[3] else ''}", parts.get("DETAIL", "")
    )
    context = _ORIGIN.sub(r"\1", parts.get("CONTEXT", ""))
    return Told(sqlstate, message, detail.replace("\n\t", "\n"), context)
