"""Copies of a table that are kept by its changes: the present rows (type 1), and their history (type 2).

The feed has the columns of Delta's change data feed. An update that changes the key is a delete of the old key and an
insert of the new one, in this order; rows that a flow cannot use are errors, never left out.
"""

from __future__ import annotations

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

spark = SparkSession.active()
KEY = "id"
OWN = ["_lsn", "_commit_lsn", "_seq", "_commit_time", "_xid", "_origin", "_op", "_schema", "_table", "_unchanged"]
OWN += ["_before_is_key", "_before"]


def source() -> DataFrame:
    """Give the table's changes, as they come."""
    options = {name: spark.conf.get(f"spark.headwater.{name}") for name in ("wal", "backup", "table")}
    changes = spark.readStream.format("headwater").option("path", options["wal"]).option("catalog", options["backup"])
    return changes.option("tables", options["table"]).load()


# A flow's function may not ask for columns, so they are known before.
columns = {field.name: field.dataType.simpleString() for field in source().schema if field.name not in OWN}


@dp.temporary_view
def feed() -> DataFrame:
    """Give the table's changes, one a row and key."""
    moves = (f.col("_op") == "update") & (f.col(f"_before.{KEY}") != f.col(KEY))
    old = f.struct(
        f.lit("delete").alias("_change_type"),
        f.lit(0).alias("part"),
        *[f.col(f"_before.{name}").alias(name) for name in columns],
    )
    kind = f.when(f.col("_op") == "update", "update_postimage").otherwise(f.col("_op"))
    new = f.struct(kind.alias("_change_type"), f.lit(1).alias("part"), *columns)
    is_usable = (f.col("_op") != "truncate") & (f.size("_unchanged") == 0)
    why = f.concat(f.lit("no flow can use this change: "), "_op", f.lit(" at "), "_lsn")
    fields = ",".join(["_change_type:string", "part:int", *(f"{name}:{type}" for name, type in columns.items())])
    rows = f.when(~is_usable, f.raise_error(why).cast(f"array<struct<{fields}>>"))
    rows = rows.when(moves, f.array(old, new)).otherwise(f.array(new))
    return (
        source()
        .withColumn("row", f.explode(rows))
        .select(
            "row._change_type",
            f.col("_commit_lsn").alias("_commit_version"),
            f.col("_commit_time").alias("_commit_timestamp"),
            f.struct("_commit_lsn", "_lsn", "_seq", "row.part").alias("sequence"),
            *[f"row.{name}" for name in columns],
        )
    )


target = spark.conf.get("spark.headwater.target")
for name, kind in (("account", 1), ("account_history", 2)):
    dp.create_streaming_table(f"{target}.{name}")
    dp.create_auto_cdc_flow(
        target=f"{target}.{name}",
        source="feed",
        keys=[KEY],
        sequence_by="sequence",
        apply_as_deletes="_change_type = 'delete'",
        except_column_list=["_change_type", "_commit_version", "_commit_timestamp", "sequence"],
        stored_as_scd_type=kind,
    )
