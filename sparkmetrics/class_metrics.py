"""Class counts of groups -> the long table of metrics of predicted classes. A worker, and its Spark side."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import DoubleType, StringType, StructField, StructType

from sparkmetrics import batches, kernel
from sparkmetrics.class_tables import Batch, Costs, class_tables
from sparkmetrics.columns import Keys
from sparkmetrics.kernel import Booleans, Floats, Integers
from sparkmetrics.metrics import classes, intervals
from sparkmetrics.metrics.classes import CLASS, CLASS_REASONS, ClassMetric
from sparkmetrics.metrics.counts import Cells
from sparkmetrics.metrics.registry import ThresholdMetric, reason
from sparkmetrics.workers import map_partitions

MAX_CLASSES = 2_000
"""Most classes that can be evaluated: a group of so many has 4,000,000 cells."""

Tests = Iterable[tuple[Booleans, str]]
"""Where a value is undefined, and why; the first that holds is the reason."""


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
    leveled : what `class_counts.at_levels` gives.
    keys : its key columns.
    metrics, classes, class_costs, positive, z : as in `ClassTask`.

    Returns
    -------
    Keys, `level`, `metric`, `average`, `class`, `value`, `lower`, `upper`, `reason`, `rows`, `positives`, `negatives`:
    for each group the metrics of each class against the rest (`class` names it), their averages, and overall metrics;
    with `positive` also the metrics of that class without its name. `value` is NULL exactly when `reason` says why.
    """
    group = [*keys.by_columns, "level", *keys.segment_columns]
    task = ClassTask(
        keys=tuple(group),
        metrics=dict(metrics),
        classes=None if classes is None else tuple(classes),
        class_costs=class_costs,
        positive=positive,
        z=z,
    )
    # Without a number of partitions Spark chooses it, and joins small ones.
    return map_partitions(leveled.repartition(*group), partial(class_metric_rows, task=task), _schema(keys))


def _schema(keys: Keys) -> StructType:
    kinds = dict(zip(keys.columns, keys.types, strict=True)) | {"level": StringType()}
    group = [StructField(name, kinds[name]) for name in (*keys.by_columns, "level", *keys.segment_columns)]
    texts, numbers = ("metric", "average", "class", "reason"), ("value", "lower", "upper", *WEIGHTS)
    return StructType(
        [
            *group,
            *(StructField(name, StringType()) for name in texts),
            *(StructField(name, DoubleType()) for name in numbers),
        ]
    )


WEIGHTS = ("rows", "positives", "negatives")


def class_metric_rows(rows: Iterator[pa.RecordBatch], task: ClassTask) -> Iterator[pa.RecordBatch]:
    """Worker: the metrics of all groups of a partition, in record batches of bounded size."""
    table = batches.whole_table(rows)
    if table is None:
        return
    found = class_tables(table, task.keys, task.classes, task.class_costs)
    yield from _bounded(piece for batch in found for piece in _metrics_of_batch(batch, table, task))


def _bounded(tables: Iterable[pa.Table]) -> Iterator[pa.RecordBatch]:
    """Tables of any size as record batches of about `BATCH_ROWS` rows."""
    waiting: list[pa.Table] = []
    for table in tables:
        waiting.append(table)
        if sum(part.num_rows for part in waiting) >= batches.BATCH_ROWS:
            yield from _joined(waiting)
            waiting = []
    if waiting:
        yield from _joined(waiting)


def _joined(tables: list[pa.Table]) -> list[pa.RecordBatch]:
    joined: list[pa.RecordBatch] = pa.concat_tables(tables).combine_chunks().to_batches(batches.BATCH_ROWS)
    return joined


def _metrics_of_batch(batch: Batch, table: pa.Table, task: ClassTask) -> Iterator[pa.Table]:
    """The rows of all metrics of a batch of groups."""
    of_groups = _Rows.of_groups(batch, table, task)
    of_classes = _Rows.of_classes(batch, table, task)
    chosen, summed = batch.table.chosen_cells, classes.micro_cells(batch.table)
    for metric in task.metrics.values():
        yield of_classes.of_threshold_metric(metric, chosen)
        if metric.averaged:
            macro = classes.macro(batch.table, metric.value)
            yield of_groups.of_values(metric.name, macro, (), average="macro")
            micro = metric.value(summed)
            yield of_groups.of_values(metric.name, micro, _undefined(metric, summed, micro), average="micro")
            weighted = classes.weighted(batch.table, metric.value)
            yield of_groups.of_values(
                metric.name, weighted, [(np.isnan(weighted), classes.NO_LABELS)], average="weighted"
            )
    if task.positive is not None:
        cells = _cells_of_class(batch, task.positive)
        of_positive = of_groups.with_cells(cells)
        for metric in task.metrics.values():
            yield of_positive.of_threshold_metric(metric, cells)
    for overall in CLASS.values():
        repeated = task.positive is not None and overall.name in task.metrics
        costless = task.class_costs is None and "free_diagonal" in overall.needs
        if not repeated and not costless:
            yield _of_class_metric(of_groups, overall, batch)


