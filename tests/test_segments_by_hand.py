"""Subset versus total of a few rows: a toy by hand, ties by rounding, infinite scores, tiny weights, names."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from settings import session_settings

import sparkmetrics as sm


def test_toy(spark: SparkSession) -> None:
    rows = [("A", 0.09, 0), ("A", 0.5, 1), ("A", 0.7, 0), ("B", 0.095, 0), ("B", 0.41, 1), ("B", 0.42, 0)]
    frame = spark.createDataFrame(rows, "subset string, score double, label int")
    ev = sm.evaluate(frame, segments=["subset"], label="label", score="score", levels=[["subset"]])
    pairs = {(r["positive_segment"][-1], r["negative_segment"][-1]): r for r in ev.segment_auc().collect()}
    parts = {key: (row["pairs"], row["auc"]) for key, row in pairs.items()}
    assert parts == {("A", "A"): (2, 0.5), ("B", "B"): (2, 0.5), ("A", "B"): (2, 1.0), ("B", "A"): (2, 0.5)}
    (gap,) = ev.segment_gap().collect()
    assert gap["total_auc"] == 0.625 == (2 * 0.5 + 2 * 0.5 + 4 * 0.75) / 8
    assert (gap["within_auc"], gap["within_share"]) == (0.5, 0.5)
    assert (gap["between_auc"], gap["between_share"]) == (0.75, 0.5)
    assert gap["total_position"] == "above"
    assert [row["gap_contribution"] for row in ev.segment_summary().collect()] == [0.0625, 0.0625]


def gap_of(spark: SparkSession, rows: Sequence[tuple[Any, ...]]) -> dict[str, Any]:
    frame = spark.createDataFrame(rows, "seg string, y int, p double, w double")
    (gap,) = (
        sm.evaluate(frame, segments=["seg"], label="y", score="p", weight="w", levels="each").segment_gap().collect()
    )
    return gap.asDict()


def test_values_that_differ_by_rounding_alone_are_tied(spark: SparkSession) -> None:
    # In doubles 3 times 0.95, over 3, is not 0.95, and a third of 3 tenths is not that of 9.
    rows = [(name, int(y % 3 == 0), 0.95, 0.1) for name, size in (("a", 3), ("b", 9), ("c", 6)) for y in range(size)]
    gap = gap_of(spark, rows)
    assert (gap["segment_score_auc"], gap["segment_prevalence_auc"]) == (0.5, 0.5)
    frame = spark.createDataFrame([*rows, ("d", 0, 0.95, 1.0)], "seg string, y int, p double, w double")
    ev = sm.evaluate(frame, segments=["seg"], label="y", score="p", levels="each")
    assert ev.segment_gap().first()["segment_score_auc"] == 0.5


def test_scores_without_a_mean(spark: SparkSession) -> None:
    rows = [("a", 1, math.inf, 1.0), ("a", 0, -math.inf, 1.0), ("b", 1, 0.5, 1.0), ("b", 0, 0.5, 1.0)]
    gap = gap_of(spark, rows)
    assert (gap["segment_score_auc"], gap["segment_prevalence_auc"]) == (None, 0.5)
    assert (gap["reason"], gap["total_auc"]) == ("scores without a mean", (2 + 0.5 + 1) / 4)
    # One infinite score is a mean above all others.
    assert gap_of(spark, [("a", 1, math.inf, 1.0), *rows[2:]])["segment_score_auc"] == (1 + 0.5) / 2


def test_weights_too_small_to_multiply(spark: SparkSession) -> None:
    rows = [("a", 1, 0.9), ("a", 0, 0.1), ("b", 1, 0.8), ("b", 0, 0.7)]
    frame = spark.createDataFrame([(*row, 1e-200) for row in rows], "seg string, y int, p double, w double")
    ev = sm.evaluate(frame, segments=["seg"], label="y", score="p", weight="w", levels="each")
    (gap,) = ev.segment_gap().collect()
    assert (gap["total_auc"], gap["within_auc"], gap["reason"]) == (None, None, "weights too small to multiply")
    for row in ev.segment_summary().collect():
        assert (row["prevalence"], row["subgroup_auc"], row["reason"]) == (0.5, None, "weights too small to multiply")


def test_names_tell_segments_apart(spark: SparkSession) -> None:
    """Bytes that are no text, and the hour that is there twice when summer ends."""
    rows = [(b"\xff", "2026-10-25 00:30:00", 1, 0.5), (b"\xfe", "2026-10-25 01:30:00", 0, 0.5)]
    frame = spark.createDataFrame(rows, "raw binary, at string, y int, p double")
    frame = frame.withColumn("at", F.to_timestamp(F.concat("at", F.lit(" UTC")), "yyyy-MM-dd HH:mm:ss VV"))
    with session_settings(spark, {"spark.sql.session.timeZone": "Europe/Berlin"}):
        ev = sm.evaluate(frame, segments=["raw", "at"], label="y", score="p", levels="each")
        names = {row["positive_segment"] for row in ev.segment_auc().collect()}
    assert names == {
        *("raw=0xff", "raw=0xfe", "at=2026-10-25 02:30:00", "at=2026-10-25 02:30:00+01:00"),
    }


def test_one_far_segment_does_not_spoil_the_ranking_of_the_others(spark: SparkSession) -> None:
    rows = [(f"s{i}", y, i / 100, 1.0) for i in range(100) for y in (0, 1) if y or i % 2]
    expected = [(p, y) for _, y, p, _ in rows]
    pairs = [(p > n) + (p == n) / 2 for p, y in expected for n, z in expected if y and not z]
    pairs += [1.0] * sum(not y for _, y in expected)
    gap = gap_of(spark, [*rows, ("far", 1, 1e9, 1.0)])
    assert gap["segment_score_auc"] == pytest.approx(sum(pairs) / len(pairs), rel=0, abs=1e-12)
