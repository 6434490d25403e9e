"""What to evaluate of a prediction table: one score or several, and arguments and options that are refused."""

from __future__ import annotations

from typing import Any

import pytest
from prediction_tables import NAN, plain, state
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import sparkmetrics as sm
from sparkmetrics import predictions, schemas


def test_score_or_scores(spark: SparkSession) -> None:
    with pytest.raises(sm.ConfigError, match="Nothing to evaluate: give score"):
        sm.score_counts(plain(spark), label="y")
    with pytest.raises(sm.ConfigError, match=r"either score .* or scores"):
        sm.score_counts(plain(spark), label="y", score="p", scores={"m": "p"})
    with pytest.raises(sm.ConfigError, match="at least one model"):
        sm.score_counts(plain(spark), label="y", scores={})


def test_arguments_of_another_kind(spark: SparkSession) -> None:
    frame = plain(spark)
    for arguments in ({"label": 3}, {"score": 3}, {"weight": F.col("w")}, {"by": [3]}, {"segments": [F.col("w")]}):
        with pytest.raises(sm.ConfigError, match="a column name is expected, found"):
            sm.score_counts(frame, **({"label": "y", "score": "p"} | arguments))
    for scores in ({1: "p"}, {"a": None}, {"": "p"}):
        with pytest.raises(sm.ConfigError, match="scores must map at least one model name to a score column"):
            sm.score_counts(frame, label="y", scores=scores)
    with pytest.raises(sm.SchemaError, match="A Spark DataFrame is expected, found str"):
        sm.score_counts("predictions", label="y", score="p")
    with pytest.raises(sm.ConfigError, match="run_date must be a date"):
        sm.read_results(spark, "results", "metrics", None)


def test_wide_table_is_the_long_table(spark: SparkSession) -> None:
    wide = spark.createDataFrame(
        [("x", 1, 0.5, 3), ("x", 0, 0.5, 1), ("y", 1, 0.25, 1), ("y", 0, 0.75, 2), (None, 0, 0.1, 9)],
        "s string, y int, p double, q int",
    )
    long = wide.select("s", "y", F.lit("one").alias("model"), F.col("p").alias("score")).unionByName(
        wide.select("s", "y", F.lit("t'wo").alias("model"), F.col("q").alias("score"))
    )
    of_wide = sm.score_counts(wide, by=["s"], label="y", scores={"one": "p", "t'wo": "q"})
    of_long = sm.score_counts(long, by=["s", "model"], label="y", score="score")
    assert of_wide.keys == of_long.keys
    assert of_wide.row_counts == of_long.row_counts
    assert state(of_wide) == state(of_long)


def test_wide_table_needs_the_name_model(spark: SparkSession) -> None:
    frame = plain(spark).withColumn("model", F.lit("m")).withColumn("Model_", F.lit("m"))
    for keys in ({"by": ["model"]}, {"segments": ["model"]}, {"by": ["MODEL"]}):
        with pytest.raises(sm.ConfigError, match="scores adds a column model to by"):
            sm.score_counts(frame, label="y", scores={"m": "p"}, **keys)
    predictions.clean(  # a column of that name that is no key is in nobody's way
        frame,
        by=(),
        segments=(),
        label="y",
        score=None,
        scores={"m": "p"},
        weight=None,
        positive=1,
        reserved=schemas.reserved_names(),
    )


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"levels": 1}, "levels must be lists of segment columns, .* found 1"),
        ({"levels": [["sex", 1]]}, "levels must be lists of segment columns, .* found ..'sex', 1"),
        ({"levels": [["sex", "nope"], ["nor"]]}, "levels: 'nope', 'nor' is not a segment column. These are: 'sex'"),
        ({"levels": []}, "levels is empty"),
        ({"thresholds": 0.5}, "thresholds must be a list of numbers, .* found 0.5"),
        ({"thresholds": "0.5"}, "thresholds must be a list of numbers, .* found '0.5'"),
        ({"thresholds": ["high"]}, "thresholds must be numbers, found 'high'"),
        ({"thresholds": [0.5, None]}, "thresholds must be numbers, found None"),
        ({"thresholds": None}, "thresholds must be a list of numbers, .* found None"),
        ({"thresholds": [NAN]}, "thresholds must be numbers, found nan"),
        ({"threshold_rule": "=>"}, "threshold_rule must be one of '>=', '>', found '=>'"),
        ({"threshold_rule": None}, "threshold_rule must be one of .* found None"),
        ({"curve_points": 0}, "curve_points must be a whole number of at least 1, or None, found 0"),
        ({"curve_points": 10.5}, "curve_points must be .* found 10.5"),
        ({"curve_points": True}, "curve_points must be .* found True"),
        ({"invalid_rows": "ignore"}, "invalid_rows must be one of 'error', 'drop', found 'ignore'"),
    ],
)
def test_options_that_are_not_accepted(spark: SparkSession, option: dict[str, Any], message: str) -> None:
    frame = plain(spark).withColumn("sex", F.lit("f"))
    with pytest.raises(sm.ConfigError, match=message):
        sm.evaluate(frame, segments=["sex"], label="y", score="p", **option)
