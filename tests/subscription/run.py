"""A run: each script of each major with the service as its publisher, or as it is, and a table of what came out.

``python -m subscription 16 18`` (``make subscription-tests``); ``--stock`` runs the scripts as they are, ``--only
NAME`` some of them. What is left of each is in a folder of its own, ``build/subscription-tests/MAJOR/NAME``.
"""

from __future__ import annotations

import argparse
import os
import pwd
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from headwater.base.temporary_directories import OwnDirectory
from headwater.local_servers.server_user import SERVER_USER, as_server_user, give_to_server, server_home
from subscription.scripts import MAJORS, Script, lay_out_programs, scripts_of
from subscription.services import Services
from subscription.tap import Result, parse

PLACE = Path("build/subscription-tests")
SHIM = Path(__file__).with_name("HeadwaterPublisher.pm")
WAIT_SECONDS = 60
"""Of each wait inside a script; PG_TEST_TIMEOUT_DEFAULT."""
MOST_SECONDS = 1800


@dataclass(frozen=True)
class Outcome:
    """What came of a script.

    Attributes:
        script: which; result: of it; seconds: that it took; services: how many stood for nodes.
    """

    script: Script
    result: Result
    seconds: float
    services: int


def run_script(script: Script, programs: Path, is_stock: bool) -> Outcome:
    """Run a script in a directory of its own, and keep its logs."""
    started = time.monotonic()
    with ExitStack() as stack:
        home = server_home()
        stack.callback(home.close)
        for name in ("data", "log", "perl"):
            (home.path / name).mkdir()
            give_to_server(home.path / name)
        shutil.copy(SHIM, home.path / "perl")
        services = stack.enter_context(_services(home.path, stack)) if not is_stock else None
        shim = [] if is_stock else ["-I", str(home.path / "perl"), f"-M{SHIM.stem}"]
        command = ["perl", "-I", str(script.perl), *shim, str(script.path)]
        with (home.path / "tap").open("wb") as tap, (home.path / "errors").open("wb") as errors:
            process = subprocess.run(
                command, cwd=home.path / "data", env=_environment(home.path, programs), stdin=subprocess.DEVNULL,
                stdout=tap, stderr=errors, timeout=MOST_SECONDS, check=False, **as_server_user(),
            )  # fmt: skip
        result = parse((home.path / "tap").read_text(errors="replace"), process.returncode)
        _keep(home.path, PLACE / ("stock" if is_stock else "served") / str(script.major) / script.name)
        return Outcome(script, result, time.monotonic() - started, services.count if services else 0)


def _services(home: Path, stack: ExitStack) -> Services:
    directory = stack.enter_context(OwnDirectory())
    user = SERVER_USER if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
    return Services(home / "runner", directory, user)


def _environment(home: Path, programs: Path) -> dict[str, str]:
    passed = {name: os.environ[name] for name in ("TMPDIR", "TZ") if name in os.environ}
    return {
        **passed,
        "PATH": f"{programs}:/usr/local/bin:/usr/bin:/bin",
        "HOME": str(home / "data"),
        "LANG": "C.UTF-8",
        "TESTDIR": str(home / "data"),  # before 16
        "TESTDATADIR": str(home / "data"),
        "TESTLOGDIR": str(home / "log"),
        "HEADWATER_RUNNER": str(home / "runner"),
        "PG_REGRESS": "/bin/true",
        "PG_TEST_TIMEOUT_DEFAULT": str(WAIT_SECONDS),
        "PG_TEST_EXTRA": "",
        "with_icu": "yes",
        "enable_injection_points": "no",
    }


def _keep(home: Path, place: Path) -> None:
    shutil.rmtree(place, ignore_errors=True)
    older = home / "data" / "tmp_check" / "log"
    shutil.copytree(older if older.is_dir() else home / "log", place)
    for name in ("tap", "errors"):
        shutil.copy(home / name, place)


def main() -> int:
    """Run what the command line names; exit status 1 if something is not as it is expected."""
    parser = argparse.ArgumentParser(prog="subscription", description=__doc__)
    parser.add_argument("majors", nargs="*", type=int, default=list(MAJORS))
    parser.add_argument("--stock", action="store_true", help="run the scripts as they are")
    parser.add_argument("--only", action="append", default=[], help="a script's name, or its beginning")
    parser.add_argument("--beside", type=int, default=2, help="scripts that run side by side")
    arguments = parser.parse_args()
    os.chdir(Path(__file__).parents[2])
    scripts = [
        script
        for major in arguments.majors
        for script in scripts_of(major)
        if not arguments.only or script.name.startswith(tuple(arguments.only))
    ]
    outcomes = run_all(scripts, arguments.stock, arguments.beside)
    return 1 if any(outcome.result.failed or not outcome.result.is_whole for outcome in outcomes) else 0


def run_all(scripts: Sequence[Script], is_stock: bool, beside: int) -> list[Outcome]:
    """Run scripts side by side, and print a line for each that ends."""
    home = server_home()
    try:
        for major in {script.major for script in scripts}:
            lay_out_programs(major, home.path / str(major))
        with ThreadPoolExecutor(beside) as pool:
            programs = [home.path / str(script.major) for script in scripts]
            outcomes = pool.map(run_script, scripts, programs, [is_stock] * len(scripts))
            return [_shown(outcome) for outcome in outcomes]
    finally:
        home.close()


def _shown(outcome: Outcome) -> Outcome:
    result = outcome.result
    state = "skipped" if result.skipped is not None else "" if result.is_whole else f"ended behind {result.last!r}"
    print(
        f"{outcome.script.title:30} {len(result.passed):4} passed {len(result.failed):3} failed"
        f" {outcome.seconds:6.1f} s  {outcome.services} services  {state}",
        flush=True,
    )
    for name in result.failed:
        print(f"    failed: {name}", flush=True)
    return outcome


if __name__ == "__main__":
    sys.exit(main())
