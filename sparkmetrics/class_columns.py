"""Columns of classes and of their probabilities: labels and predictions as text that compares, probabilities as array.

A class is text: `1` and `1.0` are the class "1", true is "true". Label and prediction are compared after that.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    FractionalType,
    IntegralType,
    MapType,
    NumericType,
    StringType,
    StructType,
)

from sparkmetrics.class_tables import NUMBER
from sparkmetrics.columns import field_type, listed, resolve
from sparkmetrics.errors import ConfigError, DataError, SchemaError

MAX_CLASSES = 2_000
"""Most classes that can be evaluated: a group of so many has 4,000,000 cells."""

SUM_TOLERANCE = 1e-6
"""How far the probabilities of a row may add up from 1."""

ProbabilityColumns = str | Mapping[object, str] | Sequence[str]
"""One column, or one for each class: {class: column}, or columns named like the classes."""


def class_name(value: object) -> str:
    """A class that a user names, as the text it has in tables."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def class_text(column: Column, kind: DataType, with_numbers: bool, role: str) -> Column:
    """A column of classes as text.

    Parameters
    ----------
    column, kind : the column and its type: string, number or boolean.
    with_numbers : whether it is compared with numbers, so that true is 1.
    role : "label" or "prediction", for the message.
    """
    if isinstance(kind, BooleanType):
        return column.cast("int").cast("string") if with_numbers else column.cast("string")
    if isinstance(kind, StringType):
        return column
    if isinstance(kind, IntegralType):
        return column.cast("long").cast("string")
    if isinstance(kind, NumericType):
        number = column.cast("double")
        whole = (number == F.floor(number)) & (F.abs(number) < 2.0**53)
        return F.when(whole, number.cast("long").cast("string")).otherwise(number.cast("string"))
    raise SchemaError(f"{role} column has type {kind.simpleString()}: a class is a string, a number or a boolean.")


def in_order(classes: Sequence[str]) -> tuple[str, ...]:
    """Classes that were found, in order: numbers by size, then other text by the alphabet."""

    def place(name: str) -> tuple[bool, float, str]:
        is_number = re.match(NUMBER, name) is not None
        return not is_number, float(name) if is_number else 0.0, name

    return tuple(sorted(classes, key=place))


@dataclass(frozen=True)
class Probabilities:
    """The probabilities of a row's classes.

    Attributes
    ----------
    values : array of double, one element a class.
    classes : their names, in order.
    """

    values: Column
    classes: tuple[str, ...]


def probabilities(frame: DataFrame, given: object, classes: Sequence[object] | None) -> Probabilities:
    """Probabilities from an array, ml vector, map or struct column, or from one column a class.

    Parameters
    ----------
    frame : the prediction table.
    given : a column, {class: column}, or a list of columns that are named like the classes.
    classes : the classes of an array or vector, in order, or a choice and order of those of a map; None takes 0, 1, ...
        for an array or vector, and what occurs for a map. Both look at the table.

    Raises
    ------
    ConfigError, SchemaError : columns that cannot be read so, or classes that do not fit them.
    DataError : a map without keys, or an array column without arrays.
    """
    declared = None if classes is None else tuple(class_name(c) for c in classes)
    if not isinstance(given, str):
        found = _columns(frame, given, declared)
    else:
        kind, column = field_type(frame, given, "probabilities"), resolve(frame, given, "probabilities")
        if kind.simpleString() == "vector":
            from pyspark.ml.functions import vector_to_array  # needs the ml package, which a slim client may lack

            # vector_to_array fails on null, which is a bad row and not an error of its own.
            column, kind = F.when(column.isNotNull(), vector_to_array(column)), ArrayType(DoubleType())
        found = _one_column(frame, given, column, kind, declared)
    if len(found.classes) < 2:
        raise ConfigError(f"probabilities need at least two classes, found {listed(found.classes)}.")
    if len(found.classes) > MAX_CLASSES:
        raise ConfigError(f"probabilities of {len(found.classes)} classes: at most {MAX_CLASSES} can be evaluated.")
    return found


def _columns(frame: DataFrame, given: object, declared: tuple[str, ...] | None) -> Probabilities:
    """One column a class."""
    if isinstance(given, Mapping):
        columns = {class_name(name): column for name, column in given.items()}
    elif isinstance(given, Sequence):
        columns = {str(column): column for column in given}
    else:
        columns = {}
    if not columns or not all(isinstance(column, str) for column in columns.values()):
        raise ConfigError(
            f"probabilities must be a column, {{class: column}} or a list of columns named like the classes, found "
            f"{given!r}."
        )
    names = _chosen(tuple(columns), declared)
    for name in names:
        kind = field_type(frame, columns[name], "probabilities")
        if not isinstance(kind, NumericType):
            raise SchemaError(f"probabilities column {columns[name]!r} has type {kind.simpleString()}: not a number.")
    values = (resolve(frame, columns[name], "probabilities").cast("double") for name in names)
    return Probabilities(F.array(*values), names)


