"""Host rules: files are read as a real server reads its ``pg_hba.conf``, and decide about connections as it does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from ipaddress import ip_address
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import pytest

from access.certificates import self_signed
from access.raw_client import Address, Answer, raw_client
from access.server_parts import OURS, put, strict_server, version_of
from access.tiny_server import TinyServer
from headwater.errors import AccessError
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from headwater.walsender.access.authentication import Access
from headwater.walsender.access.host_rules import HostRule, parse_rules
from headwater.walsender.access.tls import load_encryption
from headwater.walsender.access.users import User, Users
from oracle.streamed_runs import since

pytestmark = pytest.mark.server

LINES = r'''
local all all trust
local all all trust # and a comment
local	all	all	reject
host all all 127.0.0.1/32 trust
host all all 127.0.0.1 255.255.255.255 trust
host all all 10.1.2.3/8 scram-sha-256
host all all 10.0.0.0 255.0.255.0 trust
host all all ::1/128 trust
host all all fe80::1%lo/64 trust
host all all ::ffff:1.2.3.4/96 trust
host all all 2001:db8:: ffff:ffff:: trust
host all all 127.1/32 trust
host all all 0x7f.1/32 trust
host all all 127.0.0.1/33 trust
host all all 127.0.0.1/-1 trust
host all all 127.0.0.1/+8 trust
host all all 127.0.0.1/08 trust
host all all 127.0.0.1/ trust
host all all 127.0.0.1/8x trust
host all all 127.0.0.1/8/8 trust
host all all 127.0.0.1/99999999999999999999999 trust
host all all "127.0.0.1/ 8" trust
host all all 127.0.0.1 trust
host all all 127.0.0.1
host all all 127.0.0.1 255.255.255.255
host all all 127.0.0.1 ::1 trust
host all all 127.0.0.1 mask trust
host all all 127.0.0.1 "" trust
host all all 127.0.0.1,127.0.0.2 trust
host all all 127.0.0.1 255.0.0.0,255.0.0.0 trust
host all all 1.2.3.4.5/8 trust
host all all 300.1.1.1/8 trust
host all all name/8 trust
host all all /8 trust
host all all all trust
host all all samehost trust
host all all samenet trust
host all all "all" trust
host all all ALL trust
hostssl all all all trust
hostnossl all all all trust
hostssl all all all cert
hostnossl all all all cert
host all all all cert
local all all cert
local all all peer
host all all all peer
local all all nonsense
local all all "trust"
local all all trust,reject
local all all TRUST
local all all
local all
local
local,host all all trust
remote all all trust
"local" all all trust
Local all all trust
local a,b,c d,e trust
local a , b c trust
local a, b c trust
local a,, ,b c trust
local a,b, c trust
local "a,b" "c d" trust
local "a""b" c"d"e trust
local """" c trust
local "" c trust
local "all" "replication" trust
local all,"all" all trust
local sameuser all trust
local replication,sameuser all trust
local "open all trust
local all#all trust
local "all#" all trust
local all all trust nonsense
local all all trust a b=c
  local   all   all   trust
