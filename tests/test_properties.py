"""Hundreds of small groups against brute force."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

import brute_force
import pytest
from brute_force import INFINITY, PROPORTIONS, Asked, Cells, Exact, Measure, Point, Row
from brute_intervals import delong_error, logit_interval, whole, wilson_interval, z_of
from brute_probability import probability_measures
from brute_ranking import best_point, ranking_measures, thresholds_to_choose
from pyspark.sql import SparkSession
from random_cases import CURVE_METRICS, LEVELS, RUNS, SEXES, THRESHOLDS, ZONES, Group, Run, close, evaluated

AT_THRESHOLDS = brute_force.threshold_measures(Cells(1, 1, 1, 1), Asked(beta=(0.5, 1.0, 2.0))).keys()


@pytest.fixture(params=RUNS)
def run(request: pytest.FixtureRequest, spark: SparkSession) -> Run:
    return evaluated(spark, request.param)


@pytest.fixture(params=[name for name, (*_, wanted) in RUNS.items() if "segment_auc" in wanted])
def run_with_pairs(request: pytest.FixtureRequest, spark: SparkSession) -> Run:
    return evaluated(spark, request.param)


def expected_of(run: Run, rows: tuple[Row, ...]) -> dict[tuple[str, float | None], Measure]:
    """The measures of a group by name and threshold."""
    measures = ranking_measures(rows, run.asked) | probability_measures(rows, run.asked)
    expected: dict[tuple[str, float | None], Measure] = {(name, None): found for name, found in measures.items()}
    for threshold in THRESHOLDS:
        cells = brute_force.cells(rows, threshold, run.strict)
        expected |= {(name, threshold): m for name, m in brute_force.threshold_measures(cells, run.asked).items()}
    return expected


def metrics_of(metrics: Sequence[dict[str, Any]]) -> dict[tuple[str, float | None], dict[str, Any]]:
    """Rows of `metrics` of a group by name and, for a metric at thresholds, threshold."""
    found = {(m["metric"], m["threshold"] if m["metric"] in AT_THRESHOLDS else None): m for m in metrics}
    assert len(found) == len(metrics)
    return found


def test_metrics(run: Run) -> None:
    found = run.by_group("metrics")
    assert found.keys() == run.groups.keys()
    for group, rows in run.groups.items():
        expected, metrics = expected_of(run, rows), metrics_of(found[group])
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
            # Gains and losses cancel, so that a profit is as exact as the weights that it adds up.
            scale = max(1, (P + N) / run.asked.row) if "profit" in key[0] else 1
            assert value is None or close(metric["value"] / scale, value / scale), (group, key)
        auc = metrics["roc_auc", None]["value"]
        if auc is not None and not run.weighted:
            assert round(2 * P * N * auc) == brute_force.u2(rows), group
            assert auc == float(expected["roc_auc", None].value), group


def test_parts_of_the_brier_score_add_up(run: Run) -> None:
    whole = ("brier", "brier_uncertainty", "brier_within_bin")
    shares = (f"brier_{part}{kind}" for part in ("reliability", "resolution") for kind in ("", "_binned"))
    found = run.of_metrics(*whole, *shares)
    assert found.keys() == run.groups.keys()
    for metrics in found.values():
        value = {m["metric"]: m["value"] for m in metrics}
        if value["brier"] is not None:
            parts = value["brier_reliability"] - value["brier_resolution"] + value["brier_uncertainty"]
            binned = value["brier_reliability_binned"] - value["brier_resolution_binned"] + value["brier_uncertainty"]
            assert close(parts, value["brier"])
            assert close(binned + value["brier_within_bin"], value["brier"])


def test_intervals(run: Run) -> None:
    for group, metrics in run.by_group("metrics").items():
        rows = run.groups[group]
        of_auc = auc_interval(rows, run.asked)
        of_gini = of_auc and (2 * of_auc[0] - 1, 2 * of_auc[1] - 1)
        expected: dict[tuple[str, float | None], Bounds | None] = {("roc_auc", None): of_auc}
        expected |= {(name, None): of_gini for name in ("gini", "accuracy_ratio")}
        for threshold in THRESHOLDS:
            cells = brute_force.cells(rows, threshold, run.strict)
            measures = brute_force.threshold_measures(cells, run.asked)
            for name, size in PROPORTIONS.items():
                expected[name, threshold] = rate_interval(rows, measures[name].value, size(cells), run.asked)
        for key, metric in metrics_of(metrics).items():
            found, bounds = (metric["lower"], metric["upper"]), expected.get(key)
            if bounds is None:
                assert found == (None, None), (group, key)
            else:
                assert found[0] <= metric["value"] <= found[1], (group, key)
                assert all(map(close, found, bounds)), (group, key, found, bounds)


Bounds = tuple[float, float]


def auc_interval(rows: tuple[Row, ...], asked: Asked) -> Bounds | None:
    """DeLong's, of frequencies with two rows of either class."""
    P, N = brute_force.total(rows, 1), brute_force.total(rows, 0)
    if not whole(rows, asked.row) or min(P, N) < 2 * asked.row:
        return None
    auc = Fraction(brute_force.u2(rows), 2 * P * N)
    return logit_interval(float(auc), delong_error(rows, asked.row), z_of(asked.confidence))


def rate_interval(rows: tuple[Row, ...], value: Fraction | None, size: Exact, asked: Asked) -> Bounds | None:
    """Wilson's, of frequencies."""
    if value is None or not whole(rows, asked.row):
        return None
    return wilson_interval(value, Fraction(size, asked.row), z_of(asked.confidence))


@pytest.mark.parametrize("name", ["ks", *thresholds_to_choose(Asked())])
def test_best_values_are_reached_at_their_threshold(run: Run, name: str) -> None:
    values, sign = brute_force.gap, 1
    if name != "ks":
        values, _, sign = thresholds_to_choose(run.asked)[name]
    found = run.of_metrics(name)
    assert found.keys() == run.groups.keys()
    for group, (metric,) in found.items():
        assert (metric["threshold"] is None) == (metric["value"] is None), group
        if metric["value"] is None:
            continue
        points = brute_force.curve(run.groups[group], run.strict)[name == "ks" :]
        best, threshold = best_point(points, values, sign)
        # Two values that differ by rounding alone count as one.
        if not run.weighted and name not in ("best_mcc", "closest_to_top_left"):
            assert metric["threshold"] == threshold, group
        reached = [v for t, c in points if t == metric["threshold"] and (v := values(c)) is not None]
        assert any(close(value, best) for value in reached), group


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
            cells = exact[position].cells
            measures = brute_force.threshold_measures(cells, run.asked)
            for name, value in [*brute_force.rates(cells).items(), *((m, measures[m].value) for m in CURVE_METRICS)]:
                assert (point[name] is None) == (value is None), (group, point, name)
                assert value is None or close(point[name], value), (group, point, name)
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
        group[0]: metric["value"]
        for group, (metric,) in run_with_pairs.of_metrics("roc_auc").items()
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
