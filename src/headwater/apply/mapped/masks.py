"""Masks: what stands in the place of a value.

NULL stays NULL under each of them. A value is masked as the text that the source prints, in UTF8; of ``char(n)``
without the blanks that fill it up. Hashes are written as hexadecimal digits in lower case.

Invariant: the same value with the same secret becomes the same text, always.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable

from headwater.apply.incoming.map_rules import HMAC, KEEP_FIRST, KEEP_LAST, LITERAL, NULL, SHA256, Mask

HEX_CHARACTERS = 64
"""Characters of a hash."""
BPCHAR = 1042

Masking = Callable[[bytes], bytes | None]


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
