"""Plain Python twins of what session settings change: dates, intervals, rounded floats and amounts of money."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

from unit.rows.plain_text import julian_date

_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
_DAYS = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]


def styled_date(days: int, style: str, order: str) -> str:
    """Print a date as ``EncodeDateOnly`` does."""
    year, month, day = julian_date(days + 2_451_545)
    era, size = (" BC", 1 - year) if year <= 0 else ("", year)
    if style == "German":
        return f"{day:02d}.{month:02d}.{size:04d}{era}"
    mark = "/" if style == "SQL" else "-"
    first, second = (day, month) if order == "DMY" else (month, day)
    return f"{first:02d}{mark}{second:02d}{mark}{size:04d}{era}"


def styled_timestamp(usec: int, style: str, order: str, east: int = 0, label: str | None = None) -> str:
    """Print a timestamp as ``EncodeDateTime`` does; with a zone's abbreviation if there is one."""
    days, micros = divmod(usec + east * 10**6, 86_400 * 10**6)
    seconds, fraction = divmod(micros, 10**6)
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    clock += f".{fraction:06d}".rstrip("0") if fraction else ""
    zone = "" if label is None else f" {label[:10]}"
    if style != "Postgres":
        date, _, era = styled_date(days, style, order).partition(" ")
        return f"{date} {clock}{zone}{' ' + era if era else ''}"
    year, month, day = julian_date(days + 2_451_545)
    weekday = _DAYS[(days + datetime.date(2000, 1, 1).weekday()) % 7]
    date = f"{day:02d} {_MONTHS[month - 1]}" if order == "DMY" else f"{_MONTHS[month - 1]} {day:02d}"
    size, era = (1 - year, " BC") if year <= 0 else (year, "")
    return f"{weekday} {date} {clock} {size:04d}{zone}{era}"


def styled_interval(months: int, days: int, micros: int, style: str) -> str:
    """Print an interval as ``EncodeInterval`` does in all styles but postgres."""
    signs = [1 if value >= 0 else -1 for value in (months, micros)]
    years, rest = (signs[0] * part for part in divmod(abs(months), 12))
    seconds, fraction = divmod(abs(micros), 10**6)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    tail = f".{fraction:06d}".rstrip("0") if fraction else ""
    if style == "sql_standard":
        return _sql_interval(years, rest, days, micros, f"{hours}:{minutes:02d}:{seconds:02d}{tail}")
    minus = "-" if signs[1] < 0 else ""
    if style == "iso_8601":
        date = "".join(f"{value}{unit}" for value, unit in ((years, "Y"), (rest, "M"), (days, "D")) if value)
        time = "".join(f"{minus}{value}{unit}" for value, unit in ((hours, "H"), (minutes, "M")) if value)
        time += f"{minus}{seconds}{tail}S" if seconds or tail else ""
        return f"P{date}{'T' + time if time else ''}" if date or time else "PT0S"
    parts = [(years, f"{abs(years)}", "year"), (rest, f"{abs(rest)}", "mon"), (days, f"{abs(days)}", "day")]
    parts += [(signs[1] * hours, f"{hours}", "hour"), (signs[1] * minutes, f"{minutes}", "min")]
    parts += [(signs[1] * (seconds * 10**6 + fraction), f"{seconds}{tail}", "sec")]
    shown = [(value < 0, text, unit) for value, text, unit in parts if value]
    if not shown:
        return "@ 0"
    ago = shown[0][0]
    words = []
    for is_negative, text, unit in shown:
        sign = "-" if is_negative != ago else ""
        # Only of seconds is it the size that makes the plural.
        is_one = text == "1" and (not sign or unit == "sec")
        words.append(f"{sign}{text} {unit}{'' if is_one else 's'}")
    return f"@ {' '.join(words)}{' ago' if ago else ''}"


def _sql_interval(years: int, months: int, days: int, micros: int, clock: str) -> str:
    values = (years, months, days, micros)
    mixed = min(values) < 0 < max(values)
    has_months, has_time = bool(years or months), bool(days or micros)
    if mixed or (has_months and has_time):
        signs = ["-" if value < 0 else "+" for value in (years or months, days, micros)]
        return f"{signs[0]}{abs(years)}-{abs(months)} {signs[1]}{abs(days)} {signs[2]}{clock}"
    sign = "-" if min(values) < 0 else ""
    if has_months:
        return f"{sign}{abs(years)}-{abs(months)}"
    if not has_time:
        return "0"
    return f"{sign}{abs(days)} {clock}" if days else f"{sign}{clock}"


def rounded_float(value: float, digits: int) -> str:
    """Print a float by ``%.*g``, as Python does, with the server's words for what is no number."""
    words = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
    text = f"{value:.{digits}g}"
    return words.get(text, text)


def money_text(value: int, conventions: Mapping[str, Any]) -> str:
    """Print money as ``cash_out`` does, digit by digit from the right."""
    points, group = conventions["frac_digits"], conventions["mon_grouping"][0]
    text, rest, place = "", abs(value), points
    while rest or place >= 0:
        if points and place == 0:
            text = f"{conventions['mon_decimal_point']}{text}"
        elif place < 0 and place % group == 0:
            text = f"{conventions['mon_thousands_sep']}{text}"
        text = str(rest % 10) + text
        rest, place = rest // 10, place - 1
    which = "n" if value < 0 else "p"
    first, space, where = (conventions[f"{which}_{name}"] for name in ("cs_precedes", "sep_by_space", "sign_posn"))
    symbol: str = conventions["currency_symbol"]
    sign: str = conventions["negative_sign" if value < 0 else "positive_sign"]
    to_value: str = " " * (space == 1)
    to_sign: str = " " * (space == 2)
    if where == 0:
        return f"({symbol}{to_value}{text})" if first else f"({text}{to_value}{symbol})"
    if where == 2:
        return symbol + to_value + text + to_sign + sign if first else text + to_value + symbol + to_sign + sign
    if where == 1 and not first:
        return sign + to_sign + text + to_value + symbol
    both = symbol + to_sign + sign if where == 4 else sign + to_sign + symbol
    return both + to_value + text if first else text + to_value + both
