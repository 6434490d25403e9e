"""Arithmetic on sorted arrays: order, collapse, sum and cumulate by segment. NumPy alone: no Spark, no measure.

A *segment* here is a stretch of consecutive elements that belong together, given by the index of its first element
(`starts`, increasing, the first one 0, none empty). Everything works on all segments of a task at once.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]

EXACT = 2.0**53
"""Below it float64 holds every integer, so sums of whole numbers are exact in any order."""

BLOCK = 512
"""Longest stretch that is summed one by one; longer ones are summed block by block (error BLOCK * 2**-53 at worst)."""


def sort_by_group(groups: Integers, order: Integers | None = None) -> Integers:
    """Stable order by group code, by 16-bit radix passes (twice as fast as a comparison sort on two keys).

    Parameters
    ----------
    groups : array of int64, shape (n,), codes from 0 up.
    order : array of int64, shape (n,), an order to begin with (of the scores); it is kept inside each group.

    Returns
    -------
    array of int64, shape (n,): `groups[result]` does not decrease.
    """
    order = np.arange(len(groups)) if order is None else order
    bits = int(groups.max()).bit_length() if len(groups) else 0
    for shift in range(0, bits, 16):
        digits = (groups[order] >> shift).astype(np.uint16)
        order = order[np.argsort(digits, kind="stable")]
    return order


def segment_starts(*keys: npt.NDArray[Any]) -> Integers:
    """Where a new combination of keys begins, in arrays sorted by them.

    Parameters
    ----------
    keys : arrays of one length n, at least one.

    Returns
    -------
    array of int64: the first index of each stretch of equal keys; empty when n is 0.
    """
    new = np.zeros(len(keys[0]), dtype=bool)
    new[:1] = True
    for key in keys:
        new[1:] |= key[1:] != key[:-1]
    return np.flatnonzero(new)


def segment_lengths(starts: Integers, size: int) -> Integers:
    """The number of elements of each segment of an array of `size` elements."""
    return np.diff(starts, append=size)


def segment_sums(values: Floats, starts: Integers) -> Floats:
    """The sum of each segment; exact for whole numbers below 2**53, within 1e-13 relative for weights.

    A stretch over `BLOCK` is summed pairwise, since a running sum of millions of equal weights drifts.
    """
    if len(starts) == 0:
        return np.zeros(0)
    lengths = segment_lengths(starts, len(values))
    long = lengths > BLOCK
    if not long.any():
        few: Floats = np.add.reduceat(values, starts)
        return few
    sums = np.empty(len(starts))
    if not long.all():
        short = lengths[~long]
        sums[~long] = np.add.reduceat(values[np.repeat(~long, lengths)], np.cumsum(short) - short)
    for segment in np.flatnonzero(long):
        begin = starts[segment]
        sums[segment] = values[begin : begin + lengths[segment]].sum()
    return sums


def without_nan(values: Floats, instead: float = 0.0) -> Floats:
    """The values with NaN replaced; infinite ones stay, which np.nan_to_num would change, at three times the cost."""
    return np.where(np.isnan(values), instead, values)


def whole(*arrays: Floats) -> bool:
    """Whether all values are integers whose sum float64 holds exactly."""
    return all(bool(np.all(values == np.rint(values))) and float(values.sum()) < EXACT for values in arrays)


def running_sums(values: Floats) -> Floats:
    """Inclusive running sums along the last axis, carried block by block: error about 2 * BLOCK * 2**-53."""
    size = values.shape[-1]
    if size <= BLOCK:
        return np.cumsum(values, axis=-1)
    lead = values.shape[:-1]
    blocks = -(-size // BLOCK)
    padded = np.zeros((*lead, blocks * BLOCK))
    padded[..., :size] = values
    inside = np.cumsum(padded.reshape(*lead, blocks, BLOCK), axis=-1)
    inside[..., 1:, :] += running_sums(inside[..., -1])[..., :-1, None]
    return inside.reshape(*lead, blocks * BLOCK)[..., :size]


def cumulate(values: Floats, starts: Integers, is_whole: bool | None = None) -> Floats:
    """Inclusive running sums that begin anew at every start.

    Whole numbers take one running sum less what came before the segment, which is exact. Weights never do (a light
    segment behind a heavy one would lose its digits): segments of like length are summed side by side in a matrix.
    `is_whole` says which they are, where the caller knows.
    """
    if len(values) == 0:
        return np.zeros(0)
    lengths = segment_lengths(starts, len(values))
    if whole(values) if is_whole is None else is_whole:
        sums = np.cumsum(values)
        return sums - np.repeat(sums[starts] - values[starts], lengths)
    result = np.empty(len(values))
    doublings = np.ceil(np.log2(lengths)).astype(np.int64)
    for doubling in np.unique(doublings):
        chosen = np.flatnonzero(doublings == doubling)
        column = np.arange(1 << doubling)
        inside = column < lengths[chosen, None]
        index = (starts[chosen, None] + column)[inside]
        matrix = np.zeros(inside.shape)
        matrix[inside] = values[index]
        result[index] = running_sums(matrix)[inside]
    return result


def cumulate_from_end(values: Floats, starts: Integers, is_whole: bool | None = None) -> Floats:
    """Inclusive running sums from the last element of each segment back to its first."""
    ends = starts + segment_lengths(starts, len(values))
    return cumulate(values[::-1], (len(values) - ends)[::-1], is_whole)[::-1]


def preceding(sums: Floats, starts: Integers) -> Floats:
    """The value before each element in its segment, 0 for the first: turns `cumulate` into sums of what lies before."""
    shifted = np.roll(sums, 1)
    shifted[starts] = 0.0
    return shifted


def following(sums: Floats, starts: Integers) -> Floats:
    """The value after each element in its segment, 0 for the last: the same for `cumulate_from_end`."""
    shifted = np.roll(sums, -1)
    shifted[starts - 1] = 0.0
    return shifted


def collapse(
    groups: Integers, scores: Floats, *weights: Floats
) -> tuple[Integers, Floats, tuple[Floats, ...], Integers]:
    """Joins equal scores of one group, in arrays sorted by (group, score).

    Returns
    -------
    groups, scores, weights summed over equal scores, and the index at which each of them began.
    """
    starts = segment_starts(groups, scores)
    return groups[starts], scores[starts], tuple(segment_sums(w, starts) for w in weights), starts


def search(sorted_scores: Floats, begins: Integers, ends: Integers, value: float | Floats, above: bool) -> Integers:
    """Binary search in many sorted stretches at once.

    Parameters
    ----------
    sorted_scores : array of float64, each stretch `begins[i]:ends[i]` increasing.
    value : what to look for; one for all, or an array of one for each stretch.
    above : True finds the first score > value, False the first score >= value.

    Returns
    -------
    array of int64: an index from `begins` to `ends` (the end where no score qualifies).
    """
    low, high = begins.copy(), ends.copy()
    while np.any(low < high):
        middle = (low + high) // 2
        probe = sorted_scores[np.minimum(middle, len(sorted_scores) - 1)]
        below = (probe <= value) if above else (probe < value)
        open_ = low < high
        low = np.where(open_ & below, middle + 1, low)
        high = np.where(open_ & ~below, middle, high)
    return low


def last_maximum(values: Floats, starts: Integers) -> Integers:
    """The index of each segment's largest value, the last one where several are equal."""
    lengths = segment_lengths(starts, len(values))
    largest = np.repeat(np.maximum.reduceat(values, starts), lengths)
    segment = np.repeat(np.arange(len(starts)), lengths)
    candidates = np.flatnonzero(values == largest)
    result = starts.copy()
    result[segment[candidates]] = candidates
    return result


