"""The one action before an evaluation: samples scores for the cut points, and counts rows by what is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from sparkmetrics import ranges
from sparkmetrics.columns import listed
from sparkmetrics.direct import Scan
from sparkmetrics.errors import DataError, warn
from sparkmetrics.predictions import BAD_ROWS, FAULTS, Predictions
from sparkmetrics.ranges import Sizing


@dataclass(frozen=True)
class RowCounts:
    """What became of the rows of a prediction table (of a wide table: of each model's rows).

    Attributes
    ----------
    read, used : rows.
    dropped : rows by reason; `read` is `used` plus these.
    """

    read: int
    used: int
    dropped: Mapping[str, int]


DRAWN = ("tuple", "reason", "sample", "entry", "group")
"""What rows are counted by first: null but for the tuple on a good row that is not sampled."""


def inspect(
    predictions: Predictions, sizing: Sizing, invalid_rows: str, scan: Scan | None = None
) -> tuple[ranges.Plan, RowCounts]:
    """The one action: takes the sample for the cut points, and counts rows by what is wrong with them.

    Parameters
    ----------
    predictions : from `clean`.
    sizing : how to cut the work.
    invalid_rows : "error" stops at bad rows, "drop" leaves them out and warns.
    scan : how workers read the predictions, where they do.

    Raises
    ------
    DataError : no rows, bad rows under "error", a weight that is negative or above 1e100, a short vector, labels that
        do not fit `positive`.
    """
    good = F.col("reason").isNull()
    pieces = _counted(predictions, sizing) if scan is None else _counted_by_workers(predictions, sizing, scan)
    rows, point = F.col("rows"), F.struct(F.col("sample").alias("score"), F.col("rows"), F.col("group"))
    counted = {name: F.sum(F.when(F.col("reason") == name, rows)) for name in (*BAD_ROWS, *FAULTS)}
    tuples = pieces.groupBy("tuple").agg(
        F.coalesce(F.sum(F.when(good, rows)), F.lit(0)).alias("used"),
        F.collect_list(F.when(good & F.col("sample").isNotNull(), point)).alias("samples"),
        F.size(F.collect_set(F.when(good, F.col("group")))).alias("groups"),
        F.sum("positive_rows").alias("positive_rows"),
        F.sum("inexact").alias("inexact"),
        F.min("least_label").alias("least_label"),
        F.max("largest_label").alias("largest_label"),
        *(total.alias(name) for name, total in counted.items()),
    )
    totals = [F.sum(name).alias(name) for name in ("positive_rows", "inexact", *counted)]
    totals += [F.min("least_label").alias("least_label"), F.max("largest_label").alias("largest_label")]
    sample = ranges.collect_sample(tuples, sizing, totals)
    if scan is not None:
        _check_all_read(sample, scan)
    _check_rows(predictions, sample, invalid_rows)
    _check_labels(predictions, sample)
    dropped = {name: count for name in BAD_ROWS if (count := _sum(sample, name))}
    used = _sum(sample, "used")
    plan = ranges.plan(sample, sizing, ranges.shuffle_partitions(predictions.frame), of_workers=scan is not None)
    return plan, RowCounts(used + sum(dropped.values()), used, dropped)


def _counted(predictions: Predictions, sizing: Sizing) -> DataFrame:
    """Rows by DRAWN, with what is counted of them."""
    good = F.col("reason").isNull()
    negative_label = F.when(good & ~F.col("positive"), F.col("label_hash"))
    sampled = ranges.sampled_rows(predictions.frame, predictions.keys, sizing)
    return sampled.groupBy(*DRAWN).agg(
        F.count("*").alias("rows"),
        F.sum(F.when(good & F.col("positive") & F.col("label_hash").isNotNull(), 1)).alias("positive_rows"),
        F.min(negative_label).alias("least_label"),
        F.max(negative_label).alias("largest_label"),
        F.sum(F.when(good & F.col("inexact"), 1)).alias("inexact"),
    )


def _counted_by_workers(predictions: Predictions, sizing: Sizing, scan: Scan) -> DataFrame:
    """The same, of rows that workers read."""
    counted = scan.counts(predictions.frame.sparkSession, sizing.sample_every)
    sums = (F.sum(name).alias(name) for name in ("rows", "positive_rows", "inexact"))
    ends = (F.min("least_label").alias("least_label"), F.max("largest_label").alias("largest_label"))
    return counted.groupBy(*DRAWN).agg(*sums, *ends)


def _check_all_read(sample: list[Row], scan: Scan) -> None:
    """Raises where workers read other rows than the files' footers promise."""
    read = _sum(sample, "used") + sum(_sum(sample, name) for name in (*BAD_ROWS, *FAULTS))
    if read != scan.pieces.rows:
        raise DataError(f"{scan.pieces.rows} rows were to be read, and {read} were: the files changed. Run again.")


def _sum(sample: list[Row], name: str) -> int:
    return sum(int(row[name] or 0) for row in sample)


def _check_rows(predictions: Predictions, sample: list[Row], invalid_rows: str) -> None:
    """Raises, or warns, about rows that cannot be used."""
    sources = predictions.sources
    found = {name: count for name in (*BAD_ROWS, *FAULTS) if (count := _sum(sample, name))}
    blamed, faults = (
        "; ".join(f"{found[name]} x {name} (column {sources[role]!r})" for name, role in roles.items() if name in found)
        for roles in (BAD_ROWS, FAULTS)
    )
    if faults:
        raise DataError(
            f"Rows that make no sense: {faults}. Weights are 0 to 1e100, so that their products are numbers, and the "
            "score is element 1 of its vector. Mend or filter these rows."
        )
    if blamed and invalid_rows == "error":
        raise DataError(f"Rows that cannot be evaluated: {blamed}. Mend or filter them, or set invalid_rows='drop'.")
    if _sum(sample, "used") == 0:
        raise DataError(f"No rows to evaluate: {'all were dropped: ' + blamed if blamed else 'the table is empty'}.")
    if blamed:
        warn(f"Dropped rows that cannot be evaluated: {blamed}.")
    if inexact := _sum(sample, "inexact"):
        warn(
            f"{inexact} scores (column {sources['score']!r}) have more digits than a double holds: they become the "
            "nearest double, and scores that differ only there become ties.",
        )


def _check_labels(predictions: Predictions, sample: list[Row]) -> None:
    """Raises where the labels are not two of which one is positive; warns where one other label is alone."""
    least = [row["least_label"] for row in sample if row["least_label"] is not None]
    largest = [row["largest_label"] for row in sample if row["largest_label"] is not None]
    if not least:
        return
    name, positive = predictions.sources["label"], predictions.sources["positive"]
    others_differ, none_positive = min(least) != max(largest), _sum(sample, "positive_rows") == 0
    if not others_differ and not none_positive:
        return
    seen = predictions.frame.where(F.col("label_hash").isNotNull() & F.col("reason").isNull())
    labels = [row[0] for row in seen.select("label").distinct().limit(21).collect()]
    found = listed(sorted(labels, key=str))
    if others_differ and none_positive:
        raise DataError(
            f"Label column {name!r}: none of its labels is positive={positive!r}. Labels found: {found}. Set positive "
            "to one of them."
        )
    if others_differ:
        raise DataError(
            f"Label column {name!r} has more than two labels: {found}. Two are expected, one of them "
            f"positive={positive!r}. Filter the rows, or map the labels to two."
        )
    warn(
        f"Label column {name!r} has only {found} and never positive={positive!r}: all rows are negative.",
    )
