"""A schema with tables of all kinds, and publications that have them in every way that a major knows."""

from __future__ import annotations

LONG = "l" * 63

FILTERS = (
    "id > 5",
    "-id < 0 AND id % 2 = 0",
    "id IN (1, 2, 3)",
    "name NOT IN ('a', 'it''s \\')",
    "id BETWEEN 1 AND 10",
    "name IS NOT NULL AND NOT (id = -3)",
    "n::int = 3",
    "name COLLATE \"C\" > 'a'",
    "lower(name) = 'x'",
    "name LIKE 'a%' OR name ILIKE 'b%' OR name ~ '^a' OR name NOT LIKE 'c'",
    "substring(name from 2 for 3) = 'x' OR position('a' in name) > 0 OR trim(name) = ''",
    "overlay(name placing 'x' from 2) = 'y'",
    "day > '2020-01-01' AND extract(year from day) = 2020",
    "at AT TIME ZONE 'UTC' > '2020-01-01 00:00'",
    "flag",
    "flag IS NOT TRUE AND flag IS UNKNOWN",
    "coalesce(name, '') <> '' AND nullif(id, 0) IS NULL AND greatest(id, 3) > least(4, id)",
    "js @> '{\"a\": 1}' AND js ->> 'a' = '1' AND js #>> '{a,b}' = ''",
    "2 = ANY (arr) AND arr <> '{1,2}' AND cardinality(arr) > 1",
    "row(id, n) < row(1, 2)",
    "id IS DISTINCT FROM 3 AND n > 1.5e10 AND big > 3000000000 AND n = 7",
    "vc = 'x' AND ch = 'x' AND name || 'x' = 'yx' AND vc::char(2) = 'x'",
    "u = '00000000-0000-0000-0000-000000000000' AND ip << '10.0.0.0/8' AND span @> 5",
    "lasts > interval '1 day' AND raw = '\\x00'::bytea",
    "real > 1.5 AND float8(real) < 'NaN' AND small = 1::int2",
    '"Sel ect" = 1 AND "select" = 2',
    "CASE WHEN id > 1 THEN name = 'x' ELSE false END",
    "CASE id WHEN 1 THEN true WHEN 2 THEN flag END",
    "(CASE WHEN flag THEN id ELSE 2 END) = 1 AND (CASE WHEN id = (CASE id WHEN 1 THEN 3 END) THEN 1 END) > 3",
    f"id IN ({', '.join(map(str, range(3000)))})",
    "NULL::bool",
    "true",
)
"""Row filters, of the table ``filtered``."""


def deep_filter(depth: int) -> str:
    """Return CASE in CASE, so deep."""
    inner = "flag"
    for number in range(depth):
        inner = f"CASE WHEN id > {number} THEN {inner} ELSE id = {number} END"
    return inner