def preround(terms: Floats, bounds: Floats, counts: Floats, lengths: Integers) -> tuple[Floats, Floats]:
    """Splits terms into two parts whose sums are exact, hence the same in every order (Demmel and Nguyen 2013).

    Parameters
    ----------
    terms : array of float64, shape (n,), the segments one after the other.
    bounds : a bound on the sum of the absolute terms that each segment is part of, shape (segments,).
    counts : a bound on their number, shape (segments,).
    lengths : the number of terms of each segment.

    Returns
    -------
    high, low : multiples of an ulp that is so coarse that no partial sum is ever rounded. What is left out is below
        counts**2 * bounds * 2**-100.
    """
    coarse = 4.0 * _power_of_two_above(bounds)
    fine = 4.0 * _power_of_two_above(counts * coarse * 2.0**-53)
    high = _rounded(terms, np.repeat(coarse, lengths))
    return high, _rounded(terms - high, np.repeat(fine, lengths))


def _rounded(terms: Floats, step: Floats) -> Floats:
    """The terms without the bits that adding `step` rounds away."""
    return (terms + step) - step


def _power_of_two_above(values: Floats) -> Floats:
    """The least power of two that is not below each value; 0 for 0."""
    mantissa, exponent = np.frexp(values)
    return np.where(values == 0.0, 0.0, np.ldexp(1.0, exponent - (mantissa == 0.5)))


