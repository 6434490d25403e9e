"""Averages and ends of a metric over segments: by hand, by direction, and where it is undefined."""

from __future__ import annotations

import random
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import sparkmetrics as sm
from sparkmetrics.exact_sums import sum_in_any_order
from sparkmetrics.metrics.known import known_metrics

# Accuracy at 0.5: a 2 of 2, b 1 of 2, c 1 of 2; c has no positives, so that its recall is undefined.
ROWS = [("a", 1, 0.9), ("a", 0, 0.1), ("b", 1, 0.8), ("b", 0, 0.7), ("c", 0, 0.2), ("c", 0, 0.6)]


@pytest.fixture(scope="module")
def found(spark: SparkSession) -> dict[str, dict[str, Any]]:
    frame = spark.createDataFrame(ROWS, "seg string, y int, p double")
    rows = sm.evaluate(frame, segments=["seg"], label="y", score="p", payoffs={"tp": 1, "fp": -3}).segment_disparity()
    return {row["metric"]: row.asDict() for row in rows.collect()}


def test_of_a_metric_where_high_is_good(found: dict[str, dict[str, Any]]) -> None:
    accuracy = found["accuracy"]
    assert accuracy["level"] == "seg"
    assert (accuracy["segments"], accuracy["threshold"]) == (3, 0.5)
    assert accuracy["macro_mean"] == pytest.approx(2 / 3, rel=0, abs=1e-15)
    assert (accuracy["best_segment"], accuracy["best_value"]) == ("seg=a", 1.0)
    assert (accuracy["worst_segment"], accuracy["worst_value"]) == ("seg=b", 0.5)  # as c: the first name
    assert (accuracy["difference"], accuracy["ratio"], accuracy["reason"]) == (0.5, 0.5, None)
    # Wilson's interval of 1 of 2: centre 1/2, half width z sqrt(1/8 + z^2 / 16) / (1 + z^2 / 2).
    z = 1.959963984540054
    half = z * (1 / 8 + z * z / 16) ** 0.5 / (1 + z * z / 2)
    assert accuracy["worst_lower"] == pytest.approx(0.5 - half, rel=0, abs=1e-12)
    assert accuracy["worst_upper"] == pytest.approx(0.5 + half, rel=0, abs=1e-12)


def test_of_a_metric_where_low_is_good(found: dict[str, dict[str, Any]]) -> None:
    error = found["error_rate"]
    assert (error["best_segment"], error["best_value"]) == ("seg=a", 0.0)
    assert (error["worst_segment"], error["worst_value"]) == ("seg=b", 0.5)
    assert (error["difference"], error["ratio"]) == (0.5, 0.0)


def test_where_neither_end_is_good_nobody_is_best(found: dict[str, dict[str, Any]]) -> None:
    prevalence = found["prevalence"]
    assert (prevalence["best_segment"], prevalence["worst_value"]) == (None, None)
    assert (prevalence["difference"], prevalence["ratio"], prevalence["segments"]) == (0.5, 0.0, 3)


def test_undefined_segments_are_left_out(found: dict[str, dict[str, Any]]) -> None:
    recall = found["recall"]
    assert (recall["segments"], recall["macro_mean"], recall["difference"], recall["ratio"]) == (2, 1.0, 0.0, 1.0)
    auc = found["roc_auc"]
    assert (auc["segments"], auc["macro_mean"], auc["worst_segment"]) == (2, 1.0, "seg=a")


def test_of_one_segment_there_is_nothing_to_say(spark: SparkSession) -> None:
    frame = spark.createDataFrame(ROWS[2:], "seg string, y int, p double")
    rows = sm.evaluate(frame, segments=["seg"], label="y", score="p").segment_disparity().where("metric = 'roc_auc'")
    (auc,) = rows.collect()
    assert (auc["segments"], auc["reason"]) == (1, "fewer than two segments")
    assert {auc[name] for name in ("macro_mean", "best_segment", "worst_value", "difference", "ratio")} == {None}


