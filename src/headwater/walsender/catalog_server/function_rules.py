"""Rules of what a standby may answer: statements whose answer is the source's, and that run no code of its users.

A standby knows the catalogs. It does not know the source's sessions, settings, statistics, sizes, its place in the log,
nor its machine. What asks for these is refused. So is what calls a function that runs SQL of its own or has an effect.

Whatever users of the source have made, and can run, is refused before it is planned: functions, operators, casts and
aggregates of theirs, types whose values are read, compared or checked by them. Views are looked through. Of users'
types there remain enums, and what is made of these and of the server's own without conditions of users.

Where another role stands in for the user, what depends on who asks is refused as well.

Known gap: a function of the server whose body a superuser of the source has replaced is taken for the server's own.

PostgreSQL: pg_proc.dat (provolatile), typcache.c, arrayfuncs.c (array_eq), json.c (json_categorize_type).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from headwater.pg.catalogs import FIRST_NORMAL_OBJECT_ID
from headwater.walsender.catalog_server.statement_tree import StatementTree

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
    |pg_tablespace_databases|pg_tablespace_location|pg_stat_get_\w+|pg_timezone_\w+|\w+_to_xml\w*|system_user
    |icu_unicode_version""",
    re.X,
)
"""Functions that are stable within a statement, but say what only the source's server knows."""

_RUNS_OTHERS = re.compile(r"fmgr_\w+_validator|satisfies_hash_partition|pg_input_is_valid|pg_input_error_info")
"""Functions that run others, which their arguments name. Input functions do, too: they take texts of C."""

_OF_THE_USER = re.compile(r"has_\w+_privilege|pg_has_role|row_security_active|getpgusername|current_user|session_user")
"""Functions that depend on who asks."""

_OF_THE_PATH = re.compile(r"pg_\w+_is_visible|current_schemas?|to_reg\w+")
"""Functions that depend on who asks where a schema of the path is closed to some."""

_OF_ANY_ELEMENTS = frozenset(
    (
        *("array_length", "array_ndims", "array_dims", "array_upper", "array_lower", "cardinality", "array_to_string"),
        *("array_out", "concat", "concat_ws", "format", "pg_typeof", "pg_column_size", "count", "array_agg", "unnest"),
        *("generate_subscripts", "record_out", "first_value", "last_value", "nth_value", "lag", "lead", "any_value"),
        *("array_append", "array_prepend", "array_cat", "num_nulls", "num_nonnulls"),
    )
)
"""Functions that do no more with values of any type than to print them."""

_ANY = frozenset((2276, 2277, 2283, 2776, 5077, 5078, 5079, 5080, 4538, 2249, 2287))
"""Types that stand for any other: anyelement and its kin, records; of enums and ranges the server has its own order."""

_INPUT = frozenset((2275, 2281))
"""Types of what functions are given that nobody but the server calls: texts of C, and what has no type."""

_PRESET = re.compile(
    r"""\s*SELECT\s+setting\s+FROM\s+pg_catalog\.pg_settings\s+WHERE\s+name\s*=\s*
    '(?:max_index_keys|max_identifier_length|block_size|wal_block_size|segment_size|wal_segment_size|data_checksums)'
    \s*""",
    re.I | re.X,
)
"""A question for a setting that the source's files fix: no server of another one would start over them."""

_STATISTICS = frozenset((2619, 3429))
"""Catalogs that hold values of columns."""

_NO_CODE_LANGUAGES = frozenset((12, 13, 14))
"""Of the server's own functions: internal, C, SQL."""


@dataclass(frozen=True)
class Asking:
    """A user who asks.

    Attributes:
        is_stood_in_for: another role than the user's own does.
        is_path_open: that role may use all schemas of the search path.
        is_limited: to publications.
    """

    is_stood_in_for: bool
    is_path_open: bool
    is_limited: bool = False


class FunctionFacts(NamedTuple):
    """The row of a function in the catalog."""

    oid: int
    name: str
    volatility: str
    kind: str
    runs_as_owner: bool
    language: int
    arguments: tuple[int, ...]

    @property
    def is_fine(self) -> bool:
        """Whether it is the server's own, and says the same everywhere."""
        is_own = self.oid < FIRST_NORMAL_OBJECT_ID and self.language in _NO_CODE_LANGUAGES and not self.runs_as_owner
        is_steady = self.volatility != "v" or self.name in _VOLATILE_BUT_FINE
        is_plain = _INPUT.isdisjoint(self.arguments) and _RUNS_OTHERS.fullmatch(self.name) is None
        return is_own and self.kind != "p" and is_steady and is_plain and _OF_THE_SERVER.fullmatch(self.name) is None

    @property
    def may_compare(self) -> bool:
        """Whether it takes values of any type, and does more than to print them."""
        return not _ANY.isdisjoint(self.arguments) and self.name not in _OF_ANY_ELEMENTS


@dataclass(frozen=True)
class Facts:
    """The things that the catalogs say of a statement's objects.

    Attributes:
        functions: of all that it calls.
        has_open_types: it has a type that runs code of users.
        reads_any: it has values of users' types, or such that only their own bytes tell the type.
        has_unknown: it has a function that the catalogs do not know.
    """

    functions: tuple[FunctionFacts, ...]
    has_open_types: bool
    reads_any: bool
    has_unknown: bool = False


def refusal(sql: str, tree: StatementTree, facts: Facts, asking: Asking) -> str | None:
    """Say why a statement is not answered; None if it is."""
    if not tree.is_select:
        return "it is no SELECT"
    if tree.others or facts.has_open_types or facts.has_unknown:
        return "it would run code that users of the source have made"
    if asking.is_limited and not _STATISTICS.isdisjoint(tree.relations):
        return "the user is limited to publications, and statistics hold values of tables"
    allowed = "pg_show_all_settings" if _PRESET.fullmatch(sql) is not None else ""
    closed = (function for function in facts.functions if not function.is_fine and function.name != allowed)
    refused = min(closed, default=None, key=_by_name)
    if refused is not None and refused.oid >= FIRST_NORMAL_OBJECT_ID:
        return f"{refused.name} is a function that users of the source have made"
    if refused is not None:
        return f"only the source's server knows the answer of {refused.name}"
    if facts.reads_any and (tree.sorts_by_elements or any(function.may_compare for function in facts.functions)):
        return "it compares or converts values of types that users of the source have made"
    return _of_user({function.name for function in facts.functions} | tree.words, asking)


def _by_name(function: FunctionFacts) -> str:
    return function.name


def _of_user(names: set[str], asking: Asking) -> str | None:
    if not asking.is_stood_in_for:
        return None
    words = f"{_OF_THE_USER.pattern}|current_role|user"
    closed = re.compile(words if asking.is_path_open else f"{words}|{_OF_THE_PATH.pattern}")
    asked = next((name for name in sorted(names) if closed.fullmatch(name)), None)
    if asked is None:
        return None
    return f"{asked} depends on who asks: connect as a role of the source that may log in and is no superuser"
