"""Gains and calibration of hundreds of small groups against brute force."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import pytest
from brute_force import distinct_scores
from brute_probability import Bin, bins_of_equal_weight, bins_of_equal_width, places_of_equal_weight, probabilities
from brute_ranking import gains
from pyspark.sql import SparkSession
from random_cases import RUNS, Run, close, evaluated


@pytest.fixture(params=[name for name, (*_, wanted) in RUNS.items() if "gains" in wanted])
def run(request: pytest.FixtureRequest, spark: SparkSession) -> Run:
    return evaluated(spark, request.param)


def test_gains(run: Run) -> None:
    found = run.by_group("gains")
    assert found.keys() == {group for group, rows in run.groups.items() if distinct_scores(rows)}
    for group, shown in found.items():
        shown.sort(key=lambda bucket: bucket["bucket"])
        expected = gains(run.groups[group], run.asked.buckets)
        assert [bucket["bucket"] for bucket in shown] == list(range(1, len(expected) + 1)), group
        P, W = (sum(row.weight for row in run.groups[group] if row.label >= least) for least in (1, 0))
        # The edge of a bucket is as exact as the weight of the group, and so is the weight of the positives up to it.
        weights = dict.fromkeys(("rows", "positives", "cumulative_positives"), Fraction(W, run.asked.row))
        for bucket, values in zip(shown, expected, strict=True):
            for name, value in values.items():
                assert (bucket[name] is None) == (value is None), (group, bucket["bucket"], name)
                if value is not None:
                    scale = 1 if name == "positive_rate" else weights.get(name, Fraction(W, P or 1))
                    wanted = value / run.asked.row if name in weights else value
                    assert abs(Fraction(bucket[name]) - wanted) <= Fraction(1e-12) * scale, (group, bucket, name)
        assert not P or close(shown[-1]["cumulative_gain"], 1), group


def assert_bins(run: Run, table: str, expected: dict[object, list[tuple[Bin, float, float]]]) -> None:
    found = run.by_group(table)
    assert expected.keys() <= found.keys() | {group for group, bins in expected.items() if not bins}
    for group, bins in expected.items():
        shown = sorted(found.get(group, []), key=lambda b: b["bin"])
        assert [b["bin"] for b in shown] == [b.place for b, *_ in bins], group
        for b, (wanted, lower, upper) in zip(shown, bins, strict=True):
            assert (b["bin_lower"], b["bin_upper"]) == (lower, upper), group
            assert run.is_count(b["rows"], wanted.weight), group
            assert run.is_count(b["positives"], wanted.positives), group
            assert close(b["mean_score"], wanted.mean_score), group
            assert close(b["positive_rate"], wanted.positive_rate), group


def test_calibration(run: Run) -> None:
    size = run.asked.bins
    expected = {}
    for group, rows in run.groups.items():
        bins = bins_of_equal_width(rows, size) if probabilities(rows) else []
        expected[group] = [(b, b.place / size, (b.place + 1) / size) for b in bins]
    assert_bins(run, "calibration", expected)


def test_calibration_of_equal_weight(run: Run) -> None:
    expected = {}
    for group, rows in run.groups.items():
        places = [place for _, place in places_of_equal_weight(rows, run.asked.bins)]
        if run.weighted and any(abs(place - round(place)) < 1e-9 for place in places):
            continue  # rounding decides where the block falls
        bins = bins_of_equal_weight(rows, run.asked.bins) if probabilities(rows) else []
        expected[group] = [(b, *ends(b)) for b in bins]
    assert len(expected) > 500
    assert_bins(run, "calibration of equal weight", expected)


def ends(b: Bin) -> Sequence[float]:
    """The least and the largest score of a bin."""
    scores = [row.score for row in b.rows]
    return min(scores), max(scores)
