"""Lines of progress where there is no terminal."""

from __future__ import annotations

import io
from dataclasses import dataclass, field

import pytest

from headwater.cli.process.progress import ProgressLines, step_progress


@dataclass
class Run:
    """A run whose clock is set by hand."""

    now: float = 1000.0
    out: io.StringIO = field(default_factory=io.StringIO)

    def __post_init__(self) -> None:
        self.report = ProgressLines(self.out, lambda: self.now, first_seconds=10, most_seconds=60)

    def at(self, seconds: float, name: str, done: int, total: int) -> list[str]:
        """Return what is written at a moment after the start."""
        self.now = 1000.0 + seconds
        before = len(self.out.getvalue())
        self.report(name, done, total)
        self.report.tick()
        return self.out.getvalue()[before:].splitlines()


def test_a_short_run_says_nothing() -> None:
    run = Run()
    assert [line for second in range(100) for line in run.at(second / 10, "decode", second, 100)] == []


def test_lines_come_at_growing_distances() -> None:
    run = Run()
    lines_by_second = {second: run.at(second, "decode", second, 1000) for second in range(400)}
    assert [second for second, lines in lines_by_second.items() if lines] == [10, 20, 40, 80, 140, 200, 260, 320, 380]
    assert lines_by_second[80] == ["headwater: decode: 80 of 1000 tasks, 1m20s"]
    assert run.at(7384, "decode", 5000, 9000) == ["headwater: decode: 5000 of 9000 tasks, 2h03m04s"]


def test_lines_come_without_news_too() -> None:
    run = Run()
    assert run.at(1, "index", 4, 4) == []
    run.now += 30
    run.report.tick()
    assert run.out.getvalue() == "headwater: index: 4 of 4 tasks, 31s\n"


def test_before_any_news_there_is_nothing_to_say() -> None:
    run = Run()
    run.now += 100
    run.report.tick()
    assert run.out.getvalue() == ""


def test_without_a_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    with step_progress() as report:
        report("decode", 1, 2)
        assert isinstance(report, ProgressLines)
    assert capfd.readouterr() == ("", "")


def test_quiet(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with step_progress(is_quiet=True) as report:
        report("decode", 1, 2)
    assert capfd.readouterr() == ("", "")
