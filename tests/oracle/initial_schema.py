"""The tables, types and publications that a random workload finds: they exist before the base copy is taken.

Shared tables lie in ``public``; session *n* alone writes to the schema ``sn`` and to the one whose name begins with
``aside``, its number and ``_``, which it renames; in ``certain`` lies what :mod:`oracle.certain` changes. Every
publication whose name begins with ``pub_`` is asked for by a stream; others come and go.
"""

from __future__ import annotations

import random

from oracle import values
from oracle.older_servers import as_server_takes

SESSIONS = 5
ASIDE = "aside"

SETUP = """
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy', 'it''s "complicated"');
CREATE DOMAIN positive AS integer CHECK (VALUE > 0);
CREATE DOMAIN short AS character varying(20);
CREATE DOMAIN shorter AS short;
CREATE DOMAIN moods AS mood[];
CREATE TABLE account (id integer PRIMARY KEY, name text NOT NULL, balance numeric(12,3), feeling mood, score positive,
    tags text[], added timestamp with time zone);
CREATE INDEX ON account (balance);
CREATE TABLE document (id bigint PRIMARY KEY, title character varying(20), body text, extra text, data jsonb,
    raw bytea);
ALTER TABLE document ALTER extra SET STORAGE EXTERNAL;
CREATE TABLE audit (id integer, body text, note text, at timestamp without time zone);
ALTER TABLE audit REPLICA IDENTITY FULL;
CREATE TABLE tag (id integer NOT NULL, label name, UNIQUE (id));
ALTER TABLE tag REPLICA IDENTITY USING INDEX tag_id_key;
CREATE TABLE heard (id integer, body text);
ALTER TABLE heard REPLICA IDENTITY NOTHING;
CREATE TABLE parent (id integer PRIMARY KEY, label text);
CREATE TABLE child (id integer PRIMARY KEY, parent integer REFERENCES parent ON DELETE CASCADE, label text);
CREATE TABLE event (id integer, region integer, note text, PRIMARY KEY (id, region)) PARTITION BY LIST (region);
CREATE TABLE event_0 PARTITION OF event FOR VALUES IN (0);
CREATE TABLE event_1 PARTITION OF event FOR VALUES IN (1) PARTITION BY HASH (id);
CREATE TABLE event_1_0 PARTITION OF event_1 FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE event_1_1 (note text, id integer NOT NULL, dropped integer, region integer NOT NULL);
ALTER TABLE event_1_1 DROP COLUMN dropped;
ALTER TABLE event_1 ATTACH PARTITION event_1_1 FOR VALUES WITH (MODULUS 2, REMAINDER 1);
CREATE TABLE event_rest PARTITION OF event DEFAULT;
CREATE TABLE figures (twice bigint GENERATED ALWAYS AS (a::bigint * 2) STORED, id integer PRIMARY KEY, a integer,
    label text, shout text GENERATED ALWAYS AS (upper(label)) STORED{virtual});
CREATE UNLOGGED TABLE scratch (id integer PRIMARY KEY, note text);
CREATE SCHEMA certain;
CREATE TABLE certain.long (id integer PRIMARY KEY, note text, body text);
ALTER TABLE certain.long ALTER body SET STORAGE EXTERNAL;
CREATE PUBLICATION pub_all FOR ALL TABLES {all_options};
CREATE PUBLICATION pub_list FOR TABLE account, document, child, event;
CREATE PUBLICATION pub_some FOR TABLE audit, account, parent WITH (publish = 'insert, delete');
CREATE PUBLICATION pub_columns FOR TABLE account (id, name), document (id, title, raw), child (id, parent),
    event (region, id), tag (id), figures (a, id), s0.base (id, b) WITH (publish_via_partition_root);
CREATE PUBLICATION pub_schemas FOR TABLES IN SCHEMA s0, {aside}1_0 {all_options};
CREATE PUBLICATION pub_root FOR TABLE event, account WITH (publish_via_partition_root);
CREATE PUBLICATION pub_generated FOR TABLE figures, account, event_1 {generated};
CREATE PUBLICATION pub_swapped FOR TABLE account, event, s1.base WITH (publish_via_partition_root);
CREATE PUBLICATION spare FOR TABLE document, event_1, s1.base;
CREATE PUBLICATION unasked FOR TABLE account, document, event, s0.base
"""


def setup_statements(rng: random.Random, major: int) -> list[str]:
    """Write the schema that exists before the base copy is taken, some of it with rows."""
    everything = rng.random() < 0.5
    script = SETUP.format(
        # Where updates are not published for all tables, a table without replica identity may be updated.
        all_options="" if everything else "WITH (publish = 'insert, truncate')",
        virtual=", thrice bigint GENERATED ALWAYS AS (a::bigint * 3) VIRTUAL" if major >= 18 else "",
        generated="WITH (publish_generated_columns = stored)" if major >= 18 else "",
        aside=ASIDE,
    )
    statements = [part for number in range(SESSIONS) for part in _own(number, rng)]
    statements += [part.strip() for part in script.split(";\n")]
    old = "g, 'old', repeat('old body ' || g, 900)"
    statements.append("CREATE TABLESPACE place LOCATION ''")
    statements += [f"SELECT pg_replication_origin_create('upstream {n}')" for n in range(SESSIONS)]
    statements.append("INSERT INTO account SELECT g, 'name ' || g, g / 7.0 FROM generate_series(-100, -1) g")
    statements.append(f"INSERT INTO document SELECT {old} FROM generate_series(-9, -1) g")
    return [as_server_takes(statement, major) for statement in statements]


def _own(number: int, rng: random.Random) -> list[str]:
    """Write a session's own schemas: one whose tables it alone writes to, one that it also renames."""
    base, aside = f"s{number}.base", f"{ASIDE}{number}_0"
    columns = "".join(f', "{name}" {name}' for name in values.BASE_TYPES if rng.random() < 0.4 and name != '"char"')
    return [
        f"CREATE SCHEMA s{number}",
        f"CREATE TABLE {base} (id integer PRIMARY KEY, a text, b integer, c text)",
        f"INSERT INTO {base} SELECT -g, 'a' || g, g FROM generate_series(1, 40) g",
        f"CREATE TABLE s{number}.wide (id integer PRIMARY KEY{columns})",
        f"CREATE TABLE s{number}.noted (id integer PRIMARY KEY, note text) WITH (user_catalog_table = true)",
        f"INSERT INTO s{number}.noted SELECT -g, 'old note' FROM generate_series(1, 5) g",
        f"CREATE SCHEMA {aside}",
        f"CREATE TABLE {aside}.thing (id integer PRIMARY KEY, a text)",
        f"CREATE TABLE {aside}.whole (id integer, a text, b numeric)",
        f"ALTER TABLE {aside}.whole REPLICA IDENTITY FULL",
    ]
