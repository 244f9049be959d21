"""Addresses of directories, for the command and the data source alike."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.errors import UsageError
from headwater.pipeline.requests.request import DecodeRequest
from headwater.wal.segments.local_path import local_path


@pytest.mark.parametrize(
    ("address", "path"),
    [
        ("/archive/wal", "/archive/wal"),
        ("wal", "wal"),
        ("./a:b", "./a:b"),
        ("/a%20b", "/a%20b"),
        ("file:/archive/wal", "/archive/wal"),
        ("file:///archive/wal", "/archive/wal"),
        ("FILE://localhost/archive/wal", "/archive/wal"),
        ("file:///", "/"),
        (Path("/a b/100%/ü").as_uri(), "/a b/100%/ü"),
    ],
)
def test_addresses_that_are_paths(address: str, path: str) -> None:
    assert local_path(address) == path
    request = DecodeRequest(wal=address, catalog=address)
    assert (request.source.address, request.catalog) == (path, path)


@pytest.mark.parametrize("address", ["s3://bucket/wal", "hdfs:/wal", "abfss://a@b/c"])
def test_other_schemes_are_named(address: str) -> None:
    with pytest.raises(UsageError, match=f'scheme "{address.split(":")[0]}" are not supported.*file:/') as caught:
        local_path(address)
    assert caught.value.exit_code == 2


def test_files_of_other_machines() -> None:
    with pytest.raises(UsageError, match="another machine"):
        DecodeRequest(wal="file://nas/wal", catalog="/backup")
