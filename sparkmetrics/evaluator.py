"""Walks the ranges of a task and calls the formulas: contributions of groups, points of curves, pairs of segments.

Runs in workers, on merged score counts with their offsets; every level is rolled up from the same sorted scores.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from sparkmetrics import batches, curves, kernel, pooling, segment_pairs, versus
from sparkmetrics import offsets as offset_tables
from sparkmetrics.batches import Codes, Entries
from sparkmetrics.columns import Keys
from sparkmetrics.kernel import Floats, Integers
from sparkmetrics.levels import Level
from sparkmetrics.metrics.pair_parts import EXACT_TYPE
from sparkmetrics.metrics.parts import Part
from sparkmetrics.metrics.steps import Around, Offsets, Steps

GROUPS, POINTS, PAIRS, VERSUS = "groups", "points", "pairs", "versus"
"""What a pass can emit: contributions of each (group, range), points of curves, wins of pairs of segments, and wins
over the negatives of each label."""


@dataclass(frozen=True)
class Task:
    """What an evaluation task is to do. Plain data: it travels to the workers.

    Attributes
    ----------
    by, segments : internal names of the key columns.
    levels : segment positions of each level, and `level_names` their names.
    weighted : whether predictions carried weights.
    strict : rule ">" instead of ">=".
    parts : what each (group, range) contributes.
    curve_points : thinning of curves; None keeps every distinct score.
    emits : which of GROUPS, POINTS, PAIRS, VERSUS.
    label : for VERSUS: the segment column that tells negatives apart.
    total : where parts need it: the position of the total among the levels that there are offsets of.
    """

    by: list[str]
    segments: list[str]
    levels: tuple[Level, ...]
    level_names: tuple[str, ...]
    weighted: bool
    strict: bool
    parts: tuple[Part, ...]
    curve_points: int | None
    emits: frozenset[str]
    label: str | None = None
    total: int | None = None


@dataclass(frozen=True)
class LevelGroups:
    """The groups of one level in one task, each in one range.

    Attributes
    ----------
    first : a row of the table that has each group's keys.
    unit : the (by, range) each group belongs to.
    rows : prediction rows of each group.
    steps : the distinct scores of the groups that have any.
    filled : which groups these are.
    entries, step : the scores of the task's rows in the order of the steps, and the step each belongs to.
    """

    first: Integers
    unit: Integers
    rows: Floats
    steps: Steps
    filled: Integers
    entries: Integers
    step: Integers


def evaluate(rows: Iterator[pa.RecordBatch], task: Task) -> Iterator[pa.RecordBatch]:
    """Worker: merged score counts and offsets of some (by, range) -> rows of the kinds the task emits."""
    table = batches.whole_table(rows)
    if table is None:
        return
    counts, offsets = offset_tables.take_offsets(table, task.by, task.segments)
    counts = counts.combine_chunks()
    units = batches.key_codes([batches.column(counts, name) for name in (*task.by, "range")], counts.num_rows)
    cells = batches.key_codes([batches.column(counts, name) for name in task.segments], counts.num_rows, within=units)
    entries = batches.entries_of_counts(counts, weighted=False)
    by_score = np.argsort(entries.score)

    def at(number: int, level: Level) -> LevelGroups:
        return _roll_up(counts, offsets, units, cells, entries, by_score, task, number, level)

    total = None if task.total is None else at(task.total, ())
    largest = offset_tables.unpacked(counts, "largest", task.by)
    for number, level in enumerate(task.levels):
        groups = total if total is not None and not level else at(number, level)
        if total is not None:
            groups = _with_total(groups, total)
        emitter = _Emitter(counts, task, number)
        first = groups.first[groups.filled]
        if GROUPS in task.emits:
            yield from emitter.batches(GROUPS, groups.first, _contributions(groups, task))
        if POINTS in task.emits and len(first):
            for owner, points in curves.points(groups.steps, task.curve_points, task.strict):
                yield from emitter.batches(POINTS, first[owner], points)
        if PAIRS in task.emits and level and len(first):
            named = np.ones(len(first), dtype=bool)
            crowded = pooling.largest_at(largest, task.level_names[number])
            if crowded is not None:
                of_level = [task.segments[position] for position in level]
                named = pooling.named_groups(counts, first, crowded, task.by, of_level)
            for pairs in segment_pairs.wins_inside(groups.steps, groups.unit[groups.filled], named):
                yield from emitter.pairs(first[pairs.winner], first[pairs.loser], pairs.columns)
        if VERSUS in task.emits and len(first):
            labels = batches.key_codes([batches.column(counts, str(task.label))], counts.num_rows)
            owner, label, wins = versus.wins_by_label(
                groups.steps,
                groups.step,
                entries.negative[groups.entries],
                labels.row[entries.source[groups.entries]],
            )
            wins["other_label"] = batches.column(counts, str(task.label)).take(pa.array(labels.first[label]))
            yield from emitter.batches(VERSUS, first[owner], wins)


def _with_total(groups: LevelGroups, total: LevelGroups) -> LevelGroups:
    """The groups with the total around them: where each of their scores stands among all."""
    step_of_entry = np.empty(len(total.entries), dtype=np.int64)
    step_of_entry[total.entries] = total.step
    step = step_of_entry[groups.entries[kernel.segment_starts(groups.step)]]
    group_of_step = np.repeat(np.arange(len(total.steps.starts)), total.steps.lengths)
    around = Around(total.steps, step, group_of_step[step[groups.steps.starts]])
    return replace(groups, steps=replace(groups.steps, around=around))


def _roll_up(
    table: pa.Table,
    offsets: pa.Table | None,
    units: Codes,
    cells: Codes,
    entries: Entries,
    by_score: Integers,
    task: Task,
    number: int,
    level: Level,
) -> LevelGroups:
    """Pools the cells of a task into the groups of a level: scores sorted within each group, ties joined."""
    names = [task.segments[position] for position in level]
    here = None if offsets is None else offsets.filter(pc.equal(offsets.column("level"), number))
    group_of_cell, group_of_offset, first_cell = _group_codes(table, cells, here, [*task.by, "range", *names])
    size = len(first_cell)
    group = group_of_cell[cells.row[entries.source]]
    order = kernel.sort_by_group(group, by_score)
    group, score, (positive, negative), begins = kernel.collapse(
        group[order], entries.score[order], entries.positive[order], entries.negative[order]
    )
    step = np.repeat(np.arange(len(begins)), kernel.segment_lengths(begins, len(order)))
    starts = kernel.segment_starts(group)
    filled = group[starts]
    inside = [np.zeros(size), np.zeros(size)]
    for sums, weights in zip(inside, (positive, negative), strict=True):
        sums[filled] = kernel.segment_sums(weights, starts)
    nothing = np.zeros(size)
    extent = np.zeros(size)
    extent[filled] = np.maximum.reduceat(np.abs(score), starts) if len(starts) else 0.0
    alone = Offsets(nothing, nothing, nothing, nothing, inside[0], inside[1], np.full(size, -np.inf), extent)
    found = offset_tables.offsets_of_groups(here, group_of_offset, alone)
    rows = np.bincount(group_of_cell[cells.row], batches.floats(table, "rows"), size).astype(np.float64)
    first = cells.first[first_cell]
    steps = Steps(score, positive, negative, starts, found.of(filled))
    return LevelGroups(first, units.row[first], rows, steps, filled, order, step)


def _group_codes(
    table: pa.Table, cells: Codes, offsets: pa.Table | None, names: list[str]
) -> tuple[Integers, Integers, Integers]:
    """Group codes of cells and of offset rows by the same key columns, and the first cell of each group."""
    first = pa.array(cells.first)
    columns = [batches.column(table, name).take(first) for name in names]
    extra = 0
    if offsets is not None:
        extra = offsets.num_rows
        columns = [pa.concat_arrays([c, batches.column(offsets, n)]) for c, n in zip(columns, names, strict=True)]
    codes = batches.key_codes(columns, cells.size + extra)
    return codes.row[: cells.size], codes.row[cells.size :], codes.first


def _contributions(groups: LevelGroups, task: Task) -> dict[str, pa.Array]:
    """What each group's range adds to its metrics; nothing but rows where all its weights are 0."""
    steps, filled = groups.steps, groups.filled
    columns: dict[str, pa.Array] = {"rows": pa.array(groups.rows)}
    if len(filled) == 0:
        return columns
    found: dict[str, pa.Array] = {
        "positives": pa.array(steps.positives_inside),
        "negatives": pa.array(steps.negatives_inside),
        "all_positives": pa.array(steps.offsets.all_positives),
        "all_negatives": pa.array(steps.offsets.all_negatives),
        "scores": pa.array(steps.lengths),
        "least_score": pa.array(steps.score[steps.starts]),
        "largest_score": pa.array(steps.score[steps.ends - 1]),
    }
    for part in task.parts:
        found |= part.contribute(steps, task.weighted, task.strict)
    position = np.full(len(groups.first), -1)
    position[filled] = np.arange(len(filled))
    index = pa.array(position, mask=position < 0)
    return columns | {name: values.take(index) for name, values in found.items()}


