"""How a measure of all scores is put together: what ranges contribute, and how contributions combine over ranges.

A part turns the steps of a range into a few numbers a group (in a worker), and says how Spark combines those of all
ranges into one. The metric's value is then a formula of the combined part and the group's totals.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa

from sparkmetrics import kernel
from sparkmetrics.kernel import Floats
from sparkmetrics.metrics.arithmetic import Number
from sparkmetrics.metrics.counts import Cells, Totals, nothing_predicted
from sparkmetrics.metrics.steps import Steps

if TYPE_CHECKING:
    from pyspark.sql import Column


@dataclass(frozen=True)
class Part(ABC):
    """A contribution of ranges.

    Attributes
    ----------
    name : of its columns.
    """

    name: str
    needs_total: ClassVar[bool] = False
    """Whether contributions need what lies around the groups (`Steps.around`)."""

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
        terms = reproducible(self.terms(steps), self.bound(steps.group_totals), steps, weighted)
        sums = (kernel.segment_sums(values, steps.starts) for values in terms)
        return {name: pa.array(values) for name, values in zip(self.columns(), sums, strict=True)}

    def combine(self) -> Column:
        from pyspark.sql import functions as F

        high, low = self.columns()
        return (F.sum(high) + F.sum(low)).alias(self.name)


def reproducible(terms: Floats, bounds: Floats, steps: Steps, weighted: bool) -> tuple[Floats, Floats]:
    """Terms of each score as two parts that add up to the same bits in any order, when unweighted.

    Parameters
    ----------
    terms : one of each score.
    bounds : of each group, what the sum of its absolute terms cannot exceed.
    """
    if weighted:
        return terms, np.zeros(len(terms))
    return kernel.preround(terms, bounds, steps.group_totals.weight, steps.lengths)


@dataclass(frozen=True)
class Extreme(Part):
    """The best of one value a score, with its threshold; of equals the one at the higher threshold.

    Attributes
    ----------
    values : the value at a threshold, from its cells; undefined where it is no candidate.
    lowest : whether the lowest value is the best.
    with_none : whether the threshold +Infinity, above every score, is a candidate.
    """

    values: Callable[[Cells], Number]
    lowest: bool = False
    with_none: bool = False

    def columns(self) -> dict[str, str]:
        return {f"{self.name}_value": "double", f"{self.name}_threshold": "double"}

    def contribute(self, steps: Steps, weighted: bool, strict: bool) -> Mapping[str, pa.Array]:
        sign = -1.0 if self.lowest else 1.0
        values = kernel.without_nan(sign * self.values(steps.cells), -np.inf)
        at = kernel.last_maximum(values, steps.starts)
        best, threshold = values[at], steps.thresholds(strict)[at]
        if self.with_none:
            offsets = steps.offsets
            is_top = (offsets.positives_above == 0) & (offsets.negatives_above == 0)
            none = kernel.without_nan(sign * self.values(nothing_predicted(steps.group_totals)), -np.inf)
            better = is_top & (none >= best)
            best, threshold = np.where(better, none, best), np.where(better, np.inf, threshold)
        undefined = np.isneginf(best)
        chosen = (sign * best, threshold)
        return {name: pa.array(array, mask=undefined) for name, array in zip(self.columns(), chosen, strict=True)}

    def combine(self) -> Column:
        from pyspark.sql import functions as F

        value, threshold = (F.col(name) for name in self.columns())
        order = F.struct(-value if self.lowest else value, threshold)
        of_range = F.struct(value.alias("value"), threshold.alias("threshold"))
        return F.max_by(of_range, F.when(value.isNotNull(), order)).alias(self.name)
