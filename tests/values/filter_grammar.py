"""Random row filters, directed by types: whatever is written here the server takes, and so must Headwater.

A column of each type is called ``c_TYPE``. Literals come from the pool of the column's values, so that comparisons meet
equal ones.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Random = random.Random

ARRAYS = ("int4", "int8", "text", "numeric", "float8", "date", "bool", "name", "bytea", "interval")
"""Types of which there are columns of arrays, called by their plural."""

RANGES = {"int4range": "int4", "int8range": "int8", "numrange": "numeric", "tsrange": "timestamp", "daterange": "date"}
"""Range types, and the kinds of their bounds."""

COLUMNS: dict[str, str] = {
    "bool": "bool",
    "int2": "int2",
    "int4": "int4",
    "int8": "int8",
    "float4": "float4",
    "float8": "float8",
    "numeric": "numeric",
    "amount": "numeric(20,6)",
    "text": "text",
    "varchar": "varchar(40)",
    "bpchar": "char(35)",
    "letter": '"char"',
    "name": "name",
    "bytea": "bytea",
    "uuid": "uuid",
    "date": "date",
    "time": "time",
    "timetz": "timetz",
    "timestamp": "timestamp",
    "timestamptz": "timestamptz",
    "interval": "interval",
    "money": "money",
    "oid": "oid",
    "xid": "xid",
    "xid8": "xid8",
    "inet": "inet",
    "cidr": "cidr",
    "macaddr": "macaddr",
    "macaddr8": "macaddr8",
    "varbit": "bit varying",
    "bit": "bit(7)",
    "pg_lsn": "pg_lsn",
    "json": "json",
    "jsonb": "jsonb",
    **{name: name for name in RANGES},
    **{f"{name}s": f"{name}[]" for name in ARRAYS},
}
"""The table's columns, without ``c_``, and their types."""

KINDS = {"amount": "numeric", "letter": "char"}
"""Of columns that are not called as their kind of expression."""

CASTS = {"char": '"char"', "bpchar": "char(35)", "varbit": "bit varying", "varchar": "varchar(40)", "bit": "bit(7)"}
CASTS |= {f"{name}s": f"{name}[]" for name in ARRAYS}
"""How the type of a kind of expression is written where it is not the kind's own name."""

UNORDERED = ("xid", "jsonb")
"""Kinds that can be equal only."""

UNLIKE = ("json",)
"""Kinds that cannot even be equal."""

NO_EXTREMES = (*UNORDERED, *UNLIKE, *RANGES, *(f"{name}s" for name in ARRAYS))
"""Kinds that GREATEST and LEAST do not take here."""

MIXED = (
    [(a, b) for a in ("int2", "int4", "int8") for b in ("int2", "int4", "int8") if a != b]
    + [("float4", "float8"), ("float8", "float4"), ("date", "timestamp"), ("timestamp", "date")]
    + [("name", "text"), ("text", "name"), ("inet", "cidr"), ("varchar", "text"), ("text", "varchar")]
    + [("bpchar", "bpchar"), ("int4", "numeric"), ("float8", "int4"), ("varchar", "name")]
)
"""Kinds that an operator compares as they are, or by implicit casts."""

FUNCTIONS: dict[str, list[tuple[str, Sequence[str]]]] = {}
"""By the kind of the result, templates and the kinds of their arguments; ``'...`` a literal of a kind."""


