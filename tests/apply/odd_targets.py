"""Random targets that a stock subscriber has trouble with, and random work for them.

The publisher has a plain table. The target's has partitions with gaps, constraints, triggers that skip or raise,
identities, defaults, row security, other types: whatever the work meets there, both subscribers have to meet.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

_TYPES = {"a": "int", "b": "text", "c": "numeric"}
_OTHER_TYPES = {"a": ("bigint", "smallint", "text"), "b": ("varchar(3)", "char(2)", "s.short"), "c": ("numeric(4, 1)",)}
_TRIGGER = """
CREATE FUNCTION s.judge() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN
    IF tg_op <> 'INSERT' AND old.id % 7 = 0 THEN RETURN NULL; END IF;
    IF tg_op <> 'DELETE' AND new.id % 11 = 0 THEN RAISE 'not %', new.id USING ERRCODE = 'P0{}'; END IF;
    IF tg_op <> 'DELETE' AND new.id % 5 = 0 THEN new.b = 'five'; END IF;
    RETURN coalesce(new, old); END$$
"""
_MOST_ID = 24


@dataclass(frozen=True)
class OddTarget:
    """A case.

    Attributes:
        source, target: statements that make the tables; work: is done on the source.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    work: tuple[str, ...]


class OddTargets:
    """A generator of cases.

    Args:
        seed: of them; major: of the servers.
    """

    def __init__(self, seed: int, major: int) -> None:
        self._random, self._major = random.Random(seed), major

    def case(self) -> OddTarget:
        """Make the next case."""
        chance = self._random.random
        is_full, has_rows = chance() < 0.3, chance() < 0.5
        key = "" if is_full else " PRIMARY KEY"
        source = [f"CREATE TABLE s.t (id int{key}, a int, b text, c numeric)"]
        source += ["ALTER TABLE s.t REPLICA IDENTITY FULL"] if is_full else []
        rows = self._insert(range(1, _MOST_ID))
        source += [rows] if has_rows else []
        target = self._target(is_full=is_full)
        work = [] if has_rows else [rows]
        work += [self._transaction() for _ in range(self._random.randint(1, 6))]
        return OddTarget(tuple(source), tuple(target), tuple(work))

    def _target(self, *, is_full: bool) -> list[str]:
        chance = self._random.random
        statements = ["CREATE DOMAIN s.short AS text CHECK (length(value) < 5)"]
        types = {
            name: self._random.choice(_OTHER_TYPES[name]) if chance() < 0.15 else kind for name, kind in _TYPES.items()
        }
        columns = [f"{name} {kind}" for name, kind in types.items()]
        identity = " GENERATED ALWAYS AS IDENTITY" if chance() < 0.2 else ""
        columns.append(f"id int{identity}{' NOT NULL' if is_full else ' PRIMARY KEY'}")
        columns += ["more int DEFAULT 3"] if chance() < 0.2 and not is_full else []
        columns += ["CHECK (length(a::text) < 3)"] if chance() < 0.15 else []
        self._random.shuffle(columns)
        way = self._random.choice(("", "range", "list", "nested"))
        has_identity = bool(identity) and bool(way)
        if has_identity and self._major < 17:
            columns = [column.replace(identity, "") for column in columns]
        statements += self._tables(", ".join(columns), way)
        if chance() < 0.3:
            statements += [_TRIGGER.format(self._random.choice(("001", "042")))]
            statements += [
                "CREATE TRIGGER judge BEFORE INSERT OR UPDATE OR DELETE ON s.t FOR EACH ROW EXECUTE FUNCTION s.judge()"
            ]
            statements += [f"ALTER TABLE s.t ENABLE {self._random.choice(('ALWAYS', 'REPLICA'))} TRIGGER judge"]
        if chance() < 0.1 and not is_full:
            statements.append("CREATE UNIQUE INDEX ON s.t (id, a)" if way else "CREATE UNIQUE INDEX ON s.t (a)")
        return statements

    def _tables(self, columns: str, way: str) -> list[str]:
        if not way:
            return [f"CREATE TABLE s.t ({columns})"]
        if way == "list":
            values = ", ".join(str(number) for number in range(1, _MOST_ID + 3) if self._random.random() < 0.8)
            return [
                f"CREATE TABLE s.t ({columns}) PARTITION BY LIST (id)",
                f"CREATE TABLE s.p PARTITION OF s.t FOR VALUES IN ({values or 1})",
                "CREATE TABLE s.q PARTITION OF s.t FOR VALUES IN (50, NULL)",
            ]
        first, last = self._random.randint(0, 6), self._random.randint(15, 30)
        nested = " PARTITION BY LIST (id)" if way == "nested" else ""
        statements = [
            f"CREATE TABLE s.t ({columns}) PARTITION BY RANGE (id)",
            f"CREATE TABLE s.p PARTITION OF s.t FOR VALUES FROM ({first}) TO (12)",
            f"CREATE TABLE s.q PARTITION OF s.t FOR VALUES FROM (12) TO ({last}){nested}",
        ]
        if nested:
            values = ", ".join(str(number) for number in range(12, last) if self._random.random() < 0.8)
            statements.append(f"CREATE TABLE s.r PARTITION OF s.q FOR VALUES IN ({values or 12})")
        return statements

    def _transaction(self) -> str:
        changes = [self._change() for _ in range(self._random.choice((1, 1, 2, 5)))]
        return f"BEGIN; {'; '.join(changes)}; COMMIT" if len(changes) > 1 else changes[0]

    def _change(self) -> str:
        number = self._random.randint(1, _MOST_ID)
        where = self._random.choice(
            (f"id = {number}", f"id BETWEEN {number} AND {number + 3}", f"a % 7 = {number % 7}")
        )
        kind = self._random.choice("iuuuukd")
        if kind == "i":
            taken = "(SELECT coalesce(max(id), 0) + 1 FROM s.t)"
            return f"INSERT INTO s.t SELECT {taken}, {self._value('a')}, {self._value('b')}, {self._value('c')}"
        if kind == "d":
            return f"DELETE FROM s.t WHERE {where}"
        if kind == "k":
            return f"UPDATE s.t SET id = (SELECT max(id) + 1 FROM s.t) WHERE id = {number}"
        names = self._random.sample(sorted(_TYPES), self._random.randint(1, 2))
        return f"UPDATE s.t SET {', '.join(f'{name} = {self._value(name)}' for name in names)} WHERE {where}"

    def _insert(self, ids: range) -> str:
        rows = (f"({id}, {self._value('a')}, {self._value('b')}, {self._value('c')})" for id in ids)
        return f"INSERT INTO s.t VALUES {', '.join(rows)}"

    def _value(self, name: str) -> str:
        if self._random.random() < 0.1:
            return "NULL"
        if name == "b":
            return f"'{self._random.choice(('', 'x', 'yy', 'zzz', 'longer', 'x '))}'"
        return str(self._random.randint(0, 80)) if name == "a" else f"{self._random.randint(0, 9999) / 10}"
