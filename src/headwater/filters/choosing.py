"""Which operator or function is meant, and what its arguments become: the server's rules of choice among built-in ones.

Mirrors ``oper`` and ``left_oper`` of parser/parse_oper.c, ``func_match_argtypes`` and ``func_select_candidate`` of
parser/parse_func.c, ``can_coerce_type``, ``find_coercion_pathway`` and ``select_common_type`` of parser/parse_coerce.c
(14 to 19). The parser chooses among all of a name, those among them that no row filter may have.

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
"""The type of a constant between quotes before it is known what it is."""

_STRING = "S"
_ANY = frozenset({2276, 2283, 2776, 5077, 5079})
"""any, anyelement, anynonarray, anycompatible, anycompatiblenonarray."""

_POLYMORPHIC = _ANY | {2249, 2277, 2287, 3500, 3831, 4537, 4538, 5078, 5080}
"""These, and any array, range, multirange, enum or record."""

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
"""What else the functions that are computed here take, by their names: then they go by settings."""

_REFUSED = frozenset({"timezone", "jsonb_extract_path", "jsonb_extract_path_text"})
"""Functions with more forms than are known here."""

_Candidate = TypeVar("_Candidate", BuiltInOperator, BuiltInFunction)


@dataclass(frozen=True)
class Chooser:
    """Chooses as a server of a major version does."""

    major: int

    def operator(self, name: str, left: int, right: int) -> BuiltInOperator | None:
        """The operator for arguments of these types; left is 0 for a prefix operator. None: there is none, or several.

        Args:
            name: its name.
            left, right: OIDs, those of base types; UNKNOWN for constants.

        Raises:
            UnsupportedFilterError: one of those that could be meant takes any type.
        """
        there = [one for one in operators_named(name, self.major) if (one.left == 0) == (left == 0)]
        types = (right,) if left == 0 else (left, right)
        known = next((one for one in types if one != UNKNOWN), UNKNOWN)
        exact = tuple(known if one == UNKNOWN else one for one in types)
        for one in there:
            if _arguments(one) == exact and UNKNOWN not in exact:
                return one
        if any(
            other in _ANY and one != UNKNOWN for c in there for one, other in zip(types, _arguments(c), strict=True)
        ):
            raise UnsupportedFilterError(f'the operator "{name}" is not supported here, as there is one for any type')
        fitting = [one for one in there if self._fits(types, _arguments(one))]
        return fitting[0] if len(fitting) == 1 else self._best(types, fitting)

    def function(self, name: str, types: Sequence[int]) -> BuiltInFunction | None:
        """The function of a name for arguments of these types; its OID is 0 if it is not immutable.

        Args:
            name: its name, in ``pg_catalog``.
            types: OIDs, those of base types; UNKNOWN for constants.

        Returns:
            None: there is none, or several.

        Raises:
            UnsupportedFilterError: none of the name is computed here, or one that could be meant takes any type.
        """
        there = [one for one in functions_named(name, self.major) if len(one.arguments) == len(types)]
        for one in there:
            if one.arguments == tuple(types):
                return one
        if len(types) == 1 and _is_type(name, self.major):
            raise UnsupportedFilterError(f'the function "{name}" is not supported here, as it may be a cast')
        fitting = [one for one in there if self._may_take(types, one.arguments)]
        if any(not _POLYMORPHIC.isdisjoint(one.arguments) for one in fitting):
            raise UnsupportedFilterError(f'the function "{name}" is not supported here, as there is one for any type')
        return fitting[0] if len(fitting) == 1 else self._best(types, fitting)

    def _may_take(self, types: Sequence[int], wanted: Sequence[int]) -> bool:
        return all(other in _ANY or self.becomes(one, other) for one, other in zip(types, wanted, strict=True))

    def common_type(self, types: Sequence[int]) -> int | None:
        """The type that expressions become beside one another (select_common_type); None if there is none.

        Args:
            types: OIDs in the order in which the server looks at them, those of base types; UNKNOWN for constants.
        """
        categories = type_categories(self.major)
        found = types[0]
        for one in types[1:]:
            if one in (UNKNOWN, found):
                continue
            if found == UNKNOWN:
                found = one
            elif categories[one].category != categories[found].category:
                return None
            elif not categories[found].is_preferred and self.becomes(found, one) and not self.becomes(one, found):
                found = one
        return _TEXT if found == UNKNOWN else found

    def array_of(self, element: int) -> int:
        """OID of a type's array type, 0 if it has none."""
        return type_categories(self.major)[element].array

    def cast(self, source: int, target: int) -> BuiltInCast | None:
        """The cast from one type to another one, if there is one."""
        return casts(self.major).get((source, target))

    def _fits(self, types: Sequence[int], wanted: Sequence[int]) -> bool:
        """Whether arguments become others by themselves (can_coerce_type)."""
        return all(self.becomes(one, other) for one, other in zip(types, wanted, strict=True))

    def becomes(self, source: int, target: int) -> bool:
        """Whether a value becomes one of another type by itself."""
        if source in (UNKNOWN, target):
            return True
        found = self.cast(source, target)
        return found is not None and found.context == "i"

    def _best(self, types: Sequence[int], candidates: Sequence[_Candidate]) -> _Candidate | None:
        """func_select_candidate."""
        candidates = _with_most(candidates, lambda one: _exact_matches(types, _arguments(one)))
        if len(candidates) > 1:
            candidates = _with_most(candidates, lambda one: self._preferred_matches(types, _arguments(one)))
        if len(candidates) <= 1 or UNKNOWN not in types:
            return candidates[0] if len(candidates) == 1 else None
        narrowed = self._by_category(types, candidates)
        if len(narrowed) == 1:
            return narrowed[0]
        known = {one for one in types if one != UNKNOWN}
        if len(known) != 1:
            return None
        same = [one for one in narrowed if self._fits(tuple(known) * len(types), _arguments(one))]
        return same[0] if len(same) == 1 else None

    def _preferred_matches(self, types: Sequence[int], wanted: Sequence[int]) -> int:
        categories = type_categories(self.major)
        return sum(
            one == other or (categories[other].is_preferred and categories[other].category == categories[one].category)
            for one, other in zip(types, wanted, strict=True)
            if one != UNKNOWN
        )

    def _by_category(self, types: Sequence[int], candidates: Sequence[_Candidate]) -> Sequence[_Candidate]:
        """Those that take a constant between quotes as what most of them, or the strings among them, take it."""
        chosen: dict[int, tuple[str, bool]] = {}
        for place in [at for at, one in enumerate(types) if one == UNKNOWN]:
            found = self._category_at(place, candidates)
            if found is None:
                return candidates
            chosen[place] = found
        categories = type_categories(self.major)

        def agrees(one: _Candidate) -> bool:
            kinds = ((categories[_arguments(one)[place]], slot) for place, slot in chosen.items())
            return all(
                kind.category == category and (kind.is_preferred or not has_preferred)
                for kind, (category, has_preferred) in kinds
            )

        return [one for one in candidates if agrees(one)] or candidates

    def _category_at(self, place: int, candidates: Sequence[_Candidate]) -> tuple[str, bool] | None:
        """The category of an argument, and whether one of its types is preferred; None if candidates differ."""
        categories = type_categories(self.major)
        found, has_preferred, conflicts = "", False, False
        for one in candidates:
            kind = categories[_arguments(one)[place]]
            if not found:
                found, has_preferred = kind.category, kind.is_preferred
            elif kind.category == found:
                has_preferred |= kind.is_preferred
            elif kind.category == _STRING:
                found, has_preferred = _STRING, kind.is_preferred
            else:
                conflicts = True
        return None if conflicts and found != _STRING else (found, has_preferred)


