"""Hundreds of random cases in one table, evaluated a few ways, with the rows of each group for brute force."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Callable, Mapping
from decimal import Decimal
from fractions import Fraction
from functools import cache
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from brute_force import INFINITY, Asked, Cells, Exact, Point, Row
from pyspark.sql import SparkSession
from results import TABLES, tables
from sizes import cases

import sparkmetrics as sm

CASES = cases(whole=300, first=60)
LEVELS = {"total": (), "sex": ("sex",), "zone": ("zone",), "sex,zone": ("sex", "zone")}
SEXES = {"f": "f", "NULL": '"NULL"', None: "NULL"}
ZONES = {1: "1", -2: "-2", None: "NULL"}
"""Values of the segment columns, and as what `segment_auc` shows them."""

THRESHOLDS = (-INFINITY, 0.0, 0.5, INFINITY)
CURVE_POINTS = 5
CURVE_METRICS = ("f1", "fbeta_0.5", "mcc", "lr_plus", "empirical_risk")
REGIONS = (("fpr", 0.0, 0.25), ("fpr", 0.125, 0.5), ("tpr", 0.5, 1.0))

UNIT = Fraction(1, 2**90)
"""Every weight of the cases is a whole number of these, so that brute force adds and multiplies integers."""

SCORES: tuple[Callable[[random.Random, int], float], ...] = (
    lambda r, label: r.choice((0.0, 0.25, 0.5, 0.75, 1.0)),  # ties
    lambda r, label: r.random(),
    lambda r, label: r.choice((-0.0, 0.0, 5e-324, 0.5)),
    lambda r, label: r.choice((-INFINITY, INFINITY, 0.25, 0.5, 2.0)),
    lambda r, label: r.choice((-1e308, -1.5, 0.0, 0.5, 1.0, 1.5, 1e308)),
    lambda r, label: r.choice((math.nextafter(0.5, 0.0), 0.5, math.nextafter(0.5, 1.0))),
    lambda r, label: r.choice((0.0, 2.0**-53, 2.0**-52, 1.0 - 2.0**-52, 1.0 - 2.0**-53, 1.0)),  # where log loss clips
    lambda r, label: (label + r.random()) / 2.0,  # perfect
    lambda r, label: (1 - label + r.random()) / 2.0,  # reversed
    lambda r, label: round((label + 2.0 * r.random()) / 3.0, 1),  # good
    lambda r, label: 0.5,
)

WEIGHTS: tuple[Callable[[random.Random], float], ...] = (
    lambda r: r.random(),
    lambda r: r.choice((0.0, 0.1, 0.3)),
    lambda r: 10.0 ** r.randint(-9, 9),
    lambda r: float(r.randint(0, 3)),
    lambda r: 0.0,
)


class Example(NamedTuple):
    """A row of the prediction table."""

    case: int
    sex: str | None
    zone: int | None
    label: int
    score: float
    weight: float


Group = tuple[int, str, str | None, int | None]
"""Case, level, and the values of the level's segments."""


def examples() -> list[Example]:
    """All cases: each its own kind of score and weight, some of one row, of one class, without segments."""
    r = random.Random(20_261_129)
    rows = []
    for case in range(CASES):
        score, weight = SCORES[case % len(SCORES)], WEIGHTS[case % len(WEIGHTS)]
        size = 1 if case % 13 == 0 else r.randint(2, 24)
        labels = (1,) if case % 17 == 0 else (0,) if case % 17 == 1 else (0, 1)
        sexes, zones = ((None,), (None,)) if case % 19 == 0 else (tuple(SEXES), tuple(ZONES))
        for _ in range(size):
            label = r.choice(labels)
            rows.append(Example(case, r.choice(sexes), r.choice(zones), label, score(r, label), weight(r)))
    return rows


def grouped(table: pa.Table) -> dict[Group, list[dict[str, Any]]]:
    """The rows of a table, by the group they are about."""
    rows = defaultdict(list)
    for row in table.to_pylist():
        rows[row["case"], row["level"], row["sex"], row["zone"]].append(row)
    return rows


