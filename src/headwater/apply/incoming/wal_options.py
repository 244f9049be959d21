"""The request by which the log is decoded for a target: pgoutput's options, and settings that values are printed under.

The same as a server's slot is read with (``remote_slots/slot_connection.py``).
"""

from __future__ import annotations

from collections.abc import Sequence

from headwater.receiver.replication_connection import quoted

SETTINGS = (
    ("DateStyle", "ISO"),
    ("IntervalStyle", "postgres"),
    ("extra_float_digits", "1"),
    ("TimeZone", "UTC"),
    ("bytea_output", "hex"),
    ("lc_monetary", "C"),
    ("client_encoding", "UTF8"),
    ("search_path", ""),
)


def wal_options(
    publications: Sequence[str], *, two_phase: bool, binary: bool, origin: str
) -> tuple[tuple[str, str], ...]:
    """Return pgoutput's options.

    Args:
        publications: names; two_phase: prepared transactions come at PREPARE.
        binary: values are wanted in binary form; origin: ``any`` or ``none``.
    """
    options = [
        ("proto_version", "3" if two_phase else "1"),
        ("publication_names", ",".join(quoted(name) for name in publications)),
    ]
    if binary:
        options.append(("binary", "true"))
    if origin != "any":
        options.append(("origin", origin))
    return tuple(options)