GROUP_COLUMNS = {
    "rows": "double",
    "positives": "double",
    "negatives": "double",
    "all_positives": "double",
    "all_negatives": "double",
    "scores": "bigint",
    "least_score": "double",
    "largest_score": "double",
}
"""What a pass emits of GROUPS beside the columns of parts, with Spark's types."""

TYPES: dict[str, tuple[DataType, pa.DataType]] = {
    "double": (DoubleType(), pa.float64()),
    "bigint": (LongType(), pa.int64()),
    "boolean": (BooleanType(), pa.bool_()),
    "string": (StringType(), pa.string()),
    "array<double>": (ArrayType(DoubleType()), pa.list_(pa.float64())),
    curves.POINTS_TYPE: (ArrayType(curves.SPARK_POINT), pa.list_(curves.POINT)),
    EXACT_TYPE: (DecimalType(38, 0), pa.decimal128(38, 0)),
}
"""Spark's and Arrow's type of each name of a type."""


def emitted(emits: frozenset[str], parts: Sequence[Part]) -> dict[str, str]:
    """The columns that a pass emits behind its keys, with Spark's types."""
    columns: dict[str, str] = {}
    if GROUPS in emits:
        columns |= GROUP_COLUMNS
        for part in parts:
            columns |= part.columns()
    if POINTS in emits:
        columns |= curves.POINT_COLUMNS
    if PAIRS in emits:
        columns |= segment_pairs.PAIR_COLUMNS
    if VERSUS in emits:
        columns |= versus.VERSUS_COLUMNS
    return columns


