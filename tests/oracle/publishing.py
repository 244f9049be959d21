"""The statements of a random workload that alter publications: members, column lists, options, names.

Two publications that one stream asks for must not differ in a table's columns, or the server stops: so lists of columns
are given only to publications that are asked for alone, and in ``pub_list`` to a table that ``pub_some`` never has.
Row filters look at key columns only, or the server would refuse updates.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from oracle.initial_schema import SESSIONS
from oracle.session import Session, Table

ACTIONS = (
    "insert",
    "insert, delete",
    "update",
    "delete, truncate",
    "insert, update",
    "insert, update, delete, truncate",
    "insert, update, delete, truncate",
)
COLUMNS = {
    "account": ("id, name", "name, id, tags", "id", "id, balance, feeling, score, added, name"),
    "document": ("id, title", "raw, body, id", "id, extra"),
    "audit": ("id, body", "note", "id, body, note, at"),
    "heard": ("id", "body"),
    "tag": ("id", "label, id"),
    "child": ("id", "id, parent"),
    "event": ("id, region", "region, note, id"),
    "event_0": ("id, region", "note, region, id"),
    "event_1": ("region, id",),
    "event_1_1": ("region, id", "note, id, region"),
    "event_rest": ("id, region", "note, id, region"),
    "figures": ("id, a", "label, id"),
    **{f"s{number}.base": ("id, b", "id, a, c", "c, id") for number in range(SESSIONS)},
}
GENERATED_COLUMNS = ("id, twice", "shout, id, twice, a")
"""Lists of the table ``figures`` from 18 on: generated columns had no place in one before."""

LEAVES = ("event", "event_0", "event_1", "event_1_0", "event_1_1", "event_rest")
MEMBERS = ("account", "document", "tag", "parent", "heard", *(f"s{number}.base" for number in range(SESSIONS)))
CATALOGS = ("pg_publication", "pg_publication_rel", "pg_publication_namespace")

Pick = Callable[[Session], list[str]]


def publish(session: Session) -> None:
    """Run one alteration, or a transaction of some, of which parts may be rolled back."""
    rng = session.rng
    draw = rng.random()
    if draw < 0.05:
        session.run(f"VACUUM FULL {rng.choice(CATALOGS)}", "vacuum publications")
    elif draw < 0.12:
        _swap_names(session)
    elif draw < 0.6:
        alter_publication(session)
    else:
        _transaction(session)


def publish_own(session: Session, table: Table) -> None:
    """Let a table enter or leave a publication, by the session that writes to it."""
    rng = session.rng
    name = rng.choice(
        ("pub_list", "pub_list", "pub_schemas", "pub_root", "pub_generated", "pub_columns", "pub_swapped")
    )
    columns = ""
    if name == "pub_columns":
        others = [
            c.name for c in table.columns if c.name not in table.key and (session.major >= 18 or not c.is_generated)
        ]
        picked = [*table.key, *rng.sample(others, rng.randrange(len(others) + 1))]
        rng.shuffle(picked)
        columns = f" ({', '.join(_quoted(column) for column in picked)})" if picked else ""
    if rng.random() < 0.65:
        session.run(f"ALTER PUBLICATION {name} ADD TABLE {table.name}{columns}", "publication")
    else:
        session.run(f"ALTER PUBLICATION {name} DROP TABLE {table.name}", "publication")


def alter_publication(session: Session) -> None:
    """Alter what a publication says, what is in it, or how one that nobody asks for is called."""
    rng = session.rng
    unasked = [name for (name,) in session.rows("SELECT pubname FROM pg_publication WHERE pubname LIKE 'unasked%'")]
    if not unasked or (len(unasked) < 3 and rng.random() < 0.1):
        name = f"unasked_{session.next_number()}"
        session.run(f"CREATE PUBLICATION {name} FOR TABLE {rng.choice(MEMBERS)}, {rng.choice(LEAVES)}", "publication")
        return
    name = rng.choice([*_PICKS, "spare", "pub_all", rng.choice(sorted(unasked))])
    pick = _PICKS.get(name, _unasked if name in unasked else _options)
    choice = rng.choice([*_options(session), *pick(session)])
    session.run(
        f"{choice} {name}" if choice == "DROP PUBLICATION" else f"ALTER PUBLICATION {name} {choice}", "publication"
    )


def _transaction(session: Session) -> None:
    session.begin()
    for _ in range(session.rng.randrange(1, 4)):
        if session.in_transaction:
            session.savepoint()
            alter_publication(session)
        if session.in_transaction and session.savepoints and session.rng.random() < 0.3:
            session.rollback_to()
    if session.in_transaction:
        session.finish(session.rng.choice(("COMMIT", "COMMIT", "ROLLBACK")))


def _swap_names(session: Session) -> None:
    """Swap the names of a publication that a stream asks for and another: at no time is the name nobody's."""
    session.begin()
    for old, new in (("pub_swapped", "swapping"), ("spare", "pub_swapped"), ("swapping", "spare")):
        if session.in_transaction:
            session.run(f"ALTER PUBLICATION {old} RENAME TO {new}", "swap publications")
    if session.in_transaction:
        session.finish("COMMIT")


