"""Properties that every metric of two classes has: one test a property, over the whole registry.

That the order of rows, partitions, ranges and saved parts change nothing is in `test_invariance.py`, for the same
metrics.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from asked import ALL, ASKED, SCORE, THRESHOLD
from expectations import OF_ROWS, PERFECT_AND_WORST, PROBABILITIES, UNDEFINED
from pyspark.sql import Row, SparkSession

import sparkmetrics as sm
from sparkmetrics.metrics import Metric, Parameters, parts, reason, score_metrics, table, threshold_metrics

every_metric = pytest.mark.parametrize("metric", ALL.values(), ids=lambda metric: metric.name)
both_kinds = pytest.mark.parametrize("kind", ["unweighted", "weighted"])

# --- registration


@every_metric
def test_registration(metric: Metric) -> None:
    assert metric.purpose.rstrip(".") == metric.purpose != ""
    assert metric.formula
    assert metric.range[0] < metric.range[1]
    needed = [why for why in UNDEFINED[metric.name] if why.startswith("no ")]
    assert [reason(need) for need in metric.needs] == needed
    further = [metric.also_undefined] if metric.also_undefined else []
    assert metric.undefined_when() == ", or ".join(needed + further)
    is_probability = metric.name in PROBABILITIES
    assert getattr(metric, "probability", False) == is_probability == (further == ["scores outside [0, 1]"])
    others = [why for why in UNDEFINED[metric.name] if not why.startswith("no ")]
    assert not others or further


def test_every_metric_is_told_by_hand() -> None:
    assert set(UNDEFINED) == set(PERFECT_AND_WORST) == set(ALL)
    assert len(ALL) == len(THRESHOLD) + len(SCORE)
    assert {*PROBABILITIES, *OF_ROWS} < set(ALL)


def test_metrics_without_parameters_are_there_without_asking() -> None:
    without = threshold_metrics(Parameters()) | score_metrics(Parameters())
    # One beta, 1, is asked for by default.
    asked_for = {name for name in ALL if name not in without}
    assert set(without) - set(ALL) == {"fbeta_1"}
    assert asked_for == {
        *("fbeta_0.5", "fbeta_2", "profit", "best_profit"),
        *("partial_auc_fpr_0_0.25", "partial_auc_corrected_fpr_0_0.25"),
        *("partial_auc_tpr_0.5_1", "partial_auc_corrected_tpr_0.5_1"),
        *("precision_at_5", "precision_at_20%", "recall_at_5", "recall_at_20%"),
    }


def test_parts_have_names_of_their_own() -> None:
    found = parts(SCORE.values())
    assert set(found.values()) == {part for metric in SCORE.values() for part in metric.parts}
    columns = [column for part in found.values() for column in part.columns()]
    assert len(columns) == len(set(columns))


def test_the_table_of_the_readme_is_that_of_the_registry() -> None:
    readme = table.README.read_text(encoding="utf-8")
    assert table.filled(readme) == readme
    for metric in (*threshold_metrics(table.EXAMPLES).values(), *score_metrics(table.EXAMPLES).values()):
        assert f"| `{metric.shown}` | {metric.purpose} |" in readme


@every_metric
def test_direction(metric: Metric) -> None:
    perfect, worst = PERFECT_AND_WORST[metric.name]
    if metric.best is None:
        assert metric.name in (
            *("prevalence", "predicted_positive_rate", "brier_uncertainty"),
            *("mean_score_minus_prevalence", "brier_within_bin"),
        )
    elif None not in (perfect, worst) and metric.name not in ("ks", "roc_auc_se") and "resolution" not in metric.name:
        assert (perfect > worst) == (metric.best == "highest")


# --- evaluated tables

RANDOM = np.random.default_rng(11)
BASE = [
    (segment, int(label), round(float(np.clip(score, 0, 1)), digits))
    for segment, digits in (("a", 1), ("b", 6))
    for label, score in ((y, RANDOM.normal(0.3 + 0.3 * y, 0.25)) for y in RANDOM.integers(0, 2, 40))
]
WEIGHTS = [float(weight) for weight in RANDOM.gamma(0.5, 2.0, len(BASE))]
RENAMED = {"a": "zzz", "b": None}

SINGLE: dict[str, list[tuple[int, float]]] = {
    "perfect": [(1, 1.0)] * 4 + [(0, 0.0)] * 6,
    "worst": [(1, 0.0)] * 4 + [(0, 1.0)] * 6,
    "no positives": [(0, 0.9), (0, 0.2)],
    "no negatives": [(1, 0.9), (1, 0.2)],
    "none predicted": [(1, 0.4), (0, 0.2)],
    "all predicted": [(1, 0.5), (0, 0.5)],
    "no positives, none predicted": [(0, 0.1)],
    "no negatives, all predicted": [(1, 0.9)],
    "six rows": [(1, 0.9), (1, 0.1), (1, 0.4), (0, 0.7), (0, 0.6), (0, 0.2)],
    "no probabilities": [(1, 0.9), (1, -0.1), (1, 0.4), (0, 1.5), (0, 0.6), (0, 0.2)],
}

Table = dict[tuple[Any, ...], Row]
"""Rows of `metrics` by (case, level, segment, metric)."""


def metrics_of(spark: SparkSession, rows: list[tuple[Any, ...]], weighted: bool) -> Table:
    frame = spark.createDataFrame(rows, "case string, segment string, y int, p double, w double").repartition(3)
    weight = "w" if weighted else None
    ev = sm.evaluate(frame, by=["case"], segments=["segment"], label="y", score="p", weight=weight, **ASKED)
    collected = ev.metrics().collect()
    found = {(row["case"], row["level"], row["segment"], row["metric"]): row for row in collected}
    assert len(found) == len(collected)
    return found


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
    rows += [(case, "a", *row, 1.0) for case, pairs in SINGLE.items() for row in pairs]
    rows += [("empty", "a", *row, 0.0) for row in SINGLE["perfect"]]
    return metrics_of(spark, rows, weighted=True)


SHOWN = ("value", "lower", "upper", "threshold", "reason")


def groups(found: Table, case: str) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """What is shown of each (level, segment, metric) of a case."""
    return {key[1:]: tuple(row[name] for name in SHOWN) for key, row in found.items() if key[0] == case}


def assert_alike(found: dict[tuple[Any, ...], Any], wanted: dict[tuple[Any, ...], Any]) -> None:
    assert len(wanted) == 3 * len(ALL)
    assert found.keys() == wanted.keys()
    for key, (*numbers, threshold, why) in wanted.items():
        assert found[key][3:] == (threshold, why), key
        for number, expected in zip(found[key][:3], numbers, strict=True):
            assert number == (None if expected is None else pytest.approx(expected, rel=1e-12, abs=1e-12)), key


@both_kinds
@pytest.mark.parametrize("case", ["perfect", "worst"])
def test_perfect_and_worst(kind: str, case: str, request: pytest.FixtureRequest) -> None:
    found = request.getfixturevalue(kind)
    place = ("perfect", "worst").index(case)
    for name, values in PERFECT_AND_WORST.items():
        value = found[case, "total", None, name]["value"]
        wanted = values[place]
        assert value == (None if wanted is None else pytest.approx(wanted, rel=1e-12, abs=1e-15)), name


def missing(pairs: list[tuple[int, float]]) -> dict[str, bool]:
    """Which reasons hold for some rows (label, score) at threshold 0.5."""
    tp, fp, fn, tn = (sum(y == label and (p >= 0.5) == called for y, p in pairs) for label, called in CELLS)
    P, N = tp + fn, fp + tn
    return {
        "no weight": not pairs,
        "no positives": P == 0,
        "no negatives": N == 0,
        "no predicted positives": tp + fp == 0,
        "no predicted negatives": fn + tn == 0,
        "no positives or predicted positives": tp + fp + fn == 0,
        "no expected disagreement": (tp + fp) * N + (fn + tn) * P == 0,
        "no false positives": fp == 0,
        "no false negatives": fn == 0,
        "no true negatives": tn == 0,
        "fewer than 5 rows": len(pairs) < 5,
        "fewer than two positives": P < 2,
        "fewer than two negatives": N < 2,
    }


CELLS = ((1, True), (0, True), (1, False), (0, False))


@both_kinds
def test_undefined_values_have_a_reason_and_others_have_none(kind: str, request: pytest.FixtureRequest) -> None:
    found = request.getfixturevalue(kind)
    cases = SINGLE | ({"empty": []} if kind == "weighted" else {})
    for case, pairs in cases.items():
        holds = missing(pairs)
        outside = any(not 0 <= score <= 1 for _, score in pairs)
        for name, reasons in UNDEFINED.items():
            row = found[case, "total", None, name]
            wanted = next((why for why in reasons if holds[why]), None)
            if wanted is None and outside and name in PROBABILITIES:
                wanted = "scores outside [0, 1]"
            assert (row["reason"], row["value"] is None) == (wanted, wanted is not None), (case, name)
    for key, row in found.items():
        assert (row["value"] is None) == (row["reason"] is not None), key
        assert (row["lower"] is None) == (row["upper"] is None), key
        assert row["value"] is not None or row["lower"] is None, key


@both_kinds
def test_values_and_intervals_keep_to_their_range(kind: str, request: pytest.FixtureRequest) -> None:
    for (case, *_, name), row in request.getfixturevalue(kind).items():
        least, largest = ALL[name].range
        if row["value"] is not None:
            assert least <= row["value"] <= largest, (case, name)
        if row["lower"] is not None:
            assert least <= row["lower"] <= row["value"] <= row["upper"] <= largest, (case, name)


@both_kinds
def test_rates_and_areas_have_intervals(kind: str, request: pytest.FixtureRequest) -> None:
    found = request.getfixturevalue(kind)
    proportions = {name for name, metric in THRESHOLD.items() if metric.proportion_of}
    assert len(proportions) == 12
    case = "base" if kind == "unweighted" else "weight 1"
    with_interval = {name for name in ALL if found[case, "total", None, name]["lower"] is not None}
    assert with_interval == proportions | {"roc_auc", "gini", "accuracy_ratio"}
    if kind == "weighted":
        assert {name for name in ALL if found["base", "total", None, name]["lower"] is not None} == set()
        assert found["base", "total", None, "roc_auc_se"]["reason"] == "weights are not whole numbers"


def test_names_of_segments_change_nothing(unweighted: Table, weighted: Table) -> None:
    names = RENAMED | {None: None}
    for found, exact in ((unweighted, True), (weighted, False)):
        wanted = {
            (level, names[segment] if level == "segment" else None, name): row
            for (level, segment, name), row in groups(found, "base").items()
        }
        if exact:
            assert groups(found, "renamed") == wanted
        assert_alike(groups(found, "renamed"), wanted)


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
def test_the_scale_of_weights_changes_no_ratio(weighted: Table, scale: float) -> None:
    case = "doubled" if scale == 2 else f"times {scale}"
    base, scaled = (
        {key: shown for key, shown in groups(weighted, name).items() if key[2] not in OF_ROWS}
        for name in ("base", case)
    )
    assert base.keys() == scaled.keys()
    assert len(base) == 3 * (len(ALL) - len(OF_ROWS))
    for key, (value, *_, threshold, why) in base.items():
        assert scaled[key][3:] == (threshold, why), key
        assert scaled[key][0] == (None if value is None else pytest.approx(value, rel=1e-12, abs=1e-12)), key
    total, of_scaled = (weighted[name, "total", None, "roc_auc"] for name in ("base", case))
    assert of_scaled["rows"] == total["rows"] == len(BASE)
    for count in ("positives", "negatives"):
        assert of_scaled[count] == pytest.approx(scale * total[count], rel=1e-12)
    for name in ("profit", "best_profit"):
        assert weighted[case, "total", None, name]["value"] == pytest.approx(
            scale * weighted["base", "total", None, name]["value"], rel=1e-12
        )
