"""Subset versus total: what each segment is to the whole, and how far the whole is from its segments.

A pair of a positive and a negative lies inside one segment or between two. Counted so, the AUC of the total is the
pairs inside and the pairs between, and every segment has its part in the difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from sparkmetrics.columns import Keys
from sparkmetrics.joins import join_on
from sparkmetrics.levels import group_columns
from sparkmetrics.metrics.arithmetic import ratio
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

BUCKETS = 4096
"""Segments are ranked by a value in this many stretches of it, so that no task gets all segments of a level."""

NO_PAIRS_INSIDE = "no pairs inside segments"


@dataclass(frozen=True)
class Sums:
    """How to add up what may be exact.

    Attributes
    ----------
    weighted : whether predictions carried weights; without, counts and wins are integers, and add up as such.
    """

    weighted: bool

    @property
    def count(self) -> str:
        """The type of a count."""
        return "double" if self.weighted else "decimal(18,0)"

    @property
    def wins(self) -> str:
        """The type of a sum of products of two counts."""
        return "double" if self.weighted else "decimal(38,0)"

    def product(self, one: str | Column, other: str | Column) -> Column:
        """The product of two counts."""
        left, right = (F.col(side) if isinstance(side, str) else side for side in (one, other))
        return (left.cast(self.count) * right.cast(self.count)).cast(self.wins)

    def total(self, values: Column) -> Column:
        """The sum of numbers of ordinary size (AUCs, and these times counts): the same in any order unless weighted."""
        return F.sum(values) if self.weighted else F.sum(values.cast("decimal(38,18)")).cast("double")


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
    negatives) and `rest` (both outside); and of the level `all_rows`, `all_positives`, `all_negatives`, `all_wins`.
    """
    level = [*keys.by_columns, "level"]
    against = F.col(AGAINST_ALL.name)
    suffix = "" if sums.weighted else "_exact"
    segments = groups.where(F.col("level").isin(list(names))).select(
        *group_columns(keys),
        *("rows", "positives", "negatives", SCORE_SUM.name),
        *(
            F.coalesce(against[side + suffix], F.lit(0)).cast(sums.wins).alias(side)
            for side in ("won", "lost", "inside")
        ),
    )
    totals = segments.groupBy(*level).agg(
        *(F.sum(name).alias(f"all_{name}") for name in ("rows", "positives", "negatives")),
        F.sum("lost").alias("all_wins"),
    )
    won, lost, inside = F.col("won"), F.col("lost"), F.col("inside")
    return join_on(segments, totals, level).select(
        *group_columns(keys),
        *("rows", "positives", "negatives", SCORE_SUM.name, "inside"),
        *("all_rows", "all_positives", "all_negatives", "all_wins"),
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
        .agg(*(F.sum(F.when(where, F.col(of)).otherwise(0.0)).alias(f"added_{n}") for n, (where, of) in sums.items()))
    )
    joined = join_on(sides, added, group, "left")
    return joined.withColumns({name: F.coalesce(f"added_{name}", name) for name in OUTSIDE})


