"""Named cases that have broken decoders before, as scripts of SQL over a few sessions.

A script's lines begin with a session's letter and ``|``; a line without one goes on with the statement above it.
``a&|`` starts a statement that will wait, ``a.|`` waits for its end, ``x@other|`` is a session in another database.
Each scenario runs in a schema of its own name, on one server after another; those marked ``is_alone`` stop or break
the server and get one to themselves, where a line ``!restart``, ``!crash``, ``!slot`` or
``!slot-ready`` says when; ``!get`` takes from slots what there is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from oracle.scenario_catalogs import CATALOGS, STRATEGIES
from oracle.scenario_changing_publications import CHANGING_PUBLICATIONS
from oracle.scenario_definitions import DEFINITIONS
from oracle.scenario_interleaved import INTERLEAVED
from oracle.scenario_publications import PUBLICATIONS, SINCE_18, SINCE_19
from oracle.scenario_replicated import LATER, REPLICATED
from oracle.scenario_row_filters import ROW_FILTERS
from oracle.scenario_rows import ROWS
from oracle.scenario_snapshots import SNAPSHOTS
from oracle.scenario_streaming import STREAMING
from oracle.scenario_subtransactions import SUBTRANSACTIONS
from oracle.scenario_transactions import ALONE, TRANSACTIONS


@dataclass(frozen=True)
class Scenario:
    """One case.

    Attributes:
        theme: what it is about.
        script: what the sessions do after the slots exist.
        setup: what exists before the base copy; statements separated by semicolons at the ends of lines.
        is_alone: it needs a server of its own.
        settings: of that server.
        since: the first major whose server takes the script.
        days: majors of 16 and 18 on which it is run without ``--all-majors``, too.
    """

    theme: str
    script: str
    setup: str = ""
    is_alone: bool = False
    settings: tuple[tuple[str, str], ...] = ()
    since: int = 14
    days: tuple[int, ...] = ()

    @property
    def takes(self) -> bool:
        """Whether slots are asked amid the script."""
        return "!get" in self.script


_SINCE_15 = re.compile(
    r"TABLES IN SCHEMA|PUBLICATION \w+ (?:ADD|SET|FOR) TABLE [^\n]*\(|NULLS NOT DISTINCT|SET ACCESS METHOD|"
    r"\bMERGE INTO\b|STRATEGY wal_log"
)
"""What 14 has not: schemas, lists of columns and filters in publications, and some statements."""


def _split(theme: str, text: str, *, is_alone: bool = False, settings: tuple[tuple[str, str], ...] = ()) -> Scenario:
    setup, marker, script = text.partition("---\n")
    since = 15 if _SINCE_15.search(text) else 14
    return Scenario(theme, script if marker else text, setup if marker else "", is_alone, settings, since)


IN_PROGRESS = "Transactions in progress"
"""The theme of scenarios that walsenders are asked for, too, while they run."""

_THEMES = {
    "Rows": ROWS,
    "Tables of subscriptions": REPLICATED,
    "Transactions": TRANSACTIONS,
    "Subtransactions": SUBTRANSACTIONS,
    IN_PROGRESS: STREAMING,
    "Definitions": DEFINITIONS | CHANGING_PUBLICATIONS,
    "Definitions between another's rows": INTERLEAVED,
    "Catalogs": CATALOGS | STRATEGIES,
    "Publications": PUBLICATIONS,
    "Row filters": ROW_FILTERS,
}
_SINCE = {18: SINCE_18, 19: SINCE_19}
_LATER = {
    "Tables of subscriptions": LATER,
    "Publications": {name: (text, since) for since, texts in _SINCE.items() for name, text in texts.items()},
}
_ALONE = {"Servers that stop, slots that begin": ALONE, "Where slots begin again": SNAPSHOTS}

_DAILY_THEMES = {
    "Rows",
    "Transactions",
    "Definitions",
    "Publications",
    "Row filters",
    "Servers that stop, slots that begin",
}
_DAILY = {
    "kinds_of_tables_in_one_publication",
    "partitions_of_many_shapes",
    "speculative_rows_of_several_sessions",
    "column_retyped_in_a_savepoint_that_is_rolled_back",
    "catalog_changed_behind_more_than_64_subtransactions",
    "columns_dropped_of_a_table_that_is_in_use",
    "mapped_catalogs_rewritten_while_others_define",
    "catalog_rows_updated_in_pieces",
    "user_catalog_table_altered",
    "partitions_made_before_and_behind_the_restart",
}
"""Of the other themes."""

_APART = {"names_of_objects", "row_filter_that_fails"}
"""Where some stream stops with an error, which would leave the other scenarios of a server without one."""

_LAST = "open_at_the_end"
"""It leaves a transaction prepared: what waits for all that are open, as REPACK (CONCURRENTLY) does, would not end."""


def _named() -> dict[str, Scenario]:
    scenarios = {name: _split(theme, text) for theme, texts in _THEMES.items() for name, text in texts.items()}
    for theme, texts in _LATER.items():
        scenarios |= {name: replace(_split(theme, text), since=since) for name, (text, since) in texts.items()}
    scenarios |= {name: replace(scenarios[name], is_alone=True) for name in _APART}
    scenarios[_LAST] = scenarios.pop(_LAST)
    for theme, alone in _ALONE.items():
        scenarios |= {name: _split(theme, text, is_alone=True, settings=more) for name, (text, more) in alone.items()}
    return {name: replace(scenario, days=_days(name, scenario.theme)) for name, scenario in scenarios.items()}


def _days(name: str, theme: str) -> tuple[int, ...]:
    if theme in _DAILY_THEMES:
        return (16, 18)
    return (18,) if name in _DAILY else ()


SCENARIOS: dict[str, Scenario] = _named()
