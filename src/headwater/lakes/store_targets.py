"""Targets in stores: what of a target can be in one, seen before anything runs."""

from __future__ import annotations

from headwater.errors import LakeError
from headwater.lakes.landing_target import PYTHON_IMPL, LandingTarget
from headwater.lakes.stores.places import StorePath

_TO_DIRECTORY = "land to a directory (--to DIR), and copy that"


def require_possible(target: LandingTarget) -> None:
    """See that a target can be in a store, if it is to be.

    Raises:
        LakeError: it cannot be as it is wanted.
    """
    if isinstance(target.where, StorePath):
        for what, hint in _lacking(target):
            raise LakeError(f"{what} cannot be in a store yet", file=str(target.where), hint=hint)


def _lacking(target: LandingTarget) -> list[tuple[str, str]]:
    """Return what of a target cannot be in a store, in words, and what to do instead."""
    lacking = []
    if target.format == "iceberg" and target.iceberg_catalog is None:
        lacking.append(("the catalog of SQLite that a directory has", "name another one (--iceberg-catalog NAME)"))
    if target.catalog_impl != PYTHON_IMPL:
        lacking.append(("tables that Spark writes", f"leave out --catalog-impl, or {_TO_DIRECTORY}"))
    return lacking
