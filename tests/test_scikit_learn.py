"""Two hundred random cases against scikit-learn: every metric of two classes that it has."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F
from sklearn import metrics as sklearn_metrics

import sparkmetrics as sm

CASES = 200
THRESHOLD = 0.5
BETAS = (0.5, 2.0)
ENDS = (0.1, 0.5, 1.0)
"""Ends of partial areas."""


class Case(NamedTuple):
    """Columns of a prediction table."""

    label: Any
    score: Any
    weight: Any


def cases() -> list[Case]:
    """Of 1 to 300 rows: some of one class, some without predicted positives, with ties of none to nearly all."""
    random, found = np.random.default_rng(20_240_229), []
    for number in range(CASES):
        size = int(random.integers(2, 300)) if number % 20 else 1
        label = (random.random(size) < random.uniform(0.05, 0.95)).astype(int)
        if number % 10 < 2:
            label[:] = number % 10
        score = np.clip(random.normal(0.4 + 0.2 * label, 0.3), 0.0, 1.0)
        digits = number % 4
        score = np.round(score, digits) if digits else score
        if number % 7 == 0:
            score = score * 0.4  # nothing is called positive
        found.append(Case(label, score, random.gamma(0.5, 3.0, size)))
    return found


class Run(NamedTuple):
    """The cases with or without weights, the values of each, and its curve."""

    weighted: bool
    values: list[dict[str, float | None]]
    curves: list[list[Row]]
    confusion: list[Row]


@cache
def evaluated(spark: SparkSession, weighted: bool) -> Run:
    rows = [
        (number, int(y), float(p), float(w))
        for number, case in enumerate(cases())
        for y, p, w in zip(*case, strict=True)
    ]
    frame = spark.createDataFrame(rows, "case int, label int, score double, weight double").repartition(3)
    ev = sm.evaluate(
        frame,
        by=["case"],
        label="label",
        score="score",
        weight="weight" if weighted else None,
        thresholds=[THRESHOLD],
        beta=BETAS,
        partial_auc=[("fpr", 0, end) for end in ENDS],
        curve_points=None,
    )
    ev.share(["metrics", "confusion", "curves"])
    values: list[dict[str, float | None]] = [{} for _ in range(CASES)]
    for row in ev.metrics().collect():
        values[row["case"]][row["metric"]] = row["value"]
    curves: list[list[Row]] = [[] for _ in range(CASES)]
    for row in ev.curves().orderBy(F.asc("case"), F.asc("point")).collect():
        curves[row["case"]].append(row)
    confusion = ev.confusion().orderBy("case").collect()
    ev.unpersist()
    return Run(weighted, values, curves, confusion)


@pytest.fixture(params=[pytest.param(False, marks=pytest.mark.slow), True], ids=["unweighted", "weighted"])
def run(request: pytest.FixtureRequest, spark: SparkSession) -> Run:
    return evaluated(spark, request.param)


@contextmanager
def undefined_is_nan() -> Iterator[None]:
    """scikit-learn warns of what is undefined."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def expected_of(case: Case, weighted: bool) -> dict[str, float]:
    """scikit-learn's values, NaN where the definitions have NULL."""
    label, score, weight = case
    called = score >= THRESHOLD
    given = {"sample_weight": weight if weighted else None}
    nan = {**given, "zero_division": np.nan}
    both = 0 < label.sum() < len(label)
    of_both = partial(only_if, both)
    P, found = label.any(), (label | called).any()
    precision, recall = (
        function(label, called, **nan) for function in (sklearn_metrics.precision_score, sklearn_metrics.recall_score)
    )
    lr_plus, lr_minus = sklearn_metrics.class_likelihood_ratios(
        label, called, labels=[0, 1], replace_undefined_by=np.nan, **given
    )
    values = {
        "accuracy": sklearn_metrics.accuracy_score(label, called, **given),
        "error_rate": sklearn_metrics.zero_one_loss(label, called, **given),
        # scikit-learn's mean of one recall where there is one class.
        "balanced_accuracy": of_both(sklearn_metrics.balanced_accuracy_score(label, called, **given)),
        "informedness": of_both(2 * sklearn_metrics.balanced_accuracy_score(label, called, **given) - 1),
        "precision": precision,
        "recall": recall,
        "specificity": sklearn_metrics.recall_score(label, called, pos_label=0, **nan),
        "npv": sklearn_metrics.precision_score(label, called, pos_label=0, **nan),
        # 0 without true positives, as scikit-learn; undefined without positives, found or there.
        "f1": only_if(found, sklearn_metrics.f1_score(label, called, zero_division=0.0, **given)),
        "jaccard": only_if(found, sklearn_metrics.jaccard_score(label, called, zero_division=0.0, **given)),
        "cohen_kappa": sklearn_metrics.cohen_kappa_score(label, called, **given),
        "mcc": sklearn_metrics.matthews_corrcoef(label, called, **given),
        "lr_plus": of_both(lr_plus),
        "lr_minus": of_both(lr_minus),
        "average_precision": only_if(P, sklearn_metrics.average_precision_score(label, score, **given)),
        "log_loss": sklearn_metrics.log_loss(label, score, labels=[0, 1], **given),
        "brier": sklearn_metrics.brier_score_loss(label, score, **given),
    }
    for beta in BETAS:
        value = sklearn_metrics.fbeta_score(label, called, beta=beta, zero_division=0.0, **given)
        values[f"fbeta_{beta:g}"] = only_if(found, value)
    if both:
        values["roc_auc"] = sklearn_metrics.roc_auc_score(label, score, **given)
        values["brier_skill"] = sklearn_metrics.d2_brier_score(label, score, **given)
        values["log_loss_skill"] = sklearn_metrics.d2_log_loss_score(label, score, labels=[0, 1], **given)
        for end in ENDS:
            corrected = sklearn_metrics.roc_auc_score(label, score, max_fpr=end if end < 1 else None, **given)
            values[f"partial_auc_corrected_fpr_0_{end:g}"] = corrected
    return values


