"""Whole schemas that people have, as workloads of ``bench/schemas.py``: their tables, and what writes to them.

The shapes are those of the TPC's order entry and decision support benchmarks, with rows and transactions of our own:
what matters here is which tables a transaction touches, how wide rows are and how many changes one has. The other two
are what logical decoding is known to be slow at: a catalog of many tables in which small transactions make temporary
ones, and one transaction that is larger than memory.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from headwater.local_servers.embedded_postgres import EmbeddedPostgres

SESSIONS = 4
TABLES_PER_CALL = 500
WIDE_ROW_BYTES = 1000
WIDE_ROW_WAL = WIDE_ROW_BYTES + 130


@dataclass(frozen=True)
class Schema:
    """A schema and its workload.

    Attributes:
        name: as in the arguments and in the table of figures.
        about: what ``size`` counts.
        size: how much is written, unless another number is asked for.
        prepare: makes the tables, before the base copy.
        run: writes.
    """

    name: str
    about: str
    size: int
    prepare: Callable[[EmbeddedPostgres], None]
    run: Callable[[EmbeddedPostgres, int], None]


def execute(server: EmbeddedPostgres, *statements: str) -> None:
    """Run statements in one session, each a transaction of its own."""
    with server.connect() as connection:
        for statement in statements:
            connection.execute(statement.encode())


def in_sessions(server: EmbeddedPostgres, call: str, size: int) -> None:
    """Call a procedure ``call(number of the session, count)`` in several sessions at once, ``size`` in all."""
    share = -(-size // SESSIONS)
    calls = [f"CALL {call}({number}, {share})" for number in range(SESSIONS)]
    threads = [threading.Thread(target=execute, args=(server, statement)) for statement in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


WAREHOUSES, DISTRICTS, CUSTOMERS, ITEMS = SESSIONS, 10, 300, 10_000
ORDER_ENTRY = f"""
CREATE TABLE warehouse (w_id int PRIMARY KEY, w_name varchar(10), w_street varchar(20), w_tax numeric(4,4),
    w_ytd numeric(12,2));
CREATE TABLE district (d_id int, d_w_id int, d_name varchar(10), d_tax numeric(4,4), d_ytd numeric(12,2),
    d_next_o_id int, PRIMARY KEY (d_w_id, d_id));
CREATE TABLE customer (c_id int, c_d_id int, c_w_id int, c_first varchar(16), c_last varchar(16), c_since timestamptz,
    c_credit char(2), c_balance numeric(12,2), c_payments int, c_data text, PRIMARY KEY (c_w_id, c_d_id, c_id));
CREATE TABLE history (h_c_id int, h_d_id int, h_w_id int, h_date timestamptz, h_amount numeric(6,2), h_data text);
CREATE TABLE orders (o_id int, o_d_id int, o_w_id int, o_c_id int, o_entry timestamptz, o_carrier int, o_lines int,
    PRIMARY KEY (o_w_id, o_d_id, o_id));
CREATE TABLE new_order (no_o_id int, no_d_id int, no_w_id int, PRIMARY KEY (no_w_id, no_d_id, no_o_id));
CREATE TABLE order_line (ol_o_id int, ol_d_id int, ol_w_id int, ol_number int, ol_i_id int, ol_delivered timestamptz,
    ol_quantity int, ol_amount numeric(6,2), ol_info char(24), PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number));
CREATE TABLE item (i_id int PRIMARY KEY, i_name varchar(24), i_price numeric(5,2), i_data text);
CREATE TABLE stock (s_i_id int, s_w_id int, s_quantity int, s_info char(24), s_ytd int, s_orders int, s_data text,
    PRIMARY KEY (s_w_id, s_i_id));
INSERT INTO warehouse SELECT w, 'house ' || w, 'street ' || w, 0.1, 0 FROM generate_series(0, {WAREHOUSES - 1}) w;
INSERT INTO district SELECT d, w, 'district ' || d, 0.1, 0, 1
    FROM generate_series(0, {WAREHOUSES - 1}) w, generate_series(0, {DISTRICTS - 1}) d;
