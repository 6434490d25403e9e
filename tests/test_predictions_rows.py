"""Rows of a prediction table: bad ones, those of weight 0 or hardly more, and scores that are no probabilities."""

from __future__ import annotations

import math
from typing import Any

import pytest
from prediction_tables import INF, NAN, state, values_of
from pyspark.sql import Row, SparkSession

import sparkmetrics as sm
from sparkmetrics.metrics import Parameters, score_metrics, threshold_metrics

BAD = [
    (None, 0.5, 1.0, "null label"),
    (NAN, 0.5, 1.0, "NaN label"),
    (1.0, None, 1.0, "null score"),
    (1.0, None, 1.0, "null score"),
    (0.0, NAN, 1.0, "NaN score"),
    (0.0, 0.5, None, "null weight"),
    (1.0, 0.5, NAN, "NaN weight"),
    (None, None, NAN, "null label"),  # the first reason that holds is the row's
]
GOOD = [(1.0, 0.9, 2.0, None), (0.0, 0.9, 1.0, None), (0.0, 0.2, 1.0, None)]
ROWS = "`the label` double, `the score` double, `the weight` double, why string"
ROLES = {"label": "the label", "score": "the score", "weight": "the weight"}


def test_bad_rows_stop_with_counts_by_reason(spark: SparkSession) -> None:
    with pytest.raises(sm.DataError) as error:
        sm.score_counts(spark.createDataFrame(GOOD + BAD, ROWS), **ROLES)
    for name, count in {name: sum(row[3] == name for row in BAD) for *_, name in BAD}.items():
        assert f"{count} x {name} (column '{ROLES[name.split()[1]]}')" in str(error.value)
    assert "invalid_rows='drop'" in str(error.value)


def test_bad_rows_are_dropped_counted_and_warned_about(spark: SparkSession) -> None:
    with pytest.warns(sm.SparkMetricsWarning, match=r"Dropped rows .*: 2 x null label \(column 'the label'\); 1 x NaN"):
        counts = sm.score_counts(spark.createDataFrame(GOOD + BAD, ROWS), **ROLES, invalid_rows="drop")
    assert (counts.row_counts.read, counts.row_counts.used) == (len(GOOD + BAD), len(GOOD))
    assert counts.row_counts.dropped == {
        "null label": 2,
        "NaN label": 1,
        "null score": 2,
        "NaN score": 1,
        "null weight": 1,
        "NaN weight": 1,
    }
    assert state(counts) == {(): {0.9: (2.0, 1.0), 0.2: (0.0, 1.0)}}


@pytest.mark.parametrize("policy", ["error", "drop"])
def test_weights_below_zero_or_infinite_are_errors_under_any_policy(spark: SparkSession, policy: str) -> None:
    rows = [(1.0, 0.5, -1e-9, ""), (0.0, 0.5, -INF, ""), (0.0, 0.5, INF, ""), *GOOD]
    message = r"2 x negative weight \(column 'the weight'\); 1 x weight above 1e100 \(column 'the weight'\)"
    with pytest.raises(sm.DataError, match=message):
        sm.score_counts(spark.createDataFrame(rows, ROWS), **ROLES, invalid_rows=policy)


def test_nothing_to_evaluate(spark: SparkSession) -> None:
    frame = spark.createDataFrame(BAD[:1], ROWS)
    with pytest.raises(sm.DataError, match="No rows to evaluate: the table is empty"):
        sm.score_counts(frame.limit(0), **ROLES, by=["why"])
    with pytest.raises(sm.DataError, match=r"all were dropped: 1 x null label \(column 'the label'\)"):
        sm.score_counts(frame, **ROLES, by=["why"], invalid_rows="drop")