def _options(session: Session) -> list[str]:
    return [f"SET (publish = '{session.rng.choice(ACTIONS)}')"]


def _members(session: Session) -> list[str]:
    rng = session.rng
    return [
        f"SET (publish_via_partition_root = {rng.choice(('true', 'false'))})",
        f"ADD TABLE {_some_rows(session, rng.choice(MEMBERS))}",
        f"DROP TABLE {rng.choice(MEMBERS)}",
        f"SET TABLE {_some_rows(session, rng.choice(MEMBERS))}, {_some_rows(session, rng.choice(LEAVES))}",
    ]


def _some_rows(session: Session, table: str) -> str:
    """Write a table, or some of its rows."""
    rng = session.rng
    if session.major < 15 or rng.random() < 0.5:
        return table
    number = rng.randrange(1, 200)
    choices = ("id % 2 = 0", "id % 3 <> 0", "id < 0", f"id > {number}", f"id < {number}", f"id BETWEEN 5 AND {number}")
    return f"{table} WHERE ({rng.choice(choices)})"


def _listed(session: Session) -> list[str]:
    columns = session.rng.choice(COLUMNS["child"])
    account = _some_rows(session, "account")
    lists = [f"ADD TABLE child ({columns})", "DROP TABLE child", f"SET TABLE child (id), {account}, event"]
    return [*_members(session), *_schemas(session), *lists]


def _some(session: Session) -> list[str]:
    return [*_members(session), *_schemas(session)]


def _schemas(session: Session) -> list[str]:
    rng = session.rng
    names = [name for (name,) in session.rows("SELECT nspname FROM pg_namespace WHERE nspname ~ '^(s|aside)[0-9]'")]
    if not names:
        return []
    schema, other = rng.choice(sorted(names)), rng.choice(sorted(names))
    return [
        f"ADD TABLES IN SCHEMA {schema}",
        f"DROP TABLES IN SCHEMA {schema}",
        f"SET TABLES IN SCHEMA {schema}, {other}",
    ]


def _in_schemas(session: Session) -> list[str]:
    schemas = _schemas(session)
    mixed = f"SET TABLE {session.rng.choice(LEAVES)}, TABLES IN SCHEMA s{session.rng.randrange(SESSIONS)}"
    return [*schemas, *schemas, mixed, *_members(session)]


def _roots(session: Session) -> list[str]:
    rng = session.rng
    member, other = (_some_rows(session, leaf) for leaf in rng.sample(LEAVES, 2))
    toggles = [f"SET (publish_via_partition_root = {value})" for value in ("true", "true", "false")]
    return [*toggles, f"ADD TABLE {member}", f"DROP TABLE {member.split()[0]}", f"SET TABLE {member}, {other}, account"]


def _columns(session: Session) -> list[str]:
    rng = session.rng

    def listed(table: str) -> str:
        lists = COLUMNS[table] + (GENERATED_COLUMNS if table == "figures" and session.major >= 18 else ())
        whole = table if rng.random() < 0.15 else f"{table} ({rng.choice(lists)})"
        return _some_rows(session, whole)

    tables = rng.sample(sorted(COLUMNS), 4)
    several = ", ".join(listed(table) for table in tables)
    root = f"SET (publish_via_partition_root = {rng.choice(('true', 'false'))})"
    return [root, *(f"ADD TABLE {listed(t)}" for t in tables[:2]), f"DROP TABLE {tables[0]}", f"SET TABLE {several}"]


def _generated(session: Session) -> list[str]:
    choices = ["ADD TABLE figures", "DROP TABLE figures", "SET TABLE figures, event_1, account"]
    if session.major >= 18:
        lists = session.rng.choice(GENERATED_COLUMNS)
        choices += [f"SET (publish_generated_columns = {value})" for value in ("stored", "none")]
        choices += [f"SET TABLE figures ({lists}), event_1"]
    return choices


def _unasked(session: Session) -> list[str]:
    rename = f"RENAME TO unasked_{session.next_number()}"
    return [*_members(session), *_schemas(session), rename, "DROP PUBLICATION"]


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


_PICKS: dict[str, Pick] = {
    "pub_list": _listed,
    "pub_some": _some,
    "pub_columns": _columns,
    "pub_schemas": _in_schemas,
    "pub_root": _roots,
    "pub_generated": _generated,
    "pub_swapped": _members,
}


def options_of_shared(rng: random.Random) -> list[str]:
    """Write alterations of publications by a session that writes to their tables."""
    return [
        "ALTER PUBLICATION pub_some SET (publish = 'insert')",
        "ALTER PUBLICATION pub_some SET (publish = 'insert, update, delete, truncate')",
        "ALTER PUBLICATION pub_list ADD TABLE tag",
        "ALTER PUBLICATION pub_list DROP TABLE tag",
        f"ALTER PUBLICATION pub_columns SET TABLE account ({rng.choice(COLUMNS['account'])}), child (id), event",
        f"ALTER PUBLICATION pub_root SET (publish_via_partition_root = {rng.choice(('true', 'false'))})",
        f"ALTER PUBLICATION pub_schemas SET TABLES IN SCHEMA s{rng.randrange(SESSIONS)}",
    ]
