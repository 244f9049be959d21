"""Time zones as flat tables of transitions, equal to what the server's own library computes for any timestamp.

Mirrors ``src/timezone/localtime.c`` (tzload, tzparse, transtime, localsub) and ``check_timezone`` of ``variable.c``.
A zone is a TZif file's 64-bit transitions, then its POSIX footer expanded over one Gregorian cycle of 400 years. After
that the rule repeats (``TimeZone.cycle``). Names are looked up as the server does, ignoring case; a name with no file
may be a POSIX specification such as ``<+0530>-05:30`` or ``CET-1CEST,M3.5.0,M10.5.0/3``; a plain number of hours, or
an interval, has an abbreviation that is made up of its offset (pg_tzset_offset).

Zone files come from the system (``zoneinfo.TZPATH``), else from the package ``tzdata``. They may be of another tzdata
release than the server's: this is the one place where output can differ for no fault of the WAL.

Known gaps: leap-second ("right/") zones; intervals that are written otherwise than interval_out writes them, in any
IntervalStyle, which is how ``SET TIME ZONE INTERVAL`` and ``ALTER DATABASE`` keep them.
"""

from __future__ import annotations

import datetime
import math
import re
import struct
import zoneinfo
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import NamedTuple, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from headwater.errors import UsageError
from headwater.pg.decimals import decimal
from headwater.rows._text_codes import LABEL_SIZE

EPOCH = 946_684_800
"""2000-01-01 in Unix seconds."""

_DAY = 86_400
_CYCLE_YEARS = 400
_CYCLE = 146_097 * _DAY
_FIRST_RULE_YEAR = 1770
_STANDARD, _DAYLIGHT = 0, 1
_MONTH_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_US_RULES = ",M3.2.0,M11.1.0"

_HOURS = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_HEX_HOURS = re.compile(r"\s*[+-]?0[xX]([\da-fA-F]+\.?[\da-fA-F]*|\.[\da-fA-F]+)([pP][+-]?\d+)?")
_OFFSET = r"[+-]?\d+(?::\d+(?::\d+)?)?"
_RULE = rf"(?:J\d+|M\d+\.\d+\.\d+|\d+)(?:/{_OFFSET})?"
_NAME = r"<[^>]*>|[^0-9,+\-<][^0-9,+\-]*"
_POSIX = re.compile(
    rf"(?P<std>{_NAME}|)(?P<stdoff>{_OFFSET})"
    rf"(?:(?P<dst>{_NAME})(?P<dstoff>{_OFFSET})?(?:[,;](?P<start>{_RULE}),(?P<end>{_RULE}))?)?"
)
_INTERVAL = re.compile(r"interval\s*'([^']*)'", re.I | re.A)
_SECONDS = re.compile(r"([+-]?\d+)(?:\.\d*)?", re.A)
_CLOCK = re.compile(r"([+-]?)(\d+):(\d\d)(?::(\d\d)(?:\.\d*)?)?", re.A)
_ISO = re.compile(r"PT(?=.)(?:([+-]?\d+)H)?(?:([+-]?\d+)M)?(?:([+-]?\d+)(?:\.\d*)?S)?", re.A)
_VERBOSE = re.compile(
    r"@\s*(?:(-?\d+) hours?\s*)?(?:(-?\d+) mins?\s*)?(?:(-?\d+)(?:\.\d*)? secs?\s*)?(0)?\s*(ago)?", re.A
)
_HINT = (
    'supported: an IANA name such as "Europe/Berlin", a POSIX specification, hours east of Greenwich, or an interval '
    "such as INTERVAL '-08:30'"
)


@dataclass(frozen=True)
class TimeZone:
    """A zone's transitions.

    Attributes:
        name: as given.
        at: int64[n] UTC, microseconds since 2000-01-01, ascending.
        offset: int32[n+1] seconds east of Greenwich before, between and after them.
        cycle: the last 400 years of transitions repeat for ever.
        label: int32[n+1] the abbreviation that holds then, by its number in `labels`.
        labels: uint8[k * LABEL_SIZE] abbreviations as they are printed: for each its length and up to 10 bytes.
    """

    name: str
    at: NDArray[np.int64]
    offset: NDArray[np.int32]
    cycle: bool
    label: NDArray[np.int32]
    labels: NDArray[np.uint8]


