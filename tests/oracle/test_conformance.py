"""The committed page of conformance: that nothing is missing on it, and that what it is written from is whole."""

from __future__ import annotations

from pathlib import Path

from oracle.conformance import DIFFERS, GAP, IDENTICAL, MAJORS, Found, cases_section, gaps_section, page
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


def test_the_page_is_of_a_whole_run_in_which_nothing_differed() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if "| test_decoding |" in line or "| pgoutput |" in line]
    cells = {cell.strip() for row in rows for cell in row.split("|")[3:-1]}
    assert len(rows) == 2 * len(SCENARIOS)
    assert cells <= {IDENTICAL, GAP, *(f"from {major}" for major in MAJORS)}


def test_gaps_of_the_page_are_known() -> None:
    name = ""
    for line in PAGE.read_text().splitlines():
        parts = [part.strip() for part in line.split("|")]
        if len(parts) == len(MAJORS) + 4 and parts[2] in ("test_decoding", "pgoutput"):
            name = parts[1] or name
            assert GAP not in parts or name in KNOWN_GAPS, line


def test_what_covers_postgresqls_tests_is_there() -> None:
    cases = [case for of_file in CASES.values() for case in of_file]
    assert sorted({name for case in cases for name in case.scenarios} - set(SCENARIOS)) == []
    assert [test for case in cases for test in case.tests if not (ROOT / test).exists()] == []
    assert [case for case in cases if not (case.scenarios or case.tests or case.reason)] == []


def test_runs_add_to_what_was_found(tmp_path: Path) -> None:
    name, other = list(SCENARIOS)[:2]
    found = Found()
    found.add((16, "16.1", name, "pgoutput, all", 3), DIFFERS)
    found.add((16, "16.1", name, "pgoutput, lists", 3), IDENTICAL)
    found.write(tmp_path / "found")
    again = Found.read(tmp_path / "found")
    assert again == found
    assert again.cell(16, name, "pgoutput") == DIFFERS
    again.add((16, "16.2", name, "pgoutput, all", 3), IDENTICAL)
    again.add((16, "16.2", other, "pgoutput, all", 3), GAP)
    assert [again.cell(16, one, "pgoutput") for one in (name, other)] == [IDENTICAL, GAP]
    assert "| 16.2 | 2 | 3 | 9 | 2 | 1 | 0 |" in page(again)
    assert again.cell(16, name, "test_decoding") == "not run"
