"""Landing to a store: the same rows as in a directory, once, whatever is killed or lost; and one run at a time."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from bad_input.running_command import running
from headwater.errors import HeadwaterWarning, LakeConflictError, LakeError, UsageError
from headwater.lakes.as_of_view import read_as_of, tables_of
from headwater.lakes.compaction import compact
from headwater.lakes.landing_target import COPY_ON_WRITE, MERGE_ON_READ, LandingTarget
from headwater.lakes.paused import PausedTable
from headwater.lakes.stores import fence as fence_module
from headwater.lakes.stores import object_store
from headwater.lakes.stores.fence import Fence
from headwater.lakes.stores.log_lines import LINES, lines_at, log_lines
from headwater.lakes.stores.object_store import Store
from headwater.lakes.stores.places import StorePath, place_of
from headwater.lakes.target_directory import Lake
from headwater.landing.landing import land
from headwater.landing.landing_modes import CHANGELOG, CURRENT, HISTORY, MODES
from headwater.landing.resuming import resume
from headwater.pg.lsn import Lsn
from headwater.pipeline.requests.request import DecodeRequest
from headwater.pipeline.windows.run_index import WindowBounds
from landing.stores.faults import first_answers_lost
from landing.stores.killed_runs import is_killed_at_write
from landing.stores.proxy import CUT, CUT_BEHIND, LOSE, REFUSE, StoreProxy
from landing.stores.server import LakeStore
from landing.stores.targets import FORMATS, arguments, landing, place, read, target_of
from landing.work import WINDOW_BYTES, Work
from sources.s3_server import BUCKET

pytestmark = [pytest.mark.server, pytest.mark.slow, pytest.mark.timeout(1800)]


COPYING, BESIDE = COPY_ON_WRITE, MERGE_ON_READ
DELETING = [(form, CURRENT, BESIDE) for form in FORMATS]
KILLED = [("parquet", CHANGELOG), ("parquet", CURRENT), ("delta", CURRENT), ("iceberg", CHANGELOG)]
KILLED_KINDS = [*((*kind, COPYING) for kind in KILLED), *DELETING]
LOST = [("parquet", CHANGELOG), ("parquet", CURRENT), ("delta", CHANGELOG)]
LOST_KINDS = [*((*kind, COPYING) for kind in LOST), *DELETING]
KINDS = [(form, mode, COPYING) for form in FORMATS for mode in MODES]
KINDS += [(form, mode, BESIDE) for form in FORMATS for mode in (CURRENT, HISTORY)]


@pytest.mark.parametrize(("form", "mode", "write_mode"), KINDS)
def test_the_same_rows_as_in_a_directory(work: Work, store: LakeStore, form: str, mode: str, write_mode: str) -> None:
    name = f"same-{form}-{mode}-{write_mode}"
    target = target_of(place(store, name), form, mode, write_mode)
    result = work.land(work.engine, target)
    work.check_whole(target, read)
    assert result.resolved_lsn is not None
    resolved = read_as_of(target.where)
    assert resolved.lsn == read_as_of(store.address(name), storage_options=dict(store.options())).lsn
    shown = {view.name: view.size.rows for view in tables_of(target.where, resolved)}
    assert shown == {name: len(rows) for name, rows in work.whole(mode).items()}
    assert not work.land(work.engine, target).rows, "nothing is left"


def test_a_table_that_is_paused_comes_back(work: Work, store: LakeStore) -> None:
    """What is noted of it, and the state where it stands, are in the store, too."""
    target = LandingTarget(place(store, "paused"), mode=CURRENT)
    request = DecodeRequest(str(work.wal), str(work.backup), "postgres")
    land(work.engine, replace(request, end=middle_of(work)), target, bounds=WindowBounds(WINDOW_BYTES))
    with Lake(target) as lake:
        oid = lake.names.holder("public.b")
        assert oid is not None
        lake.paused.add(PausedTable(oid, "public.b", "for a test"), lake.progress.kept_state())
    with pytest.warns(HeadwaterWarning, match="stays paused"):
        assert work.land(work.engine, target).paused
    assert [view.state for view in tables_of(target.where, read_as_of(target.where), is_now=True)].count("paused") == 1
    assert not resume(work.engine, request, target).paused
    work.check_whole(target, read)


def middle_of(work: Work) -> Lsn:
    """Return an LSN in the middle of the work."""
    lsns = work.whole(CHANGELOG)["public.b"]["_commit_lsn"].to_numpy()
    return Lsn(int(np.median(lsns)))


@pytest.mark.parametrize("form", FORMATS)
def test_small_files_are_put_together_and_old_ones_removed(work: Work, store: LakeStore, form: str) -> None:
    target = target_of(place(store, f"compacted-{form}"), form)
    work.land(work.engine, target)
    before = read_as_of(target.where)
    assert {table.name for table in compact(target.where)} >= {"public.a", "public.b"}
    work.check_whole(target, read)
    sizes = {view.name: view.size.rows for view in tables_of(target.where, before)}
    assert sizes == {name: len(rows) for name, rows in work.whole(CHANGELOG).items()}
    files = files_of(store, target, "public.a")
    with Lake(LandingTarget.at(target.where)) as lake:
        assert not sum(table.files for table in lake.expire(datetime.now(UTC) - timedelta(days=1)).values())
        removed = lake.expire(datetime.now(UTC) + timedelta(seconds=5))
    assert files_of(store, target, "public.a") == 1
    assert removed["public.a"].files >= files - 1  # Iceberg has files of metadata, too
    work.check_whole(target, read)


def files_of(store: LakeStore, target: LandingTarget, name: str) -> int:
    """Count the files of rows below a table's place."""
    folder = str(target.where / name).partition(f"{store.address('')}")[2]
    return sum(key.endswith(".parquet") and "_delta_log" not in key for key in store.keys(folder))


