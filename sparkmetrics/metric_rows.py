"""One row a group -> the long table of metrics. Formulas on arrays, in workers.

A Spark expression for every metric at every threshold would be far past what its compiler takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructField, StructType

from sparkmetrics import kernel, schemas
from sparkmetrics.columns import Keys
from sparkmetrics.levels import group_columns
from sparkmetrics.long_rows import Rows, bounded, missing
from sparkmetrics.metrics import ScoreMetric, ThresholdMetric
from sparkmetrics.metrics.counts import Cells, Totals
from sparkmetrics.metrics.intervals import quantile
from sparkmetrics.metrics.list_parts import CELLS, CellsAt
from sparkmetrics.metrics.parts import Extreme
from sparkmetrics.metrics.ranking import PLACEMENTS
from sparkmetrics.workers import map_partitions


@dataclass(frozen=True)
class MetricTask:
    """What rows to make. Plain data: it travels to the workers.

    Attributes
    ----------
    keys : the columns that tell groups apart.
    scores : metrics of all scores.
    thresholds : metrics of the cells.
    cells : the part that has the cells.
    z : normal quantile of intervals.
    """

    keys: tuple[str, ...]
    scores: tuple[ScoreMetric, ...]
    thresholds: tuple[ThresholdMetric, ...]
    cells: CellsAt
    z: float


def metric_table(
    groups: DataFrame,
    keys: Keys,
    scores: Iterable[ScoreMetric],
    thresholds: Iterable[ThresholdMetric],
    cells: CellsAt,
    confidence: float,
) -> DataFrame:
    """The long table of metrics: keys, `level` and the columns of `schemas.METRICS`.

    Parameters
    ----------
    groups : one row a group, from `groups.combine`, with the parts of the metrics and `cells`.
    keys : key columns.
    scores, thresholds : the metrics.
    cells : the thresholds of the latter.
    confidence : of intervals.
    """
    task = MetricTask(tuple(group_columns(keys)), tuple(scores), tuple(thresholds), cells, quantile(confidence))
    columns = [StructField(name, groups.schema[name].dataType) for name in task.keys]
    return map_partitions(groups, partial(metric_rows, task=task), StructType([*columns, *schemas.METRICS]))


def metric_rows(rows: Iterator[pa.RecordBatch], task: MetricTask) -> Iterator[pa.RecordBatch]:
    """Worker: rows of groups -> rows of metrics."""
    yield from bounded(table for batch in rows if batch.num_rows for table in _of_batch(batch, task))


def _of_batch(batch: pa.RecordBatch, task: MetricTask) -> Iterator[pa.Table]:
    common = {name: batch.column(name) for name in (*task.keys, "rows", "positives", "negatives")}
    common["class"] = pa.nulls(batch.num_rows, pa.string())
    counted = numbers(batch.column(task.cells.name))
    weight = numbers(batch.column("positives")) + numbers(batch.column("negatives"))
    rows = Rows(common, numbers(batch.column(PLACEMENTS.name))["whole"] & (weight < kernel.EXACT), task.z)
    yield from _of_scores(batch, rows, task)
    for place, threshold in enumerate(task.cells.thresholds):
        cells = Cells(*(counted[cell][:, place] for cell in CELLS))
        for metric in task.thresholds:
            yield rows.of_cells(metric, cells, threshold=threshold)


def _of_scores(batch: pa.RecordBatch, rows: Rows, task: MetricTask) -> Iterator[pa.Table]:
    totals = Totals(numbers(batch.column("positives")), numbers(batch.column("negatives")))
    outside = (numbers(batch.column("least_score")) < 0.0) | (numbers(batch.column("largest_score")) > 1.0)
    parts: dict[str, Any] = {}
    for metric in task.scores:
        for part in metric.parts:
            parts.setdefault(part.name, numbers(batch.column(part.name)))
        part_of_metric = parts[metric.part.name]
        further = metric.undefined(part_of_metric, totals)
        tests = [*missing(metric, totals), *((condition, text) for text, condition in further.items())]
        if metric.probability:
            tests.append((outside, "scores outside [0, 1]"))
        values = metric.value(part_of_metric, totals)
        bounds = threshold = None
        if metric.interval is not None:
            bounds = metric.interval.bounds(values, parts[metric.interval.part.name], totals, rows.z)
        if isinstance(metric.part, Extreme):
            threshold = np.where(np.isnan(values), np.nan, part_of_metric["threshold"])
        yield rows.of_values(metric.name, values, tests, bounds=bounds, threshold=threshold)


def numbers(array: pa.Array) -> Any:
    """A column as what formulas are written for: doubles with NaN for null, lists as a matrix, structs by name."""
    if pa.types.is_struct(array.type):
        return {field.name: numbers(array.field(field.name)) for field in array.type}
    if pa.types.is_list(array.type):
        values = array.flatten().to_numpy(zero_copy_only=False)
        return values.reshape(len(array), len(values) // max(len(array), 1))
    if pa.types.is_boolean(array.type):
        return array.to_numpy(zero_copy_only=False).astype(bool)
    return array.to_numpy(zero_copy_only=False)