def test_a_ratio_is_of_metrics_that_cannot_be_negative(found: dict[str, dict[str, Any]]) -> None:
    profit = found["profit"]
    assert (profit["best_segment"], profit["best_value"]) == ("seg=a", 1.0)
    assert (profit["worst_segment"], profit["worst_value"]) == ("seg=c", -3.0)
    assert (profit["difference"], profit["ratio"]) == (4.0, None)
    assert found["ks"]["threshold"] is None


def test_of_classes(spark: SparkSession) -> None:
    rows = [("a", "x", "x"), ("a", "y", "z"), ("b", "x", "x"), ("b", "y", "y"), ("b", "z", "z")]
    frame = spark.createDataFrame(rows, "seg string, y string, guess string")
    ev = sm.evaluate(frame, segments=["seg"], label="y", prediction="guess")
    found = {(r["metric"], r["average"], r["class"]): r for r in ev.segment_disparity().collect()}
    accuracy = found["accuracy", None, None]
    assert (accuracy["best_segment"], accuracy["worst_segment"], accuracy["worst_value"]) == ("seg=b", "seg=a", 0.5)
    assert (found["recall", None, "y"]["best_value"], found["recall", None, "y"]["worst_value"]) == (1.0, 0.0)
    assert found["recall", None, "z"]["reason"] == "fewer than two segments"  # a has no z
    assert found["f1", "macro", None]["best_segment"] == "seg=b"


def test_a_level_is_needed(spark: SparkSession) -> None:
    ev = sm.evaluate(spark.createDataFrame(ROWS, "seg string, y int, p double"), label="y", score="p")
    for name in ("segment_auc", "segment_summary", "segment_gap", "segment_disparity"):
        with pytest.raises(sm.ConfigError, match=f"{name} needs a level with at least one segment column"):
            getattr(ev, name)()
    assert not any(name.startswith("segment_") for name in ev.tables())


def test_every_metric_is_known(spark: SparkSession) -> None:
    """Or its best and worst segments would be missing."""
    rows = [("a", "x", "x", [0.5, 0.3, 0.2]), ("a", "y", "z", [0.1, 0.4, 0.5]), ("b", "z", "z", [0.2, 0.3, 0.5])]
    frame = spark.createDataFrame(rows, "seg string, y string, guess string, p array<double>")
    asked = {"levels": "each", "top_k": (1, 2), "class_costs": {"x": {"y": 2.0}}, "classes": ["x", "y", "z"]}
    of_classes = sm.evaluate(frame, segments=["seg"], label="y", prediction="guess", probabilities="p", **asked)
    two = spark.createDataFrame(ROWS, "seg string, y int, p double")
    asked = {"levels": "each", "top_k": (1, "1%"), "payoffs": {"tp": 1}, "partial_auc": [("fpr", 0, 0.1)]}
    of_scores = sm.evaluate(two, segments=["seg"], label="y", score="p", **asked)
    for ev in (of_classes, of_scores):
        names = {row["metric"] for row in ev.metrics().select("metric").distinct().collect()}
        assert names <= set(known_metrics(ev.options.parameters))


def test_a_mean_is_the_same_in_any_order(spark: SparkSession) -> None:
    numbers = [1e29, 3.3e17, 1e12, 7e-8, -1e29, 2.5, 1e-20, -3.3e17, 0.1, 0.7, 1e-30]
    sums = set()
    for order in range(6):
        random.Random(order).shuffle(numbers)
        frame = spark.createDataFrame([(number,) for number in numbers], "x double").repartition(1 + order % 3)
        sums.add(frame.agg(sum_in_any_order(F.col("x"))).collect()[0][0])
    (found,) = sums
    assert found == pytest.approx(1e12 + 3.3, rel=1e-12)
    tiny = spark.createDataFrame([(1e-20,), (3e-20,)], "x double").agg(sum_in_any_order(F.col("x"))).collect()[0][0]
    assert tiny == pytest.approx(4e-20, rel=1e-12, abs=0)
