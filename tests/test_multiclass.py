"""Class probabilities against scikit-learn and pairs, and that partitions, segments and saved parts change no value."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from results import assert_close, assert_same_bits, metrics_by_key, tables
from sklearn import metrics as sklearn_metrics

import sparkmetrics as sm
from sparkmetrics.options import Options
from sparkmetrics.states import read_states

TOPS = (1, 2, 9)
RANKINGS = {"roc_auc": sklearn_metrics.roc_auc_score, "average_precision": sklearn_metrics.average_precision_score}
Values = dict[tuple[str, str | None, str | None], float | None]
"""{(metric, average, class): value}, None where undefined."""


# --- scikit-learn


class Case(NamedTuple):
    """Labels as positions of classes, probabilities of shape (rows, classes), weights."""

    label: np.ndarray
    probability: np.ndarray
    weight: np.ndarray


def random_cases(rng: np.random.Generator, number: int, classes: int, weighted: bool) -> list[Case]:
    """Every other case has tied probabilities, every third lacks classes as labels, the fifths one label alone."""
    cases = []
    for case in range(number):
        rows = int(rng.integers(classes, 40))
        seen = classes if case % 3 else int(rng.integers(1, classes))
        label = rng.choice(rng.permutation(classes)[: 1 if case % 15 == 0 else seen], rows)
        probability = rng.dirichlet(np.ones(classes), rows)
        if case % 2:
            probability = rng.multinomial(8, np.full(classes, 1 / classes), rows) / 8
        weight = rng.choice([0.0, 0.25, 1.0, 3.7], rows, p=[0.1, 0.2, 0.4, 0.3]) if weighted else np.ones(rows)
        weight[0] = 1.0
        cases.append(Case(label, probability, weight))
    return cases


def one_against_one(case: Case, average: str) -> float | None:
    """Hand and Till by counting pairs of rows: of every two classes the mean of both AUCs."""
    y, p, w = case
    present = [k for k in range(p.shape[1]) if w[y == k].sum() > 0]
    aucs, weights = [], []
    for i, j in combinations(present, 2):
        for one, other in ((i, j), (j, i)):
            mine, theirs = p[y == one, one], p[y == other, one]
            wins = (mine[:, None] > theirs) + 0.5 * (mine[:, None] == theirs)
            of_mine, of_theirs = w[y == one], w[y == other]
            aucs.append(of_mine @ wins @ of_theirs / (of_mine.sum() * of_theirs.sum()))
            weights.append(of_mine.sum() + of_theirs.sum())
    return None if not aucs else float(np.average(aucs, weights=weights if average == "weighted" else None))


def reference(case: Case, classes: Sequence[str]) -> Values:
    """scikit-learn's values; its classes are their positions, so that they are in the order that it wants."""
    (y, p, w), positions = case, np.arange(len(classes))
    hit, weights = y[:, None] == positions, {"sample_weight": w}
    of_class, of_others = hit.T @ w, (~hit).T @ w
    found: Values = {}
    for name, score in RANKINGS.items():
        defined = (of_class > 0) & ((of_others > 0) | (name != "roc_auc"))
        for k in positions:
            found[name, None, classes[k]] = score(hit[:, k], p[:, k], **weights) if defined[k] else None
        seen = of_class > 0
        for average, chosen, known in (("macro", positions, defined), ("weighted", positions[seen], defined[seen])):
            averaged = score(hit[:, chosen], p[:, chosen], average=average, **weights) if known.all() else None
            found[name, average, None] = averaged
        found[name, "micro", None] = score(hit, p, average="micro", **weights)
    for average in ("macro", "weighted"):
        pairs = one_against_one(case, average)
        if pairs is not None and np.all(w == 1):
            options = {"multi_class": "ovo", "labels": positions, "average": average}
            assert pairs == pytest.approx(sklearn_metrics.roc_auc_score(y, p, **options), abs=1e-12)
        found["roc_auc_ovo", average, None] = pairs
    found["log_loss", None, None] = sklearn_metrics.log_loss(y, p, labels=positions, **weights)
    distance = sklearn_metrics.brier_score_loss(y, p, labels=positions, scale_by_half=False, **weights)
    found["brier", None, None] = distance
    for k in TOPS:
        # Of equal probabilities scikit-learn takes the last, so the classes are turned round.
        turned = (len(classes) - 1 - y, p[:, ::-1])
        top = sklearn_metrics.top_k_accuracy_score(*turned, k=k, labels=positions, **weights)
        found[f"top_k_accuracy_{k}", None, None] = top
    return found | of_predictions(y, np.argmax(p, axis=1), w, classes)


