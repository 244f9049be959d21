"""Random values of every supported type, as the text of SQL literals.

``literal(rng, "numeric(10,2)")`` gives a quoted literal with a cast. Corners come often: extremes, empty values,
infinities, years before Christ, quotes and backslashes, elements that an array must quote.
"""

from __future__ import annotations

import json
import random
import string
import uuid
from collections.abc import Callable, Mapping, Sequence

WORDS = (
    "alpha", "beta", "Gamma", "delta epsilon", "ζήτα", "naïve", "日本語", "🙂 emoji", "it's", 'say "hi"', "back\\slash",
    "comma,comma", "{brace}", "NULL", "null", "", " lead", "trail ", "tab\tnew\nline", "<&>", "%s", "(1,2)", "--",
)  # fmt: skip

BASE_TYPES = (
    "boolean", "smallint", "integer", "bigint", "oid", "real", "double precision", "numeric", "numeric(12,3)", "text",
    "character varying", "character varying(20)", "character(8)", '"char"', "name", "bytea", "date",
    "time without time zone", "time(3) without time zone", "time with time zone", "timestamp without time zone",
    "timestamp(0) without time zone", "timestamp with time zone", "interval", "uuid", "json", "jsonb", "inet", "cidr",
    "macaddr", "bit(5)", "bit varying", "money", "point", "box", "path", "tsvector", "jsonpath", "xml", "pg_lsn",
    "int4range", "numrange", "tstzrange", "int8multirange",
)  # fmt: skip

ARRAY_TYPES = (
    "boolean[]", "smallint[]", "integer[]", "bigint[]", "oid[]", "real[]", "double precision[]", "numeric[]", "text[]",
    "character varying[]", "character(4)[]", '"char"[]', "name[]", "bytea[]", "date[]", "time without time zone[]",
    "timestamp with time zone[]", "interval[]", "uuid[]", "jsonb[]", "inet[]", "numrange[]", "point[]", "tsvector[]",
)  # fmt: skip


def quote(text: str) -> str:
    """Write a string literal, whatever is in it."""
    return "'" + text.replace("'", "''") + "'"


def literal(rng: random.Random, type_name: str, domains: Mapping[str, str], enums: Mapping[str, Sequence[str]]) -> str:
    """Make a literal of a type with its cast, now and then NULL."""
    if rng.random() < 0.08:
        return "NULL"
    return f"{quote(text_of(rng, type_name, domains, enums))}::{type_name}"


def text_of(rng: random.Random, type_name: str, domains: Mapping[str, str], enums: Mapping[str, Sequence[str]]) -> str:
    """Make text that the type's input function takes."""
    if type_name in domains:
        if type_name.endswith("positive"):
            return str(rng.choice((1, 7, 2**31 - 1, rng.randrange(1, 10**6))))
        return text_of(rng, domains[type_name], domains, enums)
    if type_name.endswith("[]"):
        return _array(rng, type_name[:-2], domains, enums)
    if type_name in enums:
        return rng.choice(enums[type_name])
    base, _, limit = type_name.partition("(")
    if base == "character varying" and limit:
        return _word(rng)[: int(limit.split(")")[0])]
    if base == "character" and limit:
        return _word(rng)[: int(limit.split(")")[0])]
    if base == "bit" and limit:
        return "".join(rng.choices("01", k=int(limit.split(")")[0])))
    if base == "numeric" and limit:
        precision, scale = (int(part) for part in limit.rstrip(")").split(","))
        return (
            f"{rng.randrange(-(10 ** (precision - scale)) + 1, 10 ** (precision - scale))}.{rng.randrange(10**scale)}"
        )
    if limit:
        base += type_name.partition(")")[2]
    return GENERATORS[base](rng)


