"""A file that says what flags would: what goes before it, and errors with their places."""

from __future__ import annotations

import os
from pathlib import Path

import click
import pytest

from headwater.cli.commands import cli
from headwater.cli.config_file import place_of
from headwater.errors import UsageError

WHOLE = """
# The service.
[serve]
wal = ["/wal", "/more"]
catalog = "/base"
slots = "/slots"
listen = [
    "localhost:1",   # the first
    "localhost:2",
]
max-wal-senders = 20
authentication-timeout = 2.5
verbose = true
"""


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("HEADWATER_")]:
        monkeypatch.delenv(name)


def parsed(path: Path, text: str, *words: str) -> dict[str, object]:
    """Return the values that the command would run with."""
    path.write_text(text)
    group = click.Context(cli, info_name="headwater")
    command = cli.commands["serve"]
    return command.make_context("serve", ["--config", str(path), *words], parent=group).params


def test_values_are_those_of_flags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = parsed(tmp_path / "headwater.toml", WHOLE)
    assert (values["wal"], values["catalog"], values["slots"]) == (("/wal", "/more"), "/base", "/slots")
    assert values["listen"] == ("localhost:1", "localhost:2")
    assert (values["max_wal_senders"], values["authentication_seconds"], values["is_verbose"]) == (20, 2.5, True)
    assert values["max_connections"] == 100
    monkeypatch.setenv("HEADWATER_SERVE_SLOTS", "/of/the/variable")
    values = parsed(tmp_path / "headwater.toml", WHOLE, "--listen", "localhost:3", "--max-wal-senders", "7")
    assert (values["listen"], values["max_wal_senders"]) == (("localhost:3",), 7)
    assert (values["slots"], values["catalog"]) == ("/of/the/variable", "/base")


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("receive", 'from = "service=db1"\nto = "/wal"\nno-loop = true', {"conninfo": "service=db1", "no_loop": True}),
        (
            "land",
            'wal = ["/wal"]\nto = "/lake"\nfollow = true\nformat = "delta"',
            {"wal": ("/wal",), "form": "delta"},
        ),
    ],
)
def test_one_file_is_of_several_commands(tmp_path: Path, name: str, text: str, expected: dict[str, object]) -> None:
    path = tmp_path / "headwater.toml"
    path.write_text(f"{WHOLE}\n[{name}]\n{text}\n")
    context = cli.commands[name].make_context(
        name, ["--config", str(path)], parent=click.Context(cli, info_name="headwater")
    )
    assert {key: value for key, value in context.params.items() if key in expected} == expected


IN_DECODE = """
[decode]
wal = ["/wal", "/more"]
catalog = "/backup"
tables = ["shop.*"]
window-bytes = 1073741824
with-lsn = true
"""


@pytest.mark.parametrize(
    "words",
    [
        ("--config", "FILE", "--plugin", "wal2json", "--out", "/a", "--plugin", "pgoutput", "--out", "/b"),
        ("--plugin", "wal2json", "--out", "/a", "--plugin", "pgoutput", "--config", "FILE", "--out", "/b"),
    ],
)
def test_a_file_is_of_all_outputs(tmp_path: Path, words: tuple[str, ...]) -> None:
    """What it says of the run holds once, what it says of an output for all that do not give the flag."""
    path = tmp_path / "headwater.toml"
    path.write_text(IN_DECODE)
    given = [str(path) if word == "FILE" else word for word in (*words, "--tables", "crm.*")]
    context = cli.commands["decode"].make_context("decode", given, parent=click.Context(cli, info_name="headwater"))
    assert (context.params["catalog"], context.params["wal"]) == ("/backup", ("/wal", "/more"))
    outputs = context.params["outputs"]
    assert [(output.out, output.tables, output.with_lsn) for output in outputs] == [
        ("/a", ("shop.*",), True),
        ("/b", ("crm.*",), True),
    ]


def test_a_file_is_of_one_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "headwater.toml"
    path.write_text(f"{IN_DECODE}plugin = 'wal2json'\nout = '/x'\n")
    for name in ("--config", None):
        words = [name, str(path)] if name is not None else []
        if name is None:
            monkeypatch.setenv("HEADWATER_DECODE_CONFIG", str(path))
        parent = click.Context(cli, info_name="headwater")
        context = cli.commands["decode"].make_context("decode", [*words, "--out", "/y"], parent=parent)
        (output,) = context.params["outputs"]
        assert (output.plugin, output.out, output.tables) == ("wal2json", "/y", ("shop.*",))
        assert context.params["catalog"] == "/backup"


def test_the_variable_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.toml"
    path.write_text(WHOLE)
    monkeypatch.setenv("HEADWATER_SERVE_CONFIG", str(path))
    context = cli.commands["serve"].make_context("serve", [], parent=click.Context(cli, info_name="headwater"))
    assert context.params["slots"] == "/slots"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[serve]\nwal = [\n", "line 3, column 1: "),
        ("[serve]\nslots = /x\n", "line 2, column 9: invalid value"),
        (
            "\n[served]\n",
            'line 2, column 1: unknown table "served", expected [apply], [decode], [land], [receive], [serve], [sub',
        ),
        ("serve = 1\n", 'line 1, column 1: "serve" is no table, expected [serve]'),
        ("[serve]\n\n  slotz = 1\n", 'line 3, column 3: unknown key "slotz", expected a flag of headwater serve'),
        ("[serve]\nconfig = 'x'\n", 'line 2, column 1: unknown key "config"'),
        (
            "[serve]\nwal = ['a']\nlisten = 'x'\n",
            '3, column 1: "listen" has a value of another kind, expected a list',
        ),
        ("[serve]\nslots = ['x']\n", 'line 2, column 1: "slots" has a value of another kind, expected one value'),
        ("[serve]\nverbose = 1\n", 'line 2, column 1: "verbose" has a value of another kind, expected true or false'),
        ("[serve]\nmax-connections = 0\n", 'line 2, column 1: "max-connections": 0 is not in the range x>=1.'),
        ("[serve]\nmax-connections = 'many'\n", "line 2, column 1: \"max-connections\": 'many' is not a valid int"),
        ("[serve]\nslots = ''\n", 'line 2, column 1: "slots": the path is empty'),
    ],
)
def test_errors_have_their_place(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError) as refusal:
        parsed(tmp_path / "headwater.toml", text)
    assert message in str(refusal.value)
    assert "headwater.toml" in str(refusal.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b"[serve]\n# \xe9\n")
    for name, message in (("none", "No such file"), ("latin", "line 2: the file is not valid UTF-8")):
        group = click.Context(cli, info_name="headwater")
        with pytest.raises(UsageError, match=message):
            cli.commands["serve"].make_context("serve", ["--config", str(tmp_path / name)], parent=group)


def test_places_of_keys() -> None:
    text = '[a]\nb = """\n[serve]\nc = 1\n"""\n\n# c\n  c = [\n1,\n2]\n[serve]\nc = { d = 1 }\n'
    assert place_of(text, ("a", "b")) == (2, 1)
    assert place_of(text, ("a", "c")) == (8, 3)
    assert place_of(text, ("serve", "c")) == (12, 1)
    assert place_of(text, ("serve",)) == (11, 1)