def _of_class_metric(rows: _Rows, metric: ClassMetric, batch: Batch) -> pa.Table:
    values = metric.value(batch.table)
    tests = [(getattr(batch.table, need) == 0, CLASS_REASONS[need]) for need in metric.needs]
    tests.append((np.isnan(values), metric.otherwise))
    size = None if metric.proportion_of is None else getattr(batch.table, metric.proportion_of)
    return rows.of_values(metric.name, values, tests, average=metric.average, size=size)


def _undefined(metric: ThresholdMetric, cells: Cells, values: Floats) -> Tests:
    tests = [(getattr(cells, need) == 0, reason(need)) for need in metric.needs]
    return [*tests, (np.isnan(values), "denominator is 0")]


def _cells_of_class(batch: Batch, name: str) -> Cells:
    """One class against the rest; where a group does not have it, all its weight is true negatives."""
    position = batch.classes.index(name).as_py()
    group, place = np.nonzero(batch.names == position)
    cells = batch.table.cells
    none = np.zeros(len(batch.rows))
    found = Cells(none.copy(), none.copy(), none.copy(), batch.table.weight.copy())
    for mine, of_all in ((found.tp, cells.tp), (found.fp, cells.fp), (found.fn, cells.fn), (found.tn, cells.tn)):
        mine[group] = of_all[group, place]
    return found


@dataclass(frozen=True)
class _Rows:
    """Rows of one kind of a batch: what all its metrics have in common.

    Attributes
    ----------
    common : the columns that do not depend on the metric.
    empty : array of bool: whether a row's group has no weight.
    whole : array of bool: whether all counts of a row's group are whole numbers.
    z : half the width of an interval in standard errors.
    """

    common: Mapping[str, pa.Array]
    empty: Booleans
    whole: Booleans
    z: float

    @classmethod
    def _of(cls, batch: Batch, table: pa.Table, task: ClassTask, group: Integers) -> _Rows:
        """Rows that belong to these groups of a batch."""
        first = pa.array(batch.first[group])
        common = {name: batches.column(table, name).take(first) for name in task.keys}
        common |= {"class": pa.nulls(len(group), pa.string()), "rows": pa.array(batch.rows[group])}
        common |= {name: pa.nulls(len(group), pa.float64()) for name in ("positives", "negatives")}
        counts = batch.table.counts
        whole = (counts == np.rint(counts)).all(axis=(1, 2)) & (batch.table.weight < kernel.EXACT)
        return cls(common, (batch.table.weight == 0)[group], whole[group], task.z)

    @classmethod
    def of_groups(cls, batch: Batch, table: pa.Table, task: ClassTask) -> _Rows:
        """One row a group."""
        return cls._of(batch, table, task, np.arange(len(batch.rows)))

    @classmethod
    def of_classes(cls, batch: Batch, table: pa.Table, task: ClassTask) -> _Rows:
        """One row for each class of each group that is averaged over."""
        chosen = batch.table.chosen
        rows = cls._of(batch, table, task, np.repeat(np.arange(len(batch.rows)), chosen))
        names = batch.classes.take(pa.array(batch.names[:, :chosen].ravel()))
        return rows.with_cells(batch.table.chosen_cells, {"class": names})

    def with_cells(self, cells: Cells, columns: Mapping[str, pa.Array] | None = None) -> _Rows:
        """These rows with the weight of the positives and negatives, and with other columns."""
        weights = {name: pa.array(getattr(cells, name).ravel()) for name in ("positives", "negatives")}
        return _Rows({**self.common, **weights, **(columns or {})}, self.empty, self.whole, self.z)

    def of_threshold_metric(self, metric: ThresholdMetric, cells: Cells) -> pa.Table:
        """The rows of a two-class metric of these cells."""
        values = metric.value(cells)
        size = None if metric.proportion_of is None else getattr(cells, metric.proportion_of)
        return self.of_values(metric.name, values, _undefined(metric, cells, values), size=size)

    def of_values(
        self, name: str, values: Floats, tests: Tests, average: str | None = None, size: Floats | None = None
    ) -> pa.Table:
        """The rows of a metric.

        Parameters
        ----------
        name : of the metric.
        values : array of float64, one value a row.
        tests : where it is undefined.
        average : what stands in the column of that name.
        size : the number of rows that the value is a share of, which gives it an interval.
        """
        values, number = values.ravel(), len(self.empty)
        texts: list[str] = []
        code = np.full(number, -1)
        for where, text in [(self.empty, "no weight"), *tests]:
            code[(code < 0) & np.ravel(where)] = len(texts)
            texts.append(text)
        defined = code < 0
        lower = upper = pa.nulls(number, pa.float64())
        if size is not None:
            outside = ~(defined & self.whole)
            share, n = (np.where(outside, 1.0, array) for array in (values, size.ravel()))
            lower, upper = (pa.array(bound, mask=outside) for bound in intervals.wilson(share, n, self.z))
        return pa.table(
            {
                **self.common,
                "metric": pa.repeat(pa.scalar(name, pa.string()), number),
                "average": pa.repeat(pa.scalar(average, pa.string()), number),
                "reason": pa.array(texts, pa.string()).take(pa.array(code, mask=defined)),
                "value": pa.array(values, mask=~defined),
                "lower": lower,
                "upper": upper,
            }
        )
