"""Verdicts of the oracle on its scenarios on every major, as a file that runs add to, and as the page of it.

``pytest --conformance FILE`` notes every comparison of a scenario in FILE, over what an earlier run noted of the same
scenario, stream and major; ``python -m oracle.conformance FILE PAGE`` writes the page. The page has no date and no
place, so that it changes only when what is found does.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from apply.scripts.scripts_table import subscriber_section
from oracle.known_gaps import KNOWN_GAPS
from oracle.postgresql_tests import CASES, Case
from oracle.scenarios import SCENARIOS
from oracle.streams import (
    STREAMED_LIMIT,
    STREAMED_STREAMS,
    TEST_DECODING,
    Options,
    is_said_by,
    pgoutput_of,
    plugin_of,
    two_phase_of,
)
from subscription.expectations import read_expectations, scripts_section

COMPARED = "compared"
"""The property of a test's report that says what it compared: major, version, scenario, stream, messages."""

SUPPORTED = (14, 15, 16, 17, 18)
PLUGINS = ("test_decoding", "pgoutput")
IDENTICAL, GAP, DIFFERS, NOT_RUN = "identical", "known gap", "differs", "not run"

HEAD = """# Conformance

What PostgreSQL's own plugins say of a workload and what Headwater says of the same WAL, compared as (lsn, xid, data),
byte for byte. This page is written by a run of the oracle (`make conformance`); a test fails if a scenario or a known
gap is missing on it.
"""
HOW = """\
Each scenario is a script of SQL over one or more sessions (`tests/oracle/scenario_*.py`). The server is asked first,
then stopped; Headwater gets a base backup from before the script, and `pg_wal`. A plugin is *identical* where each of
its streams is:
"""


@dataclass
class Found:
    """Comparisons, by major, scenario and stream.

    Attributes:
        versions: of the servers, by major.
        verdicts: what was found and how many messages the server said.
    """

    versions: dict[int, str] = field(default_factory=dict)
    verdicts: dict[tuple[int, str, str], tuple[str, int]] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Found:
        """Read what a file holds; nothing if there is none."""
        if not path.exists():
            return cls()
        held = json.loads(path.read_text())
        verdicts = {(major, scenario, stream): (verdict, n) for major, scenario, stream, verdict, n in held["found"]}
        return cls({int(major): version for major, version in held["versions"].items()}, verdicts)

    def write(self, path: Path) -> None:
        """Leave a file that :meth:`read` reads."""
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [[*key, *verdict] for key, verdict in sorted(self.verdicts.items())]
        path.write_text(json.dumps({"versions": self.versions, "found": lines}, indent=0))

    @property
    def majors(self) -> list[int]:
        """The majors that are supported, and others that there was a run of."""
        return sorted({*SUPPORTED, *self.versions})

    def add(self, compared: tuple[int, str, str, str, int], verdict: str) -> None:
        """Note a comparison."""
        major, version, scenario, stream, messages = compared
        self.versions[major] = version
        self.verdicts[major, scenario, stream] = (verdict, messages)

    def cell(self, major: int, scenario: str, plugin: str) -> str:
        """Sum up the verdicts on all streams of a plugin, in a few words."""
        if SCENARIOS[scenario].since > major:
            return f"from {SCENARIOS[scenario].since}"
        verdicts = {
            stream: verdict
            for (at, name, stream), (verdict, _) in self.verdicts.items()
            if (at, name) == (major, scenario) and plugin_of(stream) == plugin
        }
        if not verdicts:
            return NOT_RUN
        worse = {stream for stream, verdict in verdicts.items() if verdict != IDENTICAL}
        if not worse:
            return IDENTICAL
        return DIFFERS if any(verdicts[stream] == DIFFERS for stream in worse) else GAP


def page(comparisons: Found) -> str:
    """Write the page, as Markdown."""
    parts = [HEAD, _servers(comparisons), HOW, _streams(), gaps_section(), cases_section()]
    parts += [scripts_section(read_expectations()), subscriber_section(), "## Scenarios\n", LEGEND]
    themes = dict.fromkeys(scenario.theme for scenario in SCENARIOS.values())
    return "\n".join([*parts, *(_theme(comparisons, theme) for theme in themes)])