SETUP = rf"""
CREATE SCHEMA other;
CREATE SCHEMA "Third 'One";
CREATE SCHEMA empty;
CREATE TABLE plain (id int PRIMARY KEY, name text NOT NULL, n numeric(10, 2),
  twice int GENERATED ALWAYS AS (id * 2) STORED);
CREATE TABLE fewer (id int PRIMARY KEY, gone text, stays varchar(7)[], late timestamptz DEFAULT now());
ALTER TABLE fewer DROP COLUMN gone;
CREATE TABLE nothing ();
CREATE TABLE no_key (a int, b text);
CREATE TABLE whole (a int, b text); ALTER TABLE whole REPLICA IDENTITY FULL;
CREATE TABLE without_identity (a int PRIMARY KEY); ALTER TABLE without_identity REPLICA IDENTITY NOTHING;
CREATE TABLE by_index (a int NOT NULL, b int NOT NULL, c int, d int);
CREATE UNIQUE INDEX by_index_key ON by_index (b, a) INCLUDE (d);
ALTER TABLE by_index REPLICA IDENTITY USING INDEX by_index_key;
CREATE TABLE deferred (a int PRIMARY KEY DEFERRABLE, b int);
CREATE TABLE included (a int, b int, PRIMARY KEY (a) INCLUDE (b));
CREATE UNLOGGED TABLE unlogged (a int PRIMARY KEY);
CREATE TABLE parent (a int PRIMARY KEY, b int);
CREATE TABLE child (c int) INHERITS (parent);
CREATE VIEW seen AS SELECT * FROM plain;
CREATE MATERIALIZED VIEW seen_once AS SELECT 1 AS a;
CREATE SEQUENCE numbers;
CREATE TABLE "Third 'One"."Tä'b\le" ("Id" int PRIMARY KEY, "select" text, "a,b" int, "{{q""}}" int, "null" int);
CREATE TABLE other.{LONG} (id int PRIMARY KEY, {LONG} int);
CREATE TABLE other.plain (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY);
CREATE TABLE root (id int, region text, note text, PRIMARY KEY (id, region)) PARTITION BY LIST (region);
CREATE TABLE root_a PARTITION OF root FOR VALUES IN ('a');
CREATE TABLE other.root_b PARTITION OF root FOR VALUES IN ('b', 'c') PARTITION BY LIST (region);
CREATE TABLE other.root_b_b PARTITION OF other.root_b FOR VALUES IN ('b');
CREATE TABLE root_b_c (note text, gone int, region text NOT NULL, id int NOT NULL);
ALTER TABLE root_b_c DROP COLUMN gone;
ALTER TABLE other.root_b ATTACH PARTITION root_b_c FOR VALUES IN ('c');
CREATE UNLOGGED TABLE root_unlogged PARTITION OF root FOR VALUES IN ('d');
CREATE TABLE other_root (id int) PARTITION BY HASH (id);
CREATE TABLE filtered (id int, name text, n numeric, day date, at timestamptz, flag bool, js jsonb, arr int[], big int8,
  vc varchar(10), ch char(3), u uuid, ip inet, span int4range, lasts interval, raw bytea, real float4, small int2,
  "Sel ect" int, "select" int);
CREATE PUBLICATION pub_all FOR ALL TABLES;
CREATE PUBLICATION pub_all_root FOR ALL TABLES WITH (publish_via_partition_root = true);
CREATE PUBLICATION pub_empty;
CREATE PUBLICATION pub_some FOR TABLE plain, fewer, nothing, no_key, whole, by_index, other.{LONG};
CREATE PUBLICATION pub_parent FOR TABLE parent;
CREATE PUBLICATION pub_parent_only FOR TABLE ONLY parent;
CREATE PUBLICATION "Pub 'q\uoted" FOR TABLE "Third 'One"."Tä'b\le" WITH (publish = 'insert');
CREATE PUBLICATION {LONG} FOR TABLE other.plain;
CREATE PUBLICATION pub_leaves FOR TABLE root, other_root;
CREATE PUBLICATION pub_root FOR TABLE root, other_root WITH (publish_via_partition_root = true);
CREATE PUBLICATION pub_mid FOR TABLE other.root_b;
CREATE PUBLICATION pub_mid_root FOR TABLE other.root_b, root_a WITH (publish_via_partition_root = true);
CREATE PUBLICATION pub_root_and_leaf FOR TABLE root, other.root_b_b, root_b_c WITH (publish_via_partition_root = true);
CREATE PUBLICATION pub_leaf FOR TABLE root_b_c, root_a;
"""

