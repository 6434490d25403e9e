"""Where doubles could lose digits: products of counts past 2**53, long sums of weights, light groups by heavy ones."""

from __future__ import annotations

import math
from collections import defaultdict
from fractions import Fraction
from itertools import accumulate
from pathlib import Path

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from results import tables

import sparkmetrics as sm

BLOCK = 94_906_267
"""The square of it is odd and above 2**53, so no double holds it."""

STATE = """block string, range int, segment string, rows double, positives double, negatives double,
    score array<double>, pos array<double>, neg array<double>"""


def saved(frame: DataFrame, path: Path, sizing: sm.Sizing | None = None) -> sm.ScoreCounts:
    """Unweighted score counts that another program wrote."""
    note = {"sparkmetrics": {"format": 1, "weighted": False}}
    columns = (F.col(n).alias(n, metadata=note) if n == "score" else F.col(n) for n in frame.columns)
    frame.select(*columns).write.parquet(str(path))
    return sm.read_score_counts(frame.sparkSession, str(path), sizing)


def cuts_of(counts: sm.ScoreCounts) -> int:
    """The number of cut points of the only `by` tuple."""
    (cuts,) = counts.merged.plan.cuts.values()
    return len(cuts)


def test_wins_of_a_huge_block_of_ties_are_an_integer(spark: SparkSession, tmp_path: Path) -> None:
    tied = [0.5], [float(BLOCK)], [float(BLOCK)]
    led = [0.5, 0.75], [float(BLOCK), 1.0], [float(BLOCK), 0.0]
    rows = [
        ("tied", 0, "all", 2.0 * BLOCK, float(BLOCK), float(BLOCK), *tied),
        ("led", 0, "all", 2.0 * BLOCK + 1.0, BLOCK + 1.0, float(BLOCK), *led),
    ]
    counts = saved(spark.createDataFrame(rows, STATE), tmp_path / "counts")
    assert not counts.weighted
    found = tables(counts.evaluate(metrics=["roc_auc"]), ("metrics", "segment_auc"))
    wins2 = {row["block"]: int(row["wins2"]) for row in found["segment_auc"].to_pylist()}
    assert wins2 == {"tied": BLOCK**2, "led": BLOCK**2 + 2 * BLOCK}
    assert float(BLOCK**2) != BLOCK**2
    auc = {m["block"]: m["value"] for m in found["metrics"].to_pylist() if m["metric"] == "roc_auc"}
    assert auc["tied"] == 0.5
    assert auc["led"] == pytest.approx(Fraction(BLOCK + 2, 2 * BLOCK + 2), abs=1e-15)


def test_wins_of_whole_weights_are_rounded_once(spark: SparkSession) -> None:
    rows = [(1, 0.5, float(BLOCK)), (0, 0.5, float(BLOCK))]
    frame = spark.createDataFrame(rows, "label int, score double, weight double")
    counts = sm.score_counts(
        frame.withColumn("segment", F.lit("all")),
        segments=["segment"],
        label="label",
        score="score",
        weight="weight",
    )
    (pair,) = tables(counts.evaluate(levels=[["segment"]]), ("segment_auc",))["segment_auc"].to_pylist()
    assert (pair["wins2"], pair["auc"]) == (float(BLOCK**2), 0.5)


@pytest.mark.usefixtures("compiled")
def test_wins_over_ranges_far_below_are_an_integer(spark: SparkSession, tmp_path: Path) -> None:
    above, distinct, length = 50_000_000_000, 1_000_000, 16_000
    index = F.sequence(F.col("id") * length, F.least((F.col("id") + 1) * length, F.lit(distinct)) - 1)
    positive = F.transform(index, lambda i: F.when(i % 3 == 0, F.lit(1.0)).otherwise(0.0))
    cells = spark.range(math.ceil(distinct / length)).select(
        F.lit("one").alias("block"),
        F.lit(0).alias("range"),
        F.when(F.col("id") % 2 == 0, F.lit("even")).otherwise(F.lit("odd")).alias("segment"),
        F.size(index).cast("double").alias("rows"),
        F.aggregate(positive, F.lit(0.0), lambda total, p: total + p).alias("positives"),
        F.aggregate(positive, F.lit(0.0), lambda total, p: total + 1.0 - p).alias("negatives"),
        F.transform(index, lambda i: i / distinct).alias("score"),
        positive.alias("pos"),
        F.transform(positive, lambda p: 1.0 - p).alias("neg"),
    )
    top = [("one", 7, "even", float(above), float(above), 0.0, [2.0], [float(above)], [0.0])]
    cut = sm.Sizing(ranges=8, small_task_scores=1)
    counts = saved(cells.unionByName(spark.createDataFrame(top, STATE)), tmp_path / "counts", cut)

    p = (np.arange(distinct) % 3 == 0).astype(np.int64)
    p_above = above + p.sum() - np.cumsum(p)
    u2 = int(((1 - p) * (2 * p_above + p)).sum())
    assert u2 > 2**53
    P, N = above + int(p.sum()), int((1 - p).sum())
    found = tables(counts.evaluate(metrics=["roc_auc"]), ("metrics", "segment_auc"))
    assert sum(int(pair["wins2"]) for pair in found["segment_auc"].to_pylist()) == u2
    (auc,) = {m["value"] for m in found["metrics"].to_pylist() if m["metric"] == "roc_auc" and m["level"] == "total"}
    assert auc == pytest.approx(Fraction(u2, 2 * P * N), abs=1e-15)
    assert cuts_of(counts) == 7


