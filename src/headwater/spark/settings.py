"""Settings of a session that Headwater starts: the user's, and ours where the user said nothing.

The user speaks through ``--master``, ``PYSPARK_SUBMIT_ARGS``, ``spark-defaults.conf`` (in ``SPARK_CONF_DIR``, or
``conf`` of ``SPARK_HOME``), the environment, and spark-submit. Spark's Java process reads all of that itself; so ours
are added to what it found, where it found nothing. Which master is meant must be known before that process starts, as
its own flags depend on it: :func:`intended_master` looks at the same places in the same order as spark-submit does.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

from pyspark.find_spark_home import _find_spark_home

DEFAULT_MASTER = "local[*]"
LOOPBACK = "127.0.0.1"

DAEMON = "spark.python.daemon.module"

EVERYWHERE: Mapping[str, str] = {
    "spark.app.name": "headwater",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    DAEMON: "headwater.spark.worker_daemon",
    "spark.python.worker.reuse": "true",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.executorEnv.PYTHONSAFEPATH": "1",
    "spark.sql.session.timeZone": "UTC",
}
ON_A_CLUSTER: Mapping[str, str] = {
    # What an executor has made may be fetched through any other that is idle.
    "spark.locality.wait": "0s",
}
_MADE_UP = ("spark.app.name", "spark.ui.showConsoleProgress")
_GATEWAY = "PYSPARK_GATEWAY_PORT"
_ADDRESSES = ("spark.driver.bindAddress", "spark.driver.host")
_ADDRESS_VARIABLES = ("SPARK_LOCAL_IP", "SPARK_LOCAL_HOSTNAME")
_PROPERTY = re.compile(r"\s*([^\s=:#!][^\s=:]*)(?:\s*[=:]\s*|\s+)(.*?)\s*")


def is_local(master: str) -> bool:
    """Tell whether tasks run in the driver's own Java process; ``local-cluster`` starts others."""
    return master == "local" or master.startswith("local[")


def configuration_directory() -> Path:
    """Return the directory of the user's Spark configuration, whether it is there or not."""
    named = os.environ.get("SPARK_CONF_DIR")
    return Path(named) if named else Path(os.environ.get("SPARK_HOME") or _find_spark_home(), "conf")


def given_settings() -> dict[str, str]:
    """Return the settings of the user's files and of ``PYSPARK_SUBMIT_ARGS``."""
    submitted, properties_file = _submitted()
    file = Path(properties_file) if properties_file else configuration_directory() / "spark-defaults.conf"
    return {**dict(_properties(file)), **submitted}


def intended_master(flag: str | None) -> str:
    """Return the master that a session will have.

    Args:
        flag: the user's word on the command line, None for none.
    """
    return flag or given_settings().get("spark.master") or os.environ.get("MASTER") or DEFAULT_MASTER


def without_submits_own(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the user's settings: spark-submit makes some up for a shell, as which a session of ours starts.

    Args:
        settings: of the Java process.
    """
    given = given_settings()
    is_shell = _GATEWAY not in os.environ
    return {name: value for name, value in settings.items() if not is_shell or name not in _MADE_UP or name in given}


def missing_settings(settings: Mapping[str, str], master: str) -> dict[str, str]:
    """Return our settings that the user has no word on.

    Args:
        settings: the user's.
        master: of the session. Only one of this machine alone is bound to its loopback address.
    """
    ours = {**EVERYWHERE, **({} if is_local(master) else ON_A_CLUSTER)}
    if is_local(master) and not any(name in settings for name in _ADDRESSES) and not _has_address_variable():
        ours |= dict.fromkeys(_ADDRESSES, LOOPBACK)
    return {name: value for name, value in ours.items() if name not in settings}


def _has_address_variable() -> bool:
    return any(os.environ.get(name) for name in _ADDRESS_VARIABLES)


def _submitted() -> tuple[dict[str, str], str | None]:
    """Return the settings of ``PYSPARK_SUBMIT_ARGS``, and the file of others that it names."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--master")
    parser.add_argument("--conf", "-c", action="append", default=[])
    parser.add_argument("--properties-file")
    try:
        given, _ = parser.parse_known_args(shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "")))
    except (argparse.ArgumentError, ValueError):
        return {}, None  # spark-submit itself will say what is wrong.
    settings = dict(setting.partition("=")[::2] for setting in given.conf)
    return settings | ({"spark.master": given.master} if given.master else {}), given.properties_file


def _properties(path: Path) -> Iterator[tuple[str, str]]:
    try:
        text = path.read_text(errors="replace")
    except OSError:
        return
    for line in text.splitlines():
        match = _PROPERTY.fullmatch(line)
        if match is not None:
            yield match[1], match[2]
