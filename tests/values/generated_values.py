"""Thousands of values of each type as input text: every edge that the output functions know, then random ones."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable

Random = random.Random
TEXTS = [
    "",
    " ",
    "null",
    "NULL",
    "nUlL",
    "a,b",
    '"',
    "\\",
    "{}",
    "{",
    "x y",
    "tab\there",
    "line\nbreak",
    "é",
    "日本語",
    "🐘",
]
TEXTS += ["\v", "\f", "\r", "a;b", "'", "a'b", "\x01", "\x7f", "(1,2)", "\\x00", "nulls", "N", "ünull"]


def integers(bits: int) -> Callable[[Random], list[str]]:
    def values(r: Random) -> list[str]:
        top = 1 << bits - 1
        edges = [0, 1, -1, top - 1, -top] + [s * 10**i + d for i in range(19) for s in (1, -1) for d in (-1, 0, 1)]
        edges += [r.randrange(-top, top) >> r.randrange(bits) for _ in range(1500)]
        return [str(value) for value in edges if -top <= value < top]

    return values


def unsigned(bits: int) -> Callable[[Random], list[str]]:
    def values(r: Random) -> list[str]:
        edges = [0, 1, (1 << bits) - 1, 1 << bits - 1] + [
            r.randrange(1 << bits) >> r.randrange(bits) for _ in range(800)
        ]
        return [str(value) for value in edges]

    return values


def floats8(r: Random) -> list[str]:
    values = ["NaN", "Infinity", "-Infinity", "-0", "0"]
    values += [s + m + f"e{e}" for e in range(-20, 24) for s in ("", "-") for m in ("1", "9.5", "1.234567")]
    values += [repr(2.0**e) for e in range(-1074, 1024)] + [repr(10.0**e) for e in range(-323, 309)]
    values += [repr(float(r.randrange(1 << r.randrange(1, 80)))) for _ in range(1500)]
    values += [repr(round(r.uniform(-1e6, 1e6), r.randrange(8))) for _ in range(1500)]
    for _ in range(6000):
        value = struct.unpack("<d", r.randbytes(8))[0]
        if value == value and abs(value) < 1.7e308:
            values.append(repr(value))
    return values


def floats4(r: Random) -> list[str]:
    values = ["NaN", "Infinity", "-Infinity", "-0", "0"]
    values += [s + m + f"e{e}" for e in range(-12, 14) for s in ("", "-") for m in ("1", "9.5", "1.2345")]
    values += [repr(2.0**e) for e in range(-149, 128)]
    for _ in range(6000):
        value = struct.unpack("<f", r.randbytes(4))[0]
        if value == value and 1.5e-45 < abs(value) < 3.4e38:
            values.append(repr(value))
    values += [repr(round(r.uniform(-1e5, 1e5), r.randrange(6))) for _ in range(1000)]
    return values + [str(r.randrange(1 << r.randrange(1, 60))) for _ in range(1000)]


def numeric(r: Random) -> str:
    digits = "".join(r.choice("0123456789" if r.random() < 0.8 else "09") for _ in range(r.randrange(1, 60)))
    point = r.randrange(0, len(digits) + 1)
    text = (digits[:point] or "0") + ("." + digits[point:] if point < len(digits) else "")
    if r.random() < 0.2:
        text = "0." + "0" * r.randrange(1, 40) + digits
    if r.random() < 0.1:
        text = digits + "0" * r.randrange(1, 200)
    if r.random() < 0.05:
        text = f"{r.randrange(1, 1000)}e{r.randrange(-2000, 6000)}"
    return ("-" if r.random() < 0.4 else "") + text


def numerics(r: Random) -> list[str]:
    values = [
        "NaN",
        "Infinity",
        "-Infinity",
        "0",
        "0.0",
        "0.00000",
        "-0.0",
        "10000",
        "9999",
        "0.0001",
        "0.00001",
        "1e100",
    ]
    values += ["1e-16383", "1e6000", "-1e-5", "1.0000", "100000000", "10000.0001", "0.1", "-99999999.99999999"]
    return values + [numeric(r) for _ in range(3000)]


def text(r: Random) -> str:
    alphabet = "abcXYZ 019,;{}\"\\'\n\t\v()[]:-_.éß日🐘"
    return r.choice(TEXTS) if r.random() < 0.3 else "".join(r.choice(alphabet) for _ in range(r.randrange(0, 30)))


def texts(r: Random) -> list[str]:
    return TEXTS + [text(r) for _ in range(800)]


def year(r: Random, last: int) -> str:
    kind = r.random()
    value = r.randrange(1900, 2040) if kind < 0.6 else r.randrange(1, 4713) if kind < 0.9 else r.randrange(1, last)
    return f"{value:04d}"


def date_text(r: Random, last: int = 5874897) -> tuple[str, str]:
    era = " BC" if r.random() < 0.1 else ""
    return f"{year(r, 4000 if era else last)}-{r.randrange(1, 13):02d}-{r.randrange(1, 29):02d}", era


def fraction(r: Random) -> str:
    return f".{r.randrange(10**6):06d}"[: r.choice([0, 2, 3, 4, 5, 6, 7])] if r.random() < 0.7 else ""


def clock(r: Random) -> str:
    return f"{r.randrange(24):02d}:{r.randrange(60):02d}:{r.randrange(60):02d}{fraction(r)}".rstrip(".")


def dates(r: Random) -> list[str]:
    values = ["infinity", "-infinity", "4714-11-24 BC", "5874897-12-31", "0001-12-31 BC", "0001-01-01", "2000-02-29"]
    values += ["9999-12-31", "10000-01-01", "0004-02-29", "0001-02-28 BC", "1900-02-28", "2000-01-01"]
    return values + ["".join(date_text(r)) for _ in range(2500)]


def timestamps(r: Random) -> list[str]:
    values = ["infinity", "-infinity", "4714-11-24 00:00:00 BC", "294276-12-31 23:59:59.999999", "0001-01-01 00:00:00"]
    values += [
        "1999-12-31 23:59:59.999999",
        "2000-01-01 00:00:00",
        "2000-01-01 00:00:00.000001",
        "10000-01-01 00:00:00",
    ]
    for _ in range(2500):
        day, era = date_text(r, 294276)
        values.append(f"{day} {clock(r)}{era}")
    return values


def times(r: Random) -> list[str]:
    values = ["00:00:00", "24:00:00", "23:59:59.999999", "00:00:00.000001", "12:00:00.1", "12:00:00.12345"]
    return values + [clock(r) for _ in range(800)]


def zoned_times(r: Random) -> list[str]:
    offsets = ["+00", "-00:00:01", "+15:59:59", "-15:59:59", "+05:30", "-03:30", "+12:45"]
    offsets += [
        f"{r.choice('+-')}{r.randrange(16):02d}:{r.randrange(60):02d}:{r.randrange(60):02d}" for _ in range(100)
    ]
    return [value + r.choice(offsets) for value in times(r)]


def intervals(r: Random) -> list[str]:
    values = [
        "0",
        "1 year",
        "-1 year",
        "1 mon",
        "-1 mon",
        "1 day",
        "-1 day",
        "1 sec",
        "-1 sec",
        "-0.000001 sec",
        "1 mon -1 day",
    ]
    values += [
        "-1 mon 1 day",
        "-1 mon +1 day -1 sec",
        "1 year -1 mon",
        "178956970 years 7 mons",
        "-178956970 years -8 mons",
    ]
    values += [
        "2147483647 days",
        "-2147483648 days",
        "2562047788:00:54.775807",
        "-9223372036854775807 microseconds",
        "100:00:00",
    ]
    values += ["-1 day 1 sec", "1 day -1 sec", "-1 year 1 sec", "11 mons 29 days 23:59:59.999999", "1000000:00:00"]
    for _ in range(2000):
        parts = [f"{r.randrange(-30, 30)} {unit}" for unit in ("years", "mons", "days") if r.random() < 0.6]
        if r.random() < 0.6 or not parts:
            parts.append(
                r.choice(["", "-"]) + f"{r.randrange(200)}:{r.randrange(60)}:{r.randrange(60)}{fraction(r)}".rstrip(".")
            )
        values.append(" ".join(parts))
    return values


MORE_HOURS = ("2562047788:00:54.775807", "-9223372036854775807 microseconds")
"""More of them than 14 takes in an interval."""


def taken_by(values: list[str], major: int) -> list[str]:
    """List the values that a server of this major version takes."""
    return [value for value in values if major >= 15 or not any(more in value for more in MORE_HOURS)]


def json_value(r: Random, depth: int = 0) -> object:
    kind = r.random()
    if depth < 4 and kind < 0.25:
        return {text(r): json_value(r, depth + 1) for _ in range(r.randrange(0, 6))}
    if depth < 4 and kind < 0.45:
        return [json_value(r, depth + 1) for _ in range(r.randrange(0, 6))]
    if kind < 0.7:
        return text(r) + r.choice(["", "\x01", "\b\f\x1f", "/", "\u2028"])
    if kind < 0.85:
        return r.choice([r.randrange(-(10**12), 10**12), r.uniform(-1e3, 1e3), 10**30, 0, -1.5, 1e-7])
    return r.choice([True, False, None])


def jsonbs(r: Random) -> list[str]:
    values = [
        "{}",
        "[]",
        '""',
        "null",
        "true",
        "false",
        "0",
        "-1.50",
        "1e3",
        "[[]]",
        '{"a": {}}',
        "[" * 120 + "]" * 120,
    ]
    values += [
        json.dumps(list(range(100))),
        json.dumps({str(i): "v" * i for i in range(60)}),
        '["\\u0001\\t\\n\\"\\\\"]',
    ]
    values += [json.dumps({"k" * i: [i] * i for i in range(20)}), "1.000", "123456789012345678901234567890.0123456789"]
    values += [json.dumps(json_value(r), ensure_ascii=r.random() < 0.5) for _ in range(1500)]
    return [value for value in values if len(value) < 4000]


def jsons(r: Random) -> list[str]:
    return [" { } ", "[1 , 2]", '"\\u0041"', "1.0e+5"] + jsonbs(r)[:200]


def byteas(r: Random) -> list[str]:
    return ["\\x" + r.randbytes(r.randrange(0, 40)).hex() for _ in range(400)] + ["\\x", "\\x005c27ff20"]


def uuids(r: Random) -> list[str]:
    return [r.randbytes(16).hex() for _ in range(300)] + ["00000000-0000-0000-0000-000000000000"]


def booleans(_r: Random) -> list[str]:
    return ["t", "f"]


def chars(_r: Random) -> list[str]:
    return ["a", " ", '"', "\\\\", "{", ",", "~", "", "\\\\001", "\\\\377", "\\\\200", "\\\\303", "é"]


def names(r: Random) -> list[str]:
    return [value[:30] for value in texts(r)] + ["n" * 63]


def bits(r: Random) -> list[str]:
    return ["", "0", "1"] + ["".join(r.choice("01") for _ in range(r.randrange(1, 70))) for _ in range(300)]


def inets(r: Random) -> list[str]:
    values = ["::", "::1", "::ffff:1.2.3.4", "::1.2.3.4", "1::", "fe80::1/64", "0.0.0.0/0", "255.255.255.255", "::/0"]
    values += [
        "1:0:0:2:0:0:0:3",
        "1:0:0:0:2:0:0:3",
        "0:0:1::",
        "::fffe:1.2.3.4",
        "::ffff:0:0",
        "::2",
        "::0.1.0.0",
        "::0.0.0.2",
    ]
    for _ in range(600):
        if r.random() < 0.4:
            values.append(".".join(str(r.randrange(256)) for _ in range(4)) + r.choice(["", f"/{r.randrange(33)}"]))
        else:
            groups = [f"{r.choice([0, 0, 0, 1, 0xFFFF, r.randrange(65536)]):x}" for _ in range(8)]
            values.append(":".join(groups) + r.choice(["", f"/{r.randrange(129)}"]))
    return values


def cidrs(r: Random) -> list[str]:
    values = [f"{r.randrange(256)}.{r.randrange(256)}.{r.randrange(256)}.0/{24 + r.randrange(0, 1)}" for _ in range(50)]
    return values + ["::/0", "::1/128", "10.0.0.1", "2001:db8::/32", "0.0.0.0/0", "::ffff:0:0/96", "1.2.3.4/32"]


def hexes(length: int) -> Callable[[Random], list[str]]:
    return lambda r: [r.randbytes(length).hex(":") for _ in range(100)]


def lsns(r: Random) -> list[str]:
    return ["0/0", "FFFFFFFF/FFFFFFFF"] + [
        f"{r.randrange(1 << 32) >> r.randrange(32):X}/{r.randrange(1 << 32):X}" for _ in range(200)
    ]


def tids(r: Random) -> list[str]:
    return ["(0,0)", "(4294967295,65535)"] + [f"({r.randrange(1 << 32)},{r.randrange(1 << 16)})" for _ in range(200)]


def points(count: int, form: str) -> Callable[[Random], list[str]]:
    def values(r: Random) -> list[str]:
        def number() -> str:
            return r.choice([repr(r.uniform(-1e3, 1e3)), str(r.randrange(-5, 6)), "-0", "1e300", "1e-7"])

        return [form.format(*(number() for _ in range(count))) for _ in range(200)]

    return values


def circles(r: Random) -> list[str]:
    return [f"<({r.uniform(-9, 9)},{r.uniform(-9, 9)}),{r.uniform(0, 9)}>" for _ in range(100)]


def polygons(r: Random) -> list[str]:
    return ["(" + ",".join(f"({r.uniform(-9, 9)},{i})" for i in range(r.randrange(1, 20))) + ")" for _ in range(100)]


def paths(r: Random) -> list[str]:
    return polygons(r) + [f"[{value[1:-1]}]" for value in polygons(r)]


def vectors(bits: int) -> Callable[[Random], list[str]]:
    return lambda r: (
        [""] + [" ".join(str(r.randrange(1 << bits)) for _ in range(r.randrange(0, 9))) for _ in range(100)]
    )


def array_of(
    elements: Callable[[Random], list[str]], delimiter: str = ",", longest: int = 200
) -> Callable[[Random], list[str]]:
    """Make a maker of arrays of values shorter than `longest`: NULLs, up to three dimensions, unusual bounds, empty."""

    def quoted(value: str | None) -> str:
        if value is None:
            return "NULL"
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'

    def build(r: Random, sizes: list[int], pool: list[str]) -> str:
        if not sizes:
            return quoted(None if r.random() < 0.15 else r.choice(pool))
        return "{" + delimiter.join(build(r, sizes[1:], pool) for _ in range(sizes[0])) + "}"

    def values(r: Random) -> list[str]:
        pool = [value for value in elements(r) if len(value) < longest]
        result = ["{}"]
        for _ in range(400):
            sizes = [r.randrange(1, 5) for _ in range(r.choice([1, 1, 1, 2, 2, 3]))]
            bounds = ""
            if r.random() < 0.2:
                lows = [r.randrange(-5, 6) for _ in sizes]
                bounds = "".join(f"[{low}:{low + size - 1}]" for low, size in zip(lows, sizes, strict=True)) + "="
            result.append(bounds + build(r, sizes, pool))
        return result

    return values


def objects(r: Random) -> list[str]:
    """List OIDs of objects that every database has, of none at all, and of things that are not there."""
    return ["0", "4294967295", "11", "10"] + [str(r.randrange(16384)) for _ in range(1500)]


def privileges(r: Random) -> list[str]:
    roles = ["", "pg_monitor", "pg_read_all_stats", "pg_signal_backend", "98765"]
    items = []
    for _ in range(300):
        letters = "".join(letter + r.choice(["", "*"]) for letter in "arwdDxtXUCTc" if r.random() < 0.4)
        grantee, grantor = r.choice(roles[:-1]), r.choice(roles[1:-1])
        items.append(f"{grantee}={letters if grantee else letters.replace('*', '')}/{grantor}")
    return items


VALUES: dict[str, Callable[[Random], list[str]]] = {
    "bool": booleans,
    "int2": integers(16),
    "int4": integers(32),
    "int8": integers(64),
    "oid": unsigned(32),
    "xid": unsigned(32),
    "cid": unsigned(32),
    "xid8": unsigned(64),
    "float4": floats4,
    "float8": floats8,
    "numeric": numerics,
    "numeric(20,6)": lambda r: [f"{r.uniform(-1e10, 1e10):.7f}" for _ in range(300)],
    "text": texts,
    "varchar(40)": texts,
    "char(35)": texts,
    '"char"': chars,
    "name": names,
    "bytea": byteas,
    "uuid": uuids,
    "date": dates,
    "time": times,
    "timetz": zoned_times,
    "timestamp": timestamps,
    "timestamptz": timestamps,
    "interval": intervals,
    "json": jsons,
    "jsonb": jsonbs,
    "bit varying": bits,
    "bit(7)": lambda r: [f"{r.randrange(128):07b}" for _ in range(30)],
    "inet": inets,
    "cidr": cidrs,
    "macaddr": hexes(6),
    "macaddr8": hexes(8),
    "pg_lsn": lsns,
    "tid": tids,
    "point": points(2, "({},{})"),
    "lseg": points(4, "[({},{}),({},{})]"),
    "box": points(4, "({},{}),({},{})"),
    "line": points(2, "{{1,{},{}}}"),
    "circle": circles,
    "path": paths,
    "polygon": polygons,
    "int2vector": vectors(15),
    "oidvector": vectors(32),
    "refcursor": texts,
    **dict.fromkeys(("regclass", "regproc", "regprocedure", "regoper", "regoperator", "regtype"), objects),
    **dict.fromkeys(("regconfig", "regdictionary", "regnamespace", "regrole", "regcollation"), objects),
    "aclitem": privileges,
    "mood": lambda _r: ["sad", "ok", "happy", 'very, very "happy"', "null", "later"],
    "positive": lambda _r: ["1", "2", "1000000"],
    "moods": array_of(lambda _r: ["sad", "ok", "null", 'very, very "happy"']),
    "shortname": texts,
    "words": array_of(texts),
    "wordlists": array_of(array_of(texts), longest=60),
    "wordbooks": array_of(array_of(array_of(texts), longest=60), longest=60),
    "numbers": array_of(integers(64)),
    "boxes": array_of(points(4, "({},{}),({},{})"), ";"),
}
"""Input texts by column type; the last ones are types that the test makes itself."""

NEWER: dict[str, tuple[int, Callable[[Random], list[str]]]] = {
    "oid8": (19, unsigned(64)),
    "regdatabase": (19, objects),
}
"""Types that not all majors have, with the first one."""

NESTED = ("moods", "words", "wordlists", "wordbooks", "numbers", "boxes")
"""Domains over arrays: arrays of them hold arrays."""

ARRAYS = {
    f"{name}[]": array_of(make, ";" if name in ("box", "boxes") else ",", 100 if name in NESTED else 200)
    for name, make in VALUES.items()
    if name not in ("int2vector", "oidvector", "char(35)", "varchar(40)", "numeric(20,6)", "bit(7)", '"char"')
}

WITHOUT_VALUES = frozenset({"gtsvector", "pg_brin_bloom_summary", "pg_brin_minmax_multi_summary"})
"""Types of keys inside indexes: their input functions take nothing, so that a column of them has NULLs only."""


def amounts(r: Random, _: int) -> list[str]:
    """Make amounts of money."""
    cents = [r.randrange(1 << 63) >> r.randrange(63) for _ in range(500)]
    return [f"{r.choice(['', '-'])}{amount // 100}.{amount % 100:02}" for amount in cents]