def _one_column(
    frame: DataFrame, name: str, column: Column, kind: DataType, declared: tuple[str, ...] | None
) -> Probabilities:
    if isinstance(kind, ArrayType) and isinstance(kind.elementType, NumericType):
        if declared is None:
            size = frame.agg(F.max(F.size(column))).first()
            if size is None or size[0] is None or size[0] < 1:
                raise DataError(f"probabilities column {name!r} holds no probabilities.")
            declared = tuple(str(i) for i in range(int(size[0])))
        return Probabilities(column.cast("array<double>"), declared)
    if isinstance(kind, StructType) and all(isinstance(f.dataType, NumericType) for f in kind.fields):
        names = _chosen(tuple(kind.names), declared)
        values = F.array(*(column.getField(n).cast("double") for n in names))
        return Probabilities(F.when(column.isNotNull(), values), names)
    if isinstance(kind, MapType) and isinstance(kind.valueType, NumericType):
        key = class_text(F.col("key"), kind.keyType, False, "probabilities")
        if declared is None:
            keys = frame.select(F.explode(F.map_keys(column)).alias("key")).select(key.alias("key")).distinct()
            declared = in_order([row["key"] for row in keys.limit(MAX_CLASSES + 1).collect()])
            if not declared:
                raise DataError(f"probabilities column {name!r} holds no probabilities.")
        named = F.transform_keys(column, lambda k, _: class_text(k, kind.keyType, False, "probabilities"))
        # A class that a map leaves out has probability 0; one that is null is a bad row.
        values = F.array(
            *(
                F.when(F.map_contains_key(named, n), F.element_at(named, n)).otherwise(0.0).cast("double")
                for n in declared
            )
        )
        return Probabilities(F.when(column.isNotNull(), values), declared)
    raise SchemaError(
        f"probabilities column {name!r} has type {kind.simpleString()}: expected an array, vector, map or struct of "
        "numbers, or one column a class."
    )


def _chosen(found: tuple[str, ...], declared: tuple[str, ...] | None) -> tuple[str, ...]:
    """The classes that probabilities have, in declared order."""
    if declared is None:
        return found
    if set(declared) != set(found):
        raise ConfigError(f"classes {listed(declared)} are not those of the probabilities: {listed(found)}.")
    return declared


def true_rank(probability: Column, place: Column) -> Column:
    """The rank of the true class among the probabilities; of equals the one that stands first is higher.

    Parameters
    ----------
    probability : array of probabilities.
    place : position of the true class, from 0.
    """
    mine = F.get(probability, place)
    ahead = F.filter(probability, lambda p, i: (p > mine) | ((p == mine) & (i < place)))
    return F.size(ahead) + 1


def most_likely(probability: Column, classes: Sequence[str]) -> Column:
    """The class of the largest probability; of equals the one that stands first."""
    names = F.array(*map(F.lit, classes))
    return F.get(names, _place(probability, F.array_max(probability)))


def _place(values: Column, value: Column) -> Column:
    """The first position of a value in an array, from 0; -1 where it is not there."""
    # By its name, since F.array_position of PySpark 3.5 takes no Column.
    return F.call_function("array_position", values, value).cast("int") - 1


@dataclass(frozen=True)
class ClassColumns:
    """The columns of classes that clean predictions carry, and what makes a row of them unusable.

    Attributes
    ----------
    columns : `class_label` and `class_prediction` (strings); with probabilities also `probability` (array of double)
        and `class_place` (position of the label among the classes, from 0).
    tests : conditions on these columns, each with its reason.
    classes : of the probabilities; None without them.
    sources : the user's columns of the roles `prediction` and `probabilities`, for messages.
    """

    columns: Mapping[str, Column]
    tests: Sequence[tuple[Column, str]]
    classes: tuple[str, ...] | None
    sources: Mapping[str, object]


def class_columns(
    frame: DataFrame,
    label: str,
    prediction: str | None,
    given: ProbabilityColumns | None,
    classes: Sequence[object] | None,
) -> ClassColumns:
    """What a prediction table says of classes.

    Parameters
    ----------
    frame : the prediction table.
    label : column of labels.
    prediction : column of predicted classes; None takes the most likely class of the probabilities.
    given, classes : as in `probabilities`.

    Raises
    ------
    As `probabilities`; SchemaError also for labels and predictions that are no classes.
    """
    kinds = {"label": (label, field_type(frame, label, "label"))}
    if prediction is not None:
        kinds["prediction"] = (prediction, field_type(frame, prediction, "prediction"))
    found = None if given is None else probabilities(frame, given, classes)
    with_numbers = any(isinstance(kind, NumericType) for _, kind in kinds.values())
    if found is not None and not with_numbers:
        with_numbers = not {"true", "false"} & set(found.classes)
    columns, tests = {}, []
    for role, (name, kind) in kinds.items():
        text = class_text(resolve(frame, name, role), kind, with_numbers, role)
        columns[f"class_{role}"] = F.when(text != "NaN", text) if isinstance(kind, FractionalType) else text
    if prediction is not None:
        tests.append((F.col("class_prediction").isNull(), "null prediction"))
    if found is not None:
        names = F.array(*map(F.lit, found.classes))
        columns["probability"] = found.values
        columns["class_place"] = _place(names, columns["class_label"])
        columns.setdefault("class_prediction", most_likely(found.values, found.classes))
        tests += [*_probability_tests(len(found.classes)), (F.col("class_place") < 0, "label without a probability")]
    sources = {"prediction": prediction, "probabilities": given}
    return ClassColumns(columns, tests, None if found is None else found.classes, sources)


def _probability_tests(classes: int) -> list[tuple[Column, str]]:
    """Why the probabilities of a row cannot be used."""
    probability = F.col("probability")
    total = F.aggregate(probability, F.lit(0.0), lambda so_far, p: so_far + p)
    return [
        (probability.isNull() | F.exists(probability, lambda p: p.isNull()), "null probability"),
        (F.size(probability) != classes, "other number of probabilities than classes"),
        (F.exists(probability, F.isnan), "NaN probability"),
        (F.exists(probability, lambda p: (p < 0.0) | (p > 1.0)), "probability below 0 or above 1"),
        (F.abs(total - 1.0) > SUM_TOLERANCE, "probabilities that do not add up to 1"),
    ]
