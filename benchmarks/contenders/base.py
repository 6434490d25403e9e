"""What a contender is, and what it gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.data_sets import DataSet

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RANKING = ("roc_auc", "average_precision", "ks")
PROBABILITY = ("brier", "log_loss")
METRICS = RANKING + PROBABILITY
"""What is compared."""

LEVELS = (["model", "segment"], ["model"])
"""Keys of segments and of totals."""

CORES = 2


@dataclass(frozen=True)
class Work:
    """What a contender is given.

    Attributes
    ----------
    data_set, folder : the predictions.
    session : the Spark session of contenders that have one.
    scratch : a folder for what does not fit in memory.
    """

    data_set: DataSet
    folder: Path
    session: Any = None
    scratch: Path | None = None

    @property
    def spark(self) -> SparkSession:
        return self.session  # type: ignore[no-any-return]  # None without Spark

    @property
    def paths(self) -> list[str]:
        return self.data_set.paths(self.folder)

    @property
    def columns(self) -> list[str]:
        """The columns of one row that are read beside the keys."""
        return ["label", "score", *([self.data_set.weight] if self.data_set.weight else [])]

    def frame(self, *keys: str) -> DataFrame:
        """The predictions as Spark reads them: these keys (none: all columns)."""
        found = self.spark.read.parquet(*self.paths)
        return found.select(*keys, *self.columns) if keys else found


@dataclass(frozen=True)
class Contender:
    """One way to evaluate.

    Attributes
    ----------
    name : unique.
    computes : what, in a few words.
    run : makes a table of `model, segment` (NULL in totals) with either a column a metric, or `metric` and `value`.
        Groups of one class have no rows, or no value.
    session : "classic", "connect", or None: it is no Spark.
    fits : data sets that it can evaluate.
    groups : (how many groups it evaluates, how many there are), where it evaluates a sample; its time is also scaled.
    prepare : what it needs beside the data, made in a process of its own and not timed.
    """

    name: str
    computes: str
    run: Callable[[Work], pa.Table]
    session: str | None = "classic"
    fits: Callable[[DataSet], bool] = lambda data_set: True
    groups: tuple[int, int] | None = None
    prepare: Callable[[Work], None] | None = None


def collected(frame: DataFrame) -> pa.Table:
    """All rows of a Spark frame, as Arrow where Spark can (4.0 and later)."""
    if hasattr(frame, "toArrow"):
        return frame.toArrow()
    return pa.Table.from_pandas(frame.toPandas(), preserve_index=False)


def stacked(levels: list[pa.Table]) -> pa.Table:
    """One table of segments and totals, which have no column `segment`."""
    totals = [
        level if "segment" in level.column_names else level.append_column("segment", pa.nulls(len(level), pa.string()))
        for level in levels
    ]
    columns = ["model", "segment", *RANKING]
    schema = pa.schema([(name, pa.float64() if name in RANKING else pa.string()) for name in columns])
    columns = [name for name in columns if name in totals[0].column_names]
    return pa.concat_tables(
        level.select(columns).cast(pa.schema([schema.field(name) for name in columns])) for level in totals
    )


def keyed(found: pa.Table) -> pa.Table:
    """`key` and `value` of every compared value that there is: model/segment/metric, segment None of totals."""
    if "metric" in found.column_names:
        found = found.filter(pc.is_in(found["metric"], pa.array(METRICS)))
        long = [(found, found["metric"].cast(pa.string()), found["value"])]
    else:
        metrics = [name for name in found.column_names if name in METRICS]
        long = [(found, pa.repeat(name, len(found)), found[name]) for name in metrics]
    parts = []
    for table, metric, value in long:
        model, segment = (table[name].cast(pa.string()) for name in ("model", "segment"))
        key = pc.binary_join_element_wise(model, pc.fill_null(segment, "None"), metric, "/")
        there = pa.table({"key": key, "value": value.cast(pa.float64())})
        parts.append(there.filter(pc.is_finite(pc.fill_null(there["value"], float("nan")))))
    return pa.concat_tables(parts).combine_chunks()