def of_predictions(y: np.ndarray, predicted: np.ndarray, w: np.ndarray, classes: Sequence[str]) -> Values:
    """scikit-learn's values of the most likely classes."""
    both, positions, weights = (y, predicted), np.arange(len(classes)), {"sample_weight": w}
    found: Values = {
        ("accuracy", None, None): sklearn_metrics.accuracy_score(*both, **weights),
        ("balanced_accuracy", None, None): sklearn_metrics.balanced_accuracy_score(*both, **weights),
        ("mcc", None, None): sklearn_metrics.matthews_corrcoef(*both, **weights),
    }
    for kind in (None, "linear", "quadratic"):
        kappa = sklearn_metrics.cohen_kappa_score(*both, labels=positions, weights=kind, **weights)
        found[f"cohen_kappa_{kind}" if kind else "cohen_kappa", None, None] = None if np.isnan(kappa) else kappa
    for average in ("macro", "micro", "weighted"):
        options = {"labels": positions, "average": average, "zero_division": 0, **weights}
        for name, averaged in zip(
            ("precision", "recall", "f1"),
            sklearn_metrics.precision_recall_fscore_support(*both, **options),
            strict=False,
        ):
            found[name, average, None] = averaged
    return found


def table_of(cases: Sequence[Case], classes: Sequence[str]) -> pa.Table:
    """One table of all cases, their number as `case`."""
    number = np.repeat(np.arange(len(cases)), [len(case.label) for case in cases])
    label, probability, weight = map(np.concatenate, zip(*cases, strict=True))
    names = np.array(classes)
    return pa.table({"case": number, "y": names[label], "p": list(probability), "w": weight})


@pytest.mark.parametrize(
    ("size", "weighted"),
    [
        pytest.param(3, False, marks=pytest.mark.slow),
        (6, False),
        (4, True),
        pytest.param(5, True, marks=pytest.mark.slow),
    ],
)
def test_random_cases_against_scikit_learn(spark: SparkSession, size: int, weighted: bool) -> None:
    rng = np.random.default_rng(100 * size + weighted)
    classes = rng.permutation(["delta", "alpha", "echo", "bravo", "foxtrot", "charlie"])[:size].tolist()
    cases = random_cases(rng, 50, size, weighted)
    found = metrics_by_key(
        sm.evaluate(
            spark.createDataFrame(table_of(cases, classes)).repartition(3),
            by=["case"],
            label="y",
            probabilities="p",
            weight="w" if weighted else None,
            classes=classes,
            top_k=TOPS,
        ),
        "case",
    )
    undefined = set()
    for number, case in enumerate(cases):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what scikit-learn finds odd is what is compared
            wanted = reference(case, classes)
        for key, expected in wanted.items():
            row = found[(number, *key, None)]
            assert row["rows"] == len(case.label)
            if expected is None:
                assert row["value"] is None, (number, key, row)
                undefined.add((key[0], key[1], row["reason"]))
            else:
                assert row["value"] == pytest.approx(expected, rel=0, abs=1e-10), (number, key, row)
    # The averages name the first class that is to blame.
    assert {reason for name, average, reason in undefined if (name, average) == ("average_precision", "macro")} <= {
        f"no positives (class {name})" for name in classes
    }
    assert ("roc_auc_ovo", "macro", "no second class") in undefined
    assert {("roc_auc", None, "no positives"), ("roc_auc", None, "no negatives")} <= undefined


# --- invariance

MANY = sm.Sizing(ranges=16, sample_every=1, placed_rows=1, small_task_scores=1, chunk_rows=100)
COUNTS = frozenset({"positives", "negatives", "count", "rows"})
CLASSES = ("c", "a", "d", "b")


