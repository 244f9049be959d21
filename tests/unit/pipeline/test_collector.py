"""The search for cycles is put off for as long as anybody plans, and found again as it was."""

from __future__ import annotations

import gc

import pytest

from headwater.pipeline.windows.gc_pause import collector_put_off


def test_it_is_put_off_until_the_last_one_has_left() -> None:
    first, second = collector_put_off(), collector_put_off()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert not gc.isenabled()
    second.__exit__(None, None, None)
    assert gc.isenabled()


def test_an_error_does_not_leave_it_off() -> None:
    with pytest.raises(ValueError, match="x"), collector_put_off():
        raise ValueError("x")
    assert gc.isenabled()


def test_who_switched_it_off_finds_it_so() -> None:
    gc.disable()
    try:
        with collector_put_off():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()
