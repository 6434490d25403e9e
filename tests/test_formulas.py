"""One formula, three kinds of numbers: the same on Spark Columns, NumPy arrays and floats."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
from asked import PARAMETERS, SCORE, THRESHOLD
from pyspark.sql import Column, Row, SparkSession
from pyspark.sql import functions as F

from sparkmetrics.metrics import parts
from sparkmetrics.metrics.counts import Cells, Totals
from sparkmetrics.metrics.intervals import logit_normal, wilson
from sparkmetrics.metrics.list_parts import PositivesInTop, ScoreBins
from sparkmetrics.metrics.pair_parts import Placements
from sparkmetrics.metrics.parts import Extreme, Part

Stand = Any
"""A stand-in for a combined part: a number, a list of numbers, or stand-ins by name."""


def numbers() -> list[tuple[float, ...]]:
    """Every small table of four cells, then random weights."""
    random = np.random.default_rng(7)
    cells = [tuple(map(float, cell)) for cell in product((0, 1, 3), repeat=4)]
    return cells + [tuple(map(float, random.gamma(0.3, 10.0, 4))) for _ in range(50)]


def floats(values: Any) -> list[float]:
    """Floats of a Spark row or an array, NULL as NaN."""
    return [math.nan if value is None else float(value) for value in values]


def same(one: Sequence[float], other: Sequence[float]) -> bool:
    """To the last bit or two: Spark's logarithms and exponentials may round the other way."""
    return np.allclose(one, other, rtol=1e-15, atol=0.0, equal_nan=True)


def test_threshold_formulas_on_columns_arrays_and_floats(spark: SparkSession) -> None:
    rows = numbers()
    cells = Cells(*(F.col(name) for name in ("tp", "fp", "fn", "tn")))
    frame = spark.createDataFrame(
        [(i, *row) for i, row in enumerate(rows)], "i int, tp double, fp double, fn double, tn double"
    )
    columns = (metric.value(cells).alias(name) for name, metric in THRESHOLD.items())
    of_spark = frame.select("i", *columns).orderBy("i").collect()
    arrays = Cells(*np.array(rows).T)
    for name, metric in THRESHOLD.items():
        of_arrays = metric.value(arrays)
        assert isinstance(of_arrays, np.ndarray)
        of_floats = [metric.value(Cells(*row)) for row in rows]
        assert all(isinstance(value, float) for value in of_floats)
        assert np.array_equal(of_arrays, of_floats, equal_nan=True), name
        assert np.array_equal(of_arrays, floats(row[name] for row in of_spark), equal_nan=True), name

        lacking = np.any([getattr(arrays, need) == 0 for need in metric.needs], axis=0)
        assert np.array_equal(np.isnan(of_arrays), np.broadcast_to(lacking, of_arrays.shape)), name
        defined = of_arrays[~np.isnan(of_arrays)]
        assert np.all((metric.range[0] <= defined) & (defined <= metric.range[1])), name


# --- combined parts

BIN_TYPE = (
    "struct<weight: array<double>, positives: array<double>, score: array<double>, squared_errors: array<double>>"
)


def stand_in(part: Part, p: float, n: float, share: float) -> Stand:
    """What a part might be of a group with these positives and negatives."""
    if isinstance(part, Extreme):
        return {"value": share if p or n else None, "threshold": share}
    if isinstance(part, Placements):
        return {"positive": share * p * n, "negative": p, "whole": n != 1}
    if isinstance(part, PositivesInTop):
        return [p * share * (i + 1) / 10 for i in range(part.buckets + len(part.top_k))]
    if isinstance(part, ScoreBins):
        places = range(part.bins)
        weight = [(p + n) * (i % 3) / 4 for i in places]
        positives = [p * (i % 3) / 4 for i in places]
        score = [w * (i + share) / part.bins for i, w in zip(places, weight, strict=True)]
        return {"weight": weight, "positives": positives, "score": score, "squared_errors": score}
    return share * p * n


def spark_type(part: Part) -> str:
    """Of a combined part."""
    if isinstance(part, Extreme):
        return "struct<value: double, threshold: double>"
    if isinstance(part, Placements):
        return "struct<positive: double, negative: double, whole: boolean>"
    if isinstance(part, PositivesInTop):
        return "array<double>"
    return BIN_TYPE if isinstance(part, ScoreBins) else "double"


