"""Predicted classes against scikit-learn on random cases, and against published values."""

from __future__ import annotations

import csv
import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from class_measures import METRICS, Z, by_key, measured
from pyspark.sql import SparkSession
from pyspark.sql.types import StringType
from results import exactly
from sklearn import metrics as sklearn_metrics

from sparkmetrics.class_counts import class_counts_of, counts_at_levels
from sparkmetrics.class_metrics import class_metric_table
from sparkmetrics.columns import Keys


class Case(NamedTuple):
    """Labels, predictions and weights; no row of weight 0."""

    label: list[str]
    prediction: list[str]
    weight: list[float]
    numeric: bool


def random_cases(rng: np.random.Generator, number: int, weighted: bool) -> list[Case]:
    cases = []
    for case in range(number):
        size = int(rng.integers(2, 8))
        numeric = case % 2 == 0
        pool = ["-3", "2", "2.5", "9", "10", "11", "100"] if numeric else list("gfedcba")
        classes = rng.permutation(pool)[:size].tolist()
        seen = [classes[: max(1, size - drop)] for drop in rng.integers(0, 3, 2)]
        rows = int(rng.integers(1, 120))
        label = rng.choice(seen[0], rows).tolist()
        guess = rng.choice(seen[1][::-1], rows).tolist()
        right = rng.random(rows) < rng.random()
        prediction = [a if hit else b for a, b, hit in zip(label, guess, right, strict=True)]
        weight = (rng.uniform(0.01, 5.0, rows) if weighted else np.ones(rows)).tolist()
        cases.append(Case(label, prediction, weight, numeric))
    return cases


def reference(case: Case, declared: Sequence[str] | None) -> dict[tuple[Any, ...], float]:
    """scikit-learn's values; NaN where undefined."""
    seen = {*case.label, *case.prediction}
    chosen = list(declared) if declared else sorted(seen)
    order = sorted(seen, key=float) if case.numeric else sorted(seen)
    weights = {"sample_weight": case.weight}
    both = (case.label, case.prediction)
    found: dict[tuple[Any, ...], float] = {
        ("accuracy", None, None): sklearn_metrics.accuracy_score(*both, **weights),
        ("mcc", None, None): sklearn_metrics.matthews_corrcoef(*both, **weights),
        ("cohen_kappa", None, None): sklearn_metrics.cohen_kappa_score(*both, labels=order, **weights),
    }
    found["error_rate", None, None] = found["empirical_risk", None, None] = 1 - found["accuracy", None, None]
    if declared is None:
        balanced = sklearn_metrics.balanced_accuracy_score(*both, **weights)
        found["balanced_accuracy", None, None] = balanced
        for kind in ("linear", "quadratic"):
            kappa = sklearn_metrics.cohen_kappa_score(*both, labels=order, weights=kind, **weights)
            found[f"cohen_kappa_{kind}", None, None] = kappa if case.numeric else np.nan
    for average in ("macro", "micro", "weighted", None):
        options = {"labels": chosen, "average": average, "zero_division": np.nan if average is None else 0, **weights}
        values = [*sklearn_metrics.precision_recall_fscore_support(*both, **options)[:3]]
        jaccard = sklearn_metrics.jaccard_score(*both, **(options | {"zero_division": 0}))
        names = {"precision": values[0], "recall": values[1], "f1": values[2], "jaccard": jaccard}
        names["fbeta_0.5"] = sklearn_metrics.fbeta_score(*both, beta=0.5, **options)
        for name, value in names.items():
            if average is not None:
                found[name, average, None] = value
                continue
            for k, of_class in zip(chosen, value, strict=True):
                found[name, None, k] = of_class
    return found


@pytest.mark.parametrize("weighted", [pytest.param(False, marks=pytest.mark.slow), True])
def test_random_cases_against_scikit_learn(spark: SparkSession, weighted: bool) -> None:
    rng = np.random.default_rng(17 + weighted)
    cases = random_cases(rng, 100, weighted)
    columns: dict[str, list[Any]] = {"b0": [], "class_label": [], "class_prediction": [], "weight": []}
    for number, case in enumerate(cases):
        # A class that only a row of weight 0 has is not seen.
        extra = [("unseen", case.prediction[0], 0.0)] if weighted else []
        for label, predicted, weight in [*zip(*case[:3], strict=True), *extra]:
            for name, value in zip(columns, (f"case {number}", label, predicted, weight), strict=True):
                columns[name].append(value)
    frame = spark.createDataFrame(pa.table(columns))
    keys = Keys(("case",), (), (StringType(),))
    cells = counts_at_levels(class_counts_of(frame, keys, weighted), [()]).toArrow()
    for declared in (None, ("b", "a", "d", "2", "10", "-3")):
        table = measured(cells, classes=declared)
        found = by_key(table.to_pylist(), "b0")
        compared = 0
        for number, case in enumerate(cases):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # undefined values are what is compared
                wanted = reference(case, declared)
            for key, value in wanted.items():
                row = found[(f"case {number}", *key)]
                assert row["rows"] == len(case.label) + weighted
                if row["value"] is None and declared and key[1] is not None:
                    assert value == 0  # no declared class occurs: ours is undefined
                elif row["value"] is None and key[0] in ("f1", "jaccard", "fbeta_0.5"):
                    assert row["reason"] is not None  # scikit-learn's zero_division differs by version
                else:
                    value = np.nan if value is None else value
                    assert (row["value"] is None) == bool(np.isnan(value)), (number, key, row["reason"], value)
                    assert row["value"] is None or abs(row["value"] - value) <= 1e-10, (number, key)
                compared += 1
        assert compared > 2_000


@pytest.mark.parametrize("weighted", [False, True])
def test_hpc_cv(spark: SparkSession, shared_data: Path, weighted: bool) -> None:
    """Four classes, ten resamples: published values of all rows, weighted rows, and each resample."""
    with open(shared_data / "yardstick_hpc_cv.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    frame = spark.createDataFrame(
        pa.table(
            {
                "s0": [row["Resample"] for row in rows],
                "class_label": [row["obs"] for row in rows],
                "class_prediction": [row["pred"] for row in rows],
                "weight": [float(row["weight"]) for row in rows],
            }
        )
    )
    keys = Keys((), ("Resample",), (StringType(),))
    leveled = counts_at_levels(class_counts_of(frame, keys, weighted), [(), (0,)])
    table = class_metric_table(leveled, keys, METRICS, classes=["VF", "F", "M", "L"], z=Z)
    found = by_key((row.asDict() for row in table.collect()), "s0")
    published = json.loads((shared_data / "expected.json").read_text())["hpc_cv"]
    groups = {None: published["weighted"]} if weighted else {None: published["all"], **published["by_resample"]}
    for resample, wanted in groups.items():
        assert found[resample, "accuracy", None, None]["rows"] == wanted["n"]
        for name in ("accuracy", "mcc"):
            assert found[resample, name, None, None]["value"] == exactly(wanted[name])
        for kind in ("", "_linear", "_quadratic"):
            assert found[resample, f"cohen_kappa{kind}", None, None]["value"] == exactly(wanted[f"kappa{kind}"])
        for name in ("precision", "recall", "f1"):
            for average in ("macro", "micro", "weighted"):
                assert found[resample, name, average, None]["value"] == exactly(wanted[f"{name}_{average}"])
        interval = found[resample, "accuracy", None, None]["lower"]
        assert (interval is None) == weighted
