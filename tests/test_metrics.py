"""The registry of measures: formulas alike on Columns, arrays and floats, and undefined only with a reason."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

import sparkmetrics as sm
from sparkmetrics.metrics import SCORE, THRESHOLD, Metric, parts, reason
from sparkmetrics.metrics.counts import Cells, Totals

ALL: dict[str, Metric] = {**THRESHOLD, **SCORE}

UNDEFINED = {
    **dict.fromkeys(("accuracy", "error_rate", "prevalence", "predicted_positive_rate"), ("weight",)),
    **dict.fromkeys(("log_loss", "brier"), ("weight",)),
    **dict.fromkeys(("recall", "fnr", "average_precision"), ("positives",)),
    **dict.fromkeys(("specificity", "fpr"), ("negatives",)),
    **dict.fromkeys(("roc_auc", "gini", "ks"), ("positives", "negatives")),
    "precision": ("predicted positives",),
    "npv": ("predicted negatives",),
    "f1": ("positives or predicted positives",),
}
"""What each measure cannot do without: it is NULL with "no ..." exactly where that is 0."""

PERFECT_AND_WORST = {
    "accuracy": (1.0, 0.0),
    "error_rate": (0.0, 1.0),
    "precision": (1.0, 0.0),
    "recall": (1.0, 0.0),
    "specificity": (1.0, 0.0),
    "fpr": (0.0, 1.0),
    "fnr": (0.0, 1.0),
    "npv": (1.0, 0.0),
    "f1": (1.0, 0.0),
    "prevalence": (0.4, 0.4),
    "predicted_positive_rate": (0.4, 0.6),
    "roc_auc": (1.0, 0.0),
    "gini": (1.0, -1.0),
    "average_precision": (1.0, 0.4),
    "ks": (1.0, 1.0),  # two-sided: a ranking that is always wrong separates as well
    "log_loss": (-math.log1p(-(2.0**-52)), -math.log(2.0**-52)),
    "brier": (0.0, 1.0),
}
"""Values of scores that are the labels, and of scores that are the labels turned round, for 4 positives of 10."""


@pytest.mark.parametrize("metric", ALL.values(), ids=lambda metric: metric.name)
def test_registration(metric: Metric) -> None:
    assert ALL[metric.name] is metric
    assert metric.purpose.rstrip(".") == metric.purpose != ""
    assert metric.formula
    assert metric.range[0] < metric.range[1]
    assert [reason(need) for need in metric.needs] == [f"no {name}" for name in UNDEFINED[metric.name]]
    assert metric.undefined_when() == ", or ".join(f"no {name}" for name in UNDEFINED[metric.name])


def test_every_measure_is_told_here() -> None:
    assert set(UNDEFINED) == set(PERFECT_AND_WORST) == set(ALL)
    assert set(THRESHOLD).isdisjoint(SCORE)
    assert {metric.part.name: metric.part for metric in SCORE.values()} == parts()


@pytest.mark.parametrize("metric", ALL.values(), ids=lambda metric: metric.name)
def test_direction(metric: Metric) -> None:
    perfect, worst = PERFECT_AND_WORST[metric.name]
    if metric.best is None:
        assert metric.name in ("prevalence", "predicted_positive_rate")
    elif metric.name != "ks":
        assert (perfect > worst) == (metric.best == "highest")
    if metric.best is not None:
        assert perfect == pytest.approx(metric.range[metric.best == "highest"], abs=1e-15)
    assert all(metric.range[0] <= value <= metric.range[1] for value in (perfect, worst))


# --- one formula, three kinds of numbers


def numbers() -> list[tuple[float, ...]]:
    """Every small table of four cells, then random weights."""
    random = np.random.default_rng(7)
    cells = [tuple(map(float, cell)) for cell in product((0, 1, 3), repeat=4)]
    return cells + [tuple(map(float, random.gamma(0.3, 10.0, 4))) for _ in range(50)]


def as_numbers(values: Any) -> list[float]:
    """Floats of a Spark row or an array, NULL as NaN."""
    return [math.nan if value is None else float(value) for value in values]


def test_threshold_formulas_on_columns_arrays_and_floats(spark: SparkSession) -> None:
    rows = numbers()
    names = ("tp", "fp", "fn", "tn")
    cells = Cells(*(F.col(name) for name in names))
    frame = spark.createDataFrame([(i, *row) for i, row in enumerate(rows)], f"i int, {' double, '.join(names)} double")
    columns = (metric.value(cells).alias(name) for name, metric in THRESHOLD.items())
    of_spark = frame.select("i", *columns).orderBy("i").collect()
    arrays = Cells(*np.array(rows).T)
    for name, metric in THRESHOLD.items():
        of_arrays = metric.value(arrays)
        assert isinstance(of_arrays, np.ndarray)
        of_floats = [metric.value(Cells(*row)) for row in rows]
        assert all(isinstance(value, float) for value in of_floats)
        assert np.array_equal(of_arrays, of_floats, equal_nan=True), name
        assert np.array_equal(of_arrays, as_numbers(row[name] for row in of_spark), equal_nan=True), name

        needed = sum(getattr(arrays, need) for need in metric.needs)
        assert np.array_equal(np.isnan(of_arrays), needed == 0), name
        defined = of_arrays[~np.isnan(of_arrays)]
        assert np.all((metric.range[0] <= defined) & (defined <= metric.range[1])), name


def test_score_formulas_on_columns_arrays_and_floats(spark: SparkSession) -> None:
    """Of a combined part and the totals. KS only picks its value, which is undefined where its part is."""
    rows = [(part * p * n, p, n) for part, p, n, _ in numbers()]
    totals = Totals(F.col("p"), F.col("n"))
    frame = spark.createDataFrame([(i, *row) for i, row in enumerate(rows)], "i int, part double, p double, n double")
    given = {name: F.col("part") for name in SCORE} | {"ks": F.struct(F.col("part").alias("value"))}
    columns = (metric.value(given[name], totals).alias(name) for name, metric in SCORE.items())
    of_spark = frame.select("i", *columns).orderBy("i").collect()
    part, p, n = np.array(rows).T
    for name, metric in SCORE.items():
        of_arrays = metric.value({"value": part} if name == "ks" else part, Totals(p, n))
        of_floats = [metric.value({"value": a} if name == "ks" else a, Totals(b, c)) for a, b, c in rows]
        assert np.array_equal(of_arrays, of_floats, equal_nan=True), name
        assert np.array_equal(of_arrays, as_numbers(row[name] for row in of_spark), equal_nan=True), name
        undefined = [any(getattr(Totals(b, c), need) == 0 for need in metric.needs) for _, b, c in rows]
        assert np.array_equal(np.isnan(of_arrays), undefined) or name == "ks"


# --- evaluated tables

BASE = [
    (segment, int(label), round(float(np.clip(score, 0, 1)), digits))
    for segment, digits, random in (("a", 1, np.random.default_rng(1)), ("b", 6, np.random.default_rng(2)))
    for label, score in ((y, random.normal(0.3 + 0.3 * y, 0.25)) for y in random.integers(0, 2, 40))
]
WEIGHTS = [float(weight) for weight in np.random.default_rng(3).gamma(0.5, 2.0, len(BASE))]
RENAMED = {"a": "zzz", "b": None}

SINGLE = {
    "perfect": [(1, 1.0)] * 4 + [(0, 0.0)] * 6,
    "worst": [(1, 0.0)] * 4 + [(0, 1.0)] * 6,
    "no positives": [(0, 0.9), (0, 0.2)],
    "no negatives": [(1, 0.9), (1, 0.2)],
    "none predicted": [(1, 0.4), (0, 0.2)],
    "all predicted": [(1, 0.5), (0, 0.5)],
    "no positives, none predicted": [(0, 0.1)],
    "no negatives, all predicted": [(1, 0.9)],
}

Table = dict[tuple[Any, ...], Row]
"""Rows of `metrics` by (case, level, segment, metric)."""


def metrics_of(spark: SparkSession, rows: list[tuple[Any, ...]], weighted: bool) -> Table:
    frame = spark.createDataFrame(rows, "case string, segment string, y int, p double, w double").repartition(3)
    weight = "w" if weighted else None
    ev = sm.evaluate(frame, by=["case"], segments=["segment"], label="y", score="p", weight=weight, thresholds=[0.5])
    collected = ev.metrics().collect()
    table = {(row["case"], row["level"], row["segment"], row["metric"]): row for row in collected}
    assert len(table) == len(collected)
    return table


@pytest.fixture(scope="module")
def unweighted(spark: SparkSession) -> Table:
    rows = [("base", *row, None) for row in BASE] + [("twice", *row, None) for row in BASE + BASE]
    rows += [("renamed", RENAMED[segment], *row, None) for segment, *row in BASE]
    rows += [(case, "a", *row, None) for case, pairs in SINGLE.items() for row in pairs]
    return metrics_of(spark, rows, weighted=False)


@pytest.fixture(scope="module")
def weighted(spark: SparkSession) -> Table:
    weighed = list(zip(BASE, WEIGHTS, strict=True))
    rows = [("weight 1", *row, 1.0) for row in BASE] + [("weight 2", *row, 2.0) for row in BASE]
    rows += [("base", *row, w) for row, w in weighed] + [("twice", *row, w) for row, w in weighed + weighed]
    rows += [("doubled", *row, 2 * w) for row, w in weighed]
    for scale in (1e12, 1e-12):
        rows += [(f"times {scale}", *row, scale * w) for row, w in weighed]
    rows += [("renamed", RENAMED[segment], *row, w) for (segment, *row), w in weighed]
    rows += [(case, "a", *row, 0.25) for case, pairs in SINGLE.items() for row in pairs]
    rows += [("empty", "a", *row, 0.0) for row in SINGLE["perfect"]]
    return metrics_of(spark, rows, weighted=True)


def groups(table: Table, case: str) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """Value, threshold and reason of each (level, segment, metric) of a case."""
    return {key[1:]: (row["value"], row["threshold"], row["reason"]) for key, row in table.items() if key[0] == case}


def assert_alike(found: dict[tuple[Any, ...], Any], wanted: dict[tuple[Any, ...], Any]) -> None:
    assert len(wanted) == 3 * len(ALL)
    assert found.keys() == wanted.keys()
    for key, (value, threshold, why) in wanted.items():
        assert found[key][1:] == (threshold, why), key
        assert found[key][0] == (None if value is None else pytest.approx(value, rel=1e-12, abs=1e-12)), key


@pytest.mark.parametrize("case", ["perfect", "worst"])
@pytest.mark.parametrize("kind", ["unweighted", "weighted"])
def test_perfect_and_worst(kind: str, case: str, request: pytest.FixtureRequest) -> None:
    table = request.getfixturevalue(kind)
    place = ("perfect", "worst").index(case)
    for name, values in PERFECT_AND_WORST.items():
        found = table[case, "total", None, name]["value"]
        assert found == pytest.approx(values[place], rel=1e-12, abs=1e-30), name


@pytest.mark.parametrize("kind", ["unweighted", "weighted"])
def test_undefined_values_have_a_reason_and_others_have_none(kind: str, request: pytest.FixtureRequest) -> None:
    table = request.getfixturevalue(kind)
    cases = SINGLE | ({"empty": []} if kind == "weighted" else {})
    for case, pairs in cases.items():
        positives = sum(label for label, _ in pairs)
        predicted = sum(score >= 0.5 for _, score in pairs)
        missing = {
            "weight": not pairs,
            "positives": positives == 0,
            "negatives": positives == len(pairs),
            "predicted positives": predicted == 0,
            "predicted negatives": predicted == len(pairs),
            "positives or predicted positives": not any(label or score >= 0.5 for label, score in pairs),
        }
        for name, needs in UNDEFINED.items():
            row = table[case, "total", None, name]
            wanted = next((f"no {need}" for need in needs if missing[need]), None)
            assert (row["reason"], row["value"] is None) == (wanted, wanted is not None), (case, name)
    assert all((row["value"] is None) == (row["reason"] is not None) for row in table.values())


@pytest.mark.parametrize("kind", ["unweighted", "weighted"])
def test_values_keep_to_their_range(kind: str, request: pytest.FixtureRequest) -> None:
    for (case, *_, name), row in request.getfixturevalue(kind).items():
        least, largest = ALL[name].range
        assert row["value"] is None or least <= row["value"] <= largest, (case, name)


def test_names_of_segments_change_nothing(unweighted: Table, weighted: Table) -> None:
    names = RENAMED | {None: None}
    for table, exact in ((unweighted, True), (weighted, False)):
        wanted = {
            (level, names[segment] if level == "segment" else None, name): row
            for (level, segment, name), row in groups(table, "base").items()
        }
        if exact:
            assert groups(table, "renamed") == wanted
        assert_alike(groups(table, "renamed"), wanted)


def test_a_row_given_twice_is_a_row_of_weight_2(unweighted: Table, weighted: Table) -> None:
    assert_alike(groups(weighted, "weight 2"), groups(unweighted, "twice"))
    assert_alike(groups(weighted, "doubled"), groups(weighted, "twice"))
    for (level, segment, _), row in ((key[1:], row) for key, row in unweighted.items() if key[0] == "twice"):
        doubled = weighted["weight 2", level, segment, "roc_auc"]
        assert (doubled["positives"], doubled["negatives"]) == (row["positives"], row["negatives"])
        assert 2 * doubled["rows"] == row["rows"]


def test_weight_1_is_no_weight(unweighted: Table, weighted: Table) -> None:
    assert_alike(groups(weighted, "weight 1"), groups(unweighted, "base"))
    for name in ("roc_auc", "gini", "ks", *THRESHOLD):  # integers all the way
        assert weighted["weight 1", "total", None, name]["value"] == unweighted["base", "total", None, name]["value"]


@pytest.mark.parametrize("scale", [2, 1e12, 1e-12])
def test_the_scale_of_weights_changes_nothing(weighted: Table, scale: float) -> None:
    case = "doubled" if scale == 2 else f"times {scale}"
    assert_alike(groups(weighted, case), groups(weighted, "base"))
    total, scaled = (weighted[name, "total", None, "roc_auc"] for name in ("base", case))
    assert scaled["rows"] == total["rows"] == len(BASE)
    for count in ("positives", "negatives"):
        assert scaled[count] == pytest.approx(scale * total[count], rel=1e-12)
