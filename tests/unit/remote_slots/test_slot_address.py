"""Addresses of slots: what is ours of them, what is libpq's, and that nothing of them is in a message."""

from __future__ import annotations

import pytest

from headwater.errors import UsageError
from headwater.remote_slots.slot_address import SlotAddress, is_server_address
from headwater.wal.segments.addresses import wal_source

PLACE = "postgresql://me:secret@a:1,b:2/shop"


@pytest.mark.parametrize(
    ("address", "conninfo", "publications", "creates"),
    [
        (f"{PLACE}?slot=s_1&publication=p", PLACE, ("p",), False),
        (f"{PLACE}?sslmode=require&slot=s_1&publication=p", f"{PLACE}?sslmode=require", ("p",), False),
        (f"{PLACE}?publication=p,q&slot=s_1&publication=r,p", PLACE, ("p", "q", "r"), False),
        (f"{PLACE}?publication=a%2Cb&slot=s_1&create_slot=on", PLACE, ("a,b",), True),
        (f"{PLACE}?slot=s_1&publication=p&create_slot=false", PLACE, ("p",), False),
    ],
)
def test_parts(address: str, conninfo: str, publications: tuple[str, ...], creates: bool) -> None:
    made = SlotAddress.parse(address)
    assert (made.conninfo, made.slot) == (conninfo, "s_1")
    assert (made.publications, made.creates_slot) == (publications, creates)
    assert "secret" not in repr(made)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("", "names no publication"),
        ("slot=s", "names no publication"),
        ("publication=p", "names no slot"),
        ("publication=p&slot=", "names no slot"),
        ("publication=p&slot=s&slot=t", "names 2 slots"),
        ("publication=p&slot=S-1", 'replication slot name "S-1" is invalid'),
        ("publication=p&slot=s&create_slot=maybe", "neither true nor false"),
    ],
)
def test_what_is_wrong_is_said_without_the_address(query: str, words: str) -> None:
    with pytest.raises(UsageError, match=words) as raised:
        SlotAddress.parse(f"{PLACE}?{query}")
    assert "secret" not in str(raised.value)


def test_a_server_is_no_place_of_wal() -> None:
    assert is_server_address("POSTGRES://host/db")
    assert not is_server_address("s3://bucket/postgresql://")
    with pytest.raises(UsageError, match="no place of WAL") as raised:
        wal_source([f"{PLACE}?slot=s&publication=p"])
    assert "secret" not in str(raised.value)
