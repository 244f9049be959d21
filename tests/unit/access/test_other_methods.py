"""Methods of host rules that the service does not have: the refusal says what to write instead."""

from __future__ import annotations

import pytest

from headwater.errors import AccessError
from headwater.walsender.access.host_rules import parse_rules


@pytest.mark.parametrize("method", ["md5", "password"])
def test_methods_of_passwords(method: str) -> None:
    with pytest.raises(AccessError, match=f'line 1: authentication method "{method}" is not supported') as refused:
        parse_rules(f"host all all 127.0.0.1/32 {method}\n", "rules")
    assert refused.value.hint is not None
    assert "write scram-sha-256" in refused.value.hint


def test_a_method_that_has_nothing_in_its_place() -> None:
    with pytest.raises(AccessError, match='"ldap" is not supported') as refused:
        parse_rules("host all all 127.0.0.1/32 ldap\n", "rules")
    assert refused.value.hint is None
