"""Ranges: Spark's hash, which the library computes itself, and plans that cut a sample into even loads."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

import sparkmetrics as sm
from sparkmetrics import ranges


def test_murmur3_is_sparks_hash(spark: SparkSession) -> None:
    numbers = [0, 1, -1, 42, 2**31 - 1, -(2**31), *np.random.default_rng(2).integers(-(2**31), 2**31, 200).tolist()]
    slots = spark.createDataFrame([(number,) for number in numbers], "slot int")
    hashes = dict(slots.select("slot", F.hash("slot")).collect())
    assert ranges.murmur3(np.array(numbers)).tolist() == [hashes[number] for number in numbers]


@pytest.mark.parametrize("tasks", [1, 3, 50])
def test_slots_land_in_their_tasks(spark: SparkSession, tasks: int) -> None:
    slots = ranges.task_slots(tasks)
    rows = spark.createDataFrame([(int(slot), task) for task, slot in enumerate(slots)], "slot int, task int")
    landed = rows.repartition(tasks, "slot").select("task", F.spark_partition_id()).collect()
    assert sorted(tuple(row) for row in landed) == [(task, task) for task in range(tasks)]


def test_a_sample_of_a_very_large_table_is_thinner() -> None:
    sizing = ranges.Sizing(sample_every=100)
    assert sizing.sampling(10**8) == sizing
    assert sizing.sampling(10**8 + 1).sample_every == 101
    assert ranges.Sizing().sampling(10**11).sample_every == 100_000


def sample(key: int | None, scores: Sequence[float], rows: int = 1) -> Row:
    """What planning brings back of a tuple: each score stands for a thousand."""
    points = [Row(score=score, rows=rows, group=1) for score in scores]
    return Row(tuple=key, used=1000 * len(scores), samples=points, groups=1)


def test_a_plan_cuts_into_even_loads() -> None:
    random = np.random.default_rng(3)
    scores = {1: random.random(4000), 2: random.normal(size=1000), 3: np.full(1, 0.5)}
    sizing = sm.Sizing(sample_every=1000, task_scores=500_000)
    plan = ranges.plan([sample(key, points) for key, points in scores.items()], sizing, shuffle_partitions=2)
    assert plan.tasks == 11
    assert not plan.one_range
    loads: dict[int, int] = defaultdict(int)
    for key, points in scores.items():
        assert all(low < high for low, high in pairwise(plan.cuts[key]))
        assert len(plan.slots[key]) == len(plan.cuts[key]) + 1
        for number in np.searchsorted(plan.cuts[key], points, side="right"):
            loads[plan.slots[key][number]] += 1000
    assert set(loads) == set(ranges.task_slots(11))
    assert max(loads.values()) <= 1.5 * sum(loads.values()) / 11


def test_a_plan_of_little_is_one_range() -> None:
    plan = ranges.plan([sample(1, np.arange(50.0)), sample(None, [])], sm.Sizing(), shuffle_partitions=200)
    assert (plan.tasks, plan.one_range, plan.offset_rows) == (1, True, 0)


def test_a_plan_never_cuts_a_score_in_two() -> None:
    plan = ranges.plan([sample(1, [0.5] * 1000 + [0.7])], sm.Sizing(ranges=8), shuffle_partitions=200)
    assert set(plan.cuts[1]) <= {0.5, 0.7}
