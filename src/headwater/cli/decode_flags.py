"""The flags of ``headwater decode``: those of the run, those of its outputs, and which belong to which output.

With one ``--plugin``, or none, flags come in any order. With several, each begins an output, and the flags that follow
it up to the next are that output's; what is the run's is given once, anywhere. An environment variable of an output's
flag holds for all outputs that do not give the flag; so does what a configuration file says of one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any

import click
from click.core import ParameterSource

from headwater.cli.config_file import FILE_IS_READ, Values, config_flag, file_defaults
from headwater.cli.flags import PATH, FlagsCommand, from_choice, from_flag, from_flags, parameters_of, value_of
from headwater.cli.shared_flags import (
    EngineFlags,
    SessionFlags,
    WalFlags,
    catalog_flag,
    end_flag,
    exclude_flag,
    start_flag,
    tables_flag,
    two_phase_flag,
    user_flag,
    version_flag,
    window_flag,
)
from headwater.errors import UsageError

PLUGIN = "--plugin"
EXPLICIT = (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT)


@dataclass(frozen=True)
class OutputFlags:
    """The flags of one output."""

    plugin: str | None = from_flag(
        PLUGIN,
        metavar="NAME",
        help="Output plugin: test_decoding (default), pgoutput, wal2json, debezium. Each of several begins an output, "
        "with the flags that follow it.",
    )
    session: SessionFlags = from_flags(SessionFlags)
    tables: Sequence[str] = tables_flag(
        help="Only changes of tables SCHEMA.TABLE that match, with * and ?. Transactions without any are as the plugin "
        "has them: test_decoding shows them empty without -o skip-empty-xacts=1."
    )
    exclude: Sequence[str] = exclude_flag()
    publish: Sequence[str] = from_flag(
        "--publish",
        multiple=True,
        metavar="TABLE",
        help="Only this table, its columns and rows: 'shop.orders(id, total) WHERE total > 100', as in CREATE "
        "PUBLICATION. Needs headwater[publish].",
    )
    unknown_types: str | None = from_flag(
        "--unknown-types",
        type=click.Choice(["error", "hex", "null"]),
        help="What becomes of a value whose type has no text form here: an error (default), its stored bytes as "
        "\\x..., or NULL.",
    )
    two_phase: bool = two_phase_flag()
    ddl: bool = from_flag(
        "--ddl", is_flag=True, help="Tell DDL, too, with a plugin that does; headwater ddl prints it by itself."
    )
    out: str = from_flag(
        "--out",
        type=PATH,
        default="-",
        show_default=True,
        metavar="-|FILE|DIR/",
        help="Lines; FILE.parquet: lsn, xid, data; DIR/: the same in part files, in the order of their names. Of "
        "several databases DIR/, DIR/{database}.parquet or DIR/{database}.txt.",
    )
    with_lsn: bool = from_flag("--with-lsn", is_flag=True, help="Lines as LSN<TAB>XID<TAB>DATA.")


OF_AN_OUTPUT = tuple(str(parameter.name) for parameter in parameters_of(OutputFlags, ""))


@dataclass(frozen=True)
class DecodeFlags:
    """The flags of ``headwater decode``."""

    log: WalFlags = from_flags(WalFlags, optional=("wal",))
    catalog: str | None = catalog_flag(required=False)
    slot: str | None = from_flag(
        "--slot",
        type=PATH,
        metavar="PATH",
        help="Go on where this slot stands, and let it advance; see headwater slot.",
    )
    peek: bool = from_flag("--peek", is_flag=True, help="With --slot: do not let it advance.")
    from_state: str | None = from_flag(
        "--from-state",
        type=PATH,
        metavar="FILE|DIR",
        help="Begin with a kept state instead of --catalog, the newest in DIR that lies at or before --start.",
    )
    keep_states: str | None = from_flag(
        "--keep-states", type=PATH, metavar="DIR", help="Keep the state behind each window of WAL, for --from-state."
    )
    database: Sequence[str] = from_flag(
        "--database",
        multiple=True,
        metavar="NAME",
        help="Database to decode, also one that is created in the window; default: the only one that is no template.",
    )
    all_databases: bool = from_flag(
        "--all-databases",
        is_flag=True,
        help="Decode every database that accepts connections and is no template, and those that are created in the "
        "window.",
    )
    server_version: str | None = version_flag()
    start: str | None = start_flag()
    end: str | None = end_flag()
    user: str | None = user_flag()
    on_level_gap: str = from_choice(
        "--on-level-gap",
        "error",
        "skip",
        help="Where wal_level falls below logical in the window: an error, or leave out what was written until it was "
        "raised again, and warn with the LSNs.",
    )
    from_replica_level: bool = from_flag(
        "--from-replica-level",
        is_flag=True,
        help="Decode WAL of wal_level replica, too, as far as it holds rows; each is marked as (complete) or "
        "(partial).",
    )
    outputs: tuple[OutputFlags, ...] = from_flags(OutputFlags)
    tasks: EngineFlags = from_flags(EngineFlags)
    scratch: str | None = from_flag(
        "--scratch", type=PATH, metavar="DIR", help="Directory that driver and workers share for unfinished output."
    )
    window_bytes: int = window_flag(help="WAL that is planned at a time; whole segments.")
    quiet: bool = from_flag("-q", "--quiet", is_flag=True, help="Do not show progress: no bar, no line now and then.")
    stats: bool = from_flag("--stats", is_flag=True, help="Print what was decoded and how long each step took.")
    stats_json: str | None = from_flag("--stats-json", type=PATH, metavar="FILE", help="The same as JSON.")
    config: str | None = config_flag()

    @property
    def ddl(self) -> bool:
        """Whether DDL is reported by an output."""
        return any(output.ddl for output in self.outputs)

    @property
    def is_of_several(self) -> bool:
        """Whether several databases may come of it."""
        return self.all_databases or len(set(self.database)) > 1


class CommandOfOutputs(FlagsCommand[DecodeFlags]):
    """A command with the flags of a run and those of outputs, which are its parameter ``outputs``."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, is_of_output in (("Options", False), (f"Options of an output, behind its {PLUGIN}", True)):
            own = [flag for flag in self.get_params(ctx) if (flag.name in OF_AN_OUTPUT) is is_of_output]
            records = [record for flag in own if (record := flag.get_help_record(ctx)) is not None]
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
            in_file = self._in_file(ctx, args)
            rest = self._parse_several(ctx, [self._parsed(ctx, part, in_file) for part in parts])
        for name in OF_AN_OUTPUT:
            ctx.params.pop(name, None)
        return rest

    def _plugins(self, ctx: click.Context, args: Sequence[str]) -> Iterator[int]:
        """Yield where ``--plugin`` stands, unless it is the value of another flag."""
        for place, word in enumerate(args):
            if word == PLUGIN or word.startswith(f"{PLUGIN}="):
                try:
                    self.make_parser(ctx).parse_args(list(args[:place]))
                except click.BadOptionUsage:
                    continue
                yield place

    def _in_file(self, ctx: click.Context, args: Sequence[str]) -> Values:
        """Read what the configuration file says, wherever it is named: it holds for all parts."""
        given, _, _ = self.make_parser(ctx).parse_args(list(args))
        (param,) = (param for param in self.params if param.name == "config")
        path = given.get("config") or param.value_from_envvar(ctx)
        return {} if path is None else file_defaults(ctx, str(path))

    def _parsed(self, ctx: click.Context, args: Sequence[str], in_file: Values) -> click.Context:
        """Parse a part of the command line, as if it was all."""
        own = self.context_class(
            self, info_name=ctx.info_name, parent=ctx.parent, obj=FILE_IS_READ, default_map=in_file
        )
        rest = super().parse_args(own, list(args))
        if rest:
            ctx.fail(f"Got unexpected extra argument ({' '.join(rest)})")
        return own

    def _parse_several(self, ctx: click.Context, parts: Sequence[click.Context]) -> list[str]:
        """Set what is the run's, from all parts, and the outputs, one for each part but the first."""
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
        values = tuple(map(_output, outputs))
        _check_apart(values)
        ctx.params["outputs"] = values
        return []


def _output(part: click.Context) -> OutputFlags:
    return value_of(OutputFlags, part.params)


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
    for output, other in combinations(outputs, 2):
        places = [out if out == "-" else os.path.realpath(out) for out in (output.out, other.out)]
        if places[0] == places[1]:
            raise UsageError(f'two outputs go to "{other.out}"', hint="choose another --out for one of them")
        if "-" not in places and os.path.commonpath(places) in places:
            raise UsageError(f'the outputs "{output.out}" and "{other.out}" lie one in the other', hint="choose others")
