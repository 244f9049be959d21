"""Pairs for rules: a stock subscription of a publication with filters and lists, ours of one without, by rules.

Ours has its tables in the schema :data:`SCHEMA`, which is that of its database's sessions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from apply.differential import (
    MARKER,
    OURS,
    PUBLICATION,
    SOURCE_DATABASE,
    STOCK,
    Applying,
    Differential,
    make_slots,
    place,
    rows_of,
    server_of,
    subscribe,
)
from serving.service import wait_until

SCHEMA = "shop"
WHOLE = "whole"
"""The publication of ours."""
_MOVE = f"""
DO $$ DECLARE name text; BEGIN
    FOR name IN SELECT c.oid::regclass::text FROM pg_class c
                WHERE relkind IN ('r', 'p') AND relnamespace = 'public'::regnamespace LOOP
        EXECUTE format('ALTER TABLE %s SET SCHEMA {SCHEMA}', name);
    END LOOP;
END $$
"""


@contextmanager
def mapped_differential(
    directory: Path,
    major: int,
    tables: Sequence[str],
    publications: tuple[str, str],
    flags: Sequence[str],
    *,
    target_tables: Sequence[str] | None = None,
    renames: Sequence[str] = (),
    settings: dict[str, str] | None = None,
    is_two_phase: bool = False,
) -> Iterator[Differential]:
    """Make server, tables and slots, and begin both subscriptions.

    Args:
        directory: for the log of ours; major: of the server.
        tables: statements that make the publisher's tables; target_tables: the targets'.
        publications: what is published for the stock subscription, and for ours.
        flags: of ours; renames: statements that ours has had done, behind the move to its schema.
        settings: more of the server's; is_two_phase: prepared transactions are applied at PREPARE.
    """
    with ExitStack() as stack:
        server = stack.enter_context(server_of(major, **settings or {}))
        for database in (STOCK, OURS):
            with server.connect() as session:
                session.execute(f"CREATE DATABASE {database}".encode())
        source, target = place(server, SOURCE_DATABASE), place(server, OURS)
        flags = ["--rename", f"public.*={SCHEMA}.*", *(["--two-phase"] if is_two_phase else []), *flags]
        worker = Applying(source, target, directory / "apply.log", *flags, publication=WHOLE)
        pair = Differential(server, server, worker, is_two_phase)
        pair.on_source(MARKER, *tables)
        for name, objects in zip((PUBLICATION, WHOLE), publications, strict=True):
            pair.on_source(f"CREATE PUBLICATION {name} {objects}")
        pair.on_targets(MARKER, *(tables if target_tables is None else target_tables))
        with server.connect(OURS) as session:
            setting = f"ALTER DATABASE {OURS} SET search_path = {SCHEMA}"
            for statement in (f"CREATE SCHEMA {SCHEMA}", _MOVE, setting, f"SET search_path = {SCHEMA}", *renames):
                session.execute(statement.encode())
        make_slots(pair)
        subscribe(pair, "")
        stack.enter_context(worker)
        # What is prepared later may hold locks that a start waits for.
        active = f"SELECT active FROM pg_replication_slots WHERE slot_name = '{OURS}'"
        wait_until(lambda: rows_of(server, active) == [(True,)])
        yield pair
        assert worker.stop() == 0, worker.text()
        with server.connect(STOCK) as session:
            session.execute(b"ALTER SUBSCRIPTION stock DISABLE")
