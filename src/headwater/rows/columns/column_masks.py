"""Masks of columns: what stands in the place of values, for a whole column at once.

NULL stays NULL under each of them. What is masked is the text that the server prints, in UTF-8; of ``char(n)``
without the blanks that fill it up. Hashes are hexadecimal digits in lower case. These are the masks of
``headwater apply``, and the same value with the same secret becomes the same text here and there.

Each different value is hashed once a batch, about a million a second and core.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.errors import UsageError

NULL, LITERAL, SHA256, HMAC, KEEP_FIRST, KEEP_LAST = (
    "null",
    "literal",
    "sha256",
    "hmac-sha256",
    "keep-first",
    "keep-last",
)
MASKS = f"{NULL}, {LITERAL}:TEXT, {SHA256}, {HMAC}, {KEEP_FIRST}:N, {KEEP_LAST}:N"
BPCHAR = 1042

_COUNTED = re.compile(rf"({KEEP_FIRST}|{KEEP_LAST}):([0-9]{{1,6}})")
_DIGEST_BYTES = 32


@dataclass(frozen=True)
class ColumnMask:
    """A mask; pickles.

    Attributes:
        kind: one of those above; argument: of it, empty for none.
        secret: that hashes are made with; empty for none.
    """

    kind: str
    argument: str = ""
    secret: bytes = field(default=b"", repr=False)

    @property
    def tells_apart(self) -> bool:
        """Whether values that differ stay different, so that rows can be found by it."""
        return self.kind in (SHA256, HMAC)

    def masked(self, values: pa.StringArray, type_oid: int) -> pa.StringArray:
        """Mask a column.

        Args:
            values: STRING[n] as the server prints them; type_oid: of the source's type.
        """
        if self.kind == NULL:
            return pa.nulls(len(values), pa.string())
        if self.kind == LITERAL:
            text = pa.scalar(self.argument, pa.string())
            return cast("pa.StringArray", pc.if_else(values.is_null(), pa.scalar(None, pa.string()), text))
        encoded = values.cast(pa.binary()).dictionary_encode()
        different = cast("list[bytes]", encoded.dictionary.to_pylist())
        if type_oid == BPCHAR:
            different = [value.rstrip(b" ") for value in different]
        return self._texts(different).take(encoded.indices)

    def _texts(self, values: list[bytes]) -> pa.StringArray:
        if not self.tells_apart:
            return pa.array([_kept(self, value.decode()) for value in values], pa.string())
        digests = b"".join(map(self._digest(), values)).hex().encode()
        offsets = np.arange(len(values) + 1, dtype=np.int32) * (2 * _DIGEST_BYTES)
        return pa.StringArray.from_buffers(len(values), pa.py_buffer(offsets.tobytes()), pa.py_buffer(digests))

    def _digest(self) -> Callable[[bytes], bytes]:
        if self.kind == HMAC:
            return lambda value: hmac.digest(self.secret, value, "sha256")
        salted = hashlib.sha256(self.secret)

        def digest(value: bytes) -> bytes:
            own = salted.copy()
            own.update(value)
            return own.digest()

        return digest


def _kept(mask: ColumnMask, text: str) -> str:
    count = int(mask.argument)
    # What is not longer than what may be seen is not to be seen at all.
    shown = count if len(text) > count else 0
    hidden = len(text) - shown
    return text[:shown] + "*" * hidden if mask.kind == KEEP_FIRST else "*" * hidden + text[hidden:]


def read_mask(text: str, secret: bytes = b"") -> ColumnMask:
    """Read a mask as it is written.

    Args:
        text: it; secret: that hashes are made with, empty for none.

    Raises:
        UsageError: there is no such mask.
    """
    if text in (NULL, SHA256, HMAC):
        return ColumnMask(text, "", secret if text in (SHA256, HMAC) else b"")
    if text.startswith(f"{LITERAL}:"):
        return ColumnMask(LITERAL, text.removeprefix(f"{LITERAL}:"))
    if match := _COUNTED.fullmatch(text):
        return ColumnMask(match[1], match[2])
    raise UsageError(f'there is no mask "{text}"', hint=f"expected {MASKS}")
