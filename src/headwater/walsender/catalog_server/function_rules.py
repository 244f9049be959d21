"""Rules of what a standby may answer: statements whose answer is the source's.

A standby knows the catalogs. It does not know the source's sessions, settings, statistics, sizes, its place in the log,
nor its machine. What asks for these is refused. So is what calls a user's function, or one that runs SQL of its own or
has an effect.

Two looks. The plan, printed with all expressions, shows every function, also those of views. The text shows what plans
do not print (LIMIT, frames of windows): none of the refused names may stand before a parenthesis there. Where another
role stands in for the user, what depends on who asks is refused as well.

Known gap: functions of users behind operators, casts and domains of theirs are not seen; they run with the rights of
the role, in a transaction that writes nothing, and find no rows.

PostgreSQL: ruleutils.c (get_func_expr), explain.c, pg_proc.dat (provolatile).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import LiteralString

_VOLATILE_BUT_FINE = frozenset(
    (
        *("clock_timestamp", "timeofday", "random", "random_normal", "gen_random_uuid", "uuidv4", "uuidv7"),
        *("pg_partition_ancestors", "pg_partition_tree", "pg_sleep", "array_sample", "array_shuffle"),
    )
)
"""Functions that answer alike everywhere, or by the catalogs alone."""

_OF_THE_SERVER = re.compile(
    r"""version|current_setting|inet_\w+|pg_backend_pid|pg_conf_load_time|pg_postmaster_start_time|pg_config
    |pg_available_extension\w*|pg_extension_update_paths|pg_current_snapshot|pg_current_xact_id\w*|txid_\w+|pg_cursor
    |pg_prepared_statement|pg_get_replication_slots|pg_listening_channels|pg_numa_available|pg_show_all_settings
    |pg_tablespace_databases|pg_tablespace_location|pg_stat_get_\w+|pg_timezone_\w+|\w+_to_xml\w*|system_user""",
    re.X,
)
"""Functions that are stable within a statement, but say what only the source's server knows."""

_OF_THE_USER = re.compile(r"has_\w+_privilege|pg_has_role|row_security_active|getpgusername|current_user|session_user")
"""Functions that depend on who asks."""

_OF_THE_PATH = re.compile(r"pg_\w+_is_visible|current_schemas?|to_reg\w+")
"""Functions that depend on who asks where a schema of the path is closed to some."""

_LITERAL = re.compile(r"'(?:[^']|'')*'")
_CALL = re.compile(r'(?:"((?:[^"]|"")+)"|([^\W\d][\w$]*))\(')
_LOOSE_CALL = re.compile(r'(?:"((?:[^"]|"")+)"|([^\W\d][\w$]*))\s*\(')
_WHO = re.compile(r"\b(?:CURRENT_USER|SESSION_USER|CURRENT_ROLE|USER)\b")
_TYPES = frozenset(("varying", "character", "numeric", "bit", "time", "timestamp", "interval", "char", "bpchar"))
"""Words that a modifier may follow."""

_PRESET = re.compile(
    r"""\s*SELECT\s+setting\s+FROM\s+(?:pg_catalog\.)?pg_settings\s+WHERE\s+name\s*=\s*
    '(?:max_index_keys|max_identifier_length|block_size|wal_block_size|segment_size|wal_segment_size|data_checksums)'
    \s*""",
    re.I | re.X,
)
"""A question for a setting that the source's files fix: no server of another one would start over them."""

_OTHER_STRINGS = re.compile(r"\\'|\$(?:[^\W\d]\w*)?\$")
_QUOTED = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*\"""")
_COMMENT = re.compile(r"/\*|--")

_FOREIGN = re.compile(r"^\s*(?:->\s+)?Foreign ", re.M)

FUNCTIONS: LiteralString = """
SELECT proname, bool_and(oid < 16384 AND prokind <> 'p'), bool_or(provolatile = 'v') FROM pg_catalog.pg_proc GROUP BY 1
"""
"""Asks for all names of functions: whether all of a name are the server's own, and whether any is volatile."""


@dataclass(frozen=True)
class Asking:
    """A user who asks.

    Attributes:
        is_stood_in_for: another role than the user's own does.
        is_path_open: that role may use all schemas of the search path.
    """

    is_stood_in_for: bool
    is_path_open: bool


class FunctionRules:
    """The rules, for the functions that there are.

    Args:
        functions: rows of :data:`FUNCTIONS`.
    """

    def __init__(self, functions: list[tuple[str, bool, bool]]) -> None:
        self._known = {name for name, _, _ in functions}
        self._fine = {
            name
            for name, is_built_in, is_volatile in functions
            if is_built_in
            and (not is_volatile or name in _VOLATILE_BUT_FINE)
            and _OF_THE_SERVER.fullmatch(name) is None
        }

    def refusal(self, sql: str, plan: str, asking: Asking) -> str | None:
        """Say why a statement is not answered; None if it is.

        Args:
            sql: the statement; plan: as EXPLAIN (VERBOSE) prints it.
            asking: who asks.
        """
        if _PRESET.fullmatch(sql) is not None:
            return None
        hidden = _hidden(sql)
        if hidden is not None:
            return f"it has {hidden}, behind which calls of functions are not seen"
        plan, text = _LITERAL.sub("''", plan), _LITERAL.sub("''", sql)
        if _FOREIGN.search(plan) is not None:
            return "it reads a foreign table"
        if re.search(r'\bU&"', text, re.I) is not None:
            return "it has names in Unicode escapes"
        names = _called(plan) | _named_in_text(text) & self._known
        refused = next((name for name in sorted(names) if name not in self._fine), None)
        if refused is not None:
            return f"only the source's server knows the answer of {refused}"
        return self._of_user(names, plan, asking)

    def _of_user(self, names: set[str], plan: str, asking: Asking) -> str | None:
        if not asking.is_stood_in_for:
            return None
        closed = _OF_THE_USER if asking.is_path_open else re.compile(f"{_OF_THE_USER.pattern}|{_OF_THE_PATH.pattern}")
        asked = next((name for name in sorted(names) if closed.fullmatch(name)), None)
        match = _WHO.search(plan) if asked is None else None
        asked = match[0].lower() if match is not None else asked
        if asked is None:
            return None
        return f"{asked} depends on who asks: connect as a role of the source that may log in and is no superuser"


def _called(plan: str) -> set[str]:
    """Return the names of functions in a plan; words in capital letters are the language's."""
    pairs: list[tuple[str, str]] = _CALL.findall(plan)
    plain = {name for _, name in pairs if name and not name.isupper() and name not in _TYPES}
    return plain | {_unquoted(quoted) for quoted, _ in pairs if quoted}


def _named_in_text(text: str) -> set[str]:
    """Return the names before parentheses in a statement, as the catalog has them."""
    return {_unquoted(quoted) if quoted else plain.lower() for quoted, plain in _LOOSE_CALL.findall(text)}


def _unquoted(name: str) -> str:
    return name.replace('""', '"')


def _hidden(sql: str) -> str | None:
    """Name what a look at a text by patterns does not see through; None if there is nothing of the kind."""
    if _OTHER_STRINGS.search(sql) is not None:
        return "a string in another form than quotes give it"
    if any(part.startswith('"') and "'" in part for part in _QUOTED.findall(sql)):
        return "an apostrophe in a name"
    # A comment that is none of a string begins before whatever its quotes could disturb.
    return "a comment" if _COMMENT.search(_QUOTED.sub("", sql)) is not None else None
