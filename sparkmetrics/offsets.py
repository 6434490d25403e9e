"""Offsets: for every range of every group, the weight in the ranges above and below it. A window over a tiny table.

They reach the evaluation tasks without moving a score: by broadcast, on the first row of each range. Where they are too
many for that, they and the scores are exchanged by slot once more, and arrive as rows of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, GroupedData, Window
from pyspark.sql import functions as F

from sparkmetrics import batches, packing
from sparkmetrics.columns import Keys
from sparkmetrics.levels import Level, at_levels, group_columns
from sparkmetrics.merging import Merged
from sparkmetrics.metrics.steps import Offsets
from sparkmetrics.ranges import Sizing

VALUES = tuple(field.name for field in fields(Offsets))
"""The columns of an offset, named like the arrays that workers make of them."""


def level_cells(merged: DataFrame, keys: Keys, levels: Sequence[Level], names: Sequence[object]) -> DataFrame:
    """The weight of every range of every group: `by..., level, segments..., range` and CELL_COLUMNS.

    `level` is what stands for it in `names`; segments that a level does not use are NULL.
    """
    cells = _summed(merged.groupBy(*keys.columns, "range"))
    leveled = at_levels(cells, keys, levels, names)
    return _summed(leveled.groupBy(*group_columns(keys), "range"))


CELL_COLUMNS = {
    "slot": F.max,
    "rows": F.sum,
    "positives": F.sum,
    "negatives": F.sum,
    "top": F.max,
    "bottom": F.min,
}
"""What is known of a range of a group, and how it adds up; `top` and `bottom` are the largest and the least score."""


def _summed(cells: GroupedData) -> DataFrame:
    return cells.agg(*(add(name).alias(name) for name, add in CELL_COLUMNS.items()))


def offsets(merged: DataFrame, keys: Keys, levels: Sequence[Level]) -> DataFrame:
    """Offsets of the groups that have more than one range: keys, `level` (its position), `range`, `slot`, `VALUES`."""
    group = Window.partitionBy(*group_columns(keys))
    # Frames that grow from their first row cost one pass; frames that shrink to their last cost a pass a row.
    above = group.orderBy(F.desc("range")).rowsBetween(Window.unboundedPreceding, -1)
    below = group.orderBy("range").rowsBetween(Window.unboundedPreceding, -1)
    values = {
        "positives_above": F.coalesce(F.sum("positives").over(above), F.lit(0.0)),
        "negatives_above": F.coalesce(F.sum("negatives").over(above), F.lit(0.0)),
        "positives_below": F.coalesce(F.sum("positives").over(below), F.lit(0.0)),
        "negatives_below": F.coalesce(F.sum("negatives").over(below), F.lit(0.0)),
        "all_positives": F.sum("positives").over(group),
        "all_negatives": F.sum("negatives").over(group),
        "score_below": F.coalesce(F.max("top").over(below), F.lit(float("-inf"))),
        "extent": F.max(F.greatest(F.abs("top"), F.abs("bottom"))).over(group),
    }
    cells = level_cells(merged.where("split"), keys, levels, range(len(levels)))
    ranked = cells.select(
        *keys.by_columns,
        "level",
        *keys.segment_columns,
        "range",
        "slot",
        F.count("*").over(group).alias("ranges"),
        *(values[name].alias(name) for name in VALUES),
    )
    return ranked.where("ranges > 1").drop("ranges")


def with_offsets(merged: Merged, keys: Keys, levels: Sequence[Level], sizing: Sizing) -> DataFrame:
    """The merged scores with the offsets they need, laid so that a task has both for whole (by, range).

    Returns
    -------
    The columns of the merged frame. When there is more than one range, also either `offsets` (an array on the first row
    of each range) or, as rows without scores, `level` and `VALUES`.
    """
    scores = merged.frame.select(*keys.columns, "range", "slot", "lead", "rows", packing.WIDTH, *packing.PACKED)
    if merged.plan.one_range:
        return scores
    table = offsets(merged.frame, keys, levels)
    if merged.plan.offset_rows * len(levels) > sizing.broadcast_offsets:
        rows = table.select("*", F.lit(False).alias("lead"))
        return scores.unionByName(rows, allowMissingColumns=True).repartition(merged.plan.partitions, "slot")
    offset = F.struct("level", *keys.segment_columns, *VALUES)
    of_range = table.groupBy(
        *(F.col(name).alias(f"of_{name}") for name in keys.by_columns), F.col("range").alias("of_range")
    ).agg(F.collect_list(offset).alias("offsets"))
    same = F.col("lead") & (F.col("range") == F.col("of_range"))
    for name in keys.by_columns:
        same = same & F.col(name).eqNullSafe(F.col(f"of_{name}"))
    # Only the first row of a range finds its offsets, so they are held once.
    return scores.join(F.broadcast(of_range), same, "left").select(*scores.columns, "offsets")


def take_offsets(table: pa.Table, by: list[str], segments: list[str]) -> tuple[pa.Table, pa.Table | None]:
    """Worker: separates what `with_offsets` laid together.

    Returns
    -------
    The rows that hold scores, and the offsets as a table `by..., range, level, segments..., VALUES`; None without any.
    """
    if "level" in table.column_names:
        is_offset = pc.is_valid(table.column("level"))
        return table.filter(pc.invert(is_offset)), table.filter(is_offset).combine_chunks()
    return table, unpacked(table, "offsets", by)


def unpacked(table: pa.Table, name: str, by: list[str]) -> pa.Table | None:
    """Worker: what lists of structs hold: `by..., range` of their row, and the fields; None without such a column."""
    if name not in table.column_names:
        return None
    lists = batches.column(table, name)
    owner = pc.list_parent_indices(lists)
    found = lists.flatten()
    columns = {key: batches.column(table, key).take(owner) for key in (*by, "range")}
    return pa.table(columns | {field.name: pc.struct_field(found, field.name) for field in found.type})


def offsets_of_groups(
    table: pa.Table | None, groups: np.ndarray[tuple[int], np.dtype[np.int64]], default: Offsets
) -> Offsets:
    """Worker: the offsets of each group of a level.

    Parameters
    ----------
    table : the rows of offsets of that level.
    groups : the group each row belongs to.
    default : the offsets of groups that have none: nothing outside the range.
    """
    if table is None or table.num_rows == 0:
        return default
    values = {}
    for name in VALUES:
        array = getattr(default, name).copy()
        array[groups] = batches.floats(table, name)
        values[name] = array
    return Offsets(**values)
