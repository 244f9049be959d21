"""Messages as files: what a decode task leaves in the scratch directory.

A file appears under its name only when it is whole.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import Enum

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headwater.errors import HeadwaterError
from headwater.pipeline._lines import LSN_AND_XID, join_lines
from headwater.rows.items import Messages


class MessageForm(Enum):
    """What a task writes: an Arrow file, or lines of text without or with ``LSN<TAB>XID<TAB>``."""

    ARROW = "arrow"
    LINES = "lines"
    LINES_WITH_LSN = "lines with lsn"


@dataclass(frozen=True)
class MessageFile:
    """One task's file.

    Attributes:
        path: where it is.
        messages: how many.
        size: bytes of data in them.
    """

    path: str
    messages: int
    size: int

    def table(self) -> pa.Table:
        """The messages of an Arrow file, mapped into memory."""
        with pa.memory_map(self.path) as source:
            return pa.ipc.open_file(source).read_all()


def message_batch(messages: Messages, is_text: bool) -> pa.RecordBatch:
    """``lsn int64, xid int64, data string|binary`` over the arrays as they are."""
    size = int(messages.offsets[-1])
    kind: pa.DataType
    offsets: NDArray[np.generic]
    if size < 2**31:
        kind, offsets = (pa.string() if is_text else pa.binary()), messages.offsets.astype(np.int32)
    else:
        kind, offsets = (pa.large_string() if is_text else pa.large_binary()), messages.offsets
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(messages.data[:size]))]
    data = pa.Array.from_buffers(kind, len(messages.lsn), buffers)
    return pa.record_batch([_int64(messages.lsn), _int64(messages.xid), data], names=["lsn", "xid", "data"])


def _int64(values: NDArray[np.int64]) -> pa.Array:
    """The values as they lie in memory; ``pa.array`` would import pandas first, a quarter of a second."""
    return pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(np.ascontiguousarray(values))])


def write_messages(messages: Messages, path: str, form: MessageForm, is_text: bool) -> MessageFile:
    r"""Write a task's messages.

    Args:
        messages: them.
        path: the file.
        form: how.
        is_text: the plugin writes text; binary data becomes ``\x...`` in lines.

    Returns:
        the file.

    Raises:
        HeadwaterError: it cannot be written, as the disk is full, or for another reason.
    """
    part = f"{path}.part"
    try:
        _write(messages, part, form, is_text)
        os.replace(part, path)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise HeadwaterError(f"could not write output: {reason}", file=part) from None
    return MessageFile(path, len(messages.lsn), int(messages.offsets[-1]))


def _write(messages: Messages, path: str, form: MessageForm, is_text: bool) -> None:
    with pa.OSFile(path, "wb") as sink:
        if form is MessageForm.ARROW:
            batch = message_batch(messages, is_text)
            with pa.ipc.new_file(sink, batch.schema) as writer:
                writer.write_batch(batch)
        else:
            sink.write(lines(messages, form is MessageForm.LINES_WITH_LSN, not is_text))


def lines(messages: Messages, with_lsn: bool, as_hex: bool) -> memoryview:
    """One line per message."""
    size = int(messages.offsets[-1])
    out = np.empty(len(messages.lsn) * (LSN_AND_XID + 3) + size * (2 if as_hex else 1), np.uint8)
    data = messages.data if len(messages.data) else np.zeros(1, np.uint8)
    used = join_lines(messages.lsn, messages.xid, messages.offsets, data, with_lsn, as_hex, out)
    return memoryview(out[:used].data)
