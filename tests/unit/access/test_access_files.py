"""Files of a service that do not fit together are refused as they are loaded."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from access.certificates import self_signed
from headwater.errors import AccessError
from headwater.pg.version import VERSIONS
from headwater.protocol.startup import SessionRequest
from headwater.walsender.access.access_files import AccessFiles
from headwater.walsender.access.authentication import Granted, Pending
from headwater.walsender.access.peer import LOCAL, Peer
from headwater.walsender.access.users import User, Users, write_users

OWNER = pwd.getpwuid(os.geteuid()).pw_name


def test_without_files_only_the_owner_comes_in() -> None:
    loaded = AccessFiles().load(VERSIONS[18])
    assert loaded.encryption is None
    granted = loaded.access.begin(SessionRequest(OWNER, "", True, ()), Peer(LOCAL, system_user=OWNER))
    assert isinstance(granted, Granted)
    assert granted.user == User(OWNER, may_copy_all=True)
    pending = loaded.access.begin(SessionRequest(OWNER, "shop", True, ()), Peer("127.0.0.1"))
    assert isinstance(pending, Pending)


def test_rights_in_the_file_are_the_owners_too(tmp_path: Path) -> None:
    user = User(OWNER, publications=("p",))
    write_users(tmp_path / "users", Users({OWNER: user}))
    access = AccessFiles(users=tmp_path / "users").load(VERSIONS[18]).access
    granted = access.begin(SessionRequest(OWNER, "shop", True, ()), Peer(LOCAL, system_user=OWNER))
    assert isinstance(granted, Granted)
    assert granted.user == user


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("hostssl all all all trust", "line 2: hostssl record cannot match because SSL is disabled"),
        ("host all all all md5", 'line 2: authentication method "md5" is not supported'),
    ],
)
def test_rules_without_encryption(tmp_path: Path, rule: str, message: str) -> None:
    path = tmp_path / "rules"
    path.write_text(f"# none\n{rule}\n")
    with pytest.raises(AccessError) as raised:
        AccessFiles(host_rules=path).load(VERSIONS[18])
    assert (raised.value.message, raised.value.file) == (message, str(path))


def test_certificates_of_clients_need_an_authority(tmp_path: Path) -> None:
    made = self_signed(tmp_path, "localhost", "ecdsa-sha256")
    (tmp_path / "rules").write_text("hostssl all all all cert\n")
    files = AccessFiles(certificate=made.certificate, key=made.key, host_rules=tmp_path / "rules")
    with pytest.raises(AccessError, match="can only be checked if a root certificate store is available"):
        files.load(VERSIONS[18])
    whole = AccessFiles(
        certificate=made.certificate, key=made.key, host_rules=files.host_rules, client_authority=made.certificate
    )
    loaded = whole.load(VERSIONS[18])
    assert loaded.encryption is not None
    assert loaded.access.binding == loaded.encryption.binding


def test_half_of_a_pair(tmp_path: Path) -> None:
    with pytest.raises(AccessError, match="a certificate and its private key are given together"):
        AccessFiles(certificate=tmp_path / "c").load(VERSIONS[18])