INSERT INTO customer SELECT c, d, w, 'first ' || c, 'last ' || c % 100, now(), 'GC', -10, 0, repeat('about ', 60)
    FROM generate_series(0, {WAREHOUSES - 1}) w, generate_series(0, {DISTRICTS - 1}) d,
    generate_series(0, {CUSTOMERS - 1}) c;
INSERT INTO item SELECT i, 'item ' || i, i % 100, repeat('thing ', 8) FROM generate_series(0, {ITEMS - 1}) i;
INSERT INTO stock SELECT i, w, 50, 'from here', 0, 0, repeat('stock ', 8)
    FROM generate_series(0, {WAREHOUSES - 1}) w, generate_series(0, {ITEMS - 1}) i;
"""
ORDER = f"""
CREATE PROCEDURE enter_order(house int) LANGUAGE plpgsql AS $$
DECLARE
    place int := random() * {DISTRICTS - 1}; number int; lines int := 5 + random() * 10;
BEGIN
    UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = house AND d_id = place
        RETURNING d_next_o_id - 1 INTO number;
    INSERT INTO orders VALUES (number, place, house, random() * {CUSTOMERS - 1}, now(), NULL, lines);
    INSERT INTO new_order VALUES (number, place, house);
    FOR line IN 1..lines LOOP
        UPDATE stock SET s_quantity = 10 + random() * 90, s_ytd = s_ytd + 5, s_orders = s_orders + 1
            WHERE s_w_id = house AND s_i_id = (line * 577 + number * 31) % {ITEMS};
        INSERT INTO order_line VALUES (number, place, house, line, (line * 577 + number * 31) % {ITEMS}, NULL, 5,
            random() * 99, 'district information');
    END LOOP;
END $$;
CREATE PROCEDURE pay(house int) LANGUAGE plpgsql AS $$
DECLARE
    place int := random() * {DISTRICTS - 1}; who int := random() * {CUSTOMERS - 1}; amount int := 1 + random() * 4999;
BEGIN
    UPDATE warehouse SET w_ytd = w_ytd + amount WHERE w_id = house;
    UPDATE district SET d_ytd = d_ytd + amount WHERE d_w_id = house AND d_id = place;
    UPDATE customer SET c_balance = c_balance - amount, c_payments = c_payments + 1,
        c_data = CASE WHEN who % 10 = 0 THEN left(amount || ' ' || c_data, 500) ELSE c_data END
        WHERE c_w_id = house AND c_d_id = place AND c_id = who;
    INSERT INTO history VALUES (who, place, house, now(), amount, 'paid');
END $$;
CREATE PROCEDURE deliver(house int) LANGUAGE plpgsql AS $$
DECLARE
    number int;
BEGIN
    FOR place IN 0..{DISTRICTS - 1} LOOP
        DELETE FROM new_order WHERE no_w_id = house AND no_d_id = place AND no_o_id =
            (SELECT min(no_o_id) FROM new_order WHERE no_w_id = house AND no_d_id = place)
            RETURNING no_o_id INTO number;
        CONTINUE WHEN number IS NULL;
        UPDATE orders SET o_carrier = 7 WHERE o_w_id = house AND o_d_id = place AND o_id = number;
        UPDATE order_line SET ol_delivered = now() WHERE ol_w_id = house AND ol_d_id = place AND ol_o_id = number;
        UPDATE customer SET c_balance = c_balance + 10 WHERE c_w_id = house AND c_d_id = place AND c_id =
            (SELECT o_c_id FROM orders WHERE o_w_id = house AND o_d_id = place AND o_id = number);
    END LOOP;
END $$;
CREATE PROCEDURE trade(house int, count int) LANGUAGE plpgsql AS $$
BEGIN
    FOR number IN 1..count LOOP
        CASE WHEN number % 25 = 0 THEN CALL deliver(house); WHEN number % 2 = 0 THEN CALL pay(house);
            ELSE CALL enter_order(house); END CASE;
        COMMIT;
    END LOOP;
