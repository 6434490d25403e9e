"""Predicted classes without a session: measures by hand, at any size and scale, and with options."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from class_measures import Counts, averages, matrix, of_counts, of_groups, overall
from results import exactly

from sparkmetrics import class_tables
from sparkmetrics.metrics.classes import CLASS, ClassTable

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
