"""Functions of inet and cidr: the networks that contain them, and their parts.

PostgreSQL: ``network.c``.

Known gap: arithmetic with addresses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from headwater.errors import ExpressionError
from headwater.filters.functions import Context, each, register

_IPV4, _IPV6 = 2, 3
_INT64 = range(-(1 << 63), 1 << 63)


class Network(NamedTuple):
    """An address and the length of its netmask.

    Attributes:
        family: the address family, as it is stored.
        bits: the length of the netmask.
        address: the address as a number.
        width: the bits of an address.
    """

    family: int
    bits: int
    address: int
    width: int

    @property
    def host_mask(self) -> int:
        """The bits that are not the network's."""
        return (1 << (self.width - self.bits)) - 1

    def stored(self) -> bytes:
        """Return the network as it is stored."""
        return bytes([self.family, self.bits]) + self.address.to_bytes(self.width // 8, "big")


def _network(payload: bytes) -> Network:
    family, bits = payload[0], payload[1]
    return Network(family, bits, int.from_bytes(payload[2:], "big"), 32 if family == _IPV4 else 128)


def _is_within(inner: Network, outer: Network) -> bool:
    """Tell whether the inner network is the outer one, or a part of it."""
    if inner.family != outer.family or inner.bits < outer.bits:
        return False
    return (inner.address ^ outer.address) >> (outer.width - outer.bits) == 0


def _test(decide: Callable[[Network, Network], bool]) -> Callable[[Context, bytes, bytes], bool]:
    return lambda _, left, right: decide(_network(left), _network(right))


def _change(make: Callable[[Network], Network]) -> Callable[[Context, bytes], bytes]:
    return lambda _, payload: make(_network(payload)).stored()


def _with_mask(context: Context, payload: bytes, bits: int) -> bytes:
    value = _network(payload)
    bits = value.width if bits == -1 else bits
    if not 0 <= bits <= value.width:
        raise ExpressionError(f"invalid mask length: {bits}")
    network = value._replace(bits=bits)
    return (
        network._replace(address=network.address & ~network.host_mask) if context.types[0] == 650 else network
    ).stored()


def _difference(_: Context, left: bytes, right: bytes) -> int:
    minuend, subtrahend = _network(left), _network(right)
    if minuend.family != subtrahend.family:
        raise ExpressionError("cannot subtract inet values of different sizes")
    # The server counts in as many bits as an address has.
    difference = minuend.address - subtrahend.address
    if minuend.width > 64:
        difference = (difference + (1 << 127)) % (1 << 128) - (1 << 127)
    if difference not in _INT64:
        raise ExpressionError("result is out of range")
    return difference


def _trunc_mac(size: int) -> Callable[[Context, bytes], bytes]:
    return lambda _, payload: payload[:3].ljust(size, b"\0")


register("network_sub", each(_test(lambda a, b: a.bits > b.bits and _is_within(a, b))))
register("network_subeq", each(_test(_is_within)))
register("network_sup", each(_test(lambda a, b: b.bits > a.bits and _is_within(b, a))))
register("network_supeq", each(_test(lambda a, b: _is_within(b, a))))
register("network_overlap", each(_test(lambda a, b: _is_within(a, b) or _is_within(b, a))))
register("inet_same_family", each(_test(lambda a, b: a.family == b.family)))
register("network_family", each(lambda _, payload: 4 if payload[0] == _IPV4 else 6))
register("network_masklen", each(lambda _, payload: payload[1]))
register("network_network", each(_change(lambda a: a._replace(address=a.address & ~a.host_mask))))
register("inet_to_cidr", each(_change(lambda a: a._replace(address=a.address & ~a.host_mask))))
register("network_broadcast", each(_change(lambda a: a._replace(address=a.address | a.host_mask))))
register(
    "network_netmask", each(_change(lambda a: a._replace(address=((1 << a.width) - 1) & ~a.host_mask, bits=a.width)))
)
register("network_hostmask", each(_change(lambda a: a._replace(address=a.host_mask, bits=a.width))))
register(["inet_set_masklen", "cidr_set_masklen"], each(_with_mask))
register("inetmi", each(_difference))
register("macaddr_trunc", each(_trunc_mac(6)))
register("macaddr8_trunc", each(_trunc_mac(8)))