@pytest.mark.usefixtures("signed")
@pytest.mark.parametrize(("form", "mode", "write_mode"), KILLED_KINDS)
def test_killed_at_requests_that_write(
    work: Work, store: LakeStore, proxy: StoreProxy, tmp_path: Path, form: str, mode: str, write_mode: str
) -> None:
    """Each run gets a little further, and is killed, before a request or when the store has done it."""
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    rng, is_over, kills = random.Random(seed), False, 0
    target = target_of(place(store, f"killed-{form}-{mode}-{seed}"), form, mode, write_mode)
    words = arguments(work, target, proxy.endpoint)
    while not is_over:
        is_over = not is_killed_at_write(words, proxy, tmp_path, rng, (1, 60) if kills < 6 else None)
        kills += not is_over
        work.check_so_far(target, read)
    work.check_whole(target, read)


@pytest.mark.usefixtures("signed")
@pytest.mark.parametrize("fate", [LOSE, REFUSE, CUT, CUT_BEHIND])
@pytest.mark.parametrize(("form", "mode", "write_mode"), LOST_KINDS)
def test_answers_are_lost(
    work: Work, store: LakeStore, proxy: StoreProxy, tmp_path: Path, form: str, mode: str, write_mode: str, fate: str
) -> None:
    """Every fifth request has been done and is not answered, or is refused for the moment; or connections are cut.

    The run is a process of its own: ``deltalake`` keeps other threads of its process from running while it waits.
    """
    numbers = iter(range(1 << 30))
    proxy.choose = lambda *_: fate if next(numbers) % 5 == 4 else "pass"
    target = target_of(
        place(store, f"lost-{form}-{mode}-{write_mode}-{fate.replace(' ', '-')}"), form, mode, write_mode
    )
    require_landed(work, target, proxy, tmp_path)
    lost = [request for request in proxy.asked if request.fate == fate]
    assert len(lost) > 20
    commits = [request for request in proxy.asked if request.method == "PUT" and is_commit(request.path)]
    assert bool(commits) == (form != "iceberg"), "commits of Iceberg are its catalog's"
    assert all(request.on_condition for request in commits)


