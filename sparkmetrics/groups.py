"""Contributions of ranges -> one row a group -> the long table of metrics. Plain Spark arithmetic on small tables."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from sparkmetrics.columns import Keys
from sparkmetrics.metrics import SCORE, THRESHOLD, Metric, ScoreMetric, parts, reason
from sparkmetrics.metrics.counts import Cells, Totals
from sparkmetrics.metrics.parts import Largest

CELLS = ("tp", "fp", "fn", "tn")


def group_columns(keys: Keys) -> list[str]:
    """The columns that tell one group from another."""
    return [*keys.by_columns, "level", *keys.segment_columns]


def combine(found: DataFrame, keys: Keys, thresholds: Sequence[float], weighted: bool) -> DataFrame:
    """Contributions of each (group, range) -> one row a group.

    Parameters
    ----------
    found : rows of kind GROUPS that workers emitted.
    thresholds : where they counted.
    weighted : whether predictions carried weights, so that sums are rounded.

    Returns
    -------
    Keys, `level`, `rows`, `positives`, `negatives`, `least_score`, `largest_score`, a column for each part, and the
    arrays `tp`, `fp`, `fn`, `tn` with one element a threshold.
    """
    return found.groupBy(*group_columns(keys)).agg(
        _total("rows").alias("rows"),
        *(_checked(name, weighted).alias(name) for name in ("positives", "negatives")),
        F.min("least_score").alias("least_score"),
        F.max("largest_score").alias("largest_score"),
        *(part.combine() for part in parts().values()),
        *(
            F.array(*(_total(F.get(f"{name}_at", F.lit(k))) for k in range(len(thresholds)))).alias(name)
            for name in CELLS
        ),
    )


def _total(column: str | Column) -> Column:
    """A sum that is 0 for a group whose weights are all 0."""
    return F.coalesce(F.sum(column), F.lit(0.0))


def _checked(name: str, weighted: bool) -> Column:
    """A total, which must be the one that its ranges were told: else scores went to the wrong place."""
    total, told = _total(name), F.coalesce(F.max(f"all_{name}"), F.lit(0.0))
    slack = 1e-9 if weighted else 0.0
    message = F.concat(
        F.lit(f"sparkmetrics: the {name} of a group add up to "),
        total.cast("string"),
        F.lit(" over its ranges, and its offsets say "),
        told.cast("string"),
        F.lit(". Its score counts changed while they were read; run again."),
    )
    return F.when(F.abs(total - told) > slack * told, F.raise_error(message).cast("double")).otherwise(total)


def cells_at_thresholds(groups: DataFrame, keys: Keys, thresholds: Sequence[float]) -> DataFrame:
    """One row for each group and threshold: keys, `level`, `rows`, `positives`, `negatives`, `threshold`, cells."""
    rows = [
        F.struct(F.lit(value).alias("threshold"), *(F.get(name, F.lit(k)).alias(name) for name in CELLS))
        for k, value in enumerate(thresholds)
    ]
    if not rows:
        rows = [F.struct(*(F.lit(0.0).alias(name) for name in ("threshold", *CELLS)))]
        groups = groups.where(F.lit(False))
    return groups.select(*group_columns(keys), "rows", "positives", "negatives", F.inline(F.array(*rows)))


def metric_table(groups: DataFrame, keys: Keys, thresholds: Sequence[float]) -> DataFrame:
    """The long table of metrics: one row for each metric of each group (and threshold).

    `value` is NULL exactly when `reason` says why.
    """
    cells = Cells(*(F.col(name) for name in CELLS))
    at_thresholds = [
        _row(metric, F.col("threshold"), _reason(metric, cells), metric.value(cells)) for metric in THRESHOLD.values()
    ]
    totals = Totals(F.col("positives"), F.col("negatives"))
    of_scores = [
        _row(metric, _threshold(metric), _score_reason(metric, totals), metric.value(F.col(metric.part.name), totals))
        for metric in SCORE.values()
    ]
    kept = [*group_columns(keys), "rows", "positives", "negatives"]
    tables = (
        frame.select(*kept, F.inline(F.array(*rows)))
        for frame, rows in ((groups, of_scores), (cells_at_thresholds(groups, keys, thresholds), at_thresholds))
    )
    first, second = tables
    return first.unionByName(second)


def _row(metric: Metric, threshold: Column, why: Column, value: Column) -> Column:
    """One row of the table `metrics`, whose value is NULL exactly when there is a reason."""
    nothing = F.lit(None)
    return F.struct(
        F.lit(metric.name).alias("metric"),
        nothing.cast("string").alias("average"),
        nothing.cast("string").alias("class"),
        threshold.alias("threshold"),
        F.when(why.isNull(), value).alias("value"),
        nothing.cast("double").alias("lower"),
        nothing.cast("double").alias("upper"),
        why.alias("reason"),
    )


def _reason(metric: Metric, counts: Cells | Totals) -> Column:
    """Why a metric is undefined for these counts, or NULL."""
    return F.coalesce(*(F.when(getattr(counts, need) == 0, F.lit(reason(need))) for need in metric.needs))


def _score_reason(metric: ScoreMetric, totals: Totals) -> Column:
    why = _reason(metric, totals)
    if {"positives", "negatives"} <= set(metric.needs):
        vanished = totals.positives * totals.negatives < 1e-290
        why = F.coalesce(why, F.when(vanished, F.lit("weights too small to multiply")))
    if not metric.probability:
        return why
    outside = (F.col("least_score") < 0) | (F.col("largest_score") > 1)
    return F.coalesce(why, F.when(outside, F.lit("scores outside [0, 1]")))


def _threshold(metric: ScoreMetric) -> Column:
    """The threshold where the metric is reached, for those that are reached at one."""
    if isinstance(metric.part, Largest):
        return F.col(metric.part.name)["threshold"]
    return F.lit(None).cast("double")
