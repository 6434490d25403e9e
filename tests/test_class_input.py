"""Columns of classes and of their probabilities: every form, bad rows, and what does not fit."""

from __future__ import annotations

import warnings
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from prediction_tables import table
from pyspark.ml.linalg import Vectors, VectorUDT
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    MapType,
    StringType,
    StructField,
    StructType,
)
from results import assert_same_bits, tables

import sparkmetrics as sm
from sparkmetrics.class_columns import class_columns

DOUBLES = ArrayType(DoubleType())
TABLES = ("metrics", "class_counts")


# --- forms

ROWS = [
    *((0, [0.5, 0.25, 0.25]), (0, [0.25, 0.75, 0.0]), (1, [0.0, 1.0, 0.0]), (1, [0.25, 0.25, 0.5])),
    *((2, [0.125, 0.125, 0.75]), (2, [0.5, 0.0, 0.5]), (1, [0.375, 0.375, 0.25])),
]
MOST_LIKELY = ["0", "1", "1", "2", "2", "0", "0"]

LABELS = {
    "int": (IntegerType(), int),
    "double": (DoubleType(), float),
    "float": (FloatType(), float),
    "decimal": (DecimalType(5, 2), Decimal),
    "string": (StringType(), str),
}
"""Types of a label that is 0, 1 or 2."""

FORMS: dict[str, tuple[Any, Any]] = {
    "array": (DOUBLES, list),
    "floats": (ArrayType(FloatType()), list),
    "decimals": (ArrayType(DecimalType(6, 4)), lambda p: [Decimal(repr(x)) for x in p]),
    "dense": (VectorUDT(), Vectors.dense),
    "sparse": (VectorUDT(), lambda p: Vectors.sparse(3, {k: x for k, x in enumerate(p) if x})),
    "strings": (MapType(StringType(), DoubleType()), lambda p: {str(k): x for k, x in enumerate(p) if x}),
    "ints": (MapType(IntegerType(), DoubleType()), lambda p: {k: x for k, x in enumerate(p) if x}),
    "doubles": (MapType(DoubleType(), FloatType()), lambda p: {float(k): x for k, x in enumerate(p)}),
    "struct": (StructType([StructField(str(k), DoubleType()) for k in range(3)]), tuple),
    **{str(k): (DoubleType(), lambda p, k=k: p[k]) for k in range(3)},
}
"""Types of the columns of probabilities, and a column's value for those of a row."""


def forms(spark: SparkSession) -> DataFrame:
    rows = [
        (*(make(y) for _, make in LABELS.values()), *(make(p) for _, make in FORMS.values()), row)
        for row, (y, p) in enumerate(ROWS)
    ]
    types = {name: kind for name, (kind, _) in (LABELS | FORMS).items()}
    return table(spark, rows, **types, row=IntegerType())


ONE_COLUMN = [name for name in FORMS if not name.isdigit()]
COLUMNS: list[Any] = [["0", "1", "2"], {0: "0", 1.0: "1", "2": "2"}]
METRICS = ["roc_auc", "log_loss", "accuracy"]


def test_labels_and_probabilities_of_every_type_are_the_same(spark: SparkSession) -> None:
    frame = forms(spark)
    choices = [("int", given, classes) for given in (*ONE_COLUMN, *COLUMNS) for classes in (None, [0, 1.0, "2"])]
    choices += [(label, given, None) for label in LABELS for given in ("array", "struct")]
    read = {}
    for label, given, classes in choices:
        columns = class_columns(frame, label, None, given, classes)
        assert columns.classes == ("0", "1", "2")
        read[f"{label} {given} {classes}"] = F.struct(*(c.alias(name) for name, c in columns.columns.items()))
    found = frame.select(F.array(*read.values()).alias("found")).orderBy("row").collect()
    for (y, p), predicted, row in zip(ROWS, MOST_LIKELY, found, strict=True):
        wanted = {"class_label": str(y), "class_prediction": predicted, "probability": p, "class_place": y}
        for form, values in zip(read, row["found"], strict=True):
            assert values.asDict() == wanted, form


