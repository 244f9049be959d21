"""Tables whose changes are wanted, as patterns of ``schema.table``.

``*`` stands for any characters, none included, ``?`` for one; all others stand for themselves, in the case that the
catalog has them. A pattern that matches a partitioned table, or a partition above, chooses the partitions below it, as
a publication does. Patterns of what is excluded count likewise, and before the others.

Known gap: a comma ends a pattern; for one in a name write ``?``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from headwater.catalog.relation import RelationSchema
from headwater.errors import CatalogError, UsageError
from headwater.plugins.api import CatalogView

_ALL = "all"
_WITHOUT = "without"
"""Before what is excluded; no table is called so, as its name has a dot."""


@dataclass(frozen=True)
class TablePatterns:
    """Patterns, any of which chooses a table; without any, all tables are chosen.

    Attributes:
        patterns: the patterns.
        excluded: patterns, any of which leaves a table out.
        oids: relations that are chosen also, whatever their names.
    """

    patterns: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    oids: frozenset[int] = frozenset()

    @classmethod
    def parse(cls, texts: Iterable[str], excluded: Iterable[str] = ()) -> TablePatterns:
        """Read texts of patterns with commas between them.

        Raises:
            UsageError: a text holds none.
        """
        return cls(_parsed(texts), _parsed(excluded))

    @property
    def are_all(self) -> bool:
        """Whether every table is chosen, whatever its name."""
        return not self.patterns and not self.excluded

    @property
    def single_name(self) -> str | None:
        """The only pattern, if it is a plain name."""
        if len(self.patterns) == 1 and not self.excluded and not set("*?") & set(self.patterns[0]):
            return self.patterns[0]
        return None

    def chooses(self, schema: RelationSchema, catalog: CatalogView) -> bool:
        """Tell whether changes of a relation are wanted, as of a view of the catalog."""
        if self.are_all or self._is_named(schema):
            return True
        names = list(_names(schema, catalog))
        return _any_matches(self.patterns, names, True) and not _any_matches(self.excluded, names, False)

    def excludes(self, schema: RelationSchema, catalog: CatalogView) -> bool:
        """Tell whether a relation is left out by what is excluded, as of a view of the catalog."""
        if not self.excluded or self._is_named(schema):
            return False
        return _any_matches(self.excluded, list(_names(schema, catalog)), False)

    def _is_named(self, schema: RelationSchema) -> bool:
        """Tell whether a relation is chosen by its OID."""
        return not self.oids.isdisjoint((schema.oid, schema.rewrite_of, schema.topmost))

    def excludes_name(self, name: str) -> bool:
        """Tell whether a table that is called ``schema.table`` is left out by its own name."""
        return _any_matches(self.excluded, [name], False)

    def matches(self, name: str) -> bool:
        """Tell whether a table that is called ``schema.table`` is chosen by its own name."""
        return _any_matches(self.patterns, [name], True) and not _any_matches(self.excluded, [name], False)

    @property
    def as_text(self) -> str:
        """The text that :meth:`of_text` reads; the same for the same patterns in another order."""
        chosen, excluded = sorted(set(self.patterns)), sorted(set(self.excluded))
        return ", ".join([*(chosen or [_ALL]), *([_WITHOUT, *excluded] if excluded else [])])

    @classmethod
    def of_text(cls, text: str) -> TablePatterns:
        """Read the patterns of a text that :attr:`as_text` has made."""
        parts = text.split(", ")
        at = parts.index(_WITHOUT) if _WITHOUT in parts else len(parts)
        return cls(() if parts[:at] == [_ALL] else tuple(parts[:at]), tuple(parts[at + 1 :]))

    def require_matches(self, names: Iterable[str]) -> None:
        """Check that there is a table for each pattern.

        Args:
            names: ``schema.table`` of all tables there are or were.

        Raises:
            CatalogError: a pattern matches none of them; names it.
        """
        known = set(names)
        for pattern in self.patterns:
            if not any(_expression(pattern).fullmatch(name) for name in known):
                raise no_table(pattern, known)


EVERY_TABLE = TablePatterns()


def _parsed(texts: Iterable[str]) -> tuple[str, ...]:
    patterns: list[str] = []
    for text in texts:
        parts = [part.strip() for part in text.split(",") if part.strip()]
        if not parts:
            raise UsageError(f'no pattern of tables in "{text}", expected SCHEMA.TABLE', hint="* and ? are wildcards")
        patterns += parts
    return tuple(patterns)


def _any_matches(patterns: tuple[str, ...], names: Iterable[str], without_any: bool) -> bool:
    """Tell whether any pattern matches any name; `without_any` is the answer where there are no patterns."""
    if not patterns:
        return without_any
    return any(_expression(pattern).fullmatch(name) for name in names for pattern in patterns)


def no_table(pattern: str, names: Iterable[str]) -> CatalogError:
    """Return the error of a pattern that matches none of the tables ``schema.table``."""
    like = sorted({name for name in names if name.partition(".")[2] == pattern})
    hint = f"there is {', '.join(like)}" if like else "patterns are SCHEMA.TABLE in the catalog's case, with * and ?"
    return CatalogError(f'no table matches "{pattern}" in this window', hint=hint)


def qualified_name(schema: RelationSchema) -> str:
    """Return the name that patterns are compared with."""
    return f"{schema.namespace}.{schema.name}"


def _names(schema: RelationSchema, catalog: CatalogView) -> Iterable[str]:
    """Give the names of the relation, or of the one whose new heap it is, and of its ancestors."""
    original = catalog.relation(schema.rewrite_of) if schema.rewrite_of else schema
    if original is not None:
        yield qualified_name(original)
        for oid in original.ancestors:
            ancestor = catalog.relation(oid)
            if ancestor is not None:
                yield qualified_name(ancestor)


def _expression(pattern: str) -> re.Pattern[str]:
    """Return the pattern as a regular expression; Python remembers those compiled before."""
    wild = {"*": ".*", "?": "."}
    return re.compile("".join(wild.get(letter) or re.escape(letter) for letter in pattern), re.DOTALL)