END $$;
"""


def prepare_order_entry(server: EmbeddedPostgres) -> None:
    """Create nine tables: warehouses, their districts, customers, stock, orders and their lines."""
    execute(server, ORDER_ENTRY, ORDER)


def run_order_entry(server: EmbeddedPostgres, transactions: int) -> None:
    """Run orders, payments and deliveries, each session in a warehouse of its own."""
    in_sessions(server, "trade", transactions)


DECISION_SUPPORT = """
CREATE TABLE region (r_regionkey int PRIMARY KEY, r_name char(25), r_comment varchar(152));
CREATE TABLE nation (n_nationkey int PRIMARY KEY, n_name char(25), n_regionkey int, n_comment varchar(152));
CREATE TABLE supplier (s_suppkey int PRIMARY KEY, s_name char(25), s_address varchar(40), s_nationkey int,
    s_phone char(15), s_acctbal numeric(15,2), s_comment varchar(101));
CREATE TABLE part (p_partkey int PRIMARY KEY, p_name varchar(55), p_mfgr char(25), p_brand char(10), p_type varchar(25),
    p_size int, p_container char(10), p_retailprice numeric(15,2), p_comment varchar(23));
CREATE TABLE partsupp (ps_partkey int, ps_suppkey int, ps_availqty int, ps_supplycost numeric(15,2),
    ps_comment varchar(199), PRIMARY KEY (ps_partkey, ps_suppkey));
CREATE TABLE customer (c_custkey int PRIMARY KEY, c_name varchar(25), c_address varchar(40), c_nationkey int,
    c_phone char(15), c_acctbal numeric(15,2), c_mktsegment char(10), c_comment varchar(117));
CREATE TABLE orders (o_orderkey bigint PRIMARY KEY, o_custkey int, o_orderstatus char(1), o_totalprice numeric(15,2),
    o_orderdate date, o_orderpriority char(15), o_clerk char(15), o_shippriority int, o_comment varchar(79));
CREATE TABLE lineitem (l_orderkey bigint, l_partkey int, l_suppkey int, l_linenumber int, l_quantity numeric(15,2),
    l_extendedprice numeric(15,2), l_discount numeric(15,2), l_tax numeric(15,2), l_returnflag char(1),
    l_linestatus char(1), l_shipdate date, l_commitdate date, l_receiptdate date, l_shipinstruct char(25),
    l_shipmode char(10), l_comment varchar(44), PRIMARY KEY (l_orderkey, l_linenumber))
