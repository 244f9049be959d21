"""The registry lists every kind of record, and the kernels' table says the same."""

from __future__ import annotations

import pytest

from headwater.errors import RecordError
from headwater.rmgr import registry
from headwater.rmgr.registry import CODES, RMGR_NAMES, known_table, record_name

MAJORS = (14, 15, 16, 17, 18, 19)


@pytest.mark.parametrize("major", MAJORS)
def test_the_table_and_the_names_agree(major: int) -> None:
    table = known_table(major)
    assert table.shape == (4096,)
    for rmid in range(256):
        for info in range(0, 256, 16):
            if table[rmid * 16 + (info >> 4)]:
                assert record_name(major, rmid, info | 0x03, 1)
            else:
                with pytest.raises(RecordError):
                    record_name(major, rmid, info, 1)


@pytest.mark.parametrize("major", MAJORS)
def test_every_manager_has_codes(major: int) -> None:
    assert len(RMGR_NAMES) == len(CODES[major]) == 22
    assert all(CODES[major])


@pytest.mark.parametrize(
    ("major", "rmid", "info", "name"),
    [
        (15, registry.HEAP2, 0x10, "PRUNE"),
        (16, registry.HEAP2, 0x30, "FREEZE_PAGE"),
        (17, registry.HEAP2, 0x30, "PRUNE_VACUUM_CLEANUP"),
        (18, registry.HEAP2, 0xD0, "MULTI_INSERT+INIT"),
        (18, registry.HEAP2, 0x40, "VISIBLE"),
        (18, registry.GIST, 0x70, "ASSIGN_LSN"),
        (19, registry.XLOG, 0xC0, "ASSIGN_LSN"),
        (19, registry.XLOG, 0xF0, "LOGICAL_DECODING_STATUS_CHANGE"),
        (15, registry.HEAP, 0x80, "INSERT+INIT"),
        (17, registry.XLOG, 0xE0, "CHECKPOINT_REDO"),
        (15, registry.XACT, 0x80, "COMMIT"),
        (15, registry.XACT, 0xB0, "COMMIT_PREPARED"),
        (18, registry.LOGICALMSG, 0x00, "MESSAGE"),
        (18, registry.DBASE, 0x20, "DROP"),
        (15, registry.DBASE, 0x10, "CREATE_WAL_LOG"),
        (14, registry.DBASE, 0x10, "DROP"),
        (14, registry.DBASE, 0x00, "CREATE"),
        (18, 130, 0x40, "custom resource manager 130"),
        (16, registry.BRIN, 0xA0, "UPDATE+INIT"),
    ],
)
def test_names(major: int, rmid: int, info: int, name: str) -> None:
    assert name == record_name(major, rmid, info, 0)


@pytest.mark.parametrize(
    ("major", "rmid", "info", "message"),
    [
        (16, registry.XLOG, 0xE0, "unknown info code 0xe0 of resource manager XLOG, PostgreSQL 16"),
        (19, registry.HEAP2, 0x40, "unknown info code 0x40 of resource manager Heap2, PostgreSQL 19"),
        (19, registry.GIST, 0x70, "unknown info code 0x70 of resource manager Gist, PostgreSQL 19"),
        (18, registry.XLOG, 0xF0, "unknown info code 0xf0 of resource manager XLOG, PostgreSQL 18"),
        (18, registry.XACT, 0x70, "unknown info code 0x70 of resource manager Transaction"),
        (18, 22, 0x00, "unknown resource manager 22, expected at most 21"),
        (14, 130, 0x00, "unknown resource manager 130, expected at most 21"),
        (14, registry.DBASE, 0x20, "unknown info code 0x20 of resource manager Database, PostgreSQL 14"),
    ],
)
def test_what_is_not_listed_is_an_error(major: int, rmid: int, info: int, message: str) -> None:
    with pytest.raises(RecordError, match=message) as caught:
        record_name(major, rmid, info, 0x77)
    assert caught.value.lsn == 0x77
