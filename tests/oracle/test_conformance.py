"""The committed page of conformance: that nothing is missing on it, and that what it is written from is whole."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from oracle.conformance import (
    DIFFERS,
    GAP,
    IDENTICAL,
    NOT_RUN,
    PLUGINS,
    SUPPORTED,
    Found,
    cases_section,
    gaps_section,
    page,
)
from oracle.known_gaps import KNOWN_GAPS
from oracle.postgresql_tests import CASES
from oracle.scenarios import SCENARIOS

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "conformance.md"


def test_every_scenario_and_gap_is_on_the_page() -> None:
    """Run ``make conformance`` if not: the page is written by a run."""
    text = PAGE.read_text()
    assert [name for name in SCENARIOS if f"\n| {name} | test_decoding |" not in text] == []
    assert [gap.reason for gap in KNOWN_GAPS.values() if gap.reason not in text] == []
    assert gaps_section() in text
    assert cases_section() in text


def test_the_page_is_of_a_run_in_which_nothing_differed() -> None:
    rows = list(_rows())
    assert len(rows) == 2 * len(SCENARIOS)
    for name, cells in rows:
        verdicts = {cell for cell in cells if not cell.startswith("from ")}
        assert len(cells) >= len(SUPPORTED), name
        assert verdicts <= ({IDENTICAL, GAP} if name in KNOWN_GAPS else {IDENTICAL}), name
        assert verdicts or SCENARIOS[name].since > max(SUPPORTED), name


def _rows() -> Iterator[tuple[str, list[str]]]:
    """Give the rows of the page's tables of scenarios: name, and what is said of each major."""
    name = ""
    for line in PAGE.read_text().splitlines():
        parts = [part.strip() for part in line.split("|")[1:-1]]
        if len(parts) > 2 and parts[1] in PLUGINS:
            name = parts[0] or name
            yield name, parts[2:]


def test_what_covers_postgresqls_tests_is_there() -> None:
    cases = [case for of_file in CASES.values() for case in of_file]
    assert sorted({name for case in cases for name in case.scenarios} - set(SCENARIOS)) == []
    assert [test for case in cases for test in case.tests if not (ROOT / test).exists()] == []
    assert [case for case in cases if not (case.scenarios or case.tests or case.reason)] == []


def test_runs_add_to_what_was_found(tmp_path: Path) -> None:
    name, other = list(SCENARIOS)[:2]
    comparisons = Found()
    comparisons.add((16, "16.1", name, "pgoutput, all", 3), DIFFERS)
    comparisons.add((16, "16.1", name, "pgoutput, lists", 3), IDENTICAL)
    comparisons.write(tmp_path / "found")
    again = Found.read(tmp_path / "found")
    assert again == comparisons
    assert again.cell(16, name, "pgoutput") == DIFFERS
    again.add((16, "16.2", name, "pgoutput, all", 3), IDENTICAL)
    again.add((16, "16.2", other, "pgoutput, all", 3), GAP)
    assert [again.cell(16, scenario, "pgoutput") for scenario in (name, other)] == [IDENTICAL, GAP]
    assert "| 16.2 | 2 | 3 | 9 | 2 | 1 | 0 |" in page(again)
    assert again.cell(16, name, "test_decoding") == NOT_RUN
