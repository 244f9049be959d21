"""The options of BASE_BACKUP, taken apart as the server does: names, values, words of each refusal.

PostgreSQL: parse_basebackup_options (basebackup.c, 14 to 19), BaseBackupGetTargetHandle (basebackup_target.c).

Known gaps: no target but the client; nothing is compressed by the service; no incremental backup.
"""

from __future__ import annotations

from dataclasses import dataclass

from headwater.errors import SessionError
from headwater.pg.sqlstates import FEATURE_NOT_SUPPORTED, OBJECT_NOT_IN_PREREQUISITE_STATE, SYNTAX_ERROR
from headwater.pg.version import Version
from headwater.protocol.replication_commands import Options, Value
from headwater.protocol.startup import parsed_bool

NUMERIC_VALUE_OUT_OF_RANGE = "22003"
LEAST_RATE, MOST_RATE = 32, 1 << 20
"""Kilobytes a second of MAX_RATE."""

NONE, CRC32C = "NONE", "CRC32C"
CHECKSUMS = (NONE, CRC32C, "SHA224", "SHA256", "SHA384", "SHA512")

_FLAGS = ("progress", "wal", "tablespace_map")
_FLAGS_OF_WORDS = ("fast", "nowait", "noverify_checksums")
_FLAGS_OF_LISTS = ("wait", "verify_checksums")
_TEXTS = ("label", "manifest", "manifest_checksums")
_TEXTS_OF_LISTS = ("checkpoint", "target", "target_detail", "compression", "compression_detail")
_READ_FIRST = ("checkpoint", "manifest", "manifest_checksums", "target_detail", "compression")
"""Options that must have a value even where they come twice."""

_COMPRESSIONS = ("none", "gzip", "lz4", "zstd")


@dataclass(frozen=True)
class BackupOptions:
    """The options of one BASE_BACKUP.

    Attributes:
        label: the backup's.
        has_progress: sizes are told before.
        has_wal: the WAL that the backup needs is in its archive.
        has_tablespace_map: a file says where tablespaces are.
        has_manifest: the manifest is sent behind the archives.
        encodes_paths: each path in it is in hexadecimal.
        checksum: of its files, one of CHECKSUMS.
        max_rate: kilobytes a second at most; 0 for no limit.
    """

    label: str = "base backup"
    has_progress: bool = False
    has_wal: bool = False
    has_tablespace_map: bool = False
    has_manifest: bool = False
    encodes_paths: bool = False
    checksum: str = CRC32C
    max_rate: int = 0


def backup_options(options: Options, version: Version) -> BackupOptions:
    """Take the options apart.

    Args:
        options: as they were parsed; version: of the server that is stood for.

    Raises:
        SessionError: one is unknown, comes twice, or cannot be.
    """
    values: dict[str, bool | str | int] = {}
    for name, value in options:
        if name not in _known(version):
            raise _syntax_error(f'unrecognized base backup option: "{name}"')
        if name in values and not (value is None and name in _READ_FIRST):
            raise _syntax_error(f'duplicate option "{name}"')
        values[name] = _checked(name, value)
    _check_together(values)
    manifest = str(values.get("manifest", "no"))
    return BackupOptions(
        str(values.get("label", "base backup")),
        bool(values.get("progress")),
        bool(values.get("wal")),
        bool(values.get("tablespace_map")),
        manifest != "no",
        manifest == "force-encode",
        str(values.get("manifest_checksums", CRC32C)),
        int(values.get("max_rate", 0)),
    )


def _known(version: Version) -> set[str]:
    names = {*_FLAGS, *_TEXTS, "max_rate"}
    if not version.options_in_parentheses:
        return names | set(_FLAGS_OF_WORDS)
    names |= {*_FLAGS_OF_LISTS, *_TEXTS_OF_LISTS}
    return names | ({"incremental"} if version.alters_replication_slots else set())


