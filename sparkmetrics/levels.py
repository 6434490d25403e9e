"""Levels: subsets of the segment columns that rows are pooled by."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sparkmetrics.columns import Keys

Level = tuple[int, ...]
"""A level as the positions of its segment columns; the empty one is the total."""


def at_levels(frame: DataFrame, keys: Keys, levels: Sequence[Level], names: Sequence[object]) -> DataFrame:
    """Every row once for each level: `by..., level, segments...` and the other columns, to be summed by the first.

    Parameters
    ----------
    frame : internal key columns and others.
    levels : segment positions of each level; segments that a level does not use become NULL.
    names : what stands for each level in the column `level`.
    """
    leveled = frame.withColumn("level", F.explode(F.array(*map(F.lit, names))))
    segments = []
    for position, column in enumerate(keys.segment_columns):
        using = [name for name, level in zip(names, levels, strict=True) if position in level]
        segments.append(F.when(F.col("level").isin(using), F.col(column)).alias(column))
    others = [name for name in frame.columns if name not in keys.columns]
    return leveled.select(*keys.by_columns, "level", *segments, *others)
