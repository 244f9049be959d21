"""Thousands of texts in the languages that a column can hold: text search, jsonpath, xml; and snapshots."""

from __future__ import annotations

import random
from collections.abc import Callable

Random = random.Random
_WORDS = ["a", "cat", "O'Brien", "back\\slash", "日本", "x y", "é", "", "1", "the", "::", "&|!()", "💥", '"quoted"']


def _lexeme(r: Random) -> str:
    word = r.choice(_WORDS) or "w" * r.choice([1, 2, 255, 500])
    return "'" + word.replace("\\", "\\\\").replace("'", "''") + "'"


def tsvectors(r: Random) -> list[str]:
    values = ["", "a", "'a':1", "'a':1A,2B,3C,4D 'b'"]
    for _ in range(1200):
        words = []
        for _ in range(r.randrange(1, 12)):
            places = {r.choice([r.randrange(1, 20), 16383, r.randrange(1, 16384)]) for _ in range(r.randrange(4))}
            marks = ",".join(f"{place}{r.choice(['', 'A', 'B', 'C', 'D'])}" for place in places)
            words.append(_lexeme(r) + (f":{marks}" if marks else ""))
        values.append(" ".join(words))
    return values + [" ".join(f"w{i}:{i}" for i in range(1, 400))]


def _query(r: Random, depth: int) -> str:
    if depth == 0 or r.random() < 0.25:
        marks = r.choice(["", "", "*", "A", "AB", "*CD", "ABCD", "D"])
        return _lexeme(r) + (f":{marks}" if marks else "")
    if r.random() < 0.2:
        return f"!({_query(r, depth - 1)})"
    operator = r.choice(["&", "|", "<->", "<2>", "<0>", "<16384>"])
    return f"({_query(r, depth - 1)} {operator} {_query(r, depth - 1)})"


def tsqueries(r: Random) -> list[str]:
    chain = " & ".join(f"w{i}" for i in range(300))
    values = ["", "a", "!a", "!!a", "a & !(b | c)", "a <-> (b <-> c)", "(a <-> b) <-> c", "!(a <-> b)", chain]
    deep = "a"
    for i in range(150):
        deep = f"(w{i} {'&|'[i % 2]} ({deep}))"
    return values + [deep] + [_query(r, r.randrange(1, 6)) for _ in range(2000)]


def _number(r: Random) -> str:
    return r.choice(["0", "1", "1.50", "1e10", "123456789012345678901234567890", "0.0001"])


def _expression(r: Random, depth: int) -> str:
    if depth == 0:
        literals = [_number(r), '"text"', "null", "true", "false", '"q\\"\\n"']
        return r.choice(["$", "@", '$"va r"', *literals]) + _steps(r, 0)
    left, right = _expression(r, depth - 1), _expression(r, depth - 1)
    kind = r.randrange(4)
    if kind == 0:
        return f"({left} {r.choice('+-*/%')} {right})"
    if kind == 1:
        return f"{r.choice('+-')}({left})"
    return r.choice(["$", "@"]) + _steps(r, depth)


def _predicate(r: Random, depth: int) -> str:
    if depth == 0:
        return f"@.a == {_number(r)}"
    left = _expression(r, depth - 1)
    ways: list[Callable[[], str]] = [
        lambda: f"{left} {r.choice(['==', '!=', '<', '>', '<=', '>='])} {_expression(r, depth - 1)}",
        lambda: f"({_predicate(r, depth - 1)} {r.choice(['&&', '||'])} {_predicate(r, depth - 1)})",
        lambda: f"!({_predicate(r, depth - 1)})",
        lambda: f"({_predicate(r, depth - 1)}) is unknown",
        lambda: f"exists ({left})",
        lambda: f'{left} starts with "x"',
        lambda: f'{left} like_regex "^a.*\\\\d"' + r.choice(["", ' flag "i"', ' flag "ismx"', ' flag "iq"']),
    ]
    return r.choice(ways)()


def _steps(r: Random, depth: int) -> str:
    return "".join(_step(r, depth) for _ in range(r.randrange(4)))


