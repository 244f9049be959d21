"""SQL that makes a server write every kind of record that decoding reads, in steps; a few lines have a segment of WAL.

The statements of a step, one by one, are of one connection; those of ``OPEN`` are of a transaction that stays open over
most steps. What a major does not know is left out (``NOT_BEFORE``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

Step = tuple[str, ...]

_TYPES = {
    "flag": ("bool", "true"),
    "letter": ('"char"', "'x'"),
    "raw": ("bytea", r"'\x00ff5c61'"),
    "small": ("int2", "-5"),
    "plain": ("int4", "77"),
    "big": ("int8", "-9000000000000"),
    "number": ("numeric", "-12345678.90123"),
    "odd_number": ("numeric", "'NaN'"),
    "single": ("float4", "1.5e-30"),
    "double": ("float8", "-1.7976931348623157e308"),
    "cash": ("money", "'-12.34'"),
    "fixed": ("char(5)", "'ab'"),
    "label": ("name", "'a name'"),
    "day": ("date", "'0044-03-15 BC'"),
    "clock": ("time", "'12:34:56.789'"),
    "zoned": ("timetz", "'12:34:56.789+05:30'"),
    "stamp": ("timestamp", "'infinity'"),
    "moment": ("timestamptz", "'2024-02-29 12:34:56.789+01'"),
    "span": ("interval", "'-1 year 2 mons -3 days 04:05:06.7'"),
    "ident": ("uuid", "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'"),
    "old_json": ("json", """'{"a": [1, 2.5, null]}'"""),
    "new_json": ("jsonb", """'{"a": [1, 2.5, null, true], "b": {"c": "d\\\\n"}}'"""),
    "path": ("jsonpath", "'$.a[*] ? (@.b > 1 && @.c like_regex \"^x\")'"),
    "tree": ("xml", "'<?xml version=\"1.0\"?><a>b</a>'"),
    "bits": ("bit(11)", "B'10110011101'"),
    "more_bits": ("varbit", "B'101'"),
    "host": ("inet", "'10.0.0.1/24'"),
    "net": ("cidr", "'2001:db8::/32'"),
    "mac": ("macaddr", "'08:00:2b:01:02:03'"),
    "mac8": ("macaddr8", "'08:00:2b:01:02:03:04:05'"),
    "place": ("point", "'(1.5,-2)'"),
    "line": ("line", "'{1,2,3}'"),
    "segment": ("lseg", "'[(1,2),(3,4)]'"),
    "area": ("box", "'(3,4),(1,2)'"),
    "way": ("path", "'[(1,2),(3,4),(5,6)]'"),
    "shape": ("polygon", "'((1,2),(3,4),(5,6))'"),
    "round": ("circle", "'<(1,2),3>'"),
    "words": ("tsvector", "'a:1A,2B fat:3 cat'"),
    "asked": ("tsquery", "'fat & (cat | !rat:AB*) <2> dog'"),
    "lsn": ("pg_lsn", "'16/B374D848'"),
    "snapshot": ("pg_snapshot", "'10:20:10,14,15'"),
    "xids": ("xid8", "'123456789012'"),
    "tuple_id": ("tid", "'(42,7)'"),
    "ids": ("oidvector", "'1 2 3'"),
    "shorts": ("int2vector", "'4 5 6'"),
    "spread": ("int4range", "'[3,9)'"),
    "spreads": ("nummultirange", "'{[1.5,2.5),(7,)}'"),
    "texts": ("text[]", """'{{a,NULL},{"b c",""}}'"""),
    "moods": ("mood[]", "'{sad,happy}'"),
    "mood": ("mood", "'ok'"),
    "two": ("pair", "'(1,\"x y\")'"),
    "twos": ("pair[]", """'{"(1,x)","(2,)"}'"""),
    "limited": ("positive", "3"),
    "pairs": ("pairrange", """'["(1,a)","(2,b)")'"""),
}
"""Columns of the table of all types: (type, literal)."""


_OWN = ("mood", "pair", "positive")
"""How types of this workload's begin."""


