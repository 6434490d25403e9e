"""One threshold table: ROC, PR, CAP, gain and lift are views of it. And which of its points are worth keeping."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from sparkmetrics import kernel
from sparkmetrics.columns import Keys
from sparkmetrics.joins import join_on
from sparkmetrics.kernel import Booleans, Floats, Integers
from sparkmetrics.levels import group_columns
from sparkmetrics.metrics import ThresholdMetric, binary
from sparkmetrics.metrics.arithmetic import ratio
from sparkmetrics.metrics.counts import Cells
from sparkmetrics.metrics.list_parts import CELLS
from sparkmetrics.metrics.ranking import rate_gap
from sparkmetrics.metrics.steps import Steps

POINTS_PER_DOUBLING = 16
"""Kept at least for every doubling of the predicted positives, so that PR and lift are right at the top."""

POINT_COLUMNS = {
    "score": "double",
    "threshold": "double",
    "tp": "double",
    "fp": "double",
    "fn": "double",
    "tn": "double",
    "number": "bigint",
    "kept": "boolean",
    "gap": "double",
}
"""What workers emit of a point: its score and threshold, counts, its number from the top of the range, whether thinning
keeps it, and |tpr - fpr| on the one point of the range where that is largest."""


def points(steps: Steps, curve_points: int | None, strict: bool) -> tuple[Integers, dict[str, pa.Array]]:
    """Worker: the points of a range that a curve of `curve_points` may need.

    Returns
    -------
    The position of the group each point belongs to, and the columns of POINT_COLUMNS.
    """
    kept = np.ones(len(steps.score), dtype=bool) if curve_points is None else _worth_keeping(steps, curve_points)
    gap = rate_gap(steps.cells)
    best = kernel.last_maximum(np.nan_to_num(gap, nan=-1.0), steps.starts)
    is_best = np.zeros(len(gap), dtype=bool)
    is_best[best] = True
    chosen = np.flatnonzero(kept | is_best)
    ends = np.repeat(steps.ends, steps.lengths)
    group = np.repeat(np.arange(len(steps.starts)), steps.lengths)
    cells = steps.cells
    columns = {
        "score": steps.score[chosen],
        "threshold": steps.thresholds(strict)[chosen],
        "tp": cells.tp[chosen],
        "fp": cells.fp[chosen],
        "fn": cells.fn[chosen],
        "tn": cells.tn[chosen],
        "number": (ends - np.arange(len(ends)))[chosen],
        "kept": kept[chosen],
    }
    arrays = {name: pa.array(values) for name, values in columns.items()}
    arrays["gap"] = pa.array(gap[chosen], mask=~is_best[chosen] | np.isnan(gap[chosen]))
    return group[chosen], arrays


def _worth_keeping(steps: Steps, curve_points: int) -> Booleans:
    """Points whose cell of the ROC square, or whose 16th of a doubling of tp + fp, is not that of the point above.

    So every exact ROC point is within 1 / curve_points of the kept polyline. Both ends are kept. The rule reads nothing
    but counts and totals, so partitions do not change it.
    """
    cells, above, totals = steps.cells, steps.above, steps.totals
    kept: Booleans = _cell(cells.fp, totals.negatives, curve_points) != _cell(
        above.negatives, totals.negatives, curve_points
    )
    kept |= _cell(cells.tp, totals.positives, curve_points) != _cell(above.positives, totals.positives, curve_points)
    kept |= _doubling(cells.predicted_positives) != _doubling(above.weight)
    kept |= cells.predicted_negatives == 0
    return kept


def _cell(count: Floats, total: Floats, curve_points: int) -> Floats:
    cells: Floats = np.floor(np.nan_to_num(ratio(curve_points * count, total)))
    return cells


def _doubling(weight: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        doublings: Floats = np.floor(POINTS_PER_DOUBLING * np.log2(weight))
    return doublings


def curve_table(
    found: DataFrame,
    groups: DataFrame,
    keys: Keys,
    curve_points: int | None,
    metrics: Iterable[ThresholdMetric] = (),
) -> DataFrame:
    """Points of all ranges -> numbered curves, with the point of nothing predicted in front.

    Parameters
    ----------
    found : points that workers emitted: keys, `level`, `range`, POINT_COLUMNS.
    groups : contributions of each (group, range), for the number of scores above each range when none are left out.
    keys : key columns.
    curve_points : as the points were thinned; None numbers them without a window over a whole curve.
    metrics : further columns, of the cells of each point.

    Returns
    -------
    Keys, `level`, `point`, `threshold`, cells, `tpr`, `fpr`, `precision`, `predicted_positive_rate`, `lift`, metrics.
    """
    group = group_columns(keys)
    cells = Cells(*(F.col(name) for name in CELLS))
    if curve_points is None:
        numbered = _numbered_by_ranges(found, groups, keys)
    else:
        # At most about 2 curve_points + 16 per doubling rows of a group: a window over them is small.
        best = F.max(F.when(F.col("gap").isNotNull(), F.struct("gap", "score"))).over(Window.partitionBy(*group))
        of_range = F.struct("gap", "score")
        needed = found.withColumn("is_ks", F.coalesce(of_range == best, F.lit(False))).where("kept or is_ks")
        order = Window.partitionBy(*group).orderBy(F.desc("score"))
        numbered = needed.withColumn("point", F.row_number().over(order).cast("long"))
    point = F.struct("point", "threshold", *CELLS)
    nothing = (F.lit(0).cast("long"), F.lit(float("inf")), F.lit(0.0), F.lit(0.0), cells.positives, cells.negatives)
    sentinel = F.struct(*(c.alias(n) for c, n in zip(nothing, ("point", "threshold", *CELLS), strict=True)))
    rows = F.when(F.col("point") == 1, F.array(sentinel, point)).otherwise(F.array(point))
    table = numbered.select(*group, F.inline(rows))
    columns = rates(cells) | {metric.name: metric.value(cells) for metric in metrics}
    return table.select("*", *(column.alias(name) for name, column in columns.items()))


def rates(cells: Cells) -> dict[str, Column]:
    """The rates that stand beside the counts of a point; NULL where undefined."""
    precision = binary.precision(cells)
    return {
        "tpr": binary.recall(cells),
        "fpr": binary.fpr(cells),
        "precision": precision,
        "predicted_positive_rate": binary.predicted_positive_rate(cells),
        "lift": ratio(precision, binary.prevalence(cells)),
    }


def _numbered_by_ranges(found: DataFrame, groups: DataFrame, keys: Keys) -> DataFrame:
    """Every distinct score numbered from the top: its number in its range, plus the scores of the ranges above."""
    group = group_columns(keys)
    above = Window.partitionBy(*group).orderBy(F.desc("range")).rowsBetween(Window.unboundedPreceding, -1)
    before = groups.select(*group, "range", F.coalesce(F.sum("scores").over(above), F.lit(0)).alias("scores_above"))
    joined = join_on(found, before, [*group, "range"])
    return joined.withColumn("point", F.col("number") + F.col("scores_above"))
