"""SQLSTATEs that output plugins refuse with (PostgreSQL: ``utils/errcodes.txt``)."""

from __future__ import annotations

FEATURE_NOT_SUPPORTED = "0A000"
INVALID_PARAMETER_VALUE = "22023"
SYNTAX_ERROR = "42601"
INVALID_NAME = "42602"
UNDEFINED_OBJECT = "42704"
OBJECT_NOT_IN_PREREQUISITE_STATE = "55000"
