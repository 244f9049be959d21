"""The commands of the replication protocol: text to values, as a major's own parser reads them.

In: the text of a simple query. Out: one of the values below; None for what is SQL, which the first word decides.
Keywords are upper case alone, names are folded to lower case and cut at 63 bytes, unless they are quoted.

PostgreSQL: repl_gram.y, repl_scanner.l (14 to 19).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, NoReturn

from headwater.errors import SessionError
from headwater.pg.identifiers import cut_name, folded_name
from headwater.pg.sqlstates import SYNTAX_ERROR
from headwater.pg.version import Version

Value = str | int | bool | None
Options = tuple[tuple[str, Value], ...]
"""Names and values of options in their order; None is the value of one that has only its name."""


@dataclass(frozen=True)
class IdentifySystem:
    """IDENTIFY_SYSTEM."""


@dataclass(frozen=True)
class UploadManifest:
    """UPLOAD_MANIFEST."""


@dataclass(frozen=True)
class Show:
    """SHOW of a setting."""

    name: str


@dataclass(frozen=True)
class TimelineHistory:
    """TIMELINE_HISTORY of a timeline."""

    timeline: int


@dataclass(frozen=True)
class BaseBackup:
    """BASE_BACKUP."""

    options: Options


@dataclass(frozen=True)
class ReadReplicationSlot:
    """READ_REPLICATION_SLOT."""

    slot: str


@dataclass(frozen=True)
class CreateReplicationSlot:
    """CREATE_REPLICATION_SLOT; of a physical slot without a plugin."""

    slot: str
    plugin: str | None
    is_temporary: bool
    options: Options


@dataclass(frozen=True)
class AlterReplicationSlot:
    """ALTER_REPLICATION_SLOT."""

    slot: str
    options: Options


@dataclass(frozen=True)
class DropReplicationSlot:
    """DROP_REPLICATION_SLOT; whether it waits until nobody uses the slot."""

    slot: str
    waits: bool


@dataclass(frozen=True)
class StartPhysical:
    """START_REPLICATION of the WAL itself; the timeline is 0 where none is named."""

    slot: str | None
    lsn: int
    timeline: int


@dataclass(frozen=True)
class StartLogical:
    """START_REPLICATION of a logical slot, with options of the plugin."""

    slot: str
    lsn: int
    options: Options


Command = (
    IdentifySystem
    | UploadManifest
    | Show
    | TimelineHistory
    | BaseBackup
    | ReadReplicationSlot
    | CreateReplicationSlot
    | AlterReplicationSlot
    | DropReplicationSlot
    | StartPhysical
    | StartLogical
)


class _Token(NamedTuple):
    """A word of a command.

    Attributes:
        kind: a keyword itself, IDENT, STRING, NUMBER, LSN, or a character itself; empty at the end.
        value: what it stands for.
    """

    kind: str
    value: str | int = ""


_IDENT, _STRING, _NUMBER, _LSN, _END = "IDENT", "STRING", "NUMBER", "LSN", ""

_COMMANDS = (
    *("BASE_BACKUP", "IDENTIFY_SYSTEM", "SHOW", "START_REPLICATION", "CREATE_REPLICATION_SLOT"),
    *("DROP_REPLICATION_SLOT", "TIMELINE_HISTORY"),
)
_WORDS = (
    *("WAIT", "TIMELINE", "PHYSICAL", "LOGICAL", "SLOT", "RESERVE_WAL", "TEMPORARY", "EXPORT_SNAPSHOT"),
    *("NOEXPORT_SNAPSHOT", "USE_SNAPSHOT"),
)
_BACKUP_WORDS = {
    "LABEL": _STRING,
    "PROGRESS": None,
    "FAST": None,
    "WAL": None,
    "NOWAIT": None,
    "MAX_RATE": _NUMBER,
    "TABLESPACE_MAP": None,
    "NOVERIFY_CHECKSUMS": None,
    "MANIFEST": _STRING,
    "MANIFEST_CHECKSUMS": _STRING,
}
"""Words of BASE_BACKUP before 15, and what follows each."""

_SLOT_WORDS: dict[str, tuple[str, Value]] = {
    "EXPORT_SNAPSHOT": ("snapshot", "export"),
    "NOEXPORT_SNAPSHOT": ("snapshot", "nothing"),
    "USE_SNAPSHOT": ("snapshot", "use"),
    "RESERVE_WAL": ("reserve_wal", True),
    "TWO_PHASE": ("two_phase", True),
}

_TOKEN = re.compile(
    r"""[ \t\n\r\f\v]*(?:
        (?P<lsn>[0-9A-Fa-f]+/[0-9A-Fa-f]+)
        |(?P<number>[0-9]+)
        |(?P<word>[A-Za-z_\x80-\U0010ffff][A-Za-z0-9_$\x80-\U0010ffff]*)
        |"(?P<quoted>(?:[^"]|"")*)"
        |'(?P<string>(?:[^']|'')*)'
        |(?P<open>["'])
        |(?P<other>.)
        |\Z)""",
    re.VERBOSE | re.DOTALL,
)


def parse_command(text: str, version: Version, note_cut: Callable[[str], None] | None = None) -> Command | None:
    """Parse a command.

    Args:
        text: of a simple query.
        version: of the server that is stood for.
        note_cut: called with each name that is cut, when it is read.

    Returns:
        the command, None if the text is SQL.

    Raises:
        SessionError: it begins as a command, and is malformed.
    """
    keywords = _keywords(version)
    first = next(_tokens(text, keywords), None)
    if first is None or first.kind not in _first_words(version):
        return None
    return _Parser(_tokens(text, keywords, note_cut), version).command()


def _first_words(version: Version) -> set[str]:
    words = set(_COMMANDS)
    if version.reads_replication_slots:
        words.add("READ_REPLICATION_SLOT")
    if version.alters_replication_slots:
        words |= {"ALTER_REPLICATION_SLOT", "UPLOAD_MANIFEST"}
    return words


def _keywords(version: Version) -> set[str]:
    words = {*_WORDS, *_first_words(version)}
    return words | ({"TWO_PHASE"} if version.options_in_parentheses else set(_BACKUP_WORDS))


def _tokens(text: str, keywords: set[str], note_cut: Callable[[str], None] | None = None) -> Iterator[_Token]:
    """Give the words of a text; a quote that is left open is an error."""
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        assert match is not None
        at = match.end()
        kind = match.lastgroup
        if kind == "open":
            _syntax_error("unterminated quoted string")
        token = None if kind is None else _token(kind, match[kind], keywords)
        if token is not None and token.kind == _IDENT:
            name = str(token.value)
            token = _Token(_IDENT, cut_name(name))
            if note_cut is not None and token.value != name:
                note_cut(name)
        if token is not None:
            yield token


def _token(kind: str, text: str, keywords: set[str]) -> _Token:
    """Return what a word stands for; a name is not cut yet."""
    if kind == "word":
        return _Token(text) if text in keywords else _Token(_IDENT, folded_name(text))
    if kind == "quoted":
        return _Token(_IDENT, text.replace('""', '"'))
    if kind == "string":
        return _Token(_STRING, text.replace("''", "'"))
    if kind == "number":
        return _Token(_NUMBER, _cut_number(text, 10))
    if kind == "lsn":
        high, low = (_cut_number(part, 16) for part in text.split("/"))
        return _Token(_LSN, high << 32 | low)
    return _Token(text)


def _cut_number(text: str, base: int) -> int:
    """Return a number's low 32 bits; of one beyond 64 bits the largest is taken (strtoul)."""
    digits = text.lstrip("0") or "0"
    return min(int(digits, base), 2**64 - 1) & 0xFFFFFFFF if len(digits) <= 20 else 0xFFFFFFFF


def _syntax_error(message: str = "syntax error") -> NoReturn:
    raise SessionError(message, sqlstate=SYNTAX_ERROR)


class _Parser:
    """A parser of the words of one command, which are read one ahead: what comes first is the error."""

    def __init__(self, tokens: Iterator[_Token], version: Version) -> None:
        self._tokens, self._version = tokens, version
        self._ahead: _Token | None = None
        self._keywords = _keywords(version)

    def command(self) -> Command:
        """Parse the command, and what may end it."""
        command = self._command()
        self._took(";")
        self._expect(_END)
        return command

    def _command(self) -> Command:
        match self._next().kind:
            case "IDENTIFY_SYSTEM":
                return IdentifySystem()
            case "UPLOAD_MANIFEST":
                return UploadManifest()
            case "SHOW":
                return Show(self._variable())
            case "TIMELINE_HISTORY":
                return TimelineHistory(self._timeline())
            case "BASE_BACKUP":
                return BaseBackup(self._backup_options())
            case "READ_REPLICATION_SLOT":
                return ReadReplicationSlot(self._variable())
            case "CREATE_REPLICATION_SLOT":
                return self._create()
            case "ALTER_REPLICATION_SLOT":
                return AlterReplicationSlot(self._name(), self._in_parentheses())
            case "DROP_REPLICATION_SLOT":
                return DropReplicationSlot(self._name(), self._took("WAIT"))
            case _:
                return self._start()

    def _create(self) -> CreateReplicationSlot:
        slot, is_temporary = self._name(), self._took("TEMPORARY")
        plugin = None
        if not self._took("PHYSICAL"):
            self._expect("LOGICAL")
            plugin = self._name()
        if self._version.options_in_parentheses and self._peek() == "(":
            return CreateReplicationSlot(slot, plugin, is_temporary, self._in_parentheses())
        options: list[tuple[str, Value]] = []
        while self._peek() in _SLOT_WORDS and self._peek() in self._keywords:
            options.append(_SLOT_WORDS[self._next().kind])
        return CreateReplicationSlot(slot, plugin, is_temporary, tuple(options))

    def _start(self) -> StartPhysical | StartLogical:
        slot = self._name() if self._took("SLOT") else None
        if slot is not None and self._took("LOGICAL"):
            return StartLogical(slot, self._number(_LSN), self._plugin_options())
        self._took("PHYSICAL")
        lsn = self._number(_LSN)
        return StartPhysical(slot, lsn, self._timeline() if self._took("TIMELINE") else 0)

    def _plugin_options(self) -> Options:
        """Parse options of a plugin: names that are no keywords, each with a string or without."""
        if not self._took("("):
            return ()
        options: list[tuple[str, Value]] = []
        while True:
            name = self._name()
            options.append((name, self._next().value if self._peek() == _STRING else None))
            if not self._took(","):
                self._expect(")")
                return tuple(options)

    def _in_parentheses(self) -> Options:
        """Parse options of a command: names, each with a name, a string or a number, or without."""
        self._expect("(")
        options: list[tuple[str, Value]] = []
        while True:
            token = self._next()
            if token.kind != _IDENT and token.kind not in self._keywords:
                _syntax_error()
            name = str(token.value) if token.kind == _IDENT else token.kind.lower()
            options.append((name, self._next().value if self._peek() in (_IDENT, _STRING, _NUMBER) else None))
            if not self._took(","):
                self._expect(")")
                return tuple(options)

    def _backup_options(self) -> Options:
        if self._version.options_in_parentheses:
            return self._in_parentheses() if self._peek() == "(" else ()
        options: list[tuple[str, Value]] = []
        while self._peek() in _BACKUP_WORDS:
            word = self._next().kind
            follows = _BACKUP_WORDS[word]
            options.append((word.lower(), True if follows is None else self._expect(follows).value))
        return tuple(options)

    def _variable(self) -> str:
        name = self._name()
        while self._took("."):
            name += f".{self._name()}"
        return name

    def _timeline(self) -> int:
        timeline = self._number(_NUMBER)
        if timeline == 0:
            _syntax_error("invalid timeline 0")
        return timeline

    def _number(self, kind: str) -> int:
        return int(self._expect(kind).value)

    def _name(self) -> str:
        return str(self._expect(_IDENT).value)

    def _peek(self) -> str:
        if self._ahead is None:
            self._ahead = next(self._tokens, _Token(_END))
        return self._ahead.kind

    def _next(self) -> _Token:
        self._peek()
        token, self._ahead = self._ahead, None
        assert token is not None
        return token

    def _took(self, kind: str) -> bool:
        if self._peek() != kind:
            return False
        self._next()
        return True

    def _expect(self, kind: str) -> _Token:
        token = self._next()
        if token.kind != kind:
            _syntax_error()
        return token
