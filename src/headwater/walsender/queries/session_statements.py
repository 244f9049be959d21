"""Statements about the session itself, read from their nodes: transactions, settings, cursors, named statements.

PostgreSQL: gram.y, utility.c, guc.c (ExtractSetVariableArgs, flatten_set_variable_args), portalcmds.c.
Known gaps: two-phase commands, SHOW ALL, SQL's own PREPARE and EXECUTE, cursors that are binary or go back.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headwater.walsender.queries.grammar import Node, ParsedStatement, constant, kind_of

_LISTS = {"search_path", "datestyle", "local_preload_libraries", "session_preload_libraries", "temp_tablespaces"}
_QUOTED = _LISTS - {"datestyle"}
"""Settings that are lists of names."""


@dataclass(frozen=True)
class Modes:
    """Modes of a transaction; None where they are not given."""

    isolation: str | None = None
    is_read_only: bool | None = None
    is_deferrable: bool | None = None


@dataclass(frozen=True)
class Begin:
    """BEGIN, START TRANSACTION: the tag of its answer, and modes."""

    tag: str
    modes: Modes


@dataclass(frozen=True)
class End:
    """COMMIT or ROLLBACK; whether another transaction begins at once."""

    commits: bool
    chains: bool


@dataclass(frozen=True)
class Savepoint:
    """SAVEPOINT, RELEASE or ROLLBACK TO: the word, the savepoint's name."""

    word: str
    name: str


@dataclass(frozen=True)
class SetModes:
    """SET TRANSACTION, or of the session's following transactions."""

    modes: Modes
    is_of_session: bool


@dataclass(frozen=True)
class ImportSnapshot:
    """SET TRANSACTION SNAPSHOT."""

    name: str


@dataclass(frozen=True)
class SetSetting:
    """SET or RESET of one setting: its value, None for the default."""

    name: str
    value: str | None
    is_local: bool = False
    tag: str = "SET"


@dataclass(frozen=True)
class ResetAll:
    """RESET ALL."""


@dataclass(frozen=True)
class Show:
    """SHOW of one setting."""

    name: str


@dataclass(frozen=True)
class Deallocate:
    """DEALLOCATE of a statement; of None all."""

    name: str | None


@dataclass(frozen=True)
class Discard:
    """DISCARD: what."""

    what: str


@dataclass(frozen=True)
class Declare:
    """DECLARE CURSOR."""

    name: str
    query: ParsedStatement
    is_held: bool


@dataclass(frozen=True)
class Fetch:
    """FETCH forward, or MOVE: how many rows, None for all."""

    name: str
    count: int | None
    moves: bool


@dataclass(frozen=True)
class CloseCursor:
    """CLOSE of a cursor; of None all."""

    name: str | None


SessionStatement = (
    Begin
    | End
    | Savepoint
    | SetModes
    | ImportSnapshot
    | SetSetting
    | ResetAll
    | Show
    | Deallocate
    | Discard
    | Declare
    | Fetch
    | CloseCursor
)

_HOLD, _BINARY = 0x20, 0x1
_DECLARE = re.compile(r'DECLARE\s+(?:"(?:[^"]|"")+"|[^\s"]+)(?:\s+\w+)*?\s+FOR\s+', re.I)
_ALL_ROWS = 0x7FFFFFFFFFFFFFFF


def session_statement(parsed: ParsedStatement) -> SessionStatement | None:
    """Read a statement about the session; None for any other."""
    read = _READERS.get(parsed.kind)
    return None if read is None else read(parsed)


def is_exit(statement: SessionStatement | None) -> bool:
    """Tell whether a statement may be used in a transaction that has failed (IsTransactionExitStmt)."""
    return isinstance(statement, End) or (isinstance(statement, Savepoint) and statement.word == "ROLLBACK TO")


