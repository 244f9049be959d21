"""Names under which tables of the source land: bound again in one step, and the same again does nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from headwater.catalog.relation import RelationSchema
from headwater.errors import LakeError
from headwater.lakes.bound_names import BoundNames


def names_at(place: Path, *, numbers_taken: bool = False) -> BoundNames:
    return BoundNames(place, place, lambda name: (name.replace(".", "_"),), numbers_taken=numbers_taken)


def table(oid: int, name: str) -> RelationSchema:
    return replace(_TABLE, oid=oid, name=name)


_TABLE = RelationSchema(16384, "public", "t", "r", "p", "d", (), ())


def test_names_are_bound_anew(tmp_path: Path) -> None:
    names = names_at(tmp_path)
    for oid, name in ((1, "a"), (2, "b"), (3, "c")):
        assert names.give(table(oid, name)) == str(oid)
    swap = {"public.a": 2, "public.b": 1}
    assert names.bind(swap) == {"2": "1", "1": "2"}
    assert names.bind(swap) == {}
    assert (names.name_of(1), names.name_of(2), names.holder("public.a")) == ("public.b", "public.a", 2)
    # A table that gets the name of another one leaves its own, under which its rows stay.
    assert names.bind({"public.c": 1}) == {"left.public.b": "1", "1": "3"}
    assert names.name_of(3) is None
    assert (names.has("public.b"), names.holder("public.b")) == (True, None)
    assert names.former("public.b") == {1, 2}
    assert names.former("public.c") == {1, 3}
    again = names_at(tmp_path)
    assert again.by_key == names.by_key == {"2": "public.a", "left.public.b": "public.b", "1": "public.c"}
    assert again.former("public.b") == {1, 2}
    assert again.bind({"public.b": 9}) == {"9": "left.public.b"}
    assert again.first_names == ["public.a", "public.c", "public.b"]


def test_names_are_as_they_were_when_that_is_taken_back(tmp_path: Path) -> None:
    names = names_at(tmp_path)
    names.give(table(1, "a"))
    before = dict(names.by_key)
    names.bind({"public.a": 2, "public.a_old": 1})
    assert (names.holder("public.a"), names.name_of(1)) == (2, "public.a_old")
    names.bind_again(before)
    assert names.by_key == names_at(tmp_path).by_key == before
    assert (names.holder("public.a"), names.keys(1), names.keys(2)) == (1, ["1"], [])
    assert not names.has("public.a_old")


def test_a_name_that_is_taken_is_an_error_or_gets_a_number(tmp_path: Path) -> None:
    names_at(tmp_path).give(table(1, "a"))
    with pytest.raises(LakeError, match=r'"public\.a" is another table now, of OID 2'):
        names_at(tmp_path).give(table(2, "a"))
    names = names_at(tmp_path, numbers_taken=True)
    names.give(table(2, "a"))
    assert names.name_of(2) == "public.a_2"
    with pytest.raises(LakeError, match=r'tables "public\.a_2" and "public_a\.2" would both be public_a_2'):
        names.give(replace(table(3, "2"), namespace="public_a"))
