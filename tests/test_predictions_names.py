"""Names of columns: any is accepted, but those of results; an error names what is missing, ambiguous or given twice."""

from __future__ import annotations

import re

import pytest
from prediction_tables import plain, state, struct
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType, IntegerType, StringType
from settings import setting

import sparkmetrics as sm
from sparkmetrics import predictions, schemas


def test_any_column_name(spark: SparkSession) -> None:
    by = ["model.id", "a b", "back`tick", 'quo"te', "it's", "🚀", "select", "*", "a,b", "%s{0}", "s0", "tuple", "ünï"]
    segments = ["seg.ment", "where", "b0", "total"]
    columns = struct(**dict.fromkeys(by + segments, StringType()))
    columns.add("y true", IntegerType()).add("p.score", DoubleType()).add("we`ight", DoubleType())
    pairs = [(0, 0.1), (0, 0.4), (1, 0.35), (1, 0.8)]
    frame = spark.createDataFrame([(*(f"in {name}" for name in by + segments), y, p, 1.0) for y, p in pairs], columns)
    # `p.score` is a column and no field of `p`.
    frame = frame.select(
        "*", F.struct(F.lit(0.0).alias("score")).alias("p"), F.struct(F.lit("").alias("id")).alias("model")
    )
    table = sm.evaluate(frame, by=by, segments=segments, label="y true", score="p.score", weight="we`ight").metrics()
    assert table.schema.names == [*by, "level", *segments, *(f.name for f in schemas.METRICS), "run_id"]
    found = {row["level"]: row for row in table.where("metric = 'roc_auc'").collect()}
    levels = {"total": [], "seg.ment": ["seg.ment"], "where": ["where"], "b0": ["b0"], '"total"': ["total"]}
    levels |= {'seg.ment,where,b0,"total"': segments}
    assert found.keys() == levels.keys()
    for level, used in levels.items():
        assert found[level]["value"] == 0.75
        assert {name: found[level][name] for name in by} == {name: f"in {name}" for name in by}
        assert {name: found[level][name] for name in segments if found[level][name] is not None} == {
            name: f"in {name}" for name in used
        }


def test_label_score_and_weight_may_be_called_like_our_own_columns(spark: SparkSession) -> None:
    frame = spark.createDataFrame(
        [(1, 0.9, 1.0, "a", "x"), (0, 0.8, 1.0, "a", "x"), (0, 0.85, 1.0, "b", "y")],
        "value int, tp double, rows double, s0 string, b0 string",
    )
    decoys = ["label", "score", "weight", "pos", "neg", "positive", "reason", "level", "range", "slot", "label_hash"]
    decoys += ["fault", "inexact", "model", "scored", "threshold", "sample", "entry", "group", "b1", "s1"]
    frame = frame.select("*", *(F.lit(None).cast("double").alias(name) for name in decoys))
    counts = sm.score_counts(frame, by=["s0"], segments=["b0"], label="value", score="tp", weight="rows")
    assert state(counts) == {("a", "x"): {0.9: (1.0, 0.0), 0.8: (0.0, 1.0)}, ("b", "y"): {0.85: (0.0, 1.0)}}
    for label, score, weight in (("score", "weight", "label"), ("positive", "reason", "scored"), ("fault", "b1", "s1")):
        clean = predictions.clean(
            frame,
            by=("s0",),
            segments=("b0",),
            label=label,
            score=score,
            scores=None,
            weight=weight,
            positive=1,
            reserved=(),
        )
        assert clean.good.schema.names == ["b0", "s0", "tuple", "positive", "score", "weight"]


RESULT_NAMES = [
    *("level", "run_id", "run_date", "range", "metric", "average", "class", "threshold", "value", "lower", "upper"),
    *("reason", "rows", "positives", "negatives", "tp", "fp", "fn", "tn", "point", "tpr", "fpr", "precision", "lift"),
    *("predicted_positive_rate", "positive_segment", "negative_segment", "pairs", "wins2", "auc", "pair_share"),
    *("mirror_auc", "auc_difference", "mixed", "prevalence", "subgroup_auc", "bpsn_auc", "bnsp_auc"),
    *("leave_one_out_auc", "gap_contribution", "segments", "defined_segments", "total_auc", "within_auc"),
    *("within_share", "between_auc", "between_share", "smallest_auc", "largest_auc", "mean_auc", "gauc"),
    *("gauc_positives", "total_position", "segment_score_auc", "segment_prevalence_auc", "macro_mean"),
    *("best_segment", "best_value", "best_lower", "best_upper", "worst_segment", "worst_value", "worst_lower"),
    *("worst_upper", "difference", "ratio"),
    *("contribution", "score", "pos", "neg", "label", "prediction", "count", "true_rank", "state_note"),
    *("bucket", "positive_rate", "cumulative_positives", "cumulative_gain", "cumulative_lift"),
    *("bin", "bin_lower", "bin_upper", "mean_score"),
]


