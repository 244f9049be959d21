"""Scenarios in which xids begin again, within the window or shortly before the copy of the data directory.

The form of the scripts is described in :mod:`oracle.scenarios`. A line ``!spend 8`` spends xids until 8 are left of the
epoch, ``!spend -8`` until 8 of the next one are gone; ``!mark`` remembers where the log is.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Wrap:
    """One case.

    Attributes:
        left: how many xids are left of the epoch at first.
        copied: what sessions do before the data directory is copied.
        running: what they do before there are slots.
        script: what they do then; between its marks slots are cut that are asked piece by piece.
    """

    left: int
    copied: str
    running: str
    script: str


SETUP = """
CREATE TABLE t (id int PRIMARY KEY, a text);
CREATE TABLE whole (id int, a text);
ALTER TABLE whole REPLICA IDENTITY FULL;
CREATE TABLE other (id int PRIMARY KEY, a text);
ALTER TABLE other ALTER a SET STORAGE EXTERNAL;
ALTER PUBLICATION pub_list ADD TABLE t, other;
ALTER PUBLICATION pub_some ADD TABLE whole;
INSERT INTO t SELECT -g, 'of old ' || g FROM generate_series(1, 20) g;
INSERT INTO whole SELECT g, 'of old ' || g FROM generate_series(1, 20) g;
INSERT INTO other SELECT -g, repeat('of old ' || g, 900) FROM generate_series(1, 5) g
"""
"""What is there before, in frozen rows."""

_ALTERED = """\
a| CREATE TYPE mood AS ENUM ('sad', 'ok')
a| CREATE TABLE high (id int PRIMARY KEY, m mood)
a| INSERT INTO high VALUES (1, 'sad')
a| ALTER TABLE other ADD COLUMN b int DEFAULT 7
a| BEGIN
a| SAVEPOINT s
a| CREATE TABLE gone (id int)
a| ROLLBACK TO SAVEPOINT s
a| CREATE TABLE stays (id int PRIMARY KEY)
a| SAVEPOINT s
a| ALTER TABLE stays ADD COLUMN a text
a| COMMIT
a| ALTER PUBLICATION pub_list ADD TABLE high
a| BEGIN
a| DROP TABLE stays
a| ROLLBACK
"""

_OPEN = """\
a| BEGIN
a| INSERT INTO t VALUES (1, 'began before')
a| SAVEPOINT s
a| INSERT INTO t VALUES (2, 'in a subtransaction of before')
b| BEGIN
b| CREATE TABLE across (id int PRIMARY KEY, a text)
b| INSERT INTO across VALUES (1, 'made before')
c| BEGIN
c| ALTER TABLE whole ADD COLUMN c int DEFAULT 3
c| SAVEPOINT s
c| UPDATE whole SET a = 'prepared' WHERE id < 4
c| PREPARE TRANSACTION 'across'
d| BEGIN
d| UPDATE t SET a = 'gone' WHERE id < -10
e| BEGIN
e| CREATE TABLE never (id int)
e| INSERT INTO never VALUES (1)
f| BEGIN
f| SELECT count(*) FROM other
f| SAVEPOINT s
g| ALTER TABLE high ADD COLUMN x int
g| INSERT INTO high VALUES (2, 'ok', 2)
g| UPDATE other SET a = repeat('before', 700) WHERE id = -1
"""

_AMID = """\
!spend 12
g| CHECKPOINT
g| SELECT pg_switch_wal()
!mark
h| DO $$ BEGIN FOR g IN 100..130 LOOP BEGIN INSERT INTO t VALUES (g, 'a subtransaction each');
     IF g % 5 = 0 THEN RAISE division_by_zero; END IF; EXCEPTION WHEN division_by_zero THEN NULL; END; END LOOP; END $$
!spend -30
g| CHECKPOINT
f| INSERT INTO high VALUES (3, 'ok')
f| ALTER TYPE mood ADD VALUE 'happy'
g| UPDATE other SET b = 8 WHERE id = -1
g| UPDATE other SET a = repeat('behind', 700) WHERE id = -2
g| CREATE TABLE low (id int PRIMARY KEY, a text)
g| INSERT INTO low VALUES (1, 'made behind')
!mark
"""

_BEHIND = """\
a| ROLLBACK TO SAVEPOINT s
a| INSERT INTO t VALUES (2, 'in a subtransaction of behind')
b| ALTER TABLE across ADD COLUMN b int
b| INSERT INTO across VALUES (2, 'altered behind', 2)
b| SAVEPOINT s
b| ALTER TABLE across DROP COLUMN a
b| INSERT INTO across VALUES (3, 3)
b| ROLLBACK TO SAVEPOINT s
i| BEGIN
i| INSERT INTO low VALUES (2, 'beside')
g| SELECT pg_switch_wal()
a| COMMIT
f| COMMIT
f| INSERT INTO high VALUES (4, 'happy')
b| COMMIT
d| ROLLBACK
g| CHECKPOINT
g| VACUUM FULL pg_class
g| VACUUM FULL pg_attribute
g| COMMIT PREPARED 'across'
e| ROLLBACK
g| INSERT INTO whole VALUES (21, 'behind', 4)
g| UPDATE whole SET a = 'behind' WHERE id = 3
i| COMMIT
g| ALTER TABLE t ADD COLUMN b int DEFAULT 1
g| DELETE FROM t WHERE id IN (2, -1)
g| VACUUM (FREEZE)
g| SELECT pg_switch_wal()
!spend -100
g| ALTER TABLE across RENAME TO beyond
g| INSERT INTO beyond VALUES (4, 'renamed', 4)
g| TRUNCATE low
j| BEGIN
j| INSERT INTO low VALUES (5, 'open at the end')
g| CHECKPOINT
g| INSERT INTO low VALUES (6, 'last')
"""

_PREPARED = """\
a| BEGIN
a| CREATE TABLE across (id int PRIMARY KEY, a text)
a| INSERT INTO across VALUES (1, 'prepared before')
a| SAVEPOINT s
a| ALTER TABLE across ADD COLUMN b int
a| PREPARE TRANSACTION 'across'
"""

WITHIN = "within_the_window"
WRAPS: dict[str, Wrap] = {
    WITHIN: Wrap(100, _ALTERED, "", _OPEN + _AMID + _BEHIND),
    "before_the_copy": Wrap(
        60,
        _ALTERED
        + _PREPARED
        + """\
!spend -20
a| CREATE TABLE low (id int PRIMARY KEY, a text)
a| ALTER TABLE high ADD COLUMN x int
a| DELETE FROM t WHERE id < -15
""",
        """
b| INSERT INTO low VALUES (1, 'before the slots')
b| COMMIT PREPARED 'across'
""",
        """
!mark
b| INSERT INTO low VALUES (2, 'behind the slots')
c| BEGIN
c| INSERT INTO high VALUES (2, 'ok', 2)
b| INSERT INTO across VALUES (2, 'behind', 2)
b| UPDATE other SET b = 8 WHERE id = -1
!mark
b| SELECT pg_switch_wal()
b| ALTER TABLE across ADD COLUMN c int
c| INSERT INTO across VALUES (3, 'altered', 3, 3)
c| COMMIT
b| VACUUM FULL pg_class
b| DELETE FROM t WHERE id = -1
b| INSERT INTO whole VALUES (21, 'last')
""",
    ),
}
