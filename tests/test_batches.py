"""Arrow batches without Spark: key codes, entries, runs in rows of bounded size, packed scores, hashes."""

from __future__ import annotations

import datetime as dt
import math
from bisect import bisect_right
from collections import defaultdict
from decimal import Decimal
from itertools import chain, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import SCORES, steady

from sparkmetrics import batches, hashes, packing
from sparkmetrics.batches import CELL_SCORES, CellSplit, Entries, Runs

# key codes -----------------------------------------------------------------------------------------------------------

DAY = dt.date(2026, 11, 29)
NOON = dt.datetime(2026, 11, 29, 12, tzinfo=dt.timezone.utc)
KEYS = {
    "string": pa.array(["b", None, "", "b", "NULL", "ä", None]),
    "binary": pa.array([b"b", None, b"", b"b", b"\xff"]),
    "boolean": pa.array([True, None, False, True]),
    "double": pa.array([0.5, None, math.nan, -math.inf, 0.5, math.nan, 0.0]),
    "float": pa.array([0.5, None, math.nan, 0.5, math.nan], pa.float32()),
    "date": pa.array([DAY, None, DAY + dt.timedelta(1), DAY]),
    "timestamp": pa.array([NOON, None, NOON + dt.timedelta(microseconds=1), NOON], pa.timestamp("us", "UTC")),
    "timestamp_ntz": pa.array([NOON.replace(tzinfo=None), None, NOON.replace(tzinfo=None)], pa.timestamp("us")),
    "decimal": pa.array([Decimal("0.50"), None, Decimal("0.51"), Decimal("0.50")], pa.decimal128(38, 2)),
    "nothing but nulls": pa.array([None, None], pa.string()),
    **{f"int{bits}": pa.array([5, None, -5, 5, 0], f"int{bits}") for bits in (8, 16, 32, 64)},
}


def known(value: Any) -> Any:
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


@pytest.mark.parametrize("kind", KEYS)
def test_key_codes_of_every_type(kind: str) -> None:
    values = [known(value) for value in KEYS[kind].to_pylist()]
    codes = batches.key_codes([KEYS[kind]], len(values))
    assert codes.size == len(set(values))
    assert sorted(set(codes.row)) == list(range(codes.size))
    for code, value in zip(codes.row, values, strict=True):
        assert codes.first[code] == values.index(value)


@steady
@given(st.lists(st.tuples(*[st.sampled_from(["a", "b", None])] * 2, st.sampled_from([1, 2, None]))))
def test_key_codes_of_first_columns_are_consecutive(rows: list[tuple[str | None, str | None, int | None]]) -> None:
    columns = [
        pa.array([row[i] for row in rows], kind) for i, kind in enumerate([pa.string(), pa.string(), pa.int64()])
    ]
    outer = batches.key_codes(columns[:1], len(rows))
    inner = batches.key_codes(columns[1:], len(rows), within=outer)
    assert inner.row.tolist() == batches.key_codes(columns, len(rows)).row.tolist()
    assert inner.size == len(set(rows))
    assert [rows[first] for first in inner.first] == list({code: rows[i] for code, i in first_rows(inner.row)}.values())
    owners = outer.row[inner.first]
    assert owners.tolist() == sorted(owners)


def first_rows(codes: np.ndarray) -> list[tuple[int, int]]:
    """The first row of every code, by code."""
    return sorted({code: i for i, code in reversed(list(enumerate(codes.tolist())))}.items())


def test_key_codes_without_columns_are_one_key() -> None:
    codes = batches.key_codes([], 3)
    assert (codes.row.tolist(), codes.first.tolist()) == ([0, 0, 0], [0])
    assert batches.key_codes([], 0).size == 0


def test_key_codes_of_many_values() -> None:
    random = np.random.default_rng(1)
    pairs = random.integers(0, 5000, (20_000, 2))
    codes = batches.key_codes([pa.array(pairs[:, 0]), pa.array(pairs[:, 1])], len(pairs))
    _, expected = np.unique(pairs, axis=0, return_inverse=True)
    assert codes.size == expected.max() + 1
    assert len(set(zip(codes.row.tolist(), expected.ravel().tolist(), strict=True))) == codes.size
    assert codes.row[codes.first].tolist() == list(range(codes.size))


# batches -------------------------------------------------------------------------------------------------------------


def test_entries_of_predictions() -> None:
    table = pa.table({"score": [-0.0, 0.5], "positive": [True, False], "weight": [0.1, 3.0]})
    plain = batches.entries_of_predictions(table, weighted=False)
    assert np.copysign(1.0, plain.score).tolist() == [1.0, 1.0]
    assert (plain.positive.tolist(), plain.negative.tolist(), plain.rows) == ([1.0, 0.0], [0.0, 1.0], None)
    weighted = batches.entries_of_predictions(table, weighted=True)
    assert (weighted.positive.tolist(), weighted.negative.tolist()) == ([0.1, 0.0], [0.0, 3.0])
    assert weighted.rows.tolist() == [1.0, 1.0]


