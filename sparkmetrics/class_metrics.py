"""Class counts of groups -> the long table of metrics of predicted classes. A worker, and its Spark side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from sparkmetrics import batches, kernel, schemas
from sparkmetrics.class_tables import Batch, Costs, class_tables
from sparkmetrics.columns import Keys
from sparkmetrics.levels import group_columns
from sparkmetrics.long_rows import Rows, bounded, missing
from sparkmetrics.metrics import classes
from sparkmetrics.metrics.classes import CLASS, CLASS_REASONS, ClassMetric
from sparkmetrics.metrics.counts import Cells
from sparkmetrics.metrics.registry import ThresholdMetric, reason
from sparkmetrics.workers import map_partitions


@dataclass(frozen=True)
class ClassTask:
    """What a worker is told.

    Attributes
    ----------
    keys : the columns that tell one group from another.
    metrics : two-class metrics by name: of each class against the rest, their averages, and of `positive`.
    classes : the classes to average over, in their order; None takes those that occur in each group.
    class_costs : {label: {predicted class: cost}}, or None.
    positive : the class that the metrics of a two-class evaluation are of, or None.
    z : half the width of an interval in standard errors.
    """

    keys: tuple[str, ...]
    metrics: Mapping[str, ThresholdMetric]
    classes: tuple[str, ...] | None
    class_costs: Costs | None
    positive: str | None
    z: float


def class_metric_table(
    leveled: DataFrame,
    keys: Keys,
    metrics: Mapping[str, ThresholdMetric],
    *,
    classes: Sequence[str] | None = None,
    class_costs: Costs | None = None,
    positive: str | None = None,
    z: float,
) -> DataFrame:
    """The long table of metrics of predicted classes.

    Parameters
    ----------
    leveled : what `class_counts.counts_at_levels` gives.
    keys : its key columns.
    metrics, classes, class_costs, positive, z : as in `ClassTask`.

    Returns
    -------
    Keys, `level` and the columns of `schemas.METRICS`: for each group the metrics of each class against the rest
    (`class` names it), their averages, and overall metrics; with `positive` also the metrics of that class without its
    name. `threshold` is NULL; `value` is NULL exactly when `reason` says why.
    """
    group = group_columns(keys)
    task = ClassTask(
        keys=tuple(group),
        metrics=dict(metrics),
        classes=None if classes is None else tuple(classes),
        class_costs=class_costs,
        positive=positive,
        z=z,
    )
    # Without a number of partitions Spark chooses it, and joins small ones.
    cells = leveled.repartition(*group)
    fields = [StructField(name, cells.schema[name].dataType) for name in group]
    schema = StructType([*fields, *schemas.METRICS])
    return map_partitions(cells, partial(class_metric_rows, task=task), schema)


def cells_of_class(leveled: DataFrame, keys: Keys, positive: str) -> DataFrame:
    """Confusion counts of a predicted class: keys, `level`, `rows`, `threshold` (NULL), `tp`, `fp`, `fn`, `tn`.

    Parameters
    ----------
    leveled : what `class_counts.counts_at_levels` gives.
    keys : its key columns.
    positive : the class; all others are negative.
    """
    is_label, is_prediction = F.col("label") == positive, F.col("prediction") == positive
    cells = {
        "tp": is_label & is_prediction,
        "fp": ~is_label & is_prediction,
        "fn": is_label & ~is_prediction,
        "tn": ~is_label & ~is_prediction,
    }
    sums = (F.sum(F.when(where, F.col("count")).otherwise(0.0)).alias(name) for name, where in cells.items())
    counted = leveled.groupBy(*group_columns(keys)).agg(F.sum("rows").alias("rows"), *sums)
    return counted.withColumn("threshold", F.lit(None).cast("double"))


def class_metric_rows(rows: Iterator[pa.RecordBatch], task: ClassTask) -> Iterator[pa.RecordBatch]:
    """Worker: the metrics of all groups of a partition, in record batches of bounded size."""
    table = batches.whole_table(rows)
    if table is None:
        return
    found = class_tables(table, task.keys, task.classes, task.class_costs)
    yield from bounded(piece for batch in found for piece in _metrics_of_batch(batch, table, task))


def _metrics_of_batch(batch: Batch, table: pa.Table, task: ClassTask) -> Iterator[pa.Table]:
    """The rows of all metrics of a batch of groups."""
    groups = _rows_of_groups(batch, table, task)
    of_classes = _rows_of_classes(batch, groups)
    empty = batch.table.weight == 0
    no_weight = (empty, reason("weight"))
    no_weight_of_class = (np.repeat(empty, batch.table.chosen), reason("weight"))
    chosen, summed = batch.table.chosen_cells, classes.micro_cells(batch.table)
    flat = Cells(*map(np.ravel, (chosen.tp, chosen.fp, chosen.fn, chosen.tn)))
    for metric in task.metrics.values():
        yield of_classes.of_cells(metric, flat, [no_weight_of_class])
        if metric.averaged:
            macro, micro = classes.macro(batch.table, metric.value), metric.value(summed)
            weighted = classes.weighted(batch.table, metric.value)
            unlabelled = (np.isnan(weighted), classes.NO_LABELS)
            yield groups.of_values(metric.name, macro, [no_weight], average="macro")
            yield groups.of_values(metric.name, micro, [no_weight, *missing(metric, summed)], average="micro")
            yield groups.of_values(metric.name, weighted, [no_weight, unlabelled], average="weighted")
    of_two = {}
    if task.positive is not None:
        # Costs of classes, where they are given, go before those of cells.
        priced = set() if task.class_costs is None else {classes.empirical_risk.__name__}
        of_two = {name: metric for name, metric in task.metrics.items() if name not in priced}
        cells = _cells_of_class(batch, task.positive)
        of_positive = replace(groups, common={**groups.common, **_weights(cells)})
        for metric in of_two.values():
            yield of_positive.of_cells(metric, cells, [no_weight])
    for overall in CLASS.values():
        costless = task.class_costs is None and "free_diagonal" in overall.needs
        if overall.name not in of_two and not costless:
            yield _of_class_metric(groups, overall, batch)


def _of_class_metric(groups: Rows, metric: ClassMetric, batch: Batch) -> pa.Table:
    values = metric.value(batch.table)
    tests = [(getattr(batch.table, need) == 0, CLASS_REASONS[need]) for need in metric.needs]
    tests.append((np.isnan(values), metric.otherwise))
    size = None if metric.proportion_of is None else getattr(batch.table, metric.proportion_of)
    return groups.of_values(metric.name, values, tests, average=metric.average, size=size)


def _rows_of_groups(batch: Batch, table: pa.Table, task: ClassTask) -> Rows:
    """One row a group, without class and without positives and negatives."""
    number, first = len(batch.rows), pa.array(batch.first)
    common = {name: batches.column(table, name).take(first) for name in task.keys}
    common |= {"class": pa.nulls(number, pa.string()), "rows": pa.array(batch.rows)}
    common |= {name: pa.nulls(number, pa.float64()) for name in ("positives", "negatives")}
    counts = batch.table.counts
    whole = np.all(counts == np.rint(counts), axis=(1, 2)) & (batch.table.weight < kernel.EXACT)
    return Rows(common, whole, task.z)


def _rows_of_classes(batch: Batch, groups: Rows) -> Rows:
    """One row for each class of each group that is averaged over."""
    chosen = batch.table.chosen
    group = np.repeat(np.arange(len(batch.rows)), chosen)
    common = {name: values.take(pa.array(group)) for name, values in groups.common.items()}
    common["class"] = batch.classes.take(pa.array(batch.names[:, :chosen].ravel()))
    return Rows(common | _weights(batch.table.chosen_cells), groups.whole[group], groups.z)


def _weights(cells: Cells) -> dict[str, pa.Array]:
    """The columns `positives` and `negatives` of cells."""
    return {name: pa.array(np.ravel(getattr(cells, name))) for name in ("positives", "negatives")}


def _cells_of_class(batch: Batch, name: str) -> Cells:
    """One class against the rest; where a group does not have it, all its weight is true negatives."""
    group, place = np.nonzero(batch.names == batch.classes.index(name).as_py())
    cells = batch.table.cells
    none = np.zeros(len(batch.rows))
    found = Cells(none.copy(), none.copy(), none.copy(), batch.table.weight.copy())
    for mine, of_all in ((found.tp, cells.tp), (found.fp, cells.fp), (found.fn, cells.fn), (found.tn, cells.tn)):
        mine[group] = of_all[group, place]
    return found