def _checked(name: str, value: Value) -> bool | str | int:
    """Return the value of an option, which is of its kind.

    Raises:
        SessionError: it is not.
    """
    if name in (*_FLAGS, *_FLAGS_OF_WORDS, *_FLAGS_OF_LISTS, "incremental"):
        is_on = _flag(name, value)
        if name == "incremental" and is_on:
            raise SessionError(
                "incremental backups cannot be taken unless WAL summarization is enabled",
                sqlstate=OBJECT_NOT_IN_PREREQUISITE_STATE,
                hint="the service has one backup, the whole one: ask for that",
            )
        return is_on
    if name == "max_rate":
        return _rate(value)
    return _text(name, value)


def _flag(name: str, value: Value) -> bool:
    if value is None or isinstance(value, bool):
        return value is None or value
    parsed = bool(value) if value in (0, 1) else parsed_bool(str(value)) if isinstance(value, str) else None
    if parsed is None:
        raise _syntax_error(f"{name} requires a Boolean value")
    return parsed


def _rate(value: Value) -> int:
    if not isinstance(value, int):
        raise _syntax_error("max_rate requires a numeric value")
    rate = value
    if not LEAST_RATE <= rate <= MOST_RATE:
        raise SessionError(
            f'{rate} is outside the valid range for parameter "MAX_RATE" ({LEAST_RATE} .. {MOST_RATE})',
            sqlstate=NUMERIC_VALUE_OUT_OF_RANGE,
        )
    return rate


def _text(name: str, value: Value) -> str:
    if value is None:
        raise _syntax_error(f"{name} requires a parameter")
    text = str(value)
    if name == "checkpoint" and text.lower() not in ("fast", "spread"):
        raise _syntax_error(f'unrecognized checkpoint type: "{text}"')
    if name == "compression" and text not in _COMPRESSIONS:
        raise _syntax_error(f'unrecognized compression algorithm: "{text}"')
    if name == "manifest":
        return _manifest(text)
    if name == "manifest_checksums":
        if text.upper() not in CHECKSUMS:
            raise _syntax_error(f'unrecognized checksum algorithm: "{text}"')
        return text.upper()
    return text


def _manifest(text: str) -> str:
    is_on = parsed_bool(text)
    if is_on is not None:
        return "yes" if is_on else "no"
    if text.lower() != "force-encode":
        raise _syntax_error(f'unrecognized manifest option: "{text}"')
    return "force-encode"


def _check_together(values: dict[str, bool | str | int]) -> None:
    """Check options that go with others, in the server's order.

    Raises:
        SessionError: they do not go together, or cannot be had.
    """
    if values.get("manifest", "no") == "no" and "manifest_checksums" in values:
        raise _syntax_error("manifest checksums require a backup manifest")
    target = values.get("target")
    if target is None and "target_detail" in values:
        raise _syntax_error("target detail cannot be used without target")
    if target is not None and target not in ("client", "server", "blackhole"):
        raise SessionError(f'unrecognized target: "{target}"', sqlstate=FEATURE_NOT_SUPPORTED)
    if target in ("client", "blackhole") and "target_detail" in values:
        raise _syntax_error(f'target "{target}" does not accept a target detail')
    if target == "server" and "target_detail" not in values:
        raise _syntax_error('target "server" requires a target detail')
    if "compression_detail" in values and "compression" not in values:
        raise _syntax_error("compression detail cannot be specified unless compression is enabled")
    if target in ("server", "blackhole"):
        raise _not_supported(f'target "{target}" is not supported', "let the client write the backup")
    if values.get("compression", "none") != "none":
        raise _not_supported("the service does not compress backups", "let the client do it: --compress=client-gzip")


def _syntax_error(message: str) -> SessionError:
    return SessionError(message, sqlstate=SYNTAX_ERROR)


def _not_supported(message: str, hint: str) -> SessionError:
    return SessionError(message, sqlstate=FEATURE_NOT_SUPPORTED, hint=hint)
