"""Two predicted classes or more: which one is positive, four cells of one class, and a score beside a prediction."""

from __future__ import annotations

from typing import Any

import pytest
from prediction_tables import table
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, DoubleType, IntegerType, StringType
from results import metrics_by_key

import sparkmetrics as sm
from sparkmetrics.states import positive_class


@pytest.mark.parametrize(
    ("seen", "positive", "alone", "scored"),
    [
        ("0 1", 1, "1", "1"),
        ("0 1", 0, "0", "0"),
        ("0 1", True, "1", "1"),
        ("0 1", 1.0, "1", "1"),
        ("0", 1, "1", "1"),
        ("0", True, "1", "1"),
        ("1", 1, "1", "1"),
        ("-1 1", 1, "1", "1"),
        ("-1", 1, "1", "1"),
        ("-1 1", -1, "-1", "-1"),
        ("false true", 1, "true", "true"),
        ("false true", True, "true", "true"),
        ("false true", False, "false", "false"),
        ("false true", 0, "false", "false"),
        ("false", 1, "true", "true"),
        ("no yes", "yes", "yes", "yes"),
        ("yes", "yes", "yes", "yes"),
        ("no", "yes", None, "yes"),
        ("no yes", 1, None, "1"),
        ("1 2", 1, "1", "1"),
        ("1 2", 2, "2", "2"),
        ("2 3", 1, None, "1"),
        ("0 1 2", 1, None, "1"),
        ("no perhaps yes", "yes", None, "yes"),
    ],
)
def test_two_classes_have_a_positive_one(seen: str, positive: Any, alone: str | None, scored: str) -> None:
    assert positive_class(set(seen.split()), positive) == alone
    assert positive_class(set(seen.split()), positive, scored=True) == scored


def cells(frame: DataFrame) -> dict[float | None, tuple[float, ...]]:
    return {row["threshold"]: (row["tp"], row["fp"], row["fn"], row["tn"]) for row in frame.collect()}


def test_one_class_has_four_cells(spark: SparkSession) -> None:  # B030, B031
    """A day on which only one class was seen, and a guesser of the majority."""
    days = {
        "ones": [(1, 1, 6)],
        "zeros": [(0, 0, 6)],
        "minus": [(-1, -1, 6)],
        "majority": [(0, 0, 3), (1, 0, 1)],
    }
    rows = [(day, y, p) for day, counts in days.items() for y, p, n in counts for _ in range(n)]
    frame = table(spark, rows, day=StringType(), y=IntegerType(), guess=IntegerType())
    wanted = {"ones": (6, 0, 0, 0), "zeros": (0, 0, 0, 6), "minus": (0, 0, 0, 6), "majority": (0, 0, 1, 3)}
    for day, four in wanted.items():
        evaluation = sm.evaluate(frame.where(F.col("day") == day), label="y", prediction="guess")
        assert cells(evaluation.confusion()) == {None: four}
        if day in ("zeros", "majority"):
            found = metrics_by_key(evaluation)
            values = {n: found[n, None, None, None]["value"] for n in ("precision", "recall", "f1", "accuracy")}
            if day == "majority":
                assert values == {"precision": None, "recall": 0.0, "f1": 0.0, "accuracy": 0.75}
            else:
                assert values == {"precision": None, "recall": None, "f1": None, "accuracy": 1.0}
                assert found["recall", None, None, None]["reason"] == "no positives"


@pytest.mark.parametrize("positive", [1, pytest.param(True, marks=pytest.mark.slow)])
def test_score_and_prediction_together(spark: SparkSession, positive: Any) -> None:
    rows = [(True, 0.9, 1), (False, 0.6, 0), (True, 0.3, 1), (False, 0.1, 1), (False, 0.4, 0)]
    frame = table(spark, rows, y=BooleanType(), s=DoubleType(), guess=IntegerType())
    asked = {
        **{"positive": positive, "thresholds": [0.5, 0.2], "payoffs": {"tp": 2}},
        "metrics": ["accuracy", "profit", "roc_auc", "recall", "mcc"],
    }
    both = sm.evaluate(frame, label="y", score="s", prediction="guess", **asked)
    assert cells(both.confusion()) == {0.5: (1, 1, 1, 2), 0.2: (2, 2, 0, 1), None: (2, 1, 0, 2)}
    assert set(cells(both.confusion([0.95]))) == {0.95, None}
    found = metrics_by_key(both)
    assert [found["accuracy", None, None, t]["value"] for t in (0.5, 0.2, None)] == [0.6, 0.6, 0.8]
    assert [found["profit", None, None, t]["value"] for t in (0.5, 0.2, None)] == [2, 4, 4]
    assert found["roc_auc", None, None, None]["value"] == 4 / 6
    assert found["recall", None, "1", None]["value"] == 1
    assert found["mcc", None, None, None]["value"] == pytest.approx(2 / 3)
    assert set(both.tables()) == {"metrics", "confusion", "curves", "gains", "calibration", "class_counts"}


def test_more_than_two_classes_have_no_positive_one(spark: SparkSession) -> None:
    rows = [("0", "0"), ("1", "2"), ("1", "1")]
    evaluation = sm.evaluate(table(spark, rows, y=StringType(), guess=StringType()), label="y", prediction="guess")
    found = metrics_by_key(evaluation)
    assert ("recall", None, None, None) not in found
    assert {key[2] for key in found} == {None, "0", "1", "2"}
    assert found["recall", "macro", None, None]["value"] == 0.5
    with pytest.raises(sm.ConfigError, match="confusion needs two classes"):
        evaluation.confusion()


def test_predictions_that_are_never_a_label_are_told(spark: SparkSession) -> None:
    frame = table(spark, [("1", True), ("0", False)], y=StringType(), guess=BooleanType())
    with pytest.warns(sm.SparkMetricsWarning, match="No prediction is ever a label: the labels are '0', '1', the"):
        sm.class_counts(frame, label="y", prediction="guess")
