"""What a prediction table may hold: types, labels, bad rows, keys, names. An error names what it may not hold."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from functools import reduce
from typing import Any

import pytest
from pyspark.ml.linalg import Vectors, VectorUDT
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    ByteType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

import sparkmetrics as sm
from sparkmetrics import predictions, schemas
from sparkmetrics.columns import Keys, level_name
from sparkmetrics.metrics import Parameters, score_metrics, threshold_metrics

INF, NAN = math.inf, math.nan


@contextmanager
def setting(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    """A session setting for a while."""
    before = spark.conf.get(name)
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.set(name, before)


def struct(**types: Any) -> StructType:
    return StructType([StructField(name, kind) for name, kind in types.items()])


def plain(spark: SparkSession) -> DataFrame:
    """Two rows that evaluate."""
    return spark.createDataFrame([(1, 0.9, 1.0), (0, 0.1, 1.0)], "y int, p double, w double")


def state(counts: sm.ScoreCounts) -> dict[tuple[Any, ...], dict[float, tuple[float, float]]]:
    """Score counts as {key values: {score: (positives, negatives)}}."""
    found: dict[tuple[Any, ...], dict[float, tuple[float, float]]] = {}
    for row in counts.frame.collect():
        cells = found.setdefault(tuple(row[name] for name in counts.keys.names), {})
        cells |= {score: (p, n) for score, p, n in zip(row["score"], row["pos"], row["neg"], strict=True)}
    return found


def values_of(rows: list[Row], *key: str) -> dict[tuple[Any, ...], dict[str, float | None]]:
    """Rows of the table `metrics` as {key values: {metric: value}}; metrics at a threshold as `recall@0.5`."""
    found: dict[tuple[Any, ...], dict[str, float | None]] = {}
    for row in rows:
        name = (
            f"{row['metric']}@{row['threshold']}" if row["metric"] in threshold_metrics(Parameters()) else row["metric"]
        )
        found.setdefault(tuple(row[k] for k in key), {})[name] = row["value"]
    return found


# --- scores


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


def test_states_are_summed_by_sum(spark: SparkSession) -> None:
    counts = sm.score_counts(plain(spark), label="y", score="p")
    assert state(sum([counts, counts])) == {
        key: {score: (2 * p, 2 * n) for score, (p, n) in scores.items()} for key, scores in state(counts).items()
    }


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


# --- labels

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


# --- bad rows

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


# --- keys

KEY_VALUES: dict[str, list[Any]] = {
    "string": ["a", "", "ä\n"],
    "byte": [0, 1, -128],
    "short": [0, 1, -(2**15)],
    "int": [0, 1, -(2**31)],
    "long": [0, 1, -(2**63)],
    "float": [0.0, NAN, 1.5],
    "double": [0.0, NAN, INF],
    "decimal(38,6)": [Decimal("0.000000"), Decimal("1.500000"), Decimal("-" + "9" * 32 + ".000001")],
    "boolean": [False, True, True],
    "date": [dt.date(1970, 1, 1), dt.date(2024, 2, 29), dt.date(9999, 12, 31)],
    "timestamp": [dt.datetime(1970, 1, 2), dt.datetime(2024, 3, 31, 1, 30, 0, 1), dt.datetime(2024, 10, 27, 1, 30)],
    "timestamp_ntz": [dt.datetime(1970, 1, 1), dt.datetime(2024, 3, 31, 1, 30, 0, 1), dt.datetime(1582, 10, 15)],
    "binary": [b"", b"\x00", b"\xff\x00"],
}
"""Of each type of key: values that differ (of a boolean, two)."""


def comparable(value: Any) -> str:
    """A key value as text: NaN equals itself, -0.0 is 0.0, and any kind of bytes are bytes."""
    if isinstance(value, (bytes, bytearray)):
        value = bytes(value)
    return repr(value + 0.0 if isinstance(value, float) else value)  # NaN prints without its sign


def twin(value: Any) -> Any:
    """The same key in other bits: -0.0 for 0.0, a NaN with its sign set for NaN."""
    return math.copysign(value, -1.0) if isinstance(value, float) and (value == 0 or math.isnan(value)) else value


def test_keys_of_every_type_keep_their_type_and_values(spark: SparkSession) -> None:
    kinds = list(KEY_VALUES)
    by, segments = [f"by {kind}" for kind in kinds], [f"segment {kind}" for kind in kinds]
    base = [values[0] for values in KEY_VALUES.values()]
    keys = [(*base, *base)]
    # Tuples that differ from the first in one column; then the first tuple in other segments.
    for place, values in enumerate(KEY_VALUES.values()):
        keys += [(*base[:place], other, *base[place + 1 :], *base) for other in (*values[1:], None)]
    keys += [(*base, *(values[number] for values in KEY_VALUES.values())) for number in (1, 2)]
    keys.append((*base, *[None] * len(kinds)))
    rows = [row for key in keys for row in ((1, *key), (0, *map(twin, key)))]
    types = [f"`{name}` {kind}" for name, kind in zip(by + segments, kinds * 2, strict=True)]
    rows = [(1 - place / len(rows), *row) for place, row in enumerate(rows)]
    frame = spark.createDataFrame(rows, ", ".join(["p double", "y int", *types])).repartition(3)

    # Several ranges, so that keys are also matched with those of their offsets.
    sizing = sm.Sizing(placed_rows=1, sample_every=1, ranges=3)
    counts = sm.score_counts(frame, by=by, segments=segments, label="y", score="p", sizing=sizing)
    levels = [[], *([name] for name in segments)]
    table = counts.evaluate(levels=levels, thresholds=[]).metrics().where("metric = 'roc_auc'")
    assert [table.schema[name].dataType for name in by + segments] == [
        frame.schema[name].dataType for name in by + segments
    ]
    found: dict[tuple[str, ...], tuple[float | None, ...]] = {}
    for row in table.collect():
        key = (row["level"], *(comparable(row[name]) for name in by + segments))
        assert key not in found
        found[key] = (row["positives"], row["negatives"], row["value"])

    scores: dict[tuple[str, ...], tuple[list[float], list[float]]] = {}
    for p, y, *values in rows:
        tuple_, mine = values[: len(by)], values[len(by) :]
        for level in levels:
            used = [v if name in level else None for name, v in zip(segments, mine, strict=True)]
            key = (level_name(level), *map(comparable, tuple_), *map(comparable, used))
            scores.setdefault(key, ([], []))[y].append(p)
    assert found.keys() == scores.keys()
    for key, (negatives, positives) in scores.items():
        pairs = [(p > n) for p in positives for n in negatives]
        auc = sum(pairs) / len(pairs) if pairs else None
        assert found[key] == (len(positives), len(negatives), auc), key


@pytest.mark.parametrize("role", ["by", "segments"])
@pytest.mark.parametrize(
    "column",
    ["array(1)", "map('a', 1)", "named_struct('a', 1)", "null", "interval '1' day", "interval '1' month"],
)
def test_keys_of_no_atomic_type(spark: SparkSession, role: str, column: str) -> None:
    frame = plain(spark).withColumn("odd", F.expr(column))
    kind = frame.schema["odd"].dataType.simpleString()
    message = f"{role.rstrip('s')} column 'odd' has type {kind}: a key is a string, number"
    with pytest.raises(sm.SchemaError, match=re.escape(message)):
        sm.score_counts(frame, label="y", score="p", **{role: ["odd"]})


def test_collated_strings_are_no_keys(spark: SparkSession) -> None:
    """Spark takes 'a' and 'A' for one value, and a worker takes them for two."""
    if int(spark.version.split(".")[0]) < 4:
        pytest.skip("Spark 3 has no collations")
    frame = plain(spark).withColumn("odd", F.expr("'a' collate UTF8_LCASE"))
    with pytest.raises(sm.SchemaError, match=r"by column 'odd' has type string collate UTF8_LCASE.* Cast it"):
        sm.score_counts(frame, label="y", score="p", by=["odd"])


@pytest.mark.parametrize("zone", ["UTC", "Europe/London"])
def test_days_are_those_of_the_session_zone(spark: SparkSession, zone: str) -> None:
    instants = {"2023-05-22T22:30:00Z": (1, 0.9), "2023-05-22T23:30:00Z": (0, 0.1), "2023-05-23T01:00:00Z": (1, 0.2)}
    days = {"UTC": {"2023-05-22": 2, "2023-05-23": 1}, "Europe/London": {"2023-05-22": 1, "2023-05-23": 2}}
    clock = {"UTC": ["22:30:00", "23:30:00", "01:00:00"], "Europe/London": ["23:30:00", "00:30:00", "02:00:00"]}
    with setting(spark, "spark.sql.session.timeZone", zone):
        frame = spark.createDataFrame([(at, *row) for at, row in instants.items()], "at string, y int, p double")
        frame = frame.withColumn("at", F.to_timestamp("at")).withColumn("day", F.to_date("at"))
        ev = sm.evaluate(frame, segments=["day", "at"], label="y", score="p", levels=[["day"], ["at"]])
        confusion = ev.confusion().withColumn("second", F.col("at").cast("long")).collect()
        pairs = ev.segment_auc().where("positive_segment = negative_segment").collect()
    counted = {str(r["day"]): r["tp"] + r["fp"] + r["fn"] + r["tn"] for r in confusion if r["level"] == "day"}
    assert counted == days[zone]
    seconds = {int(dt.datetime.fromisoformat(at.replace("Z", "+00:00")).timestamp()) for at in instants}
    assert {r["second"] for r in confusion if r["level"] == "at"} == seconds
    names = {r["positive_segment"]: r["positives"] + r["negatives"] for r in pairs}
    assert {name[4:]: rows for name, rows in names.items() if name.startswith("day=")} == days[zone]
    assert sorted(name.split()[1] for name in names if name.startswith("at=")) == sorted(clock[zone])


# --- names


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
    *("contribution", "score", "pos", "neg", "label", "prediction", "count", "true_rank"),
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


# --- what to evaluate


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


def test_names_of_levels() -> None:
    assert level_name([]) == "total"
    assert level_name(["sex"]) == "sex"
    assert level_name(["sex", "pclass"]) == "sex,pclass"
    assert level_name(["a,b", "c"]) == '"a,b",c'
    assert level_name(["total"]) == '"total"'
    assert level_name(['"']) == r'"\""'


GROUPED = [
    ("m", sex, pclass, y, score)
    for sex, pclass, pairs in [
        ("a,b", 1, [(1, 0.9), (0, 0.2), (0, 0.9)]),
        ("x=y", 1, [(1, 0.9)]),
        ('say "hi"', 2, [(0, 0.3), (1, 0.7)]),
        ("NULL", None, [(0, 0.6)]),
        (None, 1, [(1, 0.6), (1, 0.1), (0, 0.4)]),
        (None, None, [(0, 0.9)]),
        ("(other)", 2, [(1, 0.5)]),
        ("O'Neil (é)", 2, [(0, 0.5), (0, 0.5)]),
    ]
    for y, score in pairs
]


@pytest.fixture(scope="module")
def grouped(spark: SparkSession) -> sm.Evaluation:
    frame = spark.createDataFrame(GROUPED, "model string, sex string, pclass int, y int, p double").repartition(3)
    return sm.evaluate(frame, by=["model"], segments=["sex", "pclass"], label="y", score="p", thresholds=[0.5, 0.9])


def test_levels_add_up_and_null_is_a_group_of_its_own(grouped: sm.Evaluation) -> None:
    confusion = grouped.confusion().collect()
    groups: dict[str, list[tuple[Any, Any]]] = {}
    sums: dict[tuple[str, float], list[float]] = {}
    for row in confusion:
        if row["threshold"] == 0.5:
            groups.setdefault(row["level"], []).append((row["sex"], row["pclass"]))
        cells = sums.setdefault((row["level"], row["threshold"]), [0.0] * 4)
        cells[:] = [a + row[name] for a, name in zip(cells, ("tp", "fp", "fn", "tn"), strict=True)]
    keys = {(sex, pclass) for _, sex, pclass, _, _ in GROUPED}
    expected = {
        "total": [(None, None)],
        "sex": [(sex, None) for sex in {sex for sex, _ in keys}],
        "pclass": [(None, pclass) for pclass in {pclass for _, pclass in keys}],
        "sex,pclass": list(keys),
    }
    assert {level: sorted(found, key=str) for level, found in groups.items()} == {
        level: sorted(wanted, key=str) for level, wanted in expected.items()
    }
    for threshold in (0.5, 0.9):
        called = [(y, score >= threshold) for _, _, _, y, score in GROUPED]
        by_hand = [float(called.count(pair)) for pair in ((1, True), (0, True), (1, False), (0, False))]
        for level in expected:
            assert sums[level, threshold] == by_hand
    null_sex = [r for r in confusion if (r["level"], r["sex"], r["threshold"]) == ("sex", None, 0.5)]
    assert [(r["tp"], r["fp"], r["fn"], r["tn"]) for r in null_sex] == [(1.0, 1.0, 1.0, 1.0)]


def test_names_of_segments(grouped: sm.Evaluation) -> None:
    pairs = grouped.segment_auc().collect()
    text = {None: "NULL", "a,b": '"a,b"', "x=y": '"x=y"', 'say "hi"': r'"say \"hi\""', "NULL": '"NULL"'}
    text |= {"(other)": '"(other)"', "O'Neil (é)": "O'Neil (é)"}
    keys = {(sex, "NULL" if pclass is None else str(pclass)) for _, sex, pclass, _, _ in GROUPED}
    names = {
        "sex": {f"sex={text[sex]}" for sex, _ in keys},
        "pclass": {f"pclass={pclass}" for _, pclass in keys},
        "sex,pclass": {f"sex={text[sex]}, pclass={pclass}" for sex, pclass in keys},
    }
    for level, wanted in names.items():
        found = {(r["positive_segment"], r["negative_segment"]) for r in pairs if r["level"] == level}
        assert found == {(one, other) for one in wanted for other in wanted}


RESULTS = {
    "metrics": "metric string, average string, class string, threshold double, value double, lower double, "
    "upper double, reason string, rows double, positives double, negatives double",
    "confusion": "threshold double, tp double, fp double, fn double, tn double",
    "curves": "point bigint, threshold double, tp double, fp double, fn double, tn double, tpr double, fpr double, "
    "precision double, predicted_positive_rate double, lift double",
    "segment_auc": "positive_segment string, negative_segment string, positives double, negatives double, "
    "pairs double, wins2 decimal(38,0), auc double, pair_share double, contribution double, mirror_auc double, "
    "auc_difference double, mixed boolean, reason string",
    "segment_summary": "rows double, positives double, negatives double, prevalence double, subgroup_auc double, "
    "bpsn_auc double, bnsp_auc double, leave_one_out_auc double, gap_contribution double, reason string",
    "segment_gap": "rows double, positives double, negatives double, segments double, defined_segments double, "
    "total_auc double, within_auc double, within_share double, between_auc double, between_share double, "
    "smallest_auc double, largest_auc double, mean_auc double, gauc double, gauc_positives double, "
    "total_position string, segment_score_auc double, segment_prevalence_auc double, reason string",
    "segment_disparity": "metric string, average string, class string, threshold double, segments double, "
    "macro_mean double, best_segment string, best_value double, best_lower double, best_upper double, "
    "worst_segment string, worst_value double, worst_lower double, worst_upper double, difference double, "
    "ratio double, reason string",
}
"""The contract: what stands behind `by..., level, segments...` and before `run_id`."""


def contract(table: DataFrame) -> str:
    return ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in table.schema)


def test_schemas_of_the_results(grouped: sm.Evaluation) -> None:
    keys, fields = grouped.counts.keys, {"metrics": schemas.METRICS, "confusion": schemas.CONFUSION}
    fields |= {"curves": schemas.CURVES, "segment_auc": schemas.segment_auc(weighted=False)}
    fields |= {"segment_summary": schemas.SEGMENT_SUMMARY, "segment_gap": schemas.SEGMENT_GAP}
    fields |= {"segment_disparity": schemas.SEGMENT_DISPARITY}
    of_levels = ("segment_auc", "segment_gap", "segment_disparity")
    for name, columns in RESULTS.items():
        table = getattr(grouped, name)()
        front = "model string, level string, " + ("" if name in of_levels else "sex string, pclass int, ")
        assert contract(table) == f"{front}{columns}, run_id string"
        declared = schemas.result_table(keys, fields[name], segments=name not in of_levels)
        assert [(f.name, f.dataType) for f in table.schema] == [(f.name, f.dataType) for f in declared]
    saved = "rows double, positives double, negatives double, score array<double>, pos array<double>, neg array<double>"
    assert contract(grouped.counts.frame) == f"model string, range int, sex string, pclass int, {saved}"


def test_schema_of_weighted_pairs() -> None:
    assert [f.dataType for f in schemas.segment_auc(weighted=True) if f.name == "wins2"] == [DoubleType()]


def test_keys_are_declared_under_their_own_names_and_types() -> None:
    keys = Keys(("m",), ("s",), (StringType(), DateType()))
    assert schemas.result_table(keys, schemas.CONFUSION).names == [
        *("m", "level", "s", "threshold", "tp", "fp", "fn", "tn", "run_id")
    ]


def test_weights_whose_products_vanish_are_undefined_with_a_reason(spark: SparkSession) -> None:
    rows = [(case, y, s, w) for case, w in (("tiny", 1e-200), ("small", 1e-100)) for y, s in ((1, 0.9), (0, 0.2))]
    frame = spark.createDataFrame(rows, "case string, y int, s double, w double")
    found = sm.evaluate(frame, by=["case"], label="y", score="s", weight="w").metrics()
    auc = {row["case"]: (row["value"], row["reason"]) for row in found.where("metric = 'roc_auc'").collect()}
    assert auc == {"tiny": (None, "weights too small to multiply"), "small": (1.0, None)}
    unexplained = found.where("value is null and reason is null or isnan(value)").count()
    assert unexplained == 0
