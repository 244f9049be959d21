"""Errors of the target that name its tables, with the source's names beside them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from headwater.apply.incoming.map_rules import MapRules, TableName
from headwater.errors import HeadwaterError, TargetError

_RELATION = re.compile(r'relation "([^"]+)\.([^".]+)"')
_COLUMN = re.compile(r'column "([^"]+)"')


def name_both_ends(error: HeadwaterError, rules: MapRules) -> None:
    """Add to an error's context what tables and columns that it names are called at the source, if rules rename them.

    What the target says stays as it is: the words are those of a subscription there.
    """
    if not isinstance(error, TargetError) or not rules:
        return
    text = f"{error.message}\n{error.context or ''}"
    lines = dict.fromkeys(_lines(text, rules))
    known = (error.context or "").split("\n")
    error.context = "\n".join([*filter(None, known), *(line for line in lines if line not in known)]) or None


def _lines(text: str, rules: MapRules) -> Iterator[str]:
    columns = set(_COLUMN.findall(text))
    for namespace, name in _RELATION.findall(text):
        target = TableName(namespace, name)
        for source, rule in rules.sources(target):
            yield f'"{target}" is table "{source}" of the source, {rule}'
        for table in [target, *(source for source, _ in rules.sources(target))]:
            for column in rules.of(table).renamed.values():
                if rules.target(table) == target and column.value in columns:
                    yield f'its column "{column.value}" is "{column.column}" of the source, {column.text}'
