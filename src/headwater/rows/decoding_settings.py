"""Settings of a session that change what the server decodes, and when: memory for decoding, and streaming at once.

PostgreSQL: ``guc.c`` (parse_int, convert_to_base_unit), ``guc_tables.c``.
"""

from __future__ import annotations

import re
from decimal import ROUND_HALF_EVEN, Decimal

from headwater.errors import UsageError
from headwater.pg.version import VERSIONS

WORK_MEM = 64 << 10
"""The default of logical_decoding_work_mem, kilobytes."""

_LEAST, _MOST = 64, (1 << 31) - 1
_UNITS = {"B": Decimal(1) / 1024, "": Decimal(1), "kB": Decimal(1), "MB": Decimal(1 << 10), "GB": Decimal(1 << 20)}
_UNITS["TB"] = Decimal(1 << 30)
_MEMORY = re.compile(r"\s*([+-]?[0-9]{1,30}(?:\.[0-9]{0,30})?|[+-]?\.[0-9]{1,30})\s*([A-Za-z]*)\s*")


def work_mem(value: str) -> int:
    """Read ``logical_decoding_work_mem``, in kilobytes.

    Raises:
        UsageError: the server would not take it.
    """
    match = _MEMORY.fullmatch(value)
    if match is None or match[2] not in _UNITS:
        raise UsageError(
            f'invalid value for parameter "logical_decoding_work_mem": "{value}"',
            hint='valid units for this parameter are "B", "kB", "MB", "GB", and "TB"',
        )
    kilobytes = int((Decimal(match[1]) * _UNITS[match[2]]).to_integral_value(ROUND_HALF_EVEN))
    if not _LEAST <= kilobytes <= _MOST:
        raise UsageError(
            f'{kilobytes} kB is outside the valid range for parameter "logical_decoding_work_mem" '
            f"({_LEAST} kB .. {_MOST} kB)"
        )
    return kilobytes


def debug_streaming(value: str, major: int) -> str:
    """Read ``debug_logical_replication_streaming``: buffered or immediate.

    Raises:
        UsageError: the server would not take it.
    """
    mode = value.strip().lower()
    if not VERSIONS[major].has_debug_streaming:
        raise UsageError(
            f'unrecognized configuration parameter "debug_logical_replication_streaming" of PostgreSQL {major}'
        )
    if mode not in ("buffered", "immediate"):
        raise UsageError(
            f'invalid value for parameter "debug_logical_replication_streaming": "{value}"',
            hint="available values: buffered, immediate",
        )
    return mode