def test_rows_of_weight_0_change_nothing(spark: SparkSession) -> None:
    rows = [(1, 0.9, 0.5), (0, 0.9, 1.5), (1, 0.6, 2.0), (0, 0.4, 1.0), (1, 0.4, 0.25), (0, 0.1, 0.75)]
    # Neither a new score, nor a third label, nor a score that is no probability counts at weight 0.
    nothing = [(1, 0.95, 0.0), (0, 0.5, 0.0), (7, 0.6, 0.0), (0, -3.0, 0.0), (1, INF, -0.0)]
    table = [("plain", "a", *row) for row in rows] + [("padded", "a", *row) for row in rows + nothing]
    table += [("padded", "empty", *row) for row in nothing]
    ev = sm.evaluate(
        spark.createDataFrame(table, "case string, s string, y int, p double, w double"),
        by=["case"],
        segments=["s"],
        label="y",
        score="p",
        weight="w",
        thresholds=[0.5],
        curve_points=None,
    )

    def of(rows: list[Row], case: str, level: str, s: str | None) -> list[dict[str, Any]]:
        chosen = (r for r in rows if (r["case"], r["level"], r["s"]) == (case, level, s))
        return sorted(
            (
                {k: v for k, v in r.asDict().items() if k not in ("case", "level", "s", "run_id", "rows")}
                for r in chosen
            ),
            key=str,
        )

    metrics, curves = ev.metrics().collect(), ev.curves().collect()
    for table in (metrics, curves):
        for level, s in (("total", None), ("s", "a")):
            assert of(table, "padded", level, s) == of(table, "plain", level, s)
            assert of(table, "plain", level, s)
    counted = {(r["case"], r["level"], r["s"]): r["rows"] for r in metrics}
    assert counted["plain", "total", None] == 6  # rows are the rows that were read, whatever they weigh
    assert counted["padded", "total", None] == 16
    assert counted["padded", "s", "empty"] == 5

    empty = of(metrics, "padded", "s", "empty")
    assert {r["metric"] for r in empty} == set(threshold_metrics(Parameters())) | set(score_metrics(Parameters()))
    assert all(r["value"] is None and r["reason"].startswith("no ") for r in empty)
    assert {r["positives"] for r in empty} == {r["negatives"] for r in empty} == {0.0}
    assert of(curves, "padded", "s", "empty") == []


def test_scores_that_are_no_probabilities_rank(spark: SparkSession) -> None:
    cases = {
        "infinite": [(1, INF), (0, 3.0), (1, 0.5), (0, -INF)],
        "one score": [(1, INF), (1, INF), (0, INF)],
        "above": [(1, 1.0 + 2**-52), (0, 0.5)],
        "below": [(1, 0.5), (0, -5e-324)],
        "edges": [(1, 1.0), (0, 0.0)],
        "zeros": [(1, 0.0), (0, -0.0)],
    }
    ev = sm.evaluate(
        spark.createDataFrame(
            [(case, *row) for case, rows in cases.items() for row in rows], "c string, y int, p double"
        ),
        by=["c"],
        label="y",
        score="p",
        thresholds=[INF, -INF],
        curve_points=None,
    )
    metrics = ev.metrics().collect()
    values = values_of(metrics, "c")
    auc = {case: values[case,]["roc_auc"] for case in cases}
    assert auc == {"infinite": 0.75, "one score": 0.5, "above": 1.0, "below": 1.0, "edges": 1.0, "zeros": 0.5}
    assert values["infinite",]["average_precision"] == (1 + 2 / 3) / 2
    assert values["infinite",]["recall@inf"] == 0.5
    assert values["infinite",]["fpr@-inf"] == 1.0
    reasons = {(r["c"], r["metric"]): r["reason"] for r in metrics if r["metric"] in ("brier", "log_loss")}
    for case in cases:
        undefined = case in ("infinite", "one score", "above", "below")
        for metric in ("brier", "log_loss"):
            assert reasons[case, metric] == ("scores outside [0, 1]" if undefined else None)
            assert (values[case,][metric] is None) == undefined
    assert values["edges",]["brier"] == 0.0

    curves: dict[str, list[tuple[float, ...]]] = {case: [] for case in cases}
    for row in ev.curves().orderBy("c", "point").collect():
        curves[row["c"]].append((row["threshold"], row["tp"], row["fp"]))
    assert curves["infinite"] == [(INF, 0, 0), (INF, 1, 0), (3.0, 1, 1), (0.5, 2, 1), (-INF, 2, 2)]
    assert curves["zeros"] == [(INF, 0, 0), (0.0, 1, 1)]
    assert math.copysign(1, curves["zeros"][1][0]) == 1.0


def test_weights_whose_products_vanish_are_undefined_with_a_reason(spark: SparkSession) -> None:
    rows = [(case, y, s, w) for case, w in (("tiny", 1e-200), ("small", 1e-100)) for y, s in ((1, 0.9), (0, 0.2))]
    frame = spark.createDataFrame(rows, "case string, y int, s double, w double")
    found = sm.evaluate(frame, by=["case"], label="y", score="s", weight="w").metrics()
    auc = {row["case"]: (row["value"], row["reason"]) for row in found.where("metric = 'roc_auc'").collect()}
    assert auc == {"tiny": (None, "weights too small to multiply"), "small": (1.0, None)}
    unexplained = found.where("value is null and reason is null or isnan(value)").count()
    assert unexplained == 0
