"""Entries ``[[land.table]]`` of a configuration file: settings of tables by patterns of their names.

::

    [[land.table]]
    tables = ["shop.customer", "shop.customer_*"]
    exclude-columns = ["ssn"]
    mode = "history"
    mask = { email = "sha256", phone = "keep-last:4" }
    properties = { "write.target-file-size-bytes" = "134217728" }
    partition = ["day(created_at)", "bucket(16, id)"]
    sort = ["created_at", "id desc"]
    key = ["tenant", "id"]
"""

from __future__ import annotations

from typing import Any, Protocol

from headwater.errors import UsageError
from headwater.lakes.settings.table_settings import TableSettings

TABLES = "tables"
_LISTS = (TABLES, "exclude-columns", "partition", "sort", "key")
_TABLES_OF_TEXT = ("mask", "properties")
_TEXTS = ("mode",)
KEYS = (TABLES, *_TEXTS, *_LISTS[1:], *_TABLES_OF_TEXT)


class Wrong(Protocol):
    """A maker of an error at a place in the file."""

    def __call__(self, message: str, *keys: str | int) -> UsageError:
        """Return the error; keys: those that lead from the entries to the place."""


def read_table_settings(entries: object, wrong: Wrong) -> tuple[TableSettings, ...]:
    """Read the entries.

    Args:
        entries: as TOML has them; wrong: makes errors.

    Raises:
        UsageError: one has what it does not take.
    """
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise wrong('"table" is no list of tables, expected [[land.table]]')
    return tuple(_read(entry, number, wrong) for number, entry in enumerate(entries))


def _read(entry: dict[str, Any], number: int, wrong: Wrong) -> TableSettings:
    for key, value in entry.items():
        if key not in KEYS:
            raise wrong(f'unknown key "{key}", expected {", ".join(KEYS)}', number, key)
        if key in _TEXTS:
            _require_text(value, key, number, wrong)
        elif key in _LISTS:
            _require_list(value, key, number, wrong)
        else:
            _require_texts(value, key, number, wrong)
        _require_value(key, value, number, wrong)
    if TABLES not in entry:
        raise wrong(f'an entry without "{TABLES}", the patterns of names that it is of', number)
    try:
        return _made(entry)
    except UsageError as error:
        raise wrong(_words(error), number) from None


def _require_text(value: object, key: str, number: int, wrong: Wrong) -> None:
    if not isinstance(value, str):
        raise wrong(f'"{key}" has a value of another kind, expected one text', number, key)


def _require_list(value: object, key: str, number: int, wrong: Wrong) -> None:
    if isinstance(value, str) and key == TABLES:
        return
    if not isinstance(value, list) or not value or not all(isinstance(own, str) and own for own in value):
        raise wrong(f'"{key}" has a value of another kind, expected a list of texts', number, key)


def _require_texts(value: object, key: str, number: int, wrong: Wrong) -> None:
    if not isinstance(value, dict) or not all(isinstance(own, str) for own in value.values()):
        raise wrong(f'"{key}" has a value of another kind, expected texts by names', number, key)


def _require_value(key: str, value: Any, number: int, wrong: Wrong) -> None:
    """See that one key can be as it is; of several names in one the first that cannot is told."""
    parts = {name: {name: text} for name, text in value.items()} if isinstance(value, dict) else {None: value}
    for name, part in parts.items():
        try:
            _made({TABLES: "*", key: part})
        except UsageError as error:
            raise wrong(f'"{key}": {_words(error)}', number, key, *([] if name is None else [name])) from None


def _made(entry: dict[str, Any]) -> TableSettings:
    return TableSettings.of_object({TABLES: "*", **entry})


def _words(error: UsageError) -> str:
    return error.message if error.hint is None else f"{error.message} ({error.hint})"