def test_the_order_of_classes_is_the_one_given(spark: SparkSession) -> None:
    frame, order = forms(spark), [2, 0, 1]
    named = ["strings", "ints", "doubles", "struct", *COLUMNS]
    read = [class_columns(frame, "int", None, given, order) for given in named]
    assert {columns.classes for columns in read} == {("2", "0", "1")}
    chosen = [F.struct(c.columns["probability"], c.columns["class_prediction"], c.columns["class_place"]) for c in read]
    for (y, (a, b, c)), row in zip(ROWS, frame.orderBy("row").select(F.array(*chosen)).collect(), strict=True):
        probability = [c, a, b]
        first = str(order[probability.index(max(probability))])  # of equals the one that stands first
        assert {tuple(values[0]) for values in row[0]} == {tuple(probability)}
        assert {(values[1], values[2]) for values in row[0]} == {(first, order.index(y))}


@pytest.fixture(scope="module")
def of_arrays(spark: SparkSession) -> dict[str, pa.Table]:
    """The evaluation of a label of integers and an array of probabilities."""
    return tables(sm.evaluate(forms(spark), label="int", probabilities="array", metrics=METRICS), TABLES)


@pytest.mark.parametrize(
    ("label", "given"),
    [
        ("string", "sparse"),
        pytest.param("decimal", "ints", marks=pytest.mark.slow),
        pytest.param("float", COLUMNS[1], id="float-columns"),
    ],
)
def test_evaluations_of_every_form_are_the_same(
    spark: SparkSession, of_arrays: dict[str, pa.Table], label: str, given: Any
) -> None:
    found = sm.evaluate(forms(spark), label=label, probabilities=given, metrics=METRICS)
    assert_same_bits(tables(found, TABLES), of_arrays)


def test_booleans_are_classes(spark: SparkSession) -> None:
    frame = table(spark, [(True, [0.25, 0.75], 0.25, 0.75)], y=BooleanType(), p=DOUBLES, f=DoubleType(), t=DoubleType())
    for given, classes, names in (
        ("p", None, ("0", "1")),
        ("p", [False, True], ("false", "true")),
        ({False: "f", True: "t"}, None, ("false", "true")),
        ({0: "f", 1: "t"}, None, ("0", "1")),
    ):
        columns = class_columns(frame, "y", None, given, classes)
        (row,) = frame.select(*(column.alias(name) for name, column in columns.columns.items())).collect()
        assert columns.classes == names
        assert row.asDict() == {
            "class_label": names[1],
            "class_prediction": names[1],
            "probability": [0.25, 0.75],
            "class_place": 1,
        }


# --- bad rows

GOOD = [
    *((True, 0, 0, [0.5, 0.25, 0.25]), (True, 1, 0, [0.25, 0.75, 0.0]), (True, 2, 2, [0.0, 0.0, 1.0])),
    *((True, 2, 1, [0.25, 0.5, 0.25]), (True, 1, 1, [0.5, 0.5, 5e-7])),
]
BAD = {
    "null label": [(None, 1, [0.5, 0.5, 0.0])],
    "null prediction": [(1, None, [0.5, 0.5, 0.0])],
    "null probability": [(1, 1, None), (1, 1, [0.5, None, 0.5])],
    "NaN probability": [(1, 1, [0.5, float("nan"), 0.5])],
    "other number of probabilities than classes": [(1, 1, [0.5, 0.5]), (1, 1, [0.25] * 4), (1, 1, [])],
    "probability below 0 or above 1": [
        (1, 1, [-0.5, 1.0, 0.5]),
        (1, 1, [1.5, 0.0, -0.5]),
        (1, 1, [0.0, float("inf"), 0.0]),
    ],
    "probabilities that do not add up to 1": [(1, 1, [0.5, 0.5, 1e-3]), (1, 1, [0.499, 0.5, 0.0]), (1, 1, [0.0] * 3)],
    "label without a probability": [(3, 1, [0.5, 0.5, 0.0])],
}


@pytest.fixture(scope="module")
def bad(spark: SparkSession) -> DataFrame:
    rows = [*GOOD, *((False, *row) for rows in BAD.values() for row in rows)]
    return table(spark, rows, good=BooleanType(), y=IntegerType(), guess=IntegerType(), p=DOUBLES)


EVERYTHING: dict[str, Any] = {"label": "y", "prediction": "guess", "probabilities": "p", "classes": [0, 1, 2]}
OF_EVERY_KIND: dict[str, Any] = {
    "top_k": [1, 2],
    "metrics": ["roc_auc", "roc_auc_ovo", "log_loss", "accuracy", "recall", "top_k_accuracy_2"],
}


