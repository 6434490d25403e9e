"""Sorted arrays and Arrow batches without Spark; and the two things of Spark's that the library computes itself."""

from __future__ import annotations

import datetime as dt
import math
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import accumulate, chain, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

import sparkmetrics as sm
from sparkmetrics import batches, hashes, kernel, packing, ranges
from sparkmetrics.batches import CELL_SCORES, CellSplit, Entries, Runs

# A busy machine is no failure, and every run tries the same examples.
steady = settings(deadline=None, derandomize=True)

WEIGHTS = st.floats(0.0, 1e9, allow_subnormal=False)
COUNTS = st.integers(0, 2**40).map(float)
SCORES = st.sampled_from([-np.inf, -1.5, 0.0, 0.25, 0.5, 1.0, np.inf])


def stretches(elements: st.SearchStrategy[float]) -> st.SearchStrategy[list[list[float]]]:
    return st.lists(st.lists(elements, min_size=1, max_size=9), min_size=1, max_size=9)


def laid_out(stretched: Sequence[Sequence[float]]) -> tuple[np.ndarray, np.ndarray]:
    """Values of all stretches one after the other, and where each begins."""
    lengths = [len(stretch) for stretch in stretched]
    return np.array(list(chain(*stretched))), np.cumsum([0, *lengths[:-1]])


def exact_sums(values: Iterable[float]) -> list[Fraction]:
    return list(accumulate(Fraction(value) for value in values))


def assert_relative(found: Sequence[float], expected: Sequence[Fraction], tolerance: float) -> None:
    for value, exact in zip(found, expected, strict=True):
        assert abs(Fraction(float(value)) - exact) <= abs(exact) * Fraction(tolerance)


# order ---------------------------------------------------------------------------------------------------------------


@steady
@given(st.lists(st.tuples(st.one_of(st.integers(0, 3), st.integers(0, 2**40)), SCORES)))
def test_sort_by_group_keeps_the_order_it_begins_with(rows: list[tuple[int, float]]) -> None:
    groups = np.array([group for group, _ in rows], dtype=np.int64)
    scores = np.array([score for _, score in rows])
    assert kernel.sort_by_group(groups).tolist() == np.argsort(groups, kind="stable").tolist()
    by_score = np.argsort(scores, kind="stable")
    assert kernel.sort_by_group(groups, by_score).tolist() == np.lexsort((scores, groups)).tolist()


def test_segment_starts_mark_every_change_of_any_key() -> None:
    first, second = np.array([0, 0, 0, 1, 1]), np.array([0.5, 0.5, 1.0, 1.0, 1.0])
    assert kernel.segment_starts(first).tolist() == [0, 3]
    assert kernel.segment_starts(first, second).tolist() == [0, 2, 3]
    assert kernel.segment_starts(np.zeros(0)).tolist() == []
    assert kernel.segment_lengths(np.array([0, 2, 3]), 5).tolist() == [2, 1, 2]


@steady
@given(st.lists(st.tuples(st.integers(0, 3), SCORES, COUNTS, COUNTS)))
def test_collapse_joins_equal_scores_of_one_group(rows: list[tuple[int, float, float, float]]) -> None:
    rows.sort(key=lambda row: row[:2])
    sums: dict[tuple[int, float], list[float]] = defaultdict(lambda: [0.0, 0.0])
    for group, score, *weights in rows:
        sums[group, score] = [total + weight for total, weight in zip(sums[group, score], weights, strict=True)]
    columns = [np.array(column) for column in zip(*rows, strict=True)] or [np.zeros(0) for _ in range(4)]
    groups, scores, weights, starts = kernel.collapse(*columns)
    assert list(zip(groups, scores, strict=True)) == list(sums)
    assert list(map(list, zip(*weights, strict=True))) == list(sums.values())
    assert [(columns[0][i], columns[1][i]) for i in starts] == list(sums)


