"""Clusters that run once per test session, and the command in this process."""

from __future__ import annotations

from pathlib import Path

import pytest

from bad_input.clusters import MAJOR, OTHER_MAJOR, Cluster, linked_copy, make_cluster, make_other_cluster
from bad_input.command import CommandHere
from headwater import DecodeRequest, decode
from headwater.jobs.engine import Engine
from headwater.pipeline.slices.message_files import MessageForm


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    return make_cluster(tmp_path_factory.mktemp("cluster"))


@pytest.fixture(scope="session")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make another cluster of the same version; return its data directory."""
    return make_other_cluster(tmp_path_factory.mktemp("stranger"), MAJOR)


@pytest.fixture(scope="session")
def elder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a cluster of another major version; return its data directory."""
    return make_other_cluster(tmp_path_factory.mktemp("elder"), OTHER_MAJOR)


@pytest.fixture
def headwater(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
    request: pytest.FixtureRequest,
) -> CommandHere:
    return CommandHere(tmp_path, monkeypatch, capfdbinary, lambda: request.getfixturevalue("spark"))


@pytest.fixture
def wal(cluster: Cluster, tmp_path: Path) -> Path:
    """Copy the WAL for the test to damage: see ``own_file``."""
    return linked_copy(cluster.wal, tmp_path / "wal")


@pytest.fixture
def catalog(cluster: Cluster, tmp_path: Path) -> Path:
    """Copy the backup for the test to damage: see ``own_file``."""
    return linked_copy(cluster.backup, tmp_path / "catalog")


@pytest.fixture(scope="session")
def whole(cluster: Cluster, engine: Engine) -> bytes:
    """Decode the undamaged WAL into lines."""
    request = DecodeRequest(wal=str(cluster.wal), catalog=str(cluster.backup), database="postgres")
    with decode(engine, request, form=MessageForm.LINES) as result:
        return b"".join(Path(file.path).read_bytes() for file in result.files)
