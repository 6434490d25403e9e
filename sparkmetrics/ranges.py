"""A sample of the scores -> cut points and tasks of equal load. They balance the work and never change a result."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from sparkmetrics.columns import Keys
from sparkmetrics.errors import ConfigError
from sparkmetrics.kernel import Floats, Integers

MOST_SAMPLES = 1_000_000
"""Most sampled scores that the driver takes, about, where it knows how many rows there are."""


@dataclass(frozen=True)
class Sizing:
    """How work is cut into tasks. No value here changes a result.

    Attributes
    ----------
    task_scores : scores (of segments) one merge or evaluate task holds at most, about; 24 bytes each, and a few copies.
    small_task_scores : tables below it are one task; above it tasks grow in number up to `spark.sql.shuffle.partitions`
        before they grow in size.
    ranges_per_task : ranges a task gets on average; more balance better and cost a little more.
    sample_every : one score in this many is sampled for the cut points.
    placed_rows : a `by` tuple with fewer rows is not placed by its load but wherever its hash falls.
    chunk_rows : rows or scores a build task sorts at a time.
    broadcast_offsets : offsets of more groups and ranges than this travel with the scores and not by broadcast.
    scattered : once the groups of all segments together lie in this many pieces (a group in a range), of few scores
        each, they are evaluated whole, by another exchange, and not range by range.
    ranges : cut every placed tuple into this many ranges, for tests and experiments; None lets the load decide.
    """

    task_scores: int = 2_000_000
    small_task_scores: int = 500_000
    ranges_per_task: int = 4
    sample_every: int = 1024
    placed_rows: int = 16_384
    chunk_rows: int = 2_000_000
    broadcast_offsets: int = 1_000_000
    scattered: int = 250_000
    ranges: int | None = None

    def sampling(self, rows: int) -> Sizing:
        """The same, with a thinner sample where the table is so large that it would fill the driver."""
        return replace(self, sample_every=max(self.sample_every, -(-rows // MOST_SAMPLES)))

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not (value is None and name == "ranges") and (not isinstance(value, int) or value < 1):
                raise ConfigError(f"Sizing: {name} must be a whole number of at least 1, found {value!r}.")


@dataclass(frozen=True)
class Plan:
    """Where every score goes.

    Attributes
    ----------
    tasks : the number of merge tasks.
    cuts : for each placed `by` tuple (by its hash): its cut points, increasing; range r holds
        cuts[r - 1] <= score < cuts[r].
    slots : for the same tuples: the slot of each range; Spark's hash of a slot is the task it was given.
    offset_rows : about how many (group, range) pairs will need offsets.
    of_workers : whether its hashes are `hashes.tuple_hashes`, of what workers read, and not Spark's `tuple_hash`.
    cells : where every score goes when each cell (by, segments) is a tuple of its own, with the few large ones placed:
        worth it where most cells are small and ranges would scatter them; else None.
    """

    tasks: int
    cuts: Mapping[int, Floats] = field(default_factory=dict)
    slots: Mapping[int, Integers] = field(default_factory=dict)
    offset_rows: int = 0
    of_workers: bool = False
    cells: Plan | None = None

    @property
    def partitions(self) -> int:
        """Partitions of the exchange by slot: at least 2, since of 1 Spark makes an exchange to a single partition."""
        return max(self.tasks, 2)

    @property
    def one_range(self) -> bool:
        """Whether every tuple has one range, so that nothing lies above or below it."""
        return not any(len(cuts) for cuts in self.cuts.values())

    @property
    def ranges(self) -> int:
        """The ranges of all placed tuples."""
        return sum(len(cuts) + 1 for cuts in self.cuts.values())


def tuple_hash(keys: Keys) -> Column:
    """A 64-bit hash of the `by` columns. Two tuples that share one share cut points, which is harmless."""
    return F.xxhash64(F.lit(0), *keys.by_columns)


def sampled_rows(frame: DataFrame, keys: Keys, sizing: Sizing) -> DataFrame:
    """Adds to clean predictions the columns `sample`, `entry`, `group` that are not null on one score in many.

    A score is chosen by the hash of (segments, score), so that a score that a million rows share counts as one.
    """
    entry = F.xxhash64(F.lit(1), *keys.segment_columns, "score")
    chosen = entry % sizing.sample_every == 0
    return frame.select(
        "*",
        F.when(chosen, F.col("score")).alias("sample"),
        F.when(chosen, entry).alias("entry"),
        F.when(chosen, tuple_hash(keys.apart)).alias("group"),
    )


def sampled_counts(counts: DataFrame, keys: Keys, sizing: Sizing) -> DataFrame:
    """Rows of score counts -> one row per hash of a `by` tuple with what `collect_sample` takes.

    Every `sample_every`-th score of a row is taken, from a start that the row's hash gives.
    """
    every = sizing.sample_every
    size = F.coalesce(F.size("score"), F.lit(0))
    # With the first score, or cells that are there every day would start alike on each, and others never be drawn.
    start = F.pmod(F.xxhash64(F.lit(1), *keys.columns, "range", F.get("score", F.lit(0))), F.lit(every)).cast("int")
    number = F.floor((size + start) / every).cast("int")
    positions = F.when(number > 0, F.sequence(F.lit(1), number)).otherwise(F.array().cast("array<int>"))
    drawn = counts.select(
        tuple_hash(keys).alias("tuple"),
        size.alias("rows"),
        F.transform(positions, lambda i: F.get("score", i * every - start - 1)).alias("drawn"),
        tuple_hash(keys.apart).alias("group"),
    )

    def point(score: Column) -> Column:
        return F.struct(score.alias("score"), F.lit(1).cast("long").alias("rows"), F.col("group"))

    some = F.size("drawn") > 0
    return drawn.groupBy("tuple").agg(
        F.sum("rows").alias("used"),
        F.flatten(F.collect_list(F.when(some, F.transform("drawn", point)))).alias("samples"),
        F.size(F.collect_set(F.when(some, F.col("group")))).alias("groups"),
    )


def collect_sample(tuples: DataFrame, sizing: Sizing, totals: list[Column]) -> list[Row]:
    """Runs the one action of planning.

    Parameters
    ----------
    tuples : one row per hash of a `by` tuple, `tuple`, with `used` (rows or scores), `samples` (array of (score,
        rows, group), the last one the tuple's hash with segments for `by` columns), `groups`.
    totals : further sums to bring back; of the tuples that are not placed they come back added up.

    Returns
    -------
    One row per placed tuple, with its hash as `tuple`, and one for all others, whose `tuple` is null.
    """
    return (
        tuples.withColumn("tuple", F.when(F.col("used") >= sizing.placed_rows, F.col("tuple")))
        .groupBy("tuple")
        .agg(
            F.sum("used").alias("used"),
            F.max(F.when(F.col("tuple").isNotNull(), F.col("samples"))).alias("samples"),
            F.max("groups").alias("groups"),
            *totals,
        )
        .collect()
    )


def plan(sample: list[Row], sizing: Sizing, shuffle_partitions: int, of_workers: bool = False) -> Plan:
    """Cut points and slots from what `collect_sample` brought back.

    Parameters
    ----------
    sample : its rows.
    shuffle_partitions : the session's `spark.sql.shuffle.partitions`, the number of tasks that keeps a cluster busy.
    """
    placed = [row for row in sample if row["tuple"] is not None]
    chunks = -(-sum(row["used"] for row in sample) // sizing.chunk_rows)
    points = {row["tuple"]: _loads(row["samples"], chunks, sizing.sample_every) for row in placed}
    # A tuple's load is what its sample says, and at least one sampled score where chance took none.
    loads = {
        row["tuple"]: max(points[row["tuple"]][1].sum(), float(min(row["used"], sizing.sample_every))) for row in placed
    }
    elsewhere = float(sum(row["used"] for row in sample if row["tuple"] is None))
    found = _balanced(points, loads, elsewhere, sizing, shuffle_partitions)
    split = [row for row in placed if len(found.cuts[row["tuple"]])]
    offset_rows = sum(min(row["used"], _groups(row) * (len(found.cuts[row["tuple"]]) + 1)) for row in split)
    pieces = sum(min(loads[row["tuple"]], _likely_groups(row) * (len(found.cuts[row["tuple"]]) + 1)) for row in split)
    cells = None
    if pieces >= sizing.scattered and FEW_SCORES * pieces > sum(loads[row["tuple"]] for row in split):
        cells = replace(_plan_of_cells(placed, elsewhere, chunks, sizing, shuffle_partitions), of_workers=of_workers)
    return replace(found, offset_rows=offset_rows, of_workers=of_workers, cells=cells)


FEW_SCORES = 16
"""Groups of fewer scores in each of their ranges are cheaper to bring together by an exchange of their own."""


SHARE_OF_TASK = 16
"""A cell below this part of a task is not placed, so that placed ones grow in number with tasks and not with cells."""


def _plan_of_cells(placed: list[Row], elsewhere: float, chunks: int, sizing: Sizing, shuffle_partitions: int) -> Plan:
    """Where scores go when cells are tuples: those with a large sample get places, the rest falls where it may."""
    loads: dict[int, float] = defaultdict(float)
    for row in placed:
        for _, rows, cell in row["samples"] or []:
            loads[cell] += float(min(rows, chunks) * sizing.sample_every)
    total = sum(loads.values()) + elsewhere
    least = max(sizing.placed_rows, total / (_tasks(total, sizing, shuffle_partitions) * SHARE_OF_TASK))
    large = {cell: load for cell, load in loads.items() if load >= least}
    sampled: dict[int, list[Row]] = {cell: [] for cell in large}
    for row in placed if large else ():
        for point in row["samples"] or []:
            if point[-1] in sampled:
                sampled[point[-1]].append(point)
    points = {cell: _loads(mine, chunks, sizing.sample_every) for cell, mine in sampled.items()}
    return _balanced(points, large, total - sum(large.values()), sizing, shuffle_partitions)


def _tasks(total: float, sizing: Sizing, shuffle_partitions: int) -> int:
    """The number of tasks that a load makes."""
    small = min(shuffle_partitions, _ceil(total / sizing.small_task_scores))
    return max(_ceil(total / sizing.task_scores), small, 1)


def _balanced(
    points: Mapping[int, tuple[Floats, Floats]],
    loads: Mapping[int, float],
    elsewhere: float,
    sizing: Sizing,
    shuffle_partitions: int,
) -> Plan:
    """Tuples cut into ranges, and these packed into tasks of equal load.

    Parameters
    ----------
    points : of each tuple that is placed: sampled scores, sorted, and the load each stands for.
    loads : of the same tuples.
    elsewhere : the load of all other tuples.
    """
    total = sum(loads.values()) + elsewhere
    tasks = _tasks(total, sizing, shuffle_partitions)
    target = max(total / (tasks * sizing.ranges_per_task), 1.0) if tasks > 1 else np.inf
    cuts, pieces = {}, []
    for key, (scores, weights) in points.items():
        wanted = sizing.ranges or _ceil(loads[key] / target)
        cuts[key] = _quantiles(scores, weights, wanted)
        inside = np.bincount(np.searchsorted(cuts[key], scores, side="right"), weights, minlength=len(cuts[key]) + 1)
        pieces += [(load, key, number) for number, load in enumerate(inside)]
    slot_of_task = task_slots(tasks)
    slots = {key: np.zeros(len(found) + 1, dtype=np.int64) for key, found in cuts.items()}
    heap = [(elsewhere / tasks, task) for task in range(tasks)]
    for load, key, number in sorted(pieces, reverse=True):
        busy, task = heapq.heappop(heap)
        slots[key][number] = slot_of_task[task]
        heapq.heappush(heap, (busy + load, task))
    return Plan(tasks, cuts, slots)


def shuffle_partitions(frame: DataFrame) -> int:
    """The session's `spark.sql.shuffle.partitions`; 200 where it is not a number (Databricks has "auto")."""
    setting = frame.sparkSession.conf.get("spark.sql.shuffle.partitions") or ""
    return int(setting) if setting.isdigit() else 200


def _ceil(value: float) -> int:
    return int(np.ceil(value)) if np.isfinite(value) else 1


def _loads(points: Iterable[Row] | None, chunks: int, every: int) -> tuple[Floats, Floats]:
    """Sampled scores of a tuple, sorted, each with the entries it stands for in a merge (one per chunk that has it)."""
    samples = sorted((float(score), int(rows)) for score, rows, _ in points or [])
    scores = np.array([score for score, _ in samples], dtype=np.float64)
    return scores, np.array([min(rows, chunks) * every for _, rows in samples], dtype=np.float64)


def _groups(row: Row) -> int:
    """A guess at a tuple's segments: what the sample shows, or all there can be where it shows few of them twice."""
    seen, drawn = int(row["groups"]), len(row["samples"] or [])
    return 2 * seen if seen <= drawn // 4 else int(row["used"])


def _likely_groups(row: Row) -> float:
    """The likely number of a tuple's segments, if they are of like size: as many as show so many different ones."""
    seen, drawn, most = float(row["groups"]), len(row["samples"] or []), float(row["used"])
    if drawn == 0 or seen == drawn:
        return most
    few, many = seen, most
    for _ in range(60):
        middle = (few + many) / 2
        few, many = (middle, many) if -middle * np.expm1(-drawn / middle) < seen else (few, middle)
    return few


def _quantiles(scores: Floats, weights: Floats, pieces: int) -> Floats:
    """Cut points that split weighted, sorted scores into about `pieces` equal loads; fewer where scores repeat."""
    if pieces <= 1 or len(scores) == 0:
        return np.zeros(0)
    reached = np.cumsum(weights)
    goals = reached[-1] * np.arange(1, pieces) / pieces
    return np.unique(scores[np.minimum(np.searchsorted(reached, goals, side="right"), len(scores) - 1)])


def task_slots(tasks: int) -> Integers:
    """For each task a small integer that `repartition(tasks, slot)` sends there.

    Spark puts a row into task pmod(Murmur3(slot, seed 42), tasks); the hash of an arbitrary key gives some tasks
    several times the mean, so the wanted task is found first and the key made to fit.
    """
    slots = np.full(tasks, -1, dtype=np.int64)
    begin = 0
    while np.any(slots < 0):
        candidates = np.arange(begin, begin + 8 * tasks + 64)
        task = murmur3(candidates).astype(np.int64) % tasks
        slots[task[::-1]] = np.where(slots[task[::-1]] < 0, candidates[::-1], slots[task[::-1]])
        begin += len(candidates)
    return slots


def murmur3(values: Integers, seed: int = 42) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    """Spark's `hash` of int columns: Murmur3 x86 32-bit of 4 bytes (Appleby 2011)."""
    with np.errstate(over="ignore"):
        k = values.astype(np.uint32) * np.uint32(0xCC9E2D51)
        k = ((k << np.uint32(15)) | (k >> np.uint32(17))) * np.uint32(0x1B873593)
        h = np.uint32(seed) ^ k
        h = ((h << np.uint32(13)) | (h >> np.uint32(19))) * np.uint32(5) + np.uint32(0xE6546B64)
        h ^= np.uint32(4)
        h = (h ^ (h >> np.uint32(16))) * np.uint32(0x85EBCA6B)
        h = (h ^ (h >> np.uint32(13))) * np.uint32(0xC2B2AE35)
        return (h ^ (h >> np.uint32(16))).view(np.int32)
