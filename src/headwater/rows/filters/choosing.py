"""Which operator is meant, and what its arguments become: the server's rules of choice among its built-in operators.

Mirrors ``oper`` and ``left_oper`` of parser/parse_oper.c, ``func_match_argtypes`` and ``func_select_candidate`` of
parser/parse_func.c, ``can_coerce_type`` and ``find_coercion_pathway`` of parser/parse_coerce.c (14 to 19). The parser
chooses among all operators of a name, those among them that no row filter may have.

Known gap: arrays, ranges and records, whose operators are polymorphic, are refused before they come here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headwater.errors import UnsupportedFilterError
from headwater.pg.operators import BuiltInCast, BuiltInOperator, casts, operators_named, type_categories

UNKNOWN = 705
"""The type of a constant between quotes before it is known what it is."""

_STRING = "S"
_ANY = frozenset({2276, 2283, 2776, 5077, 5079})
"""any, anyelement, anynonarray, anycompatible, anycompatiblenonarray."""

_Candidates = Sequence[BuiltInOperator]


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

    def _best(self, types: Sequence[int], candidates: _Candidates) -> BuiltInOperator | None:
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

    def _by_category(self, types: Sequence[int], candidates: _Candidates) -> _Candidates:
        """Those that take a constant between quotes as what most of them, or the strings among them, take it."""
        chosen: dict[int, tuple[str, bool]] = {}
        for place in [at for at, one in enumerate(types) if one == UNKNOWN]:
            found = self._category_at(place, candidates)
            if found is None:
                return candidates
            chosen[place] = found
        categories = type_categories(self.major)

        def agrees(one: BuiltInOperator) -> bool:
            kinds = ((categories[_arguments(one)[place]], slot) for place, slot in chosen.items())
            return all(
                kind.category == category and (kind.is_preferred or not has_preferred)
                for kind, (category, has_preferred) in kinds
            )

        return [one for one in candidates if agrees(one)] or candidates

    def _category_at(self, place: int, candidates: _Candidates) -> tuple[str, bool] | None:
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


def _arguments(operator: BuiltInOperator) -> tuple[int, ...]:
    return (operator.right,) if operator.left == 0 else (operator.left, operator.right)


def _exact_matches(types: Sequence[int], wanted: Sequence[int]) -> int:
    return sum(one == other != UNKNOWN for one, other in zip(types, wanted, strict=True))


def _with_most(candidates: _Candidates, count: Callable[[BuiltInOperator], int]) -> _Candidates:
    """Those for which a count is the highest."""
    counts = [count(one) for one in candidates]
    return [one for one, number in zip(candidates, counts, strict=True) if number == max(counts)]
