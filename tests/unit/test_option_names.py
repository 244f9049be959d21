"""Options in messages: called as they are given where the message is shown, and real ones of that command."""

from __future__ import annotations

import ast
import pickle
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click
import pytest

import headwater
from headwater.cli.commands import cli
from headwater.cli.flags import flags_named
from headwater.errors import HeadwaterWarning, WalError
from headwater.option_names import DATA_SOURCE, option, use_data_source, use_flags, ways
from headwater.source.options import OPTIONS

PACKAGE = Path(headwater.__file__).parent
OF_ONE_COMMAND = ("apply", "landing", "lakes", "walsender", "cli", "demo", "local_servers")
"""Rooms whose messages only the command line shows, or clients of a command."""

FLAG = re.compile(r"(?<![\w-])--([a-z][a-z-]+)")
ERROR = WalError(
    "wal_level fell",
    lsn=0x10,
    hint=ways(f"leave it out with {option('on-level-gap', 'skip')}", f"end before that with {option('end', '0/10')}"),
)


def commands(command: click.Command = cli, name: str = "") -> Iterator[tuple[str, click.Command]]:
    if isinstance(command, click.Group):
        for word, subcommand in command.commands.items():
            yield from commands(subcommand, f"{name} {word}".strip())
    else:
        yield name, command


COMMANDS = dict(commands())


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (None, "leave it out with --on-level-gap skip, or end before that with --end 0/10"),
        (["on-level-gap", "end"], "leave it out with --on-level-gap skip, or end before that with --end 0/10"),
        (["end"], "end before that with --end 0/10"),
        (["on-level-gap"], "leave it out with --on-level-gap skip"),
        ([], ""),
    ],
)
def test_of_a_command(flags: list[str] | None, words: str) -> None:
    """An error does not advise what needs a flag that the command does not have."""
    if flags is not None:
        use_flags(flags)
    assert str(pickle.loads(pickle.dumps(ERROR))) == "wal_level fell (at 0/10)" + (f"; {words}" if words else "")


def test_of_the_data_source() -> None:
    use_data_source()
    expected = 'leave it out with option("onLevelGap", "skip"), or end before that with option("endingLsn", "0/10")'
    assert str(ERROR) == f"wal_level fell (at 0/10); {expected}"


@pytest.mark.parametrize(
    ("mention", "flag", "called"),
    [
        (option("set", "lc_monetary=C"), "--set lc_monetary=C", 'option("set.lc_monetary", "C")'),
        (option("set", "NAME=VALUE"), "--set NAME=VALUE", "the option set.NAME"),
        (option("storage-option", "NAME=VALUE"), "--storage-option NAME=VALUE", "the option storage.NAME"),
        (option("client-encoding"), "--client-encoding", "the option set.client_encoding"),
        (option("wal"), "--wal", "the option path"),
        (option("images", "true"), "", 'option("images", "true")'),
        (option("scratch"), "--scratch", ""),
    ],
)
def test_names(mention: str, flag: str, called: str) -> None:
    """In a warning, which goes from tasks to the driver, too."""
    warning = HeadwaterWarning("odd", None, None, f"try {mention}")
    assert str(pickle.loads(pickle.dumps(warning))) == (f"odd; try {flag}" if flag else "odd")
    use_data_source()
    assert str(warning) == (f"odd; try {called}" if called else "odd")


def test_a_message_names_what_it_cannot_have_as_a_flag() -> None:
    use_flags(["end"])
    assert str(WalError(f"without {option('two-phase')}")) == "without --two-phase"


def test_the_names_are_those_of_the_data_source_and_of_commands() -> None:
    ours = {name for name in DATA_SOURCE.values() if not name.startswith("set.")}
    assert ours <= set(OPTIONS)
    flags = {flag for command in COMMANDS.values() for flag in flags_named(command)}
    assert set(DATA_SOURCE) - {"images"} <= flags


@cache
def messages(path: Path) -> list[tuple[int, str]]:
    """List the texts of a module that are no docstrings, with their lines."""
    return list(_messages(path))


def _messages(path: Path) -> Iterator[tuple[int, str]]:
    tree = ast.parse(path.read_text())
    inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = [part for part in node.values if isinstance(part, ast.Constant)]
            inner |= set(map(id, parts))
            yield node.lineno, "{}".join(str(part.value) for part in parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inner:
            yield node.lineno, node.value


def test_rooms_of_several_doors_mention_options_by_name() -> None:
    """A flag that stands in a text of theirs is one of the command that it is named with."""
    wrong = []
    for path in sorted(PACKAGE.rglob("*.py")):
        inside = path.relative_to(PACKAGE)
        if inside.parts[0] in OF_ONE_COMMAND or inside.name in ("option_names.py", "settings.py", "request.py"):
            continue
        for line, text in messages(path):
            named = {name for name in FLAG.findall(text) if "headwater decode" not in text}
            # Flags of Spark, of pg_receivewal and of postgres are no options of ours.
            wrong += [f"{inside}:{line}: --{name}" for name in named - {"master", "compress", "help"}]
    assert wrong == []


def test_what_they_mention_is_there() -> None:
    """Every option that is mentioned is one of a command, or of the data source."""
    known = {flag for command in COMMANDS.values() for flag in flags_named(command)} | set(DATA_SOURCE)
    calls = re.compile(r"\boption\(\s*[\"']([a-z-]+)[\"']")
    mentioned = {name for path in PACKAGE.rglob("*.py") for name in calls.findall(path.read_text())}
    assert {"end", "on-level-gap", "client-encoding"} <= mentioned
    assert mentioned - known == set()


@pytest.mark.parametrize("room", ["landing", "lakes"])
def test_flags_of_landing_are_those_of_land(room: str) -> None:
    """Advice of landing's errors can be given to ``headwater land``, which shows them, or the command that it names."""
    of_land, of_reload = (set(flags_named(COMMANDS[name])) for name in ("land", "lake reload"))
    wrong = [
        f"{path.name}:{line}: --{name}"
        for path in sorted((PACKAGE / room).rglob("*.py"))
        for line, text in messages(path)
        for name in FLAG.findall(text)
        if name not in (of_land | of_reload if "headwater lake reload" in text else of_land)
    ]
    assert wrong == []


def test_the_table_of_messages_names_flags_that_there_are() -> None:
    """The flags are those of ``headwater land``, or of the command that is named with them."""
    page = Path(__file__).parents[2] / "docs" / "reference" / "messages.md"
    for line in page.read_text().splitlines():
        named = COMMANDS["decode" if "headwater decode" in line else "land"]
        assert set(FLAG.findall(line)) <= set(flags_named(named)), line


def test_the_messages_of_the_table_are_said() -> None:
    """For messages that no story of the tests of landing says: their fixed parts stand in the sources."""
    page = (Path(__file__).parents[2] / "docs" / "reference" / "messages.md").read_text()
    texts = "\n".join(text for path in PACKAGE.rglob("*.py") for _, text in messages(path))
    shown = [line.split(" | ")[0].strip("| `") for line in page.split("\n\n|")[2].splitlines()[2:]]
    assert len(shown) > 5
    parts = [part.strip(" ,`") for message in shown for part in message.split("...")]
    assert [part for part in parts if part not in texts] == []
