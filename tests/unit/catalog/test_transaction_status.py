"""Fates of transactions: pg_xact of a copy and the ends that the log has had since."""

from __future__ import annotations

import numpy as np

from headwater.catalog.copy.commit_log import FILE_BYTES
from headwater.catalog.copy.transaction_status import ABORTED, COMMITTED, TransactionStatus, transaction_status

PER_FILE = 4 * FILE_BYTES


def status_of(statuses: TransactionStatus, xid: int) -> int:
    number = xid - statuses.oldest
    assert 0 <= number < statuses.count
    return int(statuses.bits[number // 4]) >> number % 4 * 2 & 3


def status_from(files: dict[int, bytes], next_xid: int, ends: dict[int, bool], begun: int = 0) -> TransactionStatus:
    xids = np.array(list(ends), np.int64) & 0xFFFFFFFF
    return transaction_status(files, next_xid, xids, np.array(list(ends.values()), np.bool_), begun)


def test_the_log_has_the_last_word() -> None:
    file = bytes([0b01_10_01_01, 0b00_00_11_01])  # a committed subtransaction is its parent's business
    statuses = status_from({0: file}, 8, {5: True, 6: False, 3: True, 8: True, 9: False})
    expected = [COMMITTED, COMMITTED, ABORTED, COMMITTED, COMMITTED, COMMITTED, ABORTED, 0, COMMITTED, ABORTED]
    assert [status_of(statuses, xid) for xid in range(10)] == expected
    assert status_of(statuses, 5000) == 0


def test_files_that_the_copy_has_not_yet() -> None:
    statuses = status_from({1: bytes([0x55])}, PER_FILE + 4, {2 * PER_FILE + 1: True})
    assert statuses.oldest == PER_FILE
    assert status_of(statuses, PER_FILE) == COMMITTED
    assert status_of(statuses, 2 * PER_FILE + 1) == COMMITTED
    assert status_of(statuses, 2 * PER_FILE) == 0


def test_numbers_that_begin_again() -> None:
    """The last file before 2^32 transactions and the first one after it are neighbours."""
    last = (1 << 32) // PER_FILE - 1
    epoch = 1 << 32
    files = {last: bytes(FILE_BYTES - 1) + b"\x55", 0: b"\x40"}
    statuses = status_from(files, epoch + 10, {epoch + 4: True, epoch - 8: True})
    assert statuses.oldest == last * PER_FILE
    assert status_of(statuses, epoch - 1) == COMMITTED
    assert status_of(statuses, epoch - 8) == COMMITTED
    assert status_of(statuses, epoch - 7) == 0
    assert status_of(statuses, epoch + 3) == COMMITTED
    assert status_of(statuses, epoch + 4) == COMMITTED


def test_transactions_that_no_file_has() -> None:
    """Transactions of before the copy should be in its files; later ones the log has, or they have not ended."""
    whole, short = bytes(FILE_BYTES), bytes(100)
    ends = {5 * PER_FILE + 7: True}
    assert status_from({3: whole, 4: short}, 5 * PER_FILE, ends, 4 * PER_FILE + 400).lost.tolist() == []
    statuses = status_from({3: whole, 4: short}, 5 * PER_FILE, ends, 5 * PER_FILE + 3)
    assert statuses.lost.tolist() == [[4 * PER_FILE + 400, 5 * PER_FILE + 3]]
    assert status_of(statuses, 5 * PER_FILE + 7) == COMMITTED
    gaps = [[3 * PER_FILE + 400, 4 * PER_FILE], [5 * PER_FILE, 5 * PER_FILE + 3]]
    assert status_from({3: short, 4: whole}, 5 * PER_FILE, ends, 5 * PER_FILE + 3).lost.tolist() == gaps
    assert status_from({3: whole, 4: b"", 5: whole}, 5 * PER_FILE, ends, 5 * PER_FILE + 3).lost.tolist() == [
        [4 * PER_FILE, 5 * PER_FILE]
    ]
    assert status_from({}, 5 * PER_FILE, ends, 5 * PER_FILE + 3).lost.tolist() == [[5 * PER_FILE, 5 * PER_FILE + 3]]
