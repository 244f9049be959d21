"""Changes as rows instead of messages: which of them are wanted.

:class:`RowChanges` plays the output plugin on the driver: it says which relations' changes are wanted, and names the
relations of truncates. The tasks then turn cells into rows (:mod:`headwater.pipeline.slices.row_batches`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from headwater.base.overrides import override
from headwater.catalog.relation import RelationSchema
from headwater.errors import PluginError, errors_of_table, warn
from headwater.filters.changes import compiled
from headwater.pg.catalogs import FIRST_NORMAL_OBJECT_ID
from headwater.pg.version import VERSIONS
from headwater.plugins.api import (
    WANT_ALL,
    WANT_DELETE,
    WANT_INSERT,
    WANT_TRUNCATE,
    WANT_UPDATE,
    CatalogView,
    DdlEvent,
    Description,
    PluginTraits,
    SlicePlugin,
    SliceTables,
    WholeCatalog,
)
from headwater.plugins.publication import (
    is_publishable,
    load_publications,
    published,
    require_publications,
)
from headwater.plugins.rows.row_filter import EVERYTHING, RowFilter
from headwater.plugins.rows.row_messages import ddl_message, truncate_message
from headwater.plugins.table_patterns import TablePatterns, qualified_name
from headwater.rows.items import Messages


@dataclass(frozen=True)
class TableChoice:
    """The relations that are asked for.

    Attributes:
        patterns: their names, as of the change.
        where: says which of their changes are wanted.
        named: OID of the relation that the only pattern, a plain name, means; not called before the catalog was rolled
            forward. It is None, or returns None, where no relation is to be found by its OID.
        with_replaced: other relations that bore that name are chosen as well, for their time under it.
        left_out: OIDs of tables that are not chosen, whatever their names, nor are their partitions.
        only: OIDs of those that are chosen at most, with their partitions; None for any.
    """

    patterns: TablePatterns
    where: RowFilter = EVERYTHING
    named: Callable[[], int | None] | None = None
    with_replaced: bool = False
    left_out: frozenset[int] = frozenset()
    only: frozenset[int] | None = None

    @property
    def is_everything(self) -> bool:
        """Whether every table is chosen."""
        return self.patterns.are_all and not self.left_out and self.only is None

    def leaves_out(self, schema: RelationSchema, catalog: CatalogView) -> bool:
        """Tell whether a relation is left out for the table that it is, or is a partition of, or as excluded."""
        original = catalog.relation(schema.rewrite_of) if schema.rewrite_of else schema
        table = schema.rewrite_of if original is None else original.topmost
        is_other = self.only is not None and table not in self.only
        return is_other or table in self.left_out or self.patterns.excludes(schema, catalog)

    def chooses(self, schema: RelationSchema, catalog: CatalogView) -> bool:
        """Tell whether changes of this version of a relation are asked for, as of a view of the catalog."""
        if self.leaves_out(schema, catalog):
            return False
        named = self.named() if self.named is not None else None
        if named is not None and schema.oid == named:
            return True
        if named is not None and not self.with_replaced:
            return False
        return self.patterns.chooses(schema, catalog)


def require_text(schema: RelationSchema) -> None:
    """Refuse a relation whose names cannot be those of columns and tables in Spark.

    Raises:
        PluginError: one has bytes that are no characters, or have no equivalent in UTF8.
    """
    names = [schema.namespace, schema.name, *(column.name for column in schema.columns if not column.is_dropped)]
    wrong = next((name for name in names if not _is_text(name)), None)
    if wrong is not None:
        shown = wrong.encode("utf-8", "backslashreplace").decode()
        raise PluginError(
            f'the name "{shown}" of or in the table with OID {schema.oid} is no text in UTF8',
            hint="leave the table out, or read a plugin's messages",
        )


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


class RowChanges(SlicePlugin):
    """The plugin that wants the changes of the chosen tables; runs on the driver, pickles to the tasks.

    Args:
        choice: the tables.
        publications: names; none for no restriction.
        major: PostgreSQL's.
        marks_rows, wants_ddl: see :class:`headwater.plugins.api.PluginTraits`.
        encoding: the database's.
        mirrors: what tables hold is wanted, not what was done. So are the rows of a heap that ALTER TABLE has written:
            inserts of a relation that says of which one it is the new heap. Materialized views are not.
    """

    name: ClassVar[str] = "rows"

    def __init__(
        self,
        choice: TableChoice,
        publications: Sequence[str],
        major: int,
        marks_rows: bool = False,
        encoding: str = "UTF8",
        wants_ddl: bool = False,
        mirrors: bool = False,
    ) -> None:
        self.choice = choice
        self.publications = tuple(publications)
        self.major = major
        self.encoding = encoding
        self.traits = PluginTraits(
            skips_empty=True, wants_client_encoding=True, marks_rows=marks_rows, wants_ddl=wants_ddl
        )
        self.mirrors = mirrors

    def __reduce__(self) -> tuple[Any, ...]:
        # Which table a name means is asked on the driver only, and takes the whole catalog to answer.
        return RowChanges, (
            TableChoice(self.choice.patterns),
            self.publications,
            self.major,
            self.traits.marks_rows,
            self.encoding,
            self.traits.wants_ddl,
            self.mirrors,
        )

    def wants(self, schema: RelationSchema, catalog: CatalogView) -> int:
        """Want the chosen changes of permanent user tables, of those that the publications publish."""
        return self.describe(schema, catalog).wants

    def describe(self, schema: RelationSchema, catalog: CatalogView) -> Description:
        """Say which changes are wanted, and the publications' row filters."""
        if schema.oid < FIRST_NORMAL_OBJECT_ID or not self._is_followed(schema, catalog):
            return Description()
        if not self.choice.chooses(schema, catalog):
            return Description()
        with errors_of_table(schema.topmost, qualified_name(schema)):
            require_text(schema)
        where = self.choice.where
        # A truncate's relations are counted before any is left out, and cost nothing.
        operations = where.operations if where.keeps(schema) else where.operations & WANT_TRUNCATE
        if not operations or not self.publications:
            return Description(operations & WANT_ALL)
        return self._published(schema, catalog, operations) if is_publishable(schema) else Description()

    def _is_followed(self, schema: RelationSchema, catalog: CatalogView) -> bool:
        """Tell whether a relation has rows of the kind that is wanted."""
        original = catalog.relation(schema.rewrite_of) if self.mirrors and schema.rewrite_of else schema
        if original is None or original.rewrite_of:
            return False
        return original.kind in ("rp" if self.mirrors else "rmp")

    def _published(self, schema: RelationSchema, catalog: CatalogView, operations: int) -> Description:
        """Say which of some operations, as WANT bits, are published."""
        publications = load_publications(self.publications, catalog, self.major)
        for name in set(self.publications).difference(publication.name for publication in publications):
            warn(f'publication "{name}" does not exist at some change in the window: it publishes nothing there')
        entry = published(schema, publications, catalog, self.major)
        if entry.filters is None:
            return Description(operations & entry.emits)
        compiled(entry.filters, VERSIONS[self.major], self.encoding).check()
        # What is asked for may have been an UPDATE; Spark looks at operations again (RowFilter.pushed).
        if entry.filters.update and operations & (WANT_INSERT | WANT_DELETE):
            operations |= WANT_UPDATE
        return Description(operations & entry.emits, filters=entry.filters)

    @override
    def validate(self, catalog: WholeCatalog) -> None:
        require_publications(self.publications, catalog)

    @override
    def truncate(self, schemas: Sequence[RelationSchema], cascade: bool, restart_seqs: bool) -> list[bytes]:
        """Make one message per relation, which becomes a row of its own."""
        where = self.choice.where
        return [truncate_message(schema, number) for number, schema in enumerate(schemas) if where.keeps(schema)]

    @override
    def ddl(self, event: DdlEvent, number: int, catalog: CatalogView) -> list[bytes]:
        """Make a message, which becomes a row."""
        return [ddl_message(event, number)]

    @override
    def wants_message(self, transactional: bool) -> bool:
        """Refuse them: a logical message is no change of a row."""
        return False

    @override
    def message(self, lsn: int, transactional: bool, prefix: bytes, content: bytes) -> list[bytes]:
        return []

    @override
    def origin(self, origin_id: int, name: str | None, lsn: int) -> list[bytes]:
        """Return the origin's name."""
        if not name:
            return []
        if not _is_text(name):
            raise PluginError("the name of a replication origin is no text in UTF8", lsn=lsn)
        return [name.encode()]

    @override
    def render(self, tables: SliceTables) -> Messages:
        """Refuse: rows have no messages.

        Raises:
            PluginError: always.
        """
        raise PluginError("rows of changes have no messages")
