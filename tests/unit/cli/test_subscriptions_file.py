"""A file with many subscriptions: what goes before what, and errors with their places."""

from __future__ import annotations

import os
from pathlib import Path

import click
import pytest

from headwater.apply.launcher.launch import Launch
from headwater.cli.apply import apply_command, apply_file, launch_of, parameter_value, request_with
from headwater.cli.commands import cli
from headwater.errors import UsageError

WHOLE = """
[serve]
slots = "/slots"

[apply]
from = "host=source dbname=x"
to = "host=target dbname=x"
max-sync-workers = 3
max-connections = 9
streaming = "on"

[subscriptions.first]
publication = ["p", "q"]

[subscriptions.second]
publication = ["r"]
to = "host=other dbname=y"
streaming = "off"
copy-data = false
binary = true
max-sync-workers = 1
slot = "s"
"""


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("HEADWATER_")]:
        monkeypatch.delenv(name)


def launched(path: Path, text: str, *words: str) -> Launch:
    """Return what a launcher would run."""
    path.write_text(text)
    group = click.Context(cli, info_name="headwater")
    context = apply_command.make_context("apply", ["--config", str(path), *words], parent=group)
    return launch_of(context, apply_file(str(path)))


def test_what_goes_before_what(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "headwater.toml"
    monkeypatch.setenv("HEADWATER_APPLY_ORIGIN", "none")
    launch = launched(path, WHOLE, "--synchronous-commit", "local", "--max-connections", "7")
    assert (launch.directory, launch.http) == (Path(f"{path}.run"), None)
    first, second = (launch.subscriptions[name].request for name in ("first", "second"))
    assert [(it.target, it.streaming, it.binary) for it in (first, second)] == [
        ("host=target dbname=x", "on", False),
        ("host=other dbname=y", "off", True),
    ]
    assert [(it.slot.slot, it.slot.publications) for it in (first, second)] == [("first", ("p", "q")), ("s", ("r",))]
    assert [(it.copies_data, it.max_sync_workers) for it in (first, second)] == [(True, 3), (False, 1)]
    assert [(it.limits.connections, it.limits.copies) for it in (first, second)] == [(6, 3), (6, 3)]
    assert {(it.origin, it.synchronous_commit) for it in (first, second)} == {("none", "local")}
    assert first.limits.target != second.limits.target


def test_a_file_without_subscriptions_has_flags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "headwater.toml"
    path.write_text("[serve]\nslots = '/s'\n[apply]\nto = 'host=t'\npublication = ['p']\nsubscription = 'x'\n")
    monkeypatch.setenv("HEADWATER_APPLY_CONFIG", str(path))
    context = apply_command.make_context("apply", [], parent=click.Context(cli, info_name="headwater"))
    assert (context.params["target"], context.params["subscription"]) == ("host=t", "x")
    path.write_text(f"{path.read_text()}[subscriptions.y]\nfrom = ''\n".replace("subscription = 'x'\n", ""))
    launch = launch_of(context, apply_file(str(path)))
    assert {name: launched.request.target for name, launched in launch.subscriptions.items()} == {"y": "host=t"}


def test_a_change_of_the_file_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "headwater.toml"
    before = launched(path, WHOLE).subscriptions
    after = launched(path, WHOLE.replace('"r"', '"q"')).subscriptions
    assert (before["first"] == after["first"], before["second"] == after["second"]) == (True, False)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[subscriptions]\nx = 1\n", 'line 2, column 1: "x" is no table, expected [subscriptions.x]'),
        (
            "[subscriptions.x]\nhttp = ':1'\n",
            'line 2, column 1: unknown key "http", expected a flag of headwater apply',
        ),
        ("[subscriptions.x]\nstreaming = 'all'\n", "line 2, column 1: \"streaming\": 'all' is not one of"),
        ("[subscriptions.x]\npublication = 'p'\n", 'line 2, column 1: "publication" has a value of another kind'),
        ("[subscriptions.x]\npublication = ['p']\n", "line 1, column 1: the target is missing"),
        ("[apply]\nsubscription = 'y'\n[subscriptions.x]\n", 'line 2, column 1: unknown key "subscription"'),
        (
            "[apply]\nto = ''\nfrom = ''\npublication = ['p']\n\n[subscriptions.x]\n[subscriptions.UP]\n",
            'line 7, column 1: subscription name "UP" is invalid',
        ),
        (
            "[apply]\nto = ''\nfrom = ''\npublication = ['p']\nslot = 's'\n[subscriptions.x]\n[subscriptions.y]\n",
            'line 7, column 1: the slot "s" is that of subscription "x" already',
        ),
        (
            "[apply]\nto = ''\nfrom = ''\npublication = ['p']\nmax-connections = 2\n"
            "[subscriptions.x]\n[subscriptions.y]\n",
            "a target has 2 subscriptions, for which 2 connections are not enough",
        ),
        (
            "[apply]\nto = ''\nwal = ['w']\ndatabase = 'd'\nslots = 's'\npublication = ['p']\n[subscriptions.x]\n",
            "line 7, column 1: --wal needs --catalog and --slots",
        ),
    ],
)
def test_errors_have_their_place(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError) as refusal:
        launched(tmp_path / "headwater.toml", text)
    assert message in str(refusal.value)


def test_parameters_that_are_set() -> None:
    assert parameter_value("streaming", ["off"]) == ("streaming", "off")
    assert parameter_value("binary", ["on"]) == ("binary", True)
    assert parameter_value("batches", ["false"]) == ("batches", False)
    name, value = parameter_value("publication", ["p", "q"])
    assert (name, list(value)) == ("publications", ["p", "q"])  # type: ignore[call-overload]
    values = apply_command.make_context("apply", ["--to", "", "--from", "", "--publication", "p"]).params
    request = request_with(values, (("publication", ("q", "r")), ("max-sync-workers", ("5",))))
    assert (request.slot.publications, request.max_sync_workers) == (("q", "r"), 5)


@pytest.mark.parametrize(
    ("name", "texts", "message"),
    [
        ("slot_name", ["x"], 'unrecognized subscription parameter: "slot_name"'),
        ("to", ["x"], 'unrecognized subscription parameter: "to"'),
        ("streaming", ["off", "on"], 'parameter "streaming" has one value'),
        ("streaming", ["all"], "parameter \"streaming\": 'all' is not one of"),
        ("binary", ["perhaps"], "parameter \"binary\": 'perhaps' is not a valid boolean"),
    ],
)
def test_parameters_that_cannot_be_set(name: str, texts: list[str], message: str) -> None:
    with pytest.raises(UsageError) as refusal:
        parameter_value(name, texts)
    assert message in str(refusal.value)