def test_bad_rows_are_an_error_that_counts_them_and_names_the_column(spark: SparkSession, bad: DataFrame) -> None:
    columns = dict.fromkeys(BAD, "p") | {
        "null label": "y",
        "label without a probability": "y",
        "null prediction": "guess",
    }
    with pytest.raises(sm.DataError, match="Rows that cannot be evaluated") as error:
        sm.evaluate(bad, **EVERYTHING)
    for reason, rows in BAD.items():
        assert f"{len(rows)} x {reason} (column {columns[reason]!r})" in str(error.value)
    with pytest.raises(
        sm.DataError, match=r": 1 x null label \(column 'y'\); 1 x null prediction \(column 'guess'\)\."
    ):
        sm.class_counts(bad, label="y", prediction="guess")


def test_bad_rows_are_dropped_for_every_measure(spark: SparkSession, bad: DataFrame) -> None:
    with pytest.warns(sm.SparkMetricsWarning, match="Dropped rows that cannot be evaluated") as caught:
        dropped = sm.evaluate(bad, invalid_rows="drop", **OF_EVERY_KIND, **EVERYTHING)
    (message,) = [str(warning.message) for warning in caught if "Dropped" in str(warning.message)]
    counts, number = dropped.states.row_counts, {reason: len(rows) for reason, rows in BAD.items()}
    assert counts is not None
    assert counts.dropped == number
    assert (counts.read, counts.used) == (len(GOOD) + sum(number.values()), len(GOOD))
    assert all(f"{rows} x {reason}" in message for reason, rows in number.items())
    expected = tables(sm.evaluate(bad.where("good"), **OF_EVERY_KIND, **EVERYTHING), TABLES)
    assert_same_bits(tables(dropped, TABLES), expected)
    assert {row["rows"] for row in expected["metrics"].to_pylist()} == {len(GOOD)}


def test_a_row_that_is_bad_for_the_score_is_dropped_for_the_prediction_too(spark: SparkSession) -> None:
    rows = [(1, 0.9, 1, 1.0), (0, 0.2, 0, 1.0), (1, None, 1, 1.0), (0, 0.1, None, 1.0), (1, 0.3, 0, None)]
    frame = table(spark, rows, y=IntegerType(), s=DoubleType(), guess=IntegerType(), w=DoubleType())
    with pytest.warns(sm.SparkMetricsWarning, match="1 x null score .*'s'.*1 x null prediction .*1 x null weight"):
        found = sm.evaluate(frame, label="y", score="s", prediction="guess", weight="w", invalid_rows="drop")
    assert {row["rows"] for row in found.metrics().select("rows").collect()} == {2}
    assert [row["count"] for row in found.class_counts().collect()] == [1, 1]


# --- what does not fit


@pytest.fixture(scope="module")
def small(spark: SparkSession) -> DataFrame:
    rows = [("a", "b", 0.5, [0.5, 0.5], "0.5", {"a": 1.0}), ("b", "b", 0.25, [0.5, 0.5], "1", {"b": 1.0})]
    return table(
        spark,
        rows,
        y=StringType(),
        guess=StringType(),
        s=DoubleType(),
        p=DOUBLES,
        text=StringType(),
        m=MapType(StringType(), DoubleType()),
    )


