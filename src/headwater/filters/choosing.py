"""The server's choice among built-in operators and functions: which one is meant, and what its arguments become.

Mirrors ``oper`` and ``left_oper`` of parser/parse_oper.c, ``func_match_argtypes`` and ``func_select_candidate`` of
parser/parse_func.c, ``can_coerce_type``, ``find_coercion_pathway`` and ``select_common_type`` of parser/parse_coerce.c
(14 to 19). The parser chooses among all that have a name, also among those that no row filter may have.

Known gap: arrays, ranges and records, whose operators are polymorphic, are refused before they come here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

from headwater.errors import UnsupportedFilterError
from headwater.filters.known import implementation
from headwater.pg.functions import BuiltInFunction, built_in_functions, built_in_types
from headwater.pg.operators import BuiltInCast, BuiltInOperator, casts, operators_named, type_categories

UNKNOWN = 705
"""The type of a constant between quotes, before its type is chosen."""

_STRING = "S"
_ANY = frozenset({2276, 2283, 2776, 5077, 5079})
"""The types any, anyelement, anynonarray, anycompatible, anycompatiblenonarray."""

_POLYMORPHIC = _ANY | {2249, 2277, 2287, 3500, 3831, 4537, 4538, 5078, 5080}
"""The types of _ANY, and those for any array, range, multirange, enum or record."""

_TEXT, _TIMESTAMPTZ = 25, 1184
_NOT_IMMUTABLE: dict[str, tuple[tuple[int, ...], ...]] = {
    "date": ((_TIMESTAMPTZ,),),
    "date_part": ((_TEXT, _TIMESTAMPTZ),),
    "date_trunc": ((_TEXT, _TIMESTAMPTZ), (_TEXT, _TIMESTAMPTZ, _TEXT)),
    "extract": ((_TEXT, _TIMESTAMPTZ),),
    "length": ((17, 19),),
    "numeric": ((790,),),
    "time": ((_TIMESTAMPTZ,),),
    "timestamp": ((_TIMESTAMPTZ,),),
}
"""The other argument types of functions that are computed here, by their names; with these they go by settings."""

_REFUSED = frozenset({"timezone", "jsonb_extract_path", "jsonb_extract_path_text"})
"""Functions with more forms than are known here."""

_Candidate = TypeVar("_Candidate", BuiltInOperator, BuiltInFunction)


@dataclass(frozen=True)
class Chooser:
    """A chooser that chooses as a server of a major version does."""

    major: int

    def operator(self, name: str, left: int, right: int) -> BuiltInOperator | None:
        """Find the operator for arguments of types; left is 0 for a prefix operator. None: there is none, or several.

        Args:
            name: its name.
            left, right: OIDs, those of base types; UNKNOWN for constants.

        Raises:
            UnsupportedFilterError: an operator that could be meant takes any type.
        """
        candidates = [
            candidate for candidate in operators_named(name, self.major) if (candidate.left == 0) == (left == 0)
        ]
        types = (right,) if left == 0 else (left, right)
        known = next((type for type in types if type != UNKNOWN), UNKNOWN)
        exact = tuple(known if type == UNKNOWN else type for type in types)
        for candidate in candidates:
            if _arguments(candidate) == exact and UNKNOWN not in exact:
                return candidate
        if any(
            target in _ANY and source != UNKNOWN
            for option in candidates
            for source, target in zip(types, _arguments(option), strict=True)
        ):
            raise UnsupportedFilterError(f'the operator "{name}" is not supported here, as there is one for any type')
        fitting = [candidate for candidate in candidates if self._fits(types, _arguments(candidate))]
        return fitting[0] if len(fitting) == 1 else self._best(types, fitting)

    def function(self, name: str, types: Sequence[int]) -> BuiltInFunction | None:
        """Find the function of a name for arguments of these types; its OID is 0 if it is not immutable.

        Args:
            name: its name, in ``pg_catalog``.
            types: OIDs, those of base types; UNKNOWN for constants.

        Returns:
            None: there is none, or several.

        Raises:
            UnsupportedFilterError: no function of the name is computed here, or one that could be meant takes any type.
        """
        candidates = [
            candidate for candidate in functions_named(name, self.major) if len(candidate.arguments) == len(types)
        ]
        for candidate in candidates:
            if candidate.arguments == tuple(types):
                return candidate
        if len(types) == 1 and _is_type(name, self.major):
            raise UnsupportedFilterError(f'the function "{name}" is not supported here, as it may be a cast')
        fitting = [candidate for candidate in candidates if self._may_take(types, candidate.arguments)]
        if any(not _POLYMORPHIC.isdisjoint(candidate.arguments) for candidate in fitting):
            raise UnsupportedFilterError(f'the function "{name}" is not supported here, as there is one for any type')
        return fitting[0] if len(fitting) == 1 else self._best(types, fitting)

    def _may_take(self, types: Sequence[int], wanted: Sequence[int]) -> bool:
        return all(target in _ANY or self.becomes(source, target) for source, target in zip(types, wanted, strict=True))

    def common_type(self, types: Sequence[int]) -> int | None:
        """Return the type that expressions have in common (select_common_type); None if there is none.

        Args:
            types: OIDs in the order in which the server looks at them, those of base types; UNKNOWN for constants.
        """
        categories = type_categories(self.major)
        common = types[0]
        for type in types[1:]:
            if type in (UNKNOWN, common):
                continue
            if common == UNKNOWN:
                common = type
            elif categories[type].category != categories[common].category:
                return None
            elif not categories[common].is_preferred and self.becomes(common, type) and not self.becomes(type, common):
                common = type
        return _TEXT if common == UNKNOWN else common

    def array_of(self, element: int) -> int:
        """Return the OID of a type's array type, 0 if it has none."""
        return type_categories(self.major)[element].array

    def cast(self, source: int, target: int) -> BuiltInCast | None:
        """Return the cast from one type to another one, if there is one."""
        return casts(self.major).get((source, target))

    def _fits(self, types: Sequence[int], wanted: Sequence[int]) -> bool:
        """Tell whether arguments are coerced implicitly to the wanted types (can_coerce_type)."""
        return all(self.becomes(source, target) for source, target in zip(types, wanted, strict=True))

    def becomes(self, source: int, target: int) -> bool:
        """Tell whether a value is coerced implicitly to another type."""
        if source in (UNKNOWN, target):
            return True
        cast = self.cast(source, target)
        return cast is not None and cast.context == "i"

    def _best(self, types: Sequence[int], candidates: Sequence[_Candidate]) -> _Candidate | None:
        """Choose the best candidate (func_select_candidate); None if there is none, or several."""
        candidates = _with_most(candidates, lambda candidate: _exact_matches(types, _arguments(candidate)))
        if len(candidates) > 1:
            candidates = _with_most(candidates, lambda candidate: self._preferred_matches(types, _arguments(candidate)))
        if len(candidates) <= 1 or UNKNOWN not in types:
            return candidates[0] if len(candidates) == 1 else None
        narrowed = self._by_category(types, candidates)
        if len(narrowed) == 1:
            return narrowed[0]
        known = {type for type in types if type != UNKNOWN}
        if len(known) != 1:
            return None
        same = [candidate for candidate in narrowed if self._fits(tuple(known) * len(types), _arguments(candidate))]
        return same[0] if len(same) == 1 else None

    def _preferred_matches(self, types: Sequence[int], wanted: Sequence[int]) -> int:
        categories = type_categories(self.major)
        return sum(
            source == target
            or (categories[target].is_preferred and categories[target].category == categories[source].category)
            for source, target in zip(types, wanted, strict=True)
            if source != UNKNOWN
        )

    def _by_category(self, types: Sequence[int], candidates: Sequence[_Candidate]) -> Sequence[_Candidate]:
        """Narrow candidates to those that take each constant between quotes in the category that is chosen for it."""
        chosen: dict[int, tuple[str, bool]] = {}
        for place in [at for at, type in enumerate(types) if type == UNKNOWN]:
            choice = self._category_at(place, candidates)
            if choice is None:
                return candidates
            chosen[place] = choice
        categories = type_categories(self.major)

        def agrees(candidate: _Candidate) -> bool:
            kinds = ((categories[_arguments(candidate)[place]], slot) for place, slot in chosen.items())
            return all(
                kind.category == category and (kind.is_preferred or not has_preferred)
                for kind, (category, has_preferred) in kinds
            )

        return [candidate for candidate in candidates if agrees(candidate)] or candidates

    def _category_at(self, place: int, candidates: Sequence[_Candidate]) -> tuple[str, bool] | None:
        """Choose the category of an argument, and tell if one of its types is preferred; None if candidates differ."""
        categories = type_categories(self.major)
        category, has_preferred, conflicts = "", False, False
        for candidate in candidates:
            kind = categories[_arguments(candidate)[place]]
            if not category:
                category, has_preferred = kind.category, kind.is_preferred
            elif kind.category == category:
                has_preferred |= kind.is_preferred
            elif kind.category == _STRING:
                category, has_preferred = _STRING, kind.is_preferred
            else:
                conflicts = True
        return None if conflicts and category != _STRING else (category, has_preferred)