def test_entries_of_counts_keep_the_rows_of_what_weighs_nothing() -> None:
    lists = {"score": [[0.1, 0.2], [], None, [0.3]], "pos": [[1.0, 0.0], [], None, [2.0]]}
    table = pa.table({**lists, "neg": [[0.0, 0.5], [], None, [0.0]], "rows": [5.0, 7.0, 9.0, 1.0]}).slice(0, 4)
    plain = batches.entries_of_counts(table, weighted=False)
    assert (plain.source.tolist(), plain.score.tolist()) == ([0, 0, 3], [0.1, 0.2, 0.3])
    weighted = batches.entries_of_counts(table, weighted=True)
    assert weighted.source.tolist() == [0, 0, 3, 1, 2]
    assert weighted.rows.tolist() == [5.0, 0.0, 1.0, 7.0, 9.0]
    assert weighted.positive.tolist() == [1.0, 0.0, 2.0, 0.0, 0.0]
    assert weighted.negative.tolist() == [0.0, 0.5, 0.0, 0.0, 0.0]


CUTS = {"a": [], "b": [0.25], "c": [0.0, 0.5, 1.0]}


@steady
@given(st.lists(st.tuples(st.sampled_from(list(CUTS)), st.integers(0, 2), SCORES, st.booleans(), st.integers(0, 2))))
def test_runs_are_sorted_without_ties_and_cut(rows: list[tuple[str, int, float, bool, int]]) -> None:
    tuples, segments, scores, positive, weights = map(list, zip(*rows, strict=True)) if rows else ([], [], [], [], [])
    table = pa.table(
        {
            "score": pa.array(scores, pa.float64()),
            "positive": pa.array(positive, pa.bool_()),
            "weight": pa.array(weights, pa.float64()),
        }
    )
    outer = batches.key_codes([pa.array(tuples, pa.string())], len(rows))
    cells = batches.key_codes([pa.array(segments, pa.int64())], len(rows), within=outer)
    cuts = [np.array(CUTS[tuples[first]], dtype=np.float64) for first in outer.first]
    split = CellSplit(cuts, outer.row[cells.first])
    runs, numbers = batches.make_runs(batches.entries_of_predictions(table, weighted=True), cells, split)

    expected: dict[tuple[str, int, int], dict[float, list[int]]] = defaultdict(dict)
    sizes: dict[tuple[str, int, int], int] = defaultdict(int)
    for key, segment, score, is_positive, weight in rows:
        run = key, segment, bisect_right(CUTS[key], score)
        sizes[run] += 1
        at = expected[run].setdefault(score, [0, 0])
        at[0 if is_positive else 1] += weight
    assert len(runs.first) == len(expected)
    begin = 0
    for first, length, size, number in zip(runs.first, runs.length, runs.rows, numbers, strict=True):
        run = tuples[first], segments[first], number
        entries = slice(begin, begin + length)
        begin += length
        assert size == sizes[run]
        found = zip(runs.score[entries], runs.positive[entries], runs.negative[entries], strict=True)
        assert list(found) == [(s, *w) for s, w in sorted(expected[run].items()) if any(w)]


def test_rows_of_runs_are_bounded() -> None:
    assert CELL_SCORES == 16_384  # a promise to readers of saved counts
    lengths = np.array([0, 1, CELL_SCORES, 0, CELL_SCORES + 1, 3 * CELL_SCORES, 0])
    size = int(lengths.sum())
    score = np.arange(size, dtype=np.float64)
    runs = Runs(
        first=np.arange(len(lengths))[::-1],
        length=lengths,
        rows=lengths + 1.0,
        score=score,
        positive=np.full(size, 2.0),
        negative=np.full(size, 3.0),
    )
    keys = pa.table({"s0": [f"key {i}" for i in range(len(lengths))]})
    lead = np.arange(len(lengths)) % 2 == 0
    extra = {"range": pa.array(range(len(lengths)))}
    found = pa.Table.from_batches(batches.run_batches(runs, keys, extra, lead, packed=False))
    packed = pa.Table.from_batches(packing.as_lists(batches.run_batches(runs, keys, extra, lead)))
    assert packed.select(found.column_names) == found
    pieces = found.to_pylist()
    assert [len(piece["score"]) for piece in pieces] == [
        *(0, 1, CELL_SCORES, 0, CELL_SCORES, 1),
        *(CELL_SCORES, CELL_SCORES, CELL_SCORES, 0),
    ]
    run_of_piece = [0, 1, 2, 3, 4, 4, 5, 5, 5, 6]
    is_first = [True, *(a != b for a, b in pairwise(run_of_piece))]
    for piece, run, begins in zip(pieces, run_of_piece, is_first, strict=True):
        assert (piece["range"], piece["s0"]) == (run, f"key {len(lengths) - 1 - run}")
        assert piece["rows"] == (lengths[run] + 1.0 if begins else 0.0)
        assert piece["lead"] == (begins and lead[run])
        assert (piece["positives"], piece["negatives"]) == (2.0 * len(piece["score"]), 3.0 * len(piece["score"]))
        assert len(piece["pos"]) == len(piece["neg"]) == len(piece["score"])
        ends = (piece["score"][0], piece["score"][-1]) if piece["score"] else (None, None)
        assert (piece["bottom"], piece["top"]) == ends
    assert list(chain(*(piece["score"] for piece in pieces))) == score.tolist()