class _Kind(NamedTuple):
    """A local time type: seconds east of Greenwich, and its abbreviation."""

    east: int
    label: str


@dataclass(frozen=True)
class _Rule:
    """A POSIX daylight saving rule: its two kinds of time, and the two dates with their local times."""

    standard: _Kind
    daylight: _Kind
    start: str
    end: str


class _Directory(Protocol):
    """The interface that a path and a package resource have in common."""

    name: str

    def iterdir(self) -> Iterator[_Directory]: ...
    def is_file(self) -> bool: ...
    def is_dir(self) -> bool: ...
    def read_bytes(self) -> bytes: ...


@lru_cache(maxsize=64)
def load_timezone(value: str) -> TimeZone:
    """Load the zone that ``SET TimeZone`` would select.

    Raises:
        UsageError: no such zone, or a form that is not supported.
    """
    hours = _hours(value)
    if hours is not None:
        # Hours out of range are refused by _fixed; an infinite number would be no integer.
        east = int(min(max(hours, -1000.0), 1000.0) * 3600)
        return _fixed(value, _Kind(east, _offset_label(east)))
    if (interval := _INTERVAL.fullmatch(value)) is not None:
        seconds = _interval_seconds(interval[1].strip())
        if seconds is None:
            raise UsageError(f'invalid value for parameter "TimeZone": "{value}"', hint=_HINT)
        return _fixed(value, _Kind(seconds, _offset_label(seconds)))
    name = value.removeprefix(":")
    if name.upper() in ("GMT", "UTC"):
        return _fixed(value, _Kind(0, name.upper()))
    data = _read_zone(name)
    if data is not None:
        return _from_tzif(value, data)
    match = _POSIX.fullmatch(value.upper())
    if match is None or value.startswith(":") or value.upper().startswith("INTERVAL"):
        raise UsageError(f'invalid value for parameter "TimeZone": "{value}"', hint=_HINT)
    return _from_posix(value, match)


def _hours(value: str) -> float | None:
    """Read hours east of Greenwich, if the value is a number (strtod)."""
    if _HOURS.fullmatch(value):
        return float(value)
    try:
        return float.fromhex(value) if _HEX_HOURS.fullmatch(value) else None
    except OverflowError:
        return math.inf


def _interval_seconds(text: str) -> int | None:
    """Read whole seconds of an interval without days and months, in any IntervalStyle; None if it is not one."""
    if (bare := _SECONDS.fullmatch(text)) is not None:
        return int(bare[1])
    if (clock := _CLOCK.fullmatch(text)) is not None:
        hours, minutes, seconds = (int(part or 0) for part in clock.groups()[1:])
        if minutes > 59 or seconds > 59:
            return None
        return (hours * 3600 + minutes * 60 + seconds) * (-1 if clock[1] == "-" else 1)
    if (iso := _ISO.fullmatch(text)) is not None:
        hours, minutes, seconds = (int(part or 0) for part in iso.groups())
        return hours * 3600 + minutes * 60 + seconds
    if (verbose := _VERBOSE.fullmatch(text)) is None:
        return None
    hours, minutes, seconds = (int(part or 0) for part in verbose.groups()[:3])
    return (hours * 3600 + minutes * 60 + seconds) * (-1 if verbose[5] else 1)


def _offset_label(east: int) -> str:
    """Write ``+HH[:MM[:SS]]`` (pg_tzset_offset)."""
    minutes, seconds = divmod(abs(east), 60)
    hours, minutes = divmod(minutes, 60)
    text = f"{'-' if east < 0 else '+'}{hours:02d}"
    text += f":{minutes:02d}" if minutes or seconds else ""
    return text + (f":{seconds:02d}" if seconds else "")


def _fixed(name: str, kind: _Kind) -> TimeZone:
    if abs(kind.east) >= 168 * 3600:
        raise UsageError(f'invalid value for parameter "TimeZone": "{name}"', hint="UTC offset is out of range")
    return _zone(name, np.zeros(0, np.int64), [kind], np.zeros(1, np.intp), cycle=False)


