"""The outputs of ``headwater decode``: which flags belong to which.

With one ``--plugin``, or none, flags come in any order. With several, each begins an output, and the flags that follow
it up to the next are that output's; what is the run's is given once, anywhere. An environment variable of an output's
flag holds for all outputs that do not give the flag.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import combinations, pairwise
from typing import Any

import click
from click.core import ParameterSource

from headwater.errors import UsageError

PLUGIN = "--plugin"
EXPLICIT = (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT)


@dataclass(frozen=True)
class OutputFlags:
    """The flags of one output, as they were given.

    Attributes:
        plugin: the output plugin's name.
        options, settings: texts ``NAME=VALUE``.
        client_encoding: by PostgreSQL's names; None for the default.
        publish: texts of the user's own publications.
        tables, exclude: texts of patterns; unknown_types: error, hex or null.
        two_phase: prepared transactions are decoded at PREPARE.
        ddl: DDL is told, too, by a plugin that can.
        out: ``-`` or a path; with_lsn: lines begin with LSN and xid.
    """

    plugin: str | None
    options: Sequence[str]
    settings: Sequence[str]
    client_encoding: str | None
    tables: Sequence[str]
    exclude: Sequence[str]
    publish: Sequence[str]
    unknown_types: str | None
    two_phase: bool
    ddl: bool
    out: str
    with_lsn: bool


OF_AN_OUTPUT = tuple(field.name for field in fields(OutputFlags))


class CommandOfOutputs(click.Command):
    """A command with the flags of a run and those of outputs, which are its parameter ``outputs``."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, is_of_output in (("Options", False), (f"Options of an output, behind its {PLUGIN}", True)):
            own = [one for one in self.get_params(ctx) if (one.name in OF_AN_OUTPUT) is is_of_output]
            records = [record for one in own if (record := one.get_help_record(ctx)) is not None]
            with formatter.section(title):
                formatter.write_dl(records)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if ctx.resilient_parsing:
            return super().parse_args(ctx, args)
        places = list(self._plugins(ctx, args))
        if len(places) < 2:
            rest = super().parse_args(ctx, args)
            ctx.params["outputs"] = (_output(ctx),)
        else:
            parts = [args[low:high] for low, high in pairwise([0, *places, len(args)])]
            rest = self._parse_several(ctx, [self._parsed(ctx, part) for part in parts])
        for name in OF_AN_OUTPUT:
            ctx.params.pop(name, None)
        return rest

    def _plugins(self, ctx: click.Context, args: Sequence[str]) -> Iterator[int]:
        """Where ``--plugin`` stands, unless it is the value of another flag."""
        for place, word in enumerate(args):
            if word == PLUGIN or word.startswith(f"{PLUGIN}="):
                try:
                    self.make_parser(ctx).parse_args(list(args[:place]))
                except click.BadOptionUsage:
                    continue
                yield place

    def _parsed(self, ctx: click.Context, args: Sequence[str]) -> click.Context:
        """A part of the command line, as if it was all."""
        own = self.context_class(self, info_name=ctx.info_name, parent=ctx.parent)
        rest = super().parse_args(own, list(args))
        if rest:
            ctx.fail(f"Got unexpected extra argument ({' '.join(rest)})")
        return own

    def _parse_several(self, ctx: click.Context, parts: Sequence[click.Context]) -> list[str]:
        """What is the run's of all parts, and the outputs, one for each part but the first."""
        head, *outputs = parts
        for param in self.params:
            name = str(param.name)
            given = [part for part in parts if part.get_parameter_source(name) is ParameterSource.COMMANDLINE]
            if name not in OF_AN_OUTPUT:
                ctx.params[name] = _of_the_run(param, head.params.get(name), [part.params[name] for part in given])
            elif head in given:
                raise UsageError(
                    f"{_flag(param)} stands before the first {PLUGIN}, with several outputs",
                    hint=f"let it follow the {PLUGIN} that it is for, and give it to each that it is for",
                )
            elif name == "out":
                _check_given(outputs)
        found = tuple(map(_output, outputs))
        _check_apart(found)
        ctx.params["outputs"] = found
        return []


def _output(part: click.Context) -> OutputFlags:
    return OutputFlags(**{name: part.params[name] for name in OF_AN_OUTPUT})


def _of_the_run(param: click.Parameter, default: Any, given: Sequence[Any]) -> Any:
    if param.multiple and given:
        return tuple(value for values in given for value in values)
    if len(given) > 1:
        raise UsageError(f"{_flag(param)} is for the whole run, and given for several outputs", hint="give it once")
    return given[0] if given else default


def _flag(param: click.Parameter) -> str:
    return max(param.opts, key=len)


def _check_given(outputs: Sequence[click.Context]) -> None:
    """Refuse an output that does not say where it goes, as only one can go to standard output."""
    for part in outputs:
        if part.get_parameter_source("out") not in EXPLICIT:
            raise UsageError(
                f"{PLUGIN} {part.params['plugin']} has no --out, and there are several outputs",
                hint="give each one's --out behind its --plugin; one of them may be --out -",
            )


def _check_apart(outputs: Sequence[OutputFlags]) -> None:
    """Refuse two outputs to one place, or one inside the other."""
    for one, other in combinations(outputs, 2):
        places = [out if out == "-" else os.path.realpath(out) for out in (one.out, other.out)]
        if places[0] == places[1]:
            raise UsageError(f'two outputs go to "{other.out}"', hint="choose another --out for one of them")
        if "-" not in places and os.path.commonpath(places) in places:
            raise UsageError(f'the outputs "{one.out}" and "{other.out}" lie one in the other', hint="choose others")