@steady
@given(st.lists(st.one_of(st.none(), st.integers(0, 9)), max_size=30), st.integers(1, 20))
def test_rows_of_many_scores_are_taken_in_pieces(lengths: list[int | None], most: int) -> None:
    lists = pa.array([None if size is None else [0.5] * size for size in lengths], pa.list_(pa.float64()))
    batch = pa.RecordBatch.from_pydict({"score": lists, "row": pa.array(range(len(lengths)))})
    pieces = list(batches.pieces_of(batch, most))
    assert [row for piece, _ in pieces for row in piece["row"].to_pylist()] == list(range(len(lengths)))
    for piece, scores in pieces:
        sizes = [len(entries or ()) for entries in piece["score"].to_pylist()]
        assert scores == sum(sizes) <= most + max(sizes)
    plain = pa.RecordBatch.from_pydict({"score": pa.array([0.1] * len(lengths), pa.float64())})
    assert [(piece.num_rows, scores) for piece, scores in batches.pieces_of(plain, most)] == [(len(lengths),) * 2]


WEIGHTS = st.sampled_from([0.0, 1.0, 255.0, 256.0, 65_535.0, 65_536.0, 2.0**32 - 1, 2.0**32, 2.0**60, 0.5, 1e-300])


@steady
@given(st.lists(st.lists(st.lists(st.tuples(SCORES, WEIGHTS, WEIGHTS), max_size=3), max_size=4), max_size=4))
def test_packed_scores_are_what_was_packed(parts: list[list[list[tuple[float, float, float]]]]) -> None:
    tables = []
    for pieces in parts:
        columns = np.array([entry for piece in pieces for entry in piece], dtype=np.float64).reshape(-1, 3).T
        starts = np.cumsum([0, *(len(piece) for piece in pieces)])
        tables.append(pa.table(packing.packed_columns(*columns, starts)))
    names = (*packing.PACKED, packing.WIDTH)
    empty = pa.table(packing.packed_columns(*np.zeros((3, 0)), np.zeros(1, dtype=np.int64)))
    table = pa.concat_tables([*tables, empty]).combine_chunks()
    for begin in range(2):  # a slice does not begin where its buffers do
        part = [batches.column(table, name)[begin:] for name in names]
        if begin:
            part[:3] = [array.cast(pa.large_binary()) for array in part[:3]]
        lengths, score, pos, neg = packing.unpacked(*part)
        expected = [piece for pieces in parts for piece in pieces][begin:]
        assert lengths.tolist() == [len(piece) for piece in expected]
        assert list(zip(score, pos, neg, strict=True)) == [entry for piece in expected for entry in piece]


@steady
@given(st.lists(st.one_of(st.none(), st.text(max_size=9), st.text(min_size=4_096, max_size=4_100)), max_size=20))
def test_hashes_are_of_values(values: list[str | None]) -> None:
    column, number = pa.array(values, pa.string()), pa.array(range(len(values)), pa.int8())
    plain = hashes.row_hashes(7, [column], len(values))
    assert plain.tolist() == hashes.row_hashes(7, [column.dictionary_encode()], len(values)).tolist()
    sliced = pa.concat_arrays([pa.array(["x"]), column])[1:]
    assert plain.tolist() == hashes.row_hashes(7, [sliced], len(values)).tolist()
    assert len(set(plain.tolist())) == len(set(values))
    assert len(set(hashes.row_hashes(7, [column, number], len(values)).tolist())) == len(values)
    assert not {*plain.tolist()} & {*hashes.row_hashes(8, [column], len(values)).tolist()}


@steady
@given(st.lists(st.integers(0, CELL_SCORES), min_size=1, max_size=200))
def test_batches_are_bounded(sizes: list[int]) -> None:
    slices = list(batches.batch_slices(np.array(sizes)))
    assert [begin for begin, _ in slices] == [0, *(end for _, end in slices[:-1])]
    assert slices[-1][1] == len(sizes)
    assert all(sum(sizes[begin:end]) < batches.BATCH_SCORES + CELL_SCORES for begin, end in slices)


def test_batches_of_empty_rows_are_bounded() -> None:
    slices = list(batches.batch_slices(np.zeros(2 * batches.BATCH_ROWS + 5, dtype=np.int64)))
    assert [end - begin for begin, end in slices] == [batches.BATCH_ROWS, batches.BATCH_ROWS, 5]


def test_batches_of_nothing() -> None:
    none = np.zeros(0)
    whole_numbers = none.astype(np.int64)
    runs, _ = batches.make_runs(Entries(whole_numbers, none, none, none, None), batches.key_codes([], 0))
    assert list(batches.run_batches(runs, pa.table({"s0": pa.array([], pa.string())}), {})) == []
    assert batches.whole_table([]) is None