def _zone(
    name: str, at: NDArray[np.int64], kinds: Sequence[_Kind], which: NDArray[np.intp], *, cycle: bool
) -> TimeZone:
    """Make a zone of its transitions (microseconds) and the kind of time, of those given, before and after each."""
    east = np.array([kind.east for kind in kinds], np.int32)
    labels = sorted({kind.label for kind in kinds})
    number = np.array([labels.index(kind.label) for kind in kinds], np.int32)
    slots = np.zeros((len(labels), LABEL_SIZE), np.uint8)
    for slot, label in zip(slots, labels, strict=True):
        shown = label.encode(errors="surrogateescape")[: LABEL_SIZE - 1]
        slot[0], slot[1 : 1 + len(shown)] = len(shown), np.frombuffer(shown, np.uint8)
    return TimeZone(name, at, east[which], cycle, number[which], slots.ravel())


def _read_zone(name: str) -> bytes | None:
    """Read the zone's file, found as the server finds it: part by part, ignoring case, no hidden names."""
    parts = name.lower().split("/")
    for root in _roots():
        entry: _Directory | None = root
        for part in parts:
            entry = _entry(entry, part) if entry is not None and entry.is_dir() else None
        if entry is not None and entry.is_file():
            data = entry.read_bytes()
            if data[:4] == b"TZif":
                return data
    return None


def _roots() -> Iterator[_Directory]:
    for path in zoneinfo.TZPATH:
        if Path(path).is_dir():
            yield cast(_Directory, Path(path))
    yield cast(_Directory, resources.files("tzdata") / "zoneinfo")


def _entry(directory: _Directory, name: str) -> _Directory | None:
    matches = (entry for entry in directory.iterdir() if entry.name.lower() == name)
    return next(matches, None) if name and not name.startswith(".") else None


def _from_tzif(name: str, data: bytes) -> TimeZone:
    try:
        times, which, kinds, footer = _parse_tzif(data)
    except (struct.error, IndexError, ValueError) as error:
        raise UsageError(f'time zone "{name}" has a damaged file: {error}') from None
    at, used = np.array(times, dtype=np.int64), np.array([0, *which], dtype=np.intp)
    match = _POSIX.fullmatch(footer)
    rule = _rule(match) if match is not None else None
    block = _rule_block(rule) if rule is not None else None
    if rule is not None and block is not None:
        last = int(at[-1]) if len(at) else -(1 << 62)
        rule_at, rule_kind = _expand(block, last)
        at, used = np.concatenate([at, rule_at]), np.concatenate([used, rule_kind + len(kinds)])
        kinds = [*kinds, rule.standard, rule.daylight]
    return _zone(name, (np.maximum(at, -(1 << 42)) - EPOCH) * 1_000_000, kinds, used, cycle=block is not None)


def _parse_tzif(data: bytes) -> tuple[list[int], list[int], list[_Kind], str]:
    """Read transition times, the kinds of time after them, all kinds, and the footer (RFC 9636)."""
    header = struct.Struct(">4sc15x6l")
    _, version, isutcnt, isstdcnt, leapcnt, timecnt, typecnt, charcnt = header.unpack_from(data)
    base, width = header.size, 4
    if version != b"\0":
        base += timecnt * 5 + typecnt * 6 + charcnt + leapcnt * 8 + isstdcnt + isutcnt
        _, _, isutcnt, isstdcnt, leapcnt, timecnt, typecnt, charcnt = header.unpack_from(data, base)
        base, width = base + header.size, 8
    if leapcnt:
        raise ValueError("it counts leap seconds")
    times = list(struct.unpack_from(f">{timecnt}{'q' if width == 8 else 'l'}", data, base))
    base += timecnt * width
    which = list(data[base : base + timecnt])
    base += timecnt
    rows = [struct.unpack_from(">l?B", data, base + 6 * i) for i in range(typecnt)]
    base += typecnt * 6
    names = data[base : base + charcnt]
    kinds = [_Kind(east, names[at:].split(b"\0")[0].decode(errors="surrogateescape")) for east, _, at in rows]
    if not kinds or max(which, default=0) >= len(kinds):
        raise ValueError("a transition is to a time that it does not describe")
    base += charcnt + isstdcnt + isutcnt
    footer = data[base:].split(b"\n")[1].decode("ascii") if width == 8 else ""
    return times, which, kinds, footer


def _from_posix(name: str, match: re.Match[str]) -> TimeZone:
    rule = _rule(match)
    if rule is None:
        return _fixed(name, _Kind(-_seconds(match["stdoff"]), _bare(match["std"])))
    block = _rule_block(rule)
    if block is None:
        return _fixed(name, rule.daylight)
    # The rule holds for the past as well: back to 4714 BC, before which there is no timestamp.
    at, which = _expand(block, -17 * _CYCLE - 1)
    which = np.concatenate([which[-1:], which])
    return _zone(name, (at - EPOCH) * 1_000_000, [rule.standard, rule.daylight], which, cycle=True)


