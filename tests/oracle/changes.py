"""The statements of a random workload that change rows, each a random pick on a random table."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from oracle import values
from oracle.session import Session, Table

if TYPE_CHECKING:
    from oracle.workload import Workload

BIG_SIZES = (1500, 2100, 5000, 9000, 30000)


def change(workload: Workload, session: Session) -> None:
    """Change some rows of some table, or emit a message."""
    kinds: dict[Callable[[Workload, Session], object], int] = {
        insert: 30,
        insert_many: 7,
        insert_series: 3,
        copy: 4,
        upsert: 7,
        update: 22,
        update_key: 4,
        update_big: 6,
        update_nothing_big: 5,
        delete: 8,
        truncate: 1,
        merge: 2,
        move_partition: 3,
        message: 4,
        lock_rows: 3,
        sequence: 1,
        temporary: 2,
        subtransactions: 1,
        catalog_noise: 1,
        large_object: 1,
        origin: 1,
        own_catalog: 1,
    }
    picked = session.rng.choices(list(kinds), list(kinds.values()))[0]
    picked(workload, session)


def pick_table(session: Session, *, key: bool = False) -> Table:
    """Pick some table; shared ones as often as own ones."""
    leaves = session.rng.random() < 0.1
    tables = [t for t in session.tables() if (t.key or not key) and (leaves or not t.is_partition)]
    own = [t for t in tables if not t.is_shared]
    shared = [t for t in tables if t.is_shared]
    return session.rng.choice(own if own and session.rng.random() < 0.6 else shared)


def may_update(workload: Workload, table: Table) -> bool:
    """Tell whether to update, mostly not where the server refuses that for want of a replica identity."""
    return table.has_identity or not workload.everything_published


def key_value(session: Session, column: str, type_name: str, number: int) -> str:
    """Make a fresh key: unique by its number."""
    if column == "region":
        return str(session.rng.randrange(4))
    if type_name == "uuid":
        return f"'{number:032x}'::uuid"
    if "char" in type_name or type_name == "text":
        return f"'k{number}'"
    return str(number)


def row(session: Session, table: Table, *, big: float = 0.12) -> dict[str, str]:
    """Make column names and literals of a new row, some columns left to their defaults."""
    rng = session.rng
    number = session.next_number()
    session.recent_keys.setdefault(table.name, []).append(number)
    literals = {}
    for column in table.columns:
        if column.is_generated or column.is_identity:
            continue
        if column.name in table.key or column.name == "id":
            literals[column.name] = key_value(session, column.name, column.type, number)
        elif column.name == "parent":
            literals[column.name] = f"(SELECT min(id) FROM parent WHERE id % 10 = {session.number})"
        elif column.type == "text" and rng.random() < big:
            literals[column.name] = values.quote(values.big_text(rng, rng.choice(BIG_SIZES)))
        elif column.type == "bytea" and rng.random() < big:
            literals[column.name] = f"'\\x{rng.randbytes(rng.choice(BIG_SIZES)).hex()}'"
        elif column.name == "name" or rng.random() < 0.9:
            literals[column.name] = session.literal(column.type) if column.name != "name" else "'name'"
    return literals


def insert_statement(table: Table, rows: list[dict[str, str]]) -> str:
    """Write an INSERT of rows, DEFAULT where a row leaves a column out."""
    columns = [c.name for c in table.columns if any(c.name in row for row in rows)]
    if not columns:
        return f"INSERT INTO {table.name} DEFAULT VALUES"
    names = ", ".join(f'"{name}"' for name in columns)
    lines = ", ".join("(" + ", ".join(row.get(name, "DEFAULT") for name in columns) + ")" for row in rows)
    return f"INSERT INTO {table.name} ({names}) VALUES {lines}"


def insert(_workload: Workload, session: Session) -> bool:
    """Insert one row."""
    table = pick_table(session)
    return session.run(insert_statement(table, [row(session, table)]))


def insert_many(_workload: Workload, session: Session) -> bool:
    """Insert several rows in one statement."""
    table = pick_table(session)
    return session.run(insert_statement(table, [row(session, table) for _ in range(session.rng.randrange(2, 15))]))


def insert_series(_workload: Workload, session: Session) -> bool:
    """Insert some tens or hundreds of rows from a query; columns other than the key by their defaults."""
    table = pick_table(session)
    count = session.rng.choice((20, 50, 90, 250))
    first = session.next_number()
    session.serial += count
    columns = [c for c in table.columns if c.name in table.key or c.name == "id"]
    if not columns or any(c.is_identity for c in columns) or "name" in [c.name for c in table.columns]:
        return insert(_workload, session)
    names = ", ".join(c.name for c in columns)
    exprs = ", ".join(series_key(session, c.name, c.type, first) for c in columns)
    return session.run(f"INSERT INTO {table.name} ({names}) SELECT {exprs} FROM generate_series(0, {count - 1}) g")


def series_key(session: Session, column: str, type_name: str, first: int) -> str:
    """Write an expression over ``g`` that gives a fresh key per row."""
    number = f"({first} + g * 10)"
    if column == "region":
        return f"g % {session.rng.randrange(1, 4)}"
    if type_name == "uuid":
        return f"lpad(to_hex({number}), 32, '0')::uuid"
    if "char" in type_name or type_name == "text":
        return f"'k' || {number}"
    return number


def copy(_workload: Workload, session: Session) -> bool:
    """Insert rows by COPY, which the heap takes as multi-inserts; long values now and then."""
    rng = session.rng
    table = pick_table(session)
    names = [c for c in table.columns if not c.is_generated and not c.is_identity and c.name != "parent"]
    if not names:
        return False
    big = rng.choice((0.0, 0.0, 0.1))

    def line() -> str:
        number = session.next_number()
        return "\t".join(cell(c.name, c.type, number) for c in names)

    def cell(name: str, type_name: str, number: int) -> str:
        if name in table.key or name == "id":
            return key_value(session, name, type_name, number).split("::")[0].strip("'")
        if type_name == "text" and rng.random() < big:
            return values.big_text(rng, rng.choice(BIG_SIZES))
        if rng.random() < 0.1 and name != "name":
            return "\\N"
        text = values.text_of(rng, type_name, session.domains, session.enums)
        return text.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n")

    columns = ", ".join(f'"{c.name}"' for c in names)
    return session.copy_in(f"COPY {table.name} ({columns}) FROM STDIN", [line() for _ in range(rng.randrange(3, 80))])


def upsert(_workload: Workload, session: Session) -> bool:
    """Run INSERT ON CONFLICT, on keys that are taken and keys that are not."""
    rng = session.rng
    table = pick_table(session, key=True)
    recent = session.recent_keys.get(table.name, [])
    new = row(session, table)
    if recent and "id" in new and rng.random() < 0.6:
        number = rng.choice(recent[-20:])
        new["id"] = key_value(session, "id", next(c.type for c in table.columns if c.name == "id"), number)
    targets = [c.name for c in table.settable() if c.name in new]
    key = ", ".join(table.key)
    if not targets or rng.random() < 0.4:
        return session.run(f"{insert_statement(table, [new])} ON CONFLICT DO NOTHING")
    sets = ", ".join(f'"{name}" = excluded."{name}"' for name in targets)
    return session.run(f"{insert_statement(table, [new])} ON CONFLICT ({key}) DO UPDATE SET {sets}")


def some_rows(session: Session, table: Table, count: int) -> str:
    """Write a condition that holds for some rows that are this session's to change."""
    salt = session.rng.randrange(10**6)
    mine = f"WHERE id % 10 = {session.number}" if table.is_shared else ""
    if "id" in [c.name for c in table.columns]:
        return f"id IN (SELECT id FROM {table.name} {mine} ORDER BY md5(id::text || '{salt}') LIMIT {count})"
    return f"ctid = ANY (ARRAY(SELECT ctid FROM {table.name} ORDER BY md5(ctid::text || '{salt}') LIMIT {count}))"


