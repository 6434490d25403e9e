"""Subset versus total: whose positives beat whose negatives. The wins of all pairs of segments are the total's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DecimalType, DoubleType, IntegerType, StructField, StructType

from sparkmetrics import batches, kernel
from sparkmetrics.columns import Keys
from sparkmetrics.kernel import Floats, Integers
from sparkmetrics.levels import Level
from sparkmetrics.metrics.arithmetic import ratio
from sparkmetrics.metrics.pair_parts import EXACT_TYPE, exact_array, exact_total
from sparkmetrics.metrics.steps import Steps
from sparkmetrics.offsets import level_cells
from sparkmetrics.workers import map_partitions

MAX_PAIR_SEGMENTS = 200
"""Levels of more segments than this have no pair matrix: it would have more rows than anyone reads."""

PAIR_COLUMNS = {"wins2_exact": EXACT_TYPE, "wins2_rounded": "double"}
"""What workers emit of a pair of segments: twice its wins, as an integer where it is one, and rounded."""


def wins_inside(steps: Steps, unit: Integers) -> Iterator[tuple[Integers, Integers, dict[str, pa.Array]]]:
    """Worker: for every pair of segments of one range, twice the wins between scores of that range.

    Parameters
    ----------
    steps : the segments' scores; consecutive segments of one unit share a range.
    unit : the (by, range) of each segment.

    Yields
    ------
    For each unit: positions of the positives' segments, of the negatives' segments, and PAIR_COLUMNS.
    """
    exact = kernel.whole(steps.positive, steps.negative)
    bounds = np.append(steps.starts, len(steps.score))
    begins = kernel.segment_starts(unit)
    for begin, size in zip(begins, kernel.segment_lengths(begins, len(unit)), strict=True):
        if size > MAX_PAIR_SEGMENTS:
            continue
        entries = slice(bounds[begin], bounds[begin + size])
        starts = bounds[begin : begin + size] - bounds[begin]
        wins = _wins_of_range(steps.score[entries], steps.positive[entries], steps.negative[entries], starts, exact)
        winner, loser = np.divmod(np.arange(size * size), size)
        yield begin + winner, begin + loser, _pair_arrays(wins, exact)


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


def _pair_arrays(wins: np.ndarray[Any, Any], exact: bool) -> dict[str, pa.Array]:
    integers = exact_array(wins) if exact else pa.nulls(len(wins), pa.decimal128(38, 0))
    return {"wins2_exact": integers, "wins2_rounded": pa.array(wins.astype(np.float64))}


def wins_across(rows: Iterator[pa.RecordBatch], by: list[str], segments: list[str]) -> Iterator[pa.RecordBatch]:
    """Worker: for every pair of segments of a level, twice the wins between different ranges, and what they weigh.

    Gets the tiny table of `level_cells`, all rows of a (by, level) in one task; gives one row for each pair.
    """
    table = batches.whole_table(rows)
    if table is None:
        return
    size = table.num_rows
    owners = batches.key_codes([batches.column(table, name) for name in (*by, "level")], size)
    groups = batches.key_codes([batches.column(table, name) for name in segments], size, within=owners)
    owner_of_group = owners.row[groups.first]
    begins = kernel.segment_starts(owner_of_group)
    lengths = kernel.segment_lengths(begins, groups.size)
    order = kernel.sort_by_group(groups.row)
    bounds = np.searchsorted(groups.row[order], np.append(begins, groups.size))
    ranges = batches.column(table, "range").to_numpy()
    weights = [batches.floats(table, name) for name in ("positives", "negatives")]
    for number, (begin, count) in enumerate(zip(begins, lengths, strict=True)):
        mine = order[bounds[number] : bounds[number + 1]]
        _, place = np.unique(ranges[mine], return_inverse=True)
        segment = groups.row[mine] - begin
        positives, negatives = (_matrix(segment, place, int(count), values[mine]) for values in weights)
        winner, loser = np.divmod(np.arange(count * count), count)
        first = groups.first[begin : begin + count]
        columns = {
            name: batches.column(table, name).take(pa.array(first[winner])) for name in (*by, "level", *segments)
        }
        for name in segments:
            columns[other(name)] = batches.column(table, name).take(pa.array(first[loser]))
        columns |= {
            "positives": pa.array(positives.sum(axis=1)[winner]),
            "negatives": pa.array(negatives.sum(axis=1)[loser]),
            "all_positives": pa.array(np.full(count * count, positives.sum())),
            "all_negatives": pa.array(np.full(count * count, negatives.sum())),
        }
        columns |= _wins_of_matrices(positives, negatives)
        yield from pa.table(columns).to_batches(max_chunksize=batches.BATCH_ROWS)


def _matrix(segment: Integers, place: Integers, count: int, values: Floats) -> Floats:
    """Weights by segment (rows) and range (columns, rising)."""
    matrix = np.zeros((count, int(place.max()) + 1))
    matrix[segment, place] = values
    return matrix


def _wins_of_matrices(positives: Floats, negatives: Floats) -> dict[str, pa.Array]:
    """Twice the wins of every segment's positives over every segment's negatives in lower ranges."""
    above = np.zeros_like(positives)
    above[:, :-1] = np.cumsum(positives[:, :0:-1], axis=1)[:, ::-1]
    exact = kernel.whole(positives, negatives)
    if exact and 2.0 * positives.sum() * negatives.sum() >= kernel.EXACT:
        above, negatives = (matrix.astype(np.int64).astype(object) for matrix in (above, negatives))
    return _pair_arrays(2 * (above @ negatives.T).ravel(), exact)


def pair_table(
    inside: DataFrame, merged: DataFrame, keys: Keys, levels: Sequence[Level], names: Sequence[str], weighted: bool
) -> DataFrame:
    """The pair matrix of every level: one row for each ordered pair (segment of the positive, segment of the negative).

    Parameters
    ----------
    inside : pairs that workers emitted: keys, `level` (its name), `other_` segment columns, PAIR_COLUMNS.
    merged : the merged score counts.
    keys : key columns.
    levels : the levels that have segments, as positions of these, and their `names`.
    weighted : whether predictions carried weights, which makes `wins2` a double.

    Returns
    -------
    `by..., level` and the columns of `schemas.segment_auc`, under internal names. `auc` is NULL for a pair without
    pairs, `pair_share` and `contribution` where the total has none.
    """
    cells = _of_few_segments(level_cells(merged, keys, levels).drop("slot", "top"), keys)
    cells = cells.repartition(*keys.by_columns, "level")
    task = partial(wins_across, by=keys.by_columns, segments=keys.segment_columns)
    across = map_partitions(cells, task, _across_schema(keys))
    across = across.withColumn("level", F.element_at(F.array(*map(F.lit, names)), F.col("level") + 1))
    pair = [*keys.by_columns, "level", *keys.segment_columns, *map(other, keys.segment_columns)]
    wins = F.sum("wins2_exact") if not weighted else exact_total("wins2_exact", "wins2_rounded")
    weights = ("positives", "negatives", "all_positives", "all_negatives")
    table = (
        across.unionByName(inside.select(*pair, *PAIR_COLUMNS), allowMissingColumns=True)
        .groupBy(*pair)
        .agg(*(F.max(name).alias(name) for name in weights), wins.alias("wins2"))
        .where(F.col("all_positives").isNotNull())
    )
    pairs = F.col("positives") * F.col("negatives")
    all_pairs = F.col("all_positives") * F.col("all_negatives")
    doubled = F.col("wins2").cast("double")
    return table.select(
        *keys.by_columns,
        "level",
        segment_name(keys, levels, names, keys.segment_columns).alias("positive_segment"),
        segment_name(keys, levels, names, [other(name) for name in keys.segment_columns]).alias("negative_segment"),
        "positives",
        "negatives",
        pairs.alias("pairs"),
        "wins2",
        ratio(doubled, 2.0 * pairs).alias("auc"),
        ratio(pairs, all_pairs).alias("pair_share"),
        ratio(doubled, 2.0 * all_pairs).alias("contribution"),
    )


def _of_few_segments(cells: DataFrame, keys: Keys) -> DataFrame:
    """The cells of the (by, level) that have a pair matrix, so that no task gets a million segments to no end."""
    level = [*keys.by_columns, "level"]
    segments = cells.select(*level, *keys.segment_columns).distinct()
    few = segments.groupBy(*(F.col(name).alias(f"of_{name}") for name in level)).count()
    same = F.lit(True)
    for name in level:
        same = same & F.col(name).eqNullSafe(F.col(f"of_{name}"))
    return cells.join(few.where(F.col("count") <= MAX_PAIR_SEGMENTS), same, "left_semi")


def _across_schema(keys: Keys) -> StructType:
    by, segments = keys.types[: len(keys.by)], keys.types[len(keys.by) :]
    fields = [StructField(name, kind) for name, kind in zip(keys.by_columns, by, strict=True)]
    fields.append(StructField("level", IntegerType()))
    fields += [StructField(name, kind) for name, kind in zip(keys.segment_columns, segments, strict=True)]
    fields += [StructField(other(name), kind) for name, kind in zip(keys.segment_columns, segments, strict=True)]
    fields += [StructField(name, DoubleType()) for name in ("positives", "negatives", "all_positives", "all_negatives")]
    fields += [StructField("wins2_exact", DecimalType(38, 0)), StructField("wins2_rounded", DoubleType())]
    return StructType(fields)


def other(name: str) -> str:
    """The column that holds the negatives' segment beside `name`, which holds the positives'."""
    return f"other_{name}"


def segment_name(keys: Keys, levels: Sequence[Level], names: Sequence[str], columns: Sequence[str]) -> Column:
    """A segment as people read it: `sex=female, pclass=1`; NULL values read `NULL`."""
    text = F.lit(None).cast("string")
    for level, name in zip(levels, names, strict=True):
        parts = (F.concat(F.lit(f"{keys.segments[i]}="), value_text(F.col(columns[i]))) for i in level)
        text = F.when(F.col("level") == name, F.concat_ws(", ", *parts)).otherwise(text)
    return text


def value_text(value: Column) -> Column:
    """A segment value as text; JSON-quoted where it reads NULL or (other), or holds a comma, = or a quote."""
    text = value.cast("string")
    misread = text.isin("NULL", "(other)") | text.rlike('[,="]')
    quoted = F.to_json(F.array(text))
    inner = quoted.substr(F.lit(2), F.length(quoted) - 2)
    return F.when(value.isNull(), F.lit("NULL")).when(misread, inner).otherwise(text)
