"""Parts that count pairs of a positive and a negative: AUC, ties, and the spread of DeLong's placements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sparkmetrics import kernel
from sparkmetrics.kernel import Booleans, Floats, Integers
from sparkmetrics.metrics.arithmetic import Number, only_where, ratio, square_root
from sparkmetrics.metrics.counts import Totals
from sparkmetrics.metrics.parts import Part
from sparkmetrics.metrics.steps import Steps

if TYPE_CHECKING:
    from pyspark.sql import Column

EXACT_TYPE = "decimal(38,0)"
"""Spark's type for integers past 2**63."""


LEAST_PRODUCT = 1e-290
"""A product of weights below it has lost digits."""

TOO_SMALL = "weights too small to multiply"
"""Why a value is NULL that such a product would be in."""


def auc_of(wins2: Number, pairs: Number) -> Number:
    """Share of pairs of a positive and a negative that are in order, from twice their number, a tie counting once."""
    return ratio(wins2, 2.0 * pairs)


def defined_auc(wins2: Number, pairs: Number) -> Number:
    """`auc_of`, undefined where pairs are so few that their product has lost its digits."""
    return only_where(pairs >= LEAST_PRODUCT, auc_of(wins2, pairs))


def exact_array(integers: np.ndarray[Any, Any], where: Booleans | None = None) -> pa.Array:
    """Integers as decimal(38,0); null where they are not wanted."""
    unwanted = None if where is None or where.all() else ~where
    if integers.dtype == object:
        return pa.array(kernel.as_decimals(integers), pa.decimal128(38, 0), mask=unwanted)
    return pa.array(integers.astype(np.int64), mask=unwanted).cast(pa.decimal128(38, 0))


def exact_sum(exact: str, rounded: str) -> Column:
    """The sum of integers that workers gave exactly, as decimal(38,0); NULL where some were not integers."""
    from pyspark.sql import functions as F

    return F.when(F.count(exact) == F.count(rounded), F.sum(exact))


def exact_total(exact: str, rounded: str) -> Column:
    """`exact_sum` as double; the sum of the rounded ones where some were not integers."""
    from pyspark.sql import functions as F

    return F.coalesce(exact_sum(exact, rounded).cast("double"), F.sum(rounded))


def twice_wins(
    above: Floats,
    beside: Floats,
    weight: Floats,
    starts: Integers,
    *,
    outside: Floats,
    inside: Floats,
    whole: bool,
    tie: int = 1,
) -> tuple[pa.Array, pa.Array]:
    """Twice the weight of the pairs that each group wins: the sum over its scores of weight * (2 above + tie beside).

    Parameters
    ----------
    above : what each score wins against in the range, shape (n,).
    beside : what it ties with.
    weight : its own weight.
    starts : where each group's scores begin.
    outside : what all scores of a group win against in other ranges, shape (groups,).
    inside : a bound on above + beside, shape (groups,).
    whole : whether all of these are whole numbers.
    tie : what twice a tied pair counts.

    Returns
    -------
    The sums as decimal(38,0), null unless whole; and rounded to doubles.
    """
    sums = kernel.segment_sums(weight, starts)
    rounded = kernel.segment_sums(weight * (2.0 * above + tie * beside), starts) + 2.0 * outside * sums
    exact = pa.nulls(len(starts), pa.decimal128(38, 0))
    if len(starts) and whole and np.all(outside == np.rint(outside)):
        points = 2 * above.astype(np.int64) + tie * beside.astype(np.int64)
        products = kernel.integer_products(points, weight.astype(np.int64), starts, 2.0 * inside * sums)
        exact = exact_array(kernel.add_integers(products, kernel.integer_product(2, outside, sums)))
    return exact, pa.array(rounded)


@dataclass(frozen=True)
class TwiceWins(Part):
    """U2: twice the positive-negative pairs that are in order, a tie counting half. An integer when unweighted.

    Inside a range each negative meets the positives above it and those it ties with; every negative of the range also
    meets all positives of the ranges above.

    Attributes
    ----------
    tie : what twice a tied pair counts: 1, or 2 where ties are taken for wins.
    """

    tie: int = 1

    def columns(self) -> dict[str, str]:
        return {f"{self.name}_exact": EXACT_TYPE, f"{self.name}_rounded": "double"}

    def contribute(self, steps: Steps, weighted: bool, strict: bool) -> Mapping[str, pa.Array]:
        found = twice_wins(
            steps.positives_above_inside,
            steps.positive,
            steps.negative,
            steps.starts,
            outside=steps.offsets.positives_above,
            inside=steps.positives_inside,
            whole=steps.whole,
            tie=self.tie,
        )
        return dict(zip(self.columns(), found, strict=True))

    def combine(self) -> Column:
        return exact_total(*self.columns()).alias(self.name)


MOST_PRODUCT = 1e36
"""While N^2 P is below it decimal(38,0) holds all that DeLong's variance is made from: eight times that, and sums."""


