"""Hundreds of small groups against brute force."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

import brute_force
import pyarrow as pa
import pytest
from brute_force import INFINITY, Exact, Measure, Point, Row
from pyspark.sql import SparkSession
from results import TABLES, tables

import sparkmetrics as sm
from sparkmetrics.metrics import SCORE, THRESHOLD

CASES = 300
LEVELS = {"total": (), "sex": ("sex",), "zone": ("zone",), "sex,zone": ("sex", "zone")}
SEXES = {"f": "f", "NULL": '"NULL"', None: "NULL"}
ZONES = {1: "1", -2: "-2", None: "NULL"}
"""Values of the segment columns, and as what `segment_auc` shows them."""

THRESHOLDS = (-INFINITY, 0.0, 0.5, INFINITY)
CURVE_POINTS = 5

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


class Run(NamedTuple):
    """The cases evaluated in one way, and the rows that belong to each group."""

    weighted: bool
    strict: bool
    curve_points: int | None
    tables: Mapping[str, pa.Table]
    groups: Mapping[Group, list[Row]]

    def by_group(self, table: str) -> dict[Group, list[dict[str, Any]]]:
        """The rows of a table, by the group they are about."""
        rows = defaultdict(list)
        for row in self.tables[table].to_pylist():
            rows[row["case"], row["level"], row["sex"], row["zone"]].append(row)
        return rows

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


@cache
def evaluated(spark: SparkSession, name: str) -> Run:
    weighted, strict, curve_points, wanted = RUNS[name]
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
        thresholds=THRESHOLDS, threshold_rule=">" if strict else ">=", curve_points=curve_points
    )
    return Run(weighted, strict, curve_points, tables(evaluation, wanted), groups)


@pytest.fixture(params=RUNS)
def run(request: pytest.FixtureRequest, spark: SparkSession) -> Run:
    return evaluated(spark, request.param)


@pytest.fixture(params=[name for name, (*_, wanted) in RUNS.items() if "segment_auc" in wanted])
def run_with_pairs(request: pytest.FixtureRequest, spark: SparkSession) -> Run:
    return evaluated(spark, request.param)


def close(value: float, expected: Exact | float) -> bool:
    """To 1e-12, relative above 1 (which only a lift can be, and a log loss)."""
    return abs(value - float(expected)) <= 1e-12 * max(float(expected), 1.0)


def test_brute_force_knows_every_metric() -> None:
    cells, rows = brute_force.Cells(1, 1, 1, 1), [Row(1, 0.75), Row(0, 0.25)]
    assert brute_force.threshold_measures(cells).keys() == THRESHOLD.keys()
    assert brute_force.score_measures(rows).keys() == SCORE.keys()


def test_metrics(run: Run) -> None:
    found = run.by_group("metrics")
    assert found.keys() == run.groups.keys()
    for group, rows in run.groups.items():
        expected: dict[tuple[str, float | None], Measure] = {
            (name, None): measure for name, measure in brute_force.score_measures(rows).items()
        }
        for threshold in THRESHOLDS:
            cells = brute_force.cells(rows, threshold, run.strict)
            expected |= {(name, threshold): m for name, m in brute_force.threshold_measures(cells).items()}
        metrics = {(m["metric"], m["threshold"] if m["metric"] in THRESHOLD else None): m for m in found[group]}
        assert len(metrics) == len(found[group]), group
        assert metrics.keys() == expected.keys(), group
        P, N = brute_force.total(rows, 1), brute_force.total(rows, 0)
        ((size, positives, negatives),) = {(m["rows"], m["positives"], m["negatives"]) for m in found[group]}
        assert size == len(rows), group
        assert run.is_count(positives, P), group
        assert run.is_count(negatives, N), group
        for key, metric in metrics.items():
            value, reason = expected[key]
            assert metric["reason"] == reason, (group, key)
            assert (metric["value"] is None) == (reason is not None), (group, key)
            assert value is None or close(metric["value"], value), (group, key)
        auc = metrics["roc_auc", None]["value"]
        if auc is not None and not run.weighted:
            assert round(2 * P * N * auc) == brute_force.u2(rows), group
            assert auc == float(expected["roc_auc", None].value), group


def test_ks_is_reached_at_its_threshold(run: Run) -> None:
    for group, metrics in run.by_group("metrics").items():
        rows = run.groups[group]
        (ks,) = (m for m in metrics if m["metric"] == "ks")
        assert (ks["threshold"] is None) == (ks["value"] is None), group
        if ks["value"] is None:
            continue
        best = brute_force.ks_point(rows, run.strict)
        if not run.weighted:
            assert ks["threshold"] == best.threshold, group
        # With weights two gaps that differ by rounding alone count as one.
        curve = brute_force.curve(rows, run.strict)
        reached = max(brute_force.gap(cells) for threshold, cells in curve if threshold == ks["threshold"])
        assert close(reached, brute_force.gap(best.cells)), group


def test_confusion(run: Run) -> None:
    found = run.by_group("confusion")
    assert found.keys() == run.groups.keys()
    for group, rows in run.groups.items():
        assert sorted(shown["threshold"] for shown in found[group]) == sorted(THRESHOLDS), group
        for shown in found[group]:
            cells = brute_force.cells(rows, shown["threshold"], run.strict)
            for name, count in cells._asdict().items():
                assert run.is_count(shown[name], count), (group, shown, cells)


def test_curves(run: Run) -> None:
    found = run.by_group("curves")
    assert found.keys() == {group for group, rows in run.groups.items() if brute_force.distinct_scores(rows)}
    for group, shown in found.items():
        shown.sort(key=lambda point: point["point"])
        assert [point["point"] for point in shown] == list(range(len(shown))), group
        exact = brute_force.curve(run.groups[group], run.strict)
        kept: list[int] = []
        for point in shown:
            candidates = range(kept[-1] + 1 if kept else 0, len(exact))
            kept += [i for i in candidates if run.is_point(point, exact[i])][:1]
        assert len(kept) == len(shown), (group, shown, exact)
        for point, position in zip(shown, kept, strict=True):
            for name, rate in brute_force.rates(exact[position].cells).items():
                assert (point[name] is None) == (rate is None), (group, point)
                assert rate is None or close(point[name], rate), (group, point)
        if run.curve_points is None:
            assert len(kept) == len(exact), group
        else:
            assert [exact[position] for position in kept] == brute_force.thinned(exact, run.curve_points), group
            assert_good_choice(exact, kept, run.curve_points)


def assert_good_choice(exact: Sequence[Point], kept: Sequence[int], curve_points: int) -> None:
    """Both ends, the KS point, no exact ROC point further than 1 / curve_points from the polyline, and few points."""
    end = exact[-1].cells
    assert {0, 1, len(exact) - 1} <= set(kept)
    assert len(kept) <= 2 * curve_points + 4 + 16 * math.log2(end.tp + end.fp)
    if end.tp and end.fp:
        assert max(brute_force.gap(exact[i].cells) for i in kept) == max(brute_force.gap(c) for _, c in exact)
        curve = [(Fraction(c.fp, end.fp), Fraction(c.tp, end.tp)) for _, c in exact]
        for left, right in pairwise(kept):
            for point in curve[left + 1 : right]:
                assert distance(point, curve[left], curve[right]) <= Fraction(1, curve_points)


def distance(point: tuple[Exact, Exact], left: tuple[Exact, Exact], right: tuple[Exact, Exact]) -> Exact | float:
    """From a point of a rising curve to a line between two others, along the nearer axis."""
    (x, y), (x0, y0), (x1, y1) = point, left, right
    across = abs(x - (x0 + (x1 - x0) * (y - y0) / (y1 - y0))) if y1 > y0 else INFINITY
    along = abs(y - (y0 + (y1 - y0) * (x - x0) / (x1 - x0))) if x1 > x0 else INFINITY
    return min(across, along)


def segment_of(group: Group) -> str:
    """As `segment_auc` names it."""
    _, level, sex, zone = group
    shown = {"sex": SEXES[sex], "zone": ZONES[zone]}
    return ", ".join(f"{name}={shown[name]}" for name in LEVELS[level])


def test_segment_auc(run_with_pairs: Run) -> None:
    run = run_with_pairs
    segments: dict[tuple[int, str], dict[str, list[Row]]] = defaultdict(dict)
    for group, rows in run.groups.items():
        if group[1] != "total":
            segments[group[:2]][segment_of(group)] = rows
    found = defaultdict(dict)
    for pair in run.tables["segment_auc"].to_pylist():
        names = pair["positive_segment"], pair["negative_segment"]
        assert names not in found[pair["case"], pair["level"]]
        found[pair["case"], pair["level"]][names] = pair
    assert found.keys() == segments.keys()
    for level, members in segments.items():
        assert found[level].keys() == {(positive, negative) for positive in members for negative in members}
        everyone = run.groups[level[0], "total", None, None]
        P, N = brute_force.total(everyone, 1), brute_force.total(everyone, 0)
        for (positive, negative), pair in found[level].items():
            p, n = brute_force.total(members[positive], 1), brute_force.total(members[negative], 0)
            wins2 = brute_force.wins2(members[positive], members[negative])
            assert run.is_count(pair["positives"], p), (level, pair)
            assert run.is_count(pair["negatives"], n), (level, pair)
            assert run.is_count(pair["pairs"], p * n, power=2), (level, pair)
            assert run.is_count(pair["wins2"], wins2, power=2), (level, pair)
            shares = {
                "auc": brute_force.ratio(wins2, 2 * p * n),
                "pair_share": brute_force.ratio(p * n, P * N),
                "contribution": brute_force.ratio(wins2, 2 * P * N),
            }
            for name, share in shares.items():
                assert (pair[name] is None) == (share is None), (level, pair, name)
                assert share is None or close(pair[name], share), (level, pair, name)
        wins2 = sum(Fraction(pair["wins2"]) for pair in found[level].values())
        assert run.is_count(wins2, brute_force.u2(everyone), power=2), level


def test_contributions_add_up_to_the_auc(run_with_pairs: Run) -> None:
    aucs = {
        group[0]: next(m["value"] for m in metrics if m["metric"] == "roc_auc")
        for group, metrics in run_with_pairs.by_group("metrics").items()
        if group[1] == "total"
    }
    contributions = defaultdict(list)
    for pair in run_with_pairs.tables["segment_auc"].to_pylist():
        contributions[pair["case"], pair["level"]].append(pair["contribution"])
    for (case, level), parts in contributions.items():
        if aucs[case] is None:
            assert set(parts) == {None}, (case, level)
        else:
            assert close(math.fsum(parts), aucs[case]), (case, level)
