"""Rules for what comes in, checked against the publisher's tables and the target's before anything is made or applied.

In: a request. Out: the map of each table that a rule is about. Tables that come later are checked when they come.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import cast

from headwater.apply.incoming.map_rules import MapRules, TableName
from headwater.apply.incoming.requests import ApplyRequest
from headwater.apply.mapped.source_facts import ask_source, open_asked
from headwater.apply.mapped.table_maps import map_table
from headwater.apply.mapped.target_checks import check_target
from headwater.apply.table_sync.publisher_tables import describe_table, list_tables
from headwater.apply.target.connection import TargetConnection
from headwater.apply.target.session import TargetFacts
from headwater.errors import ServerError, UsageError
from headwater.receiver.replication_connection import ReplicationConnection
from headwater.remote_slots.announced_relations import SentRelation

_LOCKED, _PATIENCE = "55P03", "SET lock_timeout = '2s'"


def check_rules(connection: TargetConnection, facts: TargetFacts, request: ApplyRequest) -> None:
    """Check the rules of a request against both servers.

    Raises:
        UsageError: a rule names what is not there, contradicts another one, or does not fit what it is about.
        ServerError: a server refuses.
        ConnectionLostError: a server is lost.
    """
    rules, publications = request.maps, request.slot.publications
    if not rules:
        return
    with open_asked(request) as asked:
        source_facts = ask_source(asked, publications, rules)
        # The catalog at hand is asked for tables in the same words.
        source = cast("ReplicationConnection", asked)
        published = [TableName(*table) for table in list_tables(source, publications)]
        check_names(rules, published, copies_data=request.copies_data)
        with suppress(ServerError):
            source.rows(_PATIENCE)
        described = [_described(source, publications, table) for table in tables_with_rules(rules, published)]
        maps = [map_table(rules, sent, source_facts) for sent in described if sent is not None]
    run_as_owner = request.runs_as_owner(facts.major)
    for table in maps:
        check_target(connection, facts, rules, table, run_as_owner=run_as_owner)


def _described(source: ReplicationConnection, publications: Sequence[str], table: TableName) -> SentRelation | None:
    """Ask for a table as it is sent; None if it is locked: its rules are checked when it is announced."""
    try:
        return describe_table(source, publications, *table).sent
    except ServerError as error:
        if error.sqlstate != _LOCKED:
            raise
        return None


def check_names(rules: MapRules, published: Sequence[TableName], *, copies_data: bool) -> None:
    """Check that rules name tables that are published, and bring no two to one table whose rows are copied.

    Raises:
        UsageError: they do.
    """
    for table, text in rules.named().items():
        if table not in published:
            raise UsageError(f'{text}: table "{table}" is not published')
    for schema in rules.schemas:
        if all(table.namespace != schema.source for table in published):
            raise UsageError(f'{schema.text}: no table of schema "{schema.source}" is published')
    for pattern in rules.left_out:
        if not any(map(pattern.has, published)):
            raise UsageError(f"{pattern.text}: no such table is published")
    targets: dict[TableName, TableName] = {}
    for table in sorted(wanted_tables(rules, published)):
        other = targets.setdefault(rules.target(table), table)
        if other != table and copies_data:
            raise UsageError(
                f'tables "{other}" and "{table}" both come to "{rules.target(table)}", whose rows are to be copied',
                hint="give --no-copy-data, or apply each by a subscription of its own",
            )


def wanted_tables(rules: MapRules, tables: Iterable[TableName]) -> list[TableName]:
    """Return the tables that are not left out."""
    return [table for table in tables if not rules.leaves_out(table)]


def tables_with_rules(rules: MapRules, published: Iterable[TableName]) -> list[TableName]:
    """Return the tables that rules change."""
    named = rules.named()
    return [table for table in wanted_tables(rules, published) if table in named or rules.target(table) != table]