@dataclass(frozen=True)
class Placements(Part):
    """How DeLong's placements spread.

    The placement of a positive is the share of the negatives below it, that of a negative the share of the positives
    above it, ties counting half. Of whole weights 2 N placements are integers, whose sums and sums of squares add up
    exactly. Combined: a struct of `positive` and `negative`, the sum of squared deviations of either side from their
    mean, and `whole`: whether all weights are whole numbers.
    """

    def columns(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for side in ("positive", "negative"):
            exact, rounded = self._sums(side)
            found |= dict.fromkeys(exact, EXACT_TYPE) | dict.fromkeys(rounded, "double")
        return found | {f"{self.name}_whole": "boolean"}

    def contribute(self, steps: Steps, weighted: bool, strict: bool) -> Mapping[str, pa.Array]:
        offsets = steps.offsets
        whole = np.ones(len(steps.starts), dtype=bool)
        if not steps.whole:
            fractions = (steps.positive != np.rint(steps.positive)) | (steps.negative != np.rint(steps.negative))
            whole = kernel.segment_sums(fractions.astype(np.float64), steps.starts) == 0.0
        of_positives = _sums(
            steps,
            whole,
            weight=steps.positive,
            beaten=steps.negatives_below_inside,
            tied=steps.negative,
            outside=offsets.negatives_below,
            all_of_mine=offsets.all_positives,
            all_of_others=offsets.all_negatives,
        )
        of_negatives = _sums(
            steps,
            whole,
            weight=steps.negative,
            beaten=steps.positives_above_inside,
            tied=steps.positive,
            outside=offsets.positives_above,
            all_of_mine=offsets.all_negatives,
            all_of_others=offsets.all_positives,
        )
        return dict(zip(self.columns(), (*of_positives, *of_negatives, pa.array(whole)), strict=True))

    def combine(self) -> Column:
        from pyspark.sql import functions as F

        whole = F.coalesce(F.every(F.col(f"{self.name}_whole")), F.lit(True))
        positives, negatives = F.sum("positives"), F.sum("negatives")
        sides = (
            _spread(*self._sums("positive"), positives, negatives).alias("positive"),
            _spread(*self._sums("negative"), negatives, positives).alias("negative"),
        )
        return F.struct(*sides, whole.alias("whole")).alias(self.name)

    def _sums(self, side: str) -> tuple[list[str], list[str]]:
        """The columns of a side: sum and sum of squares of 2 N placements, exact, and of placements, rounded."""
        exact, rounded = (
            [f"{self.name}_{side}_{kind}{sums}" for sums in ("sum", "squares")] for kind in ("", "rounded_")
        )
        return exact, rounded


def _sums(
    steps: Steps,
    whole: Booleans,
    *,
    weight: Floats,
    beaten: Floats,
    tied: Floats,
    outside: Floats,
    all_of_mine: Floats,
    all_of_others: Floats,
) -> list[pa.Array]:
    """The sums of the placements of one side, by group: 2 N placements and their squares exactly, placements rounded.

    Parameters
    ----------
    steps, whole : the scores, and which groups have whole weights alone.
    weight : of the side at each score.
    beaten, tied : what each score beats in the range, and what it ties with.
    outside : what all scores of a group beat in other ranges.
    all_of_mine, all_of_others : the totals of the side and of the other one.
    """
    placements = kernel.without_nan(ratio(steps.spread(outside) + beaten + 0.5 * tied, steps.spread(all_of_others)))
    terms = weight * placements
    rounded = [pa.array(kernel.segment_sums(values, steps.starts)) for values in (terms, terms * placements)]
    fits = whole & (np.maximum(all_of_mine, all_of_others) < kernel.EXACT)
    bounds = np.where(fits, np.square(2.0 * all_of_others) * all_of_mine, 0.0)
    fits &= bounds < 4.0 * MOST_PRODUCT
    if not fits.any():
        return [*(pa.nulls(len(fits), pa.decimal128(38, 0)) for _ in range(2)), *rounded]
    if not fits.all():
        kept = np.repeat(fits, steps.lengths)
        weight, beaten, tied = (np.where(kept, values, 0.0) for values in (weight, beaten, tied))
        outside, bounds = np.where(fits, outside, 0.0), np.where(fits, bounds, 0.0)
    # A range has few of the pairs of a large group: int64 holds theirs, and the offset is added group by group.
    moments = kernel.integer_moments(2 * beaten.astype(np.int64) + tied.astype(np.int64), weight, steps.starts)
    return [*(exact_array(sums, fits) for sums in kernel.shifted_moments(moments, 2.0 * outside, bounds)), *rounded]


def _spread(exact: list[str], rounded: list[str], mine: Column, others: Column) -> Column:
    """The sum of squared deviations of placements from their mean, over all ranges.

    Of integers it is taken about the integer next to the mean, where no digit is lost. Totals too large for that are
    rounded: they lose as many digits as the mean is larger than the spread.
    """
    from pyspark.sql import functions as F

    sums, squares = (exact_sum(name, also) for name, also in zip(exact, rounded, strict=True))
    weight = F.when(sums.isNotNull(), mine).cast(EXACT_TYPE)
    middle = F.rint(ratio(sums.cast("double"), mine)).cast(EXACT_TYPE)
    about = (squares - middle * (sums + sums - middle * weight)).cast("double")
    beside = (sums - middle * weight).cast("double")
    scale = 2.0 * others
    of_integers = ratio(about - ratio(beside * beside, mine), scale * scale)
    total, total_squares = (F.sum(name) for name in rounded)
    of_doubles = F.greatest(total_squares - ratio(total * total, mine), F.lit(0.0))
    return F.coalesce(of_integers, of_doubles)


def delong_error(placements: Number, totals: Totals) -> Number:
    """DeLong's standard error of the AUC, from combined `Placements`; undefined without two of either class.

    Source: DeLong, DeLong and Clarke-Pearson 1988. Undefined also where weights are not frequencies: whole numbers.
    """
    variance = ratio(placements["positive"], totals.positives * (totals.positives - 1.0)) + ratio(
        placements["negative"], totals.negatives * (totals.negatives - 1.0)
    )
    # Of less than one row's weight a divisor is negative, and so may the variance be: undefined.
    return square_root(variance)
