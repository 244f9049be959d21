"""Values of types that extensions bring."""

from __future__ import annotations

import random
from collections.abc import Callable

from values.generated_values import TEXTS

Random = random.Random
EXTENSIONS = ("citext", "hstore", "ltree", "cube", "lo", "intarray", "isn", "seg")


def _hstore_string(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def hstores(r: Random) -> list[str]:
    texts = [text for text in TEXTS if text != "\x01"] + ["k" * 300]
    values = [""]
    for _ in range(600):
        pairs = (
            f"{_hstore_string(r.choice(texts))}=>{r.choice(['NULL', _hstore_string(r.choice(texts))])}"
            for _ in range(r.randrange(8))
        )
        values.append(", ".join(pairs))
    return values


def ltrees(r: Random) -> list[str]:
    labels = ["a", "Top", "x_1", "b" * 255, "42"]
    return ["", "a", *(".".join(r.choice(labels) for _ in range(r.randrange(1, 9))) for _ in range(400))]


def cubes(r: Random) -> list[str]:
    values = ["(0)", "(1,2),(1,2)", "(1,2),(3,4)", "(NaN)", "(0),(-0)", "(NaN),(NaN)", "(Infinity),(-Infinity)"]
    for _ in range(500):
        size = r.randrange(1, 6)
        corners = [",".join(repr(round(r.uniform(-1e6, 1e6), r.randrange(9))) for _ in range(size)) for _ in range(2)]
        values.append(f"({corners[0]})" if r.random() < 0.4 else f"({corners[0]}),({corners[r.randrange(2)]})")
    return values


def _floats(r: Random, count: int, scale: float) -> list[str]:
    return [repr(round(r.uniform(-scale, scale), r.randrange(8))) for _ in range(count)]


def vectors(r: Random) -> list[str]:
    values = ["[0]", "[1,2.5,-3e-30]", "[" + ",".join(["0.5"] * 2000) + "]"]
    return values + ["[" + ",".join(_floats(r, r.randrange(1, 20), 1e5)) + "]" for _ in range(500)]


def halfvecs(r: Random) -> list[str]:
    values = ["[0]", "[65504,-65504,6e-08,6.1e-05,-0]"]
    return values + ["[" + ",".join(_floats(r, r.randrange(1, 20), 10 ** r.uniform(-7, 4))) + "]" for _ in range(800)]


def sparsevecs(r: Random) -> list[str]:
    values = ["{}/3", "{1:1}/1", "{1000000:0.5}/1000000"]
    for _ in range(300):
        size = r.randrange(1, 100)
        places = sorted(r.sample(range(1, size + 1), r.randrange(size)))
        values.append("{" + ",".join(f"{i}:{r.uniform(-9, 9)!r}" for i in places) + f"}}/{size}")
    return values


def _word(r: Random) -> str:
    return r.choice(["a", "Top", "x_1"]) + r.choice(["", "%", "@", "*", "%@*"])


def _lquery_level(r: Random) -> str:
    if r.random() < 0.3:
        return "*" + r.choice(["", "{2}", "{0}", "{,3}", "{2,}", "{1,4}", "{,}"])
    words = "|".join(_word(r) for _ in range(r.randrange(1, 4)))
    return r.choice(["", "", "!"]) + words + r.choice(["", "", "{2}", "{,}", "{0,5}"])


def lqueries(r: Random) -> list[str]:
    return ["a", *(".".join(_lquery_level(r) for _ in range(r.randrange(1, 7))) for _ in range(400))]


def _query(r: Random, leaf: Callable[[Random], str], depth: int) -> str:
    if depth == 0 or r.random() < 0.2:
        return leaf(r)
    if r.random() < 0.25:
        return f"!({_query(r, leaf, depth - 1)})"
    return f"({_query(r, leaf, depth - 1)} {r.choice('&|')} {_query(r, leaf, depth - 1)})"


def ltxtqueries(r: Random) -> list[str]:
    return [_query(r, _word, r.randrange(6)) for _ in range(500)]


def integer_queries(r: Random) -> list[str]:
    return [_query(r, lambda r: str(r.randrange(-9, 10**6)), r.randrange(6)) for _ in range(500)]


def _isn(prefixes: tuple[str, ...], length: int) -> Callable[[Random], list[str]]:
    """Make numbers that begin so, their check digit to be found, some of them with a wrong one."""

    def values(r: Random) -> list[str]:
        numbers = []
        for _ in range(500):
            digits = (r.choice(prefixes) + r.choice("0123456789") * r.randrange(6)).ljust(length, "x")[:length]
            number = "".join(r.choice("0123456789") if digit == "x" else digit for digit in digits)
            numbers.append(number + r.choice(["?", "?", f"{r.randrange(10)}!"]))
        return numbers

    return values


def _bound(r: Random) -> str:
    sign = r.choice(["", "", "", "<", ">", "~"])
    number = r.choice(["0", "-0.00", "1", "9.99", "0.0001", "99999.5", "0.000099999", "1e10", "-12.340", "1234567"])
    if r.random() < 0.7:
        number = f"{r.uniform(-1, 1) * 10 ** r.uniform(-9, 9):.{r.randrange(8)}{r.choice('efg')}}"
    return sign + number


def segs(r: Random) -> list[str]:
    values = ["~1 .. 2", "1 .. ~2", "<1 .. >2", "0", "-0", "1.5e-38"]
    for _ in range(1200):
        low, high = sorted((_bound(r), _bound(r)), key=lambda bound: float(bound.lstrip("<>~")))
        values.append(r.choice([low, f"{low} .. {high}", f"{low} ..", f".. {high}", f"{low}..{high}", "5(+-)0.1"]))
    return values


VALUES: dict[str, Callable[[Random], list[str]]] = {
    "citext": lambda _r: [text for text in TEXTS for _ in range(4)],
    "hstore": hstores,
    "ltree": ltrees,
    "lquery": lqueries,
    "ltxtquery": ltxtqueries,
    "query_int": integer_queries,
    "cube": cubes,
    "seg": segs,
    "ean13": _isn(("978", "979", "977", "9790", "0", "04", "36", "99", "x"), 12),
    "isbn": _isn(("978", "9791", "9798"), 12),
    "isbn13": _isn(("978", "9791"), 12),
    "ismn": _isn(("9790",), 12),
    "ismn13": _isn(("9790",), 12),
    "issn": _isn(("977",), 12),
    "issn13": _isn(("977",), 12),
    "upc": _isn(("0",), 12),
    "lo": lambda r: [str(r.randrange(1 << 32)) for _ in range(100)],
}
VECTORS = {"vector": vectors, "halfvec": halfvecs, "sparsevec": sparsevecs}