def _arithmetic() -> dict[str, list[tuple[str, Sequence[str]]]]:
    """List functions of numbers, with numbers of other widths."""
    templates: dict[str, list[tuple[str, Sequence[str]]]] = {}
    whole = ("int2", "int4", "int8")
    for left in whole:
        for right in whole:
            wider = whole[max(whole.index(left), whole.index(right))]
            templates.setdefault(wider, []).extend((f"{{}} {sign} {{}}", (left, right)) for sign in "+-*/")
    for kind in whole:
        templates[kind] += [(f"{{}} {sign} {{}}", (kind, kind)) for sign in "%&|#"]
        templates[kind] += [("- {}", (kind,)), ("+ {}", (kind,)), ("~ {}", (kind,)), ("abs({})", (kind,))]
        templates[kind] += [("mod({}, {})", (kind, kind)), ("{} << {}", (kind, "int4")), ("{} >> {}", (kind, "int4"))]
        templates[kind] += [
            (f"{{}}::{kind}", (other,)) for other in (*whole, "float4", "float8", "numeric") if other != kind
        ]
    for left, right in (("float4", "float4"), ("float8", "float8"), ("float4", "float8"), ("float8", "float4")):
        kind = "float4" if left == right == "float4" else "float8"
        templates.setdefault(kind, []).extend((f"{{}} {sign} {{}}", (left, right)) for sign in "+-*/")
    for kind in ("float4", "float8"):
        templates[kind] += [("- {}", (kind,)), ("abs({})", (kind,))]
        templates[kind] += [
            (f"{{}}::{kind}", (other,)) for other in (*whole, "float4", "float8", "numeric") if other != kind
        ]
    for name in ("round", "trunc", "ceil", "floor", "sign", "sqrt", "ceiling"):
        templates["float8"].append((f"{name}({{}})", ("float8",)))
    templates["numeric"] = [(f"{{}} {sign} {{}}", ("numeric", "numeric")) for sign in "+-*/%"]
    templates["numeric"] += [
        (f"{name}({{}})", ("numeric",)) for name in ("abs", "ceil", "floor", "sign", "round", "trunc", "-")
    ]
    templates["numeric"] += [
        ("round({}, 2)", ("numeric",)),
        ("trunc({}, 1)", ("numeric",)),
        ("round({}, -2)", ("numeric",)),
    ]
    templates["numeric"] += [("div({}, {})", ("numeric", "numeric")), ("{}::numeric(12,3)", ("numeric",))]
    templates["numeric"] += [(f"{{}}::{kind}", ("numeric",)) for kind in ("numeric(5,2)", "numeric(8,-2)")]
    templates["numeric"] += [("{}::numeric", (other,)) for other in (*whole, "float4", "float8")]
    templates["money"] = [("{} + {}", ("money", "money")), ("{} - {}", ("money", "money"))]
    return templates


