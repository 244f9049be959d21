"""Options of pgoutput drawn by seed: protocols, binary, streaming, two-phase, origin, messages and publications.

Each option is left out, too, and combinations that a server refuses are not drawn: what it says then is compared in
``tests/plugins``.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

from oracle.streams import NO_ORIGIN_SINCE, PARALLEL_SINCE, TWO_PHASE, TWO_PHASE_PGOUTPUT_SINCE, Options

_PROTOCOLS = {1: 14, 2: 14, 3: TWO_PHASE_PGOUTPUT_SINCE, 4: PARALLEL_SINCE}
"""Protocols, and since when there are options for what is new in them."""

NAME = "pgoutput, drawn {}"
"""Of streams, by number."""

_SWITCH = (None, None, "true", "off", "on")


def draw(
    rng: random.Random,
    major: int,
    publications: Sequence[str],
    *,
    streams: bool = False,
    prepares: bool = False,
) -> Options:
    """Draw one combination.

    Args:
        rng: what it is drawn with.
        major: PostgreSQL's.
        publications: lists of names that may be asked for.
        streams: transactions may be asked for while they are in progress.
        prepares: prepared transactions may be asked for at PREPARE.
    """
    protocols = [number for number, since in _PROTOCOLS.items() if since <= major]
    # The higher, the more combinations there are.
    (protocol,) = rng.choices(protocols, protocols)
    drawn = {
        "binary": rng.choice(_SWITCH),
        "messages": rng.choice(("true", *_SWITCH)),
        "streaming": rng.choice(_streaming(protocol, major) if streams else (None, "off")),
        "two_phase": rng.choice((None, "on", "on")) if prepares and protocol >= 3 else None,
        "origin": rng.choice((None, "any", "none")) if major >= NO_ORIGIN_SINCE else None,
    }
    asked = (("proto_version", str(protocol)), ("publication_names", rng.choice(publications)))
    return *asked, *((name, value) for name, value in drawn.items() if value is not None)


def named(drawn: Iterable[Options]) -> dict[str, Options]:
    """Name combinations as streams; the names say whose slots decode at PREPARE."""
    return {
        NAME.format(number) + (f", {TWO_PHASE}" if ("two_phase", "on") in options else ""): options
        for number, options in enumerate(drawn)
    }


def _streaming(protocol: int, major: int) -> Sequence[str | None]:
    """Return the values that a protocol takes."""
    if protocol < 2:
        return None, "off"
    parallel = ("parallel", "parallel") if protocol >= 4 and major >= PARALLEL_SINCE else ()
    return None, "off", "on", "on", *parallel
