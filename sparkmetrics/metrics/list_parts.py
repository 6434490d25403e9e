"""Parts that are lists of numbers: cells at thresholds, positives in tops of the ranking, bins of scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sparkmetrics import kernel
from sparkmetrics.kernel import Floats, Integers
from sparkmetrics.metrics.arithmetic import Number
from sparkmetrics.metrics.parts import Part, reproducible
from sparkmetrics.metrics.steps import Steps

if TYPE_CHECKING:
    from pyspark.sql import Column

LIST = "array<double>"
CELLS = ("tp", "fp", "fn", "tn")


def lists(values: Floats) -> pa.Array:
    """A matrix as one list a row."""
    offsets = np.arange(len(values) + 1) * values.shape[1]
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(np.ascontiguousarray(values).ravel()))


def element_sums(name: str, size: int) -> Column:
    """The sums of lists of one size, element by element; zeros for a group without any."""
    return _elements(name, size, 0.0, lambda a, b: a + b)


def _elements(name: str, size: int, begin: float, join: Callable[[Column, Column], Column]) -> Column:
    """Lists of one size joined element by element."""
    from pyspark.sql import functions as F

    nothing = F.array_repeat(F.lit(begin), size)
    return F.aggregate(F.collect_list(name), nothing, lambda so_far, x: F.zip_with(so_far, x, lambda a, b: join(a, b)))


MOST_COLUMNS = 8
"""Of so many elements each is a column of its own: Spark adds up numbers many times faster than it joins lists."""


@dataclass(frozen=True)
class CellsAt(Part):
    """Confusion counts at thresholds. Combined: a struct of lists, one element a threshold."""

    thresholds: tuple[float, ...]

    def columns(self) -> dict[str, str]:
        if self._as_columns:
            return {name: "double" for cell in CELLS for name in self._elements(cell)}
        return {f"{self.name}_{cell}": LIST for cell in CELLS}

    @property
    def _as_columns(self) -> bool:
        return 0 < len(self.thresholds) <= MOST_COLUMNS

    def _elements(self, cell: str) -> list[str]:
        return [f"{self.name}_{cell}_{place}" for place in range(len(self.thresholds))]

    def contribute(self, steps: Steps, weighted: bool, strict: bool) -> Mapping[str, pa.Array]:
        nothing = np.zeros(len(steps.starts))
        beyond = dict(zip(CELLS, (nothing, nothing, steps.positives_inside, steps.negatives_inside), strict=True))
        found = {cell: np.empty((len(steps.starts), len(self.thresholds))) for cell in CELLS}
        for column, threshold in enumerate(self.thresholds):
            first = kernel.search(steps.score, steps.starts, steps.ends, threshold, above=strict)
            some = first < steps.ends
            for cell, values in found.items():
                values[:, column] = beyond[cell]
                values[some, column] = getattr(steps.inside, cell)[first[some]]
        if not self._as_columns:
            return {f"{self.name}_{cell}": lists(values) for cell, values in found.items()}
        elements = ((name, found[cell][:, place]) for cell in CELLS for place, name in enumerate(self._elements(cell)))
        return {name: pa.array(np.ascontiguousarray(values)) for name, values in elements}

    def combine(self) -> Column:
        from pyspark.sql import functions as F

        def sums(cell: str) -> Column:
            if not self._as_columns:
                return element_sums(f"{self.name}_{cell}", len(self.thresholds))
            return F.array(*(F.coalesce(F.sum(name), F.lit(0.0)) for name in self._elements(cell)))

        return F.struct(*(sums(cell).alias(cell) for cell in CELLS)).alias(self.name)


@dataclass(frozen=True)
class PositivesInTop(Part):
    """The positives among the highest scores, up to some weights; a tie block across an edge counts in proportion.

    Combined: a list, first one element a bucket (the top i / buckets of the weight), then one for each k.

    Attributes
    ----------
    buckets : equal buckets of the ranking.
    top_k : weights k >= 1, or fractions below 1 of the weight.
    """

    buckets: int
    top_k: tuple[float, ...]

    def columns(self) -> dict[str, str]:
        return {f"{self.name}_whole": LIST, f"{self.name}_split": LIST}

    def edges(self, weight: Floats) -> Floats:
        """The weights that the tops reach down to, shape (groups, edges)."""
        of_buckets = [weight * (i + 1) / self.buckets for i in range(self.buckets)]
        return np.stack([*of_buckets, *(top_weight(k, weight) for k in self.top_k)], axis=1)

    def contribute(self, steps: Steps, weighted: bool, strict: bool) -> Mapping[str, pa.Array]:
        weight = steps.group_totals.weight
        edges = self.edges(weight)
        whole, split = np.empty(edges.shape), np.empty(edges.shape)
        above, mine = steps.above.weight, steps.positive + steps.negative
        down_to = -steps.cells.predicted_positives
        for column, edge in enumerate(edges.T):
            # The lowest score whose block begins above the edge: the last one that reaches it.
            at = kernel.search(down_to, steps.starts, steps.ends, -edge, above=True) - 1
            # A top of all rows holds all positives, also light ones that sums of heavy rows above them lose.
            inside = (at >= steps.starts) & (edge < weight)
            at = np.maximum(at, steps.starts)
            share = np.clip((edge - above[at]) / mine[at], 0.0, 1.0)
            whole[:, column] = np.where(inside, steps.positives_above_inside[at], steps.positives_inside)
            split[:, column] = np.where(inside, steps.positive[at] * share, 0.0)
        return {f"{self.name}_whole": lists(whole), f"{self.name}_split": lists(split)}

    def combine(self) -> Column:
        from pyspark.sql import functions as F

        # Whole blocks add up exactly, and one range has the block that is split: the sum is rounded once.
        whole, split = (element_sums(name, self.buckets + len(self.top_k)) for name in self.columns())
        return F.zip_with(whole, split, lambda a, b: a + b).alias(self.name)


def top_weight(k: float, weight: Number) -> Number:
    """The weight of a top: k itself, or a fraction of the whole."""
    return k + 0.0 * weight if k >= 1 else k * weight


def squared_errors(steps: Steps) -> Floats:
    """(score - label)^2 of all rows at each score."""
    s = np.clip(steps.score, 0.0, 1.0)
    return steps.positive * np.square(1.0 - s) + steps.negative * np.square(s)


@dataclass(frozen=True)
class ScoreBins(Part):
    """Scores in bins.

    Combined: a struct of lists, one element a bin: `weight`, `positives`, `score` (the sum of scores) and
    `squared_errors`; for bins of equal weight also `least` and `largest` (scores; Infinity and -Infinity in a bin
    without weight).

    Attributes
    ----------
    bins : how many.
    equal_weight : bins of about equal weight, which never split a tie block: bin = floor(bins (W_below + w / 2) / W);
        else of equal width on [0, 1]: bin i holds i / bins <= score < (i + 1) / bins, the last one closed.
    """

    bins: int
    equal_weight: bool = False

    def columns(self) -> dict[str, str]:
        names = ["weight", "positives", "score_high", "score_low", "squared_errors_high", "squared_errors_low"]
        ends = ["least", "largest"] if self.equal_weight else []
        return {f"{self.name}_{name}": LIST for name in (*names, *ends)}

    def contribute(self, steps: Steps, weighted: bool, strict: bool) -> Mapping[str, pa.Array]:
        weight, score = steps.positive + steps.negative, np.clip(steps.score, 0.0, 1.0)
        at = self._bins_of(steps, weight, score)
        place = np.repeat(np.arange(len(steps.starts)) * self.bins, steps.lengths) + at
        starts = kernel.segment_starts(place)
        most = steps.group_totals.weight
        scores = reproducible(weight * score, most, steps, weighted)
        errors = reproducible(squared_errors(steps), most, steps, weighted)
        sums = [kernel.segment_sums(values, starts) for values in (weight, steps.positive, *scores, *errors)]
        empty = [0.0] * len(sums)
        if self.equal_weight:
            ends = starts + kernel.segment_lengths(starts, len(score))
            sums += [steps.score[starts], steps.score[ends - 1]]
            empty += [np.inf, -np.inf]
        found = {}
        for name, values, nothing in zip(self.columns(), sums, empty, strict=True):
            matrix = np.full(len(steps.starts) * self.bins, nothing)
            matrix[place[starts]] = values
            found[name] = lists(matrix.reshape(-1, self.bins))
        return found

    def _bins_of(self, steps: Steps, weight: Floats, score: Floats) -> Integers:
        at: Integers = np.searchsorted(np.arange(1, self.bins) / self.bins, score, side="right")
        if self.equal_weight:
            middle = steps.cells.predicted_negatives + weight / 2.0
            at = np.minimum(self.bins * middle / steps.totals.weight, self.bins - 1.0).astype(np.int64)
        return at

    def combine(self) -> Column:
        from pyspark.sql import functions as F

        weight, positives, *halves, least, largest = [*self.columns(), *([] if self.equal_weight else ["", ""])]
        found = {"weight": element_sums(weight, self.bins), "positives": element_sums(positives, self.bins)}
        for name, *names in (("score", *halves[:2]), ("squared_errors", *halves[2:])):
            high, low = (element_sums(half, self.bins) for half in names)
            found[name] = F.zip_with(high, low, lambda a, b: a + b)
        if self.equal_weight:
            found["least"] = _elements(least, self.bins, np.inf, F.least)
            found["largest"] = _elements(largest, self.bins, -np.inf, F.greatest)
        return F.struct(*(column.alias(name) for name, column in found.items())).alias(self.name)
