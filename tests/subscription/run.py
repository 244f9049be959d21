"""A run: each script of each major with the service as its publisher, or as it is, and a table of what came out.

``python -m subscription 16 18`` (``make subscription-tests``); ``--stock`` runs the scripts as they are, ``--only
NAME`` some of them. What is left of each is in a folder of its own, ``build/subscription-tests/MAJOR/NAME``.
"""

from __future__ import annotations

import argparse
import os
import pwd
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from headwater.base.temporary_directories import OwnDirectory
from headwater.local_servers.server_programs import program_version
from headwater.local_servers.server_user import SERVER_USER, as_server_user, give_to_server, server_home
from subscription.expectations import read_expectations
from subscription.scripts import MAJORS, Script, lay_out_programs, scripts_of
from subscription.services import Services
from subscription.tap import Result, parse

PLACE = Path("build/subscription-tests")
SHIM = Path(__file__).with_name("HeadwaterPublisher.pm")
WAIT_SECONDS = 90
"""Of each wait inside a script; PG_TEST_TIMEOUT_DEFAULT."""
MADE_BY_SERVER = b"logical decoding found"
"""Words of the log of a server that has made a slot; the service's log does not have them."""

MOST_SECONDS = 600
"""Of a script; then its nodes are stopped, as a statement may wait for ever."""


@dataclass(frozen=True)
class Outcome:
    """The end of a script.

    Attributes:
        script: which; result: of it; seconds: that it took.
        services: how many stood for nodes; hung: nodes whose services did not end when they were told to.
    """

    script: Script
    result: Result
    seconds: float
    services: int
    hung: tuple[str, ...]


def run_script(script: Script, programs: Path, is_stock: bool) -> Outcome:
    """Run a script in a directory of its own, and keep its logs."""
    started = time.monotonic()
    home = server_home()
    try:
        for name in ("data", "log", "perl"):
            (home.path / name).mkdir()
            give_to_server(home.path / name)
        shutil.copy(SHIM, home.path / "perl")
        if is_stock:
            status, services, hung = _perl(script, home.path, programs, []), 0, tuple[str, ...]()
        else:
            status, services, hung = _served(script, home.path, programs)
        result = parse((home.path / "tap").read_text(errors="replace"), status)
        _keep(home.path, folder_of(script, is_stock))
    finally:
        home.close()
    return _shown(Outcome(script, result, time.monotonic() - started, services, hung))


def folder_of(script: Script, is_stock: bool) -> Path:
    """Return where the logs of a script are kept."""
    return PLACE / ("stock" if is_stock else "served") / str(script.major) / script.name


def _served(script: Script, home: Path, programs: Path) -> tuple[int, int, tuple[str, ...]]:
    """Run a script with services beside its nodes; return its exit status, how many there were, and which hung."""
    user = SERVER_USER if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
    with OwnDirectory() as directory:
        with Services(home / "runner", directory, user, program_version(programs / "postgres")) as services:
            status = _perl(script, home, programs, ["-I", str(home / "perl"), f"-M{SHIM.stem}"])
        return status, services.count, tuple(services.hung)


def _perl(script: Script, home: Path, programs: Path, shim: list[str]) -> int:
    command = ["perl", "-I", str(script.perl), *shim, str(script.path)]
    with (home / "tap").open("wb") as tap, (home / "errors").open("wb") as errors:
        process = subprocess.Popen(
            **as_server_user(command), cwd=home / "data", env=_environment(home, programs), stdin=subprocess.DEVNULL,
            stdout=tap, stderr=errors,
        )  # fmt: skip
    try:
        return process.wait(MOST_SECONDS)
    except subprocess.TimeoutExpired:
        _stop_nodes(home / "data")
        return process.wait(MOST_SECONDS)


def _stop_nodes(data: Path) -> None:
    """Stop the servers of a script at once; it then ends by itself, as its statements fail."""
    for file in data.rglob("postmaster.pid"):
        with suppress(OSError, ValueError):
            os.kill(int(file.read_text().split("\n")[0]), signal.SIGQUIT)


def _environment(home: Path, programs: Path) -> dict[str, str]:
    passed = {name: os.environ[name] for name in ("TMPDIR", "TZ") if name in os.environ}
    return {
        **passed,
        "PATH": f"{programs}:/usr/local/bin:/usr/bin:/bin",
        "HOME": str(home / "data"),
        "LANG": "C.UTF-8",
        "LC_COLLATE": "C",  # row filters over text are computed under that alone
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
    faults = [(outcome.script, fault) for outcome in outcomes for fault in faults_of(outcome, arguments.stock)]
    for script, fault in faults:
        print(f"{script.title}: {fault} ({folder_of(script, arguments.stock)})")
    print(f"{len(outcomes)} scripts, {sum(len(outcome.result.passed) for outcome in outcomes)} tests passed")
    return 1 if faults else 0


def faults_of(outcome: Outcome, is_stock: bool) -> list[str]:
    """Say what of an outcome is not as it is expected."""
    script, result = outcome.script, outcome.result
    if is_stock:
        end = [] if result.is_whole else [f"ended behind: {result.last}"]
        return [*(f"failed: {name}" for name in result.failed), *end]
    faults = read_expectations().unlike(script.name, script.major, result)
    logs = folder_of(script, is_stock=False).glob("*.log")
    faults += [f"a server itself has made a slot: {log}" for log in logs if MADE_BY_SERVER in log.read_bytes()]
    faults += [f"the service of {name} did not end when it was told to" for name in outcome.hung]
    return faults if outcome.services else [*faults, "no service stood for a node"]


def run_all(scripts: Sequence[Script], is_stock: bool, beside: int) -> list[Outcome]:
    """Run scripts side by side, and print a line for each that ends."""
    home = server_home()
    try:
        for major in {script.major for script in scripts}:
            lay_out_programs(major, home.path / str(major))
        with ThreadPoolExecutor(beside) as pool:
            programs = [home.path / str(script.major) for script in scripts]
            return list(pool.map(run_script, scripts, programs, [is_stock] * len(scripts)))
    finally:
        home.close()


def _shown(outcome: Outcome) -> Outcome:
    """Print a line of an outcome."""
    result = outcome.result
    end = "" if result.is_whole else f", ended behind: {result.last}"
    failed = f", {len(result.failed)} failed" if result.failed else ""
    seconds = f"{outcome.seconds:.0f} s"
    print(f"{outcome.script.title:32} {seconds:>6}  {len(result.passed):3} passed{failed}{end}", flush=True)
    return outcome


if __name__ == "__main__":
    sys.exit(main())
