"""Tables by bucket: gain and lift over equal buckets of the ranking, reliability over bins of scores."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from sparkmetrics.columns import Keys
from sparkmetrics.levels import group_columns
from sparkmetrics.metrics.arithmetic import ratio
from sparkmetrics.metrics.list_parts import PositivesInTop, ScoreBins


def gains_table(groups: DataFrame, keys: Keys, tops: PositivesInTop) -> DataFrame:
    """Buckets of equal weight, from the highest scores down; a tie block across an edge is split in proportion.

    Parameters
    ----------
    groups : one row a group, with the combined part `tops`.

    Returns
    -------
    Keys, `level` and the columns of `schemas.GAINS`; nothing for a group whose weights are all 0.
    """
    size, found = tops.buckets, F.col(tops.name)
    weight = F.col("positives") + F.col("negatives")
    buckets = groups.where(weight > 0).select(
        *group_columns(keys),
        F.col("positives").alias("all_positives"),
        weight.alias("weight"),
        F.posexplode(F.slice(found, 1, size)).alias("place", "cumulative_positives"),
        found.alias("found"),
    )
    before = F.when(F.col("place") == 0, 0.0).otherwise(F.get("found", F.col("place") - 1))
    bucket, cumulative = F.col("place") + 1, F.col("cumulative_positives")
    rows, positives = F.col("weight") / size, cumulative - before
    prevalence = F.col("all_positives") / F.col("weight")
    rate, cumulative_rate = positives / rows, cumulative / (F.col("weight") * bucket / size)
    columns = {
        "bucket": bucket,
        "rows": rows,
        "positives": positives,
        "positive_rate": rate,
        "cumulative_positives": cumulative,
        "cumulative_gain": ratio(cumulative, F.col("all_positives")),
        "lift": ratio(rate, prevalence),
        "cumulative_lift": ratio(cumulative_rate, prevalence),
    }
    return buckets.select(*group_columns(keys), *(column.alias(name) for name, column in columns.items()))


def calibration_table(groups: DataFrame, keys: Keys, bins: ScoreBins) -> DataFrame:
    """Mean score and positive rate of each bin that holds weight.

    Parameters
    ----------
    groups : one row a group, with the combined part `bins`.

    Returns
    -------
    Keys, `level` and the columns of `schemas.CALIBRATION`; nothing for a group with a score outside [0, 1].
    """
    found, size = F.col(bins.name), bins.bins
    probabilities = (F.col("least_score") >= 0) & (F.col("largest_score") <= 1)
    place = F.col("place")
    in_bins = groups.where(probabilities).select(
        *group_columns(keys), F.explode(F.sequence(F.lit(0), F.lit(size - 1))).alias("place"), found.alias("found")
    )

    def of_bin(name: str) -> Column:
        return F.get(F.col("found")[name], place)

    weight = of_bin("weight")
    ends = (of_bin("least"), of_bin("largest")) if bins.equal_weight else (place / size, (place + 1) / size)
    return in_bins.where(weight > 0).select(
        *group_columns(keys),
        place.alias("bin"),
        ends[0].alias("bin_lower"),
        ends[1].alias("bin_upper"),
        weight.alias("rows"),
        of_bin("positives").alias("positives"),
        (of_bin("score") / weight).alias("mean_score"),
        (of_bin("positives") / weight).alias("positive_rate"),
    )
