"""Tables of the schema ``headwater`` for rows that were deleted, which the target's own dead rows cannot be asked for.

A trigger of each table that is watched keeps the key of a row once there is no row of that key any more. The
transaction that has done it is ``xmin`` of what is kept. Triggers that no subscription needs any more are dropped.

Invariants: a trigger fails for no row, whatever its table has become: names and types are looked up, values are kept
as text that no setting of a session changes. It fires in every session, those that apply included.

PostgreSQL: ``retain_dead_tuples`` and ``max_retention_duration`` of subscriptions of 19; here on 14 to 19.
"""

from __future__ import annotations

from contextlib import suppress

from headwater.apply.progress.installation import transaction
from headwater.apply.target.connection import TargetConnection
from headwater.errors import TargetError
from headwater.receiver.replication_connection import quoted

TRIGGER = "headwater_keep_deleted"
IS_TRIGGER = """tgfoid IN (
    SELECT keeps.oid FROM pg_catalog.pg_proc keeps JOIN pg_catalog.pg_namespace ours ON ours.oid = keeps.pronamespace
    WHERE ours.nspname = 'headwater' AND keeps.proname = 'keep_deleted')"""
"""Tells a trigger of this kind, which changes nothing, from others."""
LOCK_SECONDS = 2

_LOCK = "SELECT pg_catalog.pg_advisory_xact_lock(7522525896800564325)"
_HAS_TABLE = "SELECT pg_catalog.to_regclass('headwater.watched_table') IS NOT NULL"
_FUNCTION = """
CREATE FUNCTION headwater.keep_deleted() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET "DateStyle" = 'ISO, YMD' SET "IntervalStyle" = 'postgres'
    SET "TimeZone" = 'UTC' SET extra_float_digits = 1 SET bytea_output = 'hex'
AS $function$
DECLARE
    own oid := coalesce(pg_get_replica_identity_index(TG_RELID), (
        SELECT indexrelid FROM pg_index WHERE indrelid = TG_RELID AND indisprimary AND indisvalid AND indimmediate));
    places int2[] := (SELECT indkey[0:indnkeyatts - 1] FROM pg_index WHERE indexrelid = own);
    old_texts text;
    new_texts text;
    attnums int2[];
    types oid[];
    deleted text[];
    stays text[];
BEGIN
    SELECT string_agg(format('($1).%I::text', attname), ', ' ORDER BY attnum),
           string_agg(format('($2).%I::text', attname), ', ' ORDER BY attnum),
           array_agg(attnum ORDER BY attnum), array_agg(atttypid ORDER BY attnum)
    INTO old_texts, new_texts, attnums, types
    FROM pg_attribute
    WHERE attrelid = TG_RELID AND attnum > 0 AND NOT attisdropped
          AND CASE WHEN places IS NULL THEN attgenerated = '' ELSE attnum = ANY (places) END;
    IF old_texts IS NULL THEN
        RETURN NULL;
    END IF;
    IF TG_OP = 'UPDATE' THEN
        EXECUTE 'SELECT ARRAY[' || old_texts || '], ARRAY[' || new_texts || ']' INTO deleted, stays USING OLD, NEW;
        IF stays IS NOT DISTINCT FROM deleted THEN
            RETURN NULL;
        END IF;
    ELSE
        EXECUTE 'SELECT ARRAY[' || old_texts || ']' INTO deleted USING OLD;
    END IF;
    INSERT INTO headwater.deleted_row (relid, hash, key, attnums, types)
    VALUES (TG_RELID, hash_array_extended(deleted, 0), deleted, attnums, types);
    RETURN NULL;
END
$function$
"""
_STATEMENTS = (
    """
    CREATE TABLE headwater.watched_table (
        subname text NOT NULL,
        relid oid NOT NULL,
        seconds float8 NOT NULL,
        PRIMARY KEY (subname, relid)
    )
    """,
    """
    CREATE TABLE headwater.deleted_row (
        relid oid NOT NULL,
        hash int8 NOT NULL,
        key text[] NOT NULL,
        attnums int2[] NOT NULL,
        types oid[] NOT NULL,
        deleted_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp()
    )
    """,
    # A publication of all tables refuses deletes of a table that has no identity.
    "ALTER TABLE headwater.deleted_row REPLICA IDENTITY FULL",
    "CREATE INDEX deleted_row_key ON headwater.deleted_row (relid, hash)",
    "CREATE INDEX deleted_row_time ON headwater.deleted_row (deleted_at)",
    _FUNCTION,
    "REVOKE ALL ON FUNCTION headwater.keep_deleted() FROM PUBLIC",
)
_OWN = """
SELECT r.srrelid, n.nspname, c.relname, w.seconds = $2::float8
FROM headwater.subscription s JOIN headwater.subscription_rel r ON r.srsubid = s.subid
     JOIN pg_catalog.pg_class c ON c.oid = r.srrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
     LEFT JOIN headwater.watched_table w ON w.subname = s.subname AND w.relid = r.srrelid
WHERE s.subname = $1 ORDER BY r.srrelid
"""
_HAS_TRIGGER = f"SELECT 1 FROM pg_catalog.pg_trigger WHERE tgrelid = $1::oid AND {IS_TRIGGER}"
# Partitions have triggers of their own, which do not always begin as that of the table does.
_ASLEEP = f"""
SELECT n.nspname, c.relname FROM pg_catalog.pg_partition_tree($1::oid::regclass) p
     JOIN pg_catalog.pg_class c ON c.oid = p.relid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
     JOIN pg_catalog.pg_trigger t ON t.tgrelid = c.oid AND {IS_TRIGGER} AND t.tgenabled <> 'A'
UNION ALL
SELECT n.nspname, c.relname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
     JOIN pg_catalog.pg_trigger t ON t.tgrelid = c.oid AND {IS_TRIGGER} AND t.tgenabled <> 'A'
WHERE c.oid = $1::oid AND c.relkind = 'r' AND NOT c.relispartition
"""
_WATCH = """
INSERT INTO headwater.watched_table VALUES ($1, $2::oid, $3::float8)
ON CONFLICT (subname, relid) DO UPDATE SET seconds = excluded.seconds
"""
_LEFT = """
DELETE FROM headwater.watched_table w WHERE w.subname = $1 AND ($2::bool OR NOT EXISTS (
    SELECT FROM headwater.subscription s JOIN headwater.subscription_rel r ON r.srsubid = s.subid
    WHERE s.subname = w.subname AND r.srrelid = w.relid))
"""
_UNWATCHED = f"""
SELECT n.nspname, c.relname FROM pg_catalog.pg_trigger t JOIN pg_catalog.pg_class c ON c.oid = t.tgrelid
     JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE t.{IS_TRIGGER} AND t.tgparentid = 0
      AND NOT EXISTS (SELECT FROM headwater.watched_table w WHERE w.relid = t.tgrelid)
"""
_EXPIRED = """
DELETE FROM headwater.deleted_row WHERE deleted_at < pg_catalog.clock_timestamp()
    - pg_catalog.make_interval(secs => (SELECT coalesce(max(seconds), 0) FROM headwater.watched_table))
"""
_NO_RIGHT = "42501"


