"""Parts that count pairs of a positive and a negative: AUC, ties, and the spread of DeLong's placements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sparkmetrics import kernel
from sparkmetrics.kernel import Floats, Integers
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


def exact_array(integers: np.ndarray[Any, Any]) -> pa.Array:
    """Integers as decimal(38,0)."""
    if integers.dtype == object:
        return pa.array(kernel.as_decimals(integers), pa.decimal128(38, 0))
    return pa.array(integers.astype(np.int64)).cast(pa.decimal128(38, 0))


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


MOMENTS = ("weight", "mean", "squares")
"""Weight, mean, and sum of squared deviations from it."""


@dataclass(frozen=True)
class Placements(Part):
    """How DeLong's placements spread.

    The placement of a positive is the share of the negatives below it, that of a negative the share of the positives
    above it, ties counting half. Combined: a struct of the weight, mean and sum of squared deviations of either side,
    and `whole`: whether all weights are whole numbers. Ranges are merged as in Chan, Golub and LeVeque 1983.
    """

    def columns(self) -> dict[str, str]:
        names = [f"{side}_{moment}" for side in ("positive", "negative") for moment in MOMENTS]
        return {f"{self.name}_{name}": "double" for name in names} | {f"{self.name}_whole": "boolean"}

    def contribute(self, steps: Steps, weighted: bool, strict: bool) -> Mapping[str, pa.Array]:
        above, totals, cells = steps.above, steps.totals, steps.cells
        of_positives = ratio(cells.tn + steps.negative / 2.0, totals.negatives)
        of_negatives = ratio(above.positives + steps.positive / 2.0, totals.positives)
        moments = [*_moments(of_positives, steps.positive, steps), *_moments(of_negatives, steps.negative, steps)]
        whole = np.ones(len(steps.starts), dtype=bool)
        if not steps.whole:
            fractions = (steps.positive != np.rint(steps.positive)) | (steps.negative != np.rint(steps.negative))
            whole = kernel.segment_sums(fractions.astype(np.float64), steps.starts) == 0.0
        arrays = [*(pa.array(moment, mask=np.isnan(moment)) for moment in moments), pa.array(whole)]
        return dict(zip(self.columns(), arrays, strict=True))

    def combine(self) -> Column:
        from pyspark.sql import functions as F

        whole = F.coalesce(F.every(F.col(f"{self.name}_whole")), F.lit(True))
        sides = (_merged(f"{self.name}_{side}").alias(side) for side in ("positive", "negative"))
        return F.struct(*sides, whole.alias("whole")).alias(self.name)


def _moments(values: Floats, weights: Floats, steps: Steps) -> tuple[Floats, Floats, Floats]:
    """Weight, mean and sum of squared deviations of values in each group; NaN where the weight is 0."""
    values = kernel.without_nan(values)
    weight = kernel.segment_sums(weights, steps.starts)
    mean = ratio(kernel.segment_sums(weights * values, steps.starts), weight)
    squares = kernel.segment_sums(weights * np.square(values - steps.spread(kernel.without_nan(mean))), steps.starts)
    return weight, mean, np.where(weight == 0.0, np.nan, squares)


def _merged(name: str) -> Column:
    """The moments of all ranges together, from those of each."""
    from pyspark.sql import functions as F

    weight, mean, squares = (F.col(f"{name}_{moment}") for moment in MOMENTS)
    moments = F.struct(*(column.alias(name) for name, column in zip(MOMENTS, (weight, mean, squares), strict=True)))
    of_ranges = F.collect_list(F.when(mean.isNotNull(), moments))
    nothing = F.struct(*(F.lit(0.0).alias(name) for name in MOMENTS))

    def merge(a: Column, b: Column) -> Column:
        both, apart = a["weight"] + b["weight"], b["mean"] - a["mean"]
        return F.struct(
            both.alias("weight"),
            (a["mean"] + apart * b["weight"] / both).alias("mean"),
            (a["squares"] + b["squares"] + apart * apart * a["weight"] * b["weight"] / both).alias("squares"),
        )

    return F.aggregate(of_ranges, nothing, merge)


def delong_error(placements: Number, totals: Totals) -> Number:
    """DeLong's standard error of the AUC, from combined `Placements`; undefined without two of either class.

    Source: DeLong, DeLong and Clarke-Pearson 1988. Undefined also where weights are not frequencies: whole numbers.
    """
    variance = ratio(placements["positive"]["squares"], totals.positives * (totals.positives - 1.0)) + ratio(
        placements["negative"]["squares"], totals.negatives * (totals.negatives - 1.0)
    )
    # Of less than one row's weight a divisor is negative, and so may the variance be: undefined.
    return square_root(variance)
