"""WAL in a store: a real S3 server on this machine, with credentials, failures that pass, and ranges."""

from __future__ import annotations

import io
import os
import pickle
import shutil
from pathlib import Path

import pytest

from headwater.errors import SegmentError, UsageError
from headwater.wal.records.frames import read_frames
from headwater.wal.records.growing_directory import GrowingDirectory
from headwater.wal.segments import remote
from headwater.wal.segments.addresses import wal_source
from headwater.wal.segments.directory import WalDirectory
from headwater.wal.segments.place import WalSource, open_bytes
from slots.conftest import ServerRun
from sources.archives import ARCHIVES
from sources.s3_server import S3Server

ONCE = {"config_kwargs": '{"retries": {"max_attempts": 0}}'}
"""S3's library does not try again by itself."""


def source(s3: S3Server, *addresses: str, **other: str) -> WalSource:
    return wal_source(addresses, tuple(s3.options(**other).items()))


def records(wal: WalDirectory) -> list[int]:
    lsns: list[int] = read_frames(wal, wal.start_lsn).lsns.tolist()
    return lsns


@pytest.mark.server
def test_the_same_records_come_out(fresh: S3Server, plain: str, server_run: ServerRun) -> None:
    wal = WalDirectory.scan(source(fresh, plain))
    assert records(wal) == records(WalDirectory.scan(server_run.wal))
    assert wal == pickle.loads(pickle.dumps(wal))
    assert fresh.secret not in repr(wal)
    listings = [request for request in fresh.asked if "list-type" in request.path]
    assert len(listings) == 1


@pytest.mark.server
@pytest.mark.parametrize("name", ["pgBackRest.zst", "pgBackRest", "WAL-G.lz4", "barman-cloud"])
def test_archives_in_a_store(fresh: S3Server, server_run: ServerRun, tmp_path: Path, name: str) -> None:
    named = ARCHIVES[name](server_run.wal, tmp_path)
    address = fresh.put(tmp_path, name) + f"/{named.relative_to(tmp_path)}".removesuffix("/.")
    fresh.asked.clear()
    wal = WalDirectory.scan(source(fresh, address))
    asked = len(fresh.asked)
    assert asked < 20, "not every segment is looked into"
    assert records(wal) == records(WalDirectory.scan(server_run.wal))


@pytest.mark.server
def test_a_store_and_a_directory_as_one(fresh: S3Server, plain: str, server_run: ServerRun, tmp_path: Path) -> None:
    """The usual pair: what is archived, and the server's own ``pg_wal``; a segment is not downloaded that is there."""
    for path in sorted(server_run.wal.glob("0*"))[-3:]:
        (tmp_path / path.name).write_bytes(path.read_bytes())
    wal = WalDirectory.scan(source(fresh, str(tmp_path), plain))
    assert records(wal) == records(WalDirectory.scan(server_run.wal))
    assert [segment.path.startswith("s3://") for segment in wal.segments][-2:] == [False, False]
    assert wal.segments[0].path.startswith(f"{plain}/")


@pytest.mark.server
def test_a_store_that_gets_segments(fresh: S3Server, server_run: ServerRun, tmp_path: Path) -> None:
    """Each look is a listing of its own; a compressed last segment is fetched once."""
    files = sorted(ARCHIVES["simple.zst"](server_run.wal, tmp_path / "all").iterdir())
    some = tmp_path / "some"
    some.mkdir()
    growing = None
    for count in (2, 3, 4):
        for path in files[:count]:
            shutil.copy(path, some)
        address = fresh.put(some, "growing")
        growing = growing or GrowingDirectory(source(fresh, address))
        looked = growing.look(None)
        assert len(looked.segments) == count
        fresh.asked.clear()
        assert growing.look(looked.stop_lsn).segments[-1] == looked.segments[-1]
        assert fresh.bytes_read() < 3 * 64


# -- credentials


@pytest.mark.server
def test_credentials_of_the_environment(fresh: S3Server, plain: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import s3fs

    s3fs.S3FileSystem.clear_instance_cache()
    for name, value in fresh.environment().items():
        monkeypatch.setenv(name, value)
    assert len(WalDirectory.scan(wal_source(plain)).segments) > 3


@pytest.mark.server
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"secret": "wrong"}, "signature"),
        ({"key": "AKIANOBODY", "secret": "wrong"}, "Access Key Id you provided does not exist"),
    ],
)
def test_wrong_credentials(fresh: S3Server, plain: str, wrong: dict[str, str], message: str) -> None:
    with pytest.raises(SegmentError, match=message) as caught:
        WalDirectory.scan(source(fresh, plain, **wrong))
    assert caught.value.file == plain
    assert "check the credentials" in str(caught.value.hint)
    assert len(fresh.asked) == 1, "a refusal is final"
    assert wrong["secret"] not in str(caught.value)


@pytest.mark.server
def test_no_credentials(fresh: S3Server, plain: str) -> None:
    with pytest.raises(SegmentError, match="Unable to locate credentials") as caught:
        WalDirectory.scan(wal_source(plain, [("endpoint_url", fresh.endpoint)]))
    assert "--storage-option" in str(caught.value.hint)


# -- failures