FUNCTIONS |= _arithmetic()
FUNCTIONS["int4"] += [
    ("length({})", ("text",)),
    ("length({})", ("bpchar",)),
    ("octet_length({})", ("text",)),
    ("length({})", ("bytea",)),
    ("char_length({})", ("varchar",)),
    ("strpos({}, {})", ("text", "'text")),
    ("position({} in {})", ("text", "text")),
    ("{}::int4", ("char",)),
    ("{}::int4", ("bool",)),
    ("ascii({})", ("text",)),
    ("length({})", ("varbit",)),
    ("get_byte({}, 1)", ("bytea",)),
]
FUNCTIONS["int8"] += [("{}::int8", ("oid",))]
FUNCTIONS["oid"] = [("{}::oid", ("int8",)), ("{}::oid", ("int4",))]
FUNCTIONS["text"] = [
    ("lower({})", ("text",)),
    ("upper({})", ("text",)),
    ("initcap({})", ("text",)),
    ("substr({}, {})", ("text", "int4")),
    ("substr({}, 2, 3)", ("text",)),
    ("substring({} from {} for {})", ("text", "int4", "int4")),
    ("left({}, {})", ("text", "int4")),
    ("right({}, {})", ("text", "int4")),
    ("left({}, -2)", ("text",)),
    ("right({}, -2)", ("text",)),
    ("{} || {}", ("text", "text")),
    ("{} || {}", ("text", "varchar")),
    ("trim({})", ("text",)),
    ("ltrim({}, {})", ("text", "'text")),
    ("rtrim({}, {})", ("text", "'text")),
    ("btrim({}, 'ab ')", ("text",)),
    ("lpad({}, 5, {})", ("text", "text")),
    ("rpad({}, 7)", ("text",)),
    ("replace({}, {}, {})", ("text", "text", "text")),
    ("repeat({}, 3)", ("text",)),
    ("reverse({})", ("text",)),
    ("split_part({}, {}, 1)", ("text", "text")),
    ("split_part({}, ' ', -1)", ("text",)),
    ("translate({}, {}, {})", ("text", "text", "text")),
    ("chr({})", ("int4",)),
    ("md5({})", ("text",)),
    ("to_hex({})", ("int4",)),
    ("to_hex({})", ("int8",)),
    ("{}::text", ("varchar",)),
    ("{}::text", ("bpchar",)),
    ("{}::text", ("name",)),
    ("{}::text", ("char",)),
    ("{}::text", ("bool",)),
]
FUNCTIONS["varchar"] = [("{}::varchar(3)", ("text",)), ("{}::varchar(8)", ("bpchar",)), ("{}::varchar", ("text",))]
FUNCTIONS["bpchar"] = [("{}::char(3)", ("text",)), ("{}::char(40)", ("bpchar",)), ("{}::bpchar", ("varchar",))]
FUNCTIONS["name"] = [("{}::name", ("text",)), ("{}::name", ("bpchar",))]
FUNCTIONS["char"] = [('{}::"char"', ("text",)), ('{}::"char"', ("int4",))]
FUNCTIONS["bytea"] = [("{} || {}", ("bytea", "bytea")), ("substr({}, 2)", ("bytea",)), ("sha256({})", ("bytea",))]
FUNCTIONS["bytea"] += [("trim({} from {})", ("bytea", "bytea"))]
FUNCTIONS["bit"] = [("{}::bit(7)", ("bit",)), ("{}::bit(7)", ("varbit",))]
FUNCTIONS["varbit"] = [("{}::varbit(5)", ("varbit",)), ("{}::bit(20)", ("varbit",))]
FUNCTIONS["bool"] = [
    ("{} like {}", ("text", "'text")),
    ("{} not like {}", ("text", "text")),
    ("{} ilike {}", ("text", "text")),
    ("{} like 'a%'", ("varchar",)),
    ("{} like '%b_'", ("text",)),
    ("{} like E'%\\\\'", ("text",)),
    ("{} like '%c' escape 'a'", ("text",)),
    ("{} like {} escape ''", ("text", "text")),
    ("{} not ilike '%B%'", ("bpchar",)),
    ("{} like {}", ("name", "text")),
    ("{} like {}", ("bytea", "bytea")),
    ("starts_with({}, {})", ("text", "text")),
    ("{} ^@ 'a'", ("text",)),
    ("{}::bool", ("int4",)),
    ("{}", ("bool",)),
]