@steady
@given(st.lists(st.lists(SCORES, max_size=6, unique=True).map(sorted), min_size=1), SCORES, st.booleans())
def test_search_is_a_bisection_of_every_stretch(stretched: list[list[float]], value: float, above: bool) -> None:
    lengths = np.array([len(stretch) for stretch in stretched])
    ends = np.cumsum(lengths)
    begins = ends - lengths
    found = kernel.search(np.array(list(chain(*stretched))), begins, ends, value, above)
    bisect = bisect_right if above else bisect_left
    assert (found - begins).tolist() == [bisect(stretch, value) for stretch in stretched]


@steady
@given(stretches(SCORES))
def test_last_maximum_is_the_last_of_equals(stretched: list[list[float]]) -> None:
    values, starts = laid_out(stretched)
    expected = [len(stretch) - 1 - stretch[::-1].index(max(stretch)) for stretch in stretched]
    assert (kernel.last_maximum(values, starts) - starts).tolist() == expected


# sums ----------------------------------------------------------------------------------------------------------------


@steady
@given(stretches(COUNTS))
def test_sums_of_counts_are_exact(stretched: list[list[float]]) -> None:
    values, starts = laid_out(stretched)
    sums = [list(accumulate(stretch)) for stretch in stretched]
    from_end = [list(accumulate(stretch[::-1]))[::-1] for stretch in stretched]
    assert kernel.segment_sums(values, starts).tolist() == [sum(stretch) for stretch in stretched]
    assert kernel.cumulate(values, starts).tolist() == list(chain(*sums))
    assert kernel.cumulate_from_end(values, starts).tolist() == list(chain(*from_end))
    before = kernel.preceding(kernel.cumulate(values, starts), starts)
    assert before.tolist() == list(chain(*([0.0, *stretch[:-1]] for stretch in sums)))
    after = kernel.following(kernel.cumulate_from_end(values, starts), starts)
    assert after.tolist() == list(chain(*([*stretch[1:], 0.0] for stretch in from_end)))


@steady
@given(stretches(WEIGHTS))
def test_sums_of_weights_keep_their_digits(stretched: list[list[float]]) -> None:
    values, starts = laid_out(stretched)
    sums = [exact_sums(stretch) for stretch in stretched]
    assert_relative(kernel.segment_sums(values, starts), [stretch[-1] for stretch in sums], 1e-13)
    assert_relative(kernel.cumulate(values, starts), list(chain(*sums)), 1e-13)
    from_end = [exact_sums(stretch[::-1])[::-1] for stretch in stretched]
    assert_relative(kernel.cumulate_from_end(values, starts), list(chain(*from_end)), 1e-13)


def test_a_light_segment_behind_a_heavy_one_keeps_its_digits() -> None:
    heavy, light = [1e18, 3e17, 0.5], [1e-18, 3e-18, 7e-18]
    values, starts = laid_out([heavy, light, heavy, light])
    expected = [*exact_sums(heavy), *exact_sums(light)] * 2
    assert_relative(kernel.cumulate(values, starts), expected, 1e-15)


@pytest.mark.parametrize("size", [1, 511, 512, 513, 1024, 512 * 512 + 1, 600_000])
def test_running_sums_of_equal_weights_do_not_drift(size: int) -> None:
    numerator, denominator = (0.1).as_integer_ratio()
    found = kernel.running_sums(np.full((2, size), 0.1))
    assert found.shape == (2, size)
    assert found[0].tolist() == found[1].tolist()
    exact = np.array([numerator * count / denominator for count in range(1, size + 1)])  # rounded once
    np.testing.assert_allclose(found[0], exact, rtol=1e-13, atol=0.0)
    assert kernel.segment_sums(np.full(size, 0.1), np.zeros(1, dtype=np.int64)) == pytest.approx(exact[-1], rel=1e-14)


def test_a_plain_running_sum_does_drift() -> None:
    assert np.cumsum(np.full(600_000, 0.1))[-1] != pytest.approx(60_000.0, rel=1e-13)


