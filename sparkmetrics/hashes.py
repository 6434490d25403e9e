"""64-bit hashes of keys and scores, on arrays: the same for equal values in every task. No Spark import."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sparkmetrics.kernel import Floats

Hashes = npt.NDArray[np.uint64]

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
NULL = np.uint64(0x6E756C6C)
"""What stands for a null."""

OF_TUPLE = 0
"""The seed of hashes of `by` tuples."""

MOST_BYTES = 1 << 20
"""Bytes of text that are hashed at a time."""

BYTE_FACTORS = 4096
"""Factors of the bytes of a text; a longer one begins with them anew."""


def mixed(values: Hashes) -> Hashes:
    """The finalizer of SplitMix64 (Steele, Lea, Flood 2014): every bit depends on every bit."""
    with np.errstate(over="ignore"):
        values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


_FACTORS = mixed(np.arange(1, BYTE_FACTORS + 1, dtype=np.uint64) * GOLDEN) | np.uint64(1)


def row_hashes(seed: int, columns: Sequence[pa.Array], rows: int) -> Hashes:
    """A hash of each row of key columns.

    Parameters
    ----------
    seed : hashes of different seeds are independent.
    columns : Arrow arrays of `rows` values: strings, integers, booleans, dates, dictionaries of these.
    """
    found = np.full(rows, mixed(np.array([seed + 1], dtype=np.uint64) * GOLDEN)[0])
    for column in columns:
        found = with_more(found, _of_values(column))
    return found


def tuple_hashes(columns: Sequence[pa.Array], rows: int) -> Hashes:
    """The hash by which plans of what workers read know a `by` tuple."""
    return row_hashes(OF_TUPLE, columns, rows)


def with_scores(hashes: Hashes, scores: Floats) -> Hashes:
    """Hashes of rows with their score behind; -0.0 is to be 0.0 already."""
    return with_more(hashes, scores.view(np.uint64))


def with_more(hashes: Hashes, values: Hashes) -> Hashes:
    """Hashes with one more value behind."""
    with np.errstate(over="ignore"):
        return mixed(hashes * GOLDEN + values)


def _of_values(array: pa.Array) -> Hashes:
    """64 bits of each value; equal for equal ones."""
    if pa.types.is_dictionary(array.type):
        of_dictionary = np.append(_of_values(array.dictionary), NULL)
        places = pc.fill_null(array.indices, len(array.dictionary)).to_numpy(zero_copy_only=False)
        found: Hashes = of_dictionary[places]
        return found
    if pa.types.is_large_string(array.type):
        array = array.cast(pa.string())
    if pa.types.is_string(array.type):
        values = _of_texts(array)
    else:
        kind = pa.int32() if pa.types.is_date32(array.type) else pa.int64()
        whole = array.cast(kind).cast(pa.int64())
        values = pc.fill_null(whole, 0).to_numpy(zero_copy_only=False).view(np.uint64)
    if array.null_count:
        values = np.where(pc.is_null(array).to_numpy(zero_copy_only=False), NULL, values)
    return values


def _of_texts(array: pa.Array) -> Hashes:
    """A multilinear hash of the bytes of each text, and its length."""
    _, offsets, data = array.buffers()
    ends = np.frombuffer(offsets, dtype=np.int32)[array.offset : array.offset + len(array) + 1].astype(np.int64)
    if ends[-1] - ends[0] > MOST_BYTES and len(array) > 1:  # each byte takes 40 bytes here
        half = len(array) // 2
        return np.concatenate([_of_texts(array[:half]), _of_texts(array[half:])])
    lengths = np.diff(ends)
    values = lengths.astype(np.uint64)
    filled = np.flatnonzero(lengths)
    if len(filled) == 0:
        return values
    characters = np.frombuffer(data, dtype=np.uint8)[ends[0] : ends[-1]].astype(np.uint64)
    place = np.arange(len(characters)) - np.repeat(ends[:-1] - ends[0], lengths)
    with np.errstate(over="ignore"):
        terms = (characters + np.uint64(1)) * _FACTORS[place % BYTE_FACTORS]
        values[filled] += np.add.reduceat(terms, (ends[:-1] - ends[0])[filled])
    return mixed(values)
