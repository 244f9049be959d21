"""Messages as bytes of a file, as a decode task writes them.

Arrow takes text for UTF-8, whatever names of files are here: it is given bytes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import pairwise
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headwater.base.arrow_buffers import arrow_buffer
from headwater.errors import HeadwaterError
from headwater.jobs.value_files import writing
from headwater.pipeline.slices._lines import LSN_AND_XID, join_lines
from headwater.rows.items import HELD, Messages

_VALUES_AT_ONCE = 1 << 16
"""Values that Parquet encodes in one go; its own choice takes an eighth longer over small messages."""

BATCH_BYTES = 1 << 30
"""Messages of one Arrow batch have at most so many bytes, unless a single one has more."""


class MessageForm(Enum):
    """The file that a task writes: Arrow or Parquet, or lines of text without or with ``LSN<TAB>XID<TAB>``."""

    ARROW = "arrow"
    PARQUET = "parquet"
    LINES = "lines"
    LINES_WITH_LSN = "lines with lsn"


@dataclass(frozen=True)
class Told:
    """Messages of a task's file that depend on other slices, or on which those of others depend.

    Attributes:
        kind, number, counts_as: see :class:`headwater.rows.items.Conditions`.
        at: how many messages of the file are before them.
        count: how many they are; size: bytes of data in them.
        place: in a file of lines the bytes before them; end: before what follows.
        lsn, xid, texts: those that are not in the file (HELD); lines: the same as lines.
    """

    kind: int
    number: int
    counts_as: int
    at: int
    count: int
    size: int
    place: int = 0
    end: int = 0
    lsn: tuple[int, ...] = ()
    xid: tuple[int, ...] = ()
    texts: tuple[bytes, ...] = ()
    lines: bytes = b""

    @property
    def is_there(self) -> bool:
        """Whether these messages are in the file."""
        return self.kind != HELD


@dataclass(frozen=True)
class MessageCounts:
    """The counts of one task's file.

    Attributes:
        messages: how many.
        size: bytes of data in them.
        told: of those that depend on other slices, in their order.
        filtered: changes that row filters have left out.
    """

    messages: int
    size: int
    told: tuple[Told, ...] = ()
    filtered: int = 0


def message_table(path: str) -> pa.Table:
    """Return the messages of an Arrow file, mapped into memory."""
    with pa.memory_map(os.fsencode(path)) as source:  # type: ignore[arg-type]  # bytes too, as above
        return pa.ipc.open_file(source).read_all()


def message_batches(messages: Messages, is_text: bool) -> Iterator[pa.RecordBatch]:
    """Give batches of ``lsn int64, xid int64, data string|binary``.

    They are over the arrays as they are; no batch goes beyond what 32 bits count.
    """
    offsets, start, count = messages.offsets, 0, len(messages.lsn)
    while start < count:
        end = int(np.searchsorted(offsets, offsets[start] + BATCH_BYTES, "right")) - 1
        stop = min(count, max(end, start + 1))
        yield _batch(messages, start, stop, is_text)
        start = stop


def message_schema(is_text: bool) -> pa.Schema:
    """Return ``lsn int64, xid int64, data string|binary``."""
    return pa.schema([("lsn", pa.int64()), ("xid", pa.int64()), ("data", pa.string() if is_text else pa.binary())])


def _batch(messages: Messages, start: int, stop: int, is_text: bool) -> pa.RecordBatch:
    low, high = (int(messages.offsets[i]) for i in (start, stop))
    offsets = (messages.offsets[start : stop + 1] - low).astype(np.int32)
    data = np.ascontiguousarray(messages.data[low:high])
    schema = message_schema(is_text)
    column = pa.Array.from_buffers(
        schema.field("data").type, stop - start, [None, arrow_buffer(offsets), arrow_buffer(data)]
    )
    lsn, xid = _int64(messages.lsn[start:stop]), _int64(messages.xid[start:stop])
    return pa.RecordBatch.from_arrays([lsn, xid, column], schema=schema)


def check_text(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Refuse what the server sends all the same, a logical message of bytes that are no text, where text is promised.

    Args:
        batch: ``lsn, xid, data``.

    Returns:
        the batch.

    Raises:
        HeadwaterError: naming the first message.
    """
    lsn, _, data = batch.columns
    try:
        data.validate(full=True)
    except pa.ArrowInvalid:
        raise HeadwaterError(
            "a message is not valid UTF-8, expected text",
            lsn=lsn[_first_invalid(data)].as_py(),
            hint="write lines instead, or give the plugin's option force-binary, which makes the column binary",
        ) from None
    return batch


def _first_invalid(column: pa.Array[Any]) -> int:
    """Find by halves the first value that makes its column invalid."""
    low, high = 0, len(column)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            column[low:middle].validate(full=True)
            low = middle
        except pa.ArrowInvalid:
            high = middle
    return low


def _int64(values: NDArray[np.int64]) -> pa.Array[Any]:
    """Return the values as they lie in memory; ``pa.array`` would import pandas first, a quarter of a second."""
    return pa.Array.from_buffers(pa.int64(), len(values), [None, arrow_buffer(np.ascontiguousarray(values))])


