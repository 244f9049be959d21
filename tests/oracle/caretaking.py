"""The statements of a random workload that tidy up or rebuild: what a DBA runs while others write.

Writers run some of them now and then; a session of its own does little else, and also attaches, detaches, rewrites and
truncates the tables that all others write to. Most of it waits for a lock and gives up.
"""

from __future__ import annotations

from oracle.session import Session

REWRITTEN = (
    "pg_class",
    "pg_attribute",
    "pg_type",
    "pg_publication_rel",
    "pg_enum",
    "pg_index",
    "pg_namespace",
    "pg_inherits",
    "pg_attrdef",
    "pg_constraint",
    "pg_proc",
    "pg_partitioned_table",
    "pg_publication",
    "pg_publication_namespace",
    "pg_largeobject",
    "pg_description",
    "pg_replication_origin",
)
"""Catalogs that VACUUM FULL gives new files, the mapped ones among them."""

SHARED = ("account", "document", "audit", "tag", "parent, child", "event", "event_1", "event_0", "figures", "heard")
"""What TRUNCATE is given together."""

PARTITIONS = {
    "event_0": ("event", "IN (0)"),
    "event_1": ("event", "IN (1)"),
    "event_1_0": ("event_1", "WITH (MODULUS 2, REMAINDER 0)"),
    "event_1_1": ("event_1", "WITH (MODULUS 2, REMAINDER 1)"),
}
"""Partitions that come and go: of what, with what bounds."""


def maintain(session: Session) -> None:
    """Run a statement of maintenance by a writer, most of them outside transactions."""
    rng = session.rng
    table = rng.choice(session.tables())
    statement = rng.choice(
        (
            f"VACUUM {table.name}",
            f"VACUUM FULL {table.name}",
            f"VACUUM (FREEZE) {table.name}",
            f"ANALYZE {table.name}",
            f"REINDEX TABLE {table.name}",
            f"CLUSTER {session.schema}.base USING base_pkey",
            f"CREATE INDEX CONCURRENTLY ON {session.schema}.base (b)",
            f"REINDEX TABLE CONCURRENTLY {session.schema}.base",
            f"REFRESH MATERIALIZED VIEW CONCURRENTLY {session.schema}.seen",
            f"VACUUM FULL {session.schema}.noted",
            "VACUUM FULL " + rng.choice(REWRITTEN),
            "VACUUM " + rng.choice(("pg_class", "pg_attribute", "pg_statistic")),
            "REINDEX TABLE pg_class",
            "CHECKPOINT",
            "CHECKPOINT",
            "SELECT pg_switch_wal()",
            "SELECT pg_log_standby_snapshot()" if session.major >= 16 else "CHECKPOINT",
        )
    )
    session.run(statement, "maintain " + " ".join(statement.split()[:2]).lower())
    session.forget_catalog()


def take_care(session: Session) -> None:
    """Run a statement by the session that does little else."""
    rng = session.rng
    draw = rng.random()
    if draw < 0.35:
        session.run(f"VACUUM FULL {rng.choice(REWRITTEN)}", "vacuum catalog")
    elif draw < 0.6:
        _move_partition(session)
    elif draw < 0.67:
        session.run(f"TRUNCATE {', '.join(rng.sample(SHARED, rng.randrange(2, 4)))} CASCADE", "truncate several")
    elif draw < 0.82:
        _rewrite(session)
    else:
        maintain(session)


def _move_partition(session: Session) -> None:
    """DETACH a partition, add rows to the table that is none at the time, and ATTACH it, at once or some time later."""
    rng = session.rng
    name = rng.choice(tuple(PARTITIONS))
    root, bounds = PARTITIONS[name]
    attached = session.rows(f"SELECT relispartition FROM pg_class WHERE oid = 'public.{name}'::regclass")
    whole = attached and attached[0][0] and rng.random() < 0.5
    if whole:
        session.begin()
    if attached and attached[0][0]:
        done = session.run(f"ALTER TABLE {root} DETACH PARTITION {name}", "detach shared")
    else:
        done = True
    if done and rng.random() < 0.7:
        region = 0 if name == "event_0" else 1
        session.run(f"INSERT INTO {name} (id, region, note) VALUES ({session.next_number()}, {region}, 'aside')")
    if done and (whole or not (attached and attached[0][0])):
        _attach(session, name, root, bounds)
    if session.in_transaction:
        session.finish("COMMIT")


def _attach(session: Session, name: str, root: str, bounds: str) -> None:
    """ATTACH a partition, after the rows are gone that its bounds would take from the default partition."""
    own = not session.in_transaction
    if own:
        session.begin()
    if root == "event":
        session.run(f"DELETE FROM event_rest WHERE region = {bounds[4]}", "delete")
    if session.in_transaction and session.run(
        f"DELETE FROM {name} WHERE NOT satisfies_hash_partition('{root}'::regclass, 2, {name[-1]}, id)"
        if root == "event_1"
        else f"DELETE FROM {name} WHERE region <> {bounds[4]}",
        "delete",
    ):
        session.run(f"ALTER TABLE {root} ATTACH PARTITION {name} FOR VALUES {bounds}", "attach shared")
    if own and session.in_transaction:
        session.finish("COMMIT")


def _rewrite(session: Session) -> None:
    """Write new files for a shared table, by a change of its definition or without one."""
    rng = session.rng
    number = session.next_number()
    statement = rng.choice(
        (
            f"VACUUM FULL {rng.choice(('account', 'document', 'audit', 'tag', 'event', 'figures'))}",
            f"ALTER TABLE audit ADD COLUMN v{number} double precision DEFAULT floor(random() * 0)",
            "ALTER TABLE tag ALTER label TYPE " + rng.choice(("text", "character varying(80)", "name")),
            "ALTER TABLE parent ALTER label TYPE " + rng.choice(('text COLLATE "C"', "character varying")),
            f"ALTER TABLE event ALTER note TYPE character varying({rng.randrange(100, 999)})",
            "ALTER TABLE event ALTER note TYPE text",
            "CLUSTER account USING account_pkey",
            "ALTER TABLE document SET (fillfactor = 70)",
            f"ALTER TABLE document ALTER title TYPE character varying({rng.randrange(20, 99)})",
            f"ALTER TABLE figures ADD COLUMN g{number} integer GENERATED ALWAYS AS (id + 1) STORED",
            f"ALTER TABLE event ADD COLUMN added_{number} integer DEFAULT {number}",
        )
    )
    session.run(statement, "rewrite shared")
