"""Numbers shared by the send kernels and the tables they read: codes of binary forms, and one more status.

A code of a binary form is a family and a number. So it is never a code of a text form (``_text_codes``), which are all
below SENT. Most families count by the text code whose value they send. Codes are not stored anywhere.
"""

from __future__ import annotations

import numpy as np

NO_SEND_FUNCTION = -4
"""A status of kernels beside those of ``_text_codes``: a value is made of one whose type has no send function."""

SENT = 1 << 8
"""Every code from here on is one of a binary form."""

NUMBER = 0xFF
"""The bits of a code that are its number; the others are its family."""

SEND_TEXT, SEND_VERSIONED, SEND_FIELDS, SEND_PARTS, SEND_OWN = 1 << 8, 2 << 8, 3 << 8, 4 << 8, 5 << 8
"""Families: the text itself, in the client's encoding, by its text code; a byte of version and the text; numbers, by
row of FIELDS; a value made of others, by its text code (array, composite, range, multirange); a form with a kernel of
its own, by text code."""

SEND_DIGITS = 6 << 8
"""Family: the bytes whose hexadecimal digits the text is, by its text code."""

SEND_NONE = 7 << 8
"""A type without a send function, inside another type."""

SEND_BYTES = 8 << 8
"""Family: bytes that are no text, by the text code that gives them as they are stored."""

SEND_INT2 = SEND_FIELDS
SEND_INT4 = SEND_FIELDS + 1
SEND_INT8 = SEND_FIELDS + 2
SEND_TID = SEND_FIELDS + 3
SEND_TIMETZ = SEND_FIELDS + 4
SEND_INTERVAL = SEND_FIELDS + 5
SEND_2_DOUBLES = SEND_FIELDS + 6
SEND_3_DOUBLES = SEND_FIELDS + 7
SEND_4_DOUBLES = SEND_FIELDS + 8

FIELDS = np.array(
    [
        [2, 0, 0, 0],
        [4, 0, 0, 0],
        [8, 0, 0, 0],
        [2, 2, 2, 0],
        [8, 4, 0, 0],
        [8, 4, 4, 0],
        [8, 8, 0, 0],
        [8, 8, 8, 0],
        [8, 8, 8, 8],
    ],
    dtype=np.int64,
)
"""Widths in bytes of the numbers that a value is stored as, one after the other; each is sent in network byte order."""

FIELDS_SIZE = FIELDS.sum(axis=1)
"""By row of FIELDS: bytes."""
