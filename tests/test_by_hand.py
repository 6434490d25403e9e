"""Values by hand where others mislead: precision of rare positives, rankings of a million, counts of billions."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import sparkmetrics as sm
from sparkmetrics.metrics import binary
from sparkmetrics.metrics.counts import Cells

COLUMNS = "label int, score double, weight double"


def values_of(evaluation: sm.Evaluation) -> dict[str, Any]:
    """The metrics of the only group."""
    return {row["metric"]: row["value"] for row in evaluation.metrics().collect()}


def test_means_of_precision_and_recall_differ() -> None:
    cells = Cells(tp=5.0, fp=95.0, fn=0.0, tn=100.0)
    assert (binary.precision(cells), binary.recall(cells)) == (0.05, 1.0)
    assert binary.precision_recall_mean(cells) == 0.525
    assert binary.precision_recall_min(cells) == 0.05
    assert binary.f1(cells) == pytest.approx(0.0952380952, abs=1e-10)
    assert binary.fowlkes_mallows(cells) == pytest.approx(0.2236067977, abs=1e-10)


def test_a_small_false_positive_rate_of_many_is_many_false_alarms() -> None:
    cells = Cells(tp=95.0, fp=50_000.0, fn=5.0, tn=950_000.0)
    assert (binary.recall(cells), binary.fpr(cells)) == (0.95, 0.05)
    assert binary.precision(cells) == 95 / 50_095


@pytest.mark.usefixtures("compiled")
def test_a_high_auc_of_rare_positives_hides_a_low_average_precision(spark: SparkSession) -> None:
    rank = F.col("id")
    frame = spark.range(1, 1_000_101).select(
        (-rank).cast("double").alias("score"), rank.between(50_001, 50_100).alias("label")
    )
    wanted = ["roc_auc", "average_precision", "precision_at_50000", "recall_at_50100", "precision_at_50100"]
    found = values_of(sm.evaluate(frame, label="label", score="score", top_k=[50_000, 50_100], metrics=wanted))
    assert found["roc_auc"] == 0.95
    assert found["average_precision"] == pytest.approx(0.001008648636924952, rel=0, abs=1e-15)
    assert (found["precision_at_50000"], found["recall_at_50100"]) == (0.0, 1.0)
    assert found["precision_at_50100"] == 100 / 50_100


BILLIONS = [(3e9, 3e9, 3e9, 3e9), (6e9, 3e9, 3e9, 6e9), (4e9, 1e9, 2e9, 9e9)]
"""tp, fp, fn, tn."""


def test_cells_of_billions(spark: SparkSession) -> None:
    rows = [
        (case, *row)
        for case, (tp, fp, fn, tn) in enumerate(BILLIONS)
        for row in ((1, 0.9, tp), (0, 0.9, fp), (1, 0.1, fn), (0, 0.1, tn))
    ]
    frame = spark.createDataFrame(rows, f"case int, {COLUMNS}")
    wanted_metrics = ["cohen_kappa", "mcc", "roc_auc", "dor"]
    columns = {"by": ["case"], "label": "label", "score": "score", "weight": "weight"}
    found: list[dict[str, Any]] = [{} for _ in BILLIONS]
    for row in sm.evaluate(frame, **columns, metrics=wanted_metrics).metrics().collect():
        found[row["case"]][row["metric"]] = row["value"]
    for values, counts in zip(found, BILLIONS, strict=True):
        small = Cells(*map(Fraction, counts))
        P, N, W, called, left = (
            *(small.positives, small.negatives, small.weight),
            *(small.predicted_positives, small.predicted_negatives),
        )
        kappa = 1 - (small.fp + small.fn) * W / (called * N + left * P)
        margins = called * left * P * N
        mcc = float(small.tp * small.tn - small.fp * small.fn) / float(margins) ** 0.5
        auc = (2 * small.tp * small.tn + small.tp * small.fp + small.fn * small.tn) / (2 * P * N)
        wanted = {"cohen_kappa": kappa, "mcc": mcc, "roc_auc": auc, "dor": small.tp * small.tn / (small.fp * small.fn)}
        assert {name: values[name] for name in wanted} == pytest.approx(
            {name: float(value) for name, value in wanted.items()}, abs=1e-12
        )
    assert [found[0][name] for name in ("cohen_kappa", "mcc", "roc_auc")] == [0.0, 0.0, 0.5]


def test_one_positive_in_billions_keeps_its_digits(spark: SparkSession) -> None:
    """The prevalence as score saves nothing, however rare the positives."""
    prevalence = 1e-9
    rows = [(1, prevalence, 1.0), (0, prevalence, 1e9 - 1.0)]
    frame = spark.createDataFrame(rows, COLUMNS)
    wanted = ["log_loss_skill", "brier_skill", "mean_score_minus_prevalence"]
    found = values_of(sm.evaluate(frame, label="label", score="score", weight="weight", metrics=wanted))
    assert found["log_loss_skill"] == pytest.approx(0.0, abs=1e-12)
    assert found["brier_skill"] == pytest.approx(0.0, abs=1e-12)
    assert found["mean_score_minus_prevalence"] == pytest.approx(0.0, abs=1e-15)


def test_a_top_of_all_rows_holds_positives_that_sums_lose(spark: SparkSession) -> None:
    rows = [(0, 0.9, 1e9), (0, 0.5, 1e9), (1, 0.1, 1e-9)]
    frame = spark.createDataFrame(rows, COLUMNS)
    gains = sm.evaluate(frame, label="label", score="score", weight="weight", buckets=2).gains()
    assert [row["cumulative_gain"] for row in gains.orderBy("bucket").collect()] == [0.0, 1.0]


def test_intervals_depend_on_weights_and_not_on_other_thresholds(spark: SparkSession) -> None:
    """Halves that add up to whole cells are no frequencies; whole weights are, wherever else one cuts."""
    halves = [(1, 0.9, 0.5), (1, 0.8, 0.5), (0, 0.2, 0.5), (0, 0.1, 0.5)]
    frame = spark.createDataFrame([(2 * weight, *row, weight) for *row, weight in halves], f"whole double, {COLUMNS}")
    asked = {"label": "label", "score": "score", "thresholds": [0.5, 0.85], "metrics": ["accuracy"]}
    for weight, shown in (("weight", False), ("whole", True)):
        rows = sm.evaluate(frame, weight=weight, **asked).metrics().collect()
        assert [row["lower"] is not None for row in rows] == [shown, shown], weight