def big_text(rng: random.Random, size: int) -> str:
    """Make text that compresses well, a bit, or not at all: inline, compressed, or out of line in the end."""
    style = rng.randrange(3)
    if style == 0:
        return (_word(rng) + "-") * (size // 8 + 1)
    if style == 1:
        return "".join(rng.choices(string.ascii_letters + string.digits, k=size))
    piece = "".join(rng.choices(string.ascii_letters, k=200))
    return "".join(piece[: rng.randrange(1, 200)] for _ in range(size // 100 + 1))


def _word(rng: random.Random) -> str:
    if rng.random() < 0.5:
        return rng.choice(WORDS)
    return "".join(rng.choices(string.ascii_letters + string.digits + " '\"\\,{}", k=rng.randrange(0, 30)))


def _integer(bits: int) -> Callable[[random.Random], str]:
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1

    def generate(rng: random.Random) -> str:
        return str(rng.choice((low, high, 0, -1, 1, rng.randrange(low, high), rng.randrange(-1000, 1000))))

    return generate


def _float(digits: int, big: str, small: str) -> Callable[[random.Random], str]:
    def generate(rng: random.Random) -> str:
        plain = f"{rng.uniform(-1000, 1000):.{digits}g}"
        power = f"{rng.uniform(-10, 10):.{digits}g}e{rng.randrange(-30, 30)}"
        whole = str(rng.randrange(-(10**17), 10**17))
        return rng.choice((plain, power, whole, "0", "-0", "NaN", "Infinity", "-Infinity", big, small, "1e15", "1e-5"))

    return generate


def _numeric(rng: random.Random) -> str:
    corner = rng.choice(
        ("0", "-0.000", "NaN", "Infinity", "-Infinity", "1e100", "1e-100", "0.00010000", "10000", "9" * 60)
    )
    digits = "".join(rng.choices(string.digits, k=rng.randrange(1, 40)))
    point = rng.randrange(0, len(digits) + 1)
    return rng.choice((corner, f"{'-' if rng.random() < 0.4 else ''}{digits[:point]}.{digits[point:]}0", digits))


def _single_char(rng: random.Random) -> str:
    return rng.choice(("a", "Z", "", "\\", "'", "\\200", "\\377", "\\303", " "))


def _bytes(rng: random.Random) -> str:
    return "\\x" + rng.randbytes(rng.choice((0, 1, 5, 40))).hex()


def _date(rng: random.Random) -> str:
    corner = ("infinity", "-infinity", "4713-11-24 BC", "0001-01-01", "0044-03-15 BC", "5874897-12-31", "2000-02-29")
    return rng.choice((*corner, f"{rng.randrange(1, 3000):04d}-{rng.randrange(1, 13)}-{rng.randrange(1, 29)}"))


def _time(rng: random.Random) -> str:
    plain = f"{rng.randrange(24):02d}:{rng.randrange(60):02d}:{rng.randrange(60):02d}"
    return rng.choice((plain, f"{plain}.{rng.randrange(10**6):06d}", "24:00:00", "00:00:00", "23:59:59.999999"))


def _offset(rng: random.Random) -> str:
    return rng.choice(("+00", "-08", "+05:30", "+12:45", "-03:30:15", "+15:59:59", "-15:59"))


def _timestamp(rng: random.Random) -> str:
    corner = ("infinity", "-infinity", "4713-11-24 00:00:00 BC", "294276-12-31 23:59:59.999", "1999-12-31 23:59:59.5")
    plain = f"{rng.randrange(1, 2900):04d}-{rng.randrange(1, 13):02d}-{rng.randrange(1, 29):02d} {_time(rng)}"
    return rng.choice((*corner, plain, plain, f"{plain} BC"))


def _zoned(rng: random.Random) -> str:
    text = _timestamp(rng)
    if "infinity" in text or "4713" in text or "294276" in text:
        return text
    zone = rng.choice(("+00", "+05:30", "-03"))
    return f"{text[:-3]}{zone} BC" if text.endswith(" BC") else text + zone


def _interval(rng: random.Random) -> str:
    corner = (
        "0",
        "-1 year",
        "1 mon -1 day",
        "-00:00:00.000001",
        "178000000 years",
        "1 day 24:00:00",
        "P1Y2M3DT4H5M6.5S",
    )
    parts = [f"{rng.randrange(-50, 50)} {unit}" for unit in ("years", "months", "days", "hours", "seconds")]
    return rng.choice((*corner, " ".join(rng.sample(parts, rng.randrange(1, 6))), f"{rng.uniform(-9, 9):.6f} seconds"))


def _document(rng: random.Random, depth: int = 0) -> object:
    choice = rng.randrange(8 if depth < 3 else 5)
    if choice == 0:
        return rng.choice((None, True, False))
    if choice in (1, 2):
        return rng.choice((0, -1, 1.5, 1e20, 12345678901234567890, 0.0001, -2.50))
    if choice in (3, 4):
        return _word(rng).replace("\x00", "")
    if choice in (5, 6):
        return {_word(rng): _document(rng, depth + 1) for _ in range(rng.randrange(4))}
    return [_document(rng, depth + 1) for _ in range(rng.randrange(4))]


def _json(rng: random.Random) -> str:
    return json.dumps(_document(rng), ensure_ascii=rng.random() < 0.5)


def _uuid(rng: random.Random) -> str:
    return str(uuid.UUID(int=rng.getrandbits(128)))


def _network(rng: random.Random) -> str:
    four = ".".join(str(rng.choice((0, 1, 10, 255, rng.randrange(256)))) for _ in range(4))
    six = str(rng.choice(("::", "::1", "fe80::1:2", "2001:db8:0:1::ffff", "::ffff:1.2.3.4", "1:2:3:4:5:6:7:8")))
    return rng.choice((four, f"{four}/{rng.randrange(33)}", six, f"{six}/{rng.randrange(129)}"))


def _pair(rng: random.Random) -> str:
    return f"({_finite(rng)},{_finite(rng)})"


def _path(rng: random.Random) -> str:
    opening, closing = rng.choice(("[]", "()"))
    return opening + ",".join(_pair(rng) for _ in range(rng.randrange(1, 5))) + closing


def _finite(rng: random.Random) -> str:
    return rng.choice(("0", "-0", "1e300", "1e-300", "0.1", f"{rng.uniform(-1000, 1000):.17g}", str(rng.randrange(99))))


def _range(element: Callable[[random.Random], str]) -> Callable[[random.Random], str]:
    def generate(rng: random.Random) -> str:
        low, high = (rng.choice(("", element(rng))) for _ in range(2))
        return rng.choice(("empty", f"[{low},)", f"(,{high}]", "(,)", f"({low},)"))

    return generate


def _small(rng: random.Random) -> str:
    return str(rng.randrange(-1000, 1000))


def _multirange(rng: random.Random) -> str:
    starts = sorted(rng.sample(range(0, 900, 10), rng.randrange(4)))
    return "{" + ",".join(f"[{at},{at + rng.randrange(1, 12)})" for at in starts) + "}"


def _lexemes(rng: random.Random) -> str:
    words = ("cat", "'fat rat'", "'it''s'", "ζήτα", "a\\\\b")
    places = ("", ":1", ":3A,16383", ":2B,7C,9")
    return " ".join(rng.choice(words) + rng.choice(places) for _ in range(rng.randrange(5)))


GENERATORS: dict[str, Callable[[random.Random], str]] = {
    "boolean": lambda rng: rng.choice(("t", "f")),
    "smallint": _integer(16),
    "integer": _integer(32),
    "bigint": _integer(64),
    "oid": lambda rng: str(rng.choice((0, 1, 2**32 - 1, rng.randrange(2**32)))),
    "real": _float(9, "3.4028235e38", "1.4e-45"),
    "double precision": _float(17, "1.7976931348623157e308", "4.9e-324"),
    "numeric": _numeric,
    "text": _word,
    "character varying": _word,
    "character": _word,
    '"char"': _single_char,
    "name": lambda rng: _word(rng)[:20],
    "bytea": _bytes,
    "date": _date,
    "time without time zone": _time,
    "time with time zone": lambda rng: _time(rng) + _offset(rng),
    "timestamp without time zone": _timestamp,
    "timestamp with time zone": _zoned,
    "interval": _interval,
    "uuid": _uuid,
    "json": _json,
    "jsonb": _json,
    "inet": _network,
    "cidr": lambda rng: rng.choice(
        ("10.0.0.0/8", "192.168.1.0/24", "::/0", "2001:db8::/32", "1.2.3.4/32", "0.0.0.0/0")
    ),
    "macaddr": lambda rng: rng.randbytes(6).hex(":"),
    "bit varying": lambda rng: "".join(rng.choices("01", k=rng.randrange(40))),
    "money": lambda rng: rng.choice(("0", "-0.01", "92233720368547758.07", f"{rng.uniform(-10000, 10000):.2f}")),
    "point": _pair,
    "box": lambda rng: f"({_pair(rng)},{_pair(rng)})",
    "path": _path,
    "tsvector": _lexemes,
    "jsonpath": lambda rng: rng.choice(("$", "strict $.a[*] ? (@.b > 1.50)", 'lax $."x y"', "$[0 to last].size()")),
    "xml": lambda rng: rng.choice(("<a/>", "<a b='1'>text</a>", "just text", "<!-- c --><x>&lt;</x>")),
    "pg_lsn": lambda rng: f"{rng.getrandbits(32):X}/{rng.getrandbits(32):X}",
    "int4range": _range(_small),
    "numrange": _range(lambda rng: f"{rng.uniform(-99, 99):.{rng.randrange(6)}f}"),
    "tstzrange": _range(_zoned),
    "int8multirange": _multirange,
}


def _array(rng: random.Random, element: str, domains: Mapping[str, str], enums: Mapping[str, Sequence[str]]) -> str:
    def item() -> str:
        if rng.random() < 0.15:
            return "NULL"
        text = text_of(rng, element, domains, enums)
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

    shape = rng.randrange(6)
    if shape == 0:
        return "{}"
    if shape == 1:
        return "{{" + item() + "," + item() + "},{" + item() + "," + item() + "}}"
    count = rng.randrange(1, 6)
    items = ",".join(item() for _ in range(count))
    if shape == 2:
        low = rng.choice((0, -2, 5))
        return f"[{low}:{low + count - 1}]={{{items}}}"
    return "{" + items + "}"
