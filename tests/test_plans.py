"""What Spark is asked to do: no task or join that grows with a group, even tasks, nothing before it is wanted."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from plans import exchanges, plan_of
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from results import SEGMENT_TABLES, TABLES, tables
from settings import session_settings

import sparkmetrics as sm
from sparkmetrics import ranges

KIND = os.environ.get("SPARKMETRICS_TEST_SESSION", "classic")

ONE_RANGE = sm.Sizing()
RANGES = sm.Sizing(ranges=3, sample_every=1, placed_rows=1, small_task_scores=1)
OFFSETS_AS_ROWS = replace(RANGES, broadcast_offsets=1)


def test_session_is_of_the_kind_asked_for(spark: SparkSession) -> None:
    assert KIND in ("classic", "connect")
    assert ("connect" in type(spark).__module__) == (KIND == "connect")


def small(spark: SparkSession) -> DataFrame:
    rows = [("a", "x", 1, 0.5), ("a", "y", 0, 0.25), ("b", "x", 1, 0.75), ("b", "y", 0, 0.1), ("b", "x", 0, 0.9)]
    return spark.createDataFrame(rows, "model string, segment string, label int, score double")


@pytest.mark.parametrize(
    ("sizing", "budget"),
    [
        pytest.param(ONE_RANGE, 2, id="one range"),  # scores by slot, contributions by group
        pytest.param(RANGES, 6, id="ranges"),  # and of the tiny offsets: by cell, group and range, group, range
        # Instead of the last, all by slot once more.
        pytest.param(OFFSETS_AS_ROWS, 6, id="offsets as rows", marks=pytest.mark.slow),
    ],
)
def test_nothing_goes_through_one_task_or_meets_everything(spark: SparkSession, sizing: sm.Sizing, budget: int) -> None:
    counts = sm.score_counts(small(spark), segments=["segment"], label="label", score="score", sizing=sizing)
    evaluation = counts.evaluate()
    plans = {table: plan_of(getattr(evaluation, table)()) for table in (*TABLES, *SEGMENT_TABLES)}
    plans["curves of every score"] = plan_of(counts.evaluate(curve_points=None).curves())
    for table, plan in plans.items():
        assert "Exchange" in plan, table
        for forbidden in ("SinglePartition", "CartesianProduct", "BroadcastNestedLoopJoin"):
            assert forbidden not in plan, (table, forbidden)
    assert (
        "WindowGroupLimit" in plans["segment_auc"]
    )  # or a task would get all segments of a level, to name the largest
    assert exchanges(plans["metrics"]) == budget
    assert exchanges(plan_of(counts.frame)) == 1


def test_many_small_states_are_read_by_few_tasks(spark: SparkSession) -> None:
    """As many as merge their sum, which is one task here, of two partitions."""
    counts = sm.score_counts(small(spark), segments=["segment"], label="label", score="score")
    total = sum(counts for _ in range(5))
    assert isinstance(total, sm.ScoreCounts)
    plan = plan_of(total.frame)
    assert "Coalesce" in plan
    assert re.search(r"Coalesce\s+.*\n?(.*\n){0,3}?.*Arguments: 2", plan), plan


@pytest.fixture
def actions(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], int]]:
    """Counts what has run: jobs of a classic session (one an action without adaptive execution), else requests."""
    if KIND == "connect":
        requests = []
        request = spark.client._execute_plan_request_with_metadata

        def counted(*args: object, **options: object) -> object:
            requests.append(args)
            return request(*args, **options)

        monkeypatch.setattr(spark.client, "_execute_plan_request_with_metadata", counted)
        yield lambda: len(requests)
        return
    context = spark.sparkContext
    context.setJobGroup("actions", "jobs that are counted")
    with session_settings(spark, {"spark.sql.adaptive.enabled": "false"}):
        yield lambda: len(context.statusTracker().getJobIdsForGroup("actions"))
    context.setLocalProperty("spark.jobGroup.id", None)


def test_evaluate_is_one_action_and_tables_are_lazy(spark: SparkSession, actions: Callable[[], int]) -> None:
    before = actions()
    evaluation = sm.evaluate(small(spark), by=["model"], segments=["segment"], label="label", score="score")
    assert actions() - before == 1
    found = [getattr(evaluation, table)() for table in (*TABLES, *SEGMENT_TABLES)]
    assert actions() - before == 1
    found[0].collect()
    assert actions() - before == 2


def class_aucs(label: np.ndarray, probability: np.ndarray) -> tuple[np.ndarray, float]:
    """The AUC of each class against the rest, and the mean of those of all ordered pairs of classes."""
    size = probability.shape[1]
    count = np.bincount(label, minlength=size)
    against = np.zeros((size, size))
    for k in range(size):
        mine = np.sort(probability[label == k, k])
        above = len(mine) - np.searchsorted(mine, probability[:, k], side="right")
        tied = len(mine) - above - np.searchsorted(mine, probability[:, k], side="left")
        wins = np.bincount(label, above + tied / 2, size)
        against[k] = np.where(np.arange(size) == k, 0.0, wins)
    rest = against.sum(axis=1) / (count * (len(label) - count))
    pairs = against / np.outer(count, count)
    return rest, float(pairs.sum() / (size * (size - 1)))


@pytest.mark.slow
def test_a_hundred_classes_are_one_plan(spark: SparkSession, actions: Callable[[], int]) -> None:
    """No action and no exchange for a class: a hundred of them take as many as three."""
    taken, shuffles = [], []
    for rows, classes in ((300, 3), (20_000, 100)):
        rng = np.random.default_rng(classes)
        label, probability = rng.integers(0, classes, rows), rng.dirichlet(np.ones(classes), rows)
        frame = spark.createDataFrame(pa.table({"y": label, "p": list(probability)}))
        before = actions()
        evaluation = sm.evaluate(frame, label="y", probabilities="p", classes=range(classes))
        metrics = evaluation.metrics()
        plan = plan_of(metrics)
        found = {(row["metric"], row["average"], row["class"]): row["value"] for row in metrics.collect()}
        taken.append(actions() - before)
        shuffles.append(exchanges(plan))
        for forbidden in ("SinglePartition", "CartesianProduct", "BroadcastNestedLoopJoin"):
            assert forbidden not in plan
        rest, pairs = class_aucs(label, probability)
        assert [found["roc_auc", None, str(k)] for k in range(classes)] == pytest.approx(rest, rel=0, abs=1e-12)
        assert found["roc_auc", "macro", None] == pytest.approx(rest.mean(), rel=0, abs=1e-12)
        assert found["roc_auc_ovo", "macro", None] == pytest.approx(pairs, rel=0, abs=1e-12)
        assert found["accuracy", None, None] == np.mean(np.argmax(probability, axis=1) == label)
    assert taken[0] == taken[1]
    assert shuffles == [10, 14]  # as everywhere, offsets of several ranges take four more


MILLIONS = 5_000_000


def id_score(identifier: Column | np.ndarray) -> Column | np.ndarray:
    """Distinct scores of consecutive numbers, alike in Spark and NumPy."""
    return (identifier * 2_654_435_761 % 2**32) / 2.0**32


def id_label(identifier: Column | np.ndarray, score: Column | np.ndarray) -> Column | np.ndarray:
    return (identifier * 48_271 % 1_000_003) / 1_000_003.0 < 0.2 + 0.6 * score


def auc(score: np.ndarray, positive: np.ndarray) -> float:
    """From integers below 2**53."""
    _, rank = np.unique(score, return_inverse=True)
    p, n = np.bincount(rank, positive), np.bincount(rank, ~positive)
    above = p.sum() - np.cumsum(p)
    return float((n * (2 * above + p)).sum() / (2 * p.sum() * n.sum()))


def planned_loads(plan: ranges.Plan, distinct: np.ndarray) -> list[int]:
    """The scores that each task gets, by the cut points and slots of the only `by` tuple."""
    (cuts,), (slots,) = plan.cuts.values(), plan.slots.values()
    slot = slots[np.searchsorted(cuts, distinct, side="right")]
    return np.bincount(ranges.murmur3(slot) % plan.tasks, minlength=plan.tasks).tolist()


@pytest.mark.usefixtures("compiled")
@pytest.mark.slow
@pytest.mark.parametrize("half_tied", [False, True], ids=["distinct scores", "half of them equal"])
def test_one_huge_group_makes_even_tasks(spark: SparkSession, half_tied: bool) -> None:
    identifier, number = F.col("id"), np.arange(MILLIONS)
    score, scores = id_score(identifier), id_score(number)
    if half_tied:
        score, scores = F.when(identifier % 2 == 0, 0.5).otherwise(score), np.where(number % 2 == 0, 0.5, scores)
    frame = spark.range(MILLIONS).select(id_label(identifier, score).alias("label"), score.alias("score"))
    distinct = np.unique(scores)

    default = sm.score_counts(frame, label="label", score="score")
    loads = planned_loads(default.merged.plan, distinct)
    assert len(loads) > 1
    assert max(loads) <= 2 * np.mean(loads)

    sizing = sm.Sizing(task_scores=len(distinct) // 8)
    counts = sm.score_counts(frame, label="label", score="score", sizing=sizing)
    task = counts.merged.frame.select(F.spark_partition_id().alias("task"), (F.length("score") / 8).alias("scores"))
    measured = dict(task.groupBy("task").agg(F.sum("scores")).collect())
    assert len(measured) >= 8
    assert max(measured.values()) <= 2 * np.mean(list(measured.values()))
    assert [measured[i] for i in range(len(measured))] == planned_loads(counts.merged.plan, distinct)
    metrics = tables(counts.evaluate(), ("metrics",))["metrics"].to_pylist()
    (found,) = (row["value"] for row in metrics if row["metric"] == "roc_auc")
    assert found == auc(scores, id_label(number, scores))
