"""Texts of failures, written at once beside the files that a test's run keeps: a run of hours may be ended.

A fixture that makes such files says where they are kept: :func:`texts_are_kept`.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

PLACES = pytest.StashKey[dict[str, Path]]()
"""Directories for texts, by the fixture whose tests they are of."""


@contextmanager
def texts_are_kept(request: pytest.FixtureRequest, place: Path) -> Iterator[None]:
    """Write what tests of a fixture fail with into a directory, which is made by the first failure.

    Args:
        request: the fixture's own.
        place: the directory; what is in it of failures of before is removed.
    """
    assert request.fixturename is not None
    for text in place.glob("*.txt"):
        text.unlink()
    places = request.session.stash.setdefault(PLACES, {})
    places[request.fixturename] = place
    try:
        yield
    finally:
        del places[request.fixturename]


class FailureTexts:
    """A plugin of pytest that writes the texts."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if report.failed:
            fixtures = getattr(item, "fixturenames", ())
            for fixture, place in item.session.stash.get(PLACES, {}).items():
                if fixture in fixtures:
                    _write(place, item.name, report)
        return report


def _write(place: Path, test: str, report: pytest.TestReport) -> None:
    place.mkdir(parents=True, exist_ok=True)
    printed = [f"{title}\n{text}" for title, text in report.sections]
    text = "\n\n".join((report.longreprtext, *printed))
    name = re.sub(r"[^-\w.,[\] ]", "_", test)
    (place / f"{name}.txt").write_text(text, encoding="utf-8", errors="replace")
