"""Real predictions: values that were worked out elsewhere."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from asked import THRESHOLD
from pyspark.sql import Row, SparkSession

import sparkmetrics as sm

TITANIC = Path(__file__).parents[1] / "examples" / "titanic_predictions.csv"

PANEL = {
    "n": "rows",
    "positives": "positives",
    "auc": "roc_auc",
    "gini": "gini",
    "ks": "ks",
    "average_precision": "average_precision",
    "brier": "brier",
    "log_loss": "log_loss",
    "delong_se": "roc_auc_se",
}
"""What the reference tables call our metrics."""

Z = 1.959963984540054
"""The normal quantile of 95 % intervals."""

Values = dict[str, float]


def values_of(rows: list[Row], *keys: str) -> dict[tuple[Any, ...], Values]:
    """The table `metrics` as {(level, key values): {metric: value}}; a metric at a threshold as `recall@0.5`."""
    found: dict[tuple[Any, ...], Values] = {}
    for row in rows:
        values = found.setdefault((row["level"], *(row[key] for key in keys)), {})
        at = row["threshold"]
        at_threshold = row["metric"] in THRESHOLD
        values[f"{row['metric']}@{at}" if at_threshold else row["metric"]] = row["value"]
        if not at_threshold:
            values[f"{row['metric']}, threshold"] = at
        if row["metric"] == "roc_auc":
            values |= {end: row[end] for end in ("lower", "upper")}
        values |= {name: row[name] for name in ("rows", "positives", "negatives")}
    return found


def assert_panel(found: Values, wanted: dict[str, Any], tolerance: float = 1e-12) -> None:
    """The values of a reference panel, and DeLong's interval: the reference's is not on the logit scale."""
    expected = {PANEL[name]: value for name, value in wanted.items() if name in PANEL}
    assert expected
    assert {name: found[name] for name in expected} == pytest.approx(expected, rel=0, abs=tolerance)
    if "delong_se" in wanted:
        auc, error = wanted["auc"], wanted["delong_se"]
        plain = wanted["delong_lo"], wanted["delong_hi"]
        assert (auc - Z * error, auc + Z * error) == pytest.approx(plain, rel=0, abs=1e-10)
        logit, spread = math.log(auc / (1.0 - auc)), Z * error / (auc * (1.0 - auc))
        bounds = tuple(1.0 / (1.0 + math.exp(-bound)) for bound in (logit - spread, logit + spread))
        assert (found["lower"], found["upper"]) == pytest.approx(bounds, rel=0, abs=1e-10)
        assert 0.0 < found["lower"] < auc < found["upper"] < 1.0


def assert_thresholds(found: Values, wanted: dict[str, dict[str, float]]) -> None:
    """Rates and cells at thresholds; the cells follow from rates and class sizes."""
    for at, reference in wanted.items():
        rates = {name: value for name, value in reference.items() if name not in ("tp", "fp", "fn", "tn")}
        values = {name: found[f"{name}@{float(at)}"] for name in ("recall", "fpr", *rates)}
        assert {name: values[name] for name in rates} == pytest.approx(rates, rel=0, abs=1e-12)
        assert values["recall"] * found["positives"] == pytest.approx(reference["tp"], rel=1e-12)
        assert values["fpr"] * found["negatives"] == pytest.approx(reference["fp"], rel=1e-12)


@pytest.fixture(scope="module")
def expected(shared_data: Path) -> dict[str, Any]:
    return json.loads((shared_data / "expected.json").read_text())


# --- six rows: two subsets of AUC 0.5 whose union has AUC 0.625


def test_toy_subset_versus_total(spark: SparkSession) -> None:
    rows = [("A", 0.09, 0), ("A", 0.5, 1), ("A", 0.7, 0), ("B", 0.095, 0), ("B", 0.41, 1), ("B", 0.42, 0)]
    frame = spark.createDataFrame(rows, "subset string, score double, label int")
    ev = sm.evaluate(frame, segments=["subset"], label="label", score="score")
    auc = {(r["level"], r["subset"]): r["value"] for r in ev.metrics().where("metric = 'roc_auc'").collect()}
    assert auc == {("total", None): 0.625, ("subset", "A"): 0.5, ("subset", "B"): 0.5}

    pairs = {(r["positive_segment"], r["negative_segment"]): r for r in ev.segment_auc().collect()}
    assert {
        key: (r["pairs"], int(r["wins2"]), r["auc"], r["pair_share"], r["contribution"]) for key, r in pairs.items()
    } == {
        ("subset=A", "subset=A"): (2, 2, 0.5, 0.25, 0.125),
        ("subset=B", "subset=B"): (2, 2, 0.5, 0.25, 0.125),
        ("subset=A", "subset=B"): (2, 4, 1.0, 0.25, 0.25),
        ("subset=B", "subset=A"): (2, 2, 0.5, 0.25, 0.125),
    }
    inside = [r for key, r in pairs.items() if key[0] == key[1]]
    between = [r for key, r in pairs.items() if key[0] != key[1]]
    for part, size, auc_of_part in ((inside, 4, 0.5), (between, 4, 0.75)):
        assert sum(r["pairs"] for r in part) == size
        assert float(sum(r["wins2"] for r in part)) / (2 * size) == auc_of_part
    assert sum(r["contribution"] for r in pairs.values()) == 0.625


# --- Titanic: three models, in the repository


@pytest.fixture(scope="module")
def titanic_counts(spark: SparkSession) -> sm.ScoreCounts:
    columns = "model string, passenger int, sex string, pclass int, embarked string, age_band string, survived int, "
    frame = spark.read.csv(str(TITANIC), schema=columns + "score double", header=True, enforceSchema=False)
    segments = ["sex", "pclass", "embarked"]
    return sm.score_counts(frame, by=["model"], segments=segments, label="survived", score="score")


@pytest.fixture(scope="module")
def titanic(titanic_counts: sm.ScoreCounts) -> dict[str, dict[tuple[Any, ...], Values]]:
    """Values by rule, then by group (level, model, sex, pclass, embarked)."""
    levels = [[], ["sex"], ["pclass"], ["embarked"]]
    found = {}
    for rule in (">", ">="):
        ev = titanic_counts.evaluate(levels=levels, thresholds=[0.1, 0.5, 0.9], threshold_rule=rule)
        found[rule] = values_of(ev.metrics().collect(), "model", "sex", "pclass", "embarked")
    return found


def test_titanic(titanic: dict[str, dict[tuple[Any, ...], Values]]) -> None:
    rf = titanic[">"]["total", "rf", None, None, None]
    assert (rf["rows"], rf["positives"]) == (328, 125)
    by_hand = {
        "accuracy": {0.1: 0.6067073170731707, 0.5: 0.7865853658536586, 0.9: 0.7530487804878049},
        "recall": {0.1: 0.928, 0.5: 0.72, 0.9: 0.376},
        "precision": {0.1: 0.4915254237288136, 0.5: 0.72, 0.9: 0.94},
        "npv": {0.1: 0.9021739130434783, 0.5: 0.8275862068965517, 0.9: 0.7194244604316546},
    }
    for metric, values in by_hand.items():
        for at, value in values.items():
            assert rf[f"{metric}@{at}"] == pytest.approx(value, rel=0, abs=1e-12)
    assert rf["roc_auc"] == 0.846935960591133
    for metric, value in {
        "accuracy_ratio": 0.6938719211822659,
        "accuracy_ratio_optimistic": 0.6970246305418719,
        "roc_auc_se": 0.023028976896337882,
        "average_precision": 0.8198678510173409,
        "gini": 0.6938719211822659,
        "ks": 0.5635467980295567,
        "brier": 0.15131467732972467,
        "log_loss": 0.4811453959796548,
    }.items():
        assert rf[metric] == pytest.approx(value, rel=0, abs=1e-12)
    # One positive scores exactly 0.1, and one exactly 0.9.
    at_least = titanic[">="]["total", "rf", None, None, None]
    assert [at_least[f"recall@{at}"] for at in (0.1, 0.5, 0.9)] == [0.936, 0.72, 0.384]

    auc = {
        ("total", "lr", None, None, None): 0.8668768472906404,
        ("total", "hgb", None, None, None): 0.86792118226601,
        ("sex", "rf", "female", None, None): 0.8417562724014338,
        ("sex", "rf", "male", None, None): 0.6504152823920266,
        ("pclass", "rf", None, 1, None): 0.8122605363984675,
        ("pclass", "rf", None, 2, None): 0.9750204750204751,
        ("pclass", "rf", None, 3, None): 0.7315597387629658,
    }
    assert {key: titanic[">"][key]["roc_auc"] for key in auc} == pytest.approx(auc, rel=0, abs=1e-12)
    ports = {key[-1]: values["rows"] for key, values in titanic[">"].items() if key[:2] == ("embarked", "rf")}
    assert sum(ports.values()) == 328
    assert ports[None] == 2


def test_titanic_gains(titanic_counts: sm.ScoreCounts) -> None:
    table = titanic_counts.evaluate(levels=[[]]).gains().where("model = 'rf'").orderBy("bucket").collect()
    assert [row["bucket"] for row in table] == list(range(1, 11))
    assert {row["rows"] for row in table} == {32.8}
    cumulative = [32.4, 61, 76.4, 92, 103, 107.8, 114, 118 + 0.8 / 9, 121, 125]
    assert [row["cumulative_positives"] for row in table] == pytest.approx(cumulative, rel=1e-12)
    assert [row["cumulative_gain"] for row in table] == pytest.approx([p / 125 for p in cumulative], rel=1e-12)
    lift = [p / 125 / (0.1 * i) for i, p in enumerate(cumulative, start=1)]
    assert [row["cumulative_lift"] for row in table] == pytest.approx(lift, rel=1e-12)


def test_titanic_reference(titanic: dict[str, dict[tuple[Any, ...], Values]], expected: dict[str, Any]) -> None:
    reference = expected["titanic"]
    for model in ("rf", "lr", "hgb"):
        total = ("total", model, None, None, None)
        assert_panel(titanic[">"][total], reference[model]["panel"])
        assert_thresholds(titanic[">"][total], reference[model]["thresholds_gt"])
        assert_thresholds(titanic[">="][total], reference[model]["thresholds_ge"])
    for segment, panel in reference["segments_rf"].items():
        column, value = segment.split("=")
        key = (column, "rf", value, None, None) if column == "sex" else (column, "rf", None, int(value), None)
        assert_panel(titanic[">"][key], panel)
    # On the logit scale the interval ends below 1; on the scale of the AUC it would not.
    second_class = titanic[">"]["pclass", "rf", None, 2, None]
    assert second_class["upper"] < 1.0 < reference["segments_rf"]["pclass=2"]["delong_hi"]


def test_titanic_accuracy_ratios(titanic: dict[str, dict[tuple[Any, ...], Values]], expected: dict[str, Any]) -> None:
    for model in ("rf", "lr", "hgb"):
        found, reference = titanic[">"]["total", model, None, None, None], expected["titanic"][model]["cap"]
        assert found["accuracy_ratio"] == pytest.approx(reference["ar_tie_averaged"], rel=0, abs=1e-12)
        assert found["accuracy_ratio_optimistic"] == pytest.approx(reference["ar_label_first"], rel=0, abs=1e-12)


def test_titanic_is_the_reference_table(shared_data: Path) -> None:
    with open(shared_data / "titanic_test_predictions.csv", newline="") as wide, open(TITANIC, newline="") as long:
        reference = {row["row"]: row for row in csv.DictReader(wide)}
        copied = list(csv.DictReader(long))
    assert len(copied) == 3 * len(reference)
    for row in copied:
        source = reference[row["passenger"]]
        assert float(row["score"]) == float(source[f"score_{row['model']}"])
        columns = ("sex", "pclass", "embarked", "age_band", "survived")
        assert {name: row[name] for name in columns} == {name: source[name] for name in columns}


def test_titanic_pairs_add_up(
    titanic_counts: sm.ScoreCounts, titanic: dict[str, dict[tuple[Any, ...], Values]]
) -> None:
    sums: dict[tuple[str, str], list[float]] = {}
    diagonal: dict[tuple[str, str], float] = {}
    for row in titanic_counts.evaluate(levels=[["sex"], ["sex", "pclass"], ["embarked"]]).segment_auc().collect():
        total = sums.setdefault((row["model"], row["level"]), [0.0, 0, 0.0, 0.0])
        for place, name in enumerate(("pairs", "wins2", "pair_share", "contribution")):
            total[place] += row[name]
        if row["positive_segment"] == row["negative_segment"]:
            diagonal[row["model"], row["positive_segment"]] = row["auc"]
    assert {level for _, level in sums} == {"sex", "sex,pclass", "embarked"}
    for (model, _), (pairs, wins2, share, contribution) in sums.items():
        auc = titanic[">"]["total", model, None, None, None]["roc_auc"]
        assert pairs == 125 * 203
        assert float(wins2) / (2 * pairs) == auc
        assert share == pytest.approx(1.0, abs=1e-12)
        assert contribution == pytest.approx(auc, abs=1e-12)
    for sex in ("female", "male"):
        assert diagonal["rf", f"sex={sex}"] == titanic[">"]["sex", "rf", sex, None, None]["roc_auc"]


# --- smaller reference tables


def read(path: Path) -> list[dict[str, str]]:
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def test_smaller_reference_tables(spark: SparkSession, shared_data: Path, expected: dict[str, Any]) -> None:
    telco = read(shared_data / "telco_churn_test_predictions.csv")
    rows = [
        (model, row["charges_band"], int(row["churn"]), float(row[model]))
        for row in telco
        for model in ("score_full", "score_no_contract")
    ]
    rows += [
        ("two_class_example", "", int(row["label"]), float(row["Class1"]))
        for row in read(shared_data / "yardstick_two_class_example.csv")
    ]
    rows += [
        ("handtill_twoclass", "", int(row["observed"]), float(row["predicted"]))
        for row in read(shared_data / "handtill_twoclass.csv")
    ]
    counts = sm.score_counts(
        spark.createDataFrame(rows, "model string, band string, label int, score double"),
        by=["model"],
        segments=["band"],
        label="label",
        score="score",
    )
    found = {
        rule: values_of(
            counts.evaluate(thresholds=[0.1, 0.22, 0.24, 0.5, 0.9], threshold_rule=rule, payoffs={"tp": 200, "fp": -80})
            .metrics()
            .collect(),
            "model",
            "band",
        )
        for rule in (">", ">=")
    }
    totals = {key[1]: values for key, values in found[">"].items() if key[0] == "total"}
    assert_panel(totals["score_full"], expected["telco"]["score_full"])
    assert_panel(totals["score_no_contract"], expected["telco"]["score_no_contract"])
    assert_panel(totals["two_class_example"], expected["two_class_example"]["panel"])
    assert_panel(totals["handtill_twoclass"], expected["handtill_twoclass"])
    assert_thresholds(totals["score_full"], expected["telco"]["thresholds_gt"])
    assert_thresholds(found[">="]["total", "score_full", None], {"0.5": expected["telco"]["cm_ge_0.5"]})
    assert_thresholds(found[">="]["total", "two_class_example", None], {"0.5": expected["two_class_example"]["cm"]})
    two_class = found[">="]["total", "two_class_example", None]
    for ours, theirs in {"cohen_kappa": "kappa", "mcc": "mcc"}.items():
        assert two_class[f"{ours}@0.5"] == pytest.approx(expected["two_class_example"][theirs], rel=0, abs=1e-12)
    assert_profits(found[">="], expected["telco"])
    for band, panel in expected["telco"]["by_band"].items():
        assert_panel(found[">"]["band", "score_full", band], {name: panel[name] for name in ("n", "positives", "auc")})


def assert_profits(found: dict[tuple[Any, ...], Values], telco: dict[str, Any]) -> None:
    """Of a churn campaign: 200 for each churner called, 80 for each call in vain."""
    for model in ("score_full", "score_no_contract"):
        profit, values = telco[model]["profit_best"], found["total", model, None]
        assert values[f"profit@{profit['threshold']}"] == profit["profit"]
        assert values["profit@0.5"] == profit["profit_at_0_5"]
    full = found["total", "score_full", None]
    assert (full["profit@0.22"], full["profit@0.5"]) == (32_360.0, 27_480.0)
    # Between the hundredths at which the reference looked.
    assert (full["best_profit"], full["best_profit, threshold"]) == (32_680.0, 0.22278182208538055)


def test_two_class_example_with_weights(spark: SparkSession, shared_data: Path, expected: dict[str, Any]) -> None:
    rows = [
        (int(row["label"]), float(row["Class1"]), float(row["weight"]))
        for row in read(shared_data / "yardstick_two_class_example.csv")
    ]
    frame = spark.createDataFrame(rows, "label int, score double, weight double")
    table = sm.evaluate(frame, label="label", score="score", weight="weight").metrics()
    ((_, found),) = values_of(table.collect()).items()
    reference = expected["two_class_example"]["weighted"]
    wanted = {"roc_auc": reference["auc"]} | {name: reference[name] for name in ("average_precision", "log_loss")}
    at_threshold = ("f1", "precision", "recall", "accuracy", "balanced_accuracy", "mcc")
    wanted |= {f"{name}@0.5": reference[name] for name in at_threshold} | {"cohen_kappa@0.5": reference["kappa"]}
    assert {name: found[name] for name in wanted} == pytest.approx(wanted, rel=0, abs=1e-12)
    assert found["rows"] == len(rows)
    assert found["positives"] == pytest.approx(math.fsum(w for y, _, w in rows if y), rel=1e-12)


def test_ten_forecasters_of_a_wide_table(spark: SparkSession, shared_data: Path, expected: dict[str, Any]) -> None:
    frame = spark.read.csv(str(shared_data / "triptych_ex_binary.csv"), header=True, inferSchema=True)
    models = [f"X{number:02d}" for number in range(1, 11)]
    table = sm.evaluate(frame, label="y", scores={model: model for model in models}).metrics()
    found = values_of(table.collect(), "model")
    assert set(found) == {("total", model) for model in models}
    for model in models:
        reference = expected["triptych"][model]
        assert_panel(found["total", model], reference["panel"])
        assert found["total", model]["brier_uncertainty"] == pytest.approx(reference["corp"]["UNC"], rel=0, abs=1e-12)


# --- a million forecasts


@pytest.mark.usefixtures("compiled")
@pytest.mark.slow
def test_a_million_forecasts(spark: SparkSession, shared_data: Path, expected: dict[str, Any]) -> None:
    path = shared_data / "fte_all_long.parquet"
    ev = sm.evaluate(spark.read.parquet(str(path)), segments=["forecast"], label="label", score="score")
    found = values_of(ev.metrics().collect(), "forecast")
    reference = expected["fte_all"]
    assert_panel(found["total", None], reference["all"], tolerance=1e-10)
    assert len(found) == 1 + len(reference["by_forecast"]) == 24
    for forecast, panel in reference["by_forecast"].items():
        assert_panel(found["forecast", forecast], panel, tolerance=1e-10)

    table = pq.read_table(path, columns=["score", "label"])
    score, label = (table.column(name).to_numpy() for name in ("score", "label"))
    _, block = np.unique(score, return_inverse=True)
    p, n = (np.bincount(block, weights=label == wanted).astype(np.int64) for wanted in (1, 0))
    u2 = int(np.sum(n * (2 * (np.sum(p) - np.cumsum(p)) + p)))
    P, N = int(p.sum()), int(n.sum())
    assert (found["total", None]["positives"], found["total", None]["negatives"]) == (P, N)
    assert found["total", None]["roc_auc"] == u2 / (2 * P * N)

    pairs = ev.segment_auc().collect()
    assert len(pairs) == 23**2
    assert sum(int(row["wins2"]) for row in pairs) == u2
    assert sum(int(row["pairs"]) for row in pairs) == P * N
    assert math.fsum(row["contribution"] for row in pairs) == pytest.approx(0.9585939876539006, rel=0, abs=1e-12)
    for row in pairs:
        if row["positive_segment"] == row["negative_segment"]:
            assert row["auc"] == found["forecast", row["positive_segment"].removeprefix("forecast=")]["roc_auc"]
    ev.unpersist()


@pytest.mark.usefixtures("compiled")
@pytest.mark.slow
def test_a_million_weighted_forecasts(spark: SparkSession, shared_data: Path, expected: dict[str, Any]) -> None:
    frame = spark.read.parquet(str(shared_data / "fte_all_long.parquet"))
    ev = sm.evaluate(frame, label="label", score="score", weight="weight")
    ((_, found),) = values_of(ev.metrics().collect()).items()
    reference = expected["fte_all"]["weighted"]
    assert found["rows"] == expected["fte_all"]["rows"]
    assert found["roc_auc"] == pytest.approx(reference["auc"], rel=0, abs=1e-10)
    assert found["brier"] == pytest.approx(reference["brier"], rel=0, abs=1e-10)
    ev.unpersist()
