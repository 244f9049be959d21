"""Places in stores: what is one, what no text of them has, and how libraries are told of the store."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from headwater.errors import LakeError, UsageError
from headwater.lakes.landing_target import LandingTarget, require_possible
from headwater.lakes.parquet_table import _last_there
from headwater.lakes.stores.library_options import options_for_delta, options_for_iceberg
from headwater.lakes.stores.places import StorePath, folder_of, path_at, place_of

OPTIONS = (("key", "who"), ("secret", "s3cret"), ("endpoint_url", "http://127.0.0.1:9"))


def in_store(address: str = "s3://bucket/lake/shop/", options: tuple[tuple[str, str], ...] = OPTIONS) -> StorePath:
    place = place_of(address, options)
    assert isinstance(place, StorePath)
    return place


def test_addresses_and_paths() -> None:
    place = in_store()
    assert str(place) == "s3://bucket/lake/shop"
    assert str(place / "public.a" / "data") == "s3://bucket/lake/shop/public.a/data"
    assert (place.name, str(place.parent)) == ("shop", "s3://bucket/lake")
    assert place_of("/lake") == Path("/lake")
    assert place_of(Path("lake")) == Path("lake")
    assert place_of(place) is place


@pytest.mark.parametrize(
    "address", ["gs://bucket/lake", "s3://bucket", "s3:///lake", "s3://who:s3cret@bucket/lake", "https://host/lake"]
)
def test_addresses_that_are_no_place(address: str) -> None:
    with pytest.raises(UsageError) as caught:
        place_of(address)
    assert "s3cret" not in str(caught.value)


def test_secrets_are_in_no_text() -> None:
    place = in_store()
    for value in (place, LandingTarget(place), place.store, folder_of(place)):
        assert "s3cret" not in f"{value!r} {value}"


def test_tasks_are_sent_the_options() -> None:
    folder = folder_of(in_store() / "data")
    again = pickle.loads(pickle.dumps(folder))
    assert again == "s3://bucket/lake/shop/data"
    assert path_at(f"{again}/x.parquet").store.options == OPTIONS


def test_options_of_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    store = in_store().store
    assert options_for_delta(store) == {
        "aws_access_key_id": "who",
        "aws_secret_access_key": "s3cret",
        "aws_endpoint_url": "http://127.0.0.1:9",
        "aws_allow_http": "true",
        "aws_region": "us-east-1",
        "aws_conditional_put": "etag",
    }
    inside = (*OPTIONS, ("client_kwargs", '{"region_name": "eu-north-1"}'), ("config_kwargs", "{}"))
    assert options_for_iceberg(in_store(options=inside).store) == {
        "s3.access-key-id": "who",
        "s3.secret-access-key": "s3cret",
        "s3.endpoint": "http://127.0.0.1:9",
        "s3.region": "eu-north-1",
    }
    with pytest.raises(UsageError, match="storage option profile"):
        options_for_delta(in_store(options=(("profile", "x"),)).store)


class _Numbers:
    def __init__(self, last: int) -> None:
        self.last, self.asked = last, 0

    def __call__(self, number: int) -> bool:
        self.asked += 1
        return number <= self.last


def test_the_last_of_numbers_is_found_in_few_steps() -> None:
    for last in (0, 1, 2, 3, 63, 64, 65, 1000, 123456):
        there = _Numbers(last)
        assert _last_there(there) == last
        assert there.asked <= 2 * last.bit_length() + 1


def test_what_cannot_be_in_a_store() -> None:
    place = in_store()
    require_possible(LandingTarget(place, "delta", mode="history"))
    require_possible(LandingTarget(place, "iceberg", iceberg_catalog="shop"))
    require_possible(LandingTarget(place, "ducklake", ducklake_catalog="postgres:dbname=shop"))
    require_possible(LandingTarget(place, "delta", mode="current", write_mode="merge-on-read"))
    for target in (
        LandingTarget(place, "iceberg"),
        LandingTarget(place, "delta", catalog_impl="spark", namespace="shop"),
        LandingTarget(place, "ducklake"),
    ):
        with pytest.raises(LakeError, match="cannot be in a store yet"):
            require_possible(target)
    with pytest.raises(LakeError, match="cannot be in a store yet"):
        _ = LandingTarget(place).place
