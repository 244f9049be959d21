"""A catalog view that asks a running server, for what plugins look at."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import psycopg

from headwater.catalog.relation import Column, DatabaseLocale, Publication, PublicationMember, RelationSchema, TypeInfo

_TYPE = """
    select t.oid, t.typname, n.nspname, format_type(t.oid, null), t.typtype::text, t.typlen, t.typalign::text,
           t.typbyval, t.typbasetype
    from pg_type t join pg_namespace n on n.oid = t.typnamespace where t.oid = %s
"""
_COLUMNS = """
    select attnum, attname, atttypid, atttypmod, attlen, attalign::text, attisdropped, attgenerated::text
    from pg_attribute where attrelid = %s and attnum > 0 order by attnum
"""
_RELATION = """
    select n.nspname, c.relname, c.relkind::text, c.relpersistence::text, c.relreplident::text, c.relrewrite,
           c.relispartition, c.relnamespace,
           array(select relid::oid::int8 from pg_partition_ancestors(c.oid) where relid <> c.oid)
    from pg_class c join pg_namespace n on n.oid = c.relnamespace where c.oid = %s
"""
_IDENTITY = """
    select array(select unnest(indkey[0:indnkeyatts - 1])) from pg_index
    where indrelid = %s and case %s when 'd' then indisprimary when 'i' then indisreplident else false end
"""
_PUBLICATION = """
    select oid, puballtables, pubinsert, pubupdate, pubdelete, pubtruncate, pubviaroot, {generated}
    from pg_publication where pubname = %s
"""


class SqlCatalog:
    """The catalog as it is now."""

    def __init__(self, connection: psycopg.Connection[Any], major: int) -> None:
        self.connection = connection
        self.major = major

    def oid(self, table: str) -> int:
        """Return a table's OID."""
        row = self.connection.execute("select %s::regclass::oid", (table,)).fetchone()
        assert row is not None
        return int(row[0])

    def table(self, name: str) -> RelationSchema:
        """Return a table by its name."""
        schema = self.relation(self.oid(name))
        assert schema is not None
        return schema

    def relation(self, oid: int) -> RelationSchema | None:
        """Return a relation by its OID."""
        row = self.connection.execute(_RELATION, (oid,)).fetchone()
        if row is None:
            return None
        namespace, name, kind, persistence, identity, rewrite, is_partition, namespace_oid, ancestors = row
        columns = tuple(self._column(*column) for column in self.connection.execute(_COLUMNS, (oid,)))
        keys = self.connection.execute(_IDENTITY, (oid, identity)).fetchone()
        return RelationSchema(
            oid=oid,
            namespace=namespace,
            name=name,
            kind=kind,
            persistence=persistence,
            replica_identity=identity,
            identity_columns=tuple(keys[0]) if keys else (),
            columns=columns,
            rewrite_of=rewrite,
            is_partition=is_partition,
            ancestors=tuple(ancestors),
            namespace_oid=namespace_oid,
        )

    def _column(
        self, number: int, name: str, type_oid: int, typmod: int, length: int, align: str, dropped: bool, generated: str
    ) -> Column:
        type_info = None if dropped else self._type(type_oid)
        return Column(number, name, type_info, typmod, length, align, dropped, generated)

    def _type(self, oid: int) -> TypeInfo:
        row = self.connection.execute(_TYPE, (oid,)).fetchone()
        assert row is not None
        base = self._type(row[8]) if row[8] else None
        return replace(TypeInfo(*row[:8]), base=(base.base or base) if base else None)

    def publication(self, name: str) -> Publication | None:
        """Return a publication by its name."""
        generated = "pubgencols::text" if self.major >= 18 else "'n'"
        row = self.connection.execute(_PUBLICATION.format(generated=generated), (name,)).fetchone()
        if row is None:
            return None
        return Publication(row[0], name, *row[1:])

    def relation_publications(self, oid: int) -> tuple[int, ...]:
        """Return the publications that a relation is in by itself, and negative those that leave it out."""
        publication = "case when prexcept then -prpubid::int8 else prpubid end" if self.major >= 19 else "prpubid"
        query = f"select {publication} from pg_publication_rel where prrelid = %s"
        return tuple(publication for (publication,) in self.connection.execute(query, (oid,)))

    def publication_member(self, relation: int, publication: int) -> PublicationMember | None:
        """Return what a publication says of a relation that it names."""
        choices = "prattrs::int2[], prqual::text" if self.major >= 15 else "null, null"
        query = f"select {choices} from pg_publication_rel where (prrelid, prpubid) = (%s, %s)"
        row = self.connection.execute(query, (relation, publication)).fetchone()
        return None if row is None else PublicationMember(row[0] and tuple(row[0]), row[1])

    def locale(self) -> DatabaseLocale:
        """Return the locale that the database's text is ordered by."""
        provider = "datlocprovider::text" if self.major >= 15 else "'c'"
        query = f"select datcollate, datctype, {provider} from pg_database where datname = current_database()"
        row = self.connection.execute(query).fetchone()
        assert row is not None
        return DatabaseLocale(*row)

    def schema_publications(self, oid: int) -> tuple[int, ...]:
        """Return the publications that a schema is in."""
        if self.major < 15:
            return ()
        query = "select pnpubid from pg_publication_namespace where pnnspid = %s"
        return tuple(publication for (publication,) in self.connection.execute(query, (oid,)))
