"""debezium: the same changes through Debezium's own connector, in a Java process (``make test-peers``)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from headwater.demo.stream_comparison import joined
from headwater.pipeline import DecodeRequest, decode
from oracle.decoded_run import kept_on_failure
from oracle.folding import one_window
from packaged_servers import is_packaged
from peers.comparison import difference, of_connector, of_ours, with_start
from peers.connector import DATABASE, END, JARS, PREFIX, WAYS, PeerRun, run_peer, statements
from peers.random_rows import SETUP, workload

pytestmark = [
    pytest.mark.server,
    pytest.mark.spark,
    pytest.mark.skipif(not JARS.is_dir(), reason="no connector: make test-peers"),
]
SEEDS, STEPS = 3, 1500


def majors(config: pytest.Config) -> list[int]:
    chosen = (14, 15, 16, 17, 18) if config.getoption("--all-majors") else (16,)
    return [major for major in chosen if is_packaged(major)]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    found = majors(metafunc.config)
    if "scripted" in metafunc.fixturenames:
        metafunc.parametrize("scripted", found, indirect=True, ids=[f"pg{major}" for major in found], scope="module")
    if "random_events" in metafunc.fixturenames:
        seeds = [(found[seed % len(found)], seed) for seed in range(max(SEEDS, len(found)))]
        names = [f"pg{major}-seed{seed}" for major, seed in seeds]
        metafunc.parametrize("random_events", seeds, indirect=True, ids=names, scope="module")


@pytest.fixture(scope="module")
def scripted(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PeerRun]:
    with kept_on_failure(request, tmp_path_factory) as directory:
        yield run_peer(request.param, statements("setup.sql"), statements("work.sql"), WAYS, directory)


@pytest.fixture(scope="module")
def random_events(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PeerRun]:
    major, seed = request.param
    with kept_on_failure(request, tmp_path_factory) as directory:
        yield run_peer(major, SETUP, workload(seed, STEPS), ["plain", "strings"], directory)


def asked(run: PeerRun, way: str) -> DecodeRequest:
    options = (("topic.prefix", PREFIX), *WAYS[way].items())
    return DecodeRequest(
        wal=str(run.wal), catalog=str(run.backup), database=DATABASE, plugin="debezium", options=options
    )


def check(spark: Any, run: PeerRun, way: str) -> None:
    """Fail with the first difference between the connector's events and ours."""
    with decode(spark, asked(run, way)) as result:
        lines = [line.decode() for line in joined(result.tables()).column("data").to_pylist()]
    ours = [of_ours(line) for line in lines if f'"{END}"' not in line]
    theirs = [of_connector(line) for line in run.events[way]]
    for number, (one, other) in enumerate(zip(theirs, ours, strict=False)):
        found = difference(with_start(one, other), other)
        if found is not None:
            pytest.fail(f"{way}: event {number}, {one['topic']}{found}", pytrace=False)
    assert len(theirs) == len(ours)


@pytest.mark.parametrize("way", WAYS)
def test_scripted(spark: Any, scripted: PeerRun, way: str) -> None:
    check(spark, scripted, way)


@pytest.mark.parametrize("way", ["plain", "strings"])
def test_random_workload(spark: Any, random_events: PeerRun, way: str) -> None:
    check(spark, random_events, way)


@pytest.mark.parametrize("way", ["plain", "strings"])
def test_small_slices_say_together_what_one_says(random_events: PeerRun, way: str) -> None:
    """Each knows where the transaction before it ended; with transaction metadata none is cut."""
    request = asked(random_events, way)
    cut, whole = one_window(request, None, slice_bytes=2000), one_window(request, None)
    assert cut.slices > 10
    assert cut.messages.equals(whole.messages)


def test_the_script_is_rich(scripted: PeerRun) -> None:
    text = "\n".join(scripted.events["plain"])
    for word in ('"op":"t"', '"op":"m"', "newkey", "oldkey", '"value":null', "unavailable", '"origin":"there"'):
        assert word in text, word
