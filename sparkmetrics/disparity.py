"""How a metric differs between the segments of a level: mean, best, worst, difference, ratio; never the total."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from sparkmetrics.columns import Keys
from sparkmetrics.exact_sums import sum_in_any_order
from sparkmetrics.levels import Level
from sparkmetrics.metrics import Metric, ThresholdMetric
from sparkmetrics.metrics.arithmetic import ratio
from sparkmetrics.segment_names import segment_name

TOO_FEW = "fewer than two segments"

METRIC_KEY = ("metric", "average", "class", "threshold")


def disparity_table(
    rows: DataFrame, keys: Keys, levels: Sequence[Level], names: Sequence[str], metrics: Mapping[str, Metric]
) -> DataFrame:
    """One row for each metric of each level: `by..., level` and the columns of `schemas.SEGMENT_DISPARITY`.

    Parameters
    ----------
    rows : the long table of metrics, under internal names.
    keys : key columns.
    levels, names : segment positions of each level that has segments, and its name.
    metrics : what is known of the metrics, by name.
    """
    metric, value = F.col("metric"), F.col("value")

    def among(names: Iterable[str]) -> Column:
        return metric.isin(list(names))

    at_thresholds = among(name for name, m in metrics.items() if isinstance(m, ThresholdMetric))
    named = rows.where(F.col("level").isin(list(names))).select(
        *keys.by_columns,
        "level",
        *METRIC_KEY[:-1],
        # The threshold where a best value is reached is each segment's own.
        F.when(at_thresholds, F.col("threshold")).alias("threshold"),
        "value",
        F.struct(
            segment_name(keys, levels, names, keys.segment_columns).alias("segment"), "value", "lower", "upper"
        ).alias("item"),
    )

    def first(by: Column) -> Column:
        return F.min_by("item", F.when(value.isNotNull(), F.struct(by, F.col("item.segment"))))

    found = named.groupBy(*keys.by_columns, "level", *METRIC_KEY).agg(
        F.count("value").alias("segments"),
        ratio(sum_in_any_order(value), F.count("value")).alias("macro_mean"),
        first(value).alias("lowest"),
        first(-value).alias("highest"),
    )
    enough = F.col("segments") >= 2
    lowest, highest = F.col("lowest"), F.col("highest")
    is_low, is_high = (among(name for name, m in metrics.items() if m.best == end) for end in ("lowest", "highest"))
    not_negative = among(name for name, m in metrics.items() if m.range[0] >= 0)
    best, worst = (
        F.when(enough & is_low, one).when(enough & is_high, another)
        for one, another in ((lowest, highest), (highest, lowest))
    )
    columns = {
        "macro_mean": F.when(enough, F.col("macro_mean")),
        **{f"best_{name}": best[name] for name in ("segment", "value", "lower", "upper")},
        **{f"worst_{name}": worst[name] for name in ("segment", "value", "lower", "upper")},
        "difference": F.when(enough, highest["value"] - lowest["value"]),
        "ratio": F.when(enough & not_negative, ratio(lowest["value"], highest["value"])),
        "reason": F.when(~enough, TOO_FEW),
    }
    return found.select(
        *keys.by_columns,
        "level",
        *METRIC_KEY,
        "segments",
        *(column.alias(name) for name, column in columns.items()),
    )
