"""Landing to a REST catalog: the same rows, once, whatever is killed or not answered (``make test-lakes``)."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from headwater.errors import LakeError
from headwater.lakes.catalogs.table_places import OF_CATALOG, OF_TARGET
from headwater.lakes.compaction import compact
from headwater.lakes.iceberg_catalog import open_catalog
from headwater.lakes.landing_target import MERGE_ON_READ, LandingTarget
from headwater.lakes.settings.table_settings import TableSettings
from headwater.lakes.stores.library_options import CREDENTIALS
from headwater.lakes.target_directory import Lake
from headwater.landing.landing_modes import CHANGELOG, CURRENT
from headwater.landing.mirrors import deletes_beside
from landing.catalogs.named_catalogs import MODES, Named, check_landed, commit_lsns, identifier, opened, read
from landing.catalogs.rest_server import iceberg_jars, rest_server
from landing.iceberg_lakes import THIRD
from landing.stores.killed_runs import is_killed_at_write
from landing.stores.proxy import LOSE, REFUSE, StoreProxy, store_proxy
from landing.work import TABLES, Work

pytestmark = [pytest.mark.server, pytest.mark.slow, pytest.mark.timeout(1800)]

NAME = "ofrest"
SEVERAL, ONE_TABLE = "/v1/transactions/commit", "/v1/namespaces/NAMESPACE/tables/TABLE"


@pytest.fixture(scope="module")
def jars(request: pytest.FixtureRequest) -> Path:
    return iceberg_jars(request.config)


@pytest.fixture(scope="module")
def proxy(jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreProxy]:
    with rest_server(jars, tmp_path_factory.mktemp("warehouse")) as address, store_proxy(address) as before:
        yield before


@pytest.fixture(scope="module")
def catalog(proxy: StoreProxy) -> Iterator[Named]:
    with Named(NAME, {"type": "rest", "uri": proxy.endpoint}).configured() as named:
        yield named


@pytest.mark.parametrize(("mode", "write_mode"), MODES)
def test_the_same_rows_as_in_a_directory(
    work: Work, catalog: Named, proxy: StoreProxy, tmp_path: Path, mode: str, write_mode: str
) -> None:
    proxy.asked.clear()
    target = catalog.target(tmp_path / f"same-{mode}-{write_mode}", mode, write_mode)
    check_landed(work, target)
    assert any(request.path == SEVERAL for request in proxy.asked)


def arguments(work: Work, target: LandingTarget) -> list[str]:
    words = [*work.arguments(target), "--iceberg-catalog", NAME, "--namespace", str(target.namespace)]
    return [*words, "--table-location", target.table_location]


def is_commit(method: str, path: str) -> bool:
    """Tell whether a request commits to one table, or several."""
    return method == "POST" and (path == SEVERAL or path.count("/") == ONE_TABLE.count("/"))


@pytest.mark.parametrize(("mode", "write_mode"), [MODES[0], MODES[2]])
def test_killed_at_commits(
    work: Work, catalog: Named, proxy: StoreProxy, tmp_path: Path, mode: str, write_mode: str
) -> None:
    """Each run gets a little further, and is killed, before the catalog has a commit or when it has made it."""
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    rng, is_over, kills = random.Random(seed), False, 0
    target = catalog.target(tmp_path / f"killed-{mode}-{seed}", mode, write_mode)
    while not is_over:
        words = arguments(work, target)
        is_over = not is_killed_at_write(words, proxy, tmp_path, rng, (1, 12) if kills < 4 else None)
        kills += not is_over
        work.check_so_far(target, read)
    assert kills
    work.check_whole(target, read)


@pytest.mark.parametrize("fate", [LOSE, REFUSE])
@pytest.mark.parametrize("words", [(), ("one-table",)])
def test_answers_are_lost(work: Work, jars: Path, tmp_path: Path, fate: str, words: tuple[str, ...]) -> None:
    """Every second commit is made and not answered, or not made."""
    numbers = iter(range(1 << 30))
    with rest_server(jars, tmp_path / "warehouse", *words) as address, store_proxy(address) as proxy:
        proxy.choose = lambda method, path, _: fate if is_commit(method, path) and next(numbers) % 2 else "pass"
        with Named(NAME, {"type": "rest", "uri": proxy.endpoint}).configured() as catalog:
            target = catalog.target(tmp_path / f"lost-{fate}")
            check_landed(work, target)
            marks = [commit_lsns(target, name) for name in TABLES]
    lost = [request.path for request in proxy.asked if request.fate == fate]
    assert lost
    assert (SEVERAL in lost) == (words == ())
    for of_table in marks:
        assert of_table == sorted(set(of_table)), "a commit a window"


@pytest.mark.parametrize(("mode", "write_mode"), [MODES[0], MODES[2]])
def test_the_catalog_places_its_tables(work: Work, catalog: Named, tmp_path: Path, mode: str, write_mode: str) -> None:
    target = catalog.target(tmp_path / f"placed-{mode}-{write_mode}", mode, write_mode, table_location=OF_CATALOG)
    check_landed(work, target)
    assert not [path for path in target.place.rglob("*.parquet") if "_headwater" not in path.parts]
    with opened(target) as there:
        table = there.load_table(identifier(target, "public.a"))
    files = list((Path(table.location()) / "data").glob("*.parquet"))
    with Lake(LandingTarget.at(target.where)) as lake:
        removed = lake.expire(datetime.now(UTC) + timedelta(seconds=5))
    assert removed["public.a"].files
    assert list((Path(table.location()) / "data").glob("*.parquet")) != files or mode == CHANGELOG
    work.check_whole(target, read)
    with pytest.raises(LakeError, match="table-location"), Lake(replace(target, table_location="target")):
        pass


@pytest.mark.parametrize("location", [OF_TARGET, OF_CATALOG])
def test_tables_of_format_three(
    work: Work, catalog: Named, tmp_path: Path, location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The catalog, which is Iceberg's own code, takes their snapshots, whose rows are numbered as it wants them."""
    monkeypatch.setattr(deletes_beside, "_FEWEST", 0)
    tables = (TableSettings("*", properties=THIRD),)
    place = tmp_path / f"third-{location}"
    more = {"table_location": location, "tables": tables, "rewrite_budget": 0}
    target = catalog.target(place, CURRENT, MERGE_ON_READ, **more)
    check_landed(work, target)
    with opened(target) as there:
        table = there.load_table(identifier(target, "public.a"))
    assert table.metadata.format_version == 3
    assert list(Path(table.location()).glob("data/*.puffin"))


