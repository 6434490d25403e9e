"""Types of label, score and weight columns: what is widened to double, the element of a vector, and what is refused."""

from __future__ import annotations

import re
from decimal import Decimal

import pytest
from prediction_tables import plain, state, struct, values_of
from pyspark.ml.linalg import Vectors, VectorUDT
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    ByteType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    StringType,
)
from settings import setting

import sparkmetrics as sm


def test_scores_of_any_type_are_widened_to_double(spark: SparkSession) -> None:
    scores = {
        "ranked": [(0, -2.0), (0, 0.5), (1, 0.1), (1, 3.0)],
        "edges": [(1, 0.7), (0, 0.2), (0, 0.0)],
        "digits": [(1, 12.0), (0, 11.9999999988)],
    }
    columns = struct(
        case=StringType(),
        y=IntegerType(),
        double=DoubleType(),
        float=FloatType(),
        int=IntegerType(),
        bigint=LongType(),
        tinyint=ByteType(),
        decimal=DecimalType(12, 10),
        boolean=BooleanType(),
        dense=VectorUDT(),
        sparse=VectorUDT(),
        array=ArrayType(DoubleType()),
        floats=ArrayType(FloatType()),
    )
    rows = []
    for case, pairs in scores.items():
        for y, s in pairs:
            numbers = [s, s, int(s), int(s), int(s), Decimal(repr(s)), s > 0.5]
            vectors = [Vectors.dense([-s, s]), Vectors.sparse(3, {1: s} if s else {0: 1.0})]
            rows.append((case, y, *numbers, *vectors, [0.5, s, 9.0], [0.5, s]))
    models = {name: name for name in columns.names[2:]}
    ev = sm.evaluate(
        spark.createDataFrame(rows, columns), by=["case"], label="y", scores=models, thresholds=[0.7], levels=[[]]
    )
    found = {key: set(cells) for key, cells in state(ev.counts).items()}
    single = {0.7: 0.699999988079071, 0.2: 0.20000000298023224, 0.1: 0.10000000149011612, 11.9999999988: 12.0}
    for case, pairs in scores.items():
        doubles = {s for _, s in pairs}
        singles, wholes = {single.get(s, s) for s in doubles}, {float(int(s)) for s in doubles}
        expected = dict.fromkeys(("double", "decimal", "dense", "sparse", "array"), doubles)
        expected |= dict.fromkeys(("float", "floats"), singles)
        expected |= dict.fromkeys(("int", "bigint", "tinyint"), wholes)
        expected["boolean"] = {float(s > 0.5) for s in doubles}
        assert {model: found[case, model] for model in models} == expected

    values = values_of(ev.metrics().collect(), "case", "model")
    for model in ("double", "float", "decimal", "dense", "sparse", "array", "floats"):
        assert values["ranked", model]["roc_auc"] == 0.75
        reached = 0.0 if model in ("float", "floats") else 1.0  # 0.7 as float is below 0.7
        assert values["edges", model]["recall@0.7"] == reached
    assert values["digits", "decimal"]["roc_auc"] == 1.0
    assert values["digits", "float"]["roc_auc"] == 0.5


def test_integers_and_decimals_go_to_the_nearest_double(spark: SparkSession) -> None:
    columns = struct(y=IntegerType(), large=LongType(), long=DecimalType(38, 30))
    rows = [
        (1, 2**53 + 1, Decimal("0.123456789012345678901234567890")),
        (0, 2**53 - 1, Decimal("0.1000000000000000055511151231257827")),
    ]
    frame, scores = spark.createDataFrame(rows, columns), {"large": "large", "long": "long"}
    with pytest.warns(sm.SparkMetricsWarning, match=r"3 scores \(column .*'large'.*'long'.*more digits than a double"):
        counts = sm.score_counts(frame, label="y", scores=scores)
    assert state(counts) == {
        ("large",): {2.0**53: (1.0, 0.0), 2.0**53 - 1: (0.0, 1.0)},
        ("long",): {0.12345678901234568: (1.0, 0.0), 0.1: (0.0, 1.0)},
    }


def test_vector_without_element_1_is_an_error_under_any_policy(spark: SparkSession) -> None:
    columns = struct(y=IntegerType(), vector=VectorUDT(), array=ArrayType(DoubleType()))
    rows = [
        (1, Vectors.dense([0.9]), [0.9]),
        (0, Vectors.dense([0.9, 0.1]), []),
        (0, Vectors.sparse(1, {}), [0.1, 0.2]),
    ]
    with pytest.raises(sm.DataError, match=r"4 x vector score without element 1 \(column .*'vector'.*'array'"):
        sm.score_counts(
            spark.createDataFrame(rows, columns),
            label="y",
            scores={"v": "vector", "a": "array"},
            invalid_rows="drop",
        )


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_null_vectors_and_elements_are_null_scores(spark: SparkSession, ansi: str) -> None:
    columns = struct(y=IntegerType(), vector=VectorUDT(), array=ArrayType(DoubleType()))
    rows = [(1, None, None), (0, Vectors.dense([0.9, 0.1]), [0.9, None]), (1, Vectors.dense([0.2, 0.8]), [0.2, 0.8])]
    with setting(spark, "spark.sql.ansi.enabled", ansi), pytest.warns(sm.SparkMetricsWarning, match="3 x null score"):
        counts = sm.score_counts(
            spark.createDataFrame(rows, columns),
            label="y",
            scores={"v": "vector", "a": "array"},
            invalid_rows="drop",
        )
    assert (counts.row_counts.used, counts.row_counts.dropped) == (3, {"null score": 3})


@pytest.mark.parametrize("role", ["label", "score", "weight"])
@pytest.mark.parametrize(
    "column",
    ["array('a')", "map('a', 1)", "named_struct('a', 1)", "date'2024-01-01'", "timestamp'2024-01-01'", "X'00'", "null"],
)
def test_types_that_are_no_label_score_or_weight(spark: SparkSession, role: str, column: str) -> None:
    roles = {"label": "y", "score": "p", "weight": "w"} | {role: "odd"}
    frame = plain(spark).withColumn("odd", F.expr(column))
    kind = frame.schema["odd"].dataType.simpleString()
    with pytest.raises(sm.SchemaError, match=re.escape(f"{role} column 'odd' has type {kind}")):
        sm.score_counts(frame, **roles)


@pytest.mark.parametrize(("role", "column"), [("score", "'0.5'"), ("weight", "'1'"), ("weight", "true")])
def test_texts_are_no_scores_and_truths_no_weights(spark: SparkSession, role: str, column: str) -> None:
    roles = {"label": "y", "score": "p", "weight": "w"} | {role: "odd"}
    with pytest.raises(sm.SchemaError, match=f"{role} column 'odd' has type (string|boolean).* Cast it"):
        sm.score_counts(plain(spark).withColumn("odd", F.expr(column)), **roles)