def _transaction(parsed: ParsedStatement) -> SessionStatement | None:
    node, kind = parsed.node, parsed.node["kind"].removeprefix("TRANS_STMT_")
    if kind in ("BEGIN", "START"):
        return Begin("BEGIN" if kind == "BEGIN" else "START TRANSACTION", _modes(node.get("options", [])))
    if kind in ("COMMIT", "ROLLBACK"):
        return End(kind == "COMMIT", bool(node.get("chain")))
    words = {"SAVEPOINT": "SAVEPOINT", "RELEASE": "RELEASE", "ROLLBACK_TO": "ROLLBACK TO"}
    return Savepoint(words[kind], node["savepoint_name"]) if kind in words else None


def _modes(options: list[Node]) -> Modes:
    values: dict[str, Any] = {}
    for option in options:
        fields = option["DefElem"]
        values[fields["defname"]] = constant(fields["arg"]["A_Const"])
    flags = (values.get(name) for name in ("transaction_read_only", "transaction_deferrable"))
    read_only, deferrable = (None if flag is None else bool(flag) for flag in flags)
    return Modes(values.get("transaction_isolation"), read_only, deferrable)


def _set(parsed: ParsedStatement) -> SessionStatement | None:
    node = parsed.node
    kind, name, is_local = node["kind"].removeprefix("VAR_"), node.get("name", ""), bool(node.get("is_local"))
    if kind == "RESET_ALL":
        return ResetAll()
    if kind == "RESET":
        return SetSetting(name, None, tag="RESET")
    if kind == "SET_DEFAULT":
        return SetSetting(name, None, is_local)
    if kind == "SET_VALUE":
        value = _flattened(name, node["args"])
        return None if value is None else SetSetting(name, value, is_local)
    if kind == "SET_MULTI" and name == "TRANSACTION SNAPSHOT":
        return ImportSnapshot(str(constant(node["args"][0]["A_Const"])))
    if kind == "SET_MULTI":
        return SetModes(_modes(node["args"]), name == "SESSION CHARACTERISTICS")
    return None


def _flattened(name: str, nodes: list[Node]) -> str | None:
    """Return the value of SET as one text; None if it is of a form that is not known here."""
    texts = list[str]()
    for node in nodes:
        kind, fields = kind_of(node)
        value = constant(fields) if kind == "A_Const" else None
        if value is None:
            return None
        text = str(value)
        texts.append(_quoted(text) if name.lower() in _QUOTED and "sval" in fields else text)
    return ", ".join(texts) if len(texts) == 1 or name.lower() in _LISTS else None


def _quoted(name: str) -> str:
    """Quote a name, where it needs that (quote_identifier)."""
    is_plain = name and name == name.lower() and name.replace("_", "a").isalnum() and not name[0].isdigit()
    return name if is_plain and name.isascii() else '"' + name.replace('"', '""') + '"'


def _declare(parsed: ParsedStatement) -> SessionStatement | None:
    node = parsed.node
    options = node.get("options", 0)
    kind, query = kind_of(node["query"])
    head = _DECLARE.match(parsed.text)
    if head is None or options & _BINARY:
        return None
    return Declare(
        node["portalname"], ParsedStatement(parsed.text[head.end() :], kind, query, parsed.query), bool(options & _HOLD)
    )


def _fetch(parsed: ParsedStatement) -> SessionStatement | None:
    node = parsed.node
    count = int(node.get("howMany", 0))
    if node.get("direction", "FETCH_FORWARD") != "FETCH_FORWARD" or count < 0:
        return None
    return Fetch(node["portalname"], None if count == _ALL_ROWS else count, bool(node.get("ismove")))


def _show(parsed: ParsedStatement) -> SessionStatement | None:
    name = parsed.node["name"]
    return None if name == "all" else Show(name)


_READERS: dict[str, Callable[[ParsedStatement], SessionStatement | None]] = {
    "TransactionStmt": _transaction,
    "VariableSetStmt": _set,
    "VariableShowStmt": _show,
    "DeallocateStmt": lambda parsed: Deallocate(parsed.node.get("name")),
    "DiscardStmt": lambda parsed: Discard(parsed.node["target"].removeprefix("DISCARD_")),
    "DeclareCursorStmt": _declare,
    "FetchStmt": _fetch,
    "ClosePortalStmt": lambda parsed: CloseCursor(parsed.node.get("portalname")),
}
