"""DDL among pgoutput's messages: a transactional message of its own prefix for each event, in its place.

The server's pgoutput tells no DDL. Subscribers pass over logical messages that they do not know, so nothing breaks
where one comes. Out: JSON that says what has changed, the statements that repeat it, and whether it is about what the
publications have. In: the same, read by whoever applies it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from headwater.catalog.relation import Publication, RelationSchema
from headwater.definitions.events import ALTER, DdlEvent
from headwater.definitions.objects import (
    ColumnDefinition,
    CommentsDefinition,
    ConstraintDefinition,
    Definition,
    IndexDefinition,
    TableDefinition,
)
from headwater.plugins.api import CatalogView
from headwater.plugins.publication import Published, is_publishable, is_targeted

PREFIX = "headwater.ddl"
"""The prefix of the messages."""

Name = tuple[str, str]
"""Schema and name of a table."""


@dataclass(frozen=True)
class DefinitionChange:
    """A change of a definition.

    Attributes:
        action: ``create``, ``alter`` or ``drop``; kind: of the object; name: its name in SQL, after the change.
        sql: statements that repeat it; unsupported: why there are none, although there should be; empty otherwise.
        was, table: the table that the object is, or is a part of, before and after the change; None for none.
        parent: of a partition, the table that it is one of.
        is_published: changes of the table are published after it, in some way; is_listed: as those of the table itself.
        copies: why the rows that there are cannot be had by the statements; empty where they can.
        columns: names and types of the columns that are published after it; None for those of another table.
        dropped: names of columns that the table had before; part: of the event, see :class:`DdlEvent`.
    """

    action: str
    kind: str
    name: str
    sql: tuple[str, ...]
    unsupported: str = ""
    was: Name | None = None
    table: Name | None = None
    parent: Name | None = None
    is_published: bool = False
    is_listed: bool = False
    copies: str = ""
    columns: tuple[Name, ...] | None = None
    dropped: tuple[str, ...] = ()
    part: int = 0

    def message(self) -> bytes:
        """Return it as the content of a message."""
        return json.dumps(asdict(self), ensure_ascii=False).encode()

    @classmethod
    def of_message(cls, content: bytes) -> DefinitionChange:
        """Read the content of a message."""
        fields = json.loads(content)
        for name in ("was", "table", "parent"):
            fields[name] = None if fields[name] is None else tuple(fields[name])
        columns = fields["columns"]
        fields["columns"] = None if columns is None else tuple(map(tuple, columns))
        return cls(**fields | {name: tuple(fields[name]) for name in ("sql", "dropped")})


@dataclass(frozen=True)
class Publishing:
    """The way in which a relation is published.

    Attributes:
        publications: all of the client's; entry: of the relation.
    """

    publications: Sequence[Publication]
    entry: Published | None


def definition_change(
    event: DdlEvent, relation: RelationSchema | None, publishing: Publishing, catalog: CatalogView
) -> DefinitionChange:
    """Make what is told of an event.

    Args:
        event: it; relation: the table that it is about, as of after it; publishing: how that is published.
        catalog: as of after the event.
    """
    bare = DefinitionChange(
        *(event.action, event.kind, event.name, event.sql, event.unsupported), *_names(event), part=event.part
    )
    if relation is None or not is_publishable(relation):
        return bare
    entry, definition = publishing.entry, event.table
    is_published = is_targeted(relation, publishing.publications, catalog)
    is_listed = entry is not None and entry.emits != 0 and entry.publish_as.oid == relation.oid
    parent = catalog.relation(relation.ancestors[0]) if relation.is_partition and relation.ancestors else None
    return DefinitionChange(
        *(event.action, event.kind, event.name, event.sql, event.unsupported, bare.was),
        (relation.namespace, relation.name),
        None if parent is None else (parent.namespace, parent.name),
        is_published,
        is_listed,
        _copies(event),
        None if definition is None or entry is None else _columns(definition, relation, entry),
        _dropped(event),
        event.part,
    )


def table_of(event: DdlEvent) -> int:
    """Return the OID of the table that an event is about, 0 for none."""
    either = event.after or event.before
    if isinstance(either, TableDefinition | CommentsDefinition):
        return either.oid
    return either.table_oid if isinstance(either, ConstraintDefinition | IndexDefinition) else 0


def _names(event: DdlEvent) -> tuple[Name | None, Name | None]:
    """Return the names of a table before and after an event; a part's table has the same one in both."""
    if isinstance(event.after or event.before, ConstraintDefinition | IndexDefinition):
        own = _name(event.table)
        return own, own
    return _name(event.before), _name(event.after)


def _name(definition: Definition | None) -> Name | None:
    return (definition.schema, definition.name) if isinstance(definition, TableDefinition) else None


def _columns(definition: TableDefinition, relation: RelationSchema, entry: Published) -> tuple[Name, ...]:
    published = {column.name for column in relation.columns if entry.publishes(column)}
    return tuple((column.name, column.type) for column in definition.columns if column.name in published)


def _dropped(event: DdlEvent) -> tuple[str, ...]:
    before, after = event.before, event.after
    if not isinstance(before, TableDefinition) or not isinstance(after, TableDefinition):
        return ()
    names = {column.name for column in after.columns}
    return tuple(column.name for column in before.columns if column.name not in names)


def _copies(event: DdlEvent) -> str:
    """Say why the statements of an event may give existing rows other values than the source's have."""
    before, after = event.before, event.after
    if event.action != ALTER or not isinstance(before, TableDefinition) or not isinstance(after, TableDefinition):
        return ""
    old = {column.number: column for column in before.columns}
    if event.is_rewritten:
        return "the source has written all rows anew"
    for column in after.columns:
        if column.number not in old and not _is_constant(column):
            return f'the default of the new column "{column.name}" was computed on the source'
    return ""


def _is_constant(column: ColumnDefinition) -> bool:
    """Tell whether existing rows get the same value for a new column wherever it is added."""
    return column.generated != "" or (
        not column.identity and (column.default is None or column.default.tree.startswith("{CONST"))
    )