@cache
def functions_named(name: str, major: int) -> tuple[BuiltInFunction, ...]:
    """The functions of a name, as far as the parser may choose among them; those that are not immutable have no OID.

    Raises:
        UnsupportedFilterError: none of the name is computed here.
    """
    asked = max(major, 15)
    found = [one for one in built_in_functions(asked).values() if one.name == name]
    if name in _REFUSED or not any(implementation(one) for one in found):
        raise UnsupportedFilterError(f'the function "{name}" in a condition is not supported')
    known = {one.arguments for one in found}
    others = [arguments for arguments in _NOT_IMMUTABLE.get(name, ()) if arguments not in known]
    return (*found, *(BuiltInFunction(0, name, "", arguments, 0, True) for arguments in others))


@cache
def _is_type(name: str, major: int) -> bool:
    """Whether a call of this name with one argument may be a cast (FuncNameAsType)."""
    return any(one.name == name for one in built_in_types(major).values())


def _arguments(one: BuiltInOperator | BuiltInFunction) -> tuple[int, ...]:
    if isinstance(one, BuiltInFunction):
        return one.arguments
    return (one.right,) if one.left == 0 else (one.left, one.right)


def _exact_matches(types: Sequence[int], wanted: Sequence[int]) -> int:
    return sum(one == other != UNKNOWN for one, other in zip(types, wanted, strict=True))


def _with_most(candidates: Sequence[_Candidate], count: Callable[[_Candidate], int]) -> Sequence[_Candidate]:
    """Those for which a count is the highest."""
    counts = [count(one) for one in candidates]
    return [one for one, number in zip(candidates, counts, strict=True) if number == max(counts)]
