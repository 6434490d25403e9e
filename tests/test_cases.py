"""Inputs that other libraries once got wrong (`cases.json`), and every ranking of four rows, against values by hand."""

from __future__ import annotations

import ast
import json
import math
from collections.abc import Iterator
from fractions import Fraction
from functools import reduce
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import pytest
from asked import THRESHOLD
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import sparkmetrics as sm
from sparkmetrics import predictions

HERE = Path(__file__).parent
CASES: list[dict[str, Any]] = json.loads((HERE / "cases.json").read_text())
"""Each: id; `rows` as [label, score]; beside them `n` (identical rows), `weight`, `segment`, `model`; `positive`.

`expected` holds metrics (`recall@0.5` at a threshold, `roc_auc[A]` of a segment), cells at 0.5, and columns of a curve.
A `variant` is made from the rows of a report. For the agreement with the reports, `as` says under which name a report
has the value, and `unused` why one of its values is not expected here.
"""

ELSEWHERE = {
    "B033": "test_everything_wrong_is_no_perfect_f1",
    "B034": "test_one_class_has_no_kappa",
    "B035": "test_products_past_32_bits",
    "B040": "test_weighted_kappa_with_an_unused_class",
    "B043": "test_millions_and_billions_of_rows",
    "B047": "test_weights_below_zero_or_infinite_are_errors_under_any_policy",
    "B051": "test_weights_in_one_vs_rest",
    "B066": "test_class_that_is_only_predicted",
    "B067": "test_macro_f1_is_not_the_f1_of_means",
    "B070": "test_no_direction_is_chosen_for_a_pair_of_classes",
    "B076": "test_two_labels_of_which_none_is_positive",
    "B103": "test_any_column_name",
    "B105": "test_columns_that_differ_by_case",
    "B106": "test_scores_of_any_type_are_widened_to_double",
    "B108": "test_scores_of_any_type_are_widened_to_double",
    "B109": "test_scores_of_any_type_are_widened_to_double",
    "B111": "test_days_are_those_of_the_session_zone",
}
"""Reports about input or classes, whose kind of fault has its test in another module."""

WAITING = {
    **dict.fromkeys(("B088", "B089"), "comparison of models on the same rows"),
}
"""Reports about what is not built yet. Of others a part waits: `unused` in `cases.json` says which."""

THRESHOLDS = (0.0, 0.5)

# Every labelling of four rows with every way in which neighbours tie; then scores one ulp apart from tiny to large.
FOUR = {
    f"four {labels} {steps}": list(zip(labels, (0, steps[0], sum(steps[:2]), sum(steps)), strict=True))
    for labels in product((0, 1), repeat=4)
    for steps in product((0, 1), repeat=3)
}
SIZES = (5e-324, 2.2250738585072014e-308, 1e-10, 0.1, 0.3, 1.0, 2.0**53, 1e300)
NEIGHBOURS = {
    f"neighbours of {x}": [(0, math.nextafter(x, -math.inf)), (1, x), (0, x), (1, math.nextafter(x, math.inf))]
    for x in (sign * size for size in SIZES for sign in (1, -1))
}
MADE = FOUR | NEIGHBOURS


def name(case: dict[str, Any]) -> str:
    return f"{case['id']} {case.get('variant', '')}".strip()


def number(value: Any) -> Any:
    """A number of a JSON file: infinities are text there."""
    return float(value) if isinstance(value, (int, str)) else value


def table(spark: SparkSession, weighted: bool) -> DataFrame:
    """All cases with or without weights as one table, identical rows repeated."""
    rows: list[tuple[Any, ...]] = []
    for case in CASES:
        if ("weight" in case) == weighted:
            nothing = [None] * len(case["rows"])
            beside = (case.get(key, nothing) for key in ("model", "segment", "n", "weight"))
            for (label, score), model, segment, n, weight in zip(case["rows"], *beside, strict=True):
                positive = label == case.get("positive", 1)
                rows.append((name(case), model, segment, n or 1, positive, float(score), number(weight)))
    if not weighted:
        rows += [(made, None, None, 1, y == 1, float(p), None) for made, pairs in MADE.items() for y, p in pairs]
    columns = "case string, model string, segment string, n int, positive boolean, score double, weight float"
    frame = spark.createDataFrame(rows, columns).repartition(3)
    return frame.withColumn("n", F.explode(F.array_repeat(F.lit(1), F.col("n"))))


