"""Predicted classes: the state, its measures against scikit-learn and by hand, and how they run."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import warnings
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, StringType
from sklearn import metrics as sklearn_metrics

from sparkmetrics import ConfigError, SchemaError, WriteError, class_tables
from sparkmetrics.class_counts import (
    ClassCounts,
    class_count_table,
    class_counts_of,
    counts_at_levels,
    read_class_counts,
)
from sparkmetrics.class_metrics import ClassTask, class_metric_rows, class_metric_table
from sparkmetrics.columns import Keys
from sparkmetrics.metrics import Parameters, threshold_metrics
from sparkmetrics.metrics.classes import CLASS, ClassTable

METRICS = threshold_metrics(Parameters(beta=(0.5,)))
Z = 1.959963984540054
Found = dict[tuple[Any, ...], dict[str, Any]]
Counts = Mapping[tuple[str, str], float]


# --- measures of counts without a session: {(label, prediction): weight} for each group


def cell_table(groups: Mapping[str, Counts]) -> pa.Table:
    """What a worker gets; every cell stands for one prediction row."""
    cells = [(name, *pair, weight) for name, counts in groups.items() for pair, weight in counts.items()]
    names, labels, predictions, weights = zip(*cells, strict=True)
    text = pa.string()
    return pa.table(
        {
            "b0": pa.array(names, text),
            "level": pa.array(["total"] * len(cells), text),
            "label": pa.array(labels, text),
            "prediction": pa.array(predictions, text),
            "count": pa.array(weights, pa.float64()),
            "rows": pa.array([1.0] * len(cells)),
        }
    )


def measured(table: pa.Table, **options: Any) -> pa.Table:
    """The metrics that a worker makes of a table of cells."""
    chosen: dict[str, Any] = {"metrics": METRICS, "classes": None, "class_costs": None, "positive": None, "z": Z}
    task = ClassTask(keys=("b0", "level"), **(chosen | options))
    return pa.Table.from_batches(class_metric_rows(iter(table.to_batches()), task))


def by_key(rows: Iterable[Mapping[str, Any]], *keys: str) -> Found:
    """{(keys..., metric, average, class): row}; a key must not come twice, and NULL values must have a reason."""
    found: Found = {}
    for row in rows:
        key = tuple(row[name] for name in (*keys, "metric", "average", "class"))
        assert key not in found, key
        assert (row["value"] is None) == (row["reason"] is not None), row
        found[key] = dict(row)
    return found


def of_groups(groups: Mapping[str, Counts], **options: Any) -> Found:
    return by_key(measured(cell_table(groups), **options).to_pylist(), "b0")


def of_counts(counts: Counts, **options: Any) -> Found:
    """{(metric, average, class): row} of one group."""
    return {key[1:]: row for key, row in of_groups({"": counts}, **options).items()}


def overall(found: Found, *names: str) -> list[float | None]:
    return [found[name, None, None]["value"] for name in names]


def averages(found: Found, average: str) -> list[float | None]:
    return [found[name, average, None]["value"] for name in ("precision", "recall", "f1")]


def matrix(classes: Sequence[str], rows: Sequence[Sequence[float]]) -> Counts:
    return {
        (label, predicted): float(weight)
        for label, row in zip(classes, rows, strict=True)
        for predicted, weight in zip(classes, row, strict=True)
        if weight
    }


def exactly(value: Any) -> Any:
    return pytest.approx(value, rel=0, abs=1e-12)


# --- by hand, and cases from public bug reports


def test_kappa_of_a_textbook() -> None:
    found = of_counts(matrix(["yes", "no"], [[20, 5], [10, 15]]))
    assert overall(found, "cohen_kappa", "accuracy", "error_rate") == exactly([0.4, 0.7, 0.3])
    assert found["cohen_kappa_linear", None, None]["reason"] == "needs classes"
    yes = found["recall", None, "yes"]
    assert (yes["value"], yes["positives"], yes["negatives"], yes["rows"]) == (0.8, 25, 25, 4)


def test_everything_wrong_is_no_perfect_f1() -> None:  # B033
    found = of_counts({("1", "0"): 1, ("0", "1"): 1})
    assert averages(found, "macro") == [0, 0, 0]
    assert overall(found, "mcc", "cohen_kappa", "accuracy") == exactly([-1, -1, 0])
    assert found["f1_of_means", "macro", None]["value"] == 0


def test_one_class_has_no_kappa() -> None:  # B034
    found = of_counts({("1", "1"): 5})
    for name in ("cohen_kappa", "cohen_kappa_linear", "cohen_kappa_quadratic"):
        assert found[name, None, None]["reason"] == "no expected disagreement"
    assert overall(found, "mcc", "accuracy", "balanced_accuracy") == [0, 1, 1]
    assert found["specificity", None, "1"]["reason"] == "no negatives"


def test_products_past_32_bits() -> None:  # B035, B037
    counts = [[40_000, 21_000, 21_000], [21_000, 40_000, 21_000], [21_000, 21_000, 40_000]]
    assert overall(of_counts(matrix("012", counts)), "cohen_kappa") == exactly([0.23170731707317074])
    found = of_counts(matrix("01", [[50_000, 5_000], [5_000, 50_000]]))
    assert overall(found, "mcc", "accuracy") == exactly([0.8181818181818182, 0.9090909090909091])


def test_weighted_kappa_with_an_unused_class() -> None:  # B040
    counts = {("1", "1"): 1, ("2", "4"): 1, ("4", "4"): 1, ("4", "2"): 1}
    names = ("cohen_kappa_quadratic", "cohen_kappa_linear")
    declared = of_counts(counts, classes=("1", "2", "3", "4"))
    assert overall(declared, *names) == exactly([0.40740740740740744, 0.2727272727272727])
    assert overall(of_counts(counts), *names) == exactly([0.6363636363636364, 0.4285714285714286])


def test_class_that_is_only_predicted() -> None:  # B066
    counts = {("a", "a"): 2, ("b", "b"): 2, ("b", "c"): 1}
    found = of_counts(counts)
    assert averages(found, "macro") == exactly([0.6666666666666666, 0.5555555555555556, 0.6])
    assert averages(found, "weighted") == exactly([1.0, 0.8, 0.88])
    assert averages(of_counts(counts, classes=("a", "b")), "macro") == exactly([1.0, 0.8333333333333334, 0.9])
    assert overall(found, "balanced_accuracy") == exactly([0.8333333333333334])
    assert found["recall", None, "c"]["reason"] == "no positives"


def test_macro_f1_is_not_the_f1_of_means() -> None:  # B067
    counts = {("1", "1"): 3, ("1", "0"): 2, ("2", "2"): 2, ("2", "3"): 2}
    counts |= {("3", "3"): 2, ("3", "4"): 1, ("4", "4"): 1, ("4", "3"): 1}
    found = of_counts(counts, classes=("1", "2", "3", "4"))
    assert averages(found, "macro") == exactly([0.725, 0.5666666666666667, 0.6041666666666666])
    assert averages(found, "micro") == exactly([0.6666666666666666, 0.5714285714285714, 0.6153846153846154])
    assert averages(found, "weighted")[2] == exactly(0.6369047619047619)
    assert found["f1_of_means", "macro", None]["value"] == exactly(0.6361290322580646)
    # Class 0 is not averaged over; its rows stay in accuracy, kappa and MCC.
    assert {key[2] for key in found} == {None, "1", "2", "3", "4"}
    assert overall(found, "accuracy") == exactly([8 / 14])
    assert found["cohen_kappa_linear", None, None]["reason"] == "classes outside the declared ones"
    everything = of_counts(counts)
    assert overall(found, "cohen_kappa", "mcc") == exactly(overall(everything, "cohen_kappa", "mcc"))


# --- size and scale


def exact_values(counts: Counts) -> tuple[float, float]:
    """Kappa and MCC in rational arithmetic, up to the last root."""
    classes = sorted({name for pair in counts for name in pair})
    n = {pair: Fraction(weight) for pair, weight in counts.items()}
    total = sum(n.values())
    labels = [sum(w for (label, _), w in n.items() if label == k) for k in classes]
    predictions = [sum(w for (_, predicted), w in n.items() if predicted == k) for k in classes]
    right = sum(w for (label, predicted), w in n.items() if label == predicted)
    by_chance = sum(a * b for a, b in zip(labels, predictions, strict=True))
    kappa = (right * total - by_chance) / (total**2 - by_chance)
    spread = (total**2 - sum(a * a for a in labels)) * (total**2 - sum(b * b for b in predictions))
    mcc = float((right * total - by_chance) ** 2 / spread) ** 0.5
    return float(kappa), mcc if right * total >= by_chance else -mcc


COUNTS_OF_3E9 = matrix(["a", "b", "c"], [[3e9, 3e9 - 1, 5], [2.5e9, 3.1e9, 3e9], [7, 3e9, 3.2e9]])


def test_billions_in_each_cell() -> None:
    assert overall(of_counts(COUNTS_OF_3E9), "cohen_kappa", "mcc") == exactly(exact_values(COUNTS_OF_3E9))


@pytest.mark.parametrize("scale", [1e-100, 1e-12, 1e100])
def test_scale_of_weights_does_not_matter(scale: float) -> None:
    counts = {pair: weight * scale for pair, weight in COUNTS_OF_3E9.items()}
    names = [name for name in CLASS if "order" not in CLASS[name].needs and name != "f1_of_means"]
    costs = {"a": {"b": 1.0, "c": 2.0}, "b": {"a": 3.0}}
    scaled, plain = (of_counts(found, class_costs=costs) for found in (counts, COUNTS_OF_3E9))
    assert overall(scaled, *names) == exactly([value or 0.0 for value in overall(plain, *names)])
    for average in ("macro", "micro", "weighted"):
        assert averages(scaled, average) == exactly([value or 0.0 for value in averages(plain, average)])


def test_a_light_class_keeps_its_digits() -> None:
    rng = np.random.default_rng(3)
    counts = rng.uniform(0.1, 1.0, (2, 6, 6))
    counts[0, 2, 2], counts[1, 0, 4] = 1e15, 1e15
    flags = np.ones(2, dtype=bool)
    cells = ClassTable(counts, chosen=6, order=flags, declared=flags).cells
    for group in range(2):
        exact = [[Fraction(value) for value in row] for row in counts[group]]
        for k in range(6):
            others = [i for i in range(6) if i != k]
            wanted = {
                "tp": exact[k][k],
                "fp": sum(exact[i][k] for i in others),
                "fn": sum(exact[k][i] for i in others),
                "tn": sum(exact[i][j] for i in others for j in others),
            }
            for name, value in wanted.items():
                assert getattr(cells, name)[group, k] == pytest.approx(float(value), rel=1e-12), (name, group, k)


def test_nothing_is_exactly_zero() -> None:
    counts = np.array([[[0.1, 0.2], [0.3, 0.0]]])
    flags = np.ones(1, dtype=bool)
    cells = ClassTable(counts, chosen=2, order=flags, declared=flags).cells
    assert (cells.tn[0, 0], cells.tp[0, 1], cells.tn[0, 1]) == (0.0, 0.0, 0.1)
    only = ClassTable(np.array([[[0.7]]]), chosen=1, order=flags, declared=flags)
    assert (only.cells.tp[0, 0], only.cells.fp[0, 0], only.cells.fn[0, 0], only.cells.tn[0, 0]) == (0.7, 0, 0, 0)


def test_neighbours_in_a_batch_change_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    groups = {
        f"g{i}": matrix([f"c{j}" for j in range(k)], rng.integers(0, 9, (k, k)) + np.eye(k))
        for i, k in enumerate(rng.integers(1, 12, 40))
    }
    together = of_groups(groups)
    alone = {key: row for name, counts in groups.items() for key, row in of_groups({name: counts}).items()}
    monkeypatch.setattr(class_tables, "BATCH_CELLS", 300)
    in_small_batches = of_groups(groups)
    assert together == alone == in_small_batches


# --- options


def test_two_classes_with_a_positive_one() -> None:
    groups = {
        "two": matrix(["1", "0"], [[20, 5], [10, 15]]),
        "none": {("0", "0"): 4.0},
        "more": {("1", "1"): 2.0, ("x", "1"): 1.0, ("y", "x"): 3.0, ("0", "0"): 1.0},
    }
    found = of_groups(groups, positive="1")
    both = {name: found["two", name, None, None]["value"] for name in ("precision", "recall", "specificity")}
    assert both == exactly({"precision": 20 / 30, "recall": 0.8, "specificity": 0.6})
    assert found["two", "recall", None, None]["positives"] == 25
    assert found["two", "recall", None, "1"]["value"] == 0.8
    assert found["none", "recall", None, None]["reason"] == "no positives"
    assert found["none", "specificity", None, None]["value"] == 1
    assert found["none", "accuracy", None, None]["negatives"] == 4
    # Whoever is not positive is negative, so a miss among negatives is no error.
    assert found["more", "accuracy", None, None]["value"] == 6 / 7
    assert found["more", "cohen_kappa", None, None]["value"] is not None


def test_groups_without_weight() -> None:
    groups = {"empty": {("a", "b"): 0.0, ("a", "a"): 0.0}, "full": {("a", "a"): 1.0, ("c", "a"): 0.0}}
    for options, classes in (({}, set()), ({"classes": ("a",)}, {"a"}), ({"positive": "a"}, set())):
        found = of_groups(groups, **options)
        empty = {key: row for key, row in found.items() if key[0] == "empty"}
        assert {row["reason"] for row in empty.values()} == {"no weight"}
        assert {row["rows"] for row in empty.values()} == {2}
        assert {key[3] for key in empty} - {None} == classes
        assert {key[3] for key in found if key[0] == "full"} == {None, "a"}  # a class of weight 0 is not seen
        assert {key[1:3] for key in empty if key[3] is None} == {
            key[1:3] for key in found if key[0] == "full" and key[3] is None
        }


def test_class_costs() -> None:
    counts = matrix(["a", "b", "c"], [[4, 1, 0], [2, 3, 1], [0, 5, 9]])
    costs = {"a": {"b": 2.0}, "b": {"a": 1.0, "c": 7.0}, "z": {"a": 3.0}}
    found = of_counts(counts, class_costs=costs)
    assert overall(found, "empirical_risk") == exactly([(2 * 1 + 1 * 2 + 7 * 1) / 25])
    labels, predictions = {"a": 5, "b": 6, "c": 14}, {"a": 6, "b": 9, "c": 10}
    expected = sum(
        cost * labels.get(label, 0) * predictions[predicted]
        for label, row in costs.items()
        for predicted, cost in row.items()
    )
    assert overall(found, "cohen_kappa_class_costs") == exactly([1 - 11 / 25 / (expected / 625)])
    assert ("cohen_kappa_class_costs", None, None) not in of_counts(counts)
    assert overall(of_counts(counts, class_costs=costs, positive="a"), "empirical_risk") == exactly([11 / 25])
    assert overall(of_counts(counts, positive="a"), "empirical_risk") == exactly([(1 + 2) / 25])
    risky = of_counts(counts, class_costs={"a": {"a": 1.0, "b": 2.0}})
    assert overall(risky, "empirical_risk") == exactly([(4 + 2) / 25])
    assert risky["cohen_kappa_class_costs", None, None]["reason"] == "class_costs is not 0 on the diagonal"
    free = of_counts(counts, class_costs={"x": {"y": 1.0}})
    assert free["cohen_kappa_class_costs", None, None]["reason"] == "no expected disagreement"


def test_declared_classes_that_do_not_occur() -> None:
    found = of_counts({("a", "b"): 2.0, ("b", "b"): 3.0}, classes=("x", "y"))
    assert overall(found, "accuracy", "mcc") == exactly([0.6, 0.0])
    assert averages(found, "macro") == [0, 0, 0]
    assert found["precision", "micro", None]["reason"] == "no predicted positives"
    assert found["recall", "weighted", None]["reason"] == "no labels of the declared classes"
    assert found["balanced_accuracy", None, None]["reason"] == "no labels of the declared classes"


def test_numbers_as_classes_are_in_order() -> None:
    """10 after 9, -3 first, text spoils it."""
    table = [[3, 1, 0, 2], [1, 4, 1, 0], [0, 2, 5, 1], [1, 0, 1, 6]]
    names = ("cohen_kappa_linear", "cohen_kappa_quadratic")
    reference = overall(of_counts(matrix("abcd", table), classes=tuple("abcd")), *names)
    assert None not in reference
    assert overall(of_counts(matrix(["-3", "2.5", "9", "1e1"], table)), *names) == reference
    assert overall(of_counts(matrix(["-3", "2.5", "9", "ten"], table)), *names) == [None, None]


def test_intervals() -> None:
    """Of 7 right out of 10, R's prop.test(7, 10, correct = FALSE): 0.3967781 to 0.8922087."""
    groups = {"whole": {("a", "a"): 7.0, ("b", "a"): 3.0}, "parts": {("a", "a"): 7.5, ("b", "a"): 2.5}}
    found = of_groups(groups)
    for key in (("accuracy", None, None), ("precision", None, "a")):
        row = found[("whole", *key)]
        assert (row["lower"], row["upper"]) == pytest.approx((0.3967781, 0.8922087), abs=1e-7)
        assert found[("parts", *key)]["lower"] is None
    assert found["whole", "error_rate", None, None]["upper"] == pytest.approx(1 - 0.3967781, abs=1e-7)
    assert found["whole", "f1", None, "a"]["lower"] is None
    assert found["whole", "recall", None, "b"]["upper"] is not None
    assert found["whole", "specificity", None, "b"]["lower"] is not None
    assert found["whole", "precision", None, "b"]["lower"] is None  # undefined


