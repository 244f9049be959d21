# %% [markdown]
# # Who changed it?
# Last week's base backup and the WAL that was archived since: no server runs, and nothing was prepared before.
#
#     python examples/who_changed_it.py /archive/wal /backups/monday public.account 'id = 7' changes.svg
#
# WAL names transactions, not people: who it was is a matter of what the application has written beside the change, such
# as a column or a row of its own in the same transaction. So the transaction is shown whole.

# %%
from __future__ import annotations

import sys

import matplotlib
from matplotlib import pyplot
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import headwater

wal, backup, table, row, chart = sys.argv[1:6]
matplotlib.use("Agg")
spark = SparkSession.builder.master("local[*]").getOrCreate()
headwater.register(spark)


def changes(**options: str) -> DataFrame:
    """Return changes of the WAL, one a row."""
    return spark.read.format("headwater").options(path=wal, catalog=backup, **options).load()


# %% [markdown]
# ## One row's history
# A single table has its own columns; a deleted row is known by its key. The filter is Spark's own SQL.

# %%
history = changes(tables=table).where(row).orderBy("_commit_lsn", "_lsn", "_seq")
history = history.drop("_schema", "_table", "_seq").cache()
history.show(truncate=False)

# %% [markdown]
# ## What else was done in the last transaction that touched it

# %%
last = history.orderBy(f.desc("_commit_lsn")).first()
if last is not None:
    beside = changes().where(f.col("_xid") == last["_xid"]).where(f.col("_commit_lsn") == last["_commit_lsn"])
    print(f"transaction {last['_xid']}, committed at {last['_commit_time']} UTC, origin {last['_origin'] or 'local'}:")
    beside.select("_schema", "_table", "_op", "_before", "_after", "_ddl").show(truncate=False)

# %% [markdown]
# ## Changes an hour

# %%
hours = (
    changes(ddl="false")
    .groupBy(f.date_trunc("hour", "_commit_time").alias("hour"), f.concat_ws(".", "_schema", "_table").alias("table"))
    .count()
    .orderBy("hour")
    .collect()
)
figure, axes = pyplot.subplots(figsize=(9, 4), layout="constrained")
for name in sorted({one["table"] for one in hours}):
    own = [one for one in hours if one["table"] == name]
    axes.plot([one["hour"] for one in own], [one["count"] for one in own], marker="o", label=name)
axes.set_ylabel("changes an hour")
axes.set_ylim(bottom=0)
axes.legend()
figure.autofmt_xdate()
figure.savefig(chart)
print(f"{sum(one['count'] for one in hours)} changes of {len({one['table'] for one in hours})} tables, see {chart}")
