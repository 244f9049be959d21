"""Options of pgoutput as the server reads and refuses them (parse_output_parameters, pgoutput_startup of pgoutput.c).

What differs between majors: ``two_phase`` came with 15, ``origin`` and ``streaming = parallel`` with 16; since 17 the
protocol's version and the publications must be given.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from headwater.errors import PluginError
from headwater.pg.decimals import decimal
from headwater.pg.sqlstates import FEATURE_NOT_SUPPORTED, INVALID_NAME, INVALID_PARAMETER_VALUE, SYNTAX_ERROR
from headwater.pg.version import Version
from headwater.plugins.options import get_boolean, get_streaming_mode, get_string, lower_ascii, split_identifiers

MAX_PROTOCOL = {14: 2, 15: 3, 16: 4, 17: 4, 18: 4, 19: 4}
STREAM_VERSION, TWO_PHASE_VERSION, PARALLEL_VERSION = 2, 3, 4
"""The protocol's highest version by major, and those that features need."""


@dataclass(frozen=True)
class PgOutputOptions:
    """Options as parsed (PGOutputData).

    Attributes:
        protocol_version: 1 or more, 0 if not given (14 to 16).
        publication_names: in the order given.
        binary: column values in binary form.
        messages: logical messages are sent.
        streaming: ``off``, ``on`` or ``parallel``.
        two_phase: prepared transactions are sent at PREPARE.
        publish_no_origin: only what has no origin is sent (16 and newer).
    """

    protocol_version: int = 0
    publication_names: tuple[str, ...] = ()
    binary: bool = False
    messages: bool = False
    streaming: str = "off"
    two_phase: bool = False
    publish_no_origin: bool = False


def parse_options(options: Sequence[tuple[str, str | None]], version: Version) -> PgOutputOptions:
    """Read and check options (parse_output_parameters, pgoutput_startup).

    Raises:
        PluginError: with the server's message.
    """
    values: dict[str, object] = {}
    for name, value in options:
        field, parsed = _parse_option(name, value, version, values)
        values[field] = parsed
    if version.requires_options:
        for name in ("proto_version", "publication_names"):
            if _FIELDS.get(name, name) not in values:
                raise PluginError(f'option "{name}" missing', sqlstate=INVALID_PARAMETER_VALUE)
    result = PgOutputOptions(**values)  # type: ignore[arg-type]
    _check_protocol(result, version)
    return result


_FIELDS = {"proto_version": "protocol_version", "origin": "publish_no_origin"}
_INT8 = re.compile(r"[ \t\n\v\f\r]*([+-]?[0-9]+)[ \t\n\v\f\r]*")
_NAMES = frozenset({"proto_version", "publication_names", "binary", "messages", "streaming", "two_phase", "origin"})


def _names(version: Version) -> frozenset[str]:
    """Return the names of the options."""
    later = {"two_phase": version.has_two_phase_option, "origin": version.has_origin_option}
    return _NAMES - {name for name, is_there in later.items() if not is_there}


def _parse_option(name: str, value: str | None, version: Version, seen: dict[str, object]) -> tuple[str, object]:
    """Return one option's field and value."""
    if name not in _names(version):
        raise PluginError(f"unrecognized pgoutput option: {name}")
    field = _FIELDS.get(name, name)
    if field in seen:
        raise PluginError("conflicting or redundant options", sqlstate=SYNTAX_ERROR)
    if name == "proto_version":
        return field, _protocol_version(get_string(name, value), version)
    if name == "publication_names":
        return field, _publication_names(get_string(name, value), version.major)
    if name == "origin":
        return field, _origin(get_string(name, value))
    if name == "streaming" and version.has_parallel_streaming:
        return field, get_streaming_mode(name, value)
    switch = get_boolean(name, value)
    if name == "streaming":
        return field, "on" if switch else "off"
    return field, switch


def _protocol_version(text: str, version: Version) -> int:
    """Return the number of a protocol version."""
    number = _unsigned(text) if version.reads_numbers_as_unsigned else _signed(text)
    if not text and not version.reads_no_digits_as_zero:
        number = None
    if number is None:
        raise PluginError("invalid proto_version", sqlstate=INVALID_PARAMETER_VALUE)
    if not 0 <= number <= 0xFFFFFFFF:
        raise PluginError(f'proto_version "{text}" out of range', sqlstate=INVALID_PARAMETER_VALUE)
    return number


def _signed(text: str) -> int | None:
    """Parse a number of 64 bits as scanint8 reads it: white space around it and a sign are allowed."""
    match = _INT8.fullmatch(text)
    number = decimal(match[1]) if match else None
    return number if number is not None and -1 << 63 <= number < 1 << 63 else None


def _unsigned(text: str) -> int | None:
    """Parse a number of 64 bits as strtoul reads it: white space and a sign may lead, nothing at all is 0."""
    digits = text.lstrip(" \t\n\v\f\r")
    negative = digits.startswith("-")
    digits = digits[1:] if digits[:1] in ("+", "-") else digits
    if (digits or text) and not (digits.isascii() and digits.isdigit()):
        return None
    number = decimal(digits or "0")
    if number > 0xFFFFFFFFFFFFFFFF:
        return None
    return -number & 0xFFFFFFFFFFFFFFFF if negative else number


def _publication_names(text: str, major: int) -> tuple[str, ...]:
    names = split_identifiers(text, major)
    if names is None:
        raise PluginError("invalid publication_names syntax", sqlstate=INVALID_NAME)
    return tuple(names)


def _origin(text: str) -> bool:
    """Tell whether only changes without an origin are wanted."""
    value = lower_ascii(text)
    if value not in ("none", "any"):
        raise PluginError(f'unrecognized origin value: "{text}"', sqlstate=INVALID_PARAMETER_VALUE)
    return value == "none"


def _check_protocol(options: PgOutputOptions, server: Version) -> None:
    """Check the protocol version against the server's and the features asked for."""
    version = options.protocol_version
    shown = version - (version >> 31 << 32)
    side = "server only supports" if server.calls_itself_server else "we only support"
    highest = MAX_PROTOCOL[server.major]
    if version > highest:
        raise _unsupported(f"client sent proto_version={shown} but {side} protocol {highest} or lower")
    if version < 1:
        raise _unsupported(f"client sent proto_version={shown} but {side} protocol 1 or higher")
    if not server.requires_options and not options.publication_names:
        raise PluginError("publication_names parameter missing", sqlstate=INVALID_PARAMETER_VALUE)
    for asked, feature, needed in (
        (options.streaming == "on", "streaming", STREAM_VERSION),
        (options.streaming == "parallel", "parallel streaming", PARALLEL_VERSION),
        (options.two_phase, "two-phase commit", TWO_PHASE_VERSION),
    ):
        if asked and version < needed:
            raise PluginError(
                f"requested proto_version={version} does not support {feature}, need {needed} or higher",
                sqlstate=INVALID_PARAMETER_VALUE,
            )


def _unsupported(message: str) -> PluginError:
    return PluginError(message, sqlstate=FEATURE_NOT_SUPPORTED)