def update(workload: Workload, session: Session) -> bool:
    """Change some columns of a few rows: HOT where no index is touched and the page has room."""
    rng = session.rng
    table = pick_table(session)
    columns = [c for c in table.settable() if c.name not in ("parent", "name")]
    if not columns or not may_update(workload, table):
        return insert(workload, session)
    picked = rng.sample(columns, rng.randrange(1, min(3, len(columns)) + 1))
    sets = ", ".join(f'"{c.name}" = {session.literal(c.type)}' for c in picked)
    return session.run(f"UPDATE {table.name} SET {sets} WHERE {some_rows(session, table, rng.choice((1, 1, 2, 12)))}")


def update_key(workload: Workload, session: Session) -> bool:
    """Change a row's key."""
    table = pick_table(session)
    column = next((c for c in table.columns if c.name == "id" and not c.is_identity and not c.is_generated), None)
    if column is None or not may_update(workload, table):
        return insert(workload, session)
    new = key_value(session, "id", column.type, session.next_number())
    return session.run(f"UPDATE {table.name} SET id = {new} WHERE {some_rows(session, table, 1)}")


def update_big(workload: Workload, session: Session) -> bool:
    """Give rows new long values."""
    rng = session.rng
    table = pick_table(session)
    columns = [c for c in table.settable() if c.type == "text"]
    if not columns or not may_update(workload, table):
        return insert(workload, session)
    name = rng.choice(columns).name
    text = values.quote(values.big_text(rng, rng.choice(BIG_SIZES)))
    return session.run(f'UPDATE {table.name} SET "{name}" = {text} WHERE {some_rows(session, table, 2)}')


