"""Scenarios in which one session defines between the rows of another's transaction, in every order.

The form of the scripts is described in :mod:`oracle.scenarios`. Those of ``INTERLEAVED`` are made of short orders.
``1`` and ``2`` are rows of two tables, ``3`` is one of the second with a third column. ``(`` and ``)`` begin and commit
the transaction. ``1:float`` changes the type of a column of the first table. ``+int`` adds a third column to the second
one, ``-`` drops it, ``=text`` changes its type.
"""

from __future__ import annotations

_ORDERS: dict[str, tuple[str, ...]] = {
    "types_changed_before_the_first_row_of_a_table": (
        "( 1 2:float 2 )",
        "( 1 2:varchar 2 )",
        "( 1 2:boolean 2 )",
        "2:varchar ( 1 2:text 2 )",
    ),
    "types_changed_of_a_table_that_is_in_use": (
        "( 1 &1:float 2 )",
        "( 1 &1:varchar 2 )",
        "( 1 2 &1:float )",
        "( 1 2 &1:varchar )",
        "( 1 2:float 2 &1:float )",
        "( 1 2:varchar 2 &1:varchar )",
        "2:varchar ( 1 2:text 2 &1:varchar )",
        "( 1 2:boolean 2 &1:boolean )",
    ),
    "columns_added_before_the_first_row_of_a_table": (
        "( 1 +int 3 )",
        "( 1 2 ) ( +int 3 )",
        "( 1 +float 3 )",
        "( 1 2 ) ( +float 3 )",
        "( 1 +varchar 3 )",
        "( 1 2 ) ( +varchar 3 )",
    ),
    "columns_dropped_of_a_table_that_is_in_use": (
        "+int ( 3 &- )",
        "+int ( 3 &- ) 2",
        "+int ( 3 &- ) +text ( 3 &=varchar ) =int 3",
        "+varchar ( 1 - 1 )",
    ),
    "column_types_changed_of_a_table_that_is_in_use": (
        "+varchar ( 1 3 &=text ) 3",
        "+text ( 1 3 &=varchar ) 3",
        "+varchar ( 1 =text 3 ) - 2",
        "+text ( 1 =varchar 3 ) - 2",
    ),
}


def _statement(step: str, first: str, second: str) -> str:
    if step in "()":
        return "BEGIN" if step == "(" else "COMMIT"
    if step in "123":
        values = ", ".join(["'1'"] * max(2, int(step)))
        return f"INSERT INTO {first if step == '1' else second} VALUES ({values})"
    if step[1:2] == ":":
        table = first if step[0] == "1" else second
        return f"ALTER TABLE {table} ALTER b TYPE {step[2:]} USING b::int::{step[2:]}"
    kinds = {"+": f"ADD c {step[1:]}", "-": "DROP COLUMN c", "=": f"ALTER c TYPE {step[1:]} USING c::{step[1:]}"}
    return f"ALTER TABLE {second} {kinds[step[0]]}"


def _script(orders: tuple[str, ...]) -> str:
    """Write each order on two tables of its own; what waits for the transaction (``&``) ends when it has committed."""
    lines = []
    for number, order in enumerate(orders):
        tables = f"one_{number}", f"two_{number}"
        lines += [f"a| CREATE TABLE {name} (a int, b int)" for name in tables]
        for step in order.split():
            session = "a|" if step in "123()" else "b&|" if step.startswith("&") else "b|"
            lines.append(f"{session} {_statement(step.lstrip('&'), *tables)}")
            if step == ")" and "&" in order:
                lines.append("b.|")
    return "\n".join(lines) + "\n"


INTERLEAVED: dict[str, str] = {name: _script(orders) for name, orders in _ORDERS.items()}