DATE_UNITS = ["day", "month", "quarter", "week", "year", "decade", "century", "millennium", "isoyear", "dow", "isodow"]
DATE_UNITS += ["doy", "epoch"]
TIME_UNITS = ["microseconds", "milliseconds", "second", "minute", "hour", "epoch"]
TRUNCATED = ["week", "month", "quarter", "year", "decade", "century", "millennium", "day", "milliseconds", "second"]
TRUNCATED += ["minute", "hour"]
FUNCTIONS["numeric"] += [(f"extract({unit} from {{}})", ("date",)) for unit in (*DATE_UNITS, "julian", "hour")]
FUNCTIONS["numeric"] += [
    (f"extract({unit} from {{}})", ("timestamp",)) for unit in (*DATE_UNITS, *TIME_UNITS[:-1], "timezone")
]
FUNCTIONS["numeric"] += [(f"extract({unit} from {{}})", ("time",)) for unit in (*TIME_UNITS, "year")]
FUNCTIONS["float8"] += [(f"date_part('{unit}', {{}})", ("timestamp",)) for unit in (*DATE_UNITS, *TIME_UNITS[:-1])]
FUNCTIONS["float8"] += [("date_part('year', {})", ("date",)), ("date_part('second', {})", ("time",))]
FUNCTIONS["date"] = [
    ("{} + {}", ("date", "int4")),
    ("{} - {}", ("date", "int4")),
    ("{} + {}", ("int4", "date")),
    ("{} + 7", ("date",)),
    ("{}::date", ("timestamp",)),
    ("make_date({}, {}, 28)", ("int4", "int4")),
    ("make_date({}, 2, 29)", ("int4",)),
]
FUNCTIONS["time"] = [
    ("{} + {}", ("time", "interval")),
    ("{} - {}", ("time", "interval")),
    ("{}::time", ("timestamp",)),
    ("{}::time", ("interval",)),
    ("{} + {}", ("interval", "time")),
]
FUNCTIONS["timestamp"] = [
    ("{}::timestamp", ("date",)),
    ("{} + {}", ("timestamp", "interval")),
    ("{} - {}", ("timestamp", "interval")),
    ("{} + {}", ("interval", "timestamp")),
    ("{} + {}", ("date", "interval")),
    ("{} - {}", ("date", "interval")),
    ("{} + {}", ("interval", "date")),
    ("{} + interval '1 mon -1 day 3 hours'", ("timestamp",)),
    ("{} - interval '13 mons'", ("timestamp",)),
    ("{} + {}", ("date", "time")),
    ("{} + {}", ("time", "date")),
    *((f"date_trunc('{unit}', {{}})", ("timestamp",)) for unit in TRUNCATED),
]
FUNCTIONS["interval"] = [
    ("{} - {}", ("timestamp", "timestamp")),
    ("{} - {}", ("timestamptz", "timestamptz")),
    ("{} - {}", ("time", "time")),
    ("{} + {}", ("interval", "interval")),
    ("{} - {}", ("interval", "interval")),
    ("- {}", ("interval",)),
    ("{}::interval", ("time",)),
]
FUNCTIONS["int4"] += [("{} - {}", ("date", "date"))]
FUNCTIONS["bool"] += [("isfinite({})", (kind,)) for kind in ("date", "timestamp", "timestamptz", "interval")]

for _name in ARRAYS:
    _many = f"{_name}s"
    FUNCTIONS["bool"] += [("{} @> {}", (_many, _many)), ("{} <@ {}", (_many, _many)), ("{} && {}", (_many, _many))]
    FUNCTIONS["bool"] += [("{} = any ({})", (_name, _many)), ("{} <> all ({})", (_name, _many))]
    FUNCTIONS["bool"] += [("{} > any ({})", (_name, _many)), ("{} = any ({})", (_name, f"'{_many}"))]
    FUNCTIONS["bool"] += [("{} && array[{}, {}]", (_many, _name, _name))]
    FUNCTIONS["int4"] += [("array_length({}, 1)", (_many,)), ("cardinality({})", (_many,))]
    FUNCTIONS[_many] = [("array[{}, {}]", (_name, _name)), ("array[{}]", (f"'{_name}",))]
FUNCTIONS["int4"] += [
    ("array_upper({}, 1)", ("int4s",)),
    ("array_lower({}, 2)", ("texts",)),
    ("array_ndims({})", ("texts",)),
]


_STEPS = ("a", "b", "0", "-1", "c", "")
for _step in _STEPS:
    FUNCTIONS["text"] += [(f"{{}} ->> '{_step}'", ("jsonb",)), (f"{{}} ->> '{_step}'", ("json",))]
    FUNCTIONS["bool"] += [(f"{{}} ? '{_step}'", ("jsonb",)), (f"{{}} ?| array['{_step}', 'b']", ("jsonb",))]