def emitted_schema(keys: Keys, emits: frozenset[str], parts: Sequence[Part]) -> StructType:
    """The schema of what a pass emits: `kind`, keys, `level`, `range`, and the columns of each kind."""
    by = [StructField(n, k) for n, k in zip(keys.by_columns, keys.types[: len(keys.by)], strict=True)]
    segment_types = list(zip(keys.segment_columns, keys.types[len(keys.by) :], strict=True))
    others = [StructField(segment_pairs.other(n), k) for n, k in segment_types] if PAIRS in emits else []
    values = [StructField(name, TYPES[kind][0]) for name, kind in emitted(emits, parts).items()]
    return StructType(
        [
            StructField("kind", StringType()),
            *by,
            StructField("level", StringType()),
            *(StructField(n, k) for n, k in segment_types),
            StructField("range", IntegerType()),
            *others,
            *values,
        ]
    )


@dataclass(frozen=True)
class _Emitter:
    """Turns columns of values into record batches that all have the same columns."""

    table: pa.Table
    task: Task
    number: int

    def batches(self, kind: str, first: Integers, values: dict[str, pa.Array]) -> Iterator[pa.RecordBatch]:
        """Rows of a kind.

        Parameters
        ----------
        first : for each row, a row of the table that has its keys.
        values : its columns; those of other kinds are null.
        """
        task, size, rows = self.task, len(first), pa.array(first)
        columns = {"kind": pa.repeat(kind, size), "level": pa.repeat(task.level_names[self.number], size)}
        columns |= {name: batches.column(self.table, name).take(rows) for name in (*task.by, "range")}
        columns |= self._segments(rows) | values
        for name, array in self._nothing(size).items():
            columns.setdefault(name, array)
        yield from pa.table(columns).to_batches(max_chunksize=batches.BATCH_ROWS)

    def pairs(self, winner: Integers, loser: Integers, values: dict[str, pa.Array]) -> Iterator[pa.RecordBatch]:
        """Rows of pairs: for each a row of the table that has the keys of either side; pooled sides have none."""
        sides = zip((winner, loser), ("pooled", segment_pairs.other("pooled")), strict=True)
        mine, others = (self._segments(pa.array(side, mask=values[pooled].to_numpy(False))) for side, pooled in sides)
        named = {segment_pairs.other(name): array for name, array in others.items()}
        yield from self.batches(PAIRS, winner, values | mine | named)

    def _segments(self, rows: pa.Array) -> dict[str, pa.Array]:
        """Segment columns taken at some rows; NULL where the level does not use them."""
        used = {self.task.segments[position] for position in self.task.levels[self.number]}
        return {
            name: batches.column(self.table, name).take(rows)
            if name in used
            else pa.nulls(len(rows), self.table.schema.field(name).type)
            for name in self.task.segments
        }

    def _nothing(self, size: int) -> dict[str, pa.Array]:
        """All columns that a pass emits behind its keys, null."""
        task = self.task
        found = {name: TYPES[kind][1] for name, kind in emitted(task.emits, task.parts).items()}
        if PAIRS in task.emits:
            found |= {segment_pairs.other(name): self.table.schema.field(name).type for name in task.segments}
        return {name: pa.nulls(size, kind) for name, kind in found.items()}