@pytest.mark.usefixtures("signed")
@pytest.mark.parametrize(("form", "mode", "write_mode"), [LOST_KINDS[0], *DELETING])
def test_the_first_answer_to_each_request_is_lost(
    work: Work, store: LakeStore, proxy: StoreProxy, tmp_path: Path, form: str, mode: str, write_mode: str
) -> None:
    """What has a name of its own is written once: so each answer to such a write is lost."""
    proxy.choose = first_answers_lost()
    target = target_of(place(store, f"first-{form}-{mode}-{write_mode}"), form, mode, write_mode)
    require_landed(work, target, proxy, tmp_path)
    lost = {(request.method, request.path) for request in proxy.asked if request.fate == LOSE}
    assert lost == {(request.method, request.path) for request in proxy.asked}


def require_landed(work: Work, target: LandingTarget, proxy: StoreProxy, directory: Path) -> None:
    with landing(work, target, proxy, directory) as process:
        output = process.standard_error()
        assert process.process.wait() == 0, output
    work.check_whole(target, read)


def is_commit(path: str) -> bool:
    """Tell whether an object is a manifest, or a version of Delta's log."""
    folder, _, name = path.rpartition("/")
    return folder.endswith(("_headwater", "_delta_log")) and name.partition(".")[0].isdigit()


def test_who_lands_second_is_refused(work: Work, store: LakeStore) -> None:
    target = LandingTarget(place(store, "two"))
    with Lake(target), pytest.raises(LakeConflictError, match="another process lands there"):
        work.land(work.engine, LandingTarget(place(store, "two")))
    work.land(work.engine, LandingTarget(place(store, "two")))


