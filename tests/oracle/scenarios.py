"""Named cases that have broken decoders before, as scripts of SQL over a few sessions.

A script's lines begin with a session's letter and ``|``; a line without one goes on with the statement above it.
``a&|`` starts a statement that will wait, ``a.|`` waits for its end, ``x@other|`` is a session in another database.
Each scenario runs in a schema of its own name, on one server after another; those marked ``is_alone`` stop or break
the server and get one to themselves, where a line ``!restart``, ``!crash``, ``!slot`` or ``!slot-ready`` says when.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from oracle.scenario_definitions import DEFINITIONS, KNOWN_GAPS
from oracle.scenario_publications import PUBLICATIONS, SINCE_18, SINCE_19
from oracle.scenario_rows import ROWS
from oracle.scenario_transactions import ALONE, TRANSACTIONS


@dataclass(frozen=True)
class Scenario:
    """One case.

    Attributes:
        script: what the sessions do after the slots exist.
        setup: what exists before the base copy; statements separated by semicolons at the ends of lines.
        is_alone: it needs a server of its own.
        settings: of that server.
        since: the first major whose server takes the script.
    """

    script: str
    setup: str = ""
    is_alone: bool = False
    settings: tuple[tuple[str, str], ...] = ()
    since: int = 14


_SINCE_15 = re.compile(
    r"TABLES IN SCHEMA|PUBLICATION \w+ (?:ADD|SET|FOR) TABLE [^\n]*\(|NULLS NOT DISTINCT|SET ACCESS METHOD|"
    r"\bMERGE INTO\b"
)
"""What 14 has not: schemas, lists of columns and filters in publications, and some statements."""


def _split(text: str, *, is_alone: bool = False, settings: tuple[tuple[str, str], ...] = ()) -> Scenario:
    setup, marker, script = text.partition("---\n")
    since = 15 if _SINCE_15.search(text) else 14
    return Scenario(script if marker else text, setup if marker else "", is_alone, settings, since)


def _named() -> dict[str, Scenario]:
    groups = (ROWS, TRANSACTIONS, DEFINITIONS, PUBLICATIONS)
    found = {name: _split(text) for group in groups for name, text in group.items()}
    for since, newer in ((18, SINCE_18), (19, SINCE_19)):
        found |= {name: replace(_split(text), since=since) for name, text in newer.items()}
    for name, (text, settings) in ALONE.items():
        found[name] = _split(text, is_alone=True, settings=settings)
    return found


__all__ = ["KNOWN_GAPS", "SCENARIOS", "Scenario"]

SCENARIOS: dict[str, Scenario] = _named()
