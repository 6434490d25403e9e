"""The same rows give the same numbers, whatever their order, partitions, ranges, offsets' transport or saved parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from asked import ALL, ASKED
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from results import COUNTS, assert_close, assert_same_bits, tables
from settings import session_settings

import sparkmetrics as sm
from sparkmetrics.metrics.list_parts import MOST_COLUMNS
from sparkmetrics.offsets import with_offsets

THRESHOLDS = (0.0, 0.3, 0.5)
OF_EVERY_KIND = ("recall", "roc_auc", "average_precision", "ks", "brier", "ece", "best_f1", "precision_at_5")

WHOLE = sm.Sizing()
THREE = sm.Sizing(ranges=3, sample_every=1, placed_rows=1, small_task_scores=1)
MANY = sm.Sizing(ranges=64, sample_every=1, placed_rows=1, task_scores=500, chunk_rows=300)
OFFSETS_AS_ROWS = replace(MANY, broadcast_offsets=1)
SCATTERED = replace(MANY, ranges=20, placed_rows=12, scattered=1)

HOSTILE = {
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes": "1k",
    "spark.sql.adaptive.skewJoin.skewedPartitionFactor": "1",
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "1k",
}
"""Joins that are not asked to broadcast shuffle, and adaptive execution takes apart what they shuffle: with these a
shuffled join of the counts with their offsets splits ranges over tasks, even of few rows."""

PLAIN = {"spark.sql.adaptive.enabled": "false", "spark.sql.autoBroadcastJoinThreshold": "-1"}
"""Without adaptive execution, and without joins that broadcast unasked."""


def predictions() -> pd.DataFrame:
    """Models with scores of many kinds, over two segment columns with nulls."""
    random = np.random.default_rng(20_261_129)
    sizes = {"good": 900, "ties": 600, "any": 500, "rare": 700, "constant": 90, "positives": 40, "one": 1}
    model = np.repeat(list(sizes), list(sizes.values()))
    size = len(model)
    label = (random.random(size) < np.where(model == "rare", 0.02, 0.4)) | (model == "positives")
    score = random.random(size) * 0.7 + label * 0.3
    any_score = np.where(random.random(size) < 0.1, np.inf, 3.0 * random.normal(size=size))
    score = np.select(
        [model == "ties", model == "any", model == "constant"],
        [np.round(score, 1), any_score * random.choice([-1.0, 1.0], size), 0.5],
        score,
    )
    weight = np.where((random.random(size) < 0.1) | (model == "one"), 0.0, random.lognormal(0.0, 4.0, size))
    return pd.DataFrame(
        {
            "model": model,
            "day": random.choice([1, 2, 3, 4, None], size),
            "sex": random.choice(["f", "m", None], size, p=[0.6, 0.3, 0.1]),
            "label": label,
            "score": score,
            "weight": weight,
            "part": random.integers(0, 3, size),
        }
    )


@cache
def frame(spark: SparkSession) -> DataFrame:
    schema = "model string, day int, sex string, label boolean, score double, weight double, part int"
    return spark.createDataFrame(list(predictions().itertuples(index=False, name=None)), schema)


def counts_of(rows: DataFrame, sizing: sm.Sizing, weighted: bool) -> sm.ScoreCounts:
    weight = "weight" if weighted else None
    return sm.score_counts(
        rows, by=["model"], segments=["day", "sex"], label="label", score="score", weight=weight, sizing=sizing
    )


def ranges_of(counts: sm.ScoreCounts) -> int:
    """The most ranges that a model has."""
    ranges = counts.merged.frame.groupBy(*counts.keys.by_columns).agg(F.countDistinct("range").alias("ranges"))
    return max(row["ranges"] for row in ranges.collect())


def results_of(counts: sm.ScoreCounts) -> Mapping[str, pa.Table]:
    # Thinned curves choose points, exact ones number them.
    return tables(evaluated(counts))


def evaluated(counts: sm.ScoreCounts, **chosen: Any) -> sm.Evaluation:
    return counts.evaluate(thresholds=THRESHOLDS, curve_points=None if counts.weighted else 20, **ASKED, **chosen)


@cache
def expected(spark: SparkSession, weighted: bool) -> Mapping[str, pa.Table]:
    """The results of the rows as they are, of one range a model."""
    counts = counts_of(frame(spark), WHOLE, weighted)
    assert ranges_of(counts) == 1
    return results_of(counts)


def assert_same(found: Mapping[str, pa.Table], spark: SparkSession, weighted: bool) -> None:
    """As expected, whichever tables there are: to 1e-12, and without weights bit for bit."""
    mine = {name: expected(spark, weighted)[name] for name in found}
    assert_close(found, mine, relative=COUNTS)
    if not weighted:
        assert_same_bits(found, mine)


def assert_same_of_every_kind(counts: sm.ScoreCounts, spark: SparkSession) -> None:
    """One metric of each kind is as expected: where all of them are looked at beside it."""
    found = tables(evaluated(counts, metrics=list(OF_EVERY_KIND)), ("metrics",))
    every = expected(spark, counts.weighted)["metrics"]
    mine = {"metrics": every.filter(pc.is_in(every["metric"], pa.array(OF_EVERY_KIND))).combine_chunks()}
    assert mine["metrics"].num_rows > len(OF_EVERY_KIND)
    assert_close(found, mine, relative=COUNTS)
    if not counts.weighted:
        assert_same_bits(found, mine)


def test_other_partitions_and_ranges(spark: SparkSession) -> None:
    shuffled = frame(spark).orderBy(F.xxhash64("score", "part")).repartition(7)
    counts = counts_of(shuffled, MANY, weighted=False)
    with session_settings(spark, HOSTILE):
        assert ranges_of(counts) == 64
        found = results_of(counts)
    assert_same(found, spark, weighted=False)
    assert set(found["metrics"].column("metric").to_pylist()) == set(ALL)
    assert_same_of_every_kind(counts, spark)


def test_offsets_travel_as_the_sizing_says(spark: SparkSession) -> None:
    columns = {}
    for sizing in (WHOLE, MANY, OFFSETS_AS_ROWS):
        counts = counts_of(frame(spark), sizing, weighted=False)
        columns[sizing] = set(with_offsets(counts.merged, counts.keys, ((), (0,)), sizing).columns)
    assert not columns[WHOLE] & {"offsets", "score_below"}
    assert columns[MANY] & {"offsets", "score_below"} == {"offsets"}
    assert columns[OFFSETS_AS_ROWS] & {"offsets", "score_below"} == {"score_below"}


@pytest.mark.parametrize(
    "weighted", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["unweighted", "weighted"]
)
def test_saved_parts_add_up(spark: SparkSession, tmp_path: Path, weighted: bool) -> None:
    """Every other table and metric of saved parts is in `test_saved_states.py`."""
    for part, sizing in enumerate((WHOLE, THREE, replace(MANY, ranges=20))):
        rows = frame(spark).where(F.col("part") == part).repartition(1)
        counts_of(rows, sizing, weighted).write(str(tmp_path / str(part)))

    def saved(part: int, sizing: sm.Sizing) -> sm.ScoreCounts:
        return sm.read_score_counts(spark, str(tmp_path / str(part)), sizing)

    total = saved(2, OFFSETS_AS_ROWS) + (saved(0, THREE) + saved(1, THREE))
    assert total.weighted == weighted
    with session_settings(spark, HOSTILE):
        assert ranges_of(total) == 64
        found = tables(evaluated(total), ("curves", "segment_auc"))
        assert_same_of_every_kind(total, spark)
    assert_same(found, spark, weighted)
    reordered = saved(0, THREE) + saved(1, THREE) + saved(2, THREE)
    assert ranges_of(reordered) == 3
    assert_same_of_every_kind(reordered, spark)


@pytest.mark.parametrize(
    ("weighted", "sizing", "settings"),
    [
        pytest.param(False, SCATTERED, HOSTILE, id="unweighted"),
        pytest.param(
            True,
            replace(SCATTERED, broadcast_offsets=1),
            PLAIN,
            id="weighted, offsets as rows",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_groups_that_ranges_would_scatter(
    spark: SparkSession, tmp_path: Path, weighted: bool, sizing: sm.Sizing, settings: Mapping[str, str]
) -> None:
    """The groups of all segments are evaluated whole but for the large ones: of rows, and of saved parts of them."""
    with session_settings(spark, settings):
        counts = counts_of(frame(spark).repartition(3), sizing, weighted)
        assert counts.cells is not None
        assert 0 < len(counts.cells.merged.plan.cuts) < 7 * 15
        found = results_of(counts)
    assert_same(found, spark, weighted)
    for part, laid in enumerate((SCATTERED, THREE, SCATTERED)):
        rows = frame(spark).where(F.col("part") == part)
        counts_of(rows, laid, weighted).write(str(tmp_path / str(part)))
    total = sum(sm.read_score_counts(spark, str(tmp_path / str(part)), sizing) for part in range(3))
    assert isinstance(total, sm.ScoreCounts)
    assert total.cells is not None
    assert_same_of_every_kind(total, spark)


def test_many_thresholds_are_counted_like_few(spark: SparkSession) -> None:
    """Cells at many are carried in lists, those at few each in a column."""
    thresholds = [place / MOST_COLUMNS for place in range(MOST_COLUMNS + 1)]
    ev = counts_of(frame(spark), THREE, weighted=False).evaluate(levels=[[], ["sex"]])
    many, *few = (ev.confusion(chosen) for chosen in (thresholds, thresholds[:4], thresholds[4:]))
    assert sorted(map(str, many.drop("run_id").collect())) == sorted(
        map(str, few[0].union(few[1]).drop("run_id").collect())
    )
    ev.unpersist()
