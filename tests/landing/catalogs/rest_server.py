"""A REST catalog of Iceberg's own handlers, in a JVM of its own: ``RestCatalogServer.java``."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest

_SOURCE = Path(__file__).with_name("RestCatalogServer.java")


def iceberg_jars(config: pytest.Config) -> Path:
    """Return the directory of Iceberg's jars, or leave the test to the run that has them."""
    jars = config.getoption("--connector")
    if jars is None or Path(jars).name != "iceberg":
        pytest.skip("part of make test-lakes")
    return Path(jars).absolute()


@contextmanager
def rest_server(jars: Path, warehouse: Path, *words: str) -> Iterator[str]:
    """Run a server; gives its address.

    Args:
        jars: Iceberg's; warehouse: where tables lie that are given no place; words: see the server.
    """
    classes = f"{jars}/*:{Path(pyspark.__file__).parent}/jars/*"
    command = ["java", "-Xmx256m", "-cp", classes, str(_SOURCE), str(warehouse), *words]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        port = server.stdout.readline()
        assert port, "the catalog has not begun"
        try:
            yield f"http://127.0.0.1:{int(port)}"
        finally:
            server.stdin.close()
