"""The server that changes are applied on: its connection, its tables, the statements that it is sent."""

from __future__ import annotations