@pytest.mark.server
@pytest.mark.parametrize(("failures", "own_tries"), [([503], {}), ([500, 503, 500, 502], ONCE)])
def test_failures_that_pass(
    fresh: S3Server,
    plain: str,
    server_run: ServerRun,
    failures: list[int],
    own_tries: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The library's own tries, and ours."""
    monkeypatch.setattr(remote, "_FIRST_PAUSE_SECONDS", 0.01)
    fresh.failures += failures
    wal = WalDirectory.scan(source(fresh, plain, **own_tries))
    fresh.failures += failures
    assert records(wal) == records(WalDirectory.scan(server_run.wal))
    assert [request.status for request in fresh.asked if request.status >= 500] == failures * 2


@pytest.mark.server
def test_a_failure_that_does_not_pass(fresh: S3Server, plain: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "_FIRST_PAUSE_SECONDS", 0.001)
    wal = WalDirectory.scan(source(fresh, plain, **ONCE))
    fresh.failures += [503] * 1000
    with pytest.raises(SegmentError, match="could not read from s3") as caught:
        records(wal)
    fresh.failures.clear()
    assert caught.value.file == wal.segments[0].path


def test_a_server_that_is_not_there(fresh: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "_FIRST_PAUSE_SECONDS", 0.001)
    once = ONCE | {"endpoint_url": "http://127.0.0.1:1"}
    with pytest.raises(SegmentError, match="Could not connect to the endpoint URL"):
        WalDirectory.scan(source(fresh, "s3://wal-archive/plain", **once))


@pytest.mark.parametrize("address", ["s3://wal-archive/nothing", "s3://no-bucket/nothing"])
def test_nothing_under_an_address(fresh: S3Server, address: str) -> None:
    with pytest.raises(SegmentError, match="there is nothing under this address") as caught:
        WalDirectory.scan(source(fresh, address))
    assert caught.value.file == address


@pytest.mark.server
def test_a_segment_that_goes(fresh: S3Server, server_run: ServerRun) -> None:
    address = fresh.put(server_run.wal, "going")
    wal = WalDirectory.scan(source(fresh, address))
    fresh.remove(wal.segments[1].path)
    with pytest.raises(SegmentError, match="No such file") as caught:
        records(wal)
    assert caught.value.file == wal.segments[1].path


@pytest.mark.parametrize("address", ["nosuchstore://x/y", "hdfs9://x/y"])
def test_a_scheme_that_nobody_knows(address: str) -> None:
    with pytest.raises(UsageError, match=f'cannot read addresses of "{address.split(":")[0]}://"'):
        WalDirectory.scan(wal_source(address))


def test_options_without_a_store() -> None:
    with pytest.raises(UsageError, match=r"storage options are given \(key\), and no WAL is in a store"):
        wal_source(["/archive", "file:///wal"], [("key", "secret")])


def test_an_option_that_is_no_json(fresh: S3Server) -> None:
    with pytest.raises(UsageError, match="invalid value of a storage option"):
        WalDirectory.scan(source(fresh, "s3://a/b", config_kwargs="{retries"))


# -- ranges


@pytest.mark.server
def test_a_piece_of_the_log_costs_its_own_bytes(fresh: S3Server, plain: str, server_run: ServerRun) -> None:
    wal = WalDirectory.scan(source(fresh, plain))
    assert fresh.bytes_read() < 2000
    fresh.asked.clear()
    lo = wal.segments[2].start_lsn + 40 * 8192
    lsns = read_frames(wal, lo, lo + 100_000).lsns.tolist()
    assert lsns == read_frames(WalDirectory.scan(server_run.wal), lo, lo + 100_000).lsns.tolist()
    assert 100_000 <= fresh.bytes_read() < 120_000
    assert len(fresh.asked) <= 2


@pytest.mark.server
def test_a_packed_segment_costs_its_packed_bytes(fresh: S3Server, server_run: ServerRun, tmp_path: Path) -> None:
    """Each once a process, however often it is read."""
    archive = ARCHIVES["simple.zst"](server_run.wal, tmp_path)
    wal = WalDirectory.scan(source(fresh, fresh.put(archive, "packed")))
    size = sum(path.stat().st_size for path in archive.iterdir())
    fresh.asked.clear()
    assert records(wal) == records(wal) == records(WalDirectory.scan(server_run.wal))
    assert fresh.bytes_read() <= size + 100 * len(wal.segments)


@pytest.mark.parametrize("size", [0, 1, 256 << 10, (256 << 10) + (8 << 20), (256 << 10) + (8 << 20) + 1])
def test_a_file_is_read_to_its_end(fresh: S3Server, tmp_path: Path, size: int) -> None:
    """Also one that ends where a range does."""
    data = os.urandom(size)
    (tmp_path / "file").write_bytes(data)
    place = source(fresh, fresh.put(tmp_path, f"of-{size}")).places[0]
    with open_bytes(place, place.path("file")) as file:
        assert io.BufferedReader(file).read() == data


def test_a_refusal_is_no_end_of_a_file(fresh: S3Server, tmp_path: Path) -> None:
    """S3's library gives an expired token, a bad request and a range after the end the same error number."""
    (tmp_path / "file").write_bytes(bytes(1 << 20))
    place = source(fresh, fresh.put(tmp_path, "refused")).places[0]
    with open_bytes(place, place.path("file")) as file:
        fresh.failures += [400]
        with pytest.raises(SegmentError, match="could not read from s3"):
            file.read(1 << 20) + file.read(1 << 20)
