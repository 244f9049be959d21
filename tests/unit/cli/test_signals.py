"""A command that gets a signal to end does so, whatever it was doing."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable
from weakref import ref

import pytest

from headwater.cli.process.signals import ending_cleanly


class Freed:
    """An object that tells the process to end while it is freed."""

    def __del__(self) -> None:
        signal.raise_signal(signal.SIGTERM)


class Referred:
    """Something that a weak reference may be of."""


def _go_on_after(ends: Callable[[], None]) -> None:
    ends()
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        pass
    pytest.fail("the end was lost")


def _free() -> None:
    freed = Freed()
    del freed


def _free_what_is_referred_to() -> None:
    referred = Referred()
    reference = ref(referred, lambda _: signal.raise_signal(signal.SIGTERM))
    del referred
    assert reference() is None


@pytest.mark.parametrize(
    "ends", [_free, _free_what_is_referred_to, lambda: signal.raise_signal(signal.SIGTERM)], ids=["del", "ref", "plain"]
)
def test_an_end_is_not_lost(ends: Callable[[], None], capfd: pytest.CaptureFixture[str]) -> None:
    hook, handler = sys.unraisablehook, signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(SystemExit) as ended, ending_cleanly():
            _go_on_after(ends)
    finally:
        signal.signal(signal.SIGTERM, handler)
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL if number == signal.SIGHUP else signal.default_int_handler)
    assert ended.value.code == 128 + signal.SIGTERM
    assert capfd.readouterr().err == "headwater: terminated\n"
    assert sys.unraisablehook is hook


def test_an_end_that_comes_again_too_early_is_not_lost(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine the signal may come while Python still reports the exception that it has dropped."""
    start = threading.Thread.start

    def start_slowly(thread: threading.Thread) -> None:
        start(thread)
        deadline = time.monotonic() + 0.1
        while time.monotonic() < deadline:
            pass

    monkeypatch.setattr(threading.Thread, "start", start_slowly)
    began = time.monotonic()
    test_an_end_is_not_lost(_free, capfd)
    assert time.monotonic() - began < 20
