"""Events as Debezium's connector for PostgreSQL writes them."""

from __future__ import annotations