def _bare(name: str) -> str:
    """Return an abbreviation without the angle brackets that it may stand in (getqzname)."""
    return name[1:-1] if name.startswith("<") else name


def _seconds(text: str) -> int:
    """Read ``[+-]hh[:mm[:ss]]`` in seconds (getoffset)."""
    parts = [decimal(part) for part in text.lstrip("+-").split(":")] + [0, 0]
    if parts[0] > 167 or parts[1] > 59 or parts[2] > 60:
        raise UsageError(f'invalid offset "{text}" in a time zone specification')
    total = parts[0] * 3600 + parts[1] * 60 + parts[2]
    return -total if text.startswith("-") else total


def _rule(match: re.Match[str]) -> _Rule | None:
    """Read the daylight saving rule of a POSIX specification, None without one."""
    if match["dst"] is None:
        return None
    standard = -_seconds(match["stdoff"])
    daylight = -_seconds(match["dstoff"]) if match["dstoff"] else standard + 3600
    kinds = _Kind(standard, _bare(match["std"])), _Kind(daylight, _bare(match["dst"]))
    start, end = match["start"], match["end"]
    if start is None:
        start, end = _US_RULES[1:].split(",")
    return _Rule(*kinds, start, end)


def _rule_block(rule: _Rule) -> tuple[NDArray[np.int64], NDArray[np.intp]] | None:
    """Expand one cycle of the rule: transitions in Unix seconds, and what holds after each.

    That is _STANDARD or _DAYLIGHT. None if there is no transition ever.
    """
    at: list[int] = []
    kinds: list[int] = []
    standard, daylight = rule.standard.east, rule.daylight.east
    for year in range(_FIRST_RULE_YEAR, _FIRST_RULE_YEAR + _CYCLE_YEARS):
        first = (datetime.date(year, 1, 1).toordinal() - 719_163) * _DAY
        year_seconds = (366 if _is_leap(year) else 365) * _DAY
        start = _rule_seconds(rule.start, year) - standard
        end = _rule_seconds(rule.end, year) - daylight
        if end < start:
            at += [first + end, first + start]
            kinds += [_STANDARD, _DAYLIGHT]
        elif start < end and end - start < year_seconds + daylight - standard:
            at += [first + start, first + end]
            kinds += [_DAYLIGHT, _STANDARD]
    return (np.array(at, np.int64), np.array(kinds, np.intp)) if at else None


def _expand(
    block: tuple[NDArray[np.int64], NDArray[np.intp]], after: int
) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
    """Repeat the rule's transitions later than `after`, up to one whole cycle past both it and the block."""
    at, kinds = block
    first = max((after - int(at[0])) // _CYCLE, -18)
    cycles = range(first, max(first + 2, 0) + 1)
    all_at = np.concatenate([at + _CYCLE * cycle for cycle in cycles])
    keep = all_at > after
    return all_at[keep], np.tile(kinds, len(cycles))[keep]


def _is_leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def _rule_seconds(rule: str, year: int) -> int:
    """Count local seconds since the year's beginning at which a rule takes effect (transtime, getrule)."""
    day_text, _, time_text = rule.partition("/")
    time = _seconds(time_text) if time_text else 7200
    if day_text.startswith("J"):
        day = decimal(day_text[1:])
        return (day - 1 + (_is_leap(year) and day >= 60)) * _DAY + time
    if not day_text.startswith("M"):
        return decimal(day_text) * _DAY + time
    month, week, weekday = (decimal(part) for part in day_text[1:].split("."))
    if not (1 <= month <= 12 and 1 <= week <= 5 and 0 <= weekday <= 6):
        raise UsageError(f'invalid rule "{rule}" in a time zone specification')
    length = _MONTH_DAYS[month - 1] + (month == 2 and _is_leap(year))
    first = datetime.date(year, month, 1)
    day = (weekday - first.isoweekday()) % 7
    while week > 1 and day + 7 < length:
        day, week = day + 7, week - 1
    return (first.timetuple().tm_yday - 1 + day) * _DAY + time
