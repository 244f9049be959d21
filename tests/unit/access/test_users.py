"""The file of users: what is written is read, what is malformed is an error, and nobody else may read it."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import AccessError, SessionError
from headwater.protocol.scram import Verifier
from headwater.walsender.access.authentication import check_publications
from headwater.walsender.access.users import (
    User,
    Users,
    is_role_name,
    parse_users,
    read_users,
    text_of,
    users_locked,
    write_users,
)

SECRET = bytes(range(32))
VERIFIER = Verifier.mock("anybody", SECRET)

NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20).filter(is_role_name)
USER = st.builds(
    User,
    NAMES,
    st.sampled_from([None, VERIFIER]),
    st.booleans(),
    st.none() | st.lists(NAMES, max_size=3).map(tuple),
    st.booleans(),
)
USERS = st.lists(USER, max_size=4).map(lambda users: Users({user.name: user for user in users}, SECRET))


@given(USERS)
def test_what_is_written_is_read(users: Users) -> None:
    assert parse_users(text_of(users).encode(), "users") == users


def test_the_form_of_the_file() -> None:
    users = Users({}, SECRET).with_user(User('a "b"\x7f', VERIFIER, False, ("p", "q"))).with_user(User("c"))
    assert text_of(users) == (
        '# Users of headwater serve, written by "headwater user". Verifiers are secrets.\n'
        f'secret = "{SECRET.hex()}"\n'
        "\n"
        '[users."a \\"b\\"\\u007f"]\n'
        f'verifier = "{VERIFIER}"\n'
        "replication = false\n"
        'publications = ["p", "q"]\n'
        "physical = false\n"
        "\n"
        '[users."c"]\n'
        "physical = false\n"
    )


HEAD = f'secret = "{SECRET.hex()}"\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file of users has no secret, expected 64 digits"),
        ('secret = "abc"', "the file of users has no secret, expected 64 digits"),
        ("secret = 7", 'the file of users has a malformed "secret"'),
        ("[", "the file of users is no TOML in UTF-8"),
        (HEAD + "passwords = 1", 'the file of users has an unknown key "passwords", expected secret, users'),
        (HEAD + "users = 1", 'the file of users has a malformed "users"'),
        (HEAD + "users.a = 1", 'user "a" is malformed'),
        (HEAD + '[users.""]', 'user "" is malformed'),
        (HEAD + f"[users.{'n' * 64}]", f'user "{"n" * 64}" is malformed'),
        (
            HEAD + '[users.a]\npassword = "secret"',
            'user "a" has an unknown key "password", expected verifier, replication, publications, physical',
        ),
        (HEAD + "[users.a]\nphysical = 1", 'user "a" has a malformed "physical"'),
        (HEAD + '[users.a]\nverifier = "secret"', 'user "a" has a malformed verifier, expected SCRAM-SHA-256$...'),
        (HEAD + "[users.a]\npublications = [1]", 'user "a" has malformed publications, expected a list of names'),
    ],
)
def test_malformed_files(text: str, message: str) -> None:
    with pytest.raises(AccessError) as raised:
        parse_users(text.encode(), "users")
    assert (raised.value.message, raised.value.file) == (message, "users")


@given(
    st.binary()
    | st.text().map(str.encode)
    | st.text("[]{}=\"'.,\n#users tru1").map(lambda text: (HEAD + text).encode())
)
def test_any_bytes_are_users_or_an_error(data: bytes) -> None:
    try:
        users = parse_users(data, "users")
    except AccessError as error:
        assert error.file == "users"  # noqa: PT017
    else:
        assert len(users.secret) == 32


def test_a_file_that_others_may_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "users.toml"
    write_users(path, Users())
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_users(path).by_name == {}
    for mode in (0o640, 0o604, 0o610):
        path.chmod(mode)
        with pytest.raises(AccessError, match=f"has mode {mode:04o}, expected no access for group or world"):
            read_users(path)


def test_the_mode_is_no_matter_of_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        write_users(tmp_path / "users.toml", Users())
    finally:
        os.umask(before)
    assert (tmp_path / "users.toml").stat().st_mode & 0o777 == 0o600


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(AccessError, match="could not read the file of users: No such file or directory"):
        read_users(tmp_path / "users.toml")
    with (
        pytest.raises(AccessError, match="could not lock the file of users: No such file or directory"),
        users_locked(tmp_path / "nowhere" / "users.toml"),
    ):
        pass


def test_changes_side_by_side(tmp_path: Path) -> None:
    """Nobody is lost, and the secret stays the same."""
    path = tmp_path / "users.toml"

    def add(number: int) -> bytes:
        with users_locked(path) as users:
            write_users(path, users.with_user(User(f"user {number}")))
            return users.secret

    with ThreadPoolExecutor(8) as threads:
        secrets = set(threads.map(add, range(24)))
    assert set(read_users(path).by_name) == {f"user {number}" for number in range(24)}
    assert secrets == {read_users(path).secret}


def test_no_secret_is_shown() -> None:
    shown = repr(Users({"a": User("a", VERIFIER)}, SECRET))
    assert "SCRAM" not in shown
    assert "secret" not in shown


def test_publications_that_a_user_may_read() -> None:
    check_publications(User("a"), ["any"])
    check_publications(User("a", publications=("p", "q")), ["q", "p"])
    with pytest.raises(SessionError, match="permission denied for publication other") as raised:
        check_publications(User("a", publications=("p",)), ["p", "other"])
    assert raised.value.sqlstate == "42501"