def _held() -> Step:
    """Make a table with rows of all versions and forms, for readers of its pages: most types, TOAST, multixacts."""
    types = {
        name: type_and_literal for name, type_and_literal in _TYPES.items() if not type_and_literal[0].startswith(_OWN)
    }
    columns = ", ".join(f"{name} {type_name}" for name, (type_name, _) in types.items())
    literals = ", ".join(literal for _, literal in types.values())
    return (
        f"CREATE TABLE held (id int PRIMARY KEY, body text, packed text, {columns})",
        "ALTER TABLE held ALTER body SET STORAGE EXTERNAL",
        f"INSERT INTO held SELECT i, NULL, 'row ' || i, {literals} FROM generate_series(1, 30) i",
        "INSERT INTO held (id, body) SELECT i, repeat(md5(i::text), 150) FROM generate_series(31, 60) i",
        "INSERT INTO held (id, packed) SELECT i, (SELECT string_agg(md5((i * j)::text), '') FROM "
        "generate_series(1, 150) j) FROM generate_series(61, 80) i",
        "UPDATE held SET packed = 'changed' WHERE id % 5 = 0",
        "DELETE FROM held WHERE id % 9 = 0",
        "BEGIN; UPDATE held SET packed = 'never'; ROLLBACK",
        "BEGIN; SELECT FROM held WHERE id < 20 FOR KEY SHARE; SAVEPOINT b; "
        "UPDATE held SET packed = 'locked' WHERE id < 10; COMMIT",
        "ALTER TABLE held DROP COLUMN flag; ALTER TABLE held ADD COLUMN later text DEFAULT 'filled'",
        "INSERT INTO held (id) SELECT i FROM generate_series(81, 300) i",
    )


def _all_types() -> Step:
    columns = ", ".join(f"{name} {type_name}" for name, (type_name, _) in _TYPES.items())
    values = ", ".join(literal for _, literal in _TYPES.values())
    return (
        "CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy')",
        "CREATE TYPE pair AS (a int, b text)",
        "CREATE TYPE pairrange AS RANGE (subtype = pair)",
        "CREATE DOMAIN positive AS int CHECK (value > 0)",
        f"CREATE TABLE kinds (id serial PRIMARY KEY, {columns})",
        "ALTER TABLE kinds REPLICA IDENTITY FULL",
        f"INSERT INTO kinds VALUES (DEFAULT, {values})",
        "INSERT INTO kinds (id) VALUES (2)",
        "UPDATE kinds SET plain = plain + 1",
        "DELETE FROM kinds WHERE id = 2",
    )


def _subtransactions() -> Step:
    nested = "; ".join(f"SAVEPOINT s{number}; INSERT INTO item VALUES (1000 + {number}, 's')" for number in range(70))
    return (
        f"BEGIN; {nested}",
        "ROLLBACK TO s60; INSERT INTO item VALUES (1200, 'after'); COMMIT",
        "BEGIN; INSERT INTO item VALUES (1300, 'a'); SAVEPOINT a; CREATE TABLE gone (a int)",
        "INSERT INTO gone VALUES (1); ROLLBACK TO a; INSERT INTO item VALUES (1301, 'b'); COMMIT",
        "BEGIN; INSERT INTO item VALUES (1400, 'no'); ROLLBACK",
    )