class Run(NamedTuple):
    """The cases evaluated in one way, and the rows that belong to each group."""

    weighted: bool
    strict: bool
    curve_points: int | None
    tables: Mapping[str, pa.Table]
    groups: Mapping[Group, tuple[Row, ...]]
    asked: Asked

    def by_group(self, table: str) -> dict[Group, list[dict[str, Any]]]:
        """The rows of a table, by the group they are about."""
        return grouped(self.tables[table])

    def of_metrics(self, *names: str) -> dict[Group, list[dict[str, Any]]]:
        """The rows of some metrics, by group."""
        metrics = self.tables["metrics"]
        return grouped(metrics.filter(pc.is_in(metrics["metric"], pa.array(names))))

    def is_count(self, value: float | Decimal | Fraction, expected: Exact, power: int = 1) -> bool:
        """Whether a weight, or a product of `power` weights, is the expected one: exactly, or to 1e-12 relative."""
        if not self.weighted:
            return value == expected
        return abs(Fraction(value) / UNIT**power - expected) <= expected * Fraction(1e-12)

    def is_point(self, shown: Mapping[str, Any], point: Point) -> bool:
        """Whether a row of `curves` has the threshold and the counts of a point."""
        counts = point.cells._asdict()
        return shown["threshold"] == point.threshold and all(self.is_count(shown[n], c) for n, c in counts.items())


RUNS = {
    "unweighted": (False, False, None, TABLES),
    "unweighted, rule >": (False, True, CURVE_POINTS, ("metrics", "confusion", "curves")),
    "weighted, rule >": (True, True, None, TABLES),
}

Asking = tuple[Asked, dict[str, Any]]


def asking(weighted: bool) -> Asking:
    """What is asked of brute force, and the same as arguments of an evaluation."""
    # Whole weights of a top, and costs whose sums are exact: equal values are equal doubles. No sum of random weights
    # is the weight of a top but for rounding.
    top_k = (2.75, 7.25, 0.25) if weighted else (1.0, 4.0, 0.5)
    asked = Asked(
        beta=(0.5, 1.0, 2.0),
        costs=Cells(0, 1, 5, 0),
        payoffs=Cells(2, -1, 0, Fraction(1, 4)),
        accuracy_weights=Cells(2, 1, 3, 1),
        regions=REGIONS,
        top_k=top_k,
        buckets=4,
        bins=5,
        confidence=0.9,
        row=int(1 / UNIT) if weighted else 1,
    )
    arguments = {
        "beta": asked.beta,
        **{
            name: {cell: float(value) for cell, value in getattr(asked, name)._asdict().items()}
            for name in ("costs", "payoffs", "accuracy_weights")
        },
        "partial_auc": REGIONS,
        "top_k": top_k,
        "buckets": asked.buckets,
        "calibration_bins": asked.bins,
        "confidence": asked.confidence,
        "curve_metrics": CURVE_METRICS,
    }
    return asked, arguments


@cache
def evaluated(spark: SparkSession, name: str) -> Run:
    """The cases evaluated in one way of `RUNS`."""
    weighted, strict, curve_points, wanted = RUNS[name]
    asked, arguments = asking(weighted)
    rows = examples()
    groups = defaultdict(list)
    for example in rows:
        row = Row(example.label, example.score, int(Fraction(example.weight) / UNIT) if weighted else 1)
        for level, used in LEVELS.items():
            sex, zone = (getattr(example, segment) if segment in used else None for segment in ("sex", "zone"))
            groups[example.case, level, sex, zone].append(row)
    counts = sm.score_counts(
        spark.createDataFrame(rows, "case int, sex string, zone int, label int, score double, weight double"),
        by=["case"],
        segments=["sex", "zone"],
        label="label",
        score="score",
        weight="weight" if weighted else None,
        # Small cases stay in one range, larger ones get three.
        sizing=sm.Sizing(ranges=3, sample_every=1, placed_rows=12, small_task_scores=1),
    )
    evaluation = counts.evaluate(
        thresholds=THRESHOLDS, threshold_rule=">" if strict else ">=", curve_points=curve_points, **arguments
    )
    found = tables(evaluation, wanted)
    if "calibration" in wanted:
        found["calibration of equal weight"] = evaluation.calibration("quantile").toArrow()
    return Run(weighted, strict, curve_points, found, {group: tuple(rows) for group, rows in groups.items()}, asked)


def close(value: float, expected: Exact | float) -> bool:
    """To 1e-12, relative above 1."""
    return abs(value - float(expected)) <= 1e-12 * max(abs(float(expected)), 1.0)
