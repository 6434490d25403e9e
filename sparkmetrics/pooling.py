"""Which segments of a level its pair matrix names: the largest. The rest are pooled as one, so that it still adds up.

The table of the largest is empty unless a level has more segments than its matrix may name; it goes to every range.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from sparkmetrics import batches, kernel
from sparkmetrics.columns import Keys
from sparkmetrics.joins import join_on
from sparkmetrics.kernel import Booleans, Floats, Integers
from sparkmetrics.levels import Level, at_levels
from sparkmetrics.metrics.arithmetic import ratio

DOMINANT = 0.49
"""A segment with a larger share of the positives or of the negatives is named whatever its rows. (Half, less what sums
of weights in another order may differ by.)"""

WEIGHTS = ("rows", "positives", "negatives")


def largest_segments(
    merged: DataFrame, keys: Keys, levels: Sequence[Level], names: Sequence[str], most: int, *, dominant_first: bool
) -> DataFrame:
    """The segments to name at each level of more than `most` segments: `by..., level, segments...`.

    They are those with the most rows; of equals those whose values come first.

    Parameters
    ----------
    merged : the merged score counts.
    keys : key columns.
    levels, names : segment positions of each level, and its name.
    most : how many to name.
    dominant_first : whether segments that hold about half of the positives or negatives come before all others.
    """
    level = [*keys.by_columns, "level"]
    sums = [F.sum(name).alias(name) for name in WEIGHTS]
    cells = merged.groupBy(*keys.columns).agg(*sums)
    sizes = at_levels(cells, keys, levels, names).groupBy(*level, *keys.segment_columns).agg(*sums)
    order: list[Column | str] = [F.desc("rows"), *keys.segment_columns]
    if dominant_first:
        classes = WEIGHTS[1:]
        totals = sizes.groupBy(*level).agg(*(F.sum(name).alias(f"all_{name}") for name in classes))
        sizes = join_on(sizes, totals, level)
        share = F.greatest(*(ratio(F.col(name), F.col(f"all_{name}")) for name in classes))
        sizes = sizes.withColumn("dominance", F.when(share > DOMINANT, share))
        order.insert(0, F.desc("dominance"))
    # Spark keeps the first rows of each window before it exchanges them, so no task gets all segments of a level.
    group = Window.partitionBy(*level)
    first = sizes.withColumn("place", F.row_number().over(group.orderBy(*order))).where(F.col("place") <= most + 1)
    crowded = first.withColumn("size", F.max("place").over(group)).where(
        (F.col("size") > most) & (F.col("place") <= most)
    )
    return crowded.select(*level, *keys.segment_columns)


def with_largest(scores: DataFrame, largest: DataFrame, keys: Keys) -> DataFrame:
    """The scores with, on the first row of each range, a list `largest`: what `largest_segments` gives of its tuple.

    The lists are broadcast: they have a few hundred rows where the pair matrix has tens of thousands.
    """
    # True, and nothing that Spark can know to be: a join needs a key.
    lists = largest.groupBy(*keys.by_columns, (F.length("level") > 0).alias("lead")).agg(
        F.collect_list(F.struct("level", *keys.segment_columns)).alias("largest")
    )
    return join_on(scores, F.broadcast(lists), ["lead", *keys.by_columns], "left")


def pooled_cells(cells: DataFrame, largest: DataFrame, keys: Keys) -> DataFrame:
    """The weights of every range of every segment of a pair matrix: those that it does not name are `pooled`.

    Parameters
    ----------
    cells : what `offsets.level_cells` gives.
    largest : what `largest_segments` gives of the same levels.

    Returns
    -------
    `by..., level, segments..., range, pooled, rows, positives, negatives`; segments are NULL where pooled.
    """
    level = [*keys.by_columns, "level"]
    crowded = largest.select(*level).distinct().withColumn("crowded", F.lit(True))
    named = largest.withColumn("named", F.lit(True))
    marked = join_on(join_on(cells, crowded, level, "left"), named, [*level, *keys.segment_columns], "left")
    pooled = F.col("crowded").isNotNull() & F.col("named").isNull()
    segments = [F.when(~pooled, F.col(name)).alias(name) for name in keys.segment_columns]
    return (
        marked.select(*level, *segments, "range", pooled.alias("pooled"), *WEIGHTS)
        .groupBy(*level, *keys.segment_columns, "range", "pooled")
        .agg(*(F.sum(name).alias(name) for name in WEIGHTS))
    )


def named_groups(table: pa.Table, first: Integers, largest: pa.Table, by: list[str], segments: list[str]) -> Booleans:
    """Worker: whether the pair matrix names each group of a level.

    Parameters
    ----------
    table : the rows of scores.
    first : a row of the table that has each group's keys.
    largest : the segments to name at this level: `by..., range, segments...`.
    segments : the segment columns of the level.
    """
    size, rows = len(first), pa.array(first)

    def both(name: str) -> pa.Array:
        return pa.concat_arrays([batches.column(table, name).take(rows), batches.column(largest, name)])

    units = batches.key_codes([both(name) for name in (*by, "range")], size + largest.num_rows)
    codes = batches.key_codes([both(name) for name in segments], size + largest.num_rows, within=units)
    crowded, named = (np.isin(code.row[:size], code.row[size:]) for code in (units, codes))
    return ~crowded | named


def pooled_scores(
    score: Floats, positive: Floats, negative: Floats, starts: Integers, unit: Integers, named: Booleans
) -> tuple[Floats, Floats, Floats, Integers, Integers]:
    """Worker: the scores of segments, those that are not named joined to one of each unit, behind the named ones.

    Parameters
    ----------
    score, positive, negative, starts : as in `Steps`.
    unit : the (by, range) of each segment; those of one stand together.
    named : of each segment.

    Returns
    -------
    score, positive, negative, starts : of the named and the pooled segments.
    member : of each of these, a segment that is part of it.
    """
    groups = np.arange(len(starts))
    place = np.where(named, groups, len(starts))
    _, member, into = np.unique(unit * (len(starts) + 1) + place, return_index=True, return_inverse=True)
    owner = into[np.repeat(groups, kernel.segment_lengths(starts, len(score)))]
    order = kernel.sort_by_group(owner, np.argsort(score))
    owner, score, (positive, negative), _ = kernel.collapse(
        owner[order], score[order], positive[order], negative[order]
    )
    return score, positive, negative, kernel.segment_starts(owner), member


def largest_at(table: pa.Table | None, level: str) -> pa.Table | None:
    """Worker: the rows of one level, or None where it names all of its segments."""
    here = None if table is None else table.filter(pc.equal(table.column("level"), level))
    return here if here is not None and here.num_rows else None