class Results:
    """What was evaluated of a table of cases, by case (and model and segment; None is the total)."""

    def __init__(self, spark: SparkSession, weighted: bool) -> None:
        counts = sm.score_counts(
            table(spark, weighted),
            by=["case", "model"],
            segments=["segment"],
            label="positive",
            score="score",
            weight="weight" if weighted else None,
        )
        evaluation = counts.evaluate(thresholds=THRESHOLDS, curve_points=None)
        strict = counts.evaluate(levels=[[]], thresholds=(), threshold_rule=">", metrics=["ks"])
        self.metrics: dict[tuple[Any, ...], dict[str, Any]] = {}
        for row in evaluation.metrics().collect():
            values = self.metrics.setdefault(self.group(row), {})
            at = row["threshold"]
            values[f"{row['metric']}@{at}" if row["metric"] in THRESHOLD else row["metric"]] = row["value"]
            values |= {column: row[column] for column in ("rows", "positives", "negatives")}
            values["pairs"] = row["positives"] * row["negatives"]
            if row["metric"] == "ks":
                values["ks_threshold"] = at
            if row["metric"] == "roc_auc":
                values["roc_auc_interval"] = [row["lower"], row["upper"]]
            assert (row["value"] is None) == (row["reason"] is not None)
        for row in strict.metrics().collect():
            self.metrics[self.group(row)]["ks_threshold_strict"] = row["threshold"]
        for row in evaluation.confusion().where("threshold = 0.5").collect():
            self.metrics[self.group(row)] |= {cell: row[cell] for cell in ("tp", "fp", "fn", "tn")}
        in_two = counts.evaluate(levels=[[]], calibration_bins=2)
        for bins, named in ((evaluation.calibration(), "rows_of_bins"), (in_two.calibration(), "rows_of_2_bins")):
            for row in bins.where("level = 'total'").orderBy("case", "model", "bin").collect():
                values = self.metrics[self.group(row)]
                values.setdefault(named, []).append(row["rows"])
                if named == "rows_of_bins":
                    values.setdefault("bins", []).append(row["bin"])
        curves = evaluation.curves().where("level = 'total'").orderBy("case", "model", "point").collect()
        for row in curves:
            values = self.metrics[self.group(row)]
            for column in ("threshold", "tpr", "fpr", "precision"):
                values.setdefault(column, []).append(row[column])
            values.setdefault("counts", []).append((row["tp"], row["fp"], row["fn"], row["tn"]))
            if row["point"] > 0:
                values.setdefault("pr_points", []).append([row["threshold"], row["precision"], row["tpr"]])

    @staticmethod
    def group(row: Any) -> tuple[Any, ...]:
        segment = "" if row["level"] == "total" else f"[{'null' if row['segment'] is None else row['segment']}]"
        return row["case"], row["model"], segment

    def of(self, case: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """The values of a case, of each of its models: metrics of segments as `roc_auc[A]`."""
        groups = {key: values for key, values in self.metrics.items() if key[0] == name(case)}
        for model in {model for _, model, _ in groups}:
            yield {
                f"{metric}{segment}": value
                for (_, of_model, segment), values in groups.items()
                for metric, value in values.items()
                if of_model == model
            }


@pytest.fixture(scope="module")
def unweighted(spark: SparkSession) -> Results:
    return Results(spark, weighted=False)


@pytest.fixture(scope="module")
def weighted(spark: SparkSession) -> Results:
    return Results(spark, weighted=True)


def approximately(value: Any) -> Any:
    """A value of `expected` for comparison; NULL stays NULL."""
    if isinstance(value, list):
        return [approximately(element) for element in value]
    return None if value is None else pytest.approx(number(value), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("case", CASES, ids=name)
def test_case(case: dict[str, Any], unweighted: Results, weighted: Results) -> None:
    found = list((weighted if "weight" in case else unweighted).of(case))
    assert len(found) == len(set(case.get("model", [None])))
    for values in found:
        assert {key: values[key] for key in case["expected"]} == {
            key: approximately(value) for key, value in case["expected"].items()
        }


def test_labels_of_the_cases_are_read_as_they_stand(spark: SparkSession) -> None:
    frames, expected = [], {}
    for case in CASES:
        labels, positive = [label for label, _ in case["rows"]], case.get("positive", 1)
        if set(labels) <= {0, 1}:
            continue
        kind = "string" if isinstance(labels[0], str) else "int"
        clean = predictions.clean(
            spark.createDataFrame(
                [(label, 0.5, place) for place, label in enumerate(labels)], f"y {kind}, p double, i int"
            ),
            by=("i",),
            segments=(),
            label="y",
            score="p",
            scores=None,
            weight=None,
            positive=positive,
            reserved=(),
        )
        frames.append(clean.frame.select(F.lit(name(case)).alias("case"), F.col("b0").alias("place"), "positive"))
        expected |= {(name(case), place): label == positive for place, label in enumerate(labels)}
    found = reduce(DataFrame.unionByName, frames).collect()
    assert {(row["case"], row["place"]): row["positive"] for row in found} == expected


@pytest.mark.parametrize("kind", [FOUR, NEIGHBOURS], ids=["all rankings of four rows", "neighbouring doubles"])
def test_against_pairs_and_blocks_counted_by_hand(kind: dict[str, Any], unweighted: Results) -> None:
    for made, rows in kind.items():
        values = unweighted.metrics[made, None, ""]
        positives, negatives = ([score for label, score in rows if label == wanted] for wanted in (1, 0))
        blocks = [(0, 0), *((sum(p >= t for p in positives), sum(n >= t for n in negatives)) for t in falling(rows))]
        P, N = len(positives), len(negatives)
        assert values["counts"] == [(tp, fp, P - tp, N - fp) for tp, fp in blocks], made
        assert values["threshold"] == [math.inf, *falling(rows)], made
        auc = ap = ks = None
        if P and N:
            halves = sum(2 * (p > n) + (p == n) for p in positives for n in negatives)
            auc = float(Fraction(halves, 2 * P * N))
            ks = max(abs(Fraction(tp, P) - Fraction(fp, N)) for tp, fp in blocks)
        if P:
            ap = sum(Fraction(tp - before, P) * Fraction(tp, tp + fp) for (before, _), (tp, fp) in pairwise(blocks))
        assert values["roc_auc"] == auc, made
        assert values["average_precision"] == approximately(ap and float(ap)), made
        assert values["ks"] == approximately(ks if ks is None else float(ks)), made


def falling(rows: list[tuple[int, float]]) -> list[float]:
    """The distinct scores from the highest down."""
    return sorted({float(score) for _, score in rows}, reverse=True)


def reported(value: Any) -> Any:
    """A value of a report in our words: undefined is NULL."""
    if isinstance(value, list):
        return [reported(element) for element in value]
    return None if value in (None, "NaN") else number(value)


def test_cases_agree_with_the_reports_they_are_from(shared_cases: Path) -> None:
    reports = {report["id"]: report for report in json.loads((shared_cases / "cases.json").read_text())}
    covered = {case["id"] for case in CASES}
    assert set(reports) - covered == set(ELSEWHERE) | set(WAITING)
    assert covered.isdisjoint(set(ELSEWHERE) | set(WAITING))
    for id in covered:
        report, compared = reports[id], set()
        for case in (case for case in CASES if case["id"] == id):
            if "variant" not in case:
                assert case["rows"] == [[row["label"], row.get("score", row.get("pred"))] for row in report["rows"]]
                for key, default in (("n", 1), ("weight", None), ("segment", None), ("model", None)):
                    values = [row.get(key, default) for row in report["rows"]]
                    assert case.get(key, [default] * len(values)) == values
            for ours, value in case["expected"].items():
                theirs = case.get("as", {}).get(ours, None if "variant" in case else ours)
                if theirs in report["expected"] and theirs not in case.get("unused", {}):
                    wanted = reported(report["expected"][theirs])
                    assert reported(value) in (wanted if theirs.endswith("_options") else [wanted])
                    compared.add(theirs)
            compared |= set(case.get("unused", {}))
        assert compared == set(report["expected"]), id


def test_cases_told_elsewhere_are_told_there() -> None:
    modules = [ast.parse(path.read_text()) for path in HERE.glob("test_*.py")]
    functions = {node.name for module in modules for node in ast.walk(module) if isinstance(node, ast.FunctionDef)}
    assert set(ELSEWHERE.values()) <= functions
