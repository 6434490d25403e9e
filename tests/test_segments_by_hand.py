"""Subset versus total of a few rows: a toy by hand, ties by rounding, infinite scores, tiny weights, names."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from settings import session_settings

import sparkmetrics as sm

Rows = list[dict[str, Any]]

TOY = [("A", 0, 0.09), ("A", 1, 0.5), ("A", 0, 0.7), ("B", 0, 0.095), ("B", 1, 0.41), ("B", 0, 0.42)]
# In doubles 3 times 0.95, over 3, is not 0.95, and a third of 3 tenths is not that of 9.
ALMOST_TIED = [(name, int(y % 3 == 0), 0.95) for name, size in (("a", 3), ("b", 9), ("c", 6)) for y in range(size)]
UNWEIGHTED: dict[str, Sequence[tuple[str, int, float]]] = {
    "toy": TOY,
    "almost tied": [*ALMOST_TIED, ("d", 0, 0.95)],
}

HUNDRED = [(f"s{i}", y, i / 100) for i in range(100) for y in (0, 1) if y or i % 2]
WEIGHTED: dict[str, tuple[float, Sequence[tuple[str, int, float]]]] = {
    "almost tied": (0.1, ALMOST_TIED),
    "both infinities": (1.0, [("a", 1, math.inf), ("a", 0, -math.inf), ("b", 1, 0.5), ("b", 0, 0.5)]),
    "one infinity": (1.0, [("a", 1, math.inf), ("b", 1, 0.5), ("b", 0, 0.5)]),
    "tiny weights": (1e-200, [("a", 1, 0.9), ("a", 0, 0.1), ("b", 1, 0.8), ("b", 0, 0.7)]),
    "one is far": (1.0, [*HUNDRED, ("far", 1, 1e9)]),
}
"""Each with the weight of its rows."""


class Found:
    """Tables of all cases, evaluated at once."""

    def __init__(self, spark: SparkSession, rows: Sequence[tuple[Any, ...]], weight: str | None, *names: str) -> None:
        frame = spark.createDataFrame(rows, "case string, seg string, y int, p double, w double")
        ev = sm.evaluate(frame, by=["case"], segments=["seg"], label="y", score="p", weight=weight, levels="each")
        self.tables: dict[str, Rows] = {name: getattr(ev, name)().toArrow().to_pylist() for name in names}

    def of(self, table: str, case: str) -> Rows:
        """The rows of a case."""
        return [row for row in self.tables[table] if row["case"] == case]

    def gap_of(self, case: str) -> dict[str, Any]:
        (gap,) = self.of("segment_gap", case)
        return gap


@pytest.fixture(scope="module")
def unweighted(spark: SparkSession) -> Found:
    rows = [(case, *row, 1.0) for case, of_case in UNWEIGHTED.items() for row in of_case]
    return Found(spark, rows, None, "segment_auc", "segment_gap", "segment_summary")


@pytest.fixture(scope="module")
def weighted(spark: SparkSession) -> Found:
    rows = [(case, *row, weight) for case, (weight, of_case) in WEIGHTED.items() for row in of_case]
    return Found(spark, rows, "w", "segment_gap", "segment_summary")


def test_toy(unweighted: Found) -> None:
    pairs = {(r["positive_segment"][-1], r["negative_segment"][-1]): r for r in unweighted.of("segment_auc", "toy")}
    parts = {key: (row["pairs"], row["auc"]) for key, row in pairs.items()}
    assert parts == {("A", "A"): (2, 0.5), ("B", "B"): (2, 0.5), ("A", "B"): (2, 1.0), ("B", "A"): (2, 0.5)}
    gap = unweighted.gap_of("toy")
    assert gap["total_auc"] == 0.625 == (2 * 0.5 + 2 * 0.5 + 4 * 0.75) / 8
    assert (gap["within_auc"], gap["within_share"]) == (0.5, 0.5)
    assert (gap["between_auc"], gap["between_share"]) == (0.75, 0.5)
    assert gap["total_position"] == "above"
    assert [row["gap_contribution"] for row in unweighted.of("segment_summary", "toy")] == [0.0625, 0.0625]


def test_values_that_differ_by_rounding_alone_are_tied(unweighted: Found, weighted: Found) -> None:
    gap = weighted.gap_of("almost tied")
    assert (gap["segment_score_auc"], gap["segment_prevalence_auc"]) == (0.5, 0.5)
    assert unweighted.gap_of("almost tied")["segment_score_auc"] == 0.5


def test_scores_without_a_mean(weighted: Found) -> None:
    gap = weighted.gap_of("both infinities")
    assert (gap["segment_score_auc"], gap["segment_prevalence_auc"]) == (None, 0.5)
    assert (gap["reason"], gap["total_auc"]) == ("scores without a mean", (2 + 0.5 + 1) / 4)


def test_one_infinite_score_is_a_mean_above_all_others(weighted: Found) -> None:
    assert weighted.gap_of("one infinity")["segment_score_auc"] == (1 + 0.5) / 2


def test_weights_too_small_to_multiply(weighted: Found) -> None:
    gap = weighted.gap_of("tiny weights")
    assert (gap["total_auc"], gap["within_auc"], gap["reason"]) == (None, None, "weights too small to multiply")
    summary = weighted.of("segment_summary", "tiny weights")
    assert len(summary) == 2
    for row in summary:
        assert (row["prevalence"], row["subgroup_auc"], row["reason"]) == (0.5, None, "weights too small to multiply")


def test_one_far_segment_does_not_spoil_the_ranking_of_the_others(weighted: Found) -> None:
    expected = [(p, y) for _, y, p in HUNDRED]
    pairs = [(p > n) + (p == n) / 2 for p, y in expected for n, z in expected if y and not z]
    pairs += [1.0] * sum(not y for _, y in expected)
    found = weighted.gap_of("one is far")["segment_score_auc"]
    assert found == pytest.approx(sum(pairs) / len(pairs), rel=0, abs=1e-12)


def test_names_tell_segments_apart(spark: SparkSession) -> None:
    """Bytes that are no text, and the hour that is there twice when summer ends."""
    rows = [(b"\xff", "2026-10-25 00:30:00", 1, 0.5), (b"\xfe", "2026-10-25 01:30:00", 0, 0.5)]
    frame = spark.createDataFrame(rows, "raw binary, at string, y int, p double")
    frame = frame.withColumn("at", F.to_timestamp(F.concat("at", F.lit(" UTC")), "yyyy-MM-dd HH:mm:ss VV"))
    with session_settings(spark, {"spark.sql.session.timeZone": "Europe/Berlin"}):
        ev = sm.evaluate(frame, segments=["raw", "at"], label="y", score="p", levels="each")
        names = {row["positive_segment"] for row in ev.segment_auc().collect()}
    assert names == {
        *("raw=0xff", "raw=0xfe", "at=2026-10-25 02:30:00", "at=2026-10-25 02:30:00+01:00"),
    }