,local all all trust
local ä "ü" trust
local all all trust \
local all \
'''.removeprefix("\n")
"""Lines of a file; a backslash at the end joins the next one."""

WORDS = [
    "local",
    "host",
    "hostssl",
    "all",
    "replication",
    "sameuser",
    '"all"',
    '"a b"',
    "a,b",
    "a,",
    ",",
    '"',
    '""',
    "#",
    "x",
]
WORDS += [
    "127.0.0.1/32",
    "127.0.0.1",
    "255.255.0.0",
    "::/0",
    "ffff::",
    "samehost",
    "samenet",
    "10.0.0.0/8",
    "1/2",
    "0",
    ":",
]
WORDS += ["trust", "reject", "peer", "cert", "scram-sha-256", "\\", "\t", "\r", '"x', 'y"z"']

NOT_OURS = "not supported"
"""Part of our errors of what the server may know."""

COLUMNS = "type, database, user_name, address, netmask, auth_method, error"


def random_lines(count: int) -> Iterator[str]:
    """Give random lines, of which many are right at their beginnings."""
    rng = Random(11)
    beginnings = ["", "", "local all all ", "host all all ", "host a,b c 127.0.0.1/32 ", "hostssl all all 10.0.0.0 "]
    for _ in range(count):
        words = (rng.choice(WORDS) + rng.choice((" ", " ", "")) for _ in range(rng.randrange(6)))
        yield rng.choice(beginnings) + "".join(words)


def read_by_server(server: EmbeddedPostgres, text: str) -> dict[int, tuple[Any, ...]]:
    """Return what a server makes of a file, by the numbers of lines."""
    put(server, "pg_hba.conf", (OURS + text).encode())
    with server.connect() as connection:
        rows = connection.execute(f"SELECT line_number, {COLUMNS} FROM pg_hba_file_rules".encode()).fetchall()
    before = OURS.count("\n")
    return {line - before: tuple(rest) for line, *rest in rows if line > before}


def read_by_us(text: str) -> tuple[HostRule, ...] | str:
    """Return what we make of a text, or our error."""
    try:
        return parse_rules(text, "rules")
    except AccessError as error:
        assert (error.message[:8], error.file) == ("line 1: ", "rules")  # noqa: PT017
        return error.message[8:]


def as_shown(rule: HostRule) -> tuple[Any, ...]:
    """Return a rule as the server shows its own."""
    address, mask, addresses = None, None, rule.addresses
    if addresses is not None:
        address, mask = addresses.keyword or addresses.base, None
        if addresses.base is not None:
            mask = type(addresses.base)(addresses.mask)
    names = [[word.text for word in words] for words in (rule.databases, rule.users)]
    return rule.kind, *names, address, mask, rule.method.value, None


def shown_by_server(row: Sequence[Any]) -> tuple[Any, ...]:
    """Return a row of the server's, with its addresses as values."""
    kind, databases, users, address, mask, method, error = row
    is_range = address is not None and not address.startswith(("all", "same"))
    where = (ip_address(address), ip_address(mask)) if is_range and mask is not None else (address, mask)
    return kind, databases, users, *where, method, error


def joined(lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Give what stands in each line with those that it is joined to, and the number of the first."""
    whole, begin = "", 1
    for number, line in enumerate(lines, 1):
        whole += line + "\n"
        if not line.rstrip("\r").endswith("\\"):
            yield begin, whole
            whole, begin = "", number + 1


@pytest.mark.parametrize("major", since(14))
def test_lines_are_read_as_by_the_server(major: int, tmp_path: Path) -> None:
    lines = [*LINES.split("\n"), *random_lines(1500), "", "local last last trust"]
    certificate = self_signed(tmp_path, "localhost")
    with strict_server(major, "", certificate=certificate) as server:
        theirs = read_by_server(server, "\n".join(lines) + "\n")
    count = 0
    for number, text in joined(lines):
        ours, row = read_by_us(text), theirs.get(number)
        if row is None:
            assert ours == (), text
        elif isinstance(ours, str):
            assert ours == row[-1] or NOT_OURS in ours, (text, row)
            count += ours == row[-1]
        else:
            assert [as_shown(rule) for rule in ours] == [shown_by_server(row)], text
    assert count > 200


def test_numbers_of_lines() -> None:
    rules = parse_rules("\n# none\nlocal \\\nall \\\nall trust\r\n\nlocal all all reject\n", "rules")
    assert [rule.line for rule in rules] == [3, 7]


RULES = """
host     shop             exact       127.0.0.1/32             trust
host     shop             range       127.0.0.2/31             trust
host     shop             masked      127.0.0.1 255.255.255.3  reject
host     all              everywhere  all                      trust
host     replication      physical    all                      trust
host     "replication"    quoted      all                      trust
host     sameuser         same        all                      trust
host     all,replication  here        samehost                 trust
host     all              net         samenet                  trust
hostssl  all,replication  secret      all                      trust
hostnossl all,replication plain       all                      trust
host     all,replication  rejected    all                      reject
host     all              first       all                      reject
host     all              first       all                      trust
host     all              "all"       ::1/128                  trust
local    all,replication  socket      reject
host     all,replication  password    127.0.0.0/8              scram-sha-256
"""
USERS = ["exact", "range", "masked", "everywhere", "physical", "quoted", "same", "here", "net", "secret", "plain"]
USERS += ["rejected", "first", "all", "socket", "password"]
SOURCES = ["127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.5", ""]
"""Addresses to come from; an empty one is the Unix socket."""


def first_answers(local: Address, remote: Address) -> Iterator[tuple[object, Answer]]:
    """Give what clients of all kinds are first told."""
    for user, source, is_encrypted in product(USERS, SOURCES, (False, True)):
        if is_encrypted and not source:
            continue
        for database, replication in (("shop", ""), ("same", "database"), ("replication", ""), ("shop", "true")):
            parameters = {"user": user, "database": database, **({"replication": replication} if replication else {})}
            with raw_client(remote if source else local, is_encrypted, source) as client:
                yield (source, is_encrypted, database, replication, user), client.startup(parameters)


@pytest.mark.parametrize("major", since(14))
def test_connections_are_let_in_as_by_the_server(major: int, tmp_path: Path) -> None:
    certificate = self_signed(tmp_path, "localhost")
    encryption = load_encryption(certificate.certificate, certificate.key)
    statements = (f'CREATE ROLE "{user}" LOGIN REPLICATION' for user in USERS)
    with strict_server(major, RULES, *statements, certificate=certificate) as server:
        socket = str(server.socket_directory / f".s.PGSQL.{server.port}")
        expected = dict(first_answers(socket, ("127.0.0.1", server.port)))
        users = Users({user: User(user, may_copy_all=True) for user in USERS})
        access = Access(parse_rules(OURS + RULES, "rules"), users, version_of(server), binding=encryption.binding)
        local = TinyServer(access, path=tmp_path / "socket")
        with local.running() as path, TinyServer(access, encryption).running() as address:
            assert dict(first_answers(path, address)) == expected
    answers = [answer for answer in expected.values() if answer[0] == "R"]
    assert 100 < len(answers) < len(expected) - 100