# --- scikit-learn


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


@pytest.mark.parametrize("weighted", [False, True])
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


# --- the state


KEYS = Keys(("model",), ("day", "sex"), (StringType(), IntegerType(), StringType()))


def predictions(spark: SparkSession, rows: int, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    sex = rng.integers(0, 3, rows)
    return spark.createDataFrame(
        pa.table(
            {
                "b0": pa.array(rng.choice(["m", "n"], rows)),
                "s0": pa.array(rng.integers(0, 3, rows), pa.int32()),
                "s1": pa.array(np.array(["f", "m", "-"])[sex], mask=sex == 2),
                "class_label": pa.array(rng.choice(list("abc"), rows)),
                "class_prediction": pa.array(rng.choice(list("abcd"), rows)),
                "weight": pa.array(rng.integers(0, 3, rows).astype(np.float64)),
            }
        )
    )


def sorted_rows(frame: Any) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=repr)


def test_states_add_up(spark: SparkSession, tmp_path: Path) -> None:
    monday, tuesday = (predictions(spark, 300, seed) for seed in (1, 2))
    parts = [class_counts_of(frame, KEYS, weighted=True) for frame in (monday, tuesday)]
    whole = class_counts_of(monday.unionByName(tuesday), KEYS, weighted=True)
    added = parts[0] + parts[1]
    assert sorted_rows(added.frame) == sorted_rows(whole.frame)

    path = str(tmp_path / "state")
    added.write(path)
    again = read_class_counts(spark, path)
    assert (again.keys, again.weighted) == (KEYS, True)
    table = whole.table()
    assert table.columns == ["model", "day", "sex", "label", "prediction", "count", "rows"]
    assert sorted_rows(again.table()) == sorted_rows(table)
    with pytest.raises(WriteError, match="state"):
        added.write(path)

    rolled, by_hand = (
        again.roll_up(["sex"]),
        class_counts_of(
            monday.unionByName(tuesday).drop("s0").withColumnRenamed("s1", "s0"),
            Keys(("model",), ("sex",), (StringType(), StringType())),
            weighted=True,
        ),
    )
    assert rolled.keys == by_hand.keys
    assert sorted_rows(rolled.frame) == sorted_rows(by_hand.frame)
    with pytest.raises(ConfigError, match="country"):
        again.roll_up(["country"])
    with pytest.raises(SchemaError, match="class counts do not fit together"):
        _ = again + rolled
    cells = "label string, prediction string, count double, rows double"
    for name, other, message in (
        ("predictions", monday, "does not hold class counts"),
        ("bare", spark.createDataFrame([], f"model string, day int, {cells}"), "metadata"),
    ):
        other.write.parquet(str(tmp_path / name))
        with pytest.raises(SchemaError, match=message):
            read_class_counts(spark, str(tmp_path / name))


