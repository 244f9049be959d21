"""An index of keys says what a dictionary says, whatever files come and go, and whatever happens to its own."""

from __future__ import annotations

import decimal
import random
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.landing.key_index import index as key_index
from headwater.landing.key_index import runs
from headwater.landing.key_index.index import BYTES_A_ROW, KeyIndex
from headwater.landing.key_index.key_hashes import Hashes, has_hash, integers_of, key_hashes
from headwater.landing.key_index.runs import ENTRY, Run, write_run

KEY = [("id", "int64")]
Files = dict[str, list[int]]


def hashes_of(keys: list[int]) -> Hashes:
    return key_hashes([pa.chunked_array([pa.array(keys, pa.int64())])])


class Twin:
    """An index, and the files that it is of; counts those that it reads."""

    def __init__(self, place: Path) -> None:
        self.place, self.files, self.read = place, Files(), 0

    def opened(self) -> KeyIndex:
        def read(path: str) -> Hashes:
            self.read += 1
            return hashes_of(self.files[path])

        index = KeyIndex(self.place, KEY, read)
        index.follow({path: len(keys) for path, keys in self.files.items()})
        return index

    def require(self, keys: list[int]) -> None:
        """See that the index finds what a dictionary finds."""
        candidates = self.opened().find(hashes_of(keys))
        ours = {(path, row) for path, rows in candidates.items() for row in rows.rows.tolist()}
        assert all(np.all(np.diff(rows.rows) > 0) for rows in candidates.values())
        asked = set(keys)
        assert ours == {
            (path, row) for path, held in self.files.items() for row, key in enumerate(held) if key in asked
        }
        for path, rows in candidates.items():
            assert integers_of(rows.hashes).tolist() == [self.files[path][row] for row in rows.rows.tolist()]


@pytest.mark.parametrize("seed", range(3))
def test_files_come_and_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setattr(key_index, "_MADE_AT_ONCE", 600)
    monkeypatch.setattr(key_index, "_MOST_RUNS", 3)
    monkeypatch.setattr(runs, "_MERGED", 1024)
    monkeypatch.setattr(runs, "_SOUGHT", 100)
    rng, twin = random.Random(seed), Twin(tmp_path / "keys")
    for number in range(25):
        for new in range(rng.randint(0, 3)):
            size = rng.choice([1, 5, 255, 256, 257, 900])
            twin.files[f"{number}-{new}"] = [rng.randint(-1000, 1000) for _ in range(size)]
        for path in rng.sample(sorted(twin.files), min(len(twin.files), rng.randint(0, 2))):
            del twin.files[path]
        twin.require([rng.randint(-1100, 1100) for _ in range(rng.choice([0, 1, 300]))])
    names = {path.name for path in twin.place.iterdir()}
    assert len(names) < 12
    rows = sum(map(len, twin.files.values()))
    size = sum(path.stat().st_size for path in twin.place.glob("*.run"))
    assert size < rows * BYTES_A_ROW + (1 << 20)


def test_files_are_read_once(tmp_path: Path) -> None:
    twin = Twin(tmp_path / "keys")
    twin.files = {"a": [1, 2, 3], "b": [3, 4]}
    for _ in range(3):
        twin.require([3, 5])
    assert twin.read == 2
    twin.files["b"] = [3]  # of the same name, with other rows
    twin.require([3, 4])
    assert twin.read == 3


def test_entries_of_files_that_are_gone_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_index, "_DEAD", 100)
    twin = Twin(tmp_path / "keys")
    for number in range(40):
        twin.files = {"stays": list(range(1000)), f"{number}": list(range(500))}
        twin.require([1])
    assert sum(path.stat().st_size for path in twin.place.glob("*.run")) < 1500 * BYTES_A_ROW + 4096


