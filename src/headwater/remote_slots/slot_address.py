"""The address of a logical slot: libpq's URI of a server, with the slot's name and publications among its parameters.

``postgresql://user@host:5432/shop?slot=headwater&publication=orders,customers&create_slot=true``

Parameters that are not ours stay libpq's. Neither the address nor a part of it is in a message: it may have a password.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import unquote

from headwater.errors import UsageError

_URI = re.compile(r"postgres(?:ql)?://", re.I)
_NAME = re.compile(r"[a-z0-9_]{1,63}")
_OURS = ("slot", "publication", "create_slot")
_TRUE, _FALSE = ("true", "on", "yes", "1"), ("false", "off", "no", "0")


@dataclass(frozen=True)
class SlotAddress:
    """A slot of a server.

    Attributes:
        conninfo: libpq's part of the address.
        slot: its name.
        publications: names, whose tables are read.
        creates_slot: the slot is made if it is missing.
        two_phase: it decodes transactions at PREPARE.
        search_path: of the session with the server; application: its name, unless the connection string has one.
    """

    conninfo: str = field(repr=False)
    slot: str
    publications: tuple[str, ...]
    creates_slot: bool = False
    two_phase: bool = False
    search_path: str = '"$user",public'
    application: str = ""

    @classmethod
    def parse(cls, address: str) -> SlotAddress:
        """Read an address.

        Raises:
            UsageError: it names no slot or no publication, or says something twice.
        """
        place, _, query = address.partition("?")
        rest: list[str] = []
        ours: dict[str, list[str]] = {name: [] for name in _OURS}
        for part in filter(None, query.split("&")):
            name, _, value = part.partition("=")
            if name in ours:
                ours[name].append(value)
            else:
                rest.append(part)
        conninfo = place + ("?" + "&".join(rest) if rest else "")
        publications = [unquote(name) for value in ours["publication"] for name in value.split(",") if name]
        if not publications:
            raise UsageError("the slot's address names no publication", hint="add publication=NAME to its parameters")
        return cls(conninfo, _slot(ours["slot"]), tuple(dict.fromkeys(publications)), _switch(ours["create_slot"]))


def is_server_address(address: str) -> bool:
    """Tell whether a place of WAL is a server's URI."""
    return _URI.match(address) is not None


def _slot(values: list[str]) -> str:
    names = [unquote(value) for value in values]
    if len(names) != 1 or not names[0]:
        count = f"{len(names)} slots" if len(names) > 1 else "no slot"
        raise UsageError(f"the server's address names {count}", hint="add slot=NAME to its parameters, once")
    if not _NAME.fullmatch(names[0]):
        raise UsageError(
            f'replication slot name "{names[0]}" is invalid',
            hint="names have lower case letters, digits and underscores, 63 at most",
        )
    return names[0]


def _switch(values: list[str]) -> bool:
    if not values:
        return False
    if len(values) == 1 and values[0].lower() in (*_TRUE, *_FALSE):
        return values[0].lower() in _TRUE
    raise UsageError("create_slot is neither true nor false in the slot's address")
