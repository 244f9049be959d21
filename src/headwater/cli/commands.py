"""The commands: each is declared by the module of its name, with its flags."""

from __future__ import annotations

import click

from headwater import __version__
from headwater.cli.apply import apply_command
from headwater.cli.backup import backup_command
from headwater.cli.catalog import catalog_command
from headwater.cli.ddl import ddl_command
from headwater.cli.decode import decode_command
from headwater.cli.demo import demo_command
from headwater.cli.flags import CommandGroup
from headwater.cli.lake import compact_command, expire_command, lake_command
from headwater.cli.land import land_command
from headwater.cli.publication import publication_command
from headwater.cli.receive import receive_command
from headwater.cli.serve import serve_command
from headwater.cli.slot import slot_command
from headwater.cli.subscription import subscription_command
from headwater.cli.user import user_command
from headwater.cli.waldump import waldump_command

COMMANDS: tuple[click.Command, ...] = (
    *(
        decode_command,
        apply_command,
        backup_command,
        catalog_command,
        compact_command,
        ddl_command,
        expire_command,
        lake_command,
        land_command,
    ),
    *(demo_command, publication_command, receive_command, serve_command, slot_command, subscription_command),
    *(user_command, waldump_command),
)

cli = click.version_option(__version__, prog_name="headwater")(
    CommandGroup(
        "headwater",
        COMMANDS,
        context_settings={"help_option_names": ["-h", "--help"]},
        help="PostgreSQL's logical decoding outside the server, as a Spark pipeline.",
    )
)