SINCE_15 = r"""
CREATE PUBLICATION pub_schema FOR TABLES IN SCHEMA other, empty;
CREATE PUBLICATION pub_schema_root FOR TABLES IN SCHEMA other, empty WITH (publish_via_partition_root = true);
CREATE PUBLICATION pub_public_root FOR TABLES IN SCHEMA public WITH (publish_via_partition_root = true);
CREATE PUBLICATION pub_schema_table FOR TABLES IN SCHEMA public, TABLE other.plain WHERE (id > 3), other.root_b;
CREATE PUBLICATION pub_list FOR TABLE plain (n, id), fewer (stays, id), nothing;
CREATE PUBLICATION pub_list_2 FOR TABLE plain (id, n), fewer (id, stays, late), no_key (b, a);
CREATE PUBLICATION pub_list_root FOR TABLE root (region, id), plain (id) WITH (publish_via_partition_root = true);
CREATE PUBLICATION pub_rows FOR TABLE plain WHERE (id > 1 AND name = 'a'), fewer (id) WHERE (id < 0)
  WITH (publish = 'insert');
CREATE PUBLICATION pub_rows_2 FOR TABLE plain WHERE (id > 2), root_a WHERE (note <> '') WITH (publish = 'insert');
CREATE PUBLICATION pub_rows_root FOR TABLE root WHERE (id = 8), root_a WHERE (note = 'x')
  WITH (publish = 'insert', publish_via_partition_root = true);
"""

SINCE_18 = """
CREATE TABLE computed (id int PRIMARY KEY, stored int GENERATED ALWAYS AS (id + 1) STORED,
  virtual int GENERATED ALWAYS AS (id + 2) VIRTUAL);
CREATE PUBLICATION pub_generated FOR TABLE computed, plain WITH (publish_generated_columns = stored);
CREATE PUBLICATION pub_all_generated FOR ALL TABLES WITH (publish_generated_columns = stored);
CREATE PUBLICATION pub_generated_list FOR TABLE computed (stored, id), plain (twice, id);
CREATE PUBLICATION pub_not_generated FOR TABLE computed, plain;
"""

SINCE_19 = """
CREATE PUBLICATION pub_except FOR ALL TABLES EXCEPT (TABLE plain, root);
CREATE PUBLICATION pub_except_root FOR ALL TABLES EXCEPT (TABLE root, other.plain)
  WITH (publish_via_partition_root = true);
CREATE PUBLICATION pub_sequences FOR ALL SEQUENCES;
CREATE PUBLICATION pub_everything FOR ALL TABLES, ALL SEQUENCES;
"""

CHANGES = """
DROP VIEW seen;
ALTER TABLE plain DROP COLUMN name;
ALTER TABLE plain ADD COLUMN added int[];
ALTER TABLE whole REPLICA IDENTITY DEFAULT;
ALTER TABLE by_index REPLICA IDENTITY DEFAULT;
ALTER TABLE no_key RENAME TO renamed;
ALTER TABLE other.plain SET SCHEMA empty;
ALTER TABLE root DETACH PARTITION other.root_b;
DROP PUBLICATION pub_parent;
ALTER PUBLICATION pub_empty ADD TABLE child;
ALTER PUBLICATION pub_some RENAME TO pub_other;
ALTER PUBLICATION pub_root SET (publish_via_partition_root = false);
ALTER PUBLICATION pub_leaves DROP TABLE root;
DROP TABLE deferred;
"""
"""Statements after which everything is asked again."""


def setup_of(major: int) -> list[str]:
    """List the statements that make the schema."""
    scripts = [SETUP, SINCE_15 if major >= 15 else "", SINCE_18 if major >= 18 else "", SINCE_19 if major >= 19 else ""]
    statements = [statement for script in scripts for statement in script.split(";\n") if statement.strip()]
    if major >= 15:
        filters = [*FILTERS, *map(deep_filter, (3, 9, 10, 11, 13))]
        statements += [
            f"CREATE PUBLICATION f{number} FOR TABLE filtered WHERE ({row_filter}) WITH (publish = 'insert')"
            for number, row_filter in enumerate(filters)
        ]
    return statements


def changes_of(major: int) -> list[str]:
    """List the statements that change it."""
    dependent = ["ALTER PUBLICATION pub_rows DROP TABLE plain", "ALTER PUBLICATION pub_list_2 SET TABLE plain (n, id)"]
    return [*(dependent if major >= 15 else []), *filter(str.strip, CHANGES.split(";\n"))]