def _step(r: Random, depth: int) -> str:
    steps = [".a", '."k e"', ".*", "[*]", "[0]", "[1 to 3]", "[0, last]", "[last - 1 to last]", ".**", ".**{2}"]
    steps += [
        ".**{1 to 3}",
        ".**{last}",
        ".**{2 to last}",
        ".**{last to 4}",
        ".type()",
        ".size()",
        ".abs()",
        ".floor()",
    ]
    steps += [".ceiling()", ".double()", ".datetime()", '.datetime("YYYY")', ".keyvalue()"]
    if depth > 0 and r.random() < 0.3:
        return f" ? ({_predicate(r, depth - 1)})"
    return r.choice(steps)


_NEW_STEPS = [".bigint()", ".boolean()", ".date()", ".decimal()", ".decimal(5)", ".decimal(5, 2)", ".integer()"]
_NEW_STEPS += [".number()", ".string()", ".time()", ".time(3)", ".time_tz()", ".time_tz(2)", ".timestamp(6)"]
_NEW_STEPS += [".timestamp()", ".timestamp_tz()", ".timestamp_tz(0)"]
_STRING_STEPS = ['.replace("a", "b\\"c")', ".lower()", ".upper()", ".initcap()", '.split_part(",", 2)']
_STRING_STEPS += [f".{side}trim({what})" for side in "lrb" for what in ("", '"x y"')]


def jsonpaths(r: Random, major: int) -> list[str]:
    values = ["$", "strict $", "lax $.a", "1", "$.a.b[*] ? (@.c > 1 && @.d < 2).e", "-1", "-$.a", "(1).type()"]
    values += ["$.a + 1 * 2", "($.a + 1) * 2", '$[*] ? (@ like_regex "a" flag "q")', "$.a ? (@ > 1) ? (@ < 2)"]
    if major >= 17:
        values += [f"$.a{step}{other}" for step in _NEW_STEPS for other in ("", ".b", ".type()")]
    if major >= 19:
        values += [f"$.a{step}{other}" for step in _STRING_STEPS for other in ("", ".b", *_STRING_STEPS)]
    for _ in range(2500):
        depth = r.randrange(5)
        if r.random() < 0.3:
            values.append(r.choice(["", "strict "]) + _predicate(r, depth).replace("@", "$"))
        else:
            values.append(r.choice(["", "strict "]) + "$" + _steps(r, depth))
    return values


def xmls(r: Random) -> list[str]:
    values = ["", "<a/>", "\n<a/>", "plain", "<?xml version='1.0'?><a/>", '<?xml version="1.0"?>\n\n<a/>']
    values += ['<?xml version="1.1"?><a/>', '<?xml version="1.0" standalone="yes"?><a/>', "<?xml-x y?><a/>"]
    values += ["<?xml version = '1.0'  encoding='utf-8' standalone = 'no' ?>\n<a/>", "<a>日本</a>", "<a/><b/>"]
    for _ in range(400):
        head = r.choice(["", "<?xml version='1.0'?>", '<?xml version="1.0" encoding="UTF-8"?>'])
        head = head or r.choice(["", '<?xml version="1.0" standalone="no"?>'])
        values.append(
            head + r.choice(["", "\n", " "]) + f"<a b='{r.randrange(99)}'>{r.choice(['é', 'x', '&amp;'])}</a>"
        )
    return values


def snapshots(r: Random) -> list[str]:
    values = ["1:1:", "3:5:3,4", "9223372036854775806:9223372036854775807:"]
    for _ in range(300):
        low = r.randrange(1, 1 << r.randrange(1, 62))
        running = sorted({low + r.randrange(50) for _ in range(r.randrange(30))})
        values.append(f"{low}:{low + 50}:{','.join(map(str, running))}")
    return values


VALUES: dict[str, Callable[[Random, int], list[str]]] = {
    "tsvector": lambda r, _: tsvectors(r),
    "tsquery": lambda r, _: tsqueries(r),
    "jsonpath": jsonpaths,
    "xml": lambda r, _: xmls(r),
    "txid_snapshot": lambda r, _: snapshots(r),
    "pg_snapshot": lambda r, _: snapshots(r),
}
"""By type, what it may hold in a major version; the server may refuse some of the paths."""
