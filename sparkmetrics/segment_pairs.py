"""The pair matrix: whose positives beat whose negatives. The wins of all pairs of segments are the total's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, DecimalType, DoubleType, StringType, StructField, StructType

from sparkmetrics import batches, kernel, schemas
from sparkmetrics.columns import Keys
from sparkmetrics.kernel import Booleans, Floats, Integers
from sparkmetrics.levels import Level
from sparkmetrics.metrics.arithmetic import ratio
from sparkmetrics.metrics.pair_parts import (
    EXACT_TYPE,
    LEAST_PRODUCT,
    TOO_SMALL,
    defined_auc,
    exact_array,
    exact_total,
)
from sparkmetrics.metrics.registry import reason
from sparkmetrics.metrics.steps import Steps
from sparkmetrics.offsets import level_cells
from sparkmetrics.pooling import largest_segments, pooled_cells, pooled_scores
from sparkmetrics.segment_names import OTHER, segment_name
from sparkmetrics.small_groups import SmallGroups
from sparkmetrics.workers import map_partitions

EXACT, ROUNDED = "wins2_exact", "wins2_rounded"
PAIR_COLUMNS = {"pooled": "boolean", "other_pooled": "boolean", EXACT: EXACT_TYPE, ROUNDED: "double"}
"""What workers emit of a pair of segments: whether either is the pooled rest; twice its wins, as an integer where it is
one, and rounded."""

SIDE_COLUMNS = ("positive_rows", "negative_rows", "positives", "negatives")
"""What is known of the sides of a pair: the rows of either segment, its positives or negatives."""


SEGMENTS = ("positive_segment", "negative_segment")
"""The columns that name the segments of a pair."""

VALUES = ("wins2", "auc", "contribution", "mirror_auc", "auc_difference")
"""What a pair loses where a segment has too few rows."""


@dataclass(frozen=True)
class PairWins:
    """Wins between segments of one range. Arrays of one element a pair.

    Attributes
    ----------
    winner, loser : the position of a segment that is on the positives', on the negatives' side.
    columns : PAIR_COLUMNS.
    """

    winner: Integers
    loser: Integers
    columns: dict[str, pa.Array]


def wins_inside(steps: Steps, unit: Integers, named: Booleans) -> Iterator[PairWins]:
    """Worker: for every pair of segments of one range, twice the wins between scores of that range.

    Parameters
    ----------
    steps : the segments' scores; consecutive segments of one unit share a range.
    unit : the (by, range) of each segment.
    named : whether the matrix names each segment; the others of a unit are pooled.
    """
    exact = steps.whole
    score, positive, negative, starts = steps.score, steps.positive, steps.negative, steps.starts
    member = np.arange(len(starts))
    if not named.all():
        score, positive, negative, starts, member = pooled_scores(score, positive, negative, starts, unit, named)
    bounds = np.append(starts, len(score))
    begins = kernel.segment_starts(unit[member])
    for begin, size in zip(begins, kernel.segment_lengths(begins, len(member)), strict=True):
        entries = slice(bounds[begin], bounds[begin + size])
        wins = _wins_of_range(
            score[entries], positive[entries], negative[entries], bounds[begin : begin + size] - bounds[begin], exact
        )
        winner, loser = (member[begin + side] for side in np.divmod(np.arange(size * size), size))
        yield PairWins(winner, loser, _pair_arrays(wins, exact, ~named[winner], ~named[loser]))


def _wins_of_range(
    score: Floats, positive: Floats, negative: Floats, starts: Integers, exact: bool
) -> np.ndarray[Any, Any]:
    """Twice the wins of each segment's positives over each segment's negatives, winner by winner."""
    size, lengths = len(starts), kernel.segment_lengths(starts, len(score))
    distinct, rank = np.unique(score, return_inverse=True)
    lost = np.flatnonzero(negative)
    loser = np.repeat(np.arange(size), lengths)[lost]
    lost_starts = kernel.segment_starts(loser)
    lost_rank, lost_weight = rank[lost], negative[lost]
    lost_sums = kernel.segment_sums(lost_weight, lost_starts)
    lost_integers = lost_weight.astype(np.int64) if exact else None
    wins = []
    for begin, length in zip(starts, lengths, strict=True):
        at = np.zeros(len(distinct))
        at[rank[begin : begin + length]] = positive[begin : begin + length]
        if lost_integers is not None:
            integers = at.astype(np.int64)
            points = 2 * np.cumsum(integers[::-1])[::-1] - integers
            most = float(points[0]) * lost_sums
            sums = kernel.integer_products(points[lost_rank], lost_integers, lost_starts, most)
        else:
            whole_range = np.zeros(1, dtype=np.int64)
            above = kernel.following(kernel.cumulate_from_end(at, whole_range), whole_range)
            sums = kernel.segment_sums((2.0 * above + at)[lost_rank] * lost_weight, lost_starts)
        of_all = np.zeros(size, dtype=sums.dtype)
        of_all[loser[lost_starts]] = sums
        wins.append(of_all)
    return np.concatenate(wins)


def _pair_arrays(
    wins: np.ndarray[Any, Any], exact: bool, pooled: Booleans, other_pooled: Booleans
) -> dict[str, pa.Array]:
    integers = exact_array(wins) if exact else pa.nulls(len(wins), pa.decimal128(38, 0))
    values = (pa.array(pooled), pa.array(other_pooled), integers, pa.array(wins.astype(np.float64)))
    return dict(zip(PAIR_COLUMNS, values, strict=True))


def wins_across(rows: Iterator[pa.RecordBatch], by: list[str], segments: list[str]) -> Iterator[pa.RecordBatch]:
    """Worker: for every pair of segments of a level, twice the wins between different ranges, and what they weigh.

    Gets the tiny table of `pooling.pooled_cells`, all rows of a (by, level) in one task; gives one row for each pair.
    """
    table = batches.whole_table(rows)
    if table is None:
        return
    size = table.num_rows
    owners = batches.key_codes([batches.column(table, name) for name in (*by, "level")], size)
    members = [batches.column(table, name) for name in (*segments, "pooled")]
    groups = batches.key_codes(members, size, within=owners)
    owner_of_group = owners.row[groups.first]
    begins = kernel.segment_starts(owner_of_group)
    lengths = kernel.segment_lengths(begins, groups.size)
    order = kernel.sort_by_group(groups.row)
    bounds = np.searchsorted(groups.row[order], np.append(begins, groups.size))
    ranges = batches.column(table, "range").to_numpy()
    pooled = batches.column(table, "pooled").to_numpy(zero_copy_only=False)
    counted, *weights = (batches.floats(table, name) for name in ("rows", "positives", "negatives"))
    for number, (begin, count) in enumerate(zip(begins, lengths, strict=True)):
        mine = order[bounds[number] : bounds[number + 1]]
        _, place = np.unique(ranges[mine], return_inverse=True)
        segment = groups.row[mine] - begin
        positives, negatives = (_matrix(segment, place, int(count), values[mine]) for values in weights)
        rows_of = np.bincount(segment, counted[mine], int(count))
        winner, loser = np.divmod(np.arange(count * count), count)
        first = groups.first[begin : begin + count]
        columns = {
            name: batches.column(table, name).take(pa.array(first[winner])) for name in (*by, "level", *segments)
        }
        for name in segments:
            columns[other(name)] = batches.column(table, name).take(pa.array(first[loser]))
        sides = (rows_of[winner], rows_of[loser], positives.sum(axis=1)[winner], negatives.sum(axis=1)[loser])
        columns |= {name: pa.array(values) for name, values in zip(SIDE_COLUMNS, sides, strict=True)}
        columns |= {
            "all_positives": pa.array(np.full(count * count, positives.sum())),
            "all_negatives": pa.array(np.full(count * count, negatives.sum())),
        }
        wins, exact = _wins_of_matrices(positives, negatives)
        columns |= _pair_arrays(wins, exact, pooled[first[winner]], pooled[first[loser]])
        yield from pa.table(columns).to_batches(max_chunksize=batches.BATCH_ROWS)


def _matrix(segment: Integers, place: Integers, count: int, values: Floats) -> Floats:
    """Weights by segment (rows) and range (columns, rising)."""
    matrix = np.zeros((count, int(place.max()) + 1))
    matrix[segment, place] = values
    return matrix


def _wins_of_matrices(positives: Floats, negatives: Floats) -> tuple[np.ndarray[Any, Any], bool]:
    """Twice the wins of every segment's positives over every segment's negatives in lower ranges; whether exactly."""
    above = np.zeros_like(positives)
    above[:, :-1] = np.cumsum(positives[:, :0:-1], axis=1)[:, ::-1]
    exact = kernel.whole(positives, negatives)
    if exact and 2.0 * positives.sum() * negatives.sum() >= kernel.EXACT:
        above, negatives = (matrix.astype(np.int64).astype(object) for matrix in (above, negatives))
    return 2 * (above @ negatives.T).ravel(), exact


@dataclass(frozen=True)
class PairLevels:
    """What a pair matrix is made of.

    Attributes
    ----------
    keys : key columns.
    levels, names : segment positions of each level that has segments, and its name.
    most : segments that a matrix names at most.
    weighted : whether predictions carried weights.
    """

    keys: Keys
    levels: Sequence[Level]
    names: Sequence[str]
    most: int
    weighted: bool

    def largest(self, merged: DataFrame) -> DataFrame:
        """The segments to name, where a level has more; with weights those that leave-one-out must add up without."""
        return largest_segments(merged, self.keys, self.levels, self.names, self.most, dominant_first=self.weighted)


def pair_wins(inside: DataFrame, merged: DataFrame, largest: DataFrame, of: PairLevels) -> DataFrame:
    """Twice the wins of every ordered pair of segments of each level.

    Parameters
    ----------
    inside : pairs that workers emitted: keys, `level` (its name), `other_` segment columns, PAIR_COLUMNS.
    merged : the merged score counts.
    largest : the segments that workers named, from `PairLevels.largest`.

    Returns
    -------
    `by..., level, segments...` (of the positive), `pooled`, `other_` segments (of the negative), `other_pooled`,
    SIDE_COLUMNS, `all_positives`, `all_negatives`, and `wins2`: decimal(38,0), or a double when weighted.
    """
    keys = of.keys
    cells = pooled_cells(level_cells(merged, keys, of.levels, of.names), largest, keys)
    task = partial(wins_across, by=keys.by_columns, segments=keys.segment_columns)
    across = map_partitions(cells.repartition(*keys.by_columns, "level"), task, _across_schema(keys))
    pair = pair_columns(keys)
    wins = exact_total(EXACT, ROUNDED) if of.weighted else F.sum(EXACT)
    sides = (*SIDE_COLUMNS, "all_positives", "all_negatives")
    found = (
        across.unionByName(inside.select(*pair, EXACT, ROUNDED), allowMissingColumns=True)
        .groupBy(*pair)
        .agg(*(F.max(name).alias(name) for name in sides), wins.alias("wins2"))
    )
    lost = F.raise_error(F.lit("sparkmetrics: the segments of a level changed while they were read; run again."))
    return found.withColumn(
        "wins2", F.when(F.col("all_positives").isNull(), lost.cast(schemas.WINS[of.weighted])).otherwise(F.col("wins2"))
    )


def pair_columns(keys: Keys) -> list[str]:
    """The columns that tell one pair of segments from another."""
    side = [*keys.segment_columns, "pooled"]
    return [*keys.by_columns, "level", *side, *map(other, side)]


def pair_table(wins: DataFrame, of: PairLevels, small: SmallGroups) -> DataFrame:
    """The pair matrix of every level: one row for each ordered pair (segment of the positive, segment of the negative).

    Parameters
    ----------
    wins : from `pair_wins`.
    small : which segments lose their values.

    Returns
    -------
    `by..., level` and the columns of `schemas.segment_auc`, under internal names.
    """
    keys, pair = of.keys, pair_columns(of.keys)
    pairs = F.col("positives") * F.col("negatives")
    all_pairs = F.col("all_positives") * F.col("all_negatives")
    doubled = F.col("wins2").cast("double")
    valued = wins.select(
        *pair,
        *SIDE_COLUMNS,
        "wins2",
        pairs.alias("pairs"),
        defined_auc(doubled, pairs).alias("auc"),
        ratio(pairs, all_pairs).alias("pair_share"),
        defined_auc(doubled, all_pairs).alias("contribution"),
    )
    sides = [[*keys.segment_columns, "pooled"], list(map(other, [*keys.segment_columns, "pooled"]))]
    named = _with_mirror(valued, keys).select(
        *keys.by_columns,
        "level",
        *(_side_name(of, side).alias(name) for name, side in zip(SEGMENTS, sides, strict=True)),
        *SIDE_COLUMNS,
        *("pairs", "wins2", "auc", "pair_share", "contribution", "mirror_auc"),
        (F.col("auc") - F.col("mirror_auc")).alias("auc_difference"),
        (F.col("pooled") & F.col(other("pooled"))).alias("mixed"),
        why_undefined(F.col("positives"), F.col("negatives")).alias("reason"),
    )
    return small.emptied(named, F.least("positive_rows", "negative_rows"), VALUES)


def _with_mirror(pairs: DataFrame, keys: Keys) -> DataFrame:
    """Pairs beside the AUC of the same segments with their sides changed: each row is sent to both of the pairs."""
    pair = pair_columns(keys)
    values = [name for name in pairs.columns if name not in pair]
    side = [*keys.segment_columns, "pooled"]
    across = {name: other(name) for name in side} | {other(name): name for name in side}
    own = F.struct(*pair, F.lit(False).alias("turned"), *values)
    turned = F.struct(
        *(F.col(across.get(name, name)).alias(name) for name in pair), F.lit(True).alias("turned"), *values
    )
    both = pairs.select(F.inline(F.array(own, turned)))
    return both.groupBy(*pair).agg(
        *(F.max(F.when(~F.col("turned"), F.col(name))).alias(name) for name in values),
        F.max(F.when(F.col("turned"), F.col("auc"))).alias("mirror_auc"),
    )


def why_undefined(positives: Column, negatives: Column) -> Column:
    """Why the AUC of so many positives and negatives is NULL; NULL where it is not."""
    return (
        F.when(positives == 0, reason("positives"))
        .when(negatives == 0, reason("negatives"))
        .when(positives * negatives < LEAST_PRODUCT, TOO_SMALL)
    )


def _side_name(of: PairLevels, side: list[str]) -> Column:
    """The name of the segment on one side of a pair."""
    *segments, pooled = side
    return F.when(F.col(pooled), F.lit(OTHER)).otherwise(segment_name(of.keys, of.levels, of.names, segments))


def _across_schema(keys: Keys) -> StructType:
    by, segments = keys.types[: len(keys.by)], keys.types[len(keys.by) :]
    fields = [StructField(name, kind) for name, kind in zip(keys.by_columns, by, strict=True)]
    fields.append(StructField("level", StringType()))
    fields += [StructField(name, kind) for name, kind in zip(keys.segment_columns, segments, strict=True)]
    fields += [StructField(other(name), kind) for name, kind in zip(keys.segment_columns, segments, strict=True)]
    fields += [StructField(name, DoubleType()) for name in (*SIDE_COLUMNS, "all_positives", "all_negatives")]
    fields += [StructField(name, BooleanType()) for name in ("pooled", other("pooled"))]
    fields += [StructField("wins2_exact", DecimalType(38, 0)), StructField("wins2_rounded", DoubleType())]
    return StructType(fields)


def other(name: str) -> str:
    """The column that holds the negatives' segment beside `name`, which holds the positives'."""
    return f"other_{name}"
