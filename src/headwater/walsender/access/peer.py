"""The other end of a connection: where it is, whether it is encrypted, which user of the system, whose certificate.

PostgreSQL: getpeereid.c, be-secure-openssl.c (be_tls_open_server), ip.c (pg_getnameinfo_all), ifaddr.c.

Known gaps: users of sockets are known on Linux only, addresses of interfaces where structures of C are as on Linux.
"""

from __future__ import annotations

import ctypes
import os
import pwd
import socket
import ssl
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface, ip_address, ip_interface
from typing import Any, Protocol

from headwater.errors import SessionError
from headwater.pg.sqlstates import INVALID_AUTHORIZATION

LOCAL = "[local]"
"""The host of a connection by a Unix socket, in messages."""

_CREDENTIALS = struct.Struct("iII")
"""``struct ucred``: process, user, group."""


@dataclass(frozen=True)
class Peer:
    """The other end of a connection.

    Attributes:
        host: the address in digits; :data:`LOCAL` on a Unix socket.
        is_encrypted: by TLS.
        certificate_name: the common name of the client's certificate, which was verified; None without one.
        has_certificate: there is such a certificate, with a name or without.
        system_user: on a Unix socket, the name of the user whose process it is; None if it has none.
        port: of the client; -1 on a Unix socket.
    """

    host: str
    is_encrypted: bool = False
    certificate_name: str | None = None
    has_certificate: bool = False
    system_user: str | None = None
    port: int = field(default=-1, compare=False)

    @property
    def address(self) -> IPv4Address | IPv6Address | None:
        """The address, None on a Unix socket; an IPv4 address as such, also where it comes in one of IPv6."""
        if self.host == LOCAL:
            return None
        address = ip_address(self.host)
        mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
        return address if mapped is None else mapped


class Socket(Protocol):
    """A socket, by what is asked of it; that of a transport of asyncio has it, too."""

    @property
    def family(self) -> int:
        """The family of addresses."""

    def getsockopt(self, level: int, option: int, size: int, /) -> bytes:
        """Return an option."""

    def getpeername(self) -> Any:
        """Return the address of the other end."""


def peer_of(connection: Socket, encryption: ssl.SSLObject | ssl.SSLSocket | None = None) -> Peer:
    """Tell who is at the other end of a connection.

    Args:
        connection: the socket.
        encryption: of the connection, once it is agreed on; None without.

    Raises:
        SessionError: the client's certificate has a malformed name.
        OSError: the connection is gone.
    """
    if connection.family == socket.AF_UNIX:
        return Peer(LOCAL, system_user=_system_user(connection))
    name = connection.getpeername()
    host, port = str(name[0]), int(name[1])
    if encryption is None:
        return Peer(host, port=port)
    certificate = encryption.getpeercert()
    return Peer(host, True, _common_name(certificate or {}), bool(certificate), port=port)


def _system_user(connection: Socket) -> str | None:
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return None
    _, uid, _ = _CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, option, _CREDENTIALS.size))
    return system_user_named(uid)


def system_user_named(uid: int) -> str | None:
    """Return the name of a user of the system, None without one."""
    try:
        return pwd.getpwuid(uid).pw_name
    except (KeyError, OverflowError):
        return None


def _common_name(certificate: Any) -> str | None:
    names = [text for part in certificate.get("subject", ()) for kind, text in part if kind == "commonName"]
    if names and "\0" in names[0]:
        message = "SSL certificate's common name contains embedded null"
        raise SessionError(message, sqlstate=INVALID_AUTHORIZATION)
    return names[0] if names else None


class _InterfaceAddress(ctypes.Structure):
    """``struct ifaddrs``, up to what is read."""


_InterfaceAddress._fields_ = [
    ("next", ctypes.POINTER(_InterfaceAddress)),
    ("name", ctypes.c_char_p),
    ("flags", ctypes.c_uint),
    ("address", ctypes.c_void_p),
    ("netmask", ctypes.c_void_p),
]


def interfaces() -> list[IPv4Interface | IPv6Interface]:
    """List the addresses of this machine's interfaces, with their networks; none where they cannot be listed."""
    if not sys.platform.startswith("linux"):
        return []
    with _interface_addresses() as first:
        listed, entry = [], first
        while entry:
            address, mask = _address(entry.contents.address), _address(entry.contents.netmask)
            if address is not None and mask is not None:
                listed.append(ip_interface(f"{address}/{int(mask).bit_count()}"))
            entry = entry.contents.next
        return listed


@contextmanager
def _interface_addresses() -> Iterator[Any]:
    library = ctypes.CDLL(None, use_errno=True)
    first = ctypes.POINTER(_InterfaceAddress)()
    if library.getifaddrs(ctypes.byref(first)) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    try:
        yield first
    finally:
        library.freeifaddrs(first)


def _address(place: int | None) -> IPv4Address | IPv6Address | None:
    """Read a ``sockaddr``; None for one of another family."""
    if not place:
        return None
    (family,) = struct.unpack("=H", ctypes.string_at(place, 2))
    if family == socket.AF_INET:
        return IPv4Address(ctypes.string_at(place + 4, 4))
    return IPv6Address(ctypes.string_at(place + 8, 16)) if family == socket.AF_INET6 else None