def integer_products(left: Integers, right: Integers, starts: Integers, bounds: Floats) -> npt.NDArray[Any]:
    """Sums of left * right by segment, exactly.

    Parameters
    ----------
    left, right : arrays of int64.
    starts : segments.
    bounds : a bound on each segment's sum: int64 below 2**62, else Python integers.

    Returns
    -------
    array of int64, or of Python integers where the sums need more.
    """
    kind = _integer_kind(bounds)
    sums: npt.NDArray[Any] = np.add.reduceat(left.astype(kind, copy=False) * right.astype(kind, copy=False), starts)
    return sums


Exact = npt.NDArray[Any]
"""Integers: of int64, or of Python integers where that could not hold them."""


PIECE = 64
"""Longest stretch whose moments are taken about its least value, where those of a whole segment are too large."""


def integer_moments(values: Integers, weights: Floats, starts: Integers) -> tuple[Exact, Exact, Exact]:
    """Sums of weights, of weights * values and of weights * values**2 by segment, of whole numbers, exactly.

    Where int64 might not hold them they are taken from pieces of each segment, about the least value of each, so that
    a segment of many values makes few Python integers.

    Parameters
    ----------
    values : array of int64, not negative.
    weights : whole numbers below 2**53.
    starts : segments.

    Returns
    -------
    Three arrays of int64, or of Python integers where these need more.
    """
    most = _most_moment(values, weights, starts)
    if _integer_kind(most) is np.int64:
        return _moments(values, weights.astype(np.int64), starts)
    lengths = segment_lengths(starts, len(values))
    pieces = -(-lengths // PIECE)
    first = np.cumsum(pieces) - pieces
    piece_starts = np.repeat(starts - PIECE * first, pieces) + PIECE * np.arange(pieces.sum())
    least = np.minimum.reduceat(values, piece_starts)
    beyond = values - np.repeat(least, segment_lengths(piece_starts, len(values)))
    kind = _integer_kind(_most_moment(beyond, weights, piece_starts))
    moments = _moments(beyond.astype(kind, copy=False), weights.astype(np.int64).astype(kind, copy=False), piece_starts)
    weight = moments[0].astype(object)
    sums, squares = shifted_moments(moments, least, most)
    return np.add.reduceat(weight, first), np.add.reduceat(sums, first), np.add.reduceat(squares, first)


def _moments(values: Exact, weights: Exact, starts: Integers) -> tuple[Exact, Exact, Exact]:
    terms = weights * values
    return np.add.reduceat(weights, starts), np.add.reduceat(terms, starts), np.add.reduceat(terms * values, starts)


def _most_moment(values: Integers, weights: Floats, starts: Integers) -> Floats:
    """A bound on each segment's sums of weights * values**2, and on its other moments."""
    most = np.maximum(np.maximum.reduceat(values, starts), 1).astype(np.float64)
    return np.square(most) * segment_sums(weights, starts)


def shifted_moments(
    moments: tuple[Exact, Exact, Exact], shifts: Floats | Integers, bounds: Floats
) -> tuple[Exact, Exact]:
    """The last two of `integer_moments`, had each segment's values been larger by a whole number.

    Parameters
    ----------
    moments : of the segments.
    shifts : what is added to the values of each segment.
    bounds : a bound on each segment's sums after that.
    """
    shift: Exact = shifts.astype(np.int64).astype(_integer_kind(bounds), copy=False)
    weight, first, second = (moment.astype(shift.dtype, copy=False) for moment in moments)
    return first + shift * weight, second + shift * (2 * first + shift * weight)


def integer_product(factor: int, left: Floats, right: Floats) -> npt.NDArray[Any]:
    """factor * left * right of whole numbers, exactly: int64 where it fits, else Python integers."""
    kind = _integer_kind(factor * left * right)
    product: npt.NDArray[Any] = factor * left.astype(np.int64).astype(kind) * right.astype(np.int64).astype(kind)
    return product


def _integer_kind(bounds: Floats) -> type:
    return np.int64 if np.max(bounds, initial=0.0) < 2.0**62 else object


def add_integers(left: npt.NDArray[Any], right: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """left + right without overflow: Python integers as soon as int64 could not hold the sum."""
    limit = 2**62
    if left.dtype != object and right.dtype != object and max(left.max(initial=0), right.max(initial=0)) < limit:
        return np.asarray(left + right)
    return np.asarray(left.astype(object) + right.astype(object))


def as_decimals(integers: npt.NDArray[Any]) -> list[Decimal]:
    """Exact decimals of integers too large for int64."""
    return [Decimal(int(value)) for value in integers]
