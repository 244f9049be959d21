"""A random workload of one session: rows of all common types made, changed and removed, inside savepoints too."""

from __future__ import annotations

import random
from collections.abc import Iterator

SETUP = (
    "CREATE TABLE wide (id int PRIMARY KEY, n numeric, m numeric(12,3), f float8, r real, b bool, t text, y bytea,"
    " d date, c time, s timestamp, z timestamptz, i interval, u uuid, a int[], w text[], k money, v varbit)",
    "CREATE TABLE whole (a int, b text, c numeric)",
    "ALTER TABLE whole REPLICA IDENTITY FULL",
    "CREATE TABLE pair (a text, b date, c int NOT NULL, PRIMARY KEY (b, a))",
)
_TEXTS = ("", "a", "'", '"', "\\", "é☃", "x" * 3000, "{}", "NULL", "a,b")


def workload(seed: int, steps: int) -> Iterator[str]:
    """Give the statements of a seed."""
    rng = random.Random(seed)
    is_open, saved = False, False
    for _ in range(steps):
        if not is_open and rng.random() < 0.3:
            is_open = True
            yield "BEGIN"
        yield _statement(rng)
        if is_open and rng.random() < 0.3:
            yield "ROLLBACK TO SAVEPOINT s" if saved else "SAVEPOINT s"
            saved = not saved
        if is_open and rng.random() < 0.3:
            is_open, saved = False, False
            yield rng.choice(("COMMIT", "COMMIT", "ROLLBACK"))
    if is_open:
        yield "COMMIT"


def _statement(rng: random.Random) -> str:
    key, other = rng.randrange(30), rng.randrange(30)
    text = _literal(rng.choice(_TEXTS))
    kind = rng.randrange(9)
    if kind < 3:
        return f"INSERT INTO wide VALUES ({key}, {_values(rng)}) ON CONFLICT (id) DO UPDATE SET n = {_number(rng)}"
    if kind == 3:
        return f"UPDATE wide SET id = {other} WHERE id = {key} AND NOT EXISTS (SELECT 1 FROM wide WHERE id = {other})"
    if kind == 4:
        return f"DELETE FROM wide WHERE id = {key}"
    if kind == 5:
        return f"INSERT INTO whole VALUES ({key}, {text}, {_number(rng)})"
    if kind == 6:
        return f"UPDATE whole SET c = {_number(rng)} WHERE a = {key}"
    if kind == 7:
        date = f"'2020-01-{1 + key:02}'"
        return f"INSERT INTO pair VALUES ({text}, {date}, {other}) ON CONFLICT (b, a) DO UPDATE SET c = {key}"
    return rng.choice((f"DELETE FROM whole WHERE a = {key}", f"DELETE FROM pair WHERE c = {key}"))


def _values(rng: random.Random) -> str:
    micros = rng.randrange(-(10**16), 10**16)
    moment = f"timestamp '2000-01-01' + {micros} * interval '1 microsecond'"
    made = (
        *(_number(rng), f"{rng.randrange(-(10**11), 10**11)}::numeric / 1000", _float(rng), _float(rng)),
        *(rng.choice(("true", "false")), _literal(rng.choice(_TEXTS)), f"'\\x{rng.randbytes(rng.randrange(9)).hex()}'"),
        *(f"({moment})::date", f"({moment})::time", moment, f"({moment})::timestamptz"),
        f"make_interval(months => {rng.randrange(-99, 99)}, secs => {rng.randrange(-(10**9), 10**9)} / 1000.0)",
        *(f"md5('{micros}')::uuid", f"ARRAY[{micros % 1000}, NULL]", f"ARRAY[{_literal(rng.choice(_TEXTS))}]"),
        *(f"{rng.randrange(10**6)}::money", f"B'{rng.getrandbits(rng.randrange(1, 40)):b}'"),
    )
    return ", ".join("NULL" if rng.random() < 0.1 else value for value in made)


def _number(rng: random.Random) -> str:
    digits = rng.choice((1, 3, 9, 18, 19, 30, 120))
    return f"{rng.randrange(-(10**digits), 10**digits)}e{rng.randrange(-40, 20)}::numeric"


def _float(rng: random.Random) -> str:
    return f"'{rng.uniform(-1, 1):.17f}e{rng.randrange(-30, 30)}'"


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
