"""Any table -> clean predictions: columns found, types cast by Spark, labels made two, bad rows named."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegralType,
    LongType,
    NumericType,
    StringType,
)

from sparkmetrics import ranges
from sparkmetrics.class_columns import ClassColumns
from sparkmetrics.columns import Keys, field_type, resolve
from sparkmetrics.errors import ConfigError, SchemaError

BAD_ROWS = {
    "null label": "label",
    "NaN label": "label",
    "null score": "score",
    "NaN score": "score",
    "null prediction": "prediction",
    "null probability": "probabilities",
    "NaN probability": "probabilities",
    "other number of probabilities than classes": "probabilities",
    "probability below 0 or above 1": "probabilities",
    "probabilities that do not add up to 1": "probabilities",
    "label without a probability": "label",
    "null weight": "weight",
    "NaN weight": "weight",
}
"""Reasons to drop a row, which `invalid_rows` decides about, with the column's role; the first that holds is the row's.
"""

FAULTS = {"vector score without element 1": "score", "negative weight": "weight", "weight above 1e100": "weight"}
"""Reasons that are an error under any policy."""

LARGEST_WEIGHT = 1e100
"""So that products of weights are numbers."""

Label = bool | int | float | str
"""What `positive` may be."""

LabelValue = bool | int | float
"""What `positive` becomes for labels that are no strings."""


@dataclass(frozen=True)
class Predictions:
    """Clean predictions.

    Attributes
    ----------
    frame : internal key columns, `tuple` (hash of the `by` columns), `positive` (boolean), `score` (double), `weight`
        (double, when weighted), `label_hash` (long), `inexact` (boolean), `reason` (null on a good row), and the
        columns of `ClassColumns`.
    keys : names and types of the key columns.
    weighted : whether there is a weight column.
    sources : the user's column of each role, and the `positive` label, for messages.
    """

    frame: DataFrame
    keys: Keys
    weighted: bool
    sources: Mapping[str, object]

    @property
    def good(self) -> DataFrame:
        """The scored rows that are evaluated, with the columns the engine reads."""
        columns = [*self.keys.columns, "tuple", "positive", "score", *(["weight"] if self.weighted else [])]
        return self.frame.where(F.col("reason").isNull()).select(*columns)


def clean(
    frame: DataFrame,
    *,
    by: Sequence[str],
    segments: Sequence[str],
    label: str,
    score: str | None,
    scores: Mapping[str, str] | None,
    weight: str | None,
    positive: Label,
    reserved: Collection[str],
    classes: ClassColumns | None = None,
) -> Predictions:
    """Clean predictions from any table; nothing is read yet.

    Parameters
    ----------
    frame : the prediction table.
    by, segments : key columns; `by` tuples are evaluated on their own, segments are pooled by levels.
    label : column of labels, boolean, numeric or string.
    score : column of scores (double, float, integer, decimal, boolean, or vector/array, whose element 1 it is).
    scores : instead of `score`: {model: column} of a wide table; the column `model` joins `by`.
    weight : column of weights >= 0, or None.
    positive : the label that counts as positive.
    reserved : column names of the result tables.
    classes : what the table says of classes; without scores there is nothing else.

    Raises
    ------
    SchemaError, ConfigError : as `Keys.of_table`, and for types that cannot be read as label, score or weight.
    """
    if (score is not None) + (scores is not None) > 1 or (score is None and scores is None and classes is None):
        raise ConfigError(
            "Give either score (one column) or scores ({model: column} of a wide table), not both or none."
        )
    if scores is not None and not isinstance(scores, Mapping):
        raise ConfigError(f"scores must map model names to score columns, found {scores!r}.")
    more = classes or ClassColumns({}, [], None, {})
    wide = scores is not None
    columns = dict(scores) if scores is not None else {"": score}
    if wide and not (columns and all(isinstance(name, str) and name for pair in columns.items() for name in pair)):
        raise ConfigError(
            f"scores must map at least one model name to a score column, like {{'rf': 'score_rf'}}, found {scores}."
        )
    for argument, names in (("by", by), ("segments", segments)):
        checked_names(argument, names)
    if wide and "model" in (str(name).lower() for name in (*by, *segments)):
        raise ConfigError("scores adds a column model to by, and by or segments already has one. Rename that column.")
    keys = Keys(tuple(by), tuple(segments)).of_table(frame, reserved)
    label_type = field_type(frame, label, "label")
    label_column, is_positive = resolve(frame, label, "label"), F.lit(None).cast("boolean")
    if score is not None or wide:
        label_column, is_positive = _label(label_column, label, label_type, positive)
    values = {model: _score(frame, name) for model, name in columns.items()}
    weight_column = None if weight is None else _weight(frame, weight)
    inward = keys.inward()
    if wide:
        keys = Keys((*keys.by, "model"), keys.segments, (*keys.types[: len(by)], StringType(), *keys.types[len(by) :]))
        scored = F.explode(F.array(*(_scored(value, model) for model, value in values.items())))
    else:
        (value,) = values.values()
        scored = _scored(value, "")
    rows = frame.select(
        *inward,
        label_column.alias("label"),
        is_positive.alias("positive"),
        *([weight_column.alias("weight")] if weight_column is not None else []),
        scored.alias("scored"),
        *(column.alias(name) for name, column in more.columns.items()),
    ).select("*", F.col("scored.score").alias("score"))
    if wide:
        rows = rows.withColumn(f"b{len(by)}", F.col("scored.model"))
    tests = [
        *_label_tests(isinstance(label_type, (DoubleType, FloatType))),
        *(_score_tests() if score is not None or wide else []),
        *more.tests,
        *(_weight_tests() if weight is not None else []),
    ]
    counts = F.col("weight") > 0 if weight is not None else F.lit(True)
    clean_rows = rows.select(
        *keys.columns,
        ranges.tuple_hash(keys).alias("tuple"),
        "positive",
        "score",
        *(["weight"] if weight is not None else []),
        F.when(counts, F.xxhash64("label")).alias("label_hash"),
        F.col("scored.inexact").alias("inexact"),
        "label",
        *more.columns,
        F.coalesce(*(F.when(test, F.lit(reason)) for test, reason in tests)).alias("reason"),
    )
    sources = {
        "label": label,
        "score": score if scores is None else dict(scores),
        **more.sources,
        "weight": weight,
        "positive": positive,
    }
    return Predictions(clean_rows, keys, weight is not None, sources)


def _scored(score: Score, model: str) -> Column:
    return F.struct(
        score.value.alias("score"),
        score.fault.alias("fault"),
        score.inexact.alias("inexact"),
        F.lit(model).alias("model"),
    )


def _label(column: Column, name: str, kind: DataType, positive: Label) -> tuple[Column, Column]:
    """The label, and whether it is the positive one, compared after casting both to one type."""
    if isinstance(kind, StringType):
        text = str(positive).lower() if isinstance(positive, bool) else str(positive)
        return column, column == F.lit(text)
    value = positive_value(name, kind, positive)
    if isinstance(kind, NumericType):
        column = column.cast("long" if isinstance(kind, IntegralType) else "double")
    return column, F.lit(False) if value is None else column == F.lit(value)


def positive_value(name: str, kind: DataType, positive: Label) -> LabelValue | None:
    """The positive label as a value of a boolean or numeric column; None where that has no such value.

    Raises
    ------
    ConfigError : `positive` is of another kind.
    SchemaError : a column of this type holds no labels.
    """
    described = f"label column {name!r} has type {kind.simpleString()}"
    if isinstance(kind, BooleanType):
        if positive in (True, False) and not isinstance(positive, str):
            return bool(positive)
        raise ConfigError(f"positive={positive!r}: {described}, so positive must be True or False.")
    if not isinstance(kind, NumericType):
        raise SchemaError(f"{described}: a label is boolean, numeric or string.")
    try:
        number = float(positive)
    except (TypeError, ValueError, OverflowError):
        raise ConfigError(f"positive={positive!r}: {described}, so positive must be a number.") from None
    if math.isnan(number):
        raise ConfigError("positive=NaN: a label that is not a number cannot be the positive one.")
    if not isinstance(kind, IntegralType):
        return number
    exact = Decimal(positive) if isinstance(positive, str) else positive
    return int(exact) if number.is_integer() and abs(number) < 2**63 else None


def checked_names(argument: str, names: object) -> None:
    """Raises ConfigError where one name stands for a list of them (it would be read letter by letter)."""
    if isinstance(names, str) or not isinstance(names, Collection):
        example = [names if isinstance(names, str) else "model"]
        raise ConfigError(f"{argument} must be a list of columns, for example {example}, found {names!r}.")


@dataclass(frozen=True)
class Score:
    """A score column as double, and what must be said of it.

    Attributes
    ----------
    value : the double.
    fault : whether it is a vector too short to have an element 1.
    inexact : whether the nearest double may be another number, so that different scores may become equal.
    """

    value: Column
    fault: Column
    inexact: Column


def _score(frame: DataFrame, name: str | None) -> Score:
    """The column of that name as scores; none at all where there is no name."""
    if name is None:
        return Score(F.lit(None).cast("double"), F.lit(False), F.lit(False))
    kind, column = field_type(frame, name, "score"), resolve(frame, name, "score")
    fault = F.lit(False)
    if kind.simpleString() == "vector":
        from pyspark.ml.functions import vector_to_array  # needs the ml package, which a slim client may lack

        # vector_to_array fails on null, which is a bad row and not an error of its own.
        column, kind = F.when(column.isNotNull(), vector_to_array(column)), ArrayType(DoubleType())
    if isinstance(kind, ArrayType) and isinstance(kind.elementType, NumericType):
        fault = column.isNotNull() & (F.size(column) < 2)  # the size of a null array depends on ANSI mode
        column, kind = F.get(column, F.lit(1)), kind.elementType
    if not isinstance(kind, (NumericType, BooleanType)):
        raise SchemaError(
            f"score column {name!r} has type {kind.simpleString()}: a score is a number, a boolean, or a vector or "
            "array of numbers whose element 1 it is. Cast it first."
        )
    return Score(column.cast("double"), fault, _past_double(column, kind))


def _past_double(column: Column, kind: DataType) -> Column:
    """Whether an integer or a decimal is not the number that its nearest double shows."""
    if isinstance(kind, LongType):
        kind, column = DecimalType(20, 0), column.cast("decimal(20,0)")
    elif not isinstance(kind, DecimalType) or kind.precision <= 15:
        return F.lit(False)
    # One more digit, where there is room, for a double that was rounded up to it.
    whole_digits = min(38 - kind.scale, kind.precision - kind.scale + 1)
    fits = F.abs(column.cast("double")) < 10.0**whole_digits * (1 - 2.0**-50)
    same = column.cast("double").cast(DecimalType(whole_digits + kind.scale, kind.scale)) == column
    return F.when(fits, ~same).otherwise(F.lit(True))


def _weight(frame: DataFrame, name: str) -> Column:
    kind = field_type(frame, name, "weight")
    if not isinstance(kind, NumericType):
        raise SchemaError(
            f"weight column {name!r} has type {kind.simpleString()}: a weight is a number. Cast it first."
        )
    return resolve(frame, name, "weight").cast("double")


def _label_tests(may_be_nan: bool) -> list[tuple[Column, str]]:
    """Why the label of a row cannot be used."""
    return [(F.col("label").isNull(), "null label"), *([(F.isnan("label"), "NaN label")] if may_be_nan else [])]


def _score_tests() -> list[tuple[Column, str]]:
    """Why the score of a row cannot be used."""
    score = F.col("score")
    return [
        (F.col("scored.fault"), "vector score without element 1"),
        (score.isNull(), "null score"),
        (F.isnan(score), "NaN score"),
    ]


def _weight_tests() -> list[tuple[Column, str]]:
    """Why the weight of a row cannot be used."""
    weight = F.col("weight")
    return [
        (weight.isNull(), "null weight"),
        (F.isnan(weight), "NaN weight"),
        (weight < 0, "negative weight"),
        (weight > LARGEST_WEIGHT, "weight above 1e100"),
    ]