LEGEND = """`from 15`: its statements, or what it looks at, came with that major. `not run`: not in the runs that
this page is written from.
"""


def _servers(comparisons: Found) -> str:
    lines = ["| PostgreSQL | scenarios | streams compared | messages | identical | known gaps | differ |"]
    lines.append("|---|---|---|---|---|---|---|")
    for major in sorted(comparisons.versions):
        of = {key[1:]: value for key, value in comparisons.verdicts.items() if key[0] == major and key[1] in SCENARIOS}
        counts = [sum(verdict == wanted for verdict, _ in of.values()) for wanted in (IDENTICAL, GAP, DIFFERS)]
        cells = [comparisons.versions[major], len({name for name, _ in of}), len(of)]
        lines.append(_row([*cells, sum(n for _, n in of.values()), *counts]))
    return "\n".join(lines) + "\n"


def _streams() -> str:
    newest = max(SUPPORTED)
    streams: dict[str, Options] = {**TEST_DECODING, **pgoutput_of(newest), **two_phase_of(newest), **STREAMED_STREAMS}
    lines = []
    for name, options in streams.items():
        shown = ", ".join(f"`{option}={value}`" for option, value in options) or "no options"
        since = next(major for major in SUPPORTED if is_said_by(name, major))
        lines.append(f"- {name}: {shown}" + (f" (from {since} on)" if since > SUPPORTED[0] else ""))
    lines.append(
        "- scenarios with a server of their own also under other session settings, and those that say so call by"
    )
    lines.append("  call: the slots are asked amid the script, and Headwater is, from the states behind each call")
    ((setting, limit),) = STREAMED_LIMIT
    lines.append(
        f"- those that are streamed: only scenarios of that theme, of walsenders with `{setting}={limit}` that have"
    )
    lines.append("  read all before anything is rolled back; but for announcements that such a one repeats")
    return "\n".join(lines) + "\n"


def gaps_section() -> str:
    """Write every known gap and why it is one."""
    lines = ["## Known gaps\n"]
    for scenario, gap in KNOWN_GAPS.items():
        streams = "; ".join(sorted(gap.streams))
        lines.append(f"- [{scenario}](#{_anchor(SCENARIOS[scenario].theme)}), {gap.majors} ({streams}): {gap.reason}.")
    return "\n".join(lines) + "\n"


def cases_section() -> str:
    """Write PostgreSQL's tests, and what covers them."""
    lines = [
        "## PostgreSQL's tests",
        "",
        "What its own tests of logical decoding do, and where it is done here; `make contrib`",
    ]
    lines += ["runs those of `contrib/test_decoding` themselves.", ""]
    lines += ["| test | case | covered by |", "|---|---|---|"]
    for file, cases in CASES.items():
        lines += [_row([f"`{file}`" if case is cases[0] else "", case.what, _cover(case)]) for case in cases]
    return "\n".join(lines) + "\n"


def _cover(case: Case) -> str:
    names = [f"[{name}](#{_anchor(SCENARIOS[name].theme)})" for name in case.scenarios]
    places = [f"`{test}`" for test in case.tests]
    named = ", ".join([*names, *places])
    return "; ".join(part for part in (named or "not covered", case.reason) if part)


def _anchor(theme: str) -> str:
    """Return what GitHub calls a heading."""
    return "".join(c for c in theme.lower().replace(" ", "-") if c.isalnum() or c == "-")


def _theme(comparisons: Found, theme: str) -> str:
    majors = comparisons.majors
    lines = [f"### {theme}", "", _row(["scenario", "plugin", *majors]), "|---" * (len(majors) + 2) + "|"]
    for name in (name for name, scenario in SCENARIOS.items() if scenario.theme == theme):
        for plugin in PLUGINS:
            cells = [comparisons.cell(major, name, plugin) for major in majors]
            lines.append(_row([name if plugin == PLUGINS[0] else "", plugin, *cells]))
    return "\n".join(lines) + "\n"


def _row(cells: Iterable[object]) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(page(Found.read(Path(sys.argv[1]))))
