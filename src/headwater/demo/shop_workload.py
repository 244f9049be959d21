"""A small shop: customers, products, orders and their items, written by several sessions at once.

It has all that a decoder must get right:

- transactions that interleave and commit in another order, savepoints and rollbacks;
- columns that are added, dropped and renamed while rows are written, an enum that grows;
- descriptions that are stored out of line (compressed or not), and that updates leave unchanged;
- a table that is emptied in the middle.

One thread drives all sessions, statement by statement, so that a seed gives one interleaving.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import psycopg

SESSIONS = 4
CITIES = ("Oslo", "Lima", "Kyoto", "Accra", "Zürich", "Perth", "São Paulo", "Turku")
GOODS = ("Lamp", "Chair", "Kettle", "Rug", "Mirror", "Clock", "Vase", "Shelf", "Stool", "Blanket")
SCHEMA = """
CREATE SCHEMA shop;
CREATE TYPE shop.status AS ENUM ('new', 'paid', 'sent');
CREATE DOMAIN shop.price AS numeric(10,2) CHECK (VALUE >= 0);
CREATE TABLE shop.customers (id bigint PRIMARY KEY, name text NOT NULL, city varchar(40), vip boolean DEFAULT false,
    joined date NOT NULL, tags text[], profile jsonb);
CREATE TABLE shop.products (id integer PRIMARY KEY, name text NOT NULL, price shop.price NOT NULL, description text,
    manual text, weight real, code uuid);
ALTER TABLE shop.products ALTER manual SET STORAGE EXTERNAL;
CREATE TABLE shop.orders (id bigint PRIMARY KEY, customer bigint REFERENCES shop.customers, state shop.status NOT NULL,
    placed timestamptz NOT NULL, delivery interval);
CREATE INDEX ON shop.orders (state);
CREATE TABLE shop.order_items (order_id bigint REFERENCES shop.orders ON DELETE CASCADE, line smallint,
    product integer REFERENCES shop.products, quantity integer NOT NULL, paid numeric(12,2),
    PRIMARY KEY (order_id, line));
