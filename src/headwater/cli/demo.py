"""``headwater demo``: Headwater beside a real server; :mod:`headwater.cli.demo_run` is what it does."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.cli.flags import command, from_flag
from headwater.errors import HeadwaterError


@dataclass(frozen=True)
class DemoFlags:
    """The flags of ``headwater demo``."""

    seed: int = from_flag("--seed", type=int, default=1, show_default=True, help="Seed of the shop workload.")


@command("demo", DemoFlags, "Run a server, stop it, decode its WAL, compare.")
def demo_command(flags: DemoFlags) -> int:
    """Run a server, stop it, decode its WAL, compare with what the server said."""
    try:
        from headwater.cli.demo_run import run_demo
    except ImportError as error:
        if error.name is not None and error.name.partition(".")[0] != "psycopg":
            raise
        hint = "run: pip install 'headwater[demo]'"
        raise HeadwaterError(f"the demo needs the extra demo: {error}", hint=hint) from None

    return run_demo(seed=flags.seed)