def damaged(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 4
    path.write_bytes(content)


def test_damage_is_noticed_and_mended(tmp_path: Path) -> None:
    twin = Twin(tmp_path / "keys")
    twin.files = {"a": list(range(700)), "b": list(range(500, 900))}
    size = next(path for path in _made(twin).glob("*.run")).stat().st_size
    for at in range(0, size, 97):
        damaged(next(twin.place.glob("*.run")), at)
        twin.require(list(range(1000)))
    next(twin.place.glob("*.run")).unlink()
    twin.require([600])
    next(twin.place.glob("*.run")).write_bytes(b"")
    twin.require([600])
    for content in (b"", b"{}", b"[1]", b'{"version": 1, "key": [["id", "int64"]], "files": 3}'):
        (twin.place / "keys.json").write_bytes(content)
        twin.require([600])
    (twin.place / "0123.run").write_bytes(b"of a process that was killed")
    twin.files["c"] = [600]
    twin.require([600])
    assert not (twin.place / "0123.run").exists()


def _made(twin: Twin) -> Path:
    twin.opened()
    return twin.place


def test_an_index_of_another_key_is_made_anew(tmp_path: Path) -> None:
    twin = Twin(tmp_path / "keys")
    twin.files = {"a": [1]}
    twin.require([1])
    other = KeyIndex(twin.place, [("id", "int32")], lambda _: hashes_of([7]))
    other.follow({"a": 1})
    assert list(other.find(hashes_of([7]))) == ["a"]


def test_runs_of_many_equal_hashes(tmp_path: Path) -> None:
    entries = np.zeros(3000, ENTRY)
    entries["hash"] = np.repeat(np.array([0, 5, (1 << 64) - 1], np.uint64), 1000)
    entries["row"] = np.arange(3000)
    assert write_run(tmp_path / "a", [entries[:10], entries[10:]]) == 3000
    with Run(tmp_path / "a") as run:
        for number, hash in enumerate((0, 5, (1 << 64) - 1)):
            candidates = run.find(np.array([hash], np.uint64))
            assert candidates["row"].tolist() == list(range(number * 1000, number * 1000 + 1000))
        assert not len(run.find(np.array([3], np.uint64)))
        assert not len(run.find(np.zeros(0, np.uint64)))
    assert write_run(tmp_path / "b", []) == 0
    with Run(tmp_path / "b") as run:
        assert not len(run.find(np.array([3], np.uint64)))


@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1)))
def test_integers_are_known_by_their_hashes(keys: list[int]) -> None:
    assert integers_of(hashes_of(keys)).tolist() == keys


VALUES: dict[pa.DataType, list[Any]] = {
    pa.string(): ["", "a", "b", "ab", "aaaaaaaa", "aaaaaaaaa", "\0", "\0" * 8, "\0" * 9, "é" * 30, "a" * 16],
    pa.binary(): [b"", b"\0", b"\0\0", b"12345678", b"87654321"],
    pa.uuid(): [uuid.UUID(int=n) for n in (0, 1, 1 << 64, 1 << 127, (1 << 64) + 1)],
    pa.decimal128(20, 2): [decimal.Decimal(n) for n in ("0", "1", "-1", "1.10", "99999999999999999.99")],
    pa.timestamp("us"): [datetime(2020, 1, n) for n in range(1, 9)],
    pa.timestamp("us", tz="UTC"): [datetime(2020, 1, n, tzinfo=UTC) for n in range(1, 9)],
    pa.date32(): [datetime(2020, 1, n).date() for n in range(1, 9)],
    pa.float64(): [0.0, -0.0, 1.5, float("inf"), float("nan")],
    pa.float32(): [0.0, -0.0, 1.5],
    pa.bool_(): [True, False],
    pa.int16(): [0, 1, -1],
}


@pytest.mark.parametrize("type", VALUES, ids=str)
def test_equal_keys_have_equal_hashes_and_others_others(type: pa.DataType) -> None:
    assert has_hash(type)
    array = pa.array(VALUES[type], type)
    hashes = key_hashes([pa.chunked_array([array])])
    assert len(set(hashes.tolist())) == len(array)
    for at in range(len(array)):
        part: pa.ChunkedArray[Any] = pa.chunked_array([array.slice(at, 1), array.slice(0, at)])
        assert key_hashes([part]).tolist() == [hashes[at], *hashes[:at]]
    pairs = key_hashes([pa.chunked_array([array]), pa.chunked_array([array.take(pa.array([0] * len(array)))])])
    swapped = key_hashes([pa.chunked_array([array.take(pa.array([0] * len(array)))]), pa.chunked_array([array])])
    assert len(set(pairs.tolist()) | set(swapped.tolist())) >= 2 * len(array) - 1


def test_keys_without_hashes() -> None:
    assert not has_hash(pa.list_(pa.int64()))
    assert not has_hash(pa.struct([pa.field("a", pa.int64())]))