def test_class_count_table(spark: SparkSession) -> None:
    frame = predictions(spark, 400, 4)
    leveled = counts_at_levels(class_counts_of(frame, KEYS, weighted=True), [(), (1,), (0, 1)]).cache()
    used: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in frame.toArrow().to_pylist():
        for group in (
            ("total", row["b0"], None, None),
            ("sex", row["b0"], None, row["s1"]),
            ("day,sex", row["b0"], row["s0"], row["s1"]),
        ):
            used.setdefault(group, []).append(row)
    for normalize in (None, "true", "pred", "all"):
        found = {group: np.zeros((4, 4)) for group in used}
        for row in class_count_table(leveled, KEYS, normalize).toArrow().to_pylist():
            assert row["count"] > 0
            cell = "abcd".index(row["label"]), "abcd".index(row["prediction"])
            found[row["level"], row["b0"], row["s0"], row["s1"]][cell] = row["count"]
        for group, rows in used.items():
            wanted = sklearn_metrics.confusion_matrix(
                [row["class_label"] for row in rows],
                [row["class_prediction"] for row in rows],
                labels=list("abcd"),
                sample_weight=[row["weight"] for row in rows],
                normalize=normalize,
            )
            assert found[group] == pytest.approx(wanted, abs=1e-12), group
    leveled.unpersist()


