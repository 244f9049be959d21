"""Masks: what stands in the place of a value, in tables that are applied to and in those of a lake.

NULL stays NULL under each of them. A value is masked as the text that the source prints, in UTF8; of ``char(n)``
without the blanks that fill it up. Hashes are written as hexadecimal digits in lower case.

Invariant: the same value with the same secret becomes the same text, always, wherever it goes.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable
from dataclasses import dataclass

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
"""How they are written."""

HEX_CHARACTERS = 64
"""Characters of a hash."""
BPCHAR = 1042

Masking = Callable[[bytes], bytes | None]

_COUNTED = re.compile(rf"({KEEP_FIRST}|{KEEP_LAST}):([0-9]{{1,6}})")


@dataclass(frozen=True)
class Mask:
    """A mask; kind: one of those above; argument: of it, empty for none."""

    kind: str
    argument: str = ""

    @property
    def tells_apart(self) -> bool:
        """Whether values that differ stay different, so that rows can be looked up by it."""
        return self.kind in (SHA256, HMAC)

    @property
    def makes_text(self) -> bool:
        """Whether it makes a text of any value."""
        return self.kind not in (NULL, LITERAL)


def read_mask(text: str) -> Mask:
    """Read a mask as it is written.

    Raises:
        UsageError: there is no such mask.
    """
    if text in (NULL, SHA256, HMAC):
        return Mask(text)
    if text.startswith(f"{LITERAL}:"):
        return Mask(LITERAL, text.removeprefix(f"{LITERAL}:"))
    if match := _COUNTED.fullmatch(text):
        return Mask(match[1], match[2])
    raise UsageError(f'there is no mask "{text}"', hint=f"expected {MASKS}")


def masking(mask: Mask, secret: bytes, type_oid: int) -> Masking:
    """Return the function that masks a value.

    Args:
        mask: which; secret: of hashes; type_oid: of the source's column.
    """
    mask_value = _MAKERS[mask.kind](mask.argument, secret)
    if type_oid == BPCHAR:
        return lambda value: mask_value(value.rstrip(b" "))
    return mask_value


def _null(_argument: str, _secret: bytes) -> Masking:
    return lambda _value: None


def _literal(argument: str, _secret: bytes) -> Masking:
    text = argument.encode()
    return lambda _value: text


def _sha256(_argument: str, secret: bytes) -> Masking:
    salted = hashlib.sha256(secret)

    def mask_value(value: bytes) -> bytes:
        digest = salted.copy()
        digest.update(value)
        return digest.hexdigest().encode()

    return mask_value


def _hmac(_argument: str, secret: bytes) -> Masking:
    return lambda value: hmac.digest(secret, value, "sha256").hex().encode()


def _keep_first(argument: str, _secret: bytes) -> Masking:
    count = int(argument)

    def mask_value(value: bytes) -> bytes:
        text = value.decode()
        # What is not longer than what may be seen is not to be seen at all.
        shown = count if len(text) > count else 0
        return (text[:shown] + "*" * (len(text) - shown)).encode()

    return mask_value


def _keep_last(argument: str, _secret: bytes) -> Masking:
    count = int(argument)

    def mask_value(value: bytes) -> bytes:
        text = value.decode()
        shown = count if len(text) > count else 0
        hidden = len(text) - shown
        return ("*" * hidden + text[hidden:]).encode()

    return mask_value


_MAKERS: dict[str, Callable[[str, bytes], Masking]] = {
    NULL: _null,
    LITERAL: _literal,
    SHA256: _sha256,
    HMAC: _hmac,
    KEEP_FIRST: _keep_first,
    KEEP_LAST: _keep_last,
}
