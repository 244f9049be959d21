"""The commands' flags: each has the environment variable its help prints; help needs none of the heavy libraries."""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from headwater.cli.commands import cli
from headwater.cli.flags import Age, Flag, FlagsCommand, Paths, value_of
from headwater.cli.shared_flags import session_settings

HEAVY: tuple[str, ...] = ("pyspark", "py4j", "numba", "numpy", "pyarrow", "pandas", "rich", "headwater.base.kernels")
HEAVY += ("headwater.spark", "headwater.pipeline", "headwater.rows", "headwater.lakes", "headwater.landing")
LISTING = f"import atexit, sys; atexit.register(lambda: print('loaded:', [m for m in {HEAVY} if m in sys.modules]))"


WITHOUT_FLAGS = {
    "apply": {"start"},
    "land": {"start"},
    "lake resume": {"database", "server_version", "start", "end", "jsonb", "on_table_error"},
    "lake reload": {"database", "server_version", "start", "end", "jsonb", "on_table_error"},
    "slot create": {"start", "end"},
}
"""What commands have no flags for, of those that others share."""


def _commands(group: click.Group, above: str = "") -> Iterator[tuple[str, click.Command]]:
    """Give all commands by their words, those of groups inside included."""
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from _commands(command, f"{above}{name} ")
        else:
            yield above + name, command


FLAGS = [
    pytest.param(words, command, flag, id=f"{words}{flag.opts[-1]}")
    for words, command in _commands(cli)
    for flag in command.params
    if isinstance(flag, click.Option) and flag.name != "config"
]