ROWS = 4_000_000


@pytest.mark.usefixtures("compiled")
@pytest.mark.slow
def test_millions_of_equal_weights_do_not_drift(spark: SparkSession, tmp_path: Path) -> None:
    identifier = F.col("id")
    score = (identifier * 2_654_435_761 % 2**32) / 2.0**32
    label = (identifier * 48_271 % 1_000_003) / 1_000_003.0 < 0.2 + 0.6 * score
    frame = spark.range(ROWS).select(score.alias("score"), label.alias("label"), F.lit(0.1).alias("weight"))
    counts = sm.score_counts(frame, label="label", score="score", weight="weight", sizing=sm.Sizing(ranges=64))
    assert cuts_of(counts) == 63
    found = {64: score_metrics(counts)}
    counts.write(str(tmp_path / "counts"))
    counts.unpersist()
    for sizing in (sm.Sizing(ranges=3), sm.Sizing(ranges=1, task_scores=ROWS)):
        counts = sm.read_score_counts(spark, str(tmp_path / "counts"), sizing)
        assert cuts_of(counts) == sizing.ranges - 1
        found[sizing.ranges] = score_metrics(counts)
        counts.unpersist()
    for name, value in truth_of_equal_weights().items():
        for ranges, metrics in found.items():
            assert metrics[name] == pytest.approx(value, abs=1e-12), (name, ranges)


def score_metrics(counts: sm.ScoreCounts) -> dict[str, float]:
    """The metrics of the only group. The counts stay in place."""
    metrics = counts.evaluate(thresholds=()).metrics()
    return {row["metric"]: row["value"] for row in metrics.collect()}


def truth_of_equal_weights() -> dict[str, float]:
    """The measures of the same rows without weights, from integers."""
    identifier = np.arange(ROWS)
    score = (identifier * 2_654_435_761 % 2**32) / 2.0**32
    assert len(np.unique(score)) == ROWS
    label = (identifier * 48_271 % 1_000_003) / 1_000_003.0 < 0.2 + 0.6 * score
    positive = label[np.argsort(-score)].astype(np.int64)
    tp, fp = np.cumsum(positive), np.cumsum(1 - positive)
    P, N = int(tp[-1]), int(fp[-1])
    return {
        "roc_auc": int(((1 - positive) * tp).sum()) / (P * N),
        "average_precision": math.fsum(positive * (tp / (tp + fp))) / P,
        "ks": int(np.abs(tp * N - fp * P).max()) / (P * N),
    }


def test_light_groups_behind_heavy_ones_keep_their_digits(spark: SparkSession) -> None:
    random = np.random.default_rng(20_261_129)
    size = 1500
    magnitudes = {"a": 9.0, "b": -9.0, "c": 0.0, "d": random.uniform(-9.0, 9.0, size)}
    rows = [
        (group, segment, int(label), float(score), float(weight))
        for group, magnitude in magnitudes.items()
        for segment in ("x", "y")
        for label, score, weight in zip(
            random.integers(0, 2, size),
            random.random(size),
            10.0**magnitude * random.random(size),
            strict=True,
        )
    ]
    frame = spark.createDataFrame(rows, "group string, segment string, label int, score double, weight double")
    counts = sm.score_counts(
        frame,
        by=["group"],
        segments=["segment"],
        label="label",
        score="score",
        weight="weight",
        sizing=sm.Sizing(ranges=7, sample_every=1, placed_rows=1),
    )
    groups = defaultdict(list)
    for group, segment, label, score, weight in rows:
        for key in ((group, "total", None), (group, "segment", segment)):
            groups[key].append((score, label, Fraction(weight)))
    curves = defaultdict(list)
    for point in tables(counts.evaluate(levels=[[], ["segment"]], curve_points=None), ("curves",))[
        "curves"
    ].to_pylist():
        curves[point["group"], point["level"], point["segment"]].append(point)
    assert curves.keys() == groups.keys()
    for key, members in groups.items():
        members.sort(reverse=True)
        expected = [[], [], [], []]
        for label, (above, below) in ((1, (0, 2)), (0, (1, 3))):
            weights = [weight if row_label == label else Fraction(0) for _, row_label, weight in members]
            expected[above] = list(accumulate(weights))
            expected[below] = [expected[above][-1] - sum_above for sum_above in expected[above]]
        points = sorted(curves[key], key=lambda point: point["point"])[1:]
        assert [point["threshold"] for point in points] == [score for score, *_ in members]
        for name, sums in zip(("tp", "fp", "fn", "tn"), expected, strict=True):
            for point, exact in zip(points, sums, strict=True):
                assert abs(Fraction(point[name]) - exact) <= Fraction(1e-12) * exact, (key, name, point)
        assert points[-1]["fn"] == points[-1]["tn"] == 0.0