FUNCTIONS["text"] += [
    ("{} ->> 0", ("jsonb",)),
    ("{} ->> -1", ("json",)),
    ("{} -> 'a' ->> 'b'", ("jsonb",)),
    ("{} -> 'a' ->> 'b'", ("json",)),
    ("{} -> 'a' ->> 1", ("json",)),
    ("{} #>> '{{a,b}}'", ("jsonb",)),
    ("{} #>> '{{a,1}}'", ("jsonb",)),
    ("{} #>> '{{}}'", ("jsonb",)),
    ("jsonb_typeof({})", ("jsonb",)),
    ("json_typeof({})", ("json",)),
    ("jsonb_typeof({} -> 'a')", ("jsonb",)),
]
FUNCTIONS["jsonb"] = [
    ("{} -> 'a'", ("jsonb",)),
    ("{} -> 0", ("jsonb",)),
    ("{} -> {}", ("jsonb", "int4")),
    ("{} -> {}", ("jsonb", "text")),
    ("{} #> '{{a,b}}'", ("jsonb",)),
    ("{} #> {}", ("jsonb", "texts")),
]
FUNCTIONS["bool"] += [
    ("{} @> {}", ("jsonb", "jsonb")),
    ("{} <@ {}", ("jsonb", "'jsonb")),
    ("{} ?& array['a', 'b']", ("jsonb",)),
    ("{} ?| {}", ("jsonb", "texts")),
    ("{} @> '{{\"a\": 1}}'", ("jsonb",)),
    ("{} @> '[1]'", ("jsonb",)),
    ("({} -> 'a')::bool", ("jsonb",)),
]
FUNCTIONS["int4"] += [("jsonb_array_length({})", ("jsonb",)), ("({} -> 'a')::int4", ("jsonb",))]
FUNCTIONS["numeric"] += [("({} -> 'a')::numeric", ("jsonb",))]
FUNCTIONS["float8"] += [("({} -> 'a')::float8", ("jsonb",))]


PATTERNS = [
    r"^a",
    r"b|c$",
    r"[a-c]{{2,3}}",
    r"^[^a-z]",
    r"\d+",
    r"\s",
    r"^\w*$",
    r"a.c",
    r"(ab|X)+?c?",
    r"[[:upper:]]{{1,}}",
    r"[]x[,.-]",
    r"\.|\{{|\\",
    r"\mabc\M",
    r"^(?:[[:alpha:]]|[0-9_])+\Z",
    r"\yY|é|日",
    r"[^[:space:]a]b?$",
    r"^$",
    r"{{a",
    r"[[:punct:]]",
    r"a|",
    r"[\w-]+[\d.]",
    r"\D\W\S",
]
for _sign in ("~", "!~", "~*", "!~*"):
    FUNCTIONS["bool"] += [(f"{{}} {_sign} '{_pattern}'", ("text",)) for _pattern in PATTERNS]
FUNCTIONS["bool"] += [
    ("{} ~ '^a.*[ ]$'", ("bpchar",)),
    ("{} ~ 'a'", ("name",)),
    ("regexp_like({}, '[b-d]')", ("text",)),
]

for _range, _bound in RANGES.items():
    for _sign in ("@>", "<@", "&&", "<<", ">>", "&<", "&>"):
        FUNCTIONS["bool"].append((f"{{}} {_sign} {{}}", (_range, _range)))
    FUNCTIONS["bool"] += [("{} @> {}", (_range, _bound)), ("{} <@ {}", (_bound, _range))]
    for _name in ("isempty", "lower_inc", "upper_inc", "lower_inf", "upper_inf"):
        FUNCTIONS["bool"].append((f"{_name}({{}})", (_range,)))
    FUNCTIONS[_bound] += [("lower({})", (_range,)), ("upper({})", (_range,))]
for _sign in ("<<", "<<=", ">>", ">>=", "&&"):
    FUNCTIONS["bool"] += [(f"{{}} {_sign} {{}}", ("inet", "inet")), (f"{{}} {_sign} '10.0.0.0/8'", ("inet",))]
    FUNCTIONS["bool"] += [(f"{{}} {_sign} {{}}", ("inet", "cidr"))]