def summary_table(sides: DataFrame, keys: Keys, sums: Sums, small: SmallGroups) -> DataFrame:
    """One row for each segment: keys, `level` and the columns of `schemas.SEGMENT_SUMMARY`."""
    level = [*keys.by_columns, "level"]
    within = sides.groupBy(*level).agg(
        defined_auc(F.sum("inside").cast("double"), F.sum(sums.product("positives", "negatives")).cast("double")).alias(
            "within_auc"
        )
    )
    P, N, P_out, N_out = (F.col(n) for n in ("positives", "negatives", "outside_positives", "outside_negatives"))
    inside, bpsn, bnsp, rest = (F.col(name).cast("double") for name in ("inside", "bpsn", "bnsp", "rest"))
    all_pairs = F.col("all_positives") * F.col("all_negatives")
    crossing = (bnsp + bpsn) / 2.0 - F.col("within_auc") * (P * N_out + N * P_out)
    values = {
        "prevalence": ratio(P, P + N),
        "subgroup_auc": defined_auc(inside, P * N),
        "bpsn_auc": defined_auc(bpsn, P_out * N),
        "bnsp_auc": defined_auc(bnsp, P * N_out),
        "leave_one_out_auc": defined_auc(rest, P_out * N_out),
        "gap_contribution": defined_auc(crossing, all_pairs),
    }
    causes = {
        reason("positives"): P == 0,
        reason("negatives"): N == 0,
        "no positives outside": P_out == 0,
        "no negatives outside": N_out == 0,
        NO_PAIRS_INSIDE: F.col("within_auc").isNull(),
    }
    table = join_on(sides, within, level).select(
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


def gap_table(sides: DataFrame, keys: Keys, sums: Sums, small: SmallGroups) -> DataFrame:
    """One row for each level: `by..., level` and the columns of `schemas.SEGMENT_GAP`."""
    level = [*keys.by_columns, "level"]
    P, N = F.col("positives"), F.col("negatives")
    auc = defined_auc(F.col("inside").cast("double"), P * N)
    shown = sides.withColumn("auc", F.when(F.col("rows") >= small.least, auc))
    weight = F.when(F.col("auc").isNotNull(), P + N)
    positives = F.when(F.col("auc").isNotNull(), P)
    found = shown.groupBy(*level).agg(
        *(F.max(f"all_{name}").alias(f"all_{name}") for name in ("rows", "positives", "negatives")),
        F.max("all_wins").cast("double").alias("all_wins"),
        F.sum("inside").cast("double").alias("within_wins"),
        F.sum(sums.product(P, N)).cast("double").alias("within_pairs"),
        F.sum("bnsp").cast("double").alias("between_wins"),
        F.sum(sums.product(P, "outside_negatives")).cast("double").alias("between_pairs"),
        F.min("auc").alias("smallest_auc"),
        F.max("auc").alias("largest_auc"),
        ratio(sums.total(F.col("auc")), F.count("auc")).alias("mean_auc"),
        ratio(sums.total(weight * F.col("auc")), F.sum(weight)).alias("gauc"),
        ratio(sums.total(positives * F.col("auc")), F.sum(positives)).alias("gauc_positives"),
        F.count("*").alias("segments"),
        F.count("auc").alias("defined_segments"),
    )
    ranked = join_on(found, _value_aucs(sides, keys, sums), level)
    all_pairs = F.col("all_positives") * F.col("all_negatives")
    causes = {
        reason("positives"): F.col("all_positives") == 0,
        reason("negatives"): F.col("all_negatives") == 0,
        NO_PAIRS_INSIDE: F.col("within_pairs") == 0,
        "no pairs between segments": F.col("between_pairs") == 0,
        f"{small.reason} in every segment with both classes": (F.col("within_pairs") > 0)
        & (F.col("defined_segments") == 0),
        "scores without a mean": F.col("unranked"),
    }
    total = defined_auc(F.col("all_wins"), all_pairs)
    table = ranked.select(
        *level,
        F.col("all_rows").alias("rows"),
        F.col("all_positives").alias("positives"),
        F.col("all_negatives").alias("negatives"),
        *("segments", "defined_segments"),
        total.alias("total_auc"),
        defined_auc(F.col("within_wins"), F.col("within_pairs")).alias("within_auc"),
        ratio(F.col("within_pairs"), all_pairs).alias("within_share"),
        defined_auc(F.col("between_wins"), F.col("between_pairs")).alias("between_auc"),
        ratio(F.col("between_pairs"), all_pairs).alias("between_share"),
        *("smallest_auc", "largest_auc", "mean_auc", "gauc", "gauc_positives"),
        _position(total, sums).alias("total_position"),
        *("segment_score_auc", "segment_prevalence_auc"),
        _listed(causes).alias("cause"),
    )
    return small.emptied(table.withColumn("reason", _reason(GAP_VALUES)).drop("cause"), F.col("rows"), GAP_VALUES)


def _position(total: Column, sums: Sums) -> Column:
    """Where the total is among its segments."""
    slack = WEIGHTED_TOLERANCE if sums.weighted else 0.0
    smallest, largest = F.col("smallest_auc"), F.col("largest_auc")
    place = (
        F.when(total > largest + slack, "above")
        .when(total < smallest - slack, "below")
        .when(largest - smallest <= slack, "equal")
        .otherwise("between")
    )
    return F.when(total.isNotNull() & smallest.isNotNull(), place)


def _value_aucs(sides: DataFrame, keys: Keys, sums: Sums) -> DataFrame:
    """AUC of the rows of each level if each had its segment's mean score, or its segment's prevalence, for a score.

    Returns
    -------
    `by..., level, segment_score_auc, segment_prevalence_auc`, and `unranked`: whether a segment has no mean score.
    """
    level = [*keys.by_columns, "level"]
    P, N = F.col("positives"), F.col("negatives")
    mean = ratio(F.col(SCORE_SUM.name), P + N)
    values = {"segment_score_auc": mean, "segment_prevalence_auc": ratio(P, P + N)}
    kinds = (F.struct(F.lit(kind).alias("kind"), value.alias("value")) for kind, value in values.items())
    weighed = sides.where(P + N > 0).select(
        *level, *(side.cast(sums.count).alias(name) for name, side in (("p", P), ("n", N))), F.inline(F.array(*kinds))
    )
    ends = weighed.groupBy(*level, "kind").agg(
        F.min("value").alias("least"), F.max("value").alias("largest"), F.max(F.isnan("value")).alias("unranked")
    )
    width = F.col("largest") - F.col("least")
    place = F.floor(BUCKETS * ((F.col("value") - F.col("least")) / width))
    bucket = F.when((width > 0) & (width < float("inf")), place).otherwise(0)
    ranking = [*level, "kind"]
    tied = (
        join_on(weighed, ends, ranking)
        .groupBy(*ranking, bucket.alias("bucket"), "value")
        .agg(F.sum("p").alias("p"), F.sum("n").alias("n"), F.max("unranked").alias("unranked"))
    )

    def below(name: str, group: list[str], order: str) -> Column:
        window = Window.partitionBy(*group).orderBy(order).rowsBetween(Window.unboundedPreceding, -1)
        return F.coalesce(F.sum(name).over(window), F.lit(0)).cast(sums.count)

    in_bucket = tied.withColumn("below", below("n", [*ranking, "bucket"], "value"))
    buckets = in_bucket.groupBy(*ranking, "bucket").agg(
        *(F.sum(name).alias(name) for name in ("p", "n")),
        F.sum((sums.product("p", "below") * 2 + sums.product("p", "n")).cast(sums.wins)).alias("wins"),
        F.max("unranked").alias("unranked"),
    )
    in_all = buckets.withColumn("below", below("n", ranking, "bucket"))
    wins = F.sum((F.col("wins") + sums.product("p", "below") * 2).cast(sums.wins)).cast("double")
    pairs = F.sum("p").cast("double") * F.sum("n").cast("double")
    aucs = in_all.groupBy(*ranking).agg(
        F.when(~F.max("unranked"), defined_auc(wins, pairs)).alias("auc"), F.max("unranked").alias("unranked")
    )
    found = aucs.groupBy(*level).agg(
        *(F.max(F.when(F.col("kind") == kind, F.col("auc"))).alias(kind) for kind in values),
        F.max("unranked").alias("unranked"),
    )
    # A level whose rows all weigh nothing has no segment to rank.
    empty = sides.select(*level).distinct()
    return join_on(empty, found, level, "left").withColumn("unranked", F.coalesce("unranked", F.lit(False)))


def _listed(causes: dict[str, Column]) -> Column:
    """The causes that hold, one after the other; empty where none does."""
    return F.concat_ws("; ", *(F.when(holds, cause) for cause, holds in causes.items()))


def _reason(values: Sequence[str]) -> Column:
    """Why values of a row are NULL; NULL where none is."""
    some = F.lit(False)
    for name in values:
        some = some | F.col(name).isNull()
    return F.when(some, F.when(F.col("cause") != "", F.col("cause")).otherwise(TOO_SMALL))
