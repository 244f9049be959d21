"""Facts of the source that its stream does not tell, and rules need.

PostgreSQL: catalogs pg_database, pg_publication, pg_attribute; 14 to 19.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from headwater.apply.incoming.map_rules import MapRules, TableName
from headwater.apply.incoming.requests import ApplyRequest
from headwater.apply.mapped.asked_log import AskedLog
from headwater.catalog.relation import DatabaseLocale
from headwater.catalog.store.historic_catalog import HistoricCatalog
from headwater.pg.version import VERSIONS, Version
from headwater.receiver.replication_connection import ReplicationConnection
from headwater.remote_slots.slot_connection import conninfo_of, literal

_DATABASE = """
SELECT pg_catalog.pg_encoding_to_char(d.encoding), coalesce(j ->> 'datlocprovider', 'c'), d.datcollate, d.datctype,
       coalesce(j ->> 'datlocale', j ->> 'daticulocale', '')
FROM pg_catalog.pg_database d CROSS JOIN LATERAL pg_catalog.to_jsonb(d) j
WHERE d.datname = pg_catalog.current_database()
"""
_OLD_ROWS = "SELECT pg_catalog.bool_or(pubupdate OR pubdelete) FROM pg_catalog.pg_publication WHERE pubname IN ({})"
_COLLATIONS = """
SELECT n.nspname, c.relname, a.attname, a.attcollation
FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
     JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE a.attnum > 0 AND NOT a.attisdropped AND (n.nspname, c.relname) IN ({})
"""


UNKNOWN = DatabaseLocale("", "", "c")
"""The locale of a database that is not known: the order of its text, and its letters, are not."""


@dataclass(frozen=True)
class SourceFacts:
    """The facts.

    Attributes:
        version: the server's; encoding, locale: of its database.
        publishes_old_rows: updates or deletes are published, so rows are looked up.
        collations: OIDs of the collations of columns, by name, of tables with conditions.
    """

    version: Version = VERSIONS[max(VERSIONS)]
    encoding: str = "UTF8"
    locale: DatabaseLocale = UNKNOWN
    publishes_old_rows: bool = True
    collations: Mapping[TableName, Mapping[str, int]] = field(default_factory=dict)


class CatalogAtHand(Protocol):
    """The catalog of a log that is the source."""

    @property
    def postgres(self) -> Version:
        """The facts of the cluster's version."""

    @property
    def view(self) -> HistoricCatalog:
        """The catalog as of the place that is looked at."""


Asked = ReplicationConnection | CatalogAtHand
"""A server, or the catalog at hand."""


def open_asked(request: ApplyRequest) -> ReplicationConnection | AskedLog:
    """Connect to the source's server, or open the catalog at hand.

    Raises:
        ServerError: the server refuses.
        ConnectionLostError: there is no server.
        HeadwaterError: the catalog at hand cannot be read.
    """
    if request.wal is not None:
        return AskedLog(request.wal)
    return ReplicationConnection(*conninfo_of(request.source))


def ask_source(source: Asked, publications: Sequence[str], rules: MapRules) -> SourceFacts:
    """Ask a source for the facts that rules need.

    Raises:
        ServerError: it refuses, as a service without catalogs that can be asked.
        ConnectionLostError: it is lost.
    """
    if not (rules.conditions or rules.excluded):
        return SourceFacts()
    if not isinstance(source, ReplicationConnection):
        return _of_catalog(source, publications, rules)
    names = ", ".join(map(literal, publications))
    ((has_old_rows,),) = source.rows(_OLD_ROWS.format(names))
    publishes_old_rows = has_old_rows != "f"
    if not rules.conditions:
        return SourceFacts(source.postgres, publishes_old_rows=publishes_old_rows)
    ((encoding, provider, collate, ctype, own),) = (map(str, row) for row in source.rows(_DATABASE))
    locale = DatabaseLocale(collate, ctype, provider) if provider == "c" else DatabaseLocale(own, own, provider)
    return SourceFacts(source.postgres, encoding, locale, publishes_old_rows, _collations(source, rules))


def _of_catalog(source: CatalogAtHand, publications: Sequence[str], rules: MapRules) -> SourceFacts:
    view = source.view
    published = [publication for name in publications if (publication := view.publication(name)) is not None]
    publishes_old_rows = any(publication.update or publication.delete for publication in published)
    collations: dict[TableName, dict[str, int]] = {}
    tables = {rule.table for rule in rules.conditions}
    for relation in filter(None, map(view.relation, view.tables())):
        name = TableName(relation.namespace, relation.name)
        if name in tables:
            collations[name] = {column.name: column.collation for column in relation.columns}
    return SourceFacts(source.postgres, view.encoding, view.locale(), publishes_old_rows, collations)


def _collations(source: ReplicationConnection, rules: MapRules) -> dict[TableName, dict[str, int]]:
    tables = [rule.table for rule in rules.conditions]
    names = ", ".join(f"({literal(namespace)}, {literal(name)})" for namespace, name in tables)
    collations: dict[TableName, dict[str, int]] = {}
    for row in source.rows(_COLLATIONS.format(names)):
        namespace, name, column, collation = map(str, row)
        collations.setdefault(TableName(namespace, name), {})[column] = int(collation)
    return collations