def predictions(rows: int) -> pa.Table:
    """Two models over two segment columns with nulls; ties, and no `d` in most segments."""
    rng = np.random.default_rng(7)
    day, sex = rng.integers(0, 4, rows), rng.integers(0, 3, rows)
    probability = np.where(
        rng.random((rows, 1)) < 0.5, rng.multinomial(6, [0.25] * 4, rows) / 6, rng.dirichlet([1] * 4, rows)
    )
    label = np.array(CLASSES)[rng.choice(4, rows, p=[0.4, 0.3, 0.02, 0.28])]
    return pa.table(
        {
            "model": rng.choice(["m", "n"], rows),
            "day": pa.array(day, pa.int32(), mask=day == 3),
            "sex": pa.array(np.array(["f", "m", "-"])[sex], mask=sex == 2),
            "y": label,
            "guess": np.where(rng.random(rows) < 0.5, label, rng.choice(list(CLASSES), rows)),
            "p": list(probability),
            "w": np.where(rng.random(rows) < 0.1, 0.0, rng.lognormal(0.0, 2.0, rows)),
            "half": rng.random(rows) < 0.4,
        }
    )


def evaluated(frame: DataFrame, sizing: sm.Sizing, weighted: bool) -> sm.Evaluation:
    states = read_states(
        frame,
        by=["model"],
        segments=["day", "sex"],
        label="y",
        probabilities="p",
        classes=CLASSES,
        weight="w" if weighted else None,
        sizing=sizing,
    )
    return sm.Evaluation(states, Options.make(states.keys, classes=CLASSES, top_k=[2]))


@pytest.mark.parametrize(
    "weighted", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["unweighted", "weighted"]
)
def test_partitions_and_ranges_change_no_value(spark: SparkSession, weighted: bool) -> None:
    frame, names = spark.createDataFrame(predictions(1_500)), ("metrics", "class_counts")
    expected = tables(evaluated(frame.coalesce(1), sm.Sizing(), weighted), names)
    many = evaluated(frame.orderBy(F.xxhash64("p", "half")).repartition(7), MANY, weighted)
    assert many.states.probabilities is not None
    ranges = many.states.probabilities.counts.merged.frame.select("range").distinct().count()
    assert ranges > 8  # fewer than asked for, since ties are not cut
    found = tables(many, names)
    assert_close(found, expected, relative=COUNTS)
    if not weighted:  # the bounds of DeLong's intervals are only as close as that
        for side in (found, expected):
            side["metrics"] = side["metrics"].drop_columns(["lower", "upper"])
        assert_same_bits(found, expected)
    metrics = expected["metrics"].to_pylist()
    assert {row["level"] for row in metrics} == {"total", "day", "sex", "day,sex"}
    assert {(row["day"], row["sex"]) for row in metrics if row["level"] == "day,sex"} == {
        (day, sex) for day in (0, 1, 2, None) for sex in ("f", "m", None)
    }
    for row in metrics:
        assert (row["value"] is None) == (row["reason"] is not None), row


def test_segments_are_evaluated_as_if_alone(spark: SparkSession) -> None:
    table = predictions(1_500)
    frame = spark.createDataFrame(table)
    found = metrics_by_key(evaluated(frame, MANY, weighted=True), "model", "level", "day", "sex")
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in table.to_pylist():
        for level, day, sex in (
            *(("total", None, None), ("day", row["day"], None)),
            *(("sex", None, row["sex"]), ("day,sex", row["day"], row["sex"])),
        ):
            groups.setdefault((row["model"], level, day, sex), []).append(row)
    assert {key[:4] for key in found} == set(groups)
    for group, rows in groups.items():
        y = np.array([CLASSES.index(row["y"]) for row in rows])
        case = Case(y, np.array([row["p"] for row in rows]), np.array([row["w"] for row in rows]))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            wanted = reference(case, CLASSES)
        for key, expected in wanted.items():
            if not key[0].startswith("top_k") or key[0] == "top_k_accuracy_2":
                assert found[(*group, *key, None)]["value"] == pytest.approx(expected, abs=1e-10), (group, key)


def test_class_counts_add_up(spark: SparkSession, tmp_path: Path) -> None:
    """Those of two halves, added, saved and read, are evaluated like the whole table."""
    frame = spark.createDataFrame(predictions(1_500))
    columns: dict[str, Any] = {"by": ["model"], "segments": ["day", "sex"], "label": "y", "prediction": "guess"}
    one, other = (sm.class_counts(frame.where(half), **columns) for half in (F.col("half"), ~F.col("half")))
    (one + other).write(str(tmp_path / "counts"))
    names = ("metrics", "class_counts")
    read = sm.read_class_counts(spark, str(tmp_path / "counts")).evaluate(classes=CLASSES)
    whole = sm.evaluate(frame, classes=CLASSES, **columns)
    assert_same_bits(tables(read, names), tables(whole, names))
    with pytest.raises(sm.ConfigError, match="curves needs scores"):
        read.curves()
