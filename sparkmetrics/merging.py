"""Brings scores together by range: sorted runs from every task, exchanged by slot, merged into the state.

Ranges and not groups decide where a score goes, since a group can be the whole table. All segments of a range meet in
one task, so every level and every pair of segments comes from one exchange.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import BinaryType, BooleanType, DoubleType, IntegerType, StructField, StructType

from sparkmetrics import batches, hashes, kernel, packing, ranges, schemas
from sparkmetrics.batches import CellSplit
from sparkmetrics.columns import Keys
from sparkmetrics.kernel import Integers
from sparkmetrics.ranges import Plan, Sizing
from sparkmetrics.workers import Task, map_partitions


@dataclass(frozen=True)
class Merged:
    """Score counts that lie where they can be evaluated: all runs of a range in one task, each score once.

    Attributes
    ----------
    frame : internal key columns, `range`, `slot`, `split` (the tuple has several ranges), `lead` (first row
        of its (by, range)), and what `batches.run_batches` makes of scores.
    plan : the cut points it was made with.
    """

    frame: DataFrame
    plan: Plan


def merge(
    source: DataFrame,
    keys: Keys,
    plan: Plan,
    sizing: Sizing,
    *,
    of_predictions: bool,
    weighted: bool,
    read: Task | None = None,
    packed: bool = True,
) -> Merged:
    """Score counts of predictions, or of counts from elsewhere, laid out for evaluation. Lazy.

    Parameters
    ----------
    source : clean predictions, or rows of score counts under internal names.
    plan : where every score goes.
    of_predictions : which of the two it is.
    weighted : whether predictions carried weights.
    read : what makes clean predictions of the source's rows in workers, where these are not predictions themselves.
    packed : whether the merged scores are packed, or lists.
    """
    if not of_predictions:
        # Counts can lie in many small pieces, such as the files of a month of saved days: a task of several costs less
        # than one each, and brings their ties together. That leaves as many tasks as merge them at most.
        source = source.coalesce(plan.partitions)
    if not plan.of_workers:
        source = source.withColumn("tuple", ranges.tuple_hash(keys))
    by, segments = keys.by_columns, keys.segment_columns
    build = partial(
        build_runs,
        by=by,
        segments=segments,
        of_predictions=of_predictions,
        weighted=weighted,
        chunk=sizing.chunk_rows,
        plan=plan,
        read=read,
    )
    split, lead = StructField("split", BooleanType()), StructField("lead", BooleanType())
    runs = map_partitions(source, build, _run_schema(keys, split)).repartition(plan.partitions, "slot")
    join = partial(merge_runs, by=by, segments=segments, weighted=weighted, packed=packed)
    merged = map_partitions(runs, join, _run_schema(keys, split, lead, packed=packed))
    return Merged(merged, plan)


def unpacked(merged: DataFrame, keys: Keys) -> DataFrame:
    """Merged scores with lists in place of what is packed."""
    more = [merged.schema[name] for name in ("split", "lead")]
    return map_partitions(merged, packing.as_lists, _run_schema(keys, *more, packed=False))


def _run_schema(keys: Keys, *more: StructField, packed: bool = True) -> StructType:
    counts, scores = schemas.SCORES[:3], schemas.SCORES[3:]
    return StructType(
        [
            *(StructField(name, kind) for name, kind in zip(keys.columns, keys.types, strict=True)),
            StructField("range", IntegerType()),
            StructField("slot", IntegerType()),
            *more,
            *counts,
            *(StructField(name, DoubleType()) for name in ("bottom", "top")),
            *([StructField(packing.WIDTH, IntegerType())] if packed else []),
            *([StructField(field.name, BinaryType()) for field in scores] if packed else scores),
        ]
    )


def build_runs(
    rows: Iterator[pa.RecordBatch],
    by: list[str],
    segments: list[str],
    of_predictions: bool,
    weighted: bool,
    chunk: int,
    plan: Plan,
    read: Task | None = None,
) -> Iterator[pa.RecordBatch]:
    """Worker: rows of predictions (or of counts) -> runs, a bounded chunk at a time."""
    uncut = np.zeros(0)
    entries_of = batches.entries_of_predictions if of_predictions else batches.entries_of_counts
    for table in _chunks(read(rows) if read else rows, chunk):
        entries = entries_of(table, weighted)
        tuples = batches.key_codes([batches.column(table, name) for name in by], table.num_rows)
        cells = batches.key_codes([batches.column(table, name) for name in segments], table.num_rows, within=tuples)
        tuple_hash = _tuple_hashes(table, by)
        cuts = [plan.cuts.get(int(value), uncut) for value in tuple_hash[tuples.first]]
        split = CellSplit(cuts, tuples.row[cells.first])
        runs, run_ranges = batches.make_runs(entries, cells, split)
        hash_of_run = tuple_hash[runs.first]
        # A tuple that has no place of its own goes where its hash falls.
        slots = hash_of_run & 0x7FFFFFFF
        divided = np.zeros(len(slots), dtype=bool)
        starts = kernel.segment_starts(hash_of_run)
        lengths = kernel.segment_lengths(starts, len(slots))
        placed = np.isin(hash_of_run[starts], np.fromiter(plan.slots, np.int64, len(plan.slots)))
        for begin, length in zip(starts[placed], lengths[placed], strict=True):
            number, mine = int(hash_of_run[begin]), slice(begin, begin + length)
            slots[mine] = plan.slots[number][run_ranges[mine]]
            divided[mine] = len(plan.cuts[number]) > 0
        extra = {
            "range": pa.array(run_ranges.astype(np.int32)),
            "slot": pa.array(slots.astype(np.int32)),
            "split": pa.array(divided),
        }
        yield from batches.run_batches(runs, table.select([*by, *segments]), extra)


def _tuple_hashes(table: pa.Table, by: list[str]) -> Integers:
    """The hash of each row's `by` tuple: what it came with, or that of plans of what workers read."""
    if "tuple" in table.column_names:
        found: Integers = batches.column(table, "tuple").to_numpy(zero_copy_only=False)
        return found
    return hashes.tuple_hashes([batches.column(table, name) for name in by], table.num_rows).view(np.int64)


def merge_runs(
    rows: Iterator[pa.RecordBatch], by: list[str], segments: list[str], weighted: bool, packed: bool = True
) -> Iterator[pa.RecordBatch]:
    """Worker: all runs of some (by, range) -> one run for each of their segments."""
    table = batches.whole_table(rows)
    if table is None:
        return
    units = batches.key_codes([batches.column(table, name) for name in (*by, "range")], table.num_rows)
    cells = batches.key_codes([batches.column(table, name) for name in segments], table.num_rows, within=units)
    runs, _ = batches.make_runs(batches.entries_of_counts(table, weighted), cells)
    unit = units.row[runs.first]
    lead = np.zeros(len(unit), dtype=bool)
    lead[kernel.segment_starts(unit)] = True
    chosen = pa.array(runs.first)
    extra = {name: batches.column(table, name).take(chosen) for name in ("range", "slot", "split")}
    yield from batches.run_batches(runs, table.select([*by, *segments]), extra, lead, packed)


def _chunks(rows: Iterator[pa.RecordBatch], chunk: int) -> Iterator[pa.Table]:
    """Batches joined to tables of about `chunk` rows, or scores where rows hold lists of them."""
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in rows:
        for piece, scores in batches.pieces_of(batch, chunk):
            held.append(piece)
            size += scores
            if size >= chunk:
                table = batches.whole_table(held)
                if table is not None:
                    yield table
                held, size = [], 0
    table = batches.whole_table(held)
    if table is not None:
        yield table