def watch(connection: TargetConnection, subscription: str, seconds: float) -> list[str]:
    """See that deletions are kept of all tables of a subscription, and forget old ones; outside of a transaction.

    Args:
        connection: the target's; subscription: its name; seconds: how long they are kept.

    Returns:
        What could not be done for now, in words: another session holds a table.

    Raises:
        TargetError: the role may not.
        ConnectionLostError: the target is lost.
    """
    if not is_watching(connection):
        with transaction(connection):
            connection.rows(_LOCK)
            if not is_watching(connection):
                for statement in _STATEMENTS:
                    connection.rows(statement)
    _forget(connection, subscription, is_all=False)
    waiting = []
    for oid, namespace, name, is_watched in connection.rows(_OWN, (subscription, str(seconds))):
        try:
            _watch_table(connection, str(oid), f"{quoted(str(namespace))}.{quoted(str(name))}")
        except TargetError as error:
            if error.sqlstate != "55P03":
                raise _named(error, f"{namespace}.{name}") from None
            waiting.append(f'deletions in table "{namespace}.{name}" are not kept yet: {error.message}')
            continue
        if is_watched != "t":
            connection.rows(_WATCH, (subscription, oid, str(seconds)))
    connection.rows(_EXPIRED)
    return waiting


def stop_watching(connection: TargetConnection, subscription: str) -> None:
    """Keep no more deletions for a subscription; outside of a transaction."""
    if is_watching(connection):
        _forget(connection, subscription, is_all=True)


def is_watching(connection: TargetConnection) -> bool:
    """Tell whether the tables are there."""
    return connection.rows(_HAS_TABLE) == [("t",)]


def _watch_table(connection: TargetConnection, oid: str, name: str) -> None:
    has_trigger = bool(connection.rows(_HAS_TRIGGER, (oid,)))
    if has_trigger and not connection.rows(_ASLEEP, (oid,)):
        return
    with transaction(connection):
        connection.rows(f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'")
        if not has_trigger:
            connection.rows(
                f"CREATE TRIGGER {TRIGGER} AFTER DELETE OR UPDATE ON {name} "
                "FOR EACH ROW EXECUTE FUNCTION headwater.keep_deleted()"
            )
        for space, own in connection.rows(_ASLEEP, (oid,)):
            table = f"{quoted(str(space))}.{quoted(str(own))}"
            connection.rows(f"ALTER TABLE {table} ENABLE ALWAYS TRIGGER {TRIGGER}")


def _forget(connection: TargetConnection, subscription: str, *, is_all: bool) -> None:
    connection.rows(_LEFT, (subscription, "t" if is_all else "f"))
    for namespace, name in connection.rows(_UNWATCHED):
        # A role that is no longer the table's owner leaves it; what is kept then is forgotten in time.
        with suppress(TargetError), transaction(connection):
            connection.rows(f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'")
            connection.rows(f"DROP TRIGGER IF EXISTS {TRIGGER} ON {quoted(str(namespace))}.{quoted(str(name))}")


def _named(error: TargetError, name: str) -> TargetError:
    if error.sqlstate != _NO_RIGHT:
        return error
    hint = f'keeping deletions needs the owner of "{name}", or a role that is a member of it; or leave out that flag'
    return TargetError(error.message, sqlstate=error.sqlstate, hint=hint)