def update_nothing_big(workload: Workload, session: Session) -> bool:
    """Change short columns of the rows with the longest values, which stay where they are."""
    table = pick_table(session)
    short = [c for c in table.settable() if c.type != "text" and c.name not in ("parent", "name")]
    long = [c for c in table.settable() if c.type == "text"]
    if not short or not long or not may_update(workload, table) or "id" not in [c.name for c in table.columns]:
        return insert(workload, session)
    column = session.rng.choice(short)
    mine = f"AND id % 10 = {session.number}" if table.is_shared else ""
    rows = f'SELECT id FROM {table.name} WHERE length("{long[0].name}") > 2000 {mine} LIMIT 4'
    return session.run(f'UPDATE {table.name} SET "{column.name}" = {session.literal(column.type)} WHERE id IN ({rows})')


def delete(workload: Workload, session: Session) -> bool:
    """Delete a few rows."""
    table = pick_table(session)
    if not may_update(workload, table):
        return insert(workload, session)
    return session.run(f"DELETE FROM {table.name} WHERE {some_rows(session, table, session.rng.choice((1, 1, 3)))}")


def truncate(_workload: Workload, session: Session) -> bool:
    """Empty tables, now and then to fill them again at once."""
    rng = session.rng
    own = [t.name for t in session.tables() if not t.is_shared]
    choices = [rng.choice(("public.event", "public.event_1", "public.parent", "public.tag", "public.document"))]
    names = rng.sample(own, min(len(own), rng.randrange(1, 3))) if own and rng.random() < 0.8 else choices
    extra = rng.choice(("", " CASCADE", " RESTART IDENTITY CASCADE", " RESTART IDENTITY"))
    done = session.run(f"TRUNCATE {', '.join(names)}{extra}")
    return done and insert(_workload, session)


def merge(_workload: Workload, session: Session) -> bool:
    """Run MERGE into a session's own table."""
    source = f"(SELECT -g AS id FROM generate_series({session.rng.randrange(30)}, 45) g) s"
    return session.run(
        f"MERGE INTO {session.schema}.base t USING {source} ON t.id = s.id WHEN MATCHED AND s.id % 3 = 0 THEN DELETE "
        f"WHEN MATCHED THEN UPDATE SET b = t.b + 1 WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)"
    )


def move_partition(_workload: Workload, session: Session) -> bool:
    """Run an UPDATE that moves rows to another partition."""
    region = session.rng.randrange(4)
    table = next((t for t in session.tables() if t.name == "public.event"), None)
    if table is None or session.rng.random() < 0.3:
        return session.run(f"INSERT INTO event VALUES ({session.next_number()}, {region}, 'moves')")
    return session.run(f"UPDATE event SET region = {region} WHERE {some_rows(session, table, 3)}")


def message(_workload: Workload, session: Session) -> bool:
    """Emit a logical message, transactional or not, text or bytes."""
    rng = session.rng
    transactional = rng.choice(("true", "false"))
    prefix = values.quote(rng.choice(("audit", "", "π")))
    content = rng.choice((values.quote("hello 🙂"), "''", "'\\x00ff10'::bytea", values.quote("x" * 3000)))
    return session.run(f"SELECT pg_logical_emit_message({transactional}, {prefix}, {content})", "message")


