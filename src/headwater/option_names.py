"""The name of an option where the user gave it: a flag of the command that runs, or an option of the data source.

An error is raised where nobody knows who asked, in a task too, and is shown where that is known. So its text mentions
an option by :func:`option`, and its hint what can be done by :func:`ways`; both give plain text with control characters
around the names, which pickles as it is. :func:`at_door` makes words of them when the text is shown
(:class:`~headwater.errors.HeadwaterError`): a way that needs an option which cannot be given there is left out.

A command says which flags it has (:func:`use_flags`), the data source that it is that (:func:`use_data_source`). Where
nobody has said anything, options are named as flags are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

DATA_SOURCE: Mapping[str, str] = {
    "wal": "path",
    "catalog": "catalog",
    "database": "database",
    "user": "user",
    "timeline": "timeline",
    "start": "startingLsn",
    "end": "endingLsn",
    "tables": "tables",
    "exclude": "exclude",
    "publish": "publish",
    "plugin": "plugin",
    "slot": "slot",
    "client-encoding": "set.client_encoding",
    "unknown-types": "unknownTypes",
    "on-unrepresentable": "onUnrepresentable",
    "on-level-gap": "onLevelGap",
    "from-replica-level": "fromReplicaLevel",
    "two-phase": "twoPhase",
    "window-bytes": "windowBytes",
    "images": "images",
    "ddl": "ddl",
    "server-version": "serverVersion",
}
"""Flags without their dashes, and what the data source calls them."""

_OF_NO_COMMAND = frozenset({"images"})
_INSIDE: Mapping[str, str] = {"set": "set.", "storage-option": "storage."}
"""Flags that take ``NAME=VALUE``, and how the data source's options begin that have the name inside."""

_MARK, _WAY, _BEGIN, _END = "\x1f", "\x1e", "\x1c", "\x1d"
_MENTION = re.compile(f"{_MARK}--([a-z-]+)(?: ([^{_MARK}]*))?{_MARK}")
_WAYS = re.compile(f"{_BEGIN}([^{_END}]*){_END}")

_flags: frozenset[str] | None = None
_is_data_source = False


def option(name: str, value: object = "") -> str:
    """Mention an option in a message or a hint.

    Args:
        name: the flag without its dashes.
        value: what it is to be given, empty for the bare name; ``NAME=VALUE`` where a flag takes that.
    """
    return f"{_MARK}--{name} {value}{_MARK}" if str(value) else f"{_MARK}--{name}{_MARK}"


def ways(*texts: str) -> str:
    """Say what can be done, one way or the other: those that need an option which is not there are left out."""
    return f"{_BEGIN}{_WAY.join(texts)}{_END}"


def use_flags(names: Iterable[str]) -> None:
    """Make this process from now on a command with these flags, named without their dashes."""
    global _flags
    _flags = frozenset(names)


def use_data_source() -> None:
    """Make this process from now on one that Spark has started for the data source."""
    global _is_data_source
    _is_data_source = True


def at_door(text: str) -> str:
    """Name all options of a text as the user can give them; one that cannot be given is named as a flag."""
    return _MENTION.sub(lambda match: _named(match) or match[0].strip(_MARK), _WAYS.sub(_possible, text))


def hint_at_door(hint: str | None) -> str:
    """Name the options of a hint, which is empty if all it can say needs options that cannot be given."""
    text = "" if hint is None else _WAYS.sub(_possible, hint)
    return at_door(text) if _is_possible(text) else ""


def _possible(match: re.Match[str]) -> str:
    return ", or ".join(way for way in match[1].split(_WAY) if _is_possible(way))


def _is_possible(text: str) -> bool:
    return all(_named(match) for match in _MENTION.finditer(text))


def _named(match: re.Match[str]) -> str | None:
    """Return an option as it is given here, None if it cannot be."""
    name, value = match[1], match[2] or ""
    if _is_data_source:
        return _of_data_source(name, value)
    is_flag = name not in _OF_NO_COMMAND if _flags is None else name in _flags
    return f"--{name} {value}".rstrip() if is_flag else None


def _of_data_source(name: str, value: str) -> str | None:
    if name in _INSIDE:
        inner, _, value = value.partition("=")
        name, value = f"{_INSIDE[name]}{inner or 'NAME'}", value.replace("VALUE", "")
    else:
        name = DATA_SOURCE.get(name, "")
    if not name:
        return None
    return f'option("{name}", "{value}")' if value else f"the option {name}"
