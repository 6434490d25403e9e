"""Scores and their weights as bytes: less than half of what lists of doubles cost between JVM, workers and disk.

A score takes 8 bytes; weights, mostly 0 and 1, take the fewest bytes that hold all of a batch. No Spark import.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sparkmetrics.kernel import Floats, Integers

PACKED = ("score", "pos", "neg")
"""The columns that may be packed."""

SCORE_BYTES = 8

WIDTH = "width"
"""The column that tells packed scores from lists: the bytes of a weight in `pos` and `neg`."""

WEIGHTS: dict[int, npt.DTypeLike] = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.float64}
"""How a weight is packed, by its bytes: whole numbers in the least type that holds them all."""


def packed_columns(score: Floats, pos: Floats, neg: Floats, starts: Integers) -> dict[str, pa.Array]:
    """Pieces of arrays as binary values, and WIDTH.

    Parameters
    ----------
    starts : array of int64, shape (pieces + 1,): where each piece begins, and where the last one ends.
    """
    width = _width(pos, neg)
    bits = (score, pos.astype(WEIGHTS[width]), neg.astype(WEIGHTS[width]))
    columns = {name: _binary(values, starts) for name, values in zip(PACKED, bits, strict=True)}
    return columns | {WIDTH: pa.array(np.full(len(starts) - 1, width, dtype=np.int32))}


def list_columns(score: Floats, pos: Floats, neg: Floats, starts: Integers) -> dict[str, pa.Array]:
    """The same pieces as lists of doubles."""
    offsets = pa.array(starts, pa.int32())
    arrays = zip(PACKED, (score, pos, neg), strict=True)
    return {name: pa.ListArray.from_arrays(offsets, pa.array(values)) for name, values in arrays}


def unpacked(score: pa.Array, pos: pa.Array, neg: pa.Array, width: pa.Array) -> tuple[Integers, Floats, Floats, Floats]:
    """The number of scores of each row, and the scores and weights of all rows, one after the other."""
    scores: Floats = _bytes(score).view(np.float64)
    lengths = pc.fill_null(pc.binary_length(score), 0).to_numpy(zero_copy_only=False).astype(np.int64) // SCORE_BYTES
    widths = pc.fill_null(width, 0).to_numpy(zero_copy_only=False)
    used = np.unique(widths[lengths > 0])
    if len(used) == 1:
        kind = WEIGHTS[int(used[0])]
        return lengths, scores, *(_bytes(array).view(kind).astype(np.float64) for array in (pos, neg))
    weights = np.zeros(len(scores)), np.zeros(len(scores))
    for one in used:
        mine = widths == one
        places = np.repeat(mine, lengths)
        for values, array in zip(weights, (pos, neg), strict=True):
            values[places] = _bytes(array.filter(pa.array(mine))).view(WEIGHTS[int(one)])
    return lengths, scores, *weights


def as_lists(rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Worker: packed scores as lists of doubles."""
    for batch in rows:
        lengths, score, pos, neg = unpacked(*(batch.column(name) for name in (*PACKED, WIDTH)))
        others = {name: batch.column(name) for name in batch.schema.names if name not in (*PACKED, WIDTH)}
        starts = np.concatenate([[0], np.cumsum(lengths)])
        yield pa.RecordBatch.from_pydict(others | list_columns(score, pos, neg, starts))


def _width(*weights: Floats) -> int:
    """The bytes that weights need."""
    if any(np.any(values != np.rint(values)) for values in weights):
        return 8
    most = max((float(values.max(initial=0.0)) for values in weights), default=0.0)
    return next((width for width in (1, 2, 4) if most < 256.0**width), 8)


def _binary(values: npt.NDArray[Any], starts: Integers) -> pa.Array:
    offsets = pa.array((starts * values.itemsize).astype(np.int32)).buffers()[1]
    buffers = [None, offsets, pa.py_buffer(np.ascontiguousarray(values))]
    return pa.Array.from_buffers(pa.binary(), len(starts) - 1, buffers)


def _bytes(array: pa.Array) -> npt.NDArray[np.uint8]:
    """The bytes of all values of a binary column, one after the other, aligned."""
    array = array.cast(pa.binary())  # spark.sql.execution.arrow.useLargeVarTypes makes it large_binary
    _, offsets, data = array.buffers()
    if len(array) == 0 or data is None:
        return np.zeros(0, dtype=np.uint8)
    begin, end = np.frombuffer(offsets, dtype=np.int32)[[array.offset, array.offset + len(array)]]
    found = np.frombuffer(data, dtype=np.uint8)[begin:end]
    return found if begin % 8 == 0 else found.copy()
