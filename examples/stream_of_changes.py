"""A table's changes as a stream, into a function of one's own and into Spark's Parquet sink.

    python examples/stream_of_changes.py /var/lib/postgresql/16/main/pg_wal /backups/monday public.account /lake

Takes what is there and ends; without ``availableNow`` it goes on as the WAL grows. Run it again: each sink goes on
where its checkpoint stands. A function may be given a batch twice, under the same number and with the same rows, so it
writes under that number.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import headwater
from headwater import StreamMetrics

wal, backup, table, lake = sys.argv[1:5]
spark = SparkSession.builder.master("local[*]").getOrCreate()
headwater.register(spark)
metrics = StreamMetrics()
spark.streams.addListener(metrics)


def stream() -> DataFrame:
    """Return the table's changes, from the backup on, with its own columns."""
    return spark.readStream.format("headwater").options(path=wal, catalog=backup, tables=table).load()


def write(batch: DataFrame, number: int) -> None:
    """How many changes of each kind a batch has, in a directory of its own."""
    batch.groupBy("_op").count().coalesce(1).write.mode("overwrite").json(f"{lake}/counts/{number}")


Path(lake).mkdir(parents=True, exist_ok=True)
queries = [
    stream()
    .writeStream.queryName("counts")
    .foreachBatch(write)
    .option("checkpointLocation", f"{lake}/checkpoints/counts")
    .trigger(availableNow=True)
    .start(),
    stream()
    .writeStream.queryName("changes")
    .format("parquet")
    .option("checkpointLocation", f"{lake}/checkpoints/changes")
    .trigger(availableNow=True)
    .start(f"{lake}/changes"),
]
for query in queries:
    query.awaitTermination()
    print(query.name, query.lastProgress and query.lastProgress["sources"][0]["endOffset"])
metrics.wait(60)
print(metrics.exposition())
spark.streams.removeListener(metrics)
spark.stop()