STEPS: tuple[Step, ...] = (
    (
        "UPDATE held SET later = 'x' WHERE id % 7 = 0; DELETE FROM held WHERE id % 11 = 0; "
        "BEGIN; SELECT FROM held WHERE id < 30 FOR KEY SHARE; SAVEPOINT c; UPDATE held SET later = 'y' WHERE id < 9; "
        "ROLLBACK TO c; UPDATE held SET later = 'z' WHERE id < 9; COMMIT; VACUUM held; "
        "INSERT INTO held (id, body) SELECT i, repeat(md5(i::text), 90) FROM generate_series(301, 330) i; "
        "CHECKPOINT; UPDATE held SET later = 'of a new image' WHERE id > 290",
        "CREATE TABLE item (id int PRIMARY KEY, name text, n int DEFAULT 7)",
        "CREATE TABLE wide (id int PRIMARY KEY, body text, other text, packed text)",
        "ALTER TABLE wide ALTER body SET STORAGE EXTERNAL",
        "CREATE TABLE nothing (a int, b text)",
        "ALTER TABLE nothing REPLICA IDENTITY NOTHING",
        "CREATE PUBLICATION every FOR ALL TABLES",
        "CREATE PUBLICATION several FOR TABLE item",
        "INSERT INTO item VALUES (1, 'one'), (2, 'two'), (3, NULL)",
        "UPDATE item SET name = 'ONE' WHERE id = 1",
        "UPDATE item SET id = 30 WHERE id = 3",
        "DELETE FROM item WHERE id = 2",
        "INSERT INTO nothing VALUES (1, 'x')",
    ),
    (
        "INSERT INTO wide VALUES (1, repeat('0123456789', 1000), 'o', repeat('ab', 20000))",
        "UPDATE wide SET other = 'p' WHERE id = 1",
        "UPDATE wide SET body = repeat('z', 5000) WHERE id = 1",
        "ALTER TABLE wide REPLICA IDENTITY FULL",
        "UPDATE wide SET other = 'q' WHERE id = 1",
        "DELETE FROM wide WHERE id = 1",
        "INSERT INTO wide SELECT i, repeat('t', 2100), 'r', (SELECT string_agg(md5(j::text), '') FROM "
        "generate_series(1, 200) j) FROM generate_series(2, 5) i",
    ),
    (
        "COPY (SELECT i, 'copied ' || i, i FROM generate_series(100, 180) i) TO '/dev/null'",
        "INSERT INTO item SELECT i, 'row ' || i FROM generate_series(100, 180) i",
        "CREATE TABLE copied AS SELECT * FROM item",
        "INSERT INTO item VALUES (1, 'again') ON CONFLICT (id) DO UPDATE SET name = excluded.name",
        "INSERT INTO item VALUES (1, 'never') ON CONFLICT DO NOTHING",
        "INSERT INTO item VALUES (9, 'new') ON CONFLICT DO NOTHING",
    ),
    _subtransactions(),
    _all_types(),
    (
        "SELECT pg_logical_emit_message(true, 'pre', 'transactional')",
        "SELECT pg_logical_emit_message(false, 'pre', 'at once')",
        "BEGIN; SELECT pg_logical_emit_message(true, 'a', 'b'); INSERT INTO item VALUES (50, 'm'); "
        "SELECT pg_logical_emit_message(false, '', 'c'); COMMIT",
        "CREATE TABLE base (id int PRIMARY KEY); CREATE TABLE child (id int REFERENCES base)",
        "INSERT INTO base VALUES (1), (2); INSERT INTO child VALUES (1)",
        "TRUNCATE base CASCADE",
        "TRUNCATE item, kinds RESTART IDENTITY",
        "CREATE SEQUENCE counter; SELECT nextval('counter'), nextval('counter'); SELECT setval('counter', 900)",
    ),
    (
        "ALTER TABLE item ADD COLUMN added int DEFAULT 5, ADD COLUMN words text DEFAULT 'default'",
        "INSERT INTO item VALUES (1, 'a', 2, 3, 'w')",
        "ALTER TABLE item DROP COLUMN n",
        "INSERT INTO item VALUES (2, 'b', 3)",
        "ALTER TABLE item ALTER COLUMN added TYPE bigint",
        "UPDATE item SET added = 9",
        "ALTER TABLE item RENAME COLUMN words TO said; ALTER TABLE item RENAME TO items",
        "INSERT INTO items VALUES (3, 'c')",
        "CREATE SCHEMA shop; ALTER TABLE items SET SCHEMA shop; INSERT INTO shop.items VALUES (4, 'd')",
        "ALTER TABLE shop.items SET SCHEMA public; ALTER TABLE items RENAME TO item",
        "CREATE UNIQUE INDEX item_said ON item (id, added); ALTER TABLE item ALTER added SET NOT NULL",
        "ALTER TABLE item REPLICA IDENTITY USING INDEX item_said; UPDATE item SET added = 10",
        "ALTER TYPE mood ADD VALUE 'glad' AFTER 'ok'; ALTER TYPE pair ADD ATTRIBUTE c int CASCADE",
        "INSERT INTO kinds (id, mood, two) VALUES (90, 'glad', '(1,x,2)')",
        "ALTER TYPE mood RENAME VALUE 'sad' TO 'sorry'; INSERT INTO kinds (id, mood) VALUES (91, 'sorry')",
    ),
    (
        "CREATE TABLE parted (id int PRIMARY KEY, body text) PARTITION BY RANGE (id)",
        "CREATE TABLE part1 PARTITION OF parted FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE part2 (body text, id int NOT NULL)",
        "ALTER TABLE parted ATTACH PARTITION part2 FOR VALUES FROM (10) TO (20)",
        "CREATE PUBLICATION rooted FOR TABLE parted WITH (publish_via_partition_root)",
        "INSERT INTO parted VALUES (1, 'a'), (11, 'b')",
        "UPDATE parted SET id = id + 5",
        "DROP PUBLICATION several; CREATE PUBLICATION several FOR TABLE item WITH (publish = 'insert, truncate')",
        "ALTER PUBLICATION several ADD TABLE wide; INSERT INTO item VALUES (60, 'published')",
        "ALTER PUBLICATION several RENAME TO renamed; ALTER PUBLICATION renamed RENAME TO several",
        "INSERT INTO item VALUES (61, 'published')",
        "ALTER TABLE parted DETACH PARTITION part2; DROP TABLE part1; INSERT INTO part2 VALUES ('x', 1)",
    ),
    (
        "VACUUM FULL pg_class",
        "INSERT INTO item VALUES (70, 'behind a rewritten catalog')",
        "VACUUM FULL pg_publication_rel; VACUUM FULL item; INSERT INTO item VALUES (71, 'x')",
        "REINDEX TABLE item; CLUSTER item USING item_pkey; INSERT INTO item VALUES (72, 'y')",
        "VACUUM (FREEZE) item; VACUUM (FREEZE) pg_attribute; ANALYZE item",
    ),
    (
        "BEGIN; INSERT INTO item VALUES (80, 'p'); SAVEPOINT a; INSERT INTO item VALUES (81, 'q')",
        "PREPARE TRANSACTION 'one'",
        "BEGIN; CREATE TABLE made (a int); INSERT INTO made VALUES (1); PREPARE TRANSACTION 'two'",
        "BEGIN; INSERT INTO item VALUES (82, 'r'); PREPARE TRANSACTION 'three'",
        "COMMIT PREPARED 'one'",
        "ROLLBACK PREPARED 'two'",
        "CHECKPOINT",
        "COMMIT PREPARED 'three'",
        "SELECT pg_replication_origin_create('elsewhere'); SELECT pg_replication_origin_session_setup('elsewhere')",
        "BEGIN; SELECT pg_replication_origin_xact_setup('0/ABCD', '2024-05-06 07:08:09+00'); "
        "INSERT INTO item VALUES (83, 'origin'); COMMIT",
        "SELECT pg_replication_origin_session_reset()",
    ),
    (
        "BEGIN; SELECT * FROM item WHERE id = 70 FOR KEY SHARE; SAVEPOINT b; UPDATE item SET name = 'locked'; COMMIT",
        "CREATE TABLE indexed (id int PRIMARY KEY, name text, place point, spans int4range, words tsvector)",
        "CREATE INDEX ON indexed USING hash (name); CREATE INDEX ON indexed USING gin (words); "
        "CREATE INDEX ON indexed USING gist (place); CREATE INDEX ON indexed USING spgist (spans); "
        "CREATE INDEX ON indexed USING brin (id)",
        "INSERT INTO indexed SELECT i, 'n' || i, point(i, -i), int4range(i, i + 5), to_tsvector('simple', 'w' || i) "
        "FROM generate_series(1, 40) i",
        "DELETE FROM indexed WHERE id % 3 = 0; VACUUM indexed",
        "SET allow_in_place_tablespaces = on; CREATE TABLESPACE near LOCATION ''; ALTER TABLE item SET TABLESPACE near",
        "INSERT INTO item VALUES (85, 'moved'); ALTER TABLE item SET TABLESPACE pg_default",
        "SELECT lo_create(4711); SELECT lo_put(4711, 0, 'large'); CREATE MATERIALIZED VIEW seen AS SELECT * FROM item",
        "REFRESH MATERIALIZED VIEW seen; CREATE TEMP TABLE short AS SELECT 1 a; DROP TABLE short",
    ),
    (
        "SET wal_compression = on; CHECKPOINT; UPDATE item SET name = 'pglz'; ALTER TABLE item ADD COLUMN c1 int",
        "SET wal_compression = off; CHECKPOINT; UPDATE item SET name = 'plain'; ALTER TABLE item ADD COLUMN c2 int",
    ),
    (
        "SET wal_compression = lz4; CHECKPOINT; UPDATE item SET name = 'lz4'; ALTER TABLE item ADD COLUMN c3 int",
        "SET wal_compression = zstd; CHECKPOINT; UPDATE item SET name = 'zstd'; ALTER TABLE item ADD COLUMN c4 int",
        "CREATE PUBLICATION narrow FOR TABLE item (id, name); INSERT INTO item VALUES (95, 'z')",
        "ALTER PUBLICATION narrow SET TABLE item (id), wide WHERE (id > 3); INSERT INTO item VALUES (96, 'z')",
        "CREATE PUBLICATION schemas FOR TABLES IN SCHEMA shop",
        "CREATE TABLE shop.thing (a int GENERATED ALWAYS AS IDENTITY, b int GENERATED ALWAYS AS (1 + 1) STORED)",
        "INSERT INTO shop.thing DEFAULT VALUES",
    ),
)
"""In order."""

NOT_BEFORE = {
    "wal_compression = lz4": 15,
    "wal_compression = zstd": 15,
    "(id, name)": 15,
    "SET TABLE item (id)": 15,
    "IN SCHEMA": 15,
}

BEFORE = (
    *_held(),
    "CREATE ROLE somebody",
    "ALTER ROLE somebody SET timezone = 'Asia/Kolkata'",
    "ALTER DATABASE postgres SET intervalstyle = 'iso_8601'",
    "CREATE TYPE before AS ENUM ('a', 'b')",
    "CREATE TABLE old (id int PRIMARY KEY, at before)",
)
"""What the backup has already."""

OPEN = (
    "BEGIN",
    "INSERT INTO nothing VALUES (-1, 'open for long')",
    "CREATE TABLE opened (a int)",
    "INSERT INTO opened VALUES (1)",
)
"""A transaction that begins after the first step and commits before the last."""


def statements(lines: Iterable[str], major: int) -> Iterator[str]:
    """Give the lines' statements that a major knows."""
    for statement in (part for line in lines for part in line.split("; ")):
        if all(major >= since for words, since in NOT_BEFORE.items() if words in statement):
            yield statement
