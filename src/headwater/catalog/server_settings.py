"""The settings a server starts its sessions with, as far as they change how values are printed.

Reads ``postgresql.conf`` and then ``postgresql.auto.conf`` of a data directory (PostgreSQL: guc-file.l, ParseConfigFp
and GUC_scanstr; later lines win, names are the same in any case). Invariant: a file that is not there says nothing, as
with a server whose configuration lies elsewhere.

Over them go those of ``ALTER DATABASE`` and ``ALTER ROLE ... SET`` (:mod:`headwater.catalog.role_settings`).

Known gaps: include directives, the server's command line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from headwater.catalog.data_directory import DataDirectory, open_tree
from headwater.catalog.role_settings import role_settings, settings_place
from headwater.catalog.search_path import DEFAULT_SEARCH_PATH, SearchPath

PRINTING_SETTINGS = frozenset(
    {"timezone", "datestyle", "intervalstyle", "extra_float_digits", "bytea_output", "lc_monetary", "search_path"}
)
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
        file: the configuration file, or that of the catalog.
        line: from 1 on; 0 in the catalog.
    """

    value: str
    file: str
    line: int

    @property
    def origin(self) -> str:
        """What has set it."""
        return f"line {self.line} of the server's configuration" if self.line else "ALTER DATABASE or ALTER ROLE"


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


def session_settings_of(data_directory: str | Path, database: int, role: str | None) -> dict[str, ServerSetting]:
    """What a session begins with: the configuration, and what is set for its database and role.

    Args:
        data_directory: a data directory or base backup.
        database: OID.
        role: name of the session's role; None for one without settings of its own.

    Raises:
        CatalogError: it cannot be read, or there is no such role.
    """
    directory = DataDirectory(data_directory)
    found, place = read_server_settings(data_directory), settings_place(directory)
    for name, value in role_settings(directory, database, role).items():
        if name in PRINTING_SETTINGS:
            found[name] = ServerSetting(value, place, 0)
    return found if role is None else {**found, "search_path": _search_path_of(role, found.get("search_path"))}


def _search_path_of(role: str, setting: ServerSetting | None) -> ServerSetting:
    """The setting with the role's own schema by its name: who reads it later need not know the role."""
    setting = setting or ServerSetting(str(DEFAULT_SEARCH_PATH), "", 0)
    return replace(setting, value=str(SearchPath.parse(setting.value).of_role(role)))


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
