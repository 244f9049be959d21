"""Places where a catalog lets tables lie, with whose credentials, and what errors say of its answers."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.catalog.rest import TableResponse
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException

from headwater.errors import LakeError
from headwater.lakes.catalogs.doubts import is_of_catalog, is_refusal, may_pass, words_of
from headwater.lakes.catalogs.table_places import place_of_table
from headwater.lakes.stores.library_options import options_for_iceberg
from headwater.lakes.stores.places import StorePath, place_of

OURS = place_of("s3://bucket/lake", {"key": "ours", "secret": "of-ours", "token": "of-ours"})
GIVEN = {"s3.access-key-id": "theirs", "s3.secret-access-key": "of-theirs", "s3.session-token": ""}


def test_a_place_with_its_credentials() -> None:
    place = place_of_table("s3://warehouse/shop/orders", {**GIVEN, "s3.region": "eu-north-1"}, OURS)
    assert isinstance(place, StorePath)
    assert isinstance(OURS, StorePath)
    assert str(place) == "s3://warehouse/shop/orders"
    assert options_for_iceberg(place.store) == {
        "s3.access-key-id": "theirs",
        "s3.secret-access-key": "of-theirs",
        "s3.region": "eu-north-1",
    }
    without = place_of_table("s3://warehouse/shop/orders", {}, OURS)
    assert isinstance(without, StorePath)
    assert without.store.options == OURS.store.options
    assert place_of_table("file:///lake/orders", {}, Path("/to")) == Path("/lake/orders")
    with pytest.raises(LakeError, match="lets the table lie in s3://warehouse"):
        place_of_table("s3://warehouse/shop/orders", GIVEN, Path("/to"))


def test_what_errors_mean_and_say() -> None:
    assert is_refusal(CommitFailedException())
    assert may_pass(CommitStateUnknownException())
    assert not may_pass(CommitFailedException())
    with pytest.raises(ValueError, match="of-theirs") as caught:
        TableResponse.model_validate({"metadata": {"secret": "of-theirs"}, "config": {"s3.secret-access-key": 1}})
    assert is_of_catalog(caught.value)
    assert "of-theirs" not in words_of(caught.value)
    assert "metadata" in words_of(caught.value)