def test_sums_of_nothing() -> None:
    nothing, nowhere = np.zeros(0), np.zeros(0, dtype=np.int64)
    for sums in (kernel.segment_sums, kernel.cumulate, kernel.cumulate_from_end):
        assert sums(nothing, nowhere).tolist() == []


def test_whole_numbers_are_those_whose_sum_is_exact() -> None:
    assert kernel.whole(np.array([0.0, 1.0, 2.0**52]), np.array([3.0]))
    assert not kernel.whole(np.array([0.0, 1.5]))
    assert not kernel.whole(np.array([3.0]), np.array([0.5]))
    assert not kernel.whole(np.array([2.0**52, 2.0**52]))


def test_prerounded_sums_are_the_same_in_any_order() -> None:
    random = np.random.default_rng(20_261_129)
    lengths = np.array([5000, 3000, 1])
    terms = np.concatenate([random.random(5000), 10.0 ** random.uniform(-12.0, 3.0, 3000), [0.1]])
    starts = np.cumsum(lengths) - lengths
    bounds, counts = np.array([5000.0, 3e6, 1.0]), lengths.astype(np.float64)
    high, low = kernel.preround(terms, bounds, counts, lengths)
    for start, length, bound in zip(starts, lengths, bounds, strict=True):
        mine = slice(start, start + length)
        parts = np.stack([high[mine], low[mine]])
        results, naive = set(), set()
        for _ in range(40):
            order = random.permutation(length)
            cuts = np.sort(random.integers(0, length + 1, 7))
            pieces = [piece.sum(axis=1) for piece in np.split(parts[:, order], cuts, axis=1)]
            total = sum(pieces[i] for i in random.permutation(len(pieces)))
            results.add((total[0] + total[1]).view(np.int64))
            naive.add(np.cumsum(terms[mine][order])[-1])
        assert len(results) == 1
        assert len(naive) > 1 or length == 1
        exact = sum(Fraction(term) for term in terms[mine])
        split = sum(Fraction(part) for part in parts.ravel())
        assert abs(split - exact) <= Fraction(int(length)) ** 2 * Fraction(bound) / 2**100


def test_prerounding_of_an_empty_bound_changes_nothing() -> None:
    high, low = kernel.preround(np.zeros(2), np.zeros(1), np.zeros(1), np.array([2]))
    assert high.tolist() == low.tolist() == [0.0, 0.0]


# integers ------------------------------------------------------------------------------------------------------------


@steady
@given(stretches(st.tuples(st.integers(0, 2**44), st.integers(0, 2**44))))
def test_integer_products_are_exact(stretched: list[list[tuple[int, int]]]) -> None:
    starts = laid_out(stretched)[1]
    left, right = (np.array(column, dtype=np.int64) for column in zip(*chain(*stretched), strict=True))
    expected = [sum(a * b for a, b in stretch) for stretch in stretched]
    bounds = np.array([float(total) for total in expected])
    assert kernel.integer_products(left, right, starts, bounds).tolist() == expected


def test_integers_past_63_bits() -> None:
    product = kernel.integer_product(2, np.array([5e10, 0.0]), np.array([6e9, 7.0]))
    assert product.tolist() == [600_000_000_000_000_000_000, 0]
    assert kernel.integer_product(2, np.array([5.0]), np.array([6.0])).dtype == np.int64
    large = np.array([2**62, 5], dtype=np.int64)
    assert kernel.add_integers(large, large).tolist() == [2**63, 10]
    assert kernel.add_integers(product, large).tolist() == [600_000_000_000_000_000_000 + 2**62, 5]
    assert kernel.as_decimals(product) == [Decimal(600_000_000_000_000_000_000), Decimal(0)]


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


def test_a_sample_of_a_very_large_table_is_thinner() -> None:
    sizing = ranges.Sizing(sample_every=100)
    assert sizing.sampling(10**8) == sizing
    assert sizing.sampling(10**8 + 1).sample_every == 101
    assert ranges.Sizing().sampling(10**11).sample_every == 100_000


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


# tasks ---------------------------------------------------------------------------------------------------------------


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
