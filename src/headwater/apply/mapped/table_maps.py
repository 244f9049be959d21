"""The map of one relation: what it is called on the target, which of its columns come, masked how, and which rows.

In: the relation as the source announces it, and the rules. Out: the relation as the target's appliers are to see it.

PostgreSQL: commands/publicationcmds.c and executor/execReplication.c (CheckCmdReplicaIdentity) for what a key has to
have.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from headwater.apply.incoming.map_rules import ColumnRule, MapRules, TableName, TableRules, mask_of
from headwater.apply.incoming.messages import BINARY, NULL, TEXT, SentTuple
from headwater.apply.mapped.row_filters import RowFilter, row_filter
from headwater.apply.mapped.source_facts import SourceFacts
from headwater.apply.progress.installation import SCHEMA
from headwater.errors import DecodingError, TargetError, UsageError
from headwater.remote_slots.announced_relations import SentColumn, SentRelation
from headwater.rows.masks import Masking, masking


@dataclass(frozen=True)
class TableMap:
    """The map.

    Attributes:
        source, target: the relation as it is announced, and as it is handed on.
        places: of the columns that come, None for all of them.
        masks: functions by the places of columns, of the source's.
        condition: that rows meet, None for all rows.
        is_left_out: nothing of it comes.
    """

    source: SentRelation
    target: SentRelation
    places: tuple[int, ...] | None = None
    masks: tuple[tuple[int, Masking], ...] = ()
    condition: RowFilter | None = None
    is_left_out: bool = False

    @property
    def changes_rows(self) -> bool:
        """Whether rows are not handed on as they are."""
        return self.is_left_out or self.places is not None or bool(self.masks) or self.condition is not None

    @cached_property
    def keeps(self) -> tuple[bool, ...] | None:
        """Of each column whether it stays, where that is all that becomes of rows; else None."""
        if self.places is None or self.masks or self.condition is not None:
            return None
        return tuple(at in self.places for at in range(len(self.source.columns)))

    def check(self, row: SentTuple) -> None:
        """See that a tuple has all columns.

        Raises:
            TargetError: it has not; in the words of the apply worker.
        """
        count = len(row.kinds)
        if count < len(self.source.columns):
            text = f"logical replication column {count + 1} not found in tuple: only {count} column(s) received"
            raise TargetError(text, sqlstate="08P01")

    def row(self, row: SentTuple) -> SentTuple:
        """Return a tuple as it is handed on."""
        kinds, values = bytearray(row.kinds), list(row.values)
        for place, mask in self.masks:
            value = values[place]
            if kinds[place] == TEXT and value is not None:
                values[place] = masked = mask(value)
                kinds[place] = NULL if masked is None else TEXT
            elif kinds[place] == BINARY:
                raise DecodingError("a value that is to be masked came in binary form, expected text")
        if self.places is None:
            return SentTuple(bytes(kinds), tuple(values))
        return SentTuple(bytes(kinds[place] for place in self.places), tuple(values[place] for place in self.places))


def map_table(rules: MapRules, sent: SentRelation, facts: SourceFacts) -> TableMap:
    """Return the map of a relation.

    Args:
        rules: all of them; sent: the relation as the source has it; facts: of the source.

    Raises:
        UsageError: a rule does not fit the relation.
    """
    name = TableName(sent.namespace, sent.name)
    if rules.leaves_out(name):
        return TableMap(sent, sent, is_left_out=True)
    own, target = rules.of(name), rules.target(name)
    if target.namespace == SCHEMA != name.namespace:
        raise UsageError(f'table "{name}" would come to the schema "{SCHEMA}", which is for the target\'s own tables')
    _check_columns(own, sent, facts)
    places = [at for at, column in enumerate(sent.columns) if column.name not in own.excluded]
    columns = tuple(_column(sent.columns[at], own) for at in places)
    masks = tuple(
        (at, masking(mask_of(own.masked[column.name]), rules.secret, column.type_oid))
        for at, column in enumerate(sent.columns)
        if column.name in own.masked
    )
    return TableMap(
        source=sent,
        target=replace(sent, namespace=target.namespace, name=target.name, columns=columns),
        places=tuple(places) if own.excluded else None,
        masks=masks,
        condition=row_filter(own.condition, sent, facts) if own.condition else None,
    )


def _column(column: SentColumn, rules: TableRules) -> SentColumn:
    rule = rules.renamed.get(column.name)
    # A masked value is another one than the source's type has taken: the target may refuse it.
    typmod = MASKED if column.name in rules.masked else column.typmod
    return replace(column, name=rule.value if rule else column.name, typmod=typmod)


MASKED = -2
"""Modifier of the type of a column that is masked, which no column of a table has."""


def _check_columns(rules: TableRules, sent: SentRelation, facts: SourceFacts) -> None:
    columns = {column.name: column for column in sent.columns}
    for rule in rules.columns:
        if rule.column not in columns:
            raise UsageError(f'{rule.text}: table "{rule.table}" of the source sends no column "{rule.column}"')
    for rule in rules.excluded.values():
        _check_excluded(rule, columns[rule.column], sent, facts)
    for rule in rules.masked.values():
        if columns[rule.column].is_key and sent.replica_identity != "f" and not mask_of(rule).tells_apart:
            raise unfit_for_key(rule)
    names: dict[str, str] = {}
    for name in columns.keys() - rules.excluded.keys():
        new = rules.renamed[name].value if name in rules.renamed else name
        if new in names:
            text = next(rules.renamed[each].text for each in (name, names[new]) if each in rules.renamed)
            raise UsageError(f'{text}: two columns of table "{sent.namespace}.{sent.name}" would be called "{new}"')
        names[new] = name


def unfit_for_key(rule: ColumnRule) -> UsageError:
    """Return the error of a mask of a key's column under which keys would not stay apart."""
    return UsageError(
        f'{rule.text}: column "{rule.column}" is of the key by which rows are looked up',
        hint="sha256 and hmac-sha256 keep keys apart",
    )


def _check_excluded(rule: ColumnRule, column: SentColumn, sent: SentRelation, facts: SourceFacts) -> None:
    is_whole = sent.replica_identity == "f"
    if (column.is_key and not is_whole) or (is_whole and facts.publishes_old_rows):
        what = "FULL, so all columns are" if is_whole else "in the column's way: it is"
        raise UsageError(
            f'{rule.text}: replica identity of table "{rule.table}" is {what} of the key, which may not be left out'
        )