MISFITS: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "nothing": ({}, sm.ConfigError, "Nothing to evaluate: give score"),
    "score and probabilities": ({"score": "s", "probabilities": "p"}, sm.ConfigError, "Give either score .*, not both"),
    "scores and prediction": ({"scores": {"m": "s"}, "prediction": "guess"}, sm.ConfigError, "scores is of several"),
    "scores and probabilities": ({"scores": {"m": "s"}, "probabilities": "p"}, sm.ConfigError, "evaluate them apart"),
    "one class": ({"probabilities": "p", "classes": ["a"]}, sm.ConfigError, "at least two classes, found 'a'"),
    "one column": ({"probabilities": ["s"]}, sm.ConfigError, "at least two classes, found 's'"),
    "other classes": (
        {"probabilities": {"a": "s", "b": "s"}, "classes": ["a", "c"]},
        sm.ConfigError,
        "classes 'a', 'c' are not those of the probabilities: 'a', 'b'",
    ),
    "fewer classes": (
        {"probabilities": {"a": "s", "b": "s", "c": "s"}, "classes": ["a", "b"]},
        sm.ConfigError,
        "are not those of the probabilities",
    ),
    "classes twice": ({"probabilities": "p", "classes": [1, "1"]}, sm.ConfigError, "must name each class once"),
    "no classes": ({"prediction": "guess", "classes": []}, sm.ConfigError, "must name each class once"),
    "classes as text": ({"prediction": "guess", "classes": "ab"}, sm.ConfigError, "classes must be a list"),
    "2,001 classes": ({"probabilities": "p", "classes": range(2001)}, sm.ConfigError, "of 2001 classes: at most 2000"),
    "text": ({"probabilities": "text"}, sm.SchemaError, "probabilities column 'text' has type string"),
    "columns of text": (
        {"probabilities": ["s", "text"]},
        sm.SchemaError,
        "column 'text' has type string: not a number",
    ),
    "a number": ({"probabilities": 3}, sm.ConfigError, "probabilities must be a column"),
    "no column": ({"probabilities": "q"}, sm.SchemaError, "probabilities column 'q' is not in the table"),
    "no prediction": ({"prediction": "q"}, sm.SchemaError, "prediction column 'q' is not in the table"),
    "prediction of arrays": ({"prediction": "p"}, sm.SchemaError, "prediction column has type array<double>"),
    "label of arrays": ({"label": "p", "prediction": "guess"}, sm.SchemaError, "label column .* array<double>"),
    "metrics of scores": (
        {"prediction": "guess", "metrics": ["roc_auc", "ks"]},
        sm.ConfigError,
        "metrics: 'roc_auc', 'ks' cannot be had of the columns given",
    ),
    "metrics of classes": (
        {"score": "s", "metrics": ["cohen_kappa_linear"], "positive": "a"},
        sm.ConfigError,
        "metrics: 'cohen_kappa_linear' cannot be had of the columns given",
    ),
    "costs": ({"prediction": "guess", "class_costs": {"a": 1}}, sm.ConfigError, "class_costs must be"),
    "three of two": (
        {"probabilities": "p", "classes": ["a", "b", "c"]},
        sm.DataError,
        r"2 x other number of probabilities than classes \(column 'p'\)",
    ),
    "other labels": ({"probabilities": "p"}, sm.DataError, r"2 x label without a probability \(column 'y'\)"),
}


@pytest.mark.parametrize("name", MISFITS)
def test_what_does_not_fit_is_a_clear_error(small: DataFrame, name: str) -> None:
    arguments, error, message = MISFITS[name]
    with pytest.raises(error, match=message):
        sm.evaluate(small, **({"label": "y"} | arguments))


def test_a_map_of_nothing_has_no_classes(small: DataFrame) -> None:
    with pytest.raises(sm.DataError, match="'m' holds no probabilities"):
        sm.evaluate(small.withColumn("m", F.expr("map_filter(m, (k, v) -> false)")), label="y", probabilities="m")


def test_more_than_2000_classes_are_an_error(spark: SparkSession) -> None:
    frame = spark.range(2_001).select(F.col("id").alias("y"), F.col("id").alias("guess"))
    with pytest.raises(sm.DataError, match="more than 2000 classes"):
        sm.evaluate(frame, label="y", prediction="guess")
    assert sm.evaluate(frame.where("y < 2000"), label="y", prediction="guess").states.positive is None


def test_tables_need_what_they_are_made_from(small: DataFrame) -> None:
    of_classes = sm.evaluate(small, label="y", prediction="guess")
    for name in ("curves", "gains", "calibration", "segment_auc"):
        with pytest.raises(sm.ConfigError, match=f"{name} needs scores: give score or scores"):
            getattr(of_classes, name)()
    with pytest.raises(sm.ConfigError, match="confusion needs two classes"):
        of_classes.confusion()
    with pytest.raises(sm.ConfigError, match="normalize must be None or one of 'true', 'pred', 'all', found 'rows'"):
        of_classes.class_counts(normalize="rows")
    of_scores = sm.evaluate(small, label="y", score="s", positive="a")
    with pytest.raises(sm.ConfigError, match="class_counts needs predicted classes"):
        of_scores.class_counts()
    assert set(of_classes.tables()) == {"metrics", "class_counts"}
    assert set(of_scores.tables()) == {"metrics", "confusion", "curves", "gains", "calibration"}


def test_labels_outside_the_declared_classes_are_a_warning(small: DataFrame) -> None:
    with pytest.warns(sm.SparkMetricsWarning, match="'b' occur as label or prediction and are not in classes"):
        sm.evaluate(small, label="y", prediction="guess", classes=["a", "c"])
    with warnings.catch_warnings():
        warnings.simplefilter("error", sm.SparkMetricsWarning)
        sm.evaluate(small, label="y", prediction="guess", classes=["a", "c", "b"])
