"""The settings a server starts its sessions with, as far as they change how values are printed.

Reads ``postgresql.conf`` and then ``postgresql.auto.conf`` of a data directory (PostgreSQL: guc-file.l, ParseConfigFp
and GUC_scanstr; later lines win, names are the same in any case). Invariant: a file that is not there says nothing, as
with a server whose configuration lies elsewhere.

Known gaps: include directives, the server's command line, ``ALTER DATABASE`` and ``ALTER ROLE ... SET``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headwater.catalog.data_directory import open_tree

PRINTING_SETTINGS = frozenset({"timezone", "datestyle", "intervalstyle", "extra_float_digits", "bytea_output"})
"""Names of the settings that matter here, in lower case."""

_FILES = ("postgresql.conf", "postgresql.auto.conf")
_LINE = re.compile(
    r"\s*(?P<name>[A-Za-z_][\w$.]*)(?:\s*=\s*|\s+|(?='))"
    r"(?:'(?P<quoted>(?:[^'\\\n]|\\.|'')*)'|(?P<plain>[^\s#'=]+))\s*(?:#.*)?"
)
_ESCAPE = re.compile(r"''|\\([0-7]{1,3}|.)")
_CONTROL = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


@dataclass(frozen=True)
class ServerSetting:
    """A setting and where it is written.

    Attributes:
        value: as text.
        file: the configuration file.
        line: from 1 on.
    """

    value: str
    file: str
    line: int


def read_server_settings(data_directory: str | Path) -> dict[str, ServerSetting]:
    """What a data directory's configuration says of :data:`PRINTING_SETTINGS`, by name in lower case.

    Raises:
        CatalogError: it is no data directory or base backup, or a configuration file is there and cannot be read.
    """
    tree, found = open_tree(Path(data_directory)), dict[str, ServerSetting]()
    for name in _FILES:
        text = tree.read(name, "configuration file").decode("utf-8", "replace") if tree.exists(name) else ""
        for number, setting, value in parse_configuration(text):
            if setting in PRINTING_SETTINGS:
                found[setting] = ServerSetting(value, tree.place(name), number)
    return found


def parse_configuration(text: str) -> Iterator[tuple[int, str, str]]:
    """Line number, name in lower case and value of each setting of a configuration file, in order.

    A line that is no setting is passed over: a server that has started once could read it.
    """
    for number, line in enumerate(text.split("\n"), 1):
        match = _LINE.fullmatch(line)
        if match is not None:
            quoted = match["quoted"]
            value = match["plain"] if quoted is None else _ESCAPE.sub(_unescaped, quoted)
            yield number, match["name"].lower(), value


def _unescaped(match: re.Match[str]) -> str:
    escape = match[1]
    if escape is None:
        return "'"
    return chr(int(escape, 8) & 0xFF) if escape[0] in "01234567" else _CONTROL.get(escape, escape)