def only_if(defined: bool, value: float) -> float:
    return float(value) if defined else math.nan


def test_metrics(run: Run) -> None:
    for number, case in enumerate(cases()):
        with undefined_is_nan():
            expected = {name: float(value) for name, value in expected_of(case, run.weighted).items()}
        found = {name: math.nan if run.values[number][name] is None else run.values[number][name] for name in expected}
        assert found == pytest.approx(expected, rel=1e-10, abs=1e-10, nan_ok=True), number
        if "roc_auc" not in expected:
            of_both = [name for name in run.values[number] if "auc" in name and not name.startswith("pr_auc")]
            assert len(of_both) == 2 + 2 * len(ENDS)
            assert {run.values[number][name] for name in (*of_both, "gini", "ks")} == {None}, number


def test_confusion_matrices(run: Run) -> None:
    assert len(run.confusion) == CASES
    for row, case in zip(run.confusion, cases(), strict=True):
        weight = case.weight if run.weighted else None
        matrix = sklearn_metrics.confusion_matrix(
            case.label, case.score >= THRESHOLD, labels=[0, 1], sample_weight=weight
        )
        cells = np.array([[row["tn"], row["fp"]], [row["fn"], row["tp"]]])
        assert np.allclose(cells, matrix, rtol=1e-10, atol=1e-10)
        assert run.weighted or np.array_equal(cells, matrix)


def test_roc_curves(run: Run) -> None:
    for number, (label, score, weight) in enumerate(cases()):
        given = {"sample_weight": weight if run.weighted else None}
        with undefined_is_nan():
            fpr, tpr, thresholds = sklearn_metrics.roc_curve(label, score, drop_intermediate=False, **given)
        points = run.curves[number]
        assert [point["threshold"] for point in points] == list(thresholds)
        for name, values in (("tpr", tpr), ("fpr", fpr)):
            found = [math.nan if point[name] is None else point[name] for point in points]
            assert np.allclose(found, values, rtol=0, atol=1e-10, equal_nan=True), (number, name)
        ks = run.values[number]["ks"]
        assert ks is None if label.min() == label.max() else math.isclose(ks, np.abs(tpr - fpr).max(), abs_tol=1e-10)


def test_precision_recall_curves(run: Run) -> None:
    for number, (label, score, weight) in enumerate(cases()):
        if not label.any():
            assert {point["tpr"] for point in run.curves[number]} == {None}
            continue
        given = {"sample_weight": weight if run.weighted else None}
        precision, recall, thresholds = sklearn_metrics.precision_recall_curve(label, score, **given)
        points = run.curves[number][:0:-1]  # scikit-learn's rise, and end in a point (0, 1) that no threshold has
        assert [point["threshold"] for point in points] == list(thresholds)
        assert np.allclose([point["precision"] for point in points], precision[:-1], rtol=0, atol=1e-10), number
        assert np.allclose([point["tpr"] for point in points], recall[:-1], rtol=0, atol=1e-10), number


def test_cases_are_of_every_kind() -> None:
    of_one_class = [case for case in cases() if case.label.min() == case.label.max()]
    none_called = [case for case in cases() if not (case.score >= THRESHOLD).any()]
    ties = [case for case in cases() if len(np.unique(case.score)) < len(case.score)]
    assert len(of_one_class) > 40
    assert len(none_called) > 25
    assert 100 < len(ties) < CASES
