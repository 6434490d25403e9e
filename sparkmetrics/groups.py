"""Contributions of ranges -> one row a group, and its confusion counts. Plain Spark arithmetic on small tables."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from sparkmetrics.columns import Keys
from sparkmetrics.levels import group_columns
from sparkmetrics.metrics.list_parts import CELLS, CellsAt
from sparkmetrics.metrics.parts import Part


def combine(found: DataFrame, keys: Keys, parts: Iterable[Part], weighted: bool) -> DataFrame:
    """Contributions of each (group, range) -> one row a group.

    Parameters
    ----------
    found : rows of kind GROUPS that workers emitted.
    parts : what they contributed.
    weighted : whether predictions carried weights, so that sums are rounded.

    Returns
    -------
    Keys, `level`, `rows`, `positives`, `negatives`, `least_score`, `largest_score`, and a column for each part.
    """
    return found.groupBy(*group_columns(keys)).agg(
        _total("rows").alias("rows"),
        *(_checked(name, weighted).alias(name) for name in ("positives", "negatives")),
        F.min("least_score").alias("least_score"),
        F.max("largest_score").alias("largest_score"),
        *(part.combine() for part in parts),
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


def cells_at_thresholds(groups: DataFrame, keys: Keys, cells: CellsAt) -> DataFrame:
    """One row for each group and threshold: keys, `level`, `rows`, `positives`, `negatives`, `threshold`, cells."""
    if not cells.thresholds:
        groups, cells = groups.where(F.lit(False)), CellsAt(cells.name, (0.0,))
    places = F.explode(F.sequence(F.lit(0), F.lit(len(cells.thresholds) - 1)))
    at = groups.select("*", places.alias("place"))
    place, found = F.col("place"), F.col(cells.name)
    return at.select(
        *group_columns(keys),
        "rows",
        "positives",
        "negatives",
        F.get(F.array(*map(F.lit, cells.thresholds)), place).alias("threshold"),
        *(F.get(found[name], place).alias(name) for name in CELLS),
    )
