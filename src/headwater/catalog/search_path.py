"""``search_path``: the schemas in which a session finds objects by their bare names.

Job: say which schemas a session searches, in which order. Names of types, and of the objects that regclass and its kin
refer to, are printed bare if the session would find them so. PostgreSQL: ``catalog/namespace.c``
(recomputeNamespacePath, check_search_path), ``varlena.c`` (SplitIdentifierString).

Invariants: a path has the names of the setting; each view says which schemas there are. pg_catalog comes first unless
the setting names it. A decoding session makes no temporary tables, so it has no schema ``pg_temp``.

Known gap: the role counts as one that may use every schema, as a superuser may; the server passes over the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from headwater.errors import UsageError
from headwater.pg.catalogs import PG_CATALOG_NAMESPACE

USER = "$user"
_SPACE = " \t\n\r\f\v"
_NAME_BYTES = 63


@dataclass(frozen=True)
class SearchPath:
    """The schemas that are searched, by name.

    Attributes:
        schemas: in order; ``$user`` stands for the schema with the name of the session's role, which is not known here:
            see :meth:`of_role`.
    """

    schemas: tuple[str, ...] = (USER, "public")

    @classmethod
    def parse(cls, text: str) -> SearchPath:
        """Read the path from a setting's text: names, in quotes or not, with commas between them.

        Raises:
            UsageError: the text is no such list.
        """
        if not text.strip(_SPACE):
            return cls(())
        schemas, rest = [], "," + text
        while rest:
            if rest[0] != ",":
                raise _invalid(text)
            name, rest = _first_name(rest[1:].lstrip(_SPACE), text)
            schemas.append(name)
        return cls(tuple(schemas))

    def __str__(self) -> str:
        return ", ".join('"' + name.replace('"', '""') + '"' for name in self.schemas)

    def of_role(self, role: str) -> SearchPath:
        """Return the path of this role's sessions."""
        return replace(self, schemas=tuple(role if name == USER else name for name in self.schemas))

    def places(self, oids: Callable[[str], Iterable[int]]) -> tuple[int, ...]:
        """List the OIDs of the schemas, in order, each once.

        Args:
            oids: gives the OID of the schema of a name, or nothing.
        """
        named = [oid for name in self.schemas if name != USER for oid in oids(name)]
        implicit = () if PG_CATALOG_NAMESPACE in named else (PG_CATALOG_NAMESPACE,)
        return tuple(dict.fromkeys((*implicit, *named)))


DEFAULT_SEARCH_PATH = SearchPath()


def _first_name(rest: str, text: str) -> tuple[str, str]:
    """Take the identifier that a list begins with; return it, and the text after it and the space that follows."""
    if rest.startswith('"'):
        name, rest = _quoted(rest[1:], text)
    else:
        end = next((at for at, letter in enumerate(rest) if letter in _SPACE + ","), len(rest))
        name, rest = _lower(rest[:end]), rest[end:]
        if not name:
            raise _invalid(text)
    data = name.encode("utf-8", "surrogateescape")
    name = name if len(data) <= _NAME_BYTES else data[:_NAME_BYTES].decode(errors="ignore")
    return name, rest.lstrip(_SPACE)


def _quoted(rest: str, text: str) -> tuple[str, str]:
    """Split text into the part before the closing quote and the part after it."""
    name = ""
    while True:
        part, quote, rest = rest.partition('"')
        if not quote:
            raise _invalid(text)
        name += part
        if not rest.startswith('"'):
            return name, rest
        name, rest = name + '"', rest[1:]


def _lower(name: str) -> str:
    """Lower ASCII letters only: the server lowers others by its locale in single-byte encodings alone."""
    return "".join(letter.lower() if letter.isascii() else letter for letter in name)


def _invalid(text: str) -> UsageError:
    return UsageError(
        f'invalid value for parameter "search_path": "{text}"',
        hint="expected names of schemas with commas between them, in double quotes unless they are plain lower case",
    )
