"""Settings of tables: what differs between the tables of one target.

Entries name tables by patterns, and several may match one. Excluded columns add up; masks and properties are taken
column by column and name by name, of all else the whole value. Of entries that say different things the last counts.

Invariants: entries are checked when they are made, so a mask, a mode or an order that there is not is refused before
anything runs. No message has a secret.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from headwater.errors import UsageError
from headwater.lakes.layout.table_layout import SortField
from headwater.lakes.layout.transforms import MOMENTS, PartitionField
from headwater.plugins.table_patterns import TablePatterns
from headwater.rows.masks import HMAC, SHA256, read_mask

MODES = ("changelog", "current", "history")
_FINGERPRINT_DIGITS = 16
_CHANGING = ("tables", "properties")
"""Parts that are no matter of what has landed."""


@dataclass(frozen=True)
class TableSettings:
    """Settings of the tables that patterns match.

    Attributes:
        tables: patterns of ``schema.table`` as ``--tables`` has them; of names that the tables have in the source when
            they land first.
        mode: what is kept of them, one of :data:`headwater.landing.landing_modes.MODES`; None for the target's.
        exclude_columns: names of columns that do not land.
        mask: masks of columns, by their names, as ``headwater apply --mask`` writes them; such columns are text.
        properties: of the tables, in Delta's or Iceberg's own terms; they may change from run to run.
        partition: what their files are apart by: columns, or transforms of them such as ``day(created_at)``.
        sort: what rows are sorted by in each file, as ORDER BY has it: ``id desc``.
        key: columns that identify rows of a mirror, for tables whose replica identity does not, or by others.

    Raises:
        UsageError: a value is malformed, or a column is excluded and masked, or excluded and used.
    """

    tables: str | tuple[str, ...]
    mode: str | None = None
    exclude_columns: tuple[str, ...] = ()
    mask: Mapping[str, str] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    partition: tuple[str, ...] = ()
    sort: tuple[str, ...] = ()
    key: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "tables", self.patterns)
        for name in ("partition", "sort", "key"):
            own = getattr(self, name)
            object.__setattr__(self, name, (own,) if isinstance(own, str) else tuple(own))
        if self.mode not in (None, *MODES):
            raise UsageError(f'there is no mode "{self.mode}"', hint=f"expected {', '.join(MODES)}")
        for text in self.mask.values():
            read_mask(text)
        both = [name for name in self.exclude_columns if name in self.mask]
        if both:
            raise UsageError(f'column "{both[0]}" of {", ".join(self.patterns)} is excluded and masked')
        for name, own in (("partition", self.partition_fields), ("sort", self.sort_fields)):
            _require_different(own, name)
            object.__setattr__(self, name, tuple(field.text for field in own))
        if len(set(self.key)) < len(self.key):
            raise UsageError("a column is in the key twice")
        if self.key and self.mode == "changelog":
            raise UsageError("a key is of mirrors: rows of a change table are not told apart", hint='leave out "key"')
        used = [name for name in self.exclude_columns if name in self.arranging]
        if used:
            raise UsageError(f'column "{used[0]}" of {", ".join(self.patterns)} is excluded, and in a key or a layout')

    def __hash__(self) -> int:
        return hash((self.tables, self.exclude_columns))

    @property
    def patterns(self) -> tuple[str, ...]:
        """The patterns, one by one."""
        return TablePatterns.parse((self.tables,) if isinstance(self.tables, str) else self.tables).patterns

    def matches(self, name: str) -> bool:
        """Tell whether a table ``schema.table`` is meant."""
        return TablePatterns(self.patterns).matches(name)

    @property
    def partition_fields(self) -> tuple[PartitionField, ...]:
        """The fields that partition the tables."""
        return tuple(map(PartitionField.parse, self.partition))

    @property
    def sort_fields(self) -> tuple[SortField, ...]:
        """The fields that rows are sorted by."""
        return tuple(map(SortField.parse, self.sort))

    @property
    def arranging(self) -> tuple[str, ...]:
        """Names of the columns that partition, sort or identify rows."""
        columns = [*(own.column for own in self.partition_fields), *(own.column for own in self.sort_fields)]
        return tuple(dict.fromkeys([*columns, *self.key]))

    @property
    def named(self) -> tuple[str, ...]:
        """Names of all columns that something is said of."""
        return tuple(dict.fromkeys([*self.exclude_columns, *self.mask, *self.arranging]))

    @property
    def is_exact(self) -> bool:
        """Whether all patterns are plain names."""
        return not any(set("*?") & set(pattern) for pattern in self.patterns)

    @property
    def has_hashes(self) -> bool:
        """Whether a mask depends on the secret."""
        return any(mask in (SHA256, HMAC) for mask in self.mask.values())

    @property
    def as_object(self) -> dict[str, Any]:
        """What a note has of it: all but what is not set."""
        values = {own.name: getattr(self, own.name) for own in fields(self)}
        return {name.replace("_", "-"): _plain(value) for name, value in values.items() if value}

    @property
    def fixed(self) -> dict[str, Any]:
        """What stays as it was when the table landed first."""
        return {name: value for name, value in self.as_object.items() if name not in _CHANGING}

    @classmethod
    def of_object(cls, value: Mapping[str, Any]) -> TableSettings:
        """Read what :attr:`as_object` has made."""
        known = {name.replace("-", "_"): own for name, own in value.items()}
        values: dict[str, Any] = {name: tuple(own) if isinstance(own, list) else own for name, own in known.items()}
        return cls(**values)


def _plain(value: Any) -> Any:
    """Return a value as JSON has it."""
    return list(value) if isinstance(value, tuple) else dict(value) if isinstance(value, Mapping) else value


def settings_of(entries: Iterable[TableSettings], name: str) -> TableSettings:
    """Return what entries together say of a table.

    Args:
        entries: in their order; name: the table's, ``schema.table``.

    Raises:
        UsageError: a column is excluded and masked.
    """
    mode: str | None = None
    excluded: dict[str, None] = {}
    mask: dict[str, str] = {}
    properties: dict[str, str] = {}
    arranged: dict[str, tuple[str, ...]] = {"partition": (), "sort": (), "key": ()}
    for entry in entries:
        if entry.matches(name):
            mode = entry.mode or mode
            excluded |= dict.fromkeys(entry.exclude_columns)
            mask |= entry.mask
            properties |= entry.properties
            arranged = {name: getattr(entry, name) or value for name, value in arranged.items()}
    # Of a name with a comma there is no pattern.
    own = (name.replace(",", "?"),)
    return TableSettings(own, mode, tuple(sorted(excluded)), dict(sorted(mask.items())), properties, **arranged)


def _require_different(fields: Iterable[PartitionField | SortField], what: str) -> None:
    """See that no two fields are called alike, and no two are of one column but for identity and hash.

    Raises:
        UsageError: it is not so.
    """
    seen: set[str] = set()
    for own in fields:
        is_moment = isinstance(own, PartitionField) and own.kind in MOMENTS
        names = {getattr(own, "name", own.column), *([f"moment of {own.column}"] if is_moment else [])}
        if names & seen:
            raise UsageError(f'"{own.text}" says of column "{own.column}" again what a {what} field before it says')
        seen |= names


def require_secret(entries: Iterable[TableSettings], secret: bytes) -> None:
    """See that there is a secret if a mask needs one.

    Raises:
        UsageError: there is none.
    """
    keyed = [f"{column} of {', '.join(entry.tables)}" for entry in entries for column in _keyed(entry)]
    if keyed and not secret:
        raise UsageError(
            f"the mask {HMAC} of {keyed[0]} needs a secret",
            hint="give --mask-secret-file FILE, or the variable HEADWATER_MASK_SECRET of the environment",
        )


def _keyed(entry: TableSettings) -> list[str]:
    return [column for column, mask in entry.mask.items() if mask == HMAC]


def fingerprint(secret: bytes) -> str:
    """Return what a note says of a secret, so that another one is told; empty for none."""
    return hmac.digest(secret, b"headwater: secret of masks", "sha256").hex()[:_FINGERPRINT_DIGITS] if secret else ""