FUNCTIONS["bool"] += [("inet_same_family({}, {})", ("inet", "inet"))]
FUNCTIONS["int4"] += [("family({})", ("inet",)), ("masklen({})", ("cidr",))]
FUNCTIONS["cidr"] = [("network({})", ("inet",)), ("{}::cidr", ("inet",)), ("set_masklen({}, 7)", ("cidr",))]
FUNCTIONS["inet"] = [
    ("broadcast({})", ("inet",)),
    ("netmask({})", ("inet",)),
    ("set_masklen({}, {})", ("inet", "int4")),
]
FUNCTIONS["inet"] += [("hostmask({})", ("inet",)), ("{}::inet", ("cidr",))]
FUNCTIONS["int8"] += [("{} - {}", ("inet", "inet"))]
FUNCTIONS["macaddr"] = [("trunc({})", ("macaddr",))]
FUNCTIONS["macaddr8"] = [("trunc({})", ("macaddr8",))]

for _name in ("int2", "int4", "int8", "oid", "float4", "float8", "text", "bpchar", "name"):
    FUNCTIONS["int4"].append((f"hash{_name}({{}})", (_name,)))
    FUNCTIONS["int8"].append((f"hash{_name}extended({{}}, {{}})", (_name, "int8")))
for _name in ("uuid", "time", "timestamp", "pg_lsn"):
    FUNCTIONS["int4"].append((f"{_name}_hash({{}})", (_name,)))
    FUNCTIONS["int8"].append((f"{_name}_hash_extended({{}}, 0)", (_name,)))

for _zone in ("UTC", "Europe/Oslo", "america/new_york", "Asia/Kathmandu", "Pacific/Apia"):
    FUNCTIONS["timestamp"].append((f"{{}} at time zone '{_zone}'", ("timestamptz",)))


