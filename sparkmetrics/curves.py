"""One threshold table: ROC, PR, CAP, gain and lift are views of it. And which of its points are worth keeping."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, DoubleType, StructField, StructType

from sparkmetrics import batches, kernel
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

POINT = pa.struct(
    [
        *((name, pa.float64()) for name in ("threshold", "tp", "fp", "fn", "tn")),
        *((name, pa.bool_()) for name in ("kept", "best")),
    ]
)
"""A point as workers emit it: its threshold and counts, whether thinning keeps it, and whether |tpr - fpr| is largest
there in its range."""

SPARK_POINT = StructType(
    [StructField(field.name, BooleanType() if pa.types.is_boolean(field.type) else DoubleType()) for field in POINT]
)
"""The same for Spark."""

POINTS_TYPE = f"array<{SPARK_POINT.simpleString()}>"
"""Spark's name of the type of a list of points."""

POINT_COLUMNS = {"points": POINTS_TYPE, "number": "bigint", "gap": "double"}
"""What workers emit of the points of a range, at most CELL_SCORES to a row: from the highest score down, the number of
points of the range before them, and on the row with the best point its |tpr - fpr|."""


def points(steps: Steps, curve_points: int | None, strict: bool) -> Iterator[tuple[Integers, dict[str, pa.Array]]]:
    """Worker: the points of a range that a curve of `curve_points` may need, in batches of bounded size.

    Yields
    ------
    The position of the group each row belongs to, and the columns of POINT_COLUMNS.
    """
    kept = np.ones(len(steps.score), dtype=bool) if curve_points is None else _worth_keeping(steps, curve_points)
    gap = rate_gap(steps.cells)
    best = np.zeros(len(gap), dtype=bool)
    best[kernel.last_maximum(kernel.without_nan(gap, -1.0), steps.starts)] = True
    chosen = np.flatnonzero(kept | best)[::-1]
    group = np.repeat(np.arange(len(steps.starts)), steps.lengths)[chosen]
    starts = kernel.segment_starts(group)
    owner, number, sizes = batches.cell_pieces(kernel.segment_lengths(starts, len(chosen)))
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    fields = {"threshold": steps.thresholds(strict), **vars(steps.cells), "kept": kept, "best": best}
    for begin, end in batches.batch_slices(sizes):
        mine = chosen[offsets[begin] : offsets[end]]
        values = pa.StructArray.from_arrays([pa.array(fields[f.name][mine]) for f in POINT], fields=list(POINT))
        lists = pa.ListArray.from_arrays(pa.array(offsets[begin : end + 1] - offsets[begin], pa.int32()), values)
        gaps = np.full(end - begin, np.nan)
        at = np.flatnonzero(best[mine])
        gaps[np.searchsorted(offsets[begin : end + 1] - offsets[begin], at, side="right") - 1] = gap[mine[at]]
        columns = {"points": lists, "number": pa.array(number[begin:end]), "gap": pa.array(gaps, mask=np.isnan(gaps))}
        yield group[starts[owner[begin:end]]], columns


def _worth_keeping(steps: Steps, curve_points: int) -> Booleans:
    """Points whose cell of the ROC square, or whose 16th of a doubling of tp + fp, is not that of the point above.

    So every exact ROC point is within 1 / curve_points of the kept polyline. Both ends are kept. The rule reads nothing
    but counts and totals, so partitions do not change it.
    """
    cells, offsets, totals = steps.cells, steps.offsets, steps.totals
    ends = steps.ends - 1

    def moves(of_points: Floats, of_point_above: Floats) -> Booleans:
        """Whether a point's cell is another than that of the point above, which for the top lies in another range."""
        above = np.roll(of_points, -1)
        above[ends] = of_point_above
        moved: Booleans = of_points != above
        return moved

    kept = moves(
        _cell(cells.fp, totals.negatives, curve_points),
        _cell(offsets.negatives_above, offsets.all_negatives, curve_points),
    )
    kept |= moves(
        _cell(cells.tp, totals.positives, curve_points),
        _cell(offsets.positives_above, offsets.all_positives, curve_points),
    )
    kept |= moves(_doubling(cells.predicted_positives), _doubling(offsets.positives_above + offsets.negatives_above))
    kept |= cells.predicted_negatives == 0
    return kept


def _cell(count: Floats, total: Floats, curve_points: int) -> Floats:
    cells: Floats = np.floor(kernel.without_nan(ratio(curve_points * count, total)))
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
    numbered = _numbered_by_ranges(found, groups, keys) if curve_points is None else _numbered(found, keys)
    first = F.get("points", F.lit(0))
    nothing = {
        "threshold": F.lit(float("inf")),
        **dict.fromkeys(("tp", "fp"), F.lit(0.0)),
        "fn": first["tp"] + first["fn"],
        "tn": first["fp"] + first["tn"],
        **dict.fromkeys(("kept", "best"), F.lit(False)),
    }
    sentinel = F.struct(*(nothing[field.name].alias(field.name) for field in POINT)).cast(SPARK_POINT)
    is_top = F.col("before") == 0
    points = F.when(is_top, F.concat(F.array(sentinel), F.col("points"))).otherwise(F.col("points"))
    start = F.when(is_top, F.lit(0)).otherwise(F.col("before") + 1)
    exploded = numbered.select(*group, start.alias("start"), F.posexplode(points).alias("place", "at"))
    table = exploded.select(*group, (F.col("start") + F.col("place")).cast("long").alias("point"), "at.*")
    cells = Cells(*(F.col(name) for name in CELLS))
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


def _numbered(found: DataFrame, keys: Keys) -> DataFrame:
    """The points that thinned curves need, with the number of points `before` each row: a window over a row a range.

    The best point of a range stays where it is the best of the curve; of equals that of the highest range.
    """
    group = Window.partitionBy(*group_columns(keys))
    best = F.max(F.when(F.col("gap").isNotNull(), F.struct("gap", "range"))).over(group)
    has_best = F.coalesce(F.struct("gap", "range") == best, F.lit(False))
    needed = found.withColumn("has_best", has_best).withColumn(
        "points", F.filter("points", lambda point: point["kept"] | (point["best"] & F.col("has_best")))
    )
    above = group.orderBy(F.desc("range"), "number").rowsBetween(Window.unboundedPreceding, -1)
    before = F.coalesce(F.sum(F.size("points")).over(above), F.lit(0))
    return needed.withColumn("before", before)


def _numbered_by_ranges(found: DataFrame, groups: DataFrame, keys: Keys) -> DataFrame:
    """All points, with the number of points `before` each row: those of the ranges above, and of its own."""
    group = group_columns(keys)
    above = Window.partitionBy(*group).orderBy(F.desc("range")).rowsBetween(Window.unboundedPreceding, -1)
    before = groups.select(*group, "range", F.coalesce(F.sum("scores").over(above), F.lit(0)).alias("scores_above"))
    joined = join_on(found, before, [*group, "range"])
    return joined.withColumn("before", F.col("number") + F.col("scores_above"))
