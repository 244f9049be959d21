"""Rules of who may connect from where, and by which method, in the form of ``pg_hba.conf``.

::

    # TYPE   DATABASE         USER        ADDRESS         METHOD
    local    all,replication  all                         peer
    hostssl  shop             replicator  10.0.0.0/8      scram-sha-256

The first rule that fits decides, and what none fits is refused. ``all`` is every database; physical replication is of
none, and only the word ``replication`` stands for it. A word in quotes is a name, not a keyword. Texts of errors are
the server's, with the file and the line.

Without a file :data:`DEFAULT_RULES` hold. The user of the system that runs the service may connect by the Unix socket,
as may others whose names are users'. From this machine itself a password is needed: any user of the system, and any
program on it, can connect there, so that loopback proves nothing (``trust`` would let all in). From anywhere else
nobody may: a service that was just started serves no network.

PostgreSQL: hba.c (next_token, parse_hba_line, check_hba, check_db, check_role), ip.c, ifaddr.c.

Known gaps, each an error where it is asked for: other methods than :class:`Method` has, options of methods, host names,
groups (``+name``, ``samerole``), regular expressions (``/...``), other files (``@name``, ``include``), GSSAPI.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface, ip_address
from pathlib import Path
from typing import NoReturn

from headwater.base.system_errors import errors_as
from headwater.errors import AccessError, SessionError
from headwater.pg.sqlstates import INVALID_AUTHORIZATION
from headwater.protocol.startup import SessionRequest
from headwater.walsender.access.peer import Peer, interfaces

Address = IPv4Address | IPv6Address
Interfaces = Callable[[], Sequence[IPv4Interface | IPv6Interface]]
"""What lists the addresses of this machine."""

DEFAULT_RULES = """\
local  all,replication  all                peer
host   all,replication  all  127.0.0.1/32  scram-sha-256
host   all,replication  all  ::1/128       scram-sha-256
"""

_KINDS = ("local", "host", "hostssl", "hostnossl")
_OTHER_KINDS = ("hostgssenc", "hostnogssenc", "include", "include_if_exists", "include_dir")
_OTHER_METHODS = ("ident", "password", "md5", "gss", "sspi", "pam", "bsd", "ldap", "radius", "oauth")
_BLANKS = " \t\r"
_CIDR = re.compile(r"[ \t\n\v\f\r]*([+-]?[0-9]+)", re.ASCII)
_MOST_DIGITS = 18
_TEXT = "utf-8", "surrogateescape"
_SCRAM = "write scram-sha-256: passwords of users of the service are kept as SCRAM verifiers alone"
_INSTEAD = {"md5": _SCRAM, "password": _SCRAM}
"""What to write in place of a method that others have."""


class Method(Enum):
    """A way for a client to prove who it is."""

    TRUST = "trust"
    REJECT = "reject"
    SCRAM = "scram-sha-256"
    CERT = "cert"
    PEER = "peer"


@dataclass(frozen=True)
class Word:
    """A word of a rule.

    Attributes:
        text: without quotes.
        is_quoted: it began with a quote, so that it is no keyword.
    """

    text: str
    is_quoted: bool = False

    def is_keyword(self, text: str) -> bool:
        """Tell whether the word is a keyword."""
        return self.text == text and not self.is_quoted


@dataclass(frozen=True)
class Addresses:
    """Addresses that a rule is about.

    Attributes:
        keyword: ``all``, ``samehost`` or ``samenet``; empty for a range.
        base, mask: of the range: which bits count, and what they are.
    """

    keyword: str
    base: Address | None = None
    mask: int = 0

    def has(self, address: Address, list_interfaces: Interfaces) -> bool:
        """Tell whether an address is one of them."""
        if self.keyword == "all":
            return True
        if self.keyword:
            own = [own for own in list_interfaces() if own.version == address.version]
            return any(address == own.ip if self.keyword == "samehost" else address in own.network for own in own)
        assert self.base is not None
        return address.version == self.base.version and not (int(address) ^ int(self.base)) & self.mask


@dataclass(frozen=True)
class HostRule:
    """A rule.

    Attributes:
        kind: ``local``, ``host``, ``hostssl`` or ``hostnossl``.
        databases, users: whom it is about.
        addresses: where they are; None on a Unix socket.
        method: how they prove who they are.
        line: where it stands in the file, from 1 on.
    """

    kind: str
    databases: tuple[Word, ...]
    users: tuple[Word, ...]
    addresses: Addresses | None
    method: Method
    line: int

    def fits(self, request: SessionRequest, peer: Peer, list_interfaces: Interfaces) -> bool:
        """Tell whether the rule is about a connection."""
        return (
            self._fits_encryption(peer)
            and self._fits_address(peer.address, list_interfaces)
            and any(_is_database(word, request) for word in self.databases)
            and any(word.is_keyword("all") or word.text == request.user for word in self.users)
        )

    def _fits_encryption(self, peer: Peer) -> bool:
        return self.kind not in ("hostssl", "hostnossl") or peer.is_encrypted == (self.kind == "hostssl")

    def _fits_address(self, address: Address | None, list_interfaces: Interfaces) -> bool:
        if address is None or self.addresses is None:
            return address is None and self.addresses is None
        return self.addresses.has(address, list_interfaces)


def is_physical(request: SessionRequest) -> bool:
    """Tell whether a session is one of physical replication, which is of no database."""
    return request.is_replication and not request.database


def _is_database(word: Word, request: SessionRequest) -> bool:
    if is_physical(request):
        return word.is_keyword("replication")
    if word.is_keyword("replication"):
        return False
    same = word.is_keyword("sameuser") and request.database == request.user
    return word.is_keyword("all") or same or (not word.is_keyword("sameuser") and word.text == request.database)


def method_for(
    rules: Sequence[HostRule], request: SessionRequest, peer: Peer, list_interfaces: Interfaces = interfaces
) -> Method:
    """Return the method of the first rule that fits a connection.

    Args:
        rules: in their order.
        request: what the client asks for; peer: who it is.
        list_interfaces: lists the addresses of this machine.

    Raises:
        SessionError: no rule fits, or one that rejects.
    """
    rule = next((rule for rule in rules if rule.fits(request, peer, list_interfaces)), None)
    if rule is not None and rule.method is not Method.REJECT:
        return rule.method
    encryption = "SSL encryption" if peer.is_encrypted else "no encryption"
    of = f'host "{peer.host}", user "{request.user}"'
    if is_physical(request):
        what = "no pg_hba.conf entry for replication connection from" if rule is None else _REJECTED_REPLICATION
        raise SessionError(f"{what} {of}, {encryption}", sqlstate=INVALID_AUTHORIZATION)
    what = "no pg_hba.conf entry for" if rule is None else "pg_hba.conf rejects connection for"
    message = f'{what} {of}, database "{request.database}", {encryption}'
    raise SessionError(message, sqlstate=INVALID_AUTHORIZATION)


_REJECTED_REPLICATION = "pg_hba.conf rejects replication connection for"


def read_rules(path: Path) -> tuple[HostRule, ...]:
    """Read a file of rules.

    Raises:
        AccessError: it cannot be read, or a rule is malformed or asks for what is not supported.
    """
    with errors_as(AccessError, "read the host rules", path):
        data = path.read_bytes()
    return parse_rules(data, str(path))


def parse_rules(data: bytes | str, file: str) -> tuple[HostRule, ...]:
    """Parse rules.

    Args:
        data: of a file; file: its name, for errors.

    Raises:
        AccessError: see :func:`read_rules`.
    """
    text = data if isinstance(data, str) else data.decode(*_TEXT)
    return tuple(_RuleLine(file, number, fields).rule() for number, fields in _lines(text))


def _lines(text: str) -> Iterator[tuple[int, list[list[Word]]]]:
    """Give the fields of each line that has some, with its number; a backslash at the end joins the next line."""
    whole, begin = "", 1
    lines = text.removesuffix("\n").split("\n")
    for number, raw in enumerate(lines, 1):
        line = raw.partition("\0")[0].rstrip("\r")
        whole += line.removesuffix("\\")
        if line.endswith("\\") and number < len(lines):
            continue
        fields = list(_fields(whole))
        if fields:
            yield begin, fields
        whole, begin = "", number + 1


def _fields(line: str) -> Iterator[list[Word]]:
    """Give the fields of a line; words with commas between them are one field."""
    at, words = 0, []
    while True:
        word, at, has_comma = _next_word(line, at)
        if word is not None:
            words.append(word)
        if not has_comma or word is None:
            if words:
                yield words
            words = []
        if word is None:
            return


def _next_word(line: str, at: int) -> tuple[Word | None, int, bool]:
    """Return the next word, the place behind it, and whether a comma ends it (next_token)."""
    while at < len(line) and line[at] in _BLANKS + ",":
        at += 1
    text, is_inside, was_quote, begins_quoted, has_quote = "", False, False, False, False
    while at < len(line) and (is_inside or line[at] not in _BLANKS):
        character = line[at]
        if character == "#" and not is_inside:
            at = len(line)
            break
        if character == "," and not is_inside:
            return Word(text, begins_quoted), at, True
        if character != '"' or was_quote:
            text += character
        was_quote = character == '"' and is_inside and not was_quote
        if character == '"':
            is_inside, has_quote = not is_inside, True
            begins_quoted = begins_quoted or not text
        at += 1
    return (Word(text, begins_quoted) if has_quote or text else None), at, False


@dataclass(frozen=True)
class _RuleLine:
    """A line of a file of rules, taken apart.

    Attributes:
        file, number: where it stands.
        fields: lists of words.
    """

    file: str
    number: int
    fields: list[list[Word]]

    def rule(self) -> HostRule:
        """Return the rule."""
        kind = self._kind()
        databases = self._names(1, "end-of-line before database specification", ("samerole", "samegroup"))
        users = self._names(2, "end-of-line before role specification", ())
        addresses, at = (None, 3) if kind == "local" else self._addresses()
        return HostRule(kind, databases, users, addresses, self._method(kind, at), self.number)

    def _kind(self) -> str:
        kind = self._single(0, "", "multiple values specified for connection type").text
        if kind in _OTHER_KINDS:
            self._refuse(f'"{kind}" is not supported')
        if kind not in _KINDS:
            self._refuse(f'invalid connection type "{kind}"')
        return kind

    def _names(self, at: int, missing: str, groups: Sequence[str]) -> tuple[Word, ...]:
        for word in self._field(at, missing):
            begin = word.text[:1]
            is_special = begin in ("+", "@") and not word.is_quoted and len(word.text) > 1
            if is_special or begin == "/" or any(map(word.is_keyword, groups)):
                self._refuse(f'"{word.text}" is not supported, expected names')
        return tuple(self.fields[at])

    def _addresses(self) -> tuple[Addresses, int]:
        """Return the addresses, and the number of the field behind them."""
        missing, several = "end-of-line before IP address specification", "multiple values specified for host address"
        word = self._single(3, missing, several)
        if any(map(word.is_keyword, ("all", "samehost", "samenet"))):
            return Addresses(word.text), 4
        text, slash, bits = word.text.partition("/")
        base = self._address(text, "address")
        if base is None:
            if slash:
                self._refuse(f'specifying both host name and CIDR mask is invalid: "{word.text}"')
            self._refuse(f'host name "{text}" is not supported, expected an address')
        if slash:
            return Addresses("", base, self._cidr_mask(bits, base, word.text)), 4
        return Addresses("", base, self._mask(base)), 5

    def _cidr_mask(self, bits: str, base: Address, text: str) -> int:
        match = _CIDR.fullmatch(bits)
        count = -1 if match is None or len(match[1]) > _MOST_DIGITS else int(match[1])
        if not 0 <= count <= base.max_prefixlen:
            self._refuse(f'invalid CIDR mask in address "{text}"')
        return (1 << base.max_prefixlen) - (1 << base.max_prefixlen - count)

    def _mask(self, base: Address) -> int:
        missing = "end-of-line before netmask specification"
        word = self._single(4, missing, "multiple values specified for netmask")
        mask = self._address(word.text, "mask")
        assert mask is not None
        if mask.version != base.version:
            self._refuse("IP address and mask do not match")
        return int(mask)

    def _address(self, text: str, what: str) -> Address | None:
        """Return an address that is given in digits; None for a name, which a mask cannot be."""
        try:
            # Nothing is looked up; an empty text would be an address of this machine.
            infos = socket.getaddrinfo(text.encode(*_TEXT) or None, None, flags=socket.AI_NUMERICHOST)
        except socket.gaierror as error:
            if error.errno == socket.EAI_NONAME and what == "address":
                return None
            self._refuse(f'invalid IP {what} "{text}": {error.strerror}')
        return ip_address(infos[0][4][0])

    def _method(self, kind: str, at: int) -> Method:
        missing = "end-of-line before authentication method"
        name = self._single(at, missing, "multiple values specified for authentication type").text
        if name in _OTHER_METHODS:
            self._refuse(f'authentication method "{name}" is not supported', _INSTEAD.get(name))
        if name not in {method.value for method in Method}:
            self._refuse(f'invalid authentication method "{name}"')
        method = Method(name)
        if method is Method.PEER and kind != "local":
            self._refuse("peer authentication is only supported on local sockets")
        if method is Method.CERT and kind != "hostssl":
            self._refuse("cert authentication is only supported on hostssl connections")
        for word in (word for field in self.fields[at + 1 :] for word in field):
            if "=" not in word.text:
                self._refuse(f"authentication option not in name=value format: {word.text}")
            self._refuse(f'authentication option "{word.text.partition("=")[0]}" is not supported')
        return method

    def _single(self, at: int, missing: str, several: str) -> Word:
        words = self._field(at, missing)
        if len(words) > 1:
            self._refuse(several)
        return words[0]

    def _field(self, at: int, missing: str) -> list[Word]:
        if at >= len(self.fields):
            self._refuse(missing)
        return self.fields[at]

    def _refuse(self, message: str, hint: str | None = None) -> NoReturn:
        raise AccessError(f"line {self.number}: {message}", file=self.file, hint=hint)