@dataclass
class Grammar:
    """A writer of expressions.

    Attributes:
        r: where chance comes from.
        pools: literals of each kind.
        functions: see :data:`FUNCTIONS`.
    """

    r: Random
    pools: Mapping[str, Sequence[str]]
    functions: Mapping[str, Sequence[tuple[str, Sequence[str]]]]

    def filter(self) -> str:
        """Write a filter."""
        return self.truth(self.r.choice([1, 2, 2, 3, 4]))

    def literal(self, kind: str) -> str:
        """Write a literal, now and then NULL."""
        type = CASTS.get(kind, kind)
        if self.r.random() < 0.04:
            return f"null::{type}"
        value = self.r.choice(self.pools[kind]).replace("'", "''")
        escape = " E" if "\\" in value else " "
        value = value.replace("\\", "\\\\")
        return f"{escape}'{value}'::{type}"

    def column(self, kind: str) -> str:
        """Choose a column of a kind."""
        return "c_" + self.r.choice([name for name in COLUMNS if KINDS.get(name, name) == kind])

    def value(self, kind: str, depth: int) -> str:
        """Write an expression of a kind."""
        r = self.r
        choice = r.random()
        if kind == "bool" and depth > 0 and choice < 0.7:
            return f"({self.truth(depth - 1)})"
        if depth <= 0 or choice < 0.45:
            return self.column(kind) if r.random() < 0.75 else self.literal(kind)
        if choice < 0.85 and self.functions.get(kind):
            template, arguments = r.choice(self.functions[kind])
            return "(" + template.format(*(self.argument(argument, depth - 1) for argument in arguments)) + ")"
        return f"({self._chosen(kind, depth - 1)})"

    def argument(self, kind: str, depth: int) -> str:
        """Write an argument of a function: of a kind, or a literal that is written out."""
        return self.literal(kind[1:]) if kind[0] == "'" else self.value(kind, depth)

    def _chosen(self, kind: str, depth: int) -> str:
        """Write one of several values of a kind."""
        r = self.r
        form = r.randrange(5) if kind not in UNLIKE else r.choice([0, 4])
        if form == 0:
            return f"coalesce({self.value(kind, depth)}, {self.value(kind, depth)})"
        if form == 1:
            return f"nullif({self.value(kind, depth)}, {self.value(kind, depth)})"
        if form == 2 and kind not in NO_EXTREMES:
            values = ", ".join(self.value(kind, depth) for _ in range(r.choice([2, 3])))
            return f"{r.choice(['greatest', 'least'])}({values})"
        if form == 3:
            whens = " ".join(f"when {self.value(kind, depth)} then {self.value(kind, depth)}" for _ in range(2))
            return f"case {self.value(kind, depth)} {whens} else {self.value(kind, depth)} end"
        otherwise = f"else {self.value(kind, depth)} " if r.random() < 0.7 else ""
        return f"case when {self.truth(depth)} then {self.value(kind, depth)} {otherwise}end"

    def kind(self) -> str:
        """Choose any kind that can be compared."""
        name = self.r.choice([name for name in COLUMNS if name not in UNLIKE])
        return KINDS.get(name, name)

    def truth(self, depth: int) -> str:
        """Write something true or false."""
        r = self.r
        if depth > 0 and r.random() < 0.5:
            sides = [f"({self.truth(depth - 1)})" for _ in range(r.choice([2, 2, 3]))]
            form = r.randrange(5)
            if form == 0:
                return f"not ({sides[0]})"
            if form == 1:
                return (
                    f"({sides[0]}) is {r.choice(['true', 'not true', 'false', 'not false', 'unknown', 'not unknown'])}"
                )
            return r.choice([" and ", " or "]).join(sides)
        if self.functions.get("bool") and r.random() < 0.35:
            template, arguments = r.choice(self.functions["bool"])
            return template.format(*(self.argument(argument, depth - 1) for argument in arguments))
        return self._test(depth)

    def _test(self, depth: int) -> str:
        r, kind = self.r, self.kind()
        operator = r.choice(["=", "<>"] if kind in UNORDERED else ["=", "<>", "<", "<=", ">", ">="])
        form = r.randrange(12)
        if form == 0:
            return f"{self.value(kind, depth - 1)} is {r.choice(['', 'not '])}null"
        if form == 1:
            return (
                f"{self.value(kind, depth - 1)} is {r.choice(['', 'not '])}distinct from {self.value(kind, depth - 1)}"
            )
        if form in (2, 3):
            among = ", ".join(self.literal(kind) for _ in range(r.choice([1, 3, 12])))
            return f"{self.value(kind, depth - 1)} {r.choice(['', 'not '])}in ({among})"
        if form == 4 and operator not in ("=", "<>"):
            bounds = [self.value(kind, depth - 1) for _ in range(3)]
            return (
                f"{bounds[0]} {r.choice(['', 'not '])}between {r.choice(['', 'symmetric '])}{bounds[1]} and {bounds[2]}"
            )
        if form in (5, 6):
            left, right = r.choice(MIXED)
            operator = r.choice(["=", "<>", "<", "<=", ">", ">="])
            return f"{self.value(left, depth - 1)} {operator} {self.value(right, depth - 1)}"
        if form == 7 and operator not in ("=", "<>"):
            kinds = [candidate for candidate in (kind, self.kind(), self.kind()) if candidate not in NO_EXTREMES] or [
                "int4"
            ]
            sides = [", ".join(self.value(candidate, depth - 1) for candidate in kinds) for _ in range(2)]
            return f"row({sides[0]}) {operator} row({sides[1]})"
        if form == 8:
            return f"row({self.value(kind, depth - 1)}, {self.value(self.kind(), 0)}) is {r.choice(['', 'not '])}null"
        if form == 9 and kind[:-1] not in ARRAYS:
            among = ", ".join(self.value(kind, depth - 1) for _ in range(r.choice([1, 3])))
            return f"{self.value(kind, depth - 1)} {operator} {r.choice(['any', 'all'])} (array[{among}])"
        return f"{self.value(kind, depth - 1)} {operator} {self.value(kind, depth - 1)}"