def test_small_files_are_put_together(work: Work, catalog: Named, tmp_path: Path) -> None:
    target = catalog.target(tmp_path / "compacted", table_location=OF_CATALOG)
    work.land(work.engine, target)
    assert {table.name for table in compact(target.where)} >= {"public.a", "public.b"}
    work.check_whole(target, read)
    assert not work.land(work.engine, target).rows


OF_CONFIGURATION = dict.fromkeys(CREDENTIALS, "of-the-configuration")


def test_credentials_of_the_catalog(work: Work, jars: Path, tmp_path: Path) -> None:
    """What it gives with tables is in the files' properties, and nowhere else."""
    key, secret = "GIVEN-WITH-TABLES", "kept-by-the-catalog"
    words = [f"config:s3.access-key-id={key}", f"config:s3.secret-access-key={secret}"]
    warehouse = tmp_path / "warehouse"
    with (
        rest_server(jars, warehouse, *words) as address,
        Named(NAME, {"type": "rest", "uri": address, **OF_CONFIGURATION}).configured() as catalog,
    ):
        target = catalog.target(tmp_path / "secret", table_location=OF_CATALOG)
        check_landed(work, target)
        with closing(open_catalog(target.where, NAME)) as there:
            properties = there.load_table(identifier(target, "public.a")).io.properties
        assert [properties[name] for name in CREDENTIALS] == [key, secret, ""]
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [path for path in written if path.suffix == ".json"]
    texts = [path.read_bytes() for path in written]
    assert not [path for path, text in zip(written, texts, strict=True) if key.encode() in text]
    assert not [path for path, text in zip(written, texts, strict=True) if secret.encode() in text]


def test_who_is_second_is_refused(work: Work, catalog: Named, tmp_path: Path) -> None:
    """Two targets cannot land to one table: the second one finds where it lies, or that it has come further."""
    first = catalog.target(tmp_path / "first")
    work.land(work.engine, first)
    second = replace(catalog.target(tmp_path / "second"), namespace=first.namespace)
    with pytest.raises(LakeError, match="lies in"):
        work.land(work.engine, second)


def test_a_catalog_that_is_not_there(tmp_path: Path) -> None:
    with (
        Named(NAME, {"type": "rest", "uri": "http://127.0.0.1:9", "token": "of-the-catalog"}).configured() as catalog,
        pytest.raises(LakeError, match="catalog ofrest") as caught,
        Lake(catalog.target(tmp_path / "nowhere")),
    ):
        pass
    assert "of-the-catalog" not in str(caught.value)
