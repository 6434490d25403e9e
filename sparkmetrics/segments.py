"""Subset versus total: what each segment is to the whole, and how far the whole is from its segments.

A pair of a positive and a negative lies inside one segment or between two. Counted so, the AUC of the total is the
pairs inside and the pairs between, and every segment has its part in the difference.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from sparkmetrics.columns import Keys
from sparkmetrics.exact_sums import Sums, sum_in_any_order
from sparkmetrics.joins import join_on
from sparkmetrics.levels import group_columns
from sparkmetrics.metrics.arithmetic import clip, ratio
from sparkmetrics.metrics.pair_parts import TOO_SMALL, defined_auc
from sparkmetrics.metrics.ranking import U2
from sparkmetrics.metrics.registry import reason
from sparkmetrics.metrics.segment_parts import AgainstAll, ScoreSum
from sparkmetrics.segment_pairs import other
from sparkmetrics.small_groups import SmallGroups

AGAINST_ALL = AgainstAll("against_all", U2)
SCORE_SUM = ScoreSum("sum_of_scores")

SEGMENT_PARTS = (U2, AGAINST_ALL, SCORE_SUM)
"""What the tables of segments are made from."""

SUMMARY_VALUES = ("prevalence", "subgroup_auc", "bpsn_auc", "bnsp_auc", "leave_one_out_auc", "gap_contribution")

WEIGHTED_TOLERANCE = 1e-12
"""What two AUCs of weights may differ by and be equal."""

STRETCHES = 64
"""Segments are ranked by a value in so many stretches of about equally many, so that no task gets all of a level."""

SPLIT = 2.0**13 + 1.0
"""Rounds a double to 40 bits: means and shares that differ by the rounding of their sums alone are tied."""

NO_PAIRS_INSIDE = "no pairs inside segments"


def segment_sides(groups: DataFrame, keys: Keys, names: Sequence[str], sums: Sums) -> DataFrame:
    """Segments beside what lies outside them.

    Parameters
    ----------
    groups : one row a group with its totals and the combined SEGMENT_PARTS.
    keys : key columns.
    names : the levels that have segments.

    Returns
    -------
    Keys, `level`, `rows`, `positives`, `negatives`, `sum_of_scores`; `outside_positives`, `outside_negatives`; twice
    the pairs in order `inside` the segment, `bnsp` (its positives, negatives outside), `bpsn` (positives outside, its
    negatives) and `rest` (both outside); and of the level `all_rows`, `all_positives`, `all_negatives`, `all_wins`, and
    `within_wins`, `within_pairs` and `has_within`: those inside segments, and whether there are any.
    """
    level = [*keys.by_columns, "level"]
    against = F.col(AGAINST_ALL.name)

    def wins(side: str) -> Column:
        """Exactly where that is possible; 0 of a group whose weights are all 0."""
        rounded = F.coalesce(against[side], F.lit(0.0)).cast(sums.wins)
        return rounded if sums.weighted else F.coalesce(against[f"{side}_exact"], rounded)

    segments = groups.where(F.col("level").isin(list(names))).select(
        *group_columns(keys),
        *("rows", "positives", "negatives", SCORE_SUM.name),
        *(wins(side).alias(side) for side in ("won", "lost", "inside")),
    )
    totals = segments.groupBy(*level).agg(
        *(F.sum(name).alias(f"all_{name}") for name in ("rows", "positives", "negatives")),
        F.sum("lost").alias("all_wins"),
        F.sum("inside").alias("within_wins"),
        F.sum(sums.product("positives", "negatives")).alias("within_pairs"),
        # Where a product of tiny weights is 0, pairs are there all the same.
        F.max((F.col("positives") > 0) & (F.col("negatives") > 0)).alias("has_within"),
    )
    won, lost, inside = F.col("won"), F.col("lost"), F.col("inside")
    return join_on(segments, totals, level).select(
        *group_columns(keys),
        *("rows", "positives", "negatives", SCORE_SUM.name, "inside"),
        *("all_rows", "all_positives", "all_negatives", "all_wins", "within_wins", "within_pairs", "has_within"),
        (F.col("all_positives") - F.col("positives")).alias("outside_positives"),
        (F.col("all_negatives") - F.col("negatives")).alias("outside_negatives"),
        (won - inside).alias("bnsp"),
        (lost - inside).alias("bpsn"),
        (F.col("all_wins") - won - lost + inside).alias("rest"),
    )


OUTSIDE = ("outside_positives", "outside_negatives", "bnsp", "bpsn", "rest")
"""What `segment_sides` gets as a difference."""


def without_differences(sides: DataFrame, pairs: DataFrame, keys: Keys) -> DataFrame:
    """Segments beside what lies outside them, where with weights that is no difference of nearly equal sums.

    The sums of a segment that has less than half of the positives and of the negatives differ enough from those of all.
    For the others, at most two of a level, what lies outside is added up from the pairs of segments.

    Parameters
    ----------
    sides : from `segment_sides`.
    pairs : from `segment_pairs.pair_wins`, of a matrix that names such segments.
    """
    level, group = [*keys.by_columns, "level"], group_columns(keys)
    halves = [2.0 * F.col(name) > F.col(f"all_{name}") for name in ("positives", "negatives")]
    dominant = sides.where(halves[0] | halves[1]).select(
        *level, *(F.col(name).alias(f"own_{name}") for name in keys.segment_columns)
    )
    own = [~F.col(pooled) for pooled in ("pooled", other("pooled"))]
    for name in keys.segment_columns:
        own = [
            mine & F.col(side).eqNullSafe(F.col(f"own_{name}"))
            for mine, side in zip(own, (name, other(name)), strict=True)
        ]
    wins, loses = own
    same = F.col("pooled") == F.col(other("pooled"))
    for name in keys.segment_columns:
        same = same & F.col(name).eqNullSafe(F.col(other(name)))
    sums = {
        "outside_positives": (same & ~wins, "positives"),
        "outside_negatives": (same & ~wins, "negatives"),
        "bnsp": (wins & ~loses, "wins2"),
        "bpsn": (~wins & loses, "wins2"),
        "rest": (~wins & ~loses, "wins2"),
    }
    added = (
        join_on(pairs, dominant, level)
        .groupBy(*level, *(F.col(f"own_{name}").alias(name) for name in keys.segment_columns))
        .agg(
            *(F.sum(F.when(where, F.col(of)).otherwise(0.0)).alias(f"added_{n}") for n, (where, of) in sums.items()),
            F.max(wins).alias("named"),
        )
        .where("named")
        .drop("named")
    )
    joined = join_on(sides, added, group, "left")
    return joined.withColumns({name: F.coalesce(f"added_{name}", name) for name in OUTSIDE})


def summary_table(sides: DataFrame, keys: Keys, small: SmallGroups) -> DataFrame:
    """One row for each segment: keys, `level` and the columns of `schemas.SEGMENT_SUMMARY`."""
    P, N, P_out, N_out = (F.col(n) for n in ("positives", "negatives", "outside_positives", "outside_negatives"))
    inside, bpsn, bnsp, rest = (F.col(name).cast("double") for name in ("inside", "bpsn", "bnsp", "rest"))
    all_pairs = F.col("all_positives") * F.col("all_negatives")
    few_outside = F.col("all_rows") - F.col("rows") < small.least
    crossing = (bnsp + bpsn) / 2.0 - within_auc() * (P * N_out + N * P_out)
    values = {
        "prevalence": ratio(P, P + N),
        "subgroup_auc": defined_auc(inside, P * N),
        "bpsn_auc": F.when(~few_outside, _auc_outside(bpsn, P_out * N)),
        "bnsp_auc": F.when(~few_outside, _auc_outside(bnsp, P * N_out)),
        "leave_one_out_auc": F.when(~few_outside, _auc_outside(rest, P_out * N_out)),
        "gap_contribution": defined_auc(crossing, all_pairs),
    }
    causes = {
        reason("positives"): P == 0,
        reason("negatives"): N == 0,
        "no positives outside": P_out == 0,
        "no negatives outside": N_out == 0,
        NO_PAIRS_INSIDE: ~F.col("has_within"),
        f"{small.reason} outside": few_outside,
        TOO_SMALL: ((P > 0) & (N > 0) & values["subgroup_auc"].isNull())
        | (F.col("has_within") & within_auc().isNull()),
    }
    table = sides.select(
        *group_columns(keys),
        *("rows", "positives", "negatives"),
        *(value.alias(name) for name, value in values.items()),
        _listed(causes).alias("cause"),
    )
    found = table.withColumn("reason", _reason(SUMMARY_VALUES)).drop("cause")
    return small.emptied(found, F.col("rows"), SUMMARY_VALUES)


GAP_VALUES = (
    *("total_auc", "within_auc", "within_share", "between_auc", "between_share"),
    *("smallest_auc", "largest_auc", "mean_auc", "gauc", "gauc_positives", "total_position"),
    *("segment_score_auc", "segment_prevalence_auc"),
)


def _auc_outside(wins: Column, pairs: Column) -> Column:
    """The AUC of pairs that are a difference of sums: rounding of weights takes it no further than 0 and 1."""
    auc: Column = clip(defined_auc(wins, pairs), 0.0, 1.0)
    return auc


def within_auc() -> Column:
    """The AUC of the pairs inside segments."""
    auc: Column = defined_auc(F.col("within_wins").cast("double"), F.col("within_pairs").cast("double"))
    return auc


def gap_table(sides: DataFrame, keys: Keys, sums: Sums, small: SmallGroups) -> DataFrame:
    """One row for each level: `by..., level` and the columns of `schemas.SEGMENT_GAP`."""
    level = [*keys.by_columns, "level"]
    P, N, auc = F.col("positives"), F.col("negatives"), F.col("auc")
    of_segment = defined_auc(F.col("inside").cast("double"), P * N)
    is_small = F.col("rows") < small.least
    shown = sides.withColumn("auc", F.when(~is_small, of_segment))
    weight, positives = (F.when(auc.isNotNull(), side) for side in (P + N, P))
    found = shown.groupBy(*level).agg(
        *(F.max(name).alias(name) for name in ("all_rows", "all_positives", "all_negatives")),
        *(F.max(name).alias(name) for name in ("all_wins", "within_wins", "within_pairs", "has_within")),
        F.max((P > 0) & (F.col("outside_negatives") > 0)).alias("has_between"),
        F.sum("bnsp").cast("double").alias("between_wins"),
        F.sum(sums.product(P, "outside_negatives")).cast("double").alias("between_pairs"),
        F.min(auc).alias("smallest_auc"),
        F.max(auc).alias("largest_auc"),
        ratio(sum_in_any_order(auc), F.count(auc)).alias("mean_auc"),
        ratio(sum_in_any_order(weight * auc), F.sum(weight)).alias("gauc"),
        ratio(sum_in_any_order(positives * auc), F.sum(positives)).alias("gauc_positives"),
        F.count("*").alias("segments"),
        F.count(auc).alias("defined_segments"),
        F.count(F.when(is_small & of_segment.isNotNull(), True)).alias("hidden_segments"),
        F.coalesce(F.max(F.isnan(_mean_score())), F.lit(False)).alias("without_mean"),
    )
    all_pairs = F.col("all_positives") * F.col("all_negatives")
    within_pairs = F.col("within_pairs").cast("double")
    total = defined_auc(F.col("all_wins").cast("double"), all_pairs)
    between = _auc_outside(F.col("between_wins"), F.col("between_pairs"))
    causes = {
        reason("positives"): F.col("all_positives") == 0,
        reason("negatives"): F.col("all_negatives") == 0,
        NO_PAIRS_INSIDE: ~F.col("has_within"),
        "no pairs between segments": ~F.col("has_between"),
        f"{small.reason} in every segment with an AUC": (F.col("hidden_segments") > 0)
        & (F.col("defined_segments") == 0),
        "scores without a mean": F.col("without_mean"),
        TOO_SMALL: (F.col("has_within") & within_auc().isNull()) | (F.col("has_between") & between.isNull()),
    }
    table = join_on(found, _value_aucs(sides, keys, sums), level, "left").select(
        *level,
        F.col("all_rows").alias("rows"),
        F.col("all_positives").alias("positives"),
        F.col("all_negatives").alias("negatives"),
        *("segments", "defined_segments"),
        total.alias("total_auc"),
        within_auc().alias("within_auc"),
        ratio(within_pairs, all_pairs).alias("within_share"),
        between.alias("between_auc"),
        ratio(F.col("between_pairs"), all_pairs).alias("between_share"),
        *("smallest_auc", "largest_auc", "mean_auc", "gauc", "gauc_positives"),
        _position(total, sums).alias("total_position"),
        F.when(~F.col("without_mean"), F.col("segment_score_auc")).alias("segment_score_auc"),
        "segment_prevalence_auc",
        _listed(causes).alias("cause"),
    )
    return small.emptied(table.withColumn("reason", _reason(GAP_VALUES)).drop("cause"), F.col("rows"), GAP_VALUES)


def _position(total: Column, sums: Sums) -> Column:
    """Where the total is among its segments: as doubles without weights, within the tolerance with them."""
    slack = WEIGHTED_TOLERANCE if sums.weighted else 0.0
    smallest, largest = F.col("smallest_auc"), F.col("largest_auc")
    place = (
        F.when(total > largest + slack, "above")
        .when(total < smallest - slack, "below")
        .when(largest - smallest <= slack, "equal")
        .otherwise("between")
    )
    return F.when(total.isNotNull() & smallest.isNotNull(), place)


def _mean_score() -> Column:
    """The mean score of a segment: NULL without weight, NaN where infinite scores of both signs have none."""
    mean: Column = ratio(F.col(SCORE_SUM.name), F.col("positives") + F.col("negatives"))
    return mean


def _value_aucs(sides: DataFrame, keys: Keys, sums: Sums) -> DataFrame:
    """AUC of the rows of each level if each had its segment's mean score, or its segment's prevalence, for a score.

    Returns
    -------
    `by..., level, segment_score_auc, segment_prevalence_auc`; no row for a level whose weights are all 0.
    """
    level = [*keys.by_columns, "level"]
    P, N = F.col("positives"), F.col("negatives")
    values = {"segment_score_auc": _mean_score(), "segment_prevalence_auc": ratio(P, P + N)}
    kinds = (F.struct(F.lit(kind).alias("kind"), _rounded(value).alias("value")) for kind, value in values.items())
    weighed = sides.where(P + N > 0).select(
        *level, *(side.cast(sums.count).alias(name) for name, side in (("p", P), ("n", N))), F.inline(F.array(*kinds))
    )
    ranking = [*level, "kind"]
    shares = [i / STRETCHES for i in range(1, STRETCHES)]
    # Where a stretch begins is a matter of speed alone.
    cuts = weighed.groupBy(*ranking).agg(F.percentile_approx("value", shares, 1000).alias("cuts"))
    stretch = F.size(F.filter("cuts", lambda cut: cut <= F.col("value"))).alias("stretch")
    tied = (
        join_on(weighed, cuts, ranking)
        .groupBy(*ranking, stretch, "value")
        .agg(*(F.sum(name).alias(name) for name in ("p", "n")))
    )

    def below(name: str, group: list[str], order: str) -> Column:
        window = Window.partitionBy(*group).orderBy(order).rowsBetween(Window.unboundedPreceding, -1)
        return F.coalesce(F.sum(name).over(window), F.lit(0)).cast(sums.count)

    in_stretch = tied.withColumn("below", below("n", [*ranking, "stretch"], "value"))
    stretches = in_stretch.groupBy(*ranking, "stretch").agg(
        *(F.sum(name).alias(name) for name in ("p", "n")),
        F.sum((sums.product("p", "below") * 2 + sums.product("p", "n")).cast(sums.wins)).alias("wins"),
    )
    in_all = stretches.withColumn("below", below("n", ranking, "stretch"))
    wins = F.sum((F.col("wins") + sums.product("p", "below") * 2).cast(sums.wins)).cast("double")
    pairs = F.sum("p").cast("double") * F.sum("n").cast("double")
    aucs = in_all.groupBy(*ranking).agg(defined_auc(wins, pairs).alias("auc"))
    return aucs.groupBy(*level).agg(
        *(F.max(F.when(F.col("kind") == kind, F.col("auc"))).alias(kind) for kind in values)
    )


def _rounded(value: Column) -> Column:
    """A number to 40 bits, about 12 digits; huge ones as they are."""
    scaled = value * SPLIT
    return F.when(F.abs(value) < 1e300, scaled - (scaled - value)).otherwise(value)


def _listed(causes: dict[str, Column]) -> Column:
    """The causes that hold, one after the other; empty where none does."""
    return F.concat_ws("; ", *(F.when(holds, cause) for cause, holds in causes.items()))


def _reason(values: Sequence[str]) -> Column:
    """Why values of a row are NULL; NULL where none is."""
    some = F.lit(False)
    for name in values:
        some = some | F.col(name).isNull()
    return F.when(some, F.when(F.col("cause") != "", F.col("cause")).otherwise(TOO_SMALL))
