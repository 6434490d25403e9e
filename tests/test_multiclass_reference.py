"""Class probabilities against values by hand, published ones, and those of public bug reports."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from results import Found, exactly, metrics_by_key

import sparkmetrics as sm


def value(found: Found, metric: str, average: str | None = None, of_class: str | None = None) -> float | None:
    """A metric of a table without keys."""
    return found[metric, average, of_class, None]["value"]


def test_an_average_names_the_class_that_is_absent(spark: SparkSession) -> None:
    rows = [("b", [0.5, 0.25, 0.25]), ("c", [0.25, 0.5, 0.25]), ("c", [0.0, 0.25, 0.75])]
    frame = spark.createDataFrame(rows, "y string, p array<double>")
    metrics = ["roc_auc", "average_precision", "roc_auc_ovo"]
    evaluation = sm.evaluate(frame, label="y", probabilities="p", classes=["a", "b", "c"], metrics=metrics)
    found = metrics_by_key(evaluation)
    assert found["roc_auc", "macro", None, None]["reason"] == "no positives (class a)"
    assert found["average_precision", "macro", None, None]["reason"] == "no positives (class a)"
    # b: 0.25 ties with one and beats none of 0.5; c: 0.25 loses, 0.75 wins.
    assert value(found, "roc_auc", None, "b") == 0.25
    assert value(found, "roc_auc", None, "c") == 0.75
    assert value(found, "roc_auc", "weighted") == exactly((0.25 + 2 * 0.75) / 3)
    assert value(found, "roc_auc_ovo", "macro") == exactly((0.25 + 0.75) / 2)
    assert found["roc_auc", None, "a", None]["positives"] == 0
    assert found["roc_auc", None, "c", None]["negatives"] == 1


def assert_published(found: Found, wanted: Mapping[str, Any], *group: Any) -> None:
    """A panel of the reference values."""
    names: dict[tuple[str, str | None, str | None], str] = {
        ("roc_auc", "macro", None): "auc_ovr_macro",
        ("roc_auc", "weighted", None): "auc_ovr_prevalence",
        ("roc_auc_ovo", "macro", None): "auc_ovo_macro_hand_till",
        ("roc_auc_ovo", "weighted", None): "auc_ovo_weighted",
        ("average_precision", "macro", None): "ap_macro",
        ("average_precision", "weighted", None): "ap_prevalence",
        ("brier", None, None): "brier_multiclass_sum",
        **{(name, None, None): name for name in ("accuracy", "mcc", "log_loss")},
        **{(f"cohen_{kind}", None, None): kind for kind in ("kappa", "kappa_linear", "kappa_quadratic")},
        **{
            (name, average, None): f"{name}_{average}"
            for name in ("precision", "recall", "f1")
            for average in ("macro", "micro", "weighted")
        },
    }
    expected = {key: wanted[name] for key, name in names.items() if name in wanted}
    expected |= {("roc_auc", None, name): auc for name, auc in wanted["auc_ovr"].items()}
    expected |= {("average_precision", None, name): ap for name, ap in wanted["ap_ovr"].items()}
    assert len(expected) >= 25
    assert {key: found[(*group, *key, None)]["value"] for key in expected} == exactly(expected)
    assert found[(*group, "accuracy", None, None, None)]["rows"] == wanted["n"]


def read_csv(path: Path, numbers: Sequence[str]) -> pa.Table:
    """A table of text with some columns of exact numbers."""
    with open(path, encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return pa.table({name: [float(r[name]) if name in numbers else r[name] for r in rows] for name in rows[0]})


def assert_class_counts(evaluation: sm.Evaluation, confusion: Mapping[str, Any]) -> None:
    """The cells of all rows together."""
    total = evaluation.class_counts().where("level = 'total'").collect()
    found = {(row["label"], row["prediction"]): row["count"] for row in total}
    cells = zip(confusion["labels"], confusion["matrix"], strict=True)
    wanted = {(y, p): n for y, row in cells for p, n in zip(confusion["labels"], row, strict=True) if n}
    assert found == pytest.approx(wanted, rel=1e-12)


def test_multiclass_auc_of_hand_and_till(spark: SparkSession, shared_data: Path) -> None:
    wanted = json.loads((shared_data / "expected.json").read_text())["handtill_multipleclass"]
    classes = wanted["confusion_rows_true_cols_pred"]["labels"]
    frame = spark.createDataFrame(read_csv(shared_data / "handtill_multipleclass.csv", classes))
    evaluation = sm.evaluate(frame, label="observed", probabilities=classes)
    found = metrics_by_key(evaluation)
    assert value(found, "roc_auc_ovo", "macro") == pytest.approx(0.947211779448622, rel=0, abs=1e-15)
    # Columns name their classes in order, but only `classes` says that the order means something.
    assert found["cohen_kappa_linear", None, None, None]["reason"] == "needs classes"
    unordered = {name: number for name, number in wanted.items() if name not in ("kappa_linear", "kappa_quadratic")}
    assert_published(found, unordered)
    assert_class_counts(evaluation, wanted["confusion_rows_true_cols_pred"])


@pytest.mark.parametrize("weighted", [False, True], ids=["unweighted", "weighted"])
def test_hpc_cv(spark: SparkSession, shared_data: Path, weighted: bool) -> None:
    """Four classes and ten resamples; the predictions are the most likely classes, whether given or not."""
    published = json.loads((shared_data / "expected.json").read_text())["hpc_cv"]
    classes = published["all"]["confusion_rows_true_cols_pred"]["labels"]
    frame = spark.createDataFrame(read_csv(shared_data / "yardstick_hpc_cv.csv", [*classes, "weight"]))
    beside = {"prediction": "pred", "weight": "weight"} if weighted else {}
    evaluation = sm.evaluate(
        frame, segments=["Resample"], label="obs", probabilities=classes, classes=classes, **beside
    )
    found = metrics_by_key(evaluation, "Resample")
    groups = {None: published["weighted"]} if weighted else {None: published["all"], **published["by_resample"]}
    for resample, wanted in groups.items():
        assert_published(found, wanted, resample)
    assert_class_counts(evaluation, groups[None]["confusion_rows_true_cols_pred"])


def test_millions_and_billions_of_rows(spark: SparkSession) -> None:  # B043
    """Class sizes whose product is past 2**31, cells of more than 3e9, and weights whose product is no number."""
    rows = [
        *((0, [0.5, 0.2, 0.3], 1_000_000), (0, [0.3, 0.4, 0.3], 500_000), (1, [0.2, 0.7, 0.1], 500_000)),
        *((1, [0.5, 0.3, 0.2], 250_000), (2, [0.1, 0.2, 0.7], 250_000), (2, [0.3, 0.5, 0.2], 500_000)),
    ]
    scaled = [(scale, y, p, n * scale) for scale in (1.0, 3e4, 1e-200) for y, p, n in rows]
    frame = spark.createDataFrame(scaled, "scale double, y int, p array<double>, w double")
    columns: dict[str, Any] = {"by": ["scale"], "label": "y", "probabilities": "p", "weight": "w"}
    found = metrics_by_key(sm.evaluate(frame, **columns, metrics=["roc_auc", "roc_auc_ovo", "log_loss"]), "scale")
    # Class 0, in quarters of a million: 4 at 0.5 and 2 at 0.3 meet 2 at 0.2, 1 at 0.5, 1 at 0.1 and 2 at 0.3.
    wanted = {
        ("roc_auc_ovo", "macro", None): 0.7592592592592593,
        ("roc_auc", "macro", None): 0.7345679012345679,
        ("roc_auc", None, "0"): (4 * (2 + 0.5 + 1 + 2) + 2 * (2 + 0 + 1 + 1)) / 36,
        ("log_loss", None, None): -np.log([0.5**4 * 0.3**2 * 0.7**2 * 0.3 * 0.7 * 0.2**2]).item() / 12,
    }
    for scale in (1.0, 3e4):
        assert {key: found[(scale, *key, None)]["value"] for key in wanted} == exactly(wanted)
        assert found[scale, "roc_auc", None, "0", None]["positives"] == 1_500_000 * scale
    for key in wanted:
        row = found[(1e-200, *key, None)]
        if key[0] == "log_loss":
            assert row["value"] == exactly(wanted[key])
        else:
            assert row["reason"].startswith("weights too small to multiply")


def test_weights_in_one_vs_rest(spark: SparkSession) -> None:  # B051
    rows = [
        *((0, [0.5, 0.2, 0.3], 1.0), (0, [0.3, 0.4, 0.3], 3.0), (1, [0.2, 0.7, 0.1], 2.0)),
        *((1, [0.5, 0.3, 0.2], 1.0), (2, [0.1, 0.2, 0.7], 1.0), (2, [0.3, 0.5, 0.2], 4.0)),
    ]
    frame = spark.createDataFrame(rows, "y int, p array<double>, w double")
    found = metrics_by_key(sm.evaluate(frame, label="y", probabilities="p", weight="w", metrics=["roc_auc"]))
    per_class = [value(found, "roc_auc", None, name) for name in "012"]
    assert per_class == exactly([0.703125, 0.7407407407407407, 0.4857142857142857])
    assert value(found, "roc_auc", "macro") == exactly(0.6431933421516755)
    assert value(found, "roc_auc", "weighted") == exactly(0.6219411375661376)


def test_no_direction_is_chosen_for_a_pair_of_classes(spark: SparkSession) -> None:  # B070
    """AUCs below one half stay there, also of a class that is hardly predicted."""
    third, sixth = 0.333333333333333, 0.166666666666667
    rows = [
        *(("c", 0.5, 0.0, 0.0, 0.5), ("c", 0.4, 0.2, 0.2, 0.2), ("c", 0.8, 0.0, 0.0, 0.2), ("d", 0.5, 0.0, 0.0, 0.5)),
        *(("d", 0.8, 0.0, 0.0, 0.2), ("a", 1.0, 0.0, 0.0, 0.0), ("d", 0.8, 0.0, 0.0, 0.2), ("c", 0.0, 0.6, 0.2, 0.2)),
        *(("a", 0.5, 0.0, 0.0, 0.5), ("a", 0.666666666666667, third, 0.0, 0.0), ("d", 0.0, 0.0, 0.0, 1.0)),
        *(("b", 1.0, 0.0, 0.0, 0.0), ("d", 0.4, 0.0, 0.0, 0.6), ("a", sixth, 0.833333333333333, 0.0, 0.0)),
        *(("d", 0.4, 0.6, 0.0, 0.0), ("a", 0.8, 0.0, 0.0, 0.2), ("d", 0.5, 0.0, 0.0, 0.5), ("d", 0.6, 0.0, 0.0, 0.4)),
    ]
    frame = spark.createDataFrame(rows, "label string, a double, b double, c double, d double")
    columns: dict[str, Any] = {"label": "label", "probabilities": ["a", "b", "c", "d"]}
    found = metrics_by_key(sm.evaluate(frame, **columns, metrics=["roc_auc_ovo"]))
    assert value(found, "roc_auc_ovo", "macro") == exactly(0.5890625)