@pytest.mark.parametrize("role", ["by", "segments"])
def test_keys_called_like_columns_of_the_results(spark: SparkSession, role: str) -> None:
    assert set(RESULT_NAMES) == schemas.reserved_names()
    frame = plain(spark)
    for name in [*RESULT_NAMES, "Value"]:
        message = f"{role.rstrip('s')} column '{name}' has the name of a column of the results. Rename it"
        with pytest.raises(sm.SchemaError, match=re.escape(message)):
            sm.score_counts(frame.withColumn(name, F.lit("x")), label="y", score="p", **{role: [name]})


def test_missing_columns(spark: SparkSession) -> None:
    frame = plain(spark).withColumn("Sex", F.lit("f"))
    arguments = {"label": "y", "score": "p", "weight": "w"}
    for role in arguments:
        with pytest.raises(sm.SchemaError, match=f"{role} column 'nope' is not in the table. Its columns: 'y', 'p'"):
            sm.score_counts(frame, **(arguments | {role: "nope"}))
    for role in ("by", "segments"):
        name = role.rstrip("s")
        with pytest.raises(sm.SchemaError, match=f"{name} column 'sex' is not in the table. Did you mean 'Sex'?"):
            sm.score_counts(frame, **arguments, **{role: ["sex"]})
    with pytest.raises(sm.SchemaError, match=r"score column 'p\.x' is not in the table"):
        sm.score_counts(frame.withColumn("p", F.struct(F.lit(0.5).alias("x"))), label="y", score="p.x")
    with pytest.raises(sm.ConfigError, match="label column: a column name is expected, found ''"):
        sm.score_counts(frame, label="", score="p")


def test_columns_given_twice(spark: SparkSession) -> None:
    frame = plain(spark).withColumn("a", F.lit("x")).withColumn("b", F.lit("x"))
    for by, segments in ((["a", "a"], []), ([], ["a", "b", "a"]), (["a"], ["a"])):
        with pytest.raises(sm.SchemaError, match="by and segments name 'a' more than once"):
            sm.score_counts(frame, by=by, segments=segments, label="y", score="p")


def test_keys_are_lists(spark: SparkSession) -> None:
    frame = plain(spark).withColumn("a", F.lit("x"))
    for role in ("by", "segments"):
        with pytest.raises(sm.ConfigError, match=f"{role} must be a list of columns, for example .'a'., found 'a'"):
            sm.score_counts(frame, label="y", score="p", **{role: "a"})


def test_columns_that_differ_by_case(spark: SparkSession) -> None:
    with setting(spark, "spark.sql.caseSensitive", "true"):
        frame = spark.createDataFrame(
            [(1, 0, 0.9, "x"), (0, 1, 0.1, "x")], "label int, Label int, score double, LABEL string"
        )
        counts = sm.score_counts(frame, label="label", score="score")
        assert state(counts) == {(): {0.9: (1.0, 0.0), 0.1: (0.0, 1.0)}}
        keyed = frame.withColumn("key", F.lit("x")).withColumn("KEY", F.lit("y"))
        with pytest.raises(sm.SchemaError, match="by and segments name 'key' more than once"):
            sm.score_counts(keyed, by=["key"], segments=["KEY"], label="Label", score="score")
    ambiguous = r"label column 'label' is ambiguous: the table has 'label', 'Label', 'LABEL'.*caseSensitive=true"
    with setting(spark, "spark.sql.caseSensitive", "false"), pytest.raises(sm.SchemaError, match=ambiguous):
        sm.score_counts(frame, label="label", score="score")
    predictions.clean(  # others may be as ambiguous as they like
        frame.withColumnRenamed("score", "p").select(
            "p", F.lit(1).alias("a"), F.lit(1).alias("A"), F.lit(1).alias("y")
        ),
        by=(),
        segments=(),
        label="y",
        score="p",
        scores=None,
        weight=None,
        positive=1,
        reserved=(),
    )


def test_columns_of_one_name(spark: SparkSession) -> None:
    frame = plain(spark).select("y", "p", F.col("w").alias("p"))
    with pytest.raises(sm.SchemaError, match=r"score column 'p' is ambiguous: the table has 'p', 'p'\. Rename or drop"):
        sm.score_counts(frame, label="y", score="p")