@cache
def functions_named(name: str, major: int) -> tuple[BuiltInFunction, ...]:
    """Return the functions of a name among which the parser may choose; those that are not immutable have OID 0.

    Raises:
        UnsupportedFilterError: no function of the name is computed here.
    """
    asked = max(major, 15)
    functions = [function for function in built_in_functions(asked).values() if function.name == name]
    if name in _REFUSED or not any(implementation(function) for function in functions):
        raise UnsupportedFilterError(f'the function "{name}" in a condition is not supported')
    known = {function.arguments for function in functions}
    others = [arguments for arguments in _NOT_IMMUTABLE.get(name, ()) if arguments not in known]
    return (*functions, *(BuiltInFunction(0, name, "", arguments, 0, True) for arguments in others))


@cache
def _is_type(name: str, major: int) -> bool:
    """Tell whether a call of this name with one argument may be a cast (FuncNameAsType)."""
    return any(built_in.name == name for built_in in built_in_types(major).values())


def _arguments(candidate: BuiltInOperator | BuiltInFunction) -> tuple[int, ...]:
    if isinstance(candidate, BuiltInFunction):
        return candidate.arguments
    return (candidate.right,) if candidate.left == 0 else (candidate.left, candidate.right)


def _exact_matches(types: Sequence[int], wanted: Sequence[int]) -> int:
    return sum(source == target != UNKNOWN for source, target in zip(types, wanted, strict=True))


def _with_most(candidates: Sequence[_Candidate], count: Callable[[_Candidate], int]) -> Sequence[_Candidate]:
    """Return the candidates for which a count is the highest."""
    counts = [count(candidate) for candidate in candidates]
    return [candidate for candidate, number in zip(candidates, counts, strict=True) if number == max(counts)]