def _parsed(command: click.Command, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> click.Context:
    for name in [name for name in os.environ if name.startswith("HEADWATER_")]:
        monkeypatch.delenv(name)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    group = click.Context(cli, info_name="headwater")
    words = ["x" for argument in command.params if isinstance(argument, click.Argument) and argument.required]
    return command.make_context(command.name, words, parent=group, resilient_parsing=False)


def _needed(command: click.Command) -> dict[str, str]:
    """Return a value for each flag that must be there."""
    return {str(flag.envvar): "x" for flag in command.params if isinstance(flag, click.Option) and flag.required}


@pytest.mark.parametrize(("words", "command", "flag"), FLAGS)
def test_every_flag_has_the_variable_that_its_help_prints(
    words: str, command: click.Command, flag: click.Option, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = click.Context(command, info_name=command.name)
    _, help_text = flag.get_help_record(context) or ("", "")
    printed = re.search(r"env var: (\w+)", help_text)
    assert printed is not None
    assert printed[1] == f"headwater_{words}_{flag.opts[-1].lstrip('-')}".replace("-", "_").replace(" ", "_").upper()
    text, value = _example(flag)
    parsed = _parsed(command, {**_needed(command), printed[1]: text}, monkeypatch)
    assert value == _value(parsed, str(flag.name))
    assert click.core.ParameterSource.ENVIRONMENT is parsed.get_parameter_source(str(flag.name))


@pytest.mark.parametrize("words", [words for words, _ in _commands(cli)])
def test_a_command_is_run_with_all_its_flags(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """None is lost, or filled by another: what shares a name with one of its parts would be."""
    command = dict(_commands(cli))[words]
    assert isinstance(command, FlagsCommand)
    parsed = _parsed(command, _needed(command), monkeypatch).params
    flat = dict(_flat(value_of(command.kind, parsed)))
    outputs = {name for output in parsed.pop("outputs", ()) for name, _ in _flat(output)}
    assert {name: flat[name] for name in parsed} == parsed
    assert set(flat) - set(parsed) - outputs <= WITHOUT_FLAGS.get(words, set())


def _flat(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the names and values of a command's parameters, from the value that it is run with."""
    for field in dataclasses.fields(value):
        part = getattr(value, field.name)
        for inner in part if field.name == "outputs" else [part]:
            yield from _flat(inner) if dataclasses.is_dataclass(inner) else [(field.name, part)]


def _value(parsed: click.Context, name: str) -> object:
    """Return the value of a flag; of one of an output's, where there is one output."""
    if name in parsed.params:
        return parsed.params[name]
    (output,) = parsed.params["outputs"]
    return dict(_flat(output))[name]


def _example(flag: click.Option) -> tuple[str, object]:
    if flag.is_flag:
        return "1", True
    if flag.multiple and not (isinstance(flag, Flag) and flag.is_once):
        return "a=some  words\n\nb= two\r\n", ("a=some  words", "b= two")
    if isinstance(flag.type, click.types.IntParamType):
        return "7", 7
    if isinstance(flag.type, click.types.FloatParamType):
        return "7.5", 7.5
    if isinstance(flag.type, click.Choice):
        return flag.type.choices[-1], flag.type.choices[-1]
    if isinstance(flag.type, Age):
        return "7d", timedelta(days=7)
    return " some  words ", " some  words "


def test_a_flag_given_as_an_argument_comes_before_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWATER_DECODE_OPTION", "a=1")
    words = ["--wal", "w", "--catalog", "c", "-o", "b=2", "--option", "c=3"]
    parsed = cli.commands["decode"].make_context("decode", words)
    assert _value(parsed, "options") == ("b=2", "c=3")


@pytest.mark.parametrize(
    ("words", "environment", "expected"),
    [
        (["--help"], {}, "Commands:"),
        (["--version"], {}, "headwater, version "),
        (["decode", "--help"], {}, "--catalog PATH"),
        (["demo", "--help"], {}, "--seed"),
        ([], {"_HEADWATER_COMPLETE": "bash_source"}, "complete "),
        (
            [],
            {"_HEADWATER_COMPLETE": "bash_complete", "COMP_WORDS": "headwater decode --w", "COMP_CWORD": "2"},
            "--with-lsn",
        ),
    ],
)
def test_help_loads_nothing_heavy(words: list[str], environment: dict[str, str], expected: str) -> None:
    code = f"{LISTING}\nsys.argv = ['headwater', *{words!r}]\nfrom headwater.cli.main import main\nmain()"
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.returncode, run.stderr) == (0, "")
    assert expected in run.stdout
    assert run.stdout.endswith("loaded: []\n")


@pytest.mark.parametrize(
    ("words", "shown"),
    [([], "compare."), (["slot"], "Remove a slot."), (["catalog"], "Write the catalog")],
)
def test_without_a_command_help_is_shown(words: list[str], shown: str) -> None:
    run = _run(*words)
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr.splitlines()[0].endswith(" [OPTIONS] COMMAND [ARGS]...")
    assert shown in run.stderr


@pytest.mark.parametrize(
    "words",
    [["decode", "--wal", ""], ["decode", "--catalog", ""], ["decode", "--out", ""], ["slot", "show", ""]],
)
def test_an_empty_path_is_refused(words: list[str]) -> None:
    run = _run(*words)
    assert (run.returncode, run.stdout) == (2, "")
    assert "the path is empty" in run.stderr


def test_a_current_directory_that_is_gone(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()

    def go_away() -> None:
        os.chdir(gone)
        gone.rmdir()

    run = _run("decode", "--wal", "/", "--catalog", "/", "--out", "x", preexec_fn=go_away)
    assert (run.returncode, run.stderr) == (
        1,
        "headwater: the current directory is not there any more; change to another one\n",
    )


def _run(*words: str, **how: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "headwater.cli.main", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, **how)


def test_the_flag_for_an_encoding_goes_before_the_setting() -> None:
    assert session_settings(["TimeZone=UTC", "client_encoding=LATIN1"], "SJIS") == (
        ("TimeZone", "UTC"),
        ("client_encoding", "LATIN1"),
        ("client_encoding", "SJIS"),
    )
    assert session_settings(["client_encoding=LATIN1"], None) == (("client_encoding", "LATIN1"),)


@pytest.mark.parametrize("words", ["land", "ddl", "publication explain", "slot create"])
def test_a_command_about_one_database_takes_one(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last of several would be decoded, and nothing said of the others."""
    (command,) = [command for name, command in _commands(cli) if name == words]
    needed = _needed(command)
    variable = f"HEADWATER_{words.replace(' ', '_').upper()}_DATABASE"
    assert _parsed(command, {**needed, variable: "my db"}, monkeypatch).params["database"] == "my db"
    assert _parsed(command, needed, monkeypatch).params["database"] is None
    place = ["x" for argument in command.params if isinstance(argument, click.Argument) and argument.required]
    with pytest.raises(click.BadParameter, match="given 2 times, expected one"):
        command.make_context(words, [*place, "--database", "a", "--database", "b"])


@pytest.mark.parametrize(
    ("words", "environment"),
    [
        (["land", "--to", "gs://bucket/lake"], {}),
        (["land", "--to", "gs:/bucket/lake"], {}),
        (["land", "--wal", "x", "--catalog", "x"], {"HEADWATER_LAND_TO": "file://elsewhere/lake"}),
        (["decode", "--out", "s3://bucket/lines"], {}),
        (["compact", "gs://bucket/lake"], {}),
    ],
)
def test_an_address_is_no_path(
    words: list[str], environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = CliRunner(env=environment).invoke(cli, words)
    assert run.exit_code == 2
    assert "of scheme" in run.output or "on another machine" in run.output
    assert not list(tmp_path.iterdir())


def test_a_file_address_is_its_path() -> None:
    assert Paths().convert("file:///shop/lake%201", None, None) == "/shop/lake 1"