def stacked(stands: Sequence[Stand]) -> Stand:
    """Stand-ins of groups as arrays of groups."""
    if isinstance(stands[0], Mapping):
        return {name: stacked([stand[name] for stand in stands]) for name in stands[0]}
    if isinstance(stands[0], bool):
        return np.array(stands)
    return np.array(stands, dtype=float)


def alone(stand: Stand) -> Stand:
    """A stand-in of one group as floats and arrays."""
    if isinstance(stand, Mapping):
        return {name: alone(value) for name, value in stand.items()}
    if isinstance(stand, list):
        return np.array(stand)
    return math.nan if stand is None else stand


def test_score_formulas_on_columns_arrays_and_floats(spark: SparkSession) -> None:
    groups = [(p, n, share / 7) for p, n, share, _ in numbers()]
    found = parts(SCORE.values())
    stands = {name: [stand_in(part, *group) for group in groups] for name, part in found.items()}
    schema = ", ".join(f"`{name}` {spark_type(part)}" for name, part in found.items())
    rows = [(i, p, n, *(stands[name][i] for name in found)) for i, (p, n, _) in enumerate(groups)]
    frame = spark.createDataFrame(rows, f"i int, p double, n double, {schema}")

    totals, z = Totals(F.col("p"), F.col("n")), 1.96
    columns: dict[str, Column] = {}
    for name, metric in SCORE.items():
        columns[name] = metric.value(F.col(metric.part.name), totals)
        columns |= {f"{name}, {why}": holds for why, holds in metric.undefined(F.col(metric.part.name), totals).items()}
        if metric.interval:
            bounds = metric.interval.bounds(columns[name], F.col(metric.interval.part.name), totals, z)
            columns |= {f"{name} {end}": bound for end, bound in zip(("lower", "upper"), bounds, strict=True)}
    of_spark: list[Row] = frame.select("i", *(c.alias(name) for name, c in columns.items())).orderBy("i").collect()

    arrays = Totals(*np.array(groups).T[:2])
    for name, metric in SCORE.items():
        given = stands[metric.part.name]
        of_arrays = metric.value(stacked(given), arrays)
        of_floats = [metric.value(alone(stand), Totals(p, n)) for stand, (p, n, _) in zip(given, groups, strict=True)]
        assert all(isinstance(value, float) for value in of_floats), name
        assert same(of_arrays, of_floats), name
        assert same(of_arrays, floats(row[name] for row in of_spark)), name
        assert np.isfinite(of_arrays).any(), name
        for why, holds in metric.undefined(stacked(given), arrays).items():
            assert list(np.ravel(holds)) == [row[f"{name}, {why}"] for row in of_spark], (name, why)
        if metric.interval:
            bounds = metric.interval.bounds(of_arrays, stacked(stands[metric.interval.part.name]), arrays, z)
            for end, bound in zip(("lower", "upper"), bounds, strict=True):
                assert same(bound, floats(row[f"{name} {end}"] for row in of_spark)), (name, end)


def test_intervals_on_columns_arrays_and_floats(spark: SparkSession) -> None:
    rows = [(share / 8, size, size / 100) for share in range(9) for size in (0.0, 1.0, 7.0, 1e6)]
    frame = spark.createDataFrame(
        [(i, *row) for i, row in enumerate(rows)], "i int, share double, size double, error double"
    )
    of_columns = {
        "wilson": wilson(F.col("share"), F.col("size"), 1.96),
        "logit": logit_normal(F.col("share"), F.col("error"), 1.96),
    }
    columns = [bound.alias(f"{name} {end}") for name, bounds in of_columns.items() for end, bound in enumerate(bounds)]
    of_spark = frame.select("i", *columns).orderBy("i").collect()
    share, size, error = np.array(rows).T
    of_arrays = {"wilson": wilson(share, size, 1.96), "logit": logit_normal(share, error, 1.96)}
    for name, bounds in of_arrays.items():
        for end, bound in enumerate(bounds):
            one_by_one = [
                (wilson(s, n, 1.96) if name == "wilson" else logit_normal(s, e, 1.96))[end] for s, n, e in rows
            ]
            assert same(bound, one_by_one), name
            assert same(bound, floats(row[f"{name} {end}"] for row in of_spark)), name


def test_the_parameters_ask_for_every_kind_of_part() -> None:
    kinds = {type(part) for part in parts(SCORE.values()).values()}
    assert {Extreme, Placements, PositivesInTop, ScoreBins} < kinds
    assert PARAMETERS.payoffs is not None
