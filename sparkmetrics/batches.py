"""Arrow batches of a task to sorted arrays and back: key codes, score entries, runs in rows of bounded size.

No Spark import: what runs in a worker needs NumPy and pyarrow alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkmetrics import kernel, packing
from sparkmetrics.kernel import Booleans, Floats, Integers

CELL_SCORES = 16_384
"""Most scores in one row: readers with 1 GB of heap die on a row of more than 32,768."""

BATCH_SCORES = 262_144
"""Most scores in one Arrow batch that a task hands back (6 MiB)."""

BATCH_ROWS = 65_536
"""Most rows in one Arrow batch that a task hands back."""


@dataclass(frozen=True)
class Codes:
    """A code for each row of a table by its key columns.

    Attributes
    ----------
    row : array of int64, shape (rows,): the code of each row, 0 to size - 1. Codes follow the order of the key columns:
        rows that agree in the first columns have consecutive codes.
    first : array of int64, shape (size,): the first row that has each code, where the key's values can be taken.
    """

    row: Integers
    first: Integers

    @property
    def size(self) -> int:
        """The number of distinct keys."""
        return len(self.first)


def key_codes(columns: Sequence[pa.Array], rows: int, within: Codes | None = None) -> Codes:
    """Codes of the distinct combinations of key columns; null is a value like any other.

    Parameters
    ----------
    columns : Arrow arrays of `rows` values, of any type that can be a key; none gives one key.
    within : codes of columns that stand before these.
    """
    codes, size = (within.row, within.size) if within else (np.zeros(rows, dtype=np.int64), min(rows, 1))
    for column in columns:
        indices, values = _encoded(column)
        codes, size = _compress(codes * values + indices, size * values)
    first = np.empty(size, dtype=np.int64)
    first[codes[::-1]] = np.arange(rows - 1, -1, -1)
    return Codes(codes, first)


def _encoded(column: pa.Array) -> tuple[Integers, int]:
    """A number for each value, null for one, and a bound of these numbers."""
    if pa.types.is_dictionary(column.type):
        values = len(column.dictionary)
        return pc.fill_null(column.indices.cast(pa.int64()), values).to_numpy(zero_copy_only=False), values + 1
    # Without null_encoding="encode" the index of a null is garbage.
    encoded = pc.dictionary_encode(column, null_encoding="encode")
    return encoded.indices.to_numpy(zero_copy_only=False), len(encoded.dictionary)


def plain(column: pa.Array) -> pa.Array:
    """A column whose values stand in it, and not in a dictionary."""
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _compress(codes: Integers, limit: int) -> tuple[Integers, int]:
    """Renumbers codes below `limit` without gaps, in the same order."""
    if limit > max(4 * len(codes), 65_536):
        distinct, inverse = np.unique(codes, return_inverse=True)
        return inverse.astype(np.int64, copy=False), len(distinct)
    present = np.zeros(limit, dtype=bool)
    present[codes] = True
    numbers = np.cumsum(present) - 1
    return numbers[codes], int(present.sum())


def whole_table(batches: Iterable[pa.RecordBatch]) -> pa.Table | None:
    """All batches as one table of contiguous columns, or None where there are no rows."""
    kept = [batch for batch in batches if batch.num_rows]
    return pa.Table.from_batches(kept).combine_chunks() if kept else None


def pieces_of(batch: pa.RecordBatch, most: int) -> Iterator[tuple[pa.RecordBatch, int]]:
    """A batch with its number of scores; one whose rows hold several, as lists or packed, in pieces of about `most`."""
    scores = batch.column("score")
    if pa.types.is_list(scores.type) or pa.types.is_large_list(scores.type):
        lengths = pc.list_value_length(scores)
    elif pa.types.is_binary(scores.type) or pa.types.is_large_binary(scores.type):
        lengths = pc.divide(pc.binary_length(scores), packing.SCORE_BYTES)
    else:
        yield batch, batch.num_rows
        return
    reached = np.cumsum(pc.fill_null(lengths, 0).to_numpy(zero_copy_only=False).astype(np.int64))
    starts = kernel.segment_starts(np.maximum(reached - 1, 0) // most)
    for begin, length in zip(starts, kernel.segment_lengths(starts, len(reached)), strict=True):
        before = int(reached[begin - 1]) if begin else 0
        yield batch.slice(begin, length), int(reached[begin + length - 1]) - before


def column(table: pa.Table, name: str) -> pa.Array:
    """A column of a table as one contiguous array."""
    chunks = table.column(name)
    return chunks.chunk(0) if chunks.num_chunks == 1 else chunks.combine_chunks()


def floats(table: pa.Table, name: str) -> Floats:
    """A column of doubles; null reads NaN."""
    values: Floats = column(table, name).to_numpy(zero_copy_only=False)
    return values


@dataclass(frozen=True)
class Entries:
    """Scores with the weights they carry, in the order they came.

    Attributes
    ----------
    source : array of int64: the row of the table each entry comes from (where its keys are).
    score, positive, negative : arrays of float64.
    rows : array of float64: the prediction rows counted at each entry. None without weights, where it would be
        positive + negative.
    """

    source: Integers
    score: Floats
    positive: Floats
    negative: Floats
    rows: Floats | None


def entries_of_predictions(table: pa.Table, weighted: bool) -> Entries:
    """One entry a row, from columns `score`, `positive` (boolean) and, when weighted, `weight`."""
    positive = column(table, "positive").to_numpy(zero_copy_only=False).astype(np.float64)
    negative = 1.0 - positive
    rows = None
    if weighted:
        weight = floats(table, "weight")
        positive, negative, rows = positive * weight, negative * weight, np.ones(table.num_rows)
    # Adding 0.0 turns -0.0 into 0.0: they are one score.
    return Entries(np.arange(table.num_rows), floats(table, "score") + 0.0, positive, negative, rows)


def entries_of_counts(table: pa.Table, weighted: bool) -> Entries:
    """The entries of rows of score counts, from their columns `score`, `pos`, `neg` (lists or packed) and `rows`.

    With weights a row without scores (all its predictions weigh 0) gives an entry of weight 0, so that its rows and
    its segment are not lost.
    """
    lengths, score, positive, negative = _scores(table)
    source = np.repeat(np.arange(table.num_rows), lengths)
    if not weighted:
        return Entries(source, score, positive, negative, None)
    rows_of_row = floats(table, "rows")
    rows = np.zeros(len(score))
    filled = lengths > 0
    rows[(np.cumsum(lengths) - lengths)[filled]] = rows_of_row[filled]
    bare = np.flatnonzero(~filled)
    nothing = np.zeros(len(bare))
    return Entries(
        np.concatenate([source, bare]),
        np.concatenate([score, nothing]),
        np.concatenate([positive, nothing]),
        np.concatenate([negative, nothing]),
        np.concatenate([rows, rows_of_row[~filled]]),
    )


def _scores(table: pa.Table) -> tuple[Integers, Floats, Floats, Floats]:
    """The number of scores of each row, and the scores and weights of all."""
    score, pos, neg = (column(table, name) for name in packing.PACKED)
    if packing.WIDTH in table.column_names:
        return packing.unpacked(score, pos, neg, column(table, packing.WIDTH))
    lengths = pc.fill_null(pc.list_value_length(score), 0).to_numpy(zero_copy_only=False)
    values = (array.flatten().to_numpy(zero_copy_only=False) for array in (score, pos, neg))
    return lengths.astype(np.int64), *values


@dataclass(frozen=True)
class Runs:
    """Sorted, tie-free entries of many runs, one after the other.

    Attributes
    ----------
    first : array of int64, shape (runs,): a row of the input that has the keys of each run.
    length : array of int64, shape (runs,): the number of scores of each run; 0 where all weights are 0.
    rows : array of float64, shape (runs,): its prediction rows.
    score, positive, negative : arrays of float64: the entries of all runs.
    """

    first: Integers
    length: Integers
    rows: Floats
    score: Floats
    positive: Floats
    negative: Floats


def make_runs(entries: Entries, cells: Codes, split: CellSplit | None = None) -> tuple[Runs, Integers]:
    """Sorts entries by (cell, score), joins ties and cuts the result into runs.

    Parameters
    ----------
    entries : scores in any order.
    cells : the codes of the rows the entries come from, by (by, segments) or (by, range, segments).
    split : gives each sorted entry its range; None makes one run of a cell.

    Returns
    -------
    runs, and the range of each of them (0 without `split`).
    """
    cell = cells.row[entries.source]
    order = kernel.sort_by_group(cell, np.argsort(entries.score))
    weights = [entries.positive[order], entries.negative[order]]
    if entries.rows is not None:
        weights.append(entries.rows[order])
    cell, score, sums, _ = kernel.collapse(cell[order], entries.score[order], *weights)
    positive, negative = sums[0], sums[1]
    rows = sums[2] if entries.rows is not None else positive + negative
    ranges = np.zeros(len(score), dtype=np.int64) if split is None else split(cell, score)
    starts = kernel.segment_starts(cell, ranges)
    run = np.repeat(np.arange(len(starts)), kernel.segment_lengths(starts, len(score)))
    kept = (positive > 0) | (negative > 0)
    runs = Runs(
        first=cells.first[cell[starts]],
        length=np.bincount(run[kept], minlength=len(starts)),
        rows=kernel.segment_sums(rows, starts),
        score=score[kept],
        positive=positive[kept],
        negative=negative[kept],
    )
    return runs, ranges[starts]


@dataclass(frozen=True)
class CellSplit:
    """Gives sorted entries their range by the cut points of their `by` tuple.

    Attributes
    ----------
    cuts : the cut points of each tuple of the task, increasing; range r holds cuts[r - 1] <= score < cuts[r].
    tuple_of_cell : array of int64: which of them belongs to each cell. Cells of one tuple have consecutive codes.
    """

    cuts: Sequence[Floats]
    tuple_of_cell: Integers

    def __call__(self, cell: Integers, score: Floats) -> Integers:
        """The range of each entry, in arrays sorted by cell."""
        ranges = np.zeros(len(score), dtype=np.int64)
        owner = self.tuple_of_cell[cell]
        starts = kernel.segment_starts(owner)
        lengths = kernel.segment_lengths(starts, len(owner))
        cut = np.array([len(cuts) > 0 for cuts in self.cuts], dtype=bool)[owner[starts]]
        for begin, length in zip(starts[cut], lengths[cut], strict=True):
            piece = slice(begin, begin + length)
            ranges[piece] = np.searchsorted(self.cuts[owner[begin]], score[piece], side="right")
        return ranges


def run_batches(
    runs: Runs, keys: pa.Table, extra: dict[str, pa.Array], lead: Booleans | None = None, packed: bool = True
) -> Iterator[pa.RecordBatch]:
    """Runs as rows of at most `CELL_SCORES` scores, in batches of bounded size.

    Parameters
    ----------
    runs : what to write.
    keys : the key columns of the input, from which each run takes its first row.
    extra : further columns, one value a run.
    lead : which runs are first in their unit; adds a boolean column `lead`, true on the first row of such a run.
    packed : whether scores and weights are bytes, which cost less than half on their way; else they are lists.

    Yields
    ------
    Record batches with the columns of `keys`, those of `extra`, `rows` (on the first row of a run, 0 on the others),
    `positives`, `negatives`, `bottom` and `top` (the least and the largest score), `score`, `pos`, `neg`, and
    `packing.WIDTH` where these are packed.
    """
    run, before, sizes = cell_pieces(runs.length)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    for begin, end in batch_slices(sizes):
        chosen, begins = run[begin:end], offsets[begin : end + 1]
        entries = slice(begins[0], begins[-1])
        positive, negative = runs.positive[entries], runs.negative[entries]
        starts = begins - begins[0]
        first = pa.array(runs.first[chosen])
        columns = {name: plain(column(keys, name).take(first)) for name in keys.column_names}
        columns |= {name: values.take(pa.array(chosen)) for name, values in extra.items()}
        if lead is not None:
            columns["lead"] = pa.array(lead[chosen] & (before[begin:end] == 0))
        columns["rows"] = pa.array(np.where(before[begin:end] == 0, runs.rows[chosen], 0.0))
        columns["positives"], columns["negatives"] = (
            pa.array(_piece_sums(weights, starts)) for weights in (positive, negative)
        )
        columns["bottom"], columns["top"] = _ends(runs.score[entries], starts)
        of_scores = packing.packed_columns if packed else packing.list_columns
        columns |= of_scores(runs.score[entries], positive, negative, starts)
        yield from pa.table(columns).combine_chunks().to_batches()


def _ends(scores: Floats, starts: Integers) -> tuple[pa.Array, pa.Array]:
    """The first and the last score of each piece, null for an empty one."""
    empty = np.diff(starts) == 0
    padded = np.append(scores, 0.0)
    first, last = padded[starts[:-1]], padded[np.maximum(starts[1:] - 1, 0)]
    return pa.array(first, mask=empty), pa.array(last, mask=empty)


def cell_pieces(lengths: Integers) -> tuple[Integers, Integers, Integers]:
    """Cuts stretches of entries into rows of at most `CELL_SCORES`; one without entries is one row.

    Returns
    -------
    For each row: its stretch, the entries of the stretch before it, and its own.
    """
    pieces = np.maximum(-(-lengths // CELL_SCORES), 1)
    stretch = np.repeat(np.arange(len(pieces)), pieces)
    before = CELL_SCORES * (np.arange(len(stretch)) - np.repeat(np.cumsum(pieces) - pieces, pieces))
    return stretch, before, np.minimum(lengths[stretch] - before, CELL_SCORES)


def _piece_sums(weights: Floats, offsets: Integers) -> Floats:
    """The sum of each piece, 0 for an empty one (where np.add.reduceat would give an element)."""
    sums = np.zeros(len(offsets) - 1)
    filled = np.flatnonzero(np.diff(offsets))
    sums[filled] = kernel.segment_sums(weights, offsets[filled])
    return sums


def batch_slices(sizes: Integers) -> Iterator[tuple[int, int]]:
    """Cuts rows of given sizes into consecutive stretches of about `BATCH_SCORES` and at most `BATCH_ROWS` rows."""
    batch = np.maximum((np.cumsum(sizes) - sizes) // BATCH_SCORES, 0)
    starts = kernel.segment_starts(batch)
    for begin, length in zip(starts, kernel.segment_lengths(starts, len(sizes)), strict=True):
        for piece in range(int(begin), int(begin + length), BATCH_ROWS):
            yield piece, min(piece + BATCH_ROWS, int(begin + length))
