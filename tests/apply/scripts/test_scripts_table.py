"""The table of scripts: it is on the page, and has each script that a test is named for."""

from __future__ import annotations

import re
from pathlib import Path

from apply.scripts.counted_runs import FORMS, count_tests, read_counts
from apply.scripts.scripts_table import OUTCOMES, subscriber_section

PAGE = Path(__file__).parents[3] / "docs" / "conformance.md"


def test_the_page_has_the_table() -> None:
    """Run ``make conformance`` if not."""
    assert subscriber_section() in PAGE.read_text()


def test_each_script_has_a_test_or_says_why_not() -> None:
    named = {
        number
        for file in Path(__file__).parent.glob("test_*.py")
        for number in re.findall(r"^def test_(\d{3})_", file.read_text(), re.MULTILINE)
    }
    assert {name[:3] for name, outcome in OUTCOMES.items() if not outcome.startswith("none: ")} == named


def test_all_tests_were_counted() -> None:
    """Run the scripts, and ``python -m apply.scripts.counted_runs`` on what comes out, if not."""
    counts = {script: {form: count.total for form, count in forms.items()} for script, forms in read_counts().items()}
    assert counts == {script: dict.fromkeys(FORMS, total) for script, total in count_tests().items()}
