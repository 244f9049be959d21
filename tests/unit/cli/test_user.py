"""``headwater user``: users are added, listed and dropped; no password is anywhere."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.protocol.scram import Verifier
from headwater.walsender.access.users import read_users

HEADWATER = [sys.executable, "-m", "headwater.cli.main", "user"]


def user(directory: Path, *words: str, typed: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run the command in a directory."""
    return subprocess.run([*HEADWATER, *words], input=typed, capture_output=True, cwd=directory, check=False)


def is_password(directory: Path, name: str, password: str) -> bool:
    """Tell whether a password is a user's."""
    verifier = read_users(directory / "users.toml").by_name[name].verifier
    assert verifier is not None
    return Verifier.make(password.encode(), verifier.salt, verifier.iterations) == verifier


def test_users(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("from a file\nand more\n")
    assert user(tmp_path, "add", "alice", typed=b"p\xc3\xa4ss word\r\n").returncode == 0
    assert (
        user(tmp_path, "add", "bob", "--password-file", "secret", "--publication", "p", "--publication", "q").returncode
        == 0
    )
    assert user(tmp_path, "add", "carol", "--no-password", "--physical").returncode == 0
    assert is_password(tmp_path, "alice", "päss word")
    assert is_password(tmp_path, "bob", "from a file")
    listed = user(tmp_path, "list")
    assert listed.stdout.decode().splitlines() == [
        "name   password  publications  physical",
        "alice  yes       all           no",
        "bob    yes       p,q           no",
        "carol  no        all           yes",
    ]
    again = user(tmp_path, "add", "alice", typed=b"new")
    assert (again.returncode, again.stderr) == (
        2,
        b'headwater: user "alice" already exists (in users.toml); give --replace\n',
    )
    assert user(tmp_path, "add", "alice", "--replace", typed=b"new").returncode == 0
    assert is_password(tmp_path, "alice", "new")
    assert user(tmp_path, "drop", "bob").returncode == 0
    missing = user(tmp_path, "drop", "bob")
    assert (missing.returncode, missing.stderr) == (2, b'headwater: user "bob" does not exist (in users.toml)\n')
    assert list(read_users(tmp_path / "users.toml").by_name) == ["alice", "carol"]
    texts = [path.read_text() for path in tmp_path.iterdir() if path.name != "secret"]
    assert not any(password in text for text in texts for password in ("päss", "from a file", "new"))


@pytest.mark.parametrize(
    ("words", "typed", "message"),
    [
        (("add", "a"), b"", "the password is empty, or has a zero byte"),
        (("add", "a"), b"x\0y\n", "the password is empty, or has a zero byte"),
        (
            ("add", "a", "--password-file", "none"),
            b"",
            "could not read the password: No such file or directory (in none)",
        ),
        (("add", ""), b"x", 'invalid name of a user "", expected 1 to 63 bytes'),
        (
            ("add", "a", "--no-password", "--password-file", "none"),
            b"",
            "--no-password and --password-file go not together; leave one of them out",
        ),
    ],
)
def test_refusals(tmp_path: Path, words: tuple[str, ...], typed: bytes, message: str) -> None:
    run = user(tmp_path, *words, typed=typed)
    assert (run.returncode, run.stderr.decode()) == (2, f"headwater: {message}\n")
    assert not (tmp_path / "users.toml").exists()


def test_a_list_of_nobody(tmp_path: Path) -> None:
    run = user(tmp_path, "list")
    message = "could not read the file of users: No such file or directory (in users.toml)"
    assert (run.returncode, run.stderr.decode()) == (1, f"headwater: {message}\n")


@pytest.mark.parametrize(
    ("answers", "is_added"), [((b"secret\n", b"secret\n"), True), ((b"secret\n", b"other\n"), False)]
)
def test_a_terminal_is_asked_twice(tmp_path: Path, answers: tuple[bytes, bytes], is_added: bool) -> None:
    terminal, end = pty.openpty()
    command = [*HEADWATER, "add", "alice"]
    process = subprocess.Popen(command, stdin=end, stdout=end, stderr=end, cwd=tmp_path, start_new_session=True)
    os.close(end)
    shown = b""
    for prompt, answer in zip((b"Password: ", b"confirmation: "), answers, strict=True):
        while not shown.endswith(prompt):
            shown += os.read(terminal, 1000)
        os.write(terminal, answer)
    while not is_added and b"Error" not in shown:
        shown += os.read(terminal, 1000)
    if not is_added:
        process.terminate()
    process.wait()
    os.close(terminal)
    assert (tmp_path / "users.toml").exists() == is_added
    assert b"secret" not in shown
    if is_added:
        assert is_password(tmp_path, "alice", "secret")
