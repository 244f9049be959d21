"""Mutated values: stored bytes of every type, printed and sent; the samples are those of the unit tests."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fuzz.corpus import Corpus
from fuzz.kinds import Kind
from fuzz.mutations import changed, words_of
from headwater.base.overrides import override
from headwater.rows.send._send import type_send
from headwater.rows.session import SessionSettings
from headwater.rows.text._text import type_text
from headwater.rows.text_tables import build_text_tables

_OUT_BYTES = 100_000
_GUARD = 64


class StoredValues(Kind):
    """Payloads of values: a text or a status, nothing written past the buffer, nothing read outside the value."""

    name, share = "values", 15

    @override
    def __init__(self, corpora: Sequence[Corpus], scratch: Path) -> None:
        from unit.rows.sent_types import TYPES

        sessions = (
            SessionSettings(timezone="Europe/Berlin"),
            SessionSettings(
                bytea_output="escape", datestyle="SQL", intervalstyle="sql_standard", extra_float_digits=-4
            ),
            SessionSettings(datestyle="Postgres, DMY", intervalstyle="postgres_verbose", timezone="Asia/Kolkata"),
        )
        self._values = [
            (
                payload,
                [build_text_tables([type], session) for session in sessions],
                build_text_tables([type], sessions[0], binary=True),
            )
            for type, payload in TYPES
        ]
        self._out = np.zeros((2, _OUT_BYTES + _GUARD), np.uint8)

    def run(self, rng: random.Random) -> str | None:
        """See :meth:`Kind.run`."""
        payload, texts, binary = rng.choice(self._values)
        value = changed(rng, payload, words_of(payload))
        room = rng.choice((_OUT_BYTES, _OUT_BYTES, rng.randrange(40)))
        is_sent = rng.random() < 0.4
        kernel, tables = (type_send, binary) if is_sent else (type_text, rng.choice(texts))
        ends = [self._said(kernel, tables, value, pad, room, number) for number, pad in enumerate((0, 255))]
        assert ends[0] == ends[1], f"depends on what lies around the value: {ends}"
        assert -5 < ends[0] <= room, f"ends at {ends[0]} of {room}"
        assert ends[0] < 0 or (self._out[0, : ends[0]] == self._out[1, : ends[0]]).all(), "depends on what lies around"
        return "printed" if ends[0] >= 0 else "refused"

    def _said(self, kernel: object, tables: object, payload: bytes, pad: int, room: int, number: int) -> int:
        around = bytes([pad]) * _GUARD
        source = np.frombuffer(around + payload + around, np.uint8)
        out = self._out[number]
        out[room : room + _GUARD] = 0xEE
        end = int(kernel(tables, 0, source.copy(), _GUARD, len(payload), out[:room], 0))  # type: ignore[operator]
        assert (out[room : room + _GUARD] == 0xEE).all(), "written behind the buffer"
        return end


KINDS: list[type[Kind]] = [StoredValues]
