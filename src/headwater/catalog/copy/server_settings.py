"""The settings a server starts its sessions with, as far as they change what is decoded and how values are printed.

Reads ``postgresql.conf`` and then ``postgresql.auto.conf`` of a data directory, and the files that they include.
PostgreSQL: guc-file.l, ParseConfigFp and GUC_scanstr; later lines win, names are the same in any case. Invariant: a
file that is not there says nothing, as with a server whose configuration lies elsewhere; a file that is included from
elsewhere is reported to the user.

The settings of ``ALTER DATABASE`` and ``ALTER ROLE ... SET`` go over them
(:mod:`headwater.catalog.copy.role_settings`).

Known gap: the server's command line.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from headwater.catalog.copy.data_directory import DataDirectory, open_tree
from headwater.catalog.copy.file_tree import FileTree
from headwater.catalog.copy.role_settings import role_settings, settings_place
from headwater.catalog.search_path import DEFAULT_SEARCH_PATH, SearchPath
from headwater.errors import CatalogError, warn
from headwater.option_names import option

SESSION_SETTINGS = frozenset(
    {
        "timezone",
        "datestyle",
        "intervalstyle",
        "extra_float_digits",
        "bytea_output",
        "lc_monetary",
        "search_path",
        "logical_decoding_work_mem",
        "debug_logical_replication_streaming",
    }
)
"""The names of the settings that matter here, in lower case."""

_FILES = ("postgresql.conf", "postgresql.auto.conf")
_INCLUDES = frozenset({"include", "include_if_exists", "include_dir"})
_DEEPEST = 10
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
        value: the value as text.
        file: the configuration file, or the file of the catalog.
        line: from 1 on; 0 in the catalog.
        over: the value of the same setting in the configuration files, empty for nothing: a DateStyle that names only a
            style or only an order leaves the other one as it is there.
    """

    value: str
    file: str
    line: int
    over: str = ""

    @property
    def origin(self) -> str:
        """The line or command that set the value."""
        return f"line {self.line} of the server's configuration" if self.line else "ALTER DATABASE or ALTER ROLE"


def read_server_settings(data_directory: str | Path) -> dict[str, ServerSetting]:
    """Read the values of :data:`SESSION_SETTINGS` in a data directory's configuration, by name in lower case.

    Raises:
        CatalogError: the directory is no data directory or base backup, or a configuration file is there and cannot be
            read.
    """
    return read_configured(data_directory, SESSION_SETTINGS)


def read_configured(data_directory: str | Path, names: Collection[str]) -> dict[str, ServerSetting]:
    """Read the values of named settings in a data directory's configuration; as :func:`read_server_settings`."""
    tree = open_tree(Path(data_directory))
    files = [name for name in _FILES if tree.exists(name)]
    return {name: setting for file in files for name, setting in _settings_in(tree, file) if name in names}


def _settings_in(tree: FileTree, file: str, depth: int = 0) -> Iterator[tuple[str, ServerSetting]]:
    """Give the settings of a configuration file and of files that it includes, in order, by name in lower case."""
    if depth > _DEEPEST:
        place = tree.place(file)
        raise CatalogError("could not open configuration file: maximum nesting depth exceeded", file=place)
    text = tree.read(file, "configuration file").decode("utf-8", "replace")
    for number, name, value in parse_configuration(text):
        setting = ServerSetting(value, tree.place(file), number)
        if name in _INCLUDES:
            for included in _included(tree, file, name, setting):
                yield from _settings_in(tree, included, depth + 1)
        else:
            yield name, setting


def _included(tree: FileTree, file: str, directive: str, setting: ServerSetting) -> list[str]:
    """Name the files that a line includes; warn the user of those that are not in the copy (guc-file.l)."""
    name = posixpath.normpath(posixpath.join(posixpath.dirname(file), setting.value))
    is_inside = not name.startswith(("/", "../")) and name != ".." and "\0" not in name
    if is_inside and directive == "include_dir":
        names = [
            included for included in tree.names(name) if included.endswith(".conf") and not included.startswith(".")
        ]
        return [posixpath.normpath(f"{name}/{included}") for included in names]
    if is_inside and tree.exists(name):
        return [name]
    if not is_inside or directive == "include":
        warn(
            f'the copy does not have the configuration that line {setting.line} includes from "{setting.value}": its '
            "settings are not known",
            file=setting.file,
            hint=f"give those that change how values are printed with {option('set', 'NAME=VALUE')}",
        )
    return []


def session_settings_of(data_directory: str | Path, database: int, role: str | None) -> dict[str, ServerSetting]:
    """Return the settings a session begins with: the configuration, and those of its database and role.

    Args:
        data_directory: a data directory or base backup.
        database: OID.
        role: name of the session's role; None for a role without settings of its own.

    Raises:
        CatalogError: the directory cannot be read, or there is no such role.
    """
    directory = DataDirectory(data_directory)
    settings, place = read_server_settings(data_directory), settings_place(directory)
    for name, value in role_settings(directory, database, role).items():
        if name in SESSION_SETTINGS:
            settings[name] = ServerSetting(value, place, 0, settings[name].value if name in settings else "")
    return settings if role is None else {**settings, "search_path": _search_path_of(role, settings.get("search_path"))}


def _search_path_of(role: str, setting: ServerSetting | None) -> ServerSetting:
    """Put the role's own schema by its name into the setting: a later reader need not know the role."""
    setting = setting or ServerSetting(str(DEFAULT_SEARCH_PATH), "", 0)
    return replace(setting, value=str(SearchPath.parse(setting.value).of_role(role)))


def parse_configuration(text: str) -> Iterator[tuple[int, str, str]]:
    """Give line number, name in lower case and value of each setting of a configuration file, in order.

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
