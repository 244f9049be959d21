"""Images of a real server's catalogs: what runs across the copy, and that they do not grow."""

from __future__ import annotations

from pathlib import Path

import pytest

from catalog.recording import Recorder, read_records, roll_forward, wrong_marks
from catalog.windows import check_windows, cut_at_random, roll
from headwater.base.value_codec import value_bytes
from headwater.catalog.store.bootstrap import open_catalog
from headwater.catalog.store.image_io import image_of, store_of
from headwater.local_servers.embedded_postgres import EmbeddedPostgres
from packaged_servers import programs_of

pytestmark = pytest.mark.server


def make_server(major: int) -> EmbeddedPostgres:
    return EmbeddedPostgres(programs_of(major), autovacuum=False)


@pytest.mark.parametrize("major", [pytest.param(14, marks=pytest.mark.slow), 15, 18])
def test_transactions_prepared_before_the_copy(major: int, tmp_path: Path) -> None:
    with make_server(major) as server:
        recorder = Recorder(server)
        for name, statement in (("kept", "CREATE TABLE kept (a int)"), ("lost", "CREATE TABLE lost (a int)")):
            recorder.quietly("a", f"BEGIN; SAVEPOINT s; {statement}; RELEASE s; PREPARE TRANSACTION '{name}'")
        recorder.close()
        server.stop()
        backup = server.copy_data_directory(tmp_path / "backup")
        server.start()
        recorder.run("a", "CREATE TABLE other (a int)", "VACUUM", "CHECKPOINT", "ALTER TABLE other ADD b int")
        recorder.run("a", "COMMIT PREPARED 'kept'", "ROLLBACK PREPARED 'lost'", "ALTER TABLE kept ADD b int")
        recorder.run("a", "VACUUM FULL pg_class", "VACUUM", "CHECKPOINT", "DROP TABLE kept", "VACUUM")
        recorder.close()
        server.stop()
        rolled = roll_forward(backup, server.wal_directory)
        assert not wrong_marks(recorder.marks, rolled)
        wrong = check_windows(cut_at_random(backup, server.wal_directory, rolled, 10, seed=major), recorder.marks)
        assert not wrong, wrong[0]


ROUND = """
    CREATE TYPE mood AS ENUM ('a', 'b');
    CREATE TABLE t (id bigserial PRIMARY KEY, m mood, c text DEFAULT 'x');
    CREATE PUBLICATION p FOR TABLE t;
    ALTER TABLE t ADD d int DEFAULT 7;
    BEGIN; ALTER TABLE t ADD e int; ROLLBACK;
    ALTER TABLE t RENAME TO u;
    DROP PUBLICATION p;
    DROP TABLE u;
    DROP TYPE mood
"""


def test_images_do_not_grow(tmp_path: Path) -> None:
    """Thirty rounds of DDL, each cleaned up by VACUUM, now and then by VACUUM FULL."""
    with make_server(16) as server:
        server.stop()
        backup = server.copy_data_directory(tmp_path / "backup")
        server.start()
        recorder, ends = Recorder(server), []
        for number in range(30):
            for statement in ROUND.split(";"):
                recorder.quietly("a", statement)
            recorder.quietly("a", "VACUUM FULL pg_attribute" if number % 10 == 5 else "VACUUM")
            with server.connect() as connection:
                row = connection.execute("SELECT pg_log_standby_snapshot() - '0/0'::pg_lsn").fetchone()
            assert row is not None
            ends.append(int(row[0]))
        recorder.close()
        server.stop()
        extra = roll_forward(backup, server.wal_directory).extra
        store = open_catalog(backup, "postgres", extra)
        records = read_records(server.wal_directory, store.start_lsn, 16)
    sizes, begin = [], 0
    for end in ends:
        cut = next(i for i, record in enumerate(records) if record.lsn >= end)
        roll(store, records[begin:cut])
        xids = [record.xid for record in records[:cut]]
        image = image_of(store, records[cut].lsn, records[cut].lsn, max(xids) + 1)
        sizes.append((len(value_bytes(image)), sum(len(rows) for _, rows in image.catalogs), len(image.heaps)))
        store, begin = store_of(image, store), cut
        for locator in extra - store.files.locators():
            store.files.add_extra(locator)
    assert len(image.xids) == 0
    for first, last in zip(map(max, zip(*sizes[:10], strict=True)), sizes[-1], strict=True):
        assert last <= first * 1.1
