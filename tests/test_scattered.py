"""Groups that ranges would scatter: when they are evaluated whole, and that large ones are still cut."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from plans import exchanges, plan_of
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType
from test_direct import COLUMNS, rows

import sparkmetrics as sm
from sparkmetrics import ranges
from sparkmetrics.columns import Keys
from sparkmetrics.parquet_files import ParquetPath
from sparkmetrics.score_counts import CellCounts, ScoreCounts
from sparkmetrics.states import read_states

THOUSAND = 1000
"""Scores that a sampled one stands for."""

SCATTERED = sm.Sizing(ranges=64, sample_every=1, placed_rows=215, small_task_scores=1, scattered=1)


def planned(groups: Sequence[int], **sizing: int) -> ranges.Plan:
    """The plan of one tuple of distinct scores, of which these groups were sampled."""
    draw = np.random.default_rng(1)
    points = [Row(score=draw.random(), rows=1, group=group) for group in groups]
    row = Row(tuple=1, used=THOUSAND * len(groups), samples=points, groups=len(set(groups)))
    return ranges.plan([row], sm.Sizing(sample_every=THOUSAND, **sizing), shuffle_partitions=8)


def drawn(groups: int, size: int) -> list[int]:
    return np.random.default_rng(2).integers(0, groups, size).tolist()


@pytest.mark.parametrize(
    ("groups", "scattered"),
    [
        pytest.param(list(range(10_000)), True, id="no two scores of one group"),
        pytest.param(drawn(1_000_000, 10_000), True, id="10 scores a group"),
        pytest.param(drawn(20_000, 10_000), True, id="500 scores a group: 16 in each of 32 ranges"),
        pytest.param(drawn(10_000, 10_000), False, id="1,000 scores a group"),
        pytest.param(drawn(200, 10_000), False, id="50,000 scores a group"),
        pytest.param(list(range(400)), False, id="a table of one range"),
    ],
)
def test_small_groups_are_evaluated_whole(groups: list[int], scattered: bool) -> None:
    plan = planned(groups)
    assert (plan.cells is not None) == scattered
    if plan.cells is not None:
        assert plan.cells.one_range
        assert plan.cells.tasks == plan.tasks
        assert plan.cells.cells is None
    assert planned(groups, scattered=10**9).cells is None


def test_a_large_group_among_small_ones_keeps_its_ranges() -> None:
    plan = planned([*range(1, 9_000), *[0] * 1_000])
    assert plan.cells is not None
    assert list(plan.cells.cuts) == [0]
    assert len(plan.cells.cuts[0]) >= 2
    slots = plan.cells.slots[0]
    assert len(slots) == len(plan.cells.cuts[0]) + 1
    assert set(slots) <= set(ranges.task_slots(plan.tasks))


def test_places_grow_in_number_with_tasks_and_not_with_groups() -> None:
    """Workers are sent them all."""
    plan = planned([*range(1, 1_000), *range(1, 1_000), *[0] * 200], placed_rows=1_000, task_scores=62_500, scattered=1)
    assert plan.cells is not None
    assert plan.cells.tasks == plan.tasks == 36
    assert list(plan.cells.cuts) == [0]


@pytest.mark.parametrize(("groups", "size"), [(10, 10_000), (5_000, 10_000), (1_000_000, 50_000)])
def test_the_likely_number_of_groups(groups: int, size: int) -> None:
    seen = len(set(drawn(groups, size)))
    row = Row(used=THOUSAND * size, samples=[None] * size, groups=seen)
    assert ranges._likely_groups(row) == pytest.approx(groups, rel=0.1)


def cells_of(counts: ScoreCounts) -> CellCounts:
    assert counts.cells is not None
    return counts.cells


def check_cut(counts: ScoreCounts) -> int:
    """Every tuple that was placed, and no other, lies in the ranges that were planned for it: hashes agree."""
    expected = sorted(len(cuts) + 1 for cuts in counts.merged.plan.cuts.values() if len(cuts))
    split = counts.merged.frame.where("split").groupBy(*counts.keys.by_columns)
    assert sorted(row["ranges"] for row in split.agg(F.countDistinct("range").alias("ranges")).collect()) == expected
    return len(expected)


def test_large_groups_are_cut_however_rows_are_read(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(rows(3_000), tmp_path / "a.parquet", row_group_size=170)
    frame = spark.read.parquet(str(tmp_path))
    for reader in ("arrow", "spark"):
        arguments: dict[str, Any] = {**COLUMNS, "files": ParquetPath(frame, None), "reader": reader}
        found, again = (read_states(frame, **arguments, sizing=SCATTERED).scores for _ in range(2))
        assert found is not None
        assert again is not None
        assert 0 < check_cut(cells_of(found)) < 10
        assert check_cut(cells_of(found).pooled(())) > 0  # made of cells, by the plan of whole tuples
        assert check_cut(again) > 0
        assert check_cut(cells_of(again)) == check_cut(cells_of(found))  # made of what is merged already
        found.unpersist()
        again.unpersist()


def test_cells_of_every_day_are_drawn_independently(spark: SparkSession) -> None:
    """A cell of 10 scores is drawn on one day in ten: of 30 days nearly all cells are seen."""
    days = spark.range(30 * 300).select(
        F.format_string("s%d", F.col("id") % 300).alias("s0"),
        F.lit(0).alias("range"),
        F.transform(F.sequence(F.lit(0), F.lit(9)), lambda i: F.col("id") + i / 10.0).alias("score"),
    )
    keys = Keys((), ("segment",), (StringType(),))
    (row,) = ranges.sampled_counts(days, keys, sm.Sizing(sample_every=100)).collect()
    assert row["used"] == 90_000
    assert 250 < row["groups"] <= 300
    assert len(row["samples"]) == pytest.approx(900, rel=0.2)


def many_groups(spark: SparkSession) -> DataFrame:
    number = F.col("id")
    return spark.range(3_000).select(
        F.lit("m").alias("model"),
        F.when(number % 3 == 0, F.lit(-1)).otherwise(number % 500).alias("segment"),
        F.lit(1).alias("zone"),
        (F.xxhash64(number) % 2 == 0).alias("label"),
        (F.pmod(F.xxhash64(number, F.lit(1)), F.lit(100_003)) / 100_003.0).alias("score"),
    )


def test_a_saved_state_has_small_groups_whole(spark: SparkSession, tmp_path: Path) -> None:
    keys: dict[str, Any] = {"by": ["model"], "segments": ["segment", "zone"], "label": "label", "score": "score"}
    counts = sm.score_counts(many_groups(spark), **keys, sizing=SCATTERED)
    counts.write(str(tmp_path / "counts"))
    saved = sm.read_score_counts(spark, str(tmp_path / "counts"), SCATTERED)
    sizes = saved.frame.groupBy("segment").agg(F.count("*").alias("stretches"), F.sum("rows").alias("rows"))
    found = {row["segment"]: (row["stretches"], row["rows"]) for row in sizes.collect()}
    assert found.pop(-1) == (len(next(iter(cells_of(counts).merged.plan.cuts.values()))) + 1, 1_000.0)
    assert {stretches for stretches, _ in found.values()} == {1}
    assert sum(number for _, number in found.values()) == 2_000.0
    # Twice by slot and once by group, and of the tiny offsets of either layout.
    ev = saved.evaluate(levels=[[], ["zone"], ["segment", "zone"]])
    plan = plan_of(ev.metrics())
    assert exchanges(plan) <= 12
    for forbidden in ("SinglePartition", "CartesianProduct", "BroadcastNestedLoopJoin"):
        assert forbidden not in plan
    ev.unpersist()
    assert cells_of(saved).merged.frame.storageLevel.useMemory is False


@pytest.mark.parametrize("first", [pytest.param("metrics", marks=pytest.mark.slow), "segment_auc"])
def test_what_is_persisted_is_not_read_again(spark: SparkSession, tmp_path: Path, first: str) -> None:
    """Tables of either layout, and the state itself, once the files are gone."""
    many_groups(spark).write.parquet(str(tmp_path / "rows"))
    counts = sm.score_counts(
        spark.read.parquet(str(tmp_path / "rows")),
        by=["model"],
        segments=["segment"],
        label="label",
        score="score",
        sizing=SCATTERED,
    )
    ev = counts.evaluate(metrics=["roc_auc"], max_pair_segments=2)
    found = {first: getattr(ev, first)().count()}
    shutil.rmtree(tmp_path / "rows")
    for table in {"metrics", "segment_auc"} - {first}:
        found[table] = getattr(ev, table)().count()
    assert found["metrics"] == 1 + 501
    assert found["segment_auc"] == 9
    assert counts.frame.agg(F.sum("rows")).collect()[0][0] == 3_000
    ev.unpersist()