def lock_rows(_workload: Workload, session: Session) -> bool:
    """Lock rows, which writes to the WAL and changes nothing."""
    strength = session.rng.choice(("UPDATE", "NO KEY UPDATE", "SHARE", "KEY SHARE"))
    table = pick_table(session, key=True)
    return session.run(f"SELECT FROM {table.name} WHERE {some_rows(session, table, 3)} FOR {strength} NOWAIT", "lock")


def sequence(_workload: Workload, session: Session) -> bool:
    """Advance a sequence; sequences are not decoded."""
    name = f"{session.schema}.counter"
    return session.run(f"CREATE SEQUENCE IF NOT EXISTS {name}") and session.run(f"SELECT nextval('{name}')", "nextval")


def temporary(_workload: Workload, session: Session) -> bool:
    """Make a temporary table: its rows are in no WAL, its catalog rows are."""
    name = f"temp_{session.next_number()}"
    dropped = " ON COMMIT DROP" if session.in_transaction and session.rng.random() < 0.5 else ""
    made = session.run(f"CREATE TEMPORARY TABLE {name} (id integer PRIMARY KEY, a text){dropped}", "create temporary")
    return made and not dropped and session.run(f"INSERT INTO {name} VALUES (1, 'unseen')")


def subtransactions(_workload: Workload, session: Session) -> bool:
    """Run a loop of subtransactions, more than a snapshot lists (64), a third of which fail."""
    first = session.next_number()
    session.serial += 100
    return session.run(
        f"DO $$ BEGIN FOR g IN 1..{session.rng.choice((5, 70))} LOOP BEGIN "
        f"INSERT INTO {session.schema}.base (id, a) VALUES ({first} + g * 10, 'sub ' || g); "
        "IF g % 3 = 0 THEN RAISE division_by_zero; END IF; "
        "EXCEPTION WHEN division_by_zero THEN NULL; END; END LOOP; END $$",
        "subtransactions",
    )


def catalog_noise(_workload: Workload, session: Session) -> bool:
    """Change the catalog but no table: comments, grants, roles, functions, settings."""
    rng = session.rng
    name = f"{session.schema}.noise_{session.next_number()}"
    return session.run(
        rng.choice(
            (
                f"COMMENT ON TABLE {session.schema}.base IS {values.quote(values.big_text(rng, 3000))}",
                f"GRANT SELECT ON {session.schema}.base TO pg_monitor",
                f"CREATE FUNCTION {name}() RETURNS integer LANGUAGE sql AS {values.quote('SELECT 1 -- ' + 'x' * 3000)}",
                f"CREATE VIEW {name} AS SELECT * FROM account",
                "ALTER TABLE account ALTER balance SET STATISTICS 200",
            )
        ),
        "noise",
    )


def large_object(_workload: Workload, session: Session) -> bool:
    """Write large objects, which are rows of a catalog that nobody reads a table by."""
    rng = session.rng
    content = f"'\\x{rng.randbytes(rng.choice((3, 2000, 9000))).hex()}'::bytea"
    return session.run(
        rng.choice(
            (
                f"SELECT lo_from_bytea(0, {content})",
                f"SELECT lo_put(oid, 100, {content}) FROM pg_largeobject_metadata ORDER BY oid LIMIT 1",
                "SELECT lo_unlink(max(oid)) FROM pg_largeobject_metadata HAVING max(oid) IS NOT NULL",
            )
        ),
        "large object",
    )


def origin(_workload: Workload, session: Session) -> bool:
    """Let the session's changes come from another server from here on, or no longer; or set a position of that one."""
    name = f"upstream {session.number}"
    if session.in_transaction and session.rng.random() < 0.3:
        place = f"0/{session.next_number():X}"
        return session.run(
            f"SELECT pg_replication_origin_xact_setup('{place}', now()) WHERE pg_replication_origin_session_is_setup()",
            "origin",
        )
    return session.run(
        "SELECT CASE WHEN pg_replication_origin_session_is_setup() THEN pg_replication_origin_session_reset()::text "
        f"ELSE pg_replication_origin_session_setup('{name}')::text END",
        "origin",
    )


def own_catalog(_workload: Workload, session: Session) -> bool:
    """Write a row of a table that plugins may read: its transaction counts as one that has changed the catalog."""
    number = session.next_number()
    return session.run(
        session.rng.choice(
            (
                f"INSERT INTO {session.schema}.noted VALUES ({number}, 'note')",
                f"UPDATE {session.schema}.noted SET note = 'note {number}' WHERE id % 3 = 0",
            )
        ),
        "own catalog",
    )
