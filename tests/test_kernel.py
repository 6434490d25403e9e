"""Sorted arrays without Spark: their order, sums that keep their digits, integers past 63 bits."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import accumulate, chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import SCORES, steady

from sparkmetrics import kernel

WEIGHTS = st.floats(0.0, 1e9, allow_subnormal=False)
COUNTS = st.integers(0, 2**40).map(float)


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
