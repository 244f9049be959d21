"""Names of directories that say of which partition files are, as Hive has them: ``region=eu/day=2026-11-27``.

Readers take ``%`` and two digits for a byte. So every byte is written so that is no letter, digit, ``-``, ``.``, ``_``
or ``~``. So is the first one of a text that is called as null is.
"""

from __future__ import annotations

from urllib.parse import quote

from headwater.errors import LakeError
from headwater.lakes.layout.table_layout import Partition, TableLayout

NULL = "__HIVE_DEFAULT_PARTITION__"
_MOST_BYTES = 255
"""Of the name of a directory."""


def hive_path(layout: TableLayout, partition: Partition) -> str:
    """Return the directories of a partition, with a slash behind them; empty for none.

    Raises:
        LakeError: a value is too long for the name of a directory.
    """
    names = [_named(field.name, text) for field, text in zip(layout.partition, partition, strict=True)]
    return "".join(f"{name}/" for name in names)


def _named(name: str, text: str | None) -> str:
    directory = f"{_quoted(name)}={NULL if text is None else _quoted(text)}"
    if len(directory) > _MOST_BYTES:
        raise LakeError(
            f'a value of partition "{name}" has {len(directory)} characters as the name of a directory, which has '
            f"{_MOST_BYTES} at most",
            hint="partition by truncate(N, COLUMN) or bucket(N, COLUMN), and headwater lake reload",
        )
    return directory


def _quoted(text: str) -> str:
    quoted = quote(text, safe="")
    return f"%5F{quoted[1:]}" if quoted == NULL else quoted