CREATE TABLE shop.visits (at timestamptz, page text, spent time);
ALTER TABLE shop.visits REPLICA IDENTITY FULL
"""


@dataclass
class ShopWorkload:
    """The sessions of the shop.

    Args:
        connect: opens an autocommit connection.
        seed: decides what happens.
    """

    connect: Callable[[], psycopg.Connection[Any]]
    seed: int = 1
    rng: random.Random = field(init=False)
    orders: int = 0
    transactions: int = 0
    rollbacks: int = 0
    savepoint_rollbacks: int = 0
    definitions: int = 0

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)

    def run(self, rounds: int = 150) -> None:
        """Open the shop, serve customers in several sessions at once, and change the shop meanwhile.

        Args:
            rounds: the number of transactions that each session runs.

        Raises:
            psycopg.Error: a statement failed.
        """
        with self.connect() as owner:
            self._open(owner)
            changes = self._definitions()
            connections = [self.connect() for _ in range(SESSIONS)]
            for connection in connections:
                connection.execute("SET lock_timeout = '5s'")
            try:
                for number in range(rounds):
                    if number % max(1, rounds // 12) == 5:
                        self._define(owner, next(changes, None))
                    self._interleave(connections)
            finally:
                for connection in connections:
                    connection.close()

    def _open(self, owner: psycopg.Connection[Any]) -> None:
        for statement in SCHEMA.split(";\n"):
            owner.execute(statement.encode())
        for number in range(1, 41):
            self._insert_product(owner, number)
        with owner.cursor().copy("COPY shop.customers (id, name, city, joined, tags, profile) FROM STDIN") as copy:
            for number in range(1, 221):
                copy.write_row(self._customer(number))

    def _interleave(self, connections: list[psycopg.Connection[Any]]) -> None:
        """Run one transaction per session, their statements in random turns."""
        running = [(connection, self._transaction()) for connection in connections]
        while running:
            turn = self.rng.randrange(len(running))
            connection, statements = running[turn]
            statement = next(statements, None)
            if statement is None:
                running.pop(turn)
            else:
                connection.execute(*statement)

    def _transaction(self) -> Iterator[tuple[Any, ...]]:
        kind = self.rng.choices((self._order, self._advance, self._edit_product, self._visit), (5, 3, 2, 2))[0]
        self.transactions += 1
        yield (b"BEGIN",)
        yield from kind()
        if self.rng.random() < 0.1:
            self.rollbacks += 1
            yield (b"ROLLBACK",)
        else:
            yield (b"COMMIT",)

    def _order(self) -> Iterator[tuple[Any, ...]]:
        """Give an order of a customer; sometimes the last item is taken back by a savepoint."""
        self.orders += 1
        order = self.orders
        delivery = f"{self.rng.randrange(1, 9)} days {self.rng.randrange(24)} hours"
        insert = "INSERT INTO shop.orders VALUES (%s, %s, 'new', now(), %s::interval)"
        yield insert, [order, self.rng.randrange(1, 201), delivery]
        for line in range(1, self.rng.randrange(2, 6)):
            yield self._item(order, line)
        if self.rng.random() < 0.3:
            self.savepoint_rollbacks += 1
            yield (b"SAVEPOINT one_more",)
            yield self._item(order, 9)
            yield (b"ROLLBACK TO SAVEPOINT one_more",)

    def _item(self, order: int, line: int) -> tuple[Any, ...]:
        product, quantity = self.rng.randrange(1, 41), self.rng.randrange(1, 5)
        select = "SELECT %s, %s, id, %s::integer, price * %s FROM shop.products WHERE id = %s"
        return f"INSERT INTO shop.order_items {select}", [order, line, quantity, quantity, product]

    def _advance(self) -> Iterator[tuple[Any, ...]]:
        """Give updates of orders, and deletes of old ones; each session takes only rows that no other has locked."""
        oldest = "WHERE state = %s::shop.status ORDER BY id LIMIT %s"
        free = f"SELECT id FROM shop.orders {oldest} FOR NO KEY UPDATE SKIP LOCKED"
        for old, new in (("new", "paid"), ("paid", "sent")):
            yield f"UPDATE shop.orders SET state = %s WHERE id IN ({free})", [new, old, self.rng.randrange(1, 6)]
        if self.rng.random() < 0.4:
            yield f"DELETE FROM shop.orders WHERE id IN ({free})", ["sent", 1]

    def _edit_product(self) -> Iterator[tuple[Any, ...]]:
        """Give a new price, which leaves the long description where it is; now and then the manual is also written."""
        chosen = f"id %% 8 = {self.rng.randrange(8)} ORDER BY id LIMIT 1 OFFSET {self.rng.randrange(3)}"
        pick = f"(SELECT id FROM shop.products WHERE {chosen} FOR NO KEY UPDATE SKIP LOCKED)"
        yield f"UPDATE shop.products SET price = %s WHERE id IN {pick}", [self._price()]
        if self.rng.random() < 0.3:
            yield f"UPDATE shop.products SET manual = %s WHERE id IN {pick}", [self._prose(9000)]

    def _visit(self) -> Iterator[tuple[Any, ...]]:
        pages = [f"/{self.rng.choice(GOODS).lower()}" for _ in range(3)]
        yield "INSERT INTO shop.visits SELECT now(), unnest(%s::text[]), %s::time", [pages, "00:01:30"]
        message = "SELECT pg_logical_emit_message(%s, 'shop', %s)"
        if self.rng.random() < 0.2:
            yield message, [self.rng.random() < 0.5, f"visit of {pages[0]}"]

    def _definitions(self) -> Iterator[str]:
        """Give the changes of the shop's tables, in the order in which they come."""
        yield "ALTER TABLE shop.customers ADD COLUMN points integer NOT NULL DEFAULT 10"
        yield "ALTER TYPE shop.status ADD VALUE 'returned'"
        yield "ALTER TABLE shop.customers RENAME COLUMN city TO town"
        yield "UPDATE shop.customers SET points = points + 1, town = upper(town) WHERE id % 10 = 0"
        yield "ALTER TABLE shop.products DROP COLUMN weight"
        yield "UPDATE shop.orders SET state = 'returned' WHERE id % 25 = 0"
        yield "TRUNCATE shop.visits"
        yield "ALTER TABLE shop.order_items ALTER COLUMN quantity TYPE bigint"
        yield "ALTER TABLE shop.visits RENAME TO page_views; ALTER TABLE shop.page_views RENAME TO visits"
        yield "CREATE TABLE shop.archive AS SELECT * FROM shop.orders WHERE state = 'sent'"
        yield "VACUUM FULL shop.products"
        yield "DELETE FROM shop.customers WHERE id > 200"

    def _define(self, owner: psycopg.Connection[Any], statement: str | None) -> None:
        if statement is not None:
            self.definitions += 1
            owner.execute(statement.encode())

    def _insert_product(self, connection: psycopg.Connection[Any], number: int) -> None:
        name = f"{self.rng.choice(GOODS)} no. {number}"
        values = [number, name, self._price(), f"{name}: a fine thing. " * self.rng.choice((3, 400))]
        values += [self._prose(self.rng.choice((100, 6000))), self.rng.uniform(0.1, 30), self._uuid()]
        connection.execute("INSERT INTO shop.products VALUES (%s, %s, %s, %s, %s, %s, %s)", values)

    def _customer(self, number: int) -> tuple[Any, ...]:
        tags = "{" + ",".join(self.rng.sample(("new", "loyal", "abroad", "wholesale"), self.rng.randrange(3))) + "}"
        profile = f'{{"visits": {self.rng.randrange(50)}, "likes": ["{self.rng.choice(GOODS)}"]}}'
        joined = f"20{self.rng.randrange(10, 25)}-{self.rng.randrange(1, 13):02d}-{self.rng.randrange(1, 29):02d}"
        return number, f"Customer {number}", self.rng.choice(CITIES), joined, tags, profile

    def _price(self) -> str:
        return f"{self.rng.randrange(1, 400)}.{self.rng.randrange(100):02d}"

    def _prose(self, size: int) -> str:
        return "".join(self.rng.choices("abcdefghijklmnopqrstuvwxyz     .", k=size))

    def _uuid(self) -> str:
        return f"{self.rng.getrandbits(128):032x}"