INTERLEAVED |= {
    "definitions_only_beside_a_long_value": """
a| BEGIN
a| CREATE TABLE beside (data text)
b| CREATE TABLE t (data text)
b| BEGIN
b| INSERT INTO t SELECT array_agg(md5(g::text))::text FROM generate_series(1, 9000) g
c| CREATE TABLE more (data text)
b| COMMIT
a| COMMIT
""",
    "published_between_rows_of_two_transactions": """
CREATE TABLE t (a int, b int);
---
a| INSERT INTO t VALUES (1, 1)
a| BEGIN
a| INSERT INTO t VALUES (1, 1)
b| ALTER PUBLICATION pub_list ADD TABLE t
a| COMMIT
a| INSERT INTO t VALUES (1, 1)
b| ALTER PUBLICATION pub_list DROP TABLE t
a| BEGIN
a| INSERT INTO t VALUES (2, 1)
c| BEGIN
c| INSERT INTO t VALUES (3, 2)
b| ALTER PUBLICATION pub_list ADD TABLE t
a| INSERT INTO t VALUES (2, 2)
a| COMMIT
c| COMMIT
b| ALTER PUBLICATION pub_list DROP TABLE t
""",
    "schema_renamed_and_made_again_in_one_transaction": """
a| CREATE SCHEMA renamed_one
a| CREATE TABLE renamed_one.t (c int)
a| INSERT INTO renamed_one.t VALUES (0)
a| BEGIN
a| INSERT INTO renamed_one.t VALUES (1)
a| ALTER SCHEMA renamed_one RENAME TO renamed_two
a| CREATE SCHEMA renamed_one
a| CREATE TABLE renamed_one.t (c int)
a| INSERT INTO renamed_one.t VALUES (2)
a| INSERT INTO renamed_two.t VALUES (3)
a| COMMIT
a| INSERT INTO renamed_one.t VALUES (4)
a| INSERT INTO renamed_two.t VALUES (5)
""",
    "identity_index_changed_before_a_row": """
CREATE TABLE t (a int NOT NULL, b int NOT NULL);
CREATE UNIQUE INDEX by_a ON t (a);
CREATE UNIQUE INDEX by_b ON t (b);
ALTER TABLE t REPLICA IDENTITY USING INDEX by_a;
INSERT INTO t VALUES (1, 1), (2, 2), (3, 3);
---
a| ALTER PUBLICATION pub_list ADD TABLE t
a| UPDATE t SET a = -a WHERE a = 3
a| ALTER TABLE t REPLICA IDENTITY USING INDEX by_b
a| UPDATE t SET a = -a WHERE a = 1
a| DELETE FROM t WHERE a = 2
a| BEGIN
a| UPDATE t SET b = 9 WHERE b = 1
a| ALTER TABLE t REPLICA IDENTITY USING INDEX by_a
a| UPDATE t SET b = 10 WHERE b = 9
a| DELETE FROM t
a| COMMIT
a| ALTER PUBLICATION pub_list DROP TABLE t
""",
    "indexes_of_functions_and_predicates": """
a| CREATE FUNCTION double(x int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT x * 2'
a| CREATE TABLE t (a int PRIMARY KEY, b int)
a| CREATE INDEX ON t (b) WHERE a > indexes_of_functions_and_predicates.double(1)
a| INSERT INTO t VALUES (1, 2), (3, 4)
a| UPDATE t SET b = 3
a| CREATE TABLE whole (a int, b text, c int)
a| ALTER TABLE whole REPLICA IDENTITY FULL
a| CREATE UNIQUE INDEX ON whole (a) WHERE b IS NOT NULL
a| CREATE INDEX ON whole (lower(b), (c + 1))
a| CREATE INDEX ON whole USING hash (b)
a| CREATE INDEX ON whole USING brin (c)
a| INSERT INTO whole SELECT g, 'row ' || g, g % 3 FROM generate_series(1, 30) g
a| UPDATE whole SET c = c + 1 WHERE a < 5
a| UPDATE whole SET b = NULL WHERE a = 7
a| DELETE FROM whole WHERE a > 20
a| DROP FUNCTION double(int) CASCADE
a| UPDATE t SET b = 5
""",
    "whole_rows_with_dropped_and_missing_columns": """
a| CREATE TABLE t (a int, gone int, c int)
a| ALTER TABLE t REPLICA IDENTITY FULL
a| ALTER PUBLICATION pub_list ADD TABLE t
a| INSERT INTO t VALUES (1, 1, 1)
a| ALTER TABLE t DROP COLUMN gone
a| UPDATE t SET a = 100
a| ALTER TABLE t ADD COLUMN b bool DEFAULT false NOT NULL, ADD d numeric(6,2) DEFAULT 1.5
a| INSERT INTO t VALUES (2, 2, true, 3)
a| UPDATE t SET a = a + 1
a| BEGIN
a| INSERT INTO t VALUES (3, 3)
a| ALTER TABLE t ADD e text DEFAULT 'missing in the row that this transaction wrote'
a| UPDATE t SET c = 4 WHERE a = 3
a| DELETE FROM t WHERE a = 3
a| COMMIT
a| DELETE FROM t
a| ALTER PUBLICATION pub_list DROP TABLE t
""",
}