def test_sums_of_weights_do_not_drift(spark: SparkSession) -> None:
    rows = 4_000_000
    text = F.lit("a")
    frame = spark.range(0, rows, 1, 2).select(
        text.alias("class_label"), text.alias("class_prediction"), F.lit(0.1).alias("weight")
    )
    (row,) = counts_at_levels(class_counts_of(frame, Keys((), (), ()), weighted=True), [()]).collect()
    assert row["count"] == pytest.approx(float(rows * Fraction(0.1)), rel=1e-14)
    assert row["rows"] == rows


# --- how it runs


def test_a_hundred_classes_in_one_plan(spark: SparkSession) -> None:
    """30 groups of two `by` tuples, 100 x 100 cells each, at two levels."""
    keys = Keys(("model",), ("day",), (StringType(), IntegerType()))
    cell = F.col("id")
    frame = spark.range(30 * 10_000).select(
        (cell % 2).cast("string").alias("b0"),
        (F.floor(cell / 2) % 15).cast("int").alias("s0"),
        (F.floor(cell / 30) % 100).cast("string").alias("label"),
        (F.floor(cell / 3_000) % 100).cast("string").alias("prediction"),
        (F.abs(F.hash(cell)) % 10).cast("double").alias("count"),
        F.lit(1.0).alias("rows"),
    )
    counts = ClassCounts(keys, frame, weighted=False)
    table = class_metric_table(counts_at_levels(counts, [(), (0,)]), keys, METRICS, z=Z)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        table.explain(mode="formatted")
    plan = printed.getvalue()
    assert "Exchange" in plan
    assert "SinglePartition" not in plan
    assert "CartesianProduct" not in plan
    found = by_key((row.asDict() for row in table.collect()), "b0", "s0")
    assert {key[:2] for key in found} == {(b, s) for b in "01" for s in (None, *range(15))}
    cells = frame.toPandas()
    for (model, day), group in [*cells.groupby(["b0", "s0"]), *(((b, None), g) for b, g in cells.groupby("b0"))]:
        n = np.zeros((100, 100))
        np.add.at(n, (group["label"].astype(int), group["prediction"].astype(int)), group["count"])
        share = n.sum(axis=1) @ n.sum(axis=0) / n.sum() ** 2
        accuracy = np.trace(n) / n.sum()
        row = found[model, day, "accuracy", None, None]
        assert (row["value"], row["rows"]) == (exactly(accuracy), len(group))
        assert found[model, day, "cohen_kappa", None, None]["value"] == exactly((accuracy - share) / (1 - share))
        recalls = np.diag(n) / n.sum(axis=1)
        assert found[model, day, "recall", None, "42"]["value"] == exactly(recalls[42])
        assert found[model, day, "recall", "macro", None]["value"] == exactly(recalls.mean())


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