def write_messages(
    sink: BinaryIO, messages: Messages, form: MessageForm, is_text: bool, lsn_digits: int
) -> MessageCounts:
    r"""Write a task's messages.

    Args:
        sink: an open file.
        messages: the messages.
        form: the form of the file.
        is_text: the plugin writes text; binary data becomes ``\x...`` in lines.
        lsn_digits: as many digits, or more, are printed after the slash of an LSN.

    Returns:
        what was written.

    Raises:
        HeadwaterError: it cannot be written, as the disk is full, or for another reason.
    """
    filtered = messages.filtered
    messages, dependent = set_apart(messages)
    with writing(sink.name):
        if form is MessageForm.ARROW:
            with arrow_writer(sink, message_schema(is_text)) as writer:
                for batch in message_batches(messages, is_text):
                    writer.write_batch(batch)
        elif form is MessageForm.PARQUET:
            with parquet_writer(sink, message_schema(is_text)) as writer:
                for batch in message_batches(messages, is_text):
                    writer.write_batch(check_text(batch))
        else:
            digits = lsn_digits if form is MessageForm.LINES_WITH_LSN else 0
            dependent = _write_lines(sink, messages, dependent, digits, not is_text)
    return MessageCounts(len(messages.lsn), int(messages.offsets[-1]), dependent, filtered)


def set_apart(messages: Messages) -> tuple[Messages, tuple[Told, ...]]:
    """Return the messages of a slice without those that earlier slices may have given; and what is told of them."""
    if not len(messages.conditions.kind):
        return messages, ()
    stays, dependent, gone = np.ones(len(messages.lsn), np.bool_), [], 0
    columns = (column.tolist() for column in messages.conditions)
    for kind, number, counts_as, first, count in zip(*columns, strict=True):
        size = int(messages.offsets[first + count] - messages.offsets[first])
        group = Told(kind, number, counts_as, first - gone, count, size)
        if kind == HELD:
            stays[first : first + count] = False
            gone += count
            group = _with_messages(group, messages.take(np.arange(first, first + count)))
        dependent.append(group)
    return messages.take(np.flatnonzero(stays)), tuple(dependent)


def _with_messages(group: Told, messages: Messages) -> Told:
    bounds = pairwise(messages.offsets.tolist())
    texts = tuple(messages.data[low:high].tobytes() for low, high in bounds)
    return replace(group, lsn=tuple(messages.lsn.tolist()), xid=tuple(messages.xid.tolist()), texts=texts)


def _write_lines(
    sink: BinaryIO, messages: Messages, dependent: Sequence[Told], lsn_digits: int, as_hex: bool
) -> tuple[Told, ...]:
    """Write lines, and return where those that others depend on begin and end."""
    placed, done = [], 0
    for group in dependent:
        _write_run(sink, messages, done, group.at, lsn_digits, as_hex)
        place, done = sink.tell(), group.at + group.count if group.is_there else group.at
        _write_run(sink, messages, group.at, done, lsn_digits, as_hex)
        text = b"" if group.is_there else bytes(lines(_messages_of(group), lsn_digits, as_hex))
        placed.append(replace(group, place=place, end=sink.tell(), lines=text))
    _write_run(sink, messages, done, len(messages.lsn), lsn_digits, as_hex)
    return tuple(placed)


def _write_run(sink: BinaryIO, messages: Messages, start: int, stop: int, lsn_digits: int, as_hex: bool) -> None:
    run = messages if stop - start == len(messages.lsn) else messages.take(np.arange(start, stop))
    sink.write(lines(run, lsn_digits, as_hex))


def _messages_of(group: Told) -> Messages:
    """Return the messages that are not in the file."""
    offsets = np.cumsum([0, *map(len, group.texts)])
    data = np.frombuffer(b"".join(group.texts), np.uint8)
    return Messages(np.array(group.lsn), np.array(group.xid), offsets, data)


def arrow_writer(sink: BinaryIO, schema: pa.Schema) -> pa.ipc.RecordBatchFileWriter:
    """Return a writer of an Arrow file for ``lsn, xid, data``; see :func:`parquet_writer`."""
    return pa.ipc.new_file(sink, schema)  # type: ignore[arg-type]  # any open file will do


def parquet_writer(sink: BinaryIO | pa.NativeFile, schema: pa.Schema) -> Any:
    """Return a writer of Parquet for ``lsn, xid, data``.

    Args:
        sink: an open file.
        schema: see :func:`message_schema`.
    """
    import pyarrow.parquet as pq  # takes a tenth of a second that only Parquet is worth

    ascending = {"lsn": "DELTA_BINARY_PACKED", "xid": "DELTA_BINARY_PACKED"}
    return pq.ParquetWriter(
        sink,
        schema,
        compression="snappy",
        use_dictionary=False,
        column_encoding=ascending,
        write_statistics=list(ascending),
        write_batch_size=_VALUES_AT_ONCE,
    )


def lines(messages: Messages, lsn_digits: int, as_hex: bool) -> memoryview:
    """Return one line per message; see :func:`join_lines`."""
    size = int(messages.offsets[-1])
    out = np.empty(len(messages.lsn) * (LSN_AND_XID + 3) + size * (2 if as_hex else 1), np.uint8)
    data = messages.data if len(messages.data) else np.zeros(1, np.uint8)
    used = join_lines(messages.lsn, messages.xid, messages.offsets, data, lsn_digits, as_hex, out)
    return memoryview(out[:used].data)
