"""Answers of a server's slot, and ours."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

import psycopg

from headwater.errors import PluginError
from headwater.pipeline.requests.plugin_loading import load_plugin
from headwater.plugins.api import (
    PluginContext,
    SlicePlugin,
)
from headwater.rows.session import SessionSettings
from server_versions import version_text

Connection = psycopg.Connection[Any]
Option = tuple[str, str]


def major_of(session: Connection) -> int:
    return session.info.server_version // 10000


def create_slot(session: Connection, plugin: str) -> str:
    slot = f"s{uuid.uuid4().hex}"
    session.execute("select pg_create_logical_replication_slot(%s, %s)", (slot, plugin))
    return slot


def changes(session: Connection, slot: str, options: Sequence[Option], *, keep: bool = False) -> list[bytes]:
    """Read what the server's plugin writes, consumed unless kept."""
    words = [word for option in options for word in option]
    function = "pg_logical_slot_peek_binary_changes" if keep else "pg_logical_slot_get_binary_changes"
    marks = ", %s" * len(words)
    rows = session.execute(f"select data from {function}(%s, null, null{marks})", (slot, *words)).fetchall()
    return [bytes(row[0]) for row in rows]


def make_plugin(session: Connection, name: str, options: Sequence[Option]) -> SlicePlugin:
    return load_plugin(name)(tuple(options), PluginContext(major_of(session), _settings(session)))


def _settings(session: Connection) -> SessionSettings:
    return SessionSettings(major=major_of(session), server_version=version_text(session))


def server_error(session: Connection, slot: str, options: Sequence[Option]) -> tuple[str | None, str | None] | None:
    """Return message and SQLSTATE of the server's error."""
    try:
        changes(session, slot, options, keep=True)
    except psycopg.Error as error:
        return error.diag.message_primary, error.diag.sqlstate
    return None


def our_error(session: Connection, plugin: str, options: Sequence[Option]) -> tuple[str, str] | None:
    try:
        make_plugin(session, plugin, options)
    except PluginError as error:
        return error.message, error.sqlstate
    return None
