"""The functions that are computed here, by the names that they have in the server's C code.

A function takes its arguments as columns of values of the same length, which hold no NULL if it is strict. It returns a
column of its results. Modules add their functions by :func:`register`; :mod:`headwater.filters.known` imports them all.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from headwater.errors import RecordError, UnsupportedFilterError
from headwater.filters.values import FIXED, Values, from_list, is_fixed
from headwater.pg.functions import BuiltInFunction
from headwater.pg.version import VERSIONS, Version, version_named

C_COLLATIONS = frozenset({950, 951, 962})
"""The collations C, POSIX and ucs_basic, under which text compares by its bytes."""

DEFAULT_COLLATION = 100
C_LOCALES = ("C", "POSIX")
LIBC = "c"
_TURKIC = ("tr", "az")


@dataclass(frozen=True, slots=True)
class FilterSettings:
    """The settings that the results of expressions depend on.

    Attributes:
        major: PostgreSQL's.
        encoding: the database's.
        collate: the locale that the database's text is ordered by: ``datcollate``, or ``datlocale`` (before 17
            ``daticulocale``) if its provider is not libc; empty if it is not known.
        ctype: the locale that decides which characters are letters: the same, but ``datctype`` if its provider is libc.
        provider: ``datlocprovider``.
        server_version: as in :class:`~headwater.rows.session.SessionSettings`.
    """

    major: int
    encoding: str = "UTF8"
    collate: str = ""
    ctype: str = ""
    provider: str = LIBC
    server_version: str = ""

    @property
    def version(self) -> Version:
        """The server's version."""
        return version_named(self.server_version, self.major) if self.server_version else VERSIONS[self.major]


class Context(NamedTuple):
    """The call of a function.

    Attributes:
        function: the function.
        types: OIDs of its arguments' types, as they are given.
        result: OID of its result's type.
        collation: OID of its input collation, 0 for none.
        settings: the settings of the filter.
        constants: the stored forms of the arguments that are constants, None for others and for NULL.
    """

    function: BuiltInFunction
    types: tuple[int, ...]
    result: int
    collation: int
    settings: FilterSettings
    constants: tuple[bytes | None, ...] = ()

    @property
    def sorts_bytes(self) -> bool:
        """True if text compares by its bytes."""
        if self.collation == DEFAULT_COLLATION:
            return self.settings.collate in C_LOCALES
        return self.collation in C_COLLATIONS or self.collation == 0

    @property
    def has_plain_letters(self) -> bool:
        """True if no characters but those of ASCII are letters."""
        if self.collation == DEFAULT_COLLATION:
            return self.settings.ctype in C_LOCALES
        return self.collation in C_COLLATIONS

    @property
    def knows_ascii_letters(self) -> bool:
        """True if letters of ASCII have the cases that they have everywhere but in Turkic languages."""
        if self.has_plain_letters:
            return True
        language = self.settings.ctype.lower()[:2]
        return self.collation == DEFAULT_COLLATION and language not in ("", *_TURKIC)

    def require_ascii(self, *values: bytes) -> None:
        """Refuse characters beyond ASCII where they may be letters under the collation.

        Raises:
            UnsupportedFilterError: a value has such a character.
        """
        if not self.has_plain_letters and not all(value.isascii() for value in values):
            raise _letters_refused(self, ", of a value that has more than those of ASCII")


Compute: TypeAlias = Callable[..., Values]
Check: TypeAlias = Callable[[Context], None]


class Implementation(NamedTuple):
    """The implementation of a function.

    Attributes:
        compute: takes the context and the arguments.
        check: raises UnsupportedFilterError for a call that cannot be computed; None if all calls can.
        is_total: it raises nothing, and anything may stand in the place of NULLs.
        is_turned: it is written in SQL, as another function with the arguments in the other order: the last argument
            is computed first.
    """

    compute: Compute
    check: Check | None = None
    is_total: bool = False
    is_turned: bool = False


FUNCTIONS: dict[str, Implementation] = {}


def register(
    names: str | Iterable[str],
    compute: Compute,
    check: Check | None = None,
    *,
    total: bool = False,
    turned: bool = False,
) -> None:
    """Add a function under its names in C; one that is written in SQL goes by name and types, ``name(types)``."""
    for name in [names] if isinstance(names, str) else names:
        assert name not in FUNCTIONS, f"{name} is there twice"
        FUNCTIONS[name] = Implementation(compute, check, total, turned)


def implementation(function: BuiltInFunction) -> Implementation | None:
    """Return the implementation of a function; None if it is not known."""
    return FUNCTIONS.get(function.source or function.signature.removeprefix("pg_catalog.").replace(", ", ","))


def needs_byte_order(context: Context) -> None:
    """Refuse collations under which text is not in the order of its bytes."""
    if not context.sorts_bytes:
        raise UnsupportedFilterError(
            f"{context.function.signature} (OID {context.function.oid}) compares text under "
            f"{_named(context.collation, context.settings.collate)}, which is not known here",
            hint='COLLATE "C" in the filter gives the order of bytes',
        )


def needs_plain_letters(context: Context) -> None:
    """Refuse collations under which characters beyond ASCII are letters."""
    if not context.has_plain_letters:
        raise _letters_refused(context, "")


def needs_ascii_letters(context: Context) -> None:
    """Refuse collations under which not even the letters of ASCII are known; see :meth:`Context.require_ascii`."""
    if not context.knows_ascii_letters:
        raise _letters_refused(context, "")


def _letters_refused(context: Context, suffix: str) -> UnsupportedFilterError:
    return UnsupportedFilterError(
        f"{context.function.signature} (OID {context.function.oid}) goes by the letters of "
        f"{_named(context.collation, context.settings.ctype)}, which are not known here{suffix}",
        hint='COLLATE "C" in the filter knows those of ASCII',
    )


def _named(collation: int, locale: str) -> str:
    if collation == DEFAULT_COLLATION:
        return f'the database\'s collation ("{locale}")' if locale else "the database's collation"
    return f"the collation with OID {collation}"


def each(function: Callable[..., Any]) -> Compute:
    """Turn a Python function of single values into one of columns; it is called once for each distinct row of values.

    `function` takes the context and the values; it returns None for NULL.
    """

    def compute(context: Context, *arguments: Values) -> Values:
        keys = zip(*(argument.keys() for argument in arguments), strict=True)
        rows = zip(*(argument.to_list() for argument in arguments), strict=True)
        known: dict[tuple[Any, ...], Any] = {}
        results = []
        try:
            for key, row in zip(keys, rows, strict=True):
                if key not in known:
                    known[key] = function(context, *row)
                results.append(known[key])
            return _column(context.result, results)
        except (ValueError, IndexError, OverflowError, struct.error) as error:
            raise RecordError(f"malformed value given to {context.function.signature}: {error}") from None
        except RecursionError:
            raise UnsupportedFilterError(f"value given to {context.function.signature} is nested too deep") from None

    return compute


def _column(type: int, values: Sequence[Any]) -> Values:
    null = np.array([value is None for value in values], dtype=bool)
    if null.any():
        filler = np.zeros(1, FIXED[type])[0].item() if is_fixed(type) else b""
        values = [filler if value is None else value for value in values]
    return from_list(type, values, null)
