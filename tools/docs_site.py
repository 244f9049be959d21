"""Hooks of MkDocs (``mkdocs.yml``): what pages have from the program itself, and links of pages outside of the site.

A page that has the line ``<!-- commands -->`` gets a section for each command in its place, with what ``--help``
prints; ``<!-- names -->`` likewise one for each name that ``import headwater`` has.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from mkdocs.exceptions import PluginError

import headwater
from headwater.cli.commands import cli

ROOT = Path(__file__).parents[1]
OUTSIDE = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "examples/README.md")
LINK = re.compile(r"\]\((?!https?:)([^)#\s]+)")
HELP_WIDTH = 100


def on_pre_build(**_: Any) -> None:
    """See that links of the pages that are not of the site lead to files."""
    broken = [f"{page}: {link}" for page in OUTSIDE for link in broken_links(ROOT / page)]
    if broken:
        raise PluginError(f"links lead nowhere: {', '.join(broken)}")


def broken_links(page: Path) -> list[str]:
    """Return the links of a page that lead to no file of the repository."""
    return [link for link in LINK.findall(page.read_text()) if not (page.parent / link).exists()]


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Write commands and names into the pages that ask for them."""
    for mark, reference in (("<!-- commands -->", commands_reference), ("<!-- names -->", names_reference)):
        if mark in markdown:
            markdown = markdown.replace(mark, reference())
    return markdown


def commands_reference() -> str:
    """Return a section for each command, with its help."""
    context = click.Context(cli, info_name="headwater")
    return "\n".join(section(f"headwater {name}", text) for name, text in helps(context))


def helps(context: click.Context) -> Iterator[tuple[str, str]]:
    """Yield the name of each command below a group, and its help; those of its own commands after it."""
    group = context.command
    assert isinstance(group, click.Group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        inner = click.Context(command, context, name, terminal_width=HELP_WIDTH, max_content_width=HELP_WIDTH)
        yield inner.command_path.removeprefix("headwater "), command.get_help(inner)
        if isinstance(command, click.Group):
            yield from helps(inner)


def names_reference() -> str:
    """Return a section for each public name of the package, with its docstring."""
    return "\n".join(section(name, described(getattr(headwater, name))) for name in headwater.__all__ if name[0] != "_")


def described(value: object) -> str:
    """Return how a public name is called, if it is, and what its docstring says."""
    call = str(inspect.signature(value)) if callable(value) and not isinstance(value, type) else ""
    return f"{call}\n\n{inspect.getdoc(value)}".strip()


def section(heading: str, text: str) -> str:
    """Return a section with a block of text as it is."""
    return f"## {heading}\n\n```text\n{text}\n```\n"
