"""Deletion vectors as the protocol has them, and what becomes of damaged ones."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import LakeConflictError, LakeError
from headwater.lakes.deletes.deleted_rows import bitmap_of, positions_of, united
from headwater.lakes.deletes.deletion_vectors import INLINE_BYTES, DeletionVector, write_vectors
from headwater.lakes.deletes.delta_log import Protocol, vectors_in_log, write_commit

EXAMPLE = {
    "storageType": "i",
    "pathOrInlineDv": "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L",
    "sizeInBytes": 40,
    "cardinality": 6,
}
"""Of the protocol's page; in the form that the protocol does not tell, with the magic number before its own."""

NAMED = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 4, "sizeInBytes": 40}


def test_the_examples_of_the_protocol(tmp_path: Path) -> None:
    vector = DeletionVector.named(tmp_path, EXAMPLE)
    assert vector.note == EXAMPLE
    with pytest.raises(LakeError, match="begins with 6439d3d0"):
        vector.positions()
    named = DeletionVector.named(tmp_path, {**NAMED, "cardinality": 6})
    assert named.path == f"{tmp_path}/ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"


@given(st.sets(st.integers(0, (1 << 34) - 1), min_size=1, max_size=50), st.sets(st.integers(0, 99), min_size=1))
def test_bitmaps_are_read_as_written(first: set[int], second: set[int]) -> None:
    positions = np.array(sorted(first), np.int64)
    assert positions_of(bitmap_of(positions)).tolist() == sorted(first)
    assert united(positions, np.array(sorted(second), np.int64)).tolist() == sorted(first | second)


def test_large_ones_lie_in_a_file_together(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    rows = {name: np.sort(rng.choice(1 << 20, count, replace=False)) for name, count in (("a", 5000), ("b", 900))}
    rows["c"] = np.array([5])
    vectors = write_vectors(tmp_path, rows)
    assert {name: vector.positions().tolist() for name, vector in vectors.items()} == {
        name: positions.tolist() for name, positions in rows.items()
    }
    assert vectors["a"].path == vectors["b"].path == str(next(tmp_path.glob("*.bin")))
    assert vectors["c"].path is None
    assert vectors["c"].note["pathOrInlineDv"].startswith("^Bg9^")  # as deltalake, DuckDB and Spark read it
    assert vectors["c"].size < INLINE_BYTES
    assert DeletionVector.named(tmp_path, json.loads(json.dumps(vectors["b"].note))) == vectors["b"]


def test_damage_is_an_error(tmp_path: Path) -> None:
    vector = write_vectors(tmp_path, {"a": np.arange(0, 4000, 3)})["a"]
    assert vector.path is not None
    path = Path(vector.path)
    content = path.read_bytes()
    first = vector.offset or 0
    for at in [0, *range(first, first + vector.size + 8, 7)]:
        path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        with pytest.raises(LakeError, match="damaged"):
            vector.positions()
    path.unlink()
    with pytest.raises(LakeError, match="damaged"):
        vector.positions()
    with pytest.raises(LakeError, match="storage type"):
        DeletionVector.named(tmp_path, {**EXAMPLE, "storageType": "p"})


def test_the_last_add_of_a_path_counts(tmp_path: Path) -> None:
    log = tmp_path / "_delta_log"
    write_commit(log, 0, [{"add": {"path": "a%20b"}}, {"add": {"path": "c"}}])
    write_commit(log, 1, [{"remove": {"path": "c"}}, {"add": {"path": "c", "deletionVector": EXAMPLE}}])
    write_commit(log, 2, [{"add": {"path": "a%20b", "deletionVector": NAMED}}])
    assert vectors_in_log(log, 2) == {"a b": NAMED, "c": EXAMPLE}
    assert vectors_in_log(log, 1) == {"c": EXAMPLE}
    (log / "00000000000000000002.json.01ab.part").touch()
    with pytest.raises(LakeConflictError):
        write_commit(log, 2, [])
    assert not list(log.glob("*.part"))
    (log / "00000000000000000001.json").unlink()
    with pytest.raises(LakeError, match="version 1"):
        vectors_in_log(log, 2)
    (log / "00000000000000000002.checkpoint.9b1.json").touch()
    with pytest.raises(LakeError, match="another form"):
        vectors_in_log(log, 2)


@pytest.mark.parametrize(
    ("protocol", "configuration"),
    [
        (Protocol.of(3, 7, ["columnMapping"], ["columnMapping"]), {}),
        (Protocol.of(1, 7, ["changeDataFeed"], None), {}),
        (Protocol.of(1, 4, None, None), {}),
        (Protocol.of(1, 2, None, None), {"delta.appendOnly": "true"}),
    ],
)
def test_what_a_table_asks_for_is_known(
    tmp_path: Path, protocol: Protocol, configuration: dict[str, str | None]
) -> None:
    with pytest.raises(LakeError, match="asks for"):
        protocol.require_known(tmp_path, configuration)
    known = Protocol.of(1, 2, None, None).with_vectors('{"type":"timestamp_ntz"}')
    known.require_known(tmp_path, {"delta.appendOnly": "false"})
    assert known.reader_features == {"deletionVectors", "timestampNtz"}
