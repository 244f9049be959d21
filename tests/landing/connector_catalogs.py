"""Catalogs of Spark's configuration, of the real connectors (``make test-lakes``).

Delta 4.4 runs on Spark 4.2, Iceberg 1.12 on Spark 4.1; none is released for 4.3. Each is named by ``--connector``:
its jars, in a directory of its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headwater.lakes.landing_target import LandingTarget
from headwater.lakes.spark_catalog import quoted

EXTENSIONS = {
    "delta": "io.delta.sql.DeltaSparkSessionExtension",
    "iceberg": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
}
SPARKS = {"delta": "4.2", "iceberg": "4.1"}


@dataclass(frozen=True)
class Catalog:
    """A catalog of a connector.

    Attributes:
        format: its tables'.
        jars: of the connector.
        place: the directory of its warehouse.
    """

    format: str
    jars: Path
    place: Path

    @property
    def name(self) -> str:
        """The catalog's name in Spark's configuration."""
        return "spark_catalog" if self.format == "delta" else "lake"

    @property
    def settings(self) -> Mapping[str, str]:
        """The settings of Spark, of one process."""
        settings = {"spark.sql.extensions": EXTENSIONS[self.format], "spark.sql.warehouse.dir": str(self.place)}
        settings |= {"spark.sql.shuffle.partitions": "2"}
        if self.format == "delta":
            settings |= {"spark.databricks.delta.snapshotPartitions": "2"}  # else 50 tasks for each look at a log
            return settings | {"spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog"}
        own = {"": "org.apache.iceberg.spark.SparkCatalog", ".type": "hadoop", ".warehouse": str(self.place)}
        return settings | {f"spark.sql.catalog.lake{key}": value for key, value in own.items()}

    def submitted(self, **more: str) -> str:
        """Write ``PYSPARK_SUBMIT_ARGS``."""
        settings = [f"--conf {name}={value}" for name, value in {**self.settings, **more}.items()]
        jars = ",".join(str(path) for path in sorted(self.jars.glob("*.jar")))
        return " ".join(["--jars", jars, *settings, "pyspark-shell"])

    def target(self, place: Path, namespace: str, mode: str = "changelog") -> LandingTarget:
        """Make a target that lands to a namespace of the catalog."""
        where = f"{self.name}.{namespace}"
        return LandingTarget(place, self.format, mode=mode, namespace=where, catalog_impl="spark")


def sql_name(target: LandingTarget, name: str) -> str:
    assert target.namespace is not None
    return quoted(*target.namespace.split("."), name.replace(".", "_"))