"""
LOADS = (
    "INSERT INTO region SELECT r, 'region ' || r, 'one of five' FROM generate_series(0, 4) r",
    "INSERT INTO nation SELECT n, 'nation ' || n, n % 5, 'one of many' FROM generate_series(0, 24) n",
    "INSERT INTO supplier SELECT s, 'supplier ' || s, 'address ' || s, s % 25, '555-' || s, s % 9999, 'sells'"
    " FROM generate_series(1, {0} / 150 + 1) s",
    "INSERT INTO part SELECT p, 'part ' || p, 'maker ' || p % 5, 'brand ' || p % 25, 'kind ' || p % 150, p % 50, 'box',"
    " p % 1000, 'part of it' FROM generate_series(1, {0} / 8 + 1) p",
    "INSERT INTO partsupp SELECT p, s, p % 999, s, 'who has what' FROM generate_series(1, {0} / 8 + 1) p,"
    " generate_series(1, 4) s",
    "INSERT INTO customer SELECT c, 'customer ' || c, 'address ' || c, c % 25, '555-' || c, c % 9999, 'MACHINERY',"
    " 'buys' FROM generate_series(1, {0} / 10 + 1) c",
)
ORDERS = """INSERT INTO orders SELECT o, o % ({size} / 10 + 1) + 1, 'O', o % 100000 / 7.0, date '1992-01-01' + o % 2400,
    '1-URGENT', 'clerk ' || o % 1000, 0, 'to be sent' FROM generate_series({first}, {last}) o"""
LINES = """INSERT INTO lineitem SELECT o, o % ({size} / 8 + 1) + 1, o % 4 + 1, l, l * 7, o % 100000 / 3.0, 0.05, 0.02,
    'N', 'O', date '1992-02-01' + o % 2400, date '1992-03-01' + o % 2400, date '1992-04-01' + o % 2400,
    'DELIVER IN PERSON', 'TRUCK', 'a line of an order'
    FROM generate_series({first}, {last}) o, generate_series(1, 4) l"""


def prepare_decision_support(server: EmbeddedPostgres) -> None:
    """Create eight tables, empty."""
    execute(server, DECISION_SUPPORT)


def run_decision_support(server: EmbeddedPostgres, orders: int) -> None:
    """Load all tables, then take a hundredth of the orders away and put as many in."""
    new = orders // 100 + 1
    spans = ({"size": orders, "first": low, "last": low + step - 1} for low, step in ((1, orders), (orders + 1, new)))
    first, second = ([text.format(**span) for text in (ORDERS, LINES)] for span in spans)
    taken = [f"DELETE FROM {name} <= {new}" for name in ("lineitem WHERE l_orderkey", "orders WHERE o_orderkey")]
    execute(server, *(load.format(orders) for load in LOADS), *first, *second, *taken)


MANY_TABLES = 20_000
TEMPORARY = """
CREATE PROCEDURE compute(session int, count int) LANGUAGE plpgsql AS $$
BEGIN
    FOR number IN 1..count LOOP
        CREATE TEMPORARY TABLE found (id int, name text, amount numeric) ON COMMIT DROP;
        INSERT INTO found SELECT g, 'found ' || g, g FROM generate_series(1, 10) g;
        INSERT INTO made_0 (name, amount) SELECT name, amount FROM found WHERE id = 1 + number % 10;
        COMMIT;
    END LOOP;
END $$
"""


def prepare_many_tables(server: EmbeddedPostgres, tables: int = MANY_TABLES) -> None:
    """Create tables of four columns with a primary key and an index."""
    for first in range(0, tables, TABLES_PER_CALL):
        columns = "id serial PRIMARY KEY, name text, amount numeric, at timestamptz DEFAULT now()"
        numbers = range(first, min(first + TABLES_PER_CALL, tables))
        made = [f"CREATE TABLE made_{n} ({columns}); CREATE INDEX ON made_{n} (name)" for n in numbers]
        execute(server, "; ".join(made))
    execute(server, TEMPORARY)


def run_temporary_tables(server: EmbeddedPostgres, transactions: int) -> None:
    """Run small transactions that each make a temporary table and write a row elsewhere."""
    in_sessions(server, "compute", transactions)


def prepare_wide_rows(server: EmbeddedPostgres) -> None:
    """Create one table."""
    execute(server, "CREATE TABLE wide (id bigint PRIMARY KEY, at timestamptz, body text)")
    execute(server, "ALTER TABLE wide ALTER body SET STORAGE PLAIN")


def run_one_transaction(server: EmbeddedPostgres, megabytes: int) -> None:
    """Run one transaction with about so much WAL."""
    rows = (megabytes << 20) // WIDE_ROW_WAL
    body = f"rpad(g::text, {WIDE_ROW_BYTES}, 'wide ')"
    execute(server, f"INSERT INTO wide SELECT g, now(), {body} FROM generate_series(1, {rows}) g")


ONE_TRANSACTION = Schema("one-transaction", "MB of WAL", 1_280, prepare_wide_rows, run_one_transaction)
SCHEMAS = (
    Schema("order-entry", "transactions", 40_000, prepare_order_entry, run_order_entry),
    Schema("decision-support", "orders", 300_000, prepare_decision_support, run_decision_support),
    Schema("temporary-tables", "transactions", 3_000, prepare_many_tables, run_temporary_tables),
    ONE_TRANSACTION,
)
