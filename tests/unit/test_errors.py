"""Errors travel from tasks to the driver as they are."""

from __future__ import annotations

import pickle

import pytest

from headwater import errors


def tree(of: type[errors.HeadwaterError]) -> list[type[errors.HeadwaterError]]:
    """List all kinds that users see; an error that asks for a window to be cut never leaves the driver."""
    kinds = [of, *(kind_below for subclass in of.__subclasses__() for kind_below in tree(subclass))]
    return [kind for kind in kinds if kind.__module__ == errors.__name__]


@pytest.mark.parametrize("kind", tree(errors.HeadwaterError), ids=lambda kind: kind.__name__)
def test_all_kinds_pickle(kind: type[errors.HeadwaterError]) -> None:
    error = kind("found this, expected that", lsn=0x1_0000_0010, file="f", hint="do so")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind
    assert vars(again) == vars(error)
    assert str(again) == "found this, expected that (at 1/10, in f); do so"


def test_a_plugin_s_sqlstate_goes_along() -> None:
    error = errors.PluginError("invalid proto_version", sqlstate="22023")
    error.lsn = 8
    again = pickle.loads(pickle.dumps(error))
    assert (again.sqlstate, again.lsn) == ("22023", 8)
