"""Publications (PostgreSQL: ``pg_dump.c``, dumpPublication and its kin)."""

from __future__ import annotations

from headwater.catalog.generic_row import NamedRow
from headwater.definitions.objects import PublicationDefinition, PublishedTable
from headwater.definitions.reading import DefinitionSource

_ACTIONS = "insert", "update", "delete", "truncate"
_GENERATED = {"n": "none", "s": "stored"}


class PublicationReader:
    """A reader of publications as of a view."""

    def __init__(self, source: DefinitionSource) -> None:
        self._source = source
        self._naming = source.naming

    def publication(self, row: NamedRow) -> PublicationDefinition:
        """Read a publication, from its row of ``pg_publication``."""
        oid = row.oid("oid")
        members = self._source.rows("pg_publication_rel", "prpubid", oid)
        tables = tuple(map(self._table, sorted(members, key=lambda member: member.oid("prrelid"))))
        schema_oids = self._schemas(oid)
        generated = row.letter("pubgencols")
        if generated in ("\x00", "\x01"):
            generated = ""
        published = tuple(action for action in _ACTIONS if row.flag(f"pub{action}"))
        flags = row.flag("puballtables"), row.flag("puballsequences"), row.flag("pubviaroot")
        name = row.name("pubname")
        return PublicationDefinition(
            oid=oid,
            name=name,
            sql_name=self._naming.quoted(name),
            schema_oid=0,
            core=(flags, generated, published, schema_oids, tuple(map(_table_core, tables))),
            all_tables=flags[0],
            all_sequences=flags[1],
            publish=published,
            via_root=flags[2],
            generated=_GENERATED.get(generated),
            tables=tables,
            schemas=tuple(map(self._naming.namespace, schema_oids)),
        )

    def _schemas(self, oid: int) -> tuple[int, ...]:
        if not self._source.view.follows("pg_publication_namespace"):
            return ()
        return tuple(
            sorted(row.oid("pnnspid") for row in self._source.rows("pg_publication_namespace", "pnpubid", oid))
        )

    def _table(self, row: NamedRow) -> PublishedTable:
        oid, tree = row.oid("prrelid"), row.text("prqual")
        numbers = row.numbers("prattrs") if row.has("prattrs") else ()
        return PublishedTable(
            oid=oid,
            table=self._naming.relation(oid),
            columns=tuple(self._naming.column(oid, number) for number in numbers) or None,
            filter=None if tree is None else self._source.expression(tree, oid),
            is_excepted=row.flag("prexcept"),
            numbers=numbers,
        )


def _table_core(table: PublishedTable) -> tuple[object, ...]:
    return table.oid, table.numbers, table.filter, table.is_excepted
