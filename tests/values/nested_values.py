"""Values that are made of other values: composites, ranges, multiranges, in each other, in arrays and under domains."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from values.generated_values import TEXTS

Random = random.Random
Make = Callable[[Random], str | None]

SETUP = """
    create type pair as (a int, b text);
    create type wide as (flag bool, big int8, words text[], inner_pair pair, at timestamptz, small int2,
        note varchar(9));
    create type empty_type as ();
    create type changed as (a int, b text, c float8, d numeric);
    alter type changed drop attribute b, drop attribute d;
    alter type changed add attribute e text, add attribute f int2;
    create domain named_pair as pair check ((value).a is distinct from 13);
    create domain pairs as pair[];
    create domain short_range as int4range;
    create type floatrange as range (subtype = float8, subtype_diff = float8mi);
    create type textrange as range (subtype = text, collation = "C");
    create type pairrange as range (subtype = pair);
    create type charrange as range (subtype = "char");
    create type wrapped as (r int4range, m datemultirange, p pairs, d named_pair);
"""


def array(items: Sequence[str | None]) -> str:
    """Write items as an array's text."""
    inner = ("NULL" if item is None else '"' + item.replace("\\", "\\\\").replace('"', '\\"') + '"' for item in items)
    return "{" + ",".join(inner) + "}"


def record(items: Sequence[str | None]) -> str:
    """Write items as a composite's text."""
    inner = ("" if item is None else '"' + item.replace("\\", "\\\\").replace('"', '""') + '"' for item in items)
    return "(" + ",".join(inner) + ")"


def range_of(low: str | None, high: str | None, brackets: str) -> str:
    """Write two bounds as a range's text."""
    low, high = ("" if bound is None else record([bound])[1:-1] for bound in (low, high))
    return f"{brackets[0]}{low},{high}{brackets[1]}"


def _maybe(r: Random, make: Callable[[], str]) -> str | None:
    return make() if r.random() < 0.85 else None


def _text(r: Random) -> str:
    return r.choice([*TEXTS, "x" * r.randrange(300), "long " * r.randrange(40)])


def _int(r: Random) -> str:
    return str(r.randrange(-1000, 1000))


def _pair(r: Random) -> str:
    return record([_maybe(r, lambda: _int(r)), _maybe(r, lambda: _text(r))])


def _range(r: Random, values: Sequence[str]) -> str:
    """Write a range over two of the values, which ascend."""
    if r.random() < 0.05:
        return "empty"
    at, to = sorted(r.choices(range(len(values)), k=2))
    low, high = (None if r.random() < 0.15 else values[i] for i in (at, to))
    return range_of(low, high, r.choice("[(") + r.choice("])"))


def _multirange(r: Random, values: Sequence[str]) -> str:
    return "{" + ",".join(_range(r, values) for _ in range(r.randrange(5))) + "}"


_INTS = [str(value) for value in range(-100, 100)]
_DATES = [f"20{year:02d}-{month:02d}-17" for year in range(30) for month in (1, 6, 12)] + ["infinity"]
_STAMPS = [f"20{year:02d}-03-04 05:06:07.{year}" for year in range(10, 60)]
_NUMERICS = [f"{value / 8}" for value in range(-80, 80)] + ["1e40"]
_STRINGS = sorted(text for text in {*TEXTS, "a", "b", "m", "z" * 200} if text != "\x01")
_PAIRS = [record([str(number), text]) for number in range(20) for text in ("a", "b,c", 'd"e')]
_LETTERS = list("ABCXYZabc")


def _wide(r: Random) -> str:
    words = array([_maybe(r, lambda: _text(r)) for _ in range(r.randrange(4))])
    fields = ["t", str(r.randrange(1 << 60)), words, _pair(r), "2024-02-29 12:34:56.789+02", _int(r), "short"]
    return record([_maybe(r, lambda field=field: field) for field in fields])  # type: ignore[misc]


def _wrapped(r: Random) -> str:
    return record([_range(r, _INTS), _multirange(r, _DATES), array([_pair(r), None]), _pair(r).replace("(13", "(14")])


_MAKE: dict[str, Make] = {
    "pair": _pair,
    "wide": _wide,
    "empty_type": lambda _r: "()",
    "changed": lambda r: record([_int(r), "1.5e300", _maybe(r, lambda: _text(r)), _maybe(r, lambda: _int(r))]),
    "named_pair": lambda r: record([str(r.randrange(12)), _text(r)]),
    "pairs": lambda r: array([_maybe(r, lambda: _pair(r)) for _ in range(r.randrange(4))]),
    "pair[]": lambda r: array([_maybe(r, lambda: _pair(r)) for _ in range(r.randrange(4))]),
    "wide[]": lambda r: array([_maybe(r, lambda: _wide(r)) for _ in range(r.randrange(3))]),
    "wrapped": _wrapped,
    "wrapped[]": lambda r: array([_maybe(r, lambda: _wrapped(r)) for _ in range(r.randrange(3))]),
    "int4range": lambda r: _range(r, _INTS),
    "int8range": lambda r: _range(r, _INTS),
    "numrange": lambda r: _range(r, _NUMERICS),
    "daterange": lambda r: _range(r, _DATES),
    "tsrange": lambda r: _range(r, _STAMPS),
    "tstzrange": lambda r: _range(r, _STAMPS),
    "floatrange": lambda r: _range(r, [str(value / 3) for value in range(50)]),
    "textrange": lambda r: _range(r, _STRINGS),
    "pairrange": lambda r: _range(r, _PAIRS),
    "charrange": lambda r: _range(r, _LETTERS),
    "short_range": lambda r: _range(r, _INTS),
    "int4range[]": lambda r: array([_maybe(r, lambda: _range(r, _INTS)) for _ in range(3)]),
    "textrange[]": lambda r: array([_maybe(r, lambda: _range(r, _STRINGS)) for _ in range(3)]),
    "int4multirange": lambda r: _multirange(r, _INTS),
    "int8multirange": lambda r: _multirange(r, _INTS),
    "nummultirange": lambda r: _multirange(r, _NUMERICS),
    "datemultirange": lambda r: _multirange(r, _DATES),
    "tstzmultirange": lambda r: _multirange(r, _STAMPS),
    "textmultirange": lambda r: _multirange(r, _STRINGS),
    "charmultirange": lambda r: _multirange(r, _LETTERS),
    "pairmultirange": lambda r: _multirange(r, _PAIRS),
    "datemultirange[]": lambda r: array([_multirange(r, _DATES) for _ in range(2)]),
}


def _values(make: Make) -> Callable[[Random], list[str]]:
    def values(r: Random) -> list[str]:
        return [value for value in (make(r) for _ in range(500)) if value is not None]

    return values


VALUES = {name: _values(make) for name, make in _MAKE.items()}
