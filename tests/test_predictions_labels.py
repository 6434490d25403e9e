"""Labels of any type, the positive one among them, and labels that are none or too many."""

from __future__ import annotations

from decimal import Decimal
from functools import reduce
from typing import Any

import pytest
from prediction_tables import NAN, state
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import sparkmetrics as sm
from sparkmetrics import predictions

LABELS = [
    ("int", 1, [0, 1]),
    ("tinyint", 1, [1, 0]),
    ("bigint", 1.0, [0, 1]),
    ("double", 1, [0.0, 1.0]),
    ("float", True, [0.0, 1.0]),
    ("decimal(3,1)", 1, [Decimal("0.0"), Decimal("1.0")]),
    ("string", 1, ["0", "1"]),
    ("boolean", 1, [False, True]),
    ("boolean", True, [False, True]),
    ("boolean", False, [False, True]),
    ("int", 1, [-1, 1]),
    ("double", 1, [-1.0, 1.0]),
    ("int", 0, [0, 1]),
    ("int", 2, [1, 2]),
    ("int", "2.0", [1, 2]),
    ("decimal(3,1)", "2", [Decimal("1.0"), Decimal("2.0")]),
    ("double", 0.3, [0.3, 0.6]),
    ("string", "yes", ["no", "yes"]),
    ("string", "blue", ["blue", "red"]),
    ("string", True, ["false", "true"]),
    ("bigint", 2**53 + 1, [2**53, 2**53 + 1]),
    ("bigint", str(2**53 + 1), [2**53, 2**53 + 1]),
    ("double", 1, [0.0, -0.0, 1.0]),
]
"""Type, `positive`, labels."""


def is_positive(label: object, positive: object) -> bool:
    if isinstance(label, str):
        return label == (str(positive).lower() if isinstance(positive, bool) else str(positive))
    return Decimal(label) == (Decimal(positive) if isinstance(positive, str) else positive)


def test_labels_of_any_type(spark: SparkSession) -> None:
    frames = []
    for number, (kind, positive, labels) in enumerate(LABELS):
        rows = [(label, 0.5, place) for place, label in enumerate(labels)]
        clean = predictions.clean(
            spark.createDataFrame(rows, f"y {kind}, p double, place int"),
            by=("place",),
            segments=(),
            label="y",
            score="p",
            scores=None,
            weight=None,
            positive=positive,
            reserved=(),
        )
        columns = (F.lit(number).alias("number"), "b0", "positive", "label_hash", "reason")
        frames.append(clean.frame.select(*columns))
    found = {(row["number"], row["b0"]): row for row in reduce(DataFrame.unionByName, frames).collect()}
    for number, (kind, positive, labels) in enumerate(LABELS):
        rows = [found[number, place] for place in range(len(labels))]
        expected = [is_positive(label, positive) for label in labels]
        assert [row["positive"] for row in rows] == expected, (kind, positive, labels)
        assert sum(expected) == 1
        assert len({row["label_hash"] for row in rows}) == 2, (kind, labels)
        assert {row["reason"] for row in rows} == {None}


def labelled(spark: SparkSession, kind: str, labels: list[Any]) -> DataFrame:
    return spark.createDataFrame([(label, i / 10) for i, label in enumerate(labels)], f"`the label` {kind}, p double")


def test_third_label_is_an_error_that_lists_the_labels(spark: SparkSession) -> None:
    with pytest.raises(sm.DataError, match=r"'the label' has more than two labels: 0, 1, 2\..* positive=1"):
        sm.score_counts(labelled(spark, "int", [0, 1, 2, 0]), label="the label", score="p")


def test_two_labels_of_which_none_is_positive(spark: SparkSession) -> None:
    message = r"'the label': none of its labels is positive='Yes'. Labels found: 'no', 'yes'\. Set positive"
    with pytest.raises(sm.DataError, match=message):
        sm.score_counts(labelled(spark, "string", ["yes", "no", "yes"]), label="the label", score="p", positive="Yes")


def test_one_other_label_alone_is_all_negative_with_a_warning(spark: SparkSession) -> None:
    with pytest.warns(sm.SparkMetricsWarning, match=r"'the label' has only 'no' and never positive='yes'"):
        counts = sm.score_counts(labelled(spark, "string", ["no", "no"]), label="the label", score="p", positive="yes")
    assert state(counts) == {(): {0.0: (0.0, 1.0), 0.1: (0.0, 1.0)}}


@pytest.mark.filterwarnings("error")
def test_positive_alone_needs_no_warning(spark: SparkSession) -> None:
    counts = sm.score_counts(labelled(spark, "boolean", [True]), label="the label", score="p")
    assert state(counts) == {(): {0.0: (1.0, 0.0)}}


@pytest.mark.parametrize(
    ("kind", "positive"),
    [
        *(("int", "yes"), ("double", "yes"), ("int", NAN), ("int", None), ("decimal(3,1)", [1])),
        *(("boolean", "true"), ("boolean", 2), ("boolean", None)),
    ],
)
def test_positive_that_the_label_cannot_be(spark: SparkSession, kind: str, positive: object) -> None:
    with pytest.raises(sm.ConfigError, match=r"^positive="):
        sm.score_counts(labelled(spark, kind, []), label="the label", score="p", positive=positive)
