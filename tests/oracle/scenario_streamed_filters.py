"""Rules of what row filters do to transactions that are streamed in blocks.

The lines are those of :mod:`oracle.script`. ``FILL`` queues rows of a table that is not published. With
them the transaction has more than 64kB, and the server streams what it has queued so far.
"""

from __future__ import annotations

FILL = "INSERT INTO fill SELECT repeat('x', 1900) FROM generate_series(1, 40)"

SETUP = """
CREATE TABLE fill (content text);
ALTER TABLE fill ALTER content SET STORAGE PLAIN;
CREATE TABLE t (id integer PRIMARY KEY, a integer, big text);
ALTER TABLE t ALTER big SET STORAGE EXTERNAL;
ALTER TABLE t REPLICA IDENTITY FULL;
CREATE TABLE u (id integer PRIMARY KEY, a integer);
CREATE TABLE root (id integer PRIMARY KEY, a text) PARTITION BY RANGE (id);
CREATE TABLE leaf (a text, id integer NOT NULL);
ALTER TABLE root ATTACH PARTITION leaf FOR VALUES FROM (0) TO (1000);
CREATE PUBLICATION pub_rows FOR TABLE t WHERE (a > 10), u WHERE (id > 10);
CREATE PUBLICATION pub_more FOR TABLE u WHERE (id = 5), root WHERE (id > 50) WITH (publish_via_partition_root = true)
"""

RULES: dict[str, str] = {
    "a streamed transaction announces for itself": """
a| BEGIN
a| INSERT INTO t VALUES (1, 1), (2, 2)
a| FILL
b| INSERT INTO t VALUES (3, 3)
b| INSERT INTO t VALUES (4, 40)
a| INSERT INTO t VALUES (5, 50), (6, 60)
a| FILL
a| INSERT INTO t VALUES (7, 70)
a| FILL
a| COMMIT
b| INSERT INTO t VALUES (8, 80)
""",
    "what it has announced counts for all once it has committed": """
c| ALTER TABLE t ALTER a SET STATISTICS 10
a| BEGIN
a| INSERT INTO t VALUES (10, 1), (11, 50)
a| FILL
b| INSERT INTO t VALUES (12, 3)
a| COMMIT
b| INSERT INTO t VALUES (13, 40)
""",
    "not what it would have announced if the filter had let anything pass": """
c| ALTER TABLE t ALTER a SET STATISTICS 11
b| INSERT INTO t VALUES (19, 3)
a| BEGIN
a| INSERT INTO t VALUES (20, 1), (21, 2)
a| FILL
a| COMMIT
b| INSERT INTO t VALUES (22, 3)
b| INSERT INTO t VALUES (23, 40)
""",
    "the first of several to commit that has": """
c| ALTER TABLE t ALTER a SET STATISTICS 12
a| BEGIN
a| INSERT INTO t VALUES (30, 1)
a| FILL
b| BEGIN
b| INSERT INTO t VALUES (31, 2)
b| FILL
d| BEGIN
d| INSERT INTO t VALUES (32, 3)
d| FILL
d| INSERT INTO t VALUES (33, 99)
d| FILL
b| INSERT INTO t VALUES (34, 99)
a| COMMIT
c| INSERT INTO t VALUES (35, 4)
d| COMMIT
c| INSERT INTO t VALUES (36, 5), (37, 99)
b| FILL
b| COMMIT
""",
    "nothing that one has announced that is rolled back": """
c| ALTER TABLE t ALTER a SET STATISTICS 13
a| BEGIN
a| INSERT INTO t VALUES (40, 99)
a| FILL
a| ROLLBACK
b| INSERT INTO t VALUES (41, 1)
b| INSERT INTO t VALUES (42, 99)
""",
    "anew when a subtransaction was rolled back": """
a| BEGIN
a| INSERT INTO t VALUES (50, 99)
a| SAVEPOINT s
a| INSERT INTO t VALUES (51, 98)
a| FILL
a| ROLLBACK TO s
a| INSERT INTO t VALUES (52, 1)
a| FILL
a| INSERT INTO t VALUES (53, 97)
a| FILL
a| COMMIT
c| ALTER TABLE t ALTER a SET STATISTICS 14
a| BEGIN
a| INSERT INTO t VALUES (54, 99)
a| SAVEPOINT s
a| INSERT INTO t VALUES (55, 98)
a| FILL
a| ROLLBACK TO s
a| COMMIT
b| INSERT INTO t VALUES (56, 96)
""",
    "a truncate is not filtered": """
c| ALTER TABLE t ALTER a SET STATISTICS 15
a| BEGIN
a| SAVEPOINT s
a| INSERT INTO t VALUES (60, 1)
a| TRUNCATE t, u
a| FILL
a| INSERT INTO t VALUES (61, 99)
a| INSERT INTO u VALUES (61, 99)
a| FILL
a| COMMIT
b| INSERT INTO t VALUES (62, 1)
b| TRUNCATE u, t
c| ALTER TABLE u ALTER a SET STATISTICS 16
b| INSERT INTO u VALUES (1, 1), (63, 99)
b| TRUNCATE u
b| TRUNCATE u
""",
    "updates that come to be something else": """
b| INSERT INTO t VALUES (70, 1, repeat('a', 3000)), (71, 99, repeat('b', 3000)), (72, 99, 'c'), (73, 1, 'd')
b| INSERT INTO u VALUES (7, 1), (12, 1)
a| BEGIN
a| UPDATE t SET a = 100 - a
a| UPDATE u SET id = id + 10 WHERE id < 10
a| UPDATE u SET id = id - 9 WHERE id < 15
a| FILL
a| UPDATE t SET big = big || 'e' WHERE id IN (70, 72)
a| DELETE FROM t
a| UPDATE u SET a = 7
a| FILL
a| COMMIT
""",
    "a partition goes by the filter of what it is published as": """
a| BEGIN
a| INSERT INTO root VALUES (1, 'one')
a| FILL
a| UPDATE root SET id = 51
a| FILL
b| INSERT INTO root VALUES (2, 'two'), (52, 'fifty-two')
a| UPDATE root SET id = 1 WHERE id = 51
a| FILL
a| COMMIT
b| DELETE FROM root
""",
    "filters are others meanwhile": """
a| BEGIN
a| INSERT INTO t VALUES (80, 1), (81, 99)
a| INSERT INTO u VALUES (5, 1), (6, 1)
a| FILL
b| INSERT INTO u VALUES (8, 1)
c| BEGIN
c| ALTER PUBLICATION pub_rows SET TABLE t WHERE (a < 10), u WHERE (id = 9)
c| INSERT INTO t VALUES (82, 1), (83, 99)
c| FILL
c| COMMIT
a| INSERT INTO t VALUES (84, 1), (85, 99)
a| INSERT INTO u VALUES (9, 1), (10, 1)
a| FILL
b| INSERT INTO t VALUES (86, 99)
a| COMMIT
b| INSERT INTO t VALUES (87, 1)
c| ALTER PUBLICATION pub_rows SET TABLE t, u WHERE (false)
a| BEGIN
a| INSERT INTO t VALUES (88, 1), (89, 99)
a| INSERT INTO u VALUES (90, 1)
a| FILL
a| COMMIT
""",
}


def statements() -> list[str]:
    """List the statements that are run before the base copy is taken."""
    return [part.strip() for part in SETUP.split(";\n")]


def lines() -> list[str]:
    """List the lines of all rules, one after the other."""
    return [line.replace("FILL", FILL) for script in RULES.values() for line in script.strip().splitlines()]
