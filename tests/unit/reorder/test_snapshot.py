"""The place where decoding may begin, by what RUNNING_XACTS records say."""

from __future__ import annotations

import numpy as np
import pytest

from headwater.catalog.snapshot import SnapBuilder, SnapBuildState, full_xid, full_xids

START, BUILDING, FULL, CONSISTENT = SnapBuildState


def test_two_generations_of_transactions_must_end() -> None:
    builder = SnapBuilder(start_decoding_at=50)
    steps = [
        (100, 705, 700, BUILDING),
        (200, 707, 704, BUILDING),
        (300, 710, 705, FULL),
        (400, 712, 709, FULL),
        (500, 715, 710, CONSISTENT),
    ]
    for lsn, next_xid, oldest, state in steps:
        builder = builder.running_xacts(lsn, next_xid, oldest)
        assert builder.state is state, lsn
    assert (builder.consistent_at, builder.start_decoding_at) == (500, 501)


def test_nothing_runs_so_it_is_consistent_at_once() -> None:
    builder = SnapBuilder()
    builder = builder.running_xacts(100, 700, 700)
    assert (builder.state, builder.consistent_at, builder.start_decoding_at) == (CONSISTENT, 100, 101)


def test_a_later_start_is_kept() -> None:
    builder = SnapBuilder(start_decoding_at=1000)
    builder = builder.running_xacts(100, 700, 700)
    assert (builder.consistent_at, builder.start_decoding_at) == (100, 1000)


def test_nothing_runs_across_a_clean_shutdown() -> None:
    builder = SnapBuilder()
    builder = builder.running_xacts(100, 705, 700)
    builder = builder.clean_shutdown(200)
    assert (builder.state, builder.consistent_at, builder.start_decoding_at) == (CONSISTENT, 200, 200)


@pytest.mark.parametrize(
    ("ends", "consistent_at", "start"),
    [([], 200, 200), ([300], 300, 301), ([300, 250], 300, 301), ([None], None, 0), ([300, None], None, 0)],
)
def test_prepared_transactions_outlive_a_clean_shutdown(
    ends: list[int | None], consistent_at: int | None, start: int
) -> None:
    builder = SnapBuilder()
    builder = builder.clean_shutdown(200, range(len(ends)))
    for lsn, xid in sorted((lsn, xid) for xid, lsn in enumerate(ends) if lsn is not None):
        builder = builder.prepared_ended(lsn, xid)
    assert (builder.consistent_at, builder.start_decoding_at) == (consistent_at, start)


def test_once_consistent_it_stays_so() -> None:
    builder = SnapBuilder()
    builder = builder.clean_shutdown(100)
    builder = builder.running_xacts(200, 705, 700)
    builder = builder.clean_shutdown(300)
    assert (builder.state, builder.consistent_at, builder.start_decoding_at) == (CONSISTENT, 100, 100)


@pytest.mark.parametrize("near", [750, 2**31 + 5, 2**32 + 3, 5 * 2**32 - 1])
def test_half_an_xid_means_the_nearest_whole_one(near: int) -> None:
    for distance in (-(2**31), -5, -1, 0, 1, 700, 2**31 - 1):
        whole = near + distance
        if whole >= 0:
            assert full_xid(whole & 0xFFFFFFFF, near) == whole
            assert full_xids(np.array([whole & 0xFFFFFFFF]), near).tolist() == [whole]