def test_a_run_that_is_gone_is_taken_over_from(store: LakeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of another machine, when it has not been heard of for a while; it cannot go on then."""
    monkeypatch.setattr(fence_module, "BEAT_SECONDS", 3600.0)
    monkeypatch.setattr(fence_module, "LEASE_SECONDS", 2.0)
    root = place(store, "gone")
    first = Fence(root / "lock", root)
    second = Fence(root / "lock", root)
    first._at = -1e9
    with pytest.raises(LakeConflictError):
        first.require()
    first.close()
    second.require()
    second.close()
    third = Fence(root / "lock", root)
    third.close()


def test_a_note_that_somebody_else_has_written(store: LakeStore) -> None:
    mine, other = place(store, "notes") / "a.json", place(store, "notes") / "a.json"
    mine.store.replace(mine.key, b"1")
    assert other.store.read(other.key) == b"1"
    other.store.replace(other.key, b"2")
    with pytest.raises(LakeConflictError, match="meanwhile"):
        mine.store.replace(mine.key, b"3")
    with pytest.raises(FileExistsError):
        mine.store.add(mine.key, b"4")
    mine.store.add(mine.key, b"2")


def test_a_log_of_many_objects(store: LakeStore) -> None:
    path = place(store, "log") / "resolved.jsonl"
    log = log_lines(path)
    for number in range(2 * LINES + 2):
        log.append(b"%d\n" % number, b"whole %d\n" % number)
    lines = list(lines_at(path))
    assert len(lines) == 2 * LINES + 2
    assert [lines[0], lines[1], lines[LINES]] == [b"whole 0", b"1", b"whole %d" % LINES]
    assert log_lines(path).tail()[0] == b"whole %d" % (2 * LINES)
    again = log_lines(path)
    again.replace([b"x\n", b"y\n"])
    again.append(b"z\n", b"whole z\n")
    assert list(lines_at(path)) == [b"x", b"y", b"z"]
    assert len(store.keys("log/resolved")) == 1


class _NotImplementedThereError(Exception):
    """The answer of a store that has never heard of conditions."""

    def __init__(self) -> None:
        self.response = {"Error": {"Code": "NotImplemented"}, "ResponseMetadata": {"HTTPStatusCode": 501}}


@pytest.mark.parametrize("says_so", [False, True])
def test_a_store_without_conditions_is_refused(
    store: LakeStore, monkeypatch: pytest.MonkeyPatch, says_so: bool
) -> None:
    call = Store._call

    def without(self: Store, method: str, **arguments: object) -> object:
        plain = {name: value for name, value in arguments.items() if not name.startswith("If")}
        if says_so and plain != arguments:
            raise _NotImplementedThereError
        return call(self, method, **plain)

    monkeypatch.setattr(Store, "_call", without)
    with (
        pytest.raises(LakeError, match="does not honour conditional writes"),
        Lake(LandingTarget(place(store, "bare"))),
    ):
        pass
    assert not store.keys("bare")


def test_credentials_are_in_no_message(store: LakeStore) -> None:
    where = place_of(store.address("secret"), (*store.options()[:1], ("secret", "wrong"), *store.options()[2:]))
    with pytest.raises(LakeError, match="credentials") as caught, Lake(LandingTarget(where)):
        pass
    assert store.key not in str(caught.value)
    assert "wrong" not in repr(where)
    assert store.key not in repr(LandingTarget(where))


def test_what_cannot_be_in_a_store_yet(store: LakeStore) -> None:
    where = place(store, "none")
    for target in (
        LandingTarget(where, "iceberg"),
        LandingTarget(where, "delta", catalog_impl="spark", namespace="shop"),
    ):
        with pytest.raises(LakeError, match="cannot be in a store yet"), Lake(target):
            pass
    assert not store.keys("none")
    for address in ("gs://bucket/lake", "s3://bucket", "s3://key:secret@bucket/lake"):
        with pytest.raises(UsageError) as caught:
            place_of(address)
        assert "secret" not in str(caught.value)


@pytest.mark.usefixtures("signed")
def test_the_commands(work: Work, store: LakeStore, tmp_path: Path) -> None:
    target = LandingTarget(place(store, "commands"))
    address, option = store.address("commands"), f"endpoint_url={store.endpoint}"
    with running(*arguments(work, target, store.endpoint), directory=tmp_path) as process:
        assert process.process.wait() == 0, process.standard_error()
    work.check_whole(target, read)
    for words in (
        ["lake", "tables", address, "--json", "--storage-option", option],
        ["compact", address, "--storage-option", option],
        ["expire", address, "--older-than", "1d", "--storage-option", option],
    ):
        with running(*words, directory=tmp_path) as process:
            output = process.standard_error()
            assert process.process.wait() == 0, output
    work.check_whole(target, read)


@pytest.mark.usefixtures("signed")
def test_workers_of_spark_write_to_the_store(work: Work, store: LakeStore, tmp_path: Path) -> None:
    target = LandingTarget(place(store, "spark"), mode=HISTORY)
    words = arguments(work, target, store.endpoint)
    assert "spark" in words
    with running(*words, directory=tmp_path) as process:
        output = process.standard_error()
        assert process.process.wait() == 0, output
    work.check_whole(target, read)


def write_half(path: StorePath, data: bytes) -> None:
    with path.store.new_file(path.key) as sink:
        for _ in range(13):
            sink.write(data)
        raise ZeroDivisionError


def test_a_large_file_goes_in_parts_and_is_withdrawn_if_it_fails(
    store: LakeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_store, "PART_BYTES", 5 << 20)
    path, data = place(store, "parts") / "x", os.urandom(1 << 20)
    with path.store.new_file(path.key) as sink:
        for _ in range(13):
            sink.write(data)
        assert sink.tell() == 13 << 20
    assert path.store.size(path.key) == 13 << 20
    assert path.store.read(path.key) == 13 * data
    failed = path.parent / "failed"
    with pytest.raises(ZeroDivisionError):
        write_half(failed, data)
    assert failed.store.size(failed.key) is None
    uploads = store.client().list_multipart_uploads(Bucket=BUCKET).get("Uploads", ())
    assert not [upload for upload in uploads if upload["Key"].startswith("parts/")]
