"""How a measure of all scores is put together: what ranges contribute, and how contributions combine over ranges.

A part turns the steps of a range into a few numbers a group (in a worker), and says how Spark combines those of all
ranges into one. The metric's value is then a formula of the combined part and the group's totals.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sparkmetrics import kernel
from sparkmetrics.kernel import Floats
from sparkmetrics.metrics.counts import Totals
from sparkmetrics.metrics.steps import Steps

if TYPE_CHECKING:
    from pyspark.sql import Column

EXACT_TYPE = "decimal(38,0)"
"""Spark's type for integers past 2**63."""


def exact_array(integers: np.ndarray[Any, Any]) -> pa.Array:
    """Integers as decimal(38,0)."""
    if integers.dtype == object:
        return pa.array(kernel.as_decimals(integers), pa.decimal128(38, 0))
    return pa.array(integers.astype(np.int64)).cast(pa.decimal128(38, 0))


def exact_total(exact: str, rounded: str) -> Column:
    """The sum of integers that workers gave exactly, as double; of the rounded ones where some were not integers."""
    from pyspark.sql import functions as F

    all_exact = F.count(exact) == F.count(rounded)
    return F.when(all_exact, F.sum(exact).cast("double")).otherwise(F.sum(rounded))


@dataclass(frozen=True)
class Part(ABC):
    """A contribution of ranges.

    Attributes
    ----------
    name : of its columns.
    """

    name: str

    @abstractmethod
    def columns(self) -> dict[str, str]:
        """The columns a worker emits, with Spark's types."""

    @abstractmethod
    def contribute(self, steps: Steps, weighted: bool, strict: bool) -> Mapping[str, pa.Array]:
        """The values of those columns for each group of the steps (worker)."""

    @abstractmethod
    def combine(self) -> Column:
        """The aggregate over ranges, under the part's name (Spark)."""


@dataclass(frozen=True)
class Sum(Part):
    """A sum of one term a score; the same bits in any order when unweighted (DESIGN: pre-rounded sums).

    Attributes
    ----------
    terms : the term of each score, from its step.
    bound : what the sum of a group cannot exceed, from the group's totals.
    """

    terms: Callable[[Steps], Floats]
    bound: Callable[[Totals], Floats]

    def columns(self) -> dict[str, str]:
        return {f"{self.name}_high": "double", f"{self.name}_low": "double"}

    def contribute(self, steps: Steps, weighted: bool, strict: bool) -> Mapping[str, pa.Array]:
        high = self.terms(steps)
        low = np.zeros(len(high))
        if not weighted:
            totals = steps.group_totals
            high, low = kernel.preround(high, self.bound(totals), totals.weight, steps.lengths)
        sums = (kernel.segment_sums(values, steps.starts) for values in (high, low))
        return {name: pa.array(values) for name, values in zip(self.columns(), sums, strict=True)}

    def combine(self) -> Column:
        from pyspark.sql import functions as F

        high, low = self.columns()
        return (F.sum(high) + F.sum(low)).alias(self.name)


@dataclass(frozen=True)
class Largest(Part):
    """The largest of one value a score, with its threshold; of equals the one at the higher threshold.

    Attributes
    ----------
    values : the value of each score, from its step; NaN where undefined.
    """

    values: Callable[[Steps], Floats]

    def columns(self) -> dict[str, str]:
        return {f"{self.name}_value": "double", f"{self.name}_threshold": "double"}

    def contribute(self, steps: Steps, weighted: bool, strict: bool) -> Mapping[str, pa.Array]:
        values = self.values(steps)
        best = kernel.last_maximum(np.nan_to_num(values, nan=-np.inf), steps.starts)
        undefined = np.isnan(values[best])
        chosen = (values[best], steps.thresholds(strict)[best])
        return {name: pa.array(array, mask=undefined) for name, array in zip(self.columns(), chosen, strict=True)}

    def combine(self) -> Column:
        from pyspark.sql import functions as F

        value, threshold = self.columns()
        return F.max(F.struct(F.col(value).alias("value"), F.col(threshold).alias("threshold"))).alias(self.name)


@dataclass(frozen=True)
class TwiceWins(Part):
    """U2: twice the positive-negative pairs that are in order, a tie counting once. An integer when unweighted.

    Inside a range each negative meets the positives above it and those it ties with; every negative of the range also
    meets all positives of the ranges above.
    """

    def columns(self) -> dict[str, str]:
        return {f"{self.name}_exact": EXACT_TYPE, f"{self.name}_rounded": "double"}

    def contribute(self, steps: Steps, weighted: bool, strict: bool) -> Mapping[str, pa.Array]:
        above = steps.positives_above_inside
        outside, negatives = steps.offsets.positives_above, steps.negatives_inside
        rounded = kernel.segment_sums(steps.negative * (2.0 * above + steps.positive), steps.starts)
        rounded += 2.0 * outside * negatives
        exact = pa.nulls(len(rounded), pa.decimal128(38, 0))
        if kernel.whole(steps.positive, steps.negative) and np.all(outside == np.rint(outside)):
            points = 2 * above.astype(np.int64) + steps.positive.astype(np.int64)
            most = 2.0 * steps.positives_inside * negatives
            inside = kernel.integer_products(points, steps.negative.astype(np.int64), steps.starts, most)
            exact = exact_array(kernel.add_integers(inside, kernel.integer_product(2, outside, negatives)))
        return dict(zip(self.columns(), (exact, pa.array(rounded)), strict=True))

    def combine(self) -> Column:
        return exact_total(*self.columns()).alias(self.name)
