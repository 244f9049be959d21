"""The archives that BASE_BACKUP copies out, one after the other, each to be read as a file.

From 15 on there is one stream of messages: an archive begins, data, how far it is, the manifest begins. Before, there
is a stream an archive, in the order of the tablespaces that the server has listed, without the end that tar wants. Then
comes one of the manifest.

PostgreSQL: basebackup_copy.c (15 to 19), basebackup.c (14), pg_basebackup.c (ReceiveArchiveStreamChunk).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain

from headwater.errors import ServerError
from headwater.receiver.replication_connection import ReplicationConnection, Row

BASE = "base.tar"
_END_OF_TAR = bytes(1024)


class Archive:
    """An archive, or the manifest, as it comes.

    Args:
        name: ``base.tar``, ``OID.tar`` of a tablespace, empty for the manifest.
        pieces: its bytes.

    Attributes:
        name: see above.
    """

    def __init__(self, name: str, pieces: Iterator[bytes]) -> None:
        self.name = name
        self._pieces = pieces
        self._rest = b""

    @property
    def is_manifest(self) -> bool:
        """It is no archive, but the manifest."""
        return not self.name

    @property
    def folder(self) -> str:
        """The path of its files in the data directory: empty, or a tablespace's."""
        return "" if self.name == BASE else f"pg_tblspc/{self.name.removesuffix('.tar')}"

    def read(self, size: int = -1) -> bytes:
        """Read bytes, fewer than asked for at the end alone; all by default."""
        taken = [self._rest]
        count = len(self._rest)
        while size < 0 or count < size:
            piece = next(self._pieces, None)
            if piece is None:
                break
            taken.append(piece)
            count += len(piece)
        data = b"".join(taken)
        self._rest = b"" if size < 0 else data[size:]
        return data if size < 0 else data[:size]


def archives_of(
    connection: ReplicationConnection, tablespaces: list[Row], report: Callable[[int], None]
) -> Iterator[Archive]:
    """Give the archives of a backup that has begun, and at last its manifest; what is left of one is dropped.

    Args:
        connection: it has given the list of tablespaces.
        tablespaces: that list: OID, place, kilobytes; the OID is None of the data directory.
        report: called with the kilobytes that have come.

    Raises:
        ServerError: the server ends the backup by an error, or sends what is not understood.
        ConnectionLostError: the connection is lost.
    """
    if connection.postgres.copies_archives_in_one:
        return _Messages(connection.copied(), report).archives()
    return _streams(connection, tablespaces, report)


class _Messages:
    """The messages of the one stream."""

    def __init__(self, messages: Iterator[bytes], report: Callable[[int], None]) -> None:
        self._messages, self._report = messages, report
        self._head: bytes | None = None

    def archives(self) -> Iterator[Archive]:
        """Give the archives in their order."""
        for _ in self._data():
            raise ServerError("the server sends data of a backup before it names the archive")
        while (head := self._head) is not None:
            self._head = None
            name = head[1:].split(b"\0")[0].decode() if head[:1] == b"n" else ""
            pieces = self._data()
            yield Archive(name, pieces)
            for _ in pieces:
                pass

    def _data(self) -> Iterator[bytes]:
        """Give the data up to the next head."""
        for message in self._messages:
            kind = message[:1]
            if kind == b"d":
                yield message[1:]
            elif kind == b"p":
                self._report(int.from_bytes(message[1:9], "big") >> 10)
            elif kind in (b"n", b"m"):
                self._head = message
                return
            else:
                raise ServerError(f"a message of a backup is of the kind {kind!r}, expected n, m, d or p")


def _streams(
    connection: ReplicationConnection, tablespaces: list[Row], report: Callable[[int], None]
) -> Iterator[Archive]:
    """Give the archives of servers that send each in a stream of its own."""
    done = 0

    def counted(pieces: Iterator[bytes]) -> Iterator[bytes]:
        nonlocal done
        for piece in pieces:
            done += len(piece)
            report(done >> 10)
            yield piece

    for oid, *_ in tablespaces:
        pieces = chain(counted(connection.copied()), [_END_OF_TAR])
        yield Archive(BASE if oid is None else f"{oid}.tar", pieces)
        for _ in pieces:
            pass
    yield Archive("", connection.copied())
