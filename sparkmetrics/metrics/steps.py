"""What a distinct score knows: its own weight, and the weight above and below it in its group.

A score's *step* is the move a threshold makes when it passes it: `tp` and `fp` count it, and all above it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from sparkmetrics import kernel
from sparkmetrics.kernel import Floats, Integers
from sparkmetrics.metrics.counts import Cells, Totals

Value = TypeVar("Value")


class once(Generic[Value]):  # noqa: N801 - used like property
    """A property that is computed when first read.

    functools.cached_property holds a lock before Python 3.12, and a class with a lock cannot be shipped to workers.
    """

    def __init__(self, compute: Callable[[Any], Value]) -> None:
        self.compute = compute
        self.__doc__ = compute.__doc__

    def __get__(self, instance: Any, owner: type) -> Value:
        value = self.compute(instance)
        instance.__dict__[self.compute.__name__] = value
        return value


@dataclass(frozen=True)
class Offsets:
    """What lies outside the range at hand, for each group. Arrays of float64, shape (groups,).

    Attributes
    ----------
    positives_above, negatives_above, positives_below, negatives_below : weight in the ranges above and below.
    all_positives, all_negatives : the group's totals over all ranges.
    score_below : the group's largest score in the ranges below; -inf where there is none.
    extent : the group's largest score without its sign, over all ranges.
    """

    positives_above: Floats
    negatives_above: Floats
    positives_below: Floats
    negatives_below: Floats
    all_positives: Floats
    all_negatives: Floats
    score_below: Floats
    extent: Floats

    def of(self, groups: Integers) -> Offsets:
        """The offsets of some of the groups."""
        return Offsets(**{name: values[groups] for name, values in vars(self).items()})


@dataclass(frozen=True)
class Steps:
    """The distinct scores of one range, of several groups, one group after the other.

    Attributes
    ----------
    score : array of float64, shape (n,): increasing within a group.
    positive, negative : array of float64, shape (n,): weight at each score.
    starts : array of int64, shape (groups,): where each group begins; none is empty.
    offsets : what lies outside the range, for the same groups.
    around : the total that the groups are segments of, where it is wanted.
    """

    score: Floats
    positive: Floats
    negative: Floats
    starts: Integers
    offsets: Offsets
    around: Around | None = None

    @once
    def lengths(self) -> Integers:
        """The number of distinct scores of each group in the range."""
        return kernel.segment_lengths(self.starts, len(self.score))

    @once
    def ends(self) -> Integers:
        """Where each group ends: the index behind its last score."""
        return self.starts + self.lengths

    @once
    def whole(self) -> bool:
        """Whether all weights are whole numbers whose sums are exact."""
        return kernel.whole(self.positive, self.negative)

    def spread(self, per_group: Floats) -> Floats:
        """A value of each group, repeated for each of its scores."""
        return np.repeat(per_group, self.lengths)

    @once
    def positives_inside(self) -> Floats:
        """The weight of each group's positives in the range, shape (groups,)."""
        return kernel.segment_sums(self.positive, self.starts)

    @once
    def negatives_inside(self) -> Floats:
        """The weight of each group's negatives in the range, shape (groups,)."""
        return kernel.segment_sums(self.negative, self.starts)

    @property
    def group_totals(self) -> Totals:
        """The totals of each group over all ranges, shape (groups,)."""
        return Totals(self.offsets.all_positives, self.offsets.all_negatives)

    @once
    def totals(self) -> Totals:
        """The totals of a score's group, at each score."""
        return Totals(self.spread(self.offsets.all_positives), self.spread(self.offsets.all_negatives))

    @once
    def inside(self) -> Cells:
        """Confusion counts of the range alone, with each score as threshold.

        `fn` and `tn` are summed from below: totals less `tp` and `fp` would not be 0 at the lowest weighted score.
        """
        known = True if self.whole else None  # one of the two may be whole where the other is not
        below = (kernel.cumulate(weights, self.starts, known) for weights in (self.positive, self.negative))
        fn, tn = (kernel.preceding(sums, self.starts) for sums in below)
        return Cells(
            tp=kernel.cumulate_from_end(self.positive, self.starts, known),
            fp=kernel.cumulate_from_end(self.negative, self.starts, known),
            fn=fn,
            tn=tn,
        )

    @once
    def cells(self) -> Cells:
        """Confusion counts of the group with each score as threshold."""
        outside, inside = self.offsets, self.inside
        return Cells(
            tp=self.spread(outside.positives_above) + inside.tp,
            fp=self.spread(outside.negatives_above) + inside.fp,
            fn=self.spread(outside.positives_below) + inside.fn,
            tn=self.spread(outside.negatives_below) + inside.tn,
        )

    @once
    def positives_above_inside(self) -> Floats:
        """The weight of the positives of the range strictly above each score."""
        return kernel.following(self.inside.tp, self.starts)

    @property
    def negatives_below_inside(self) -> Floats:
        """The weight of the negatives of the range strictly below each score."""
        below: Floats = self.inside.tn
        return below

    @once
    def above(self) -> Totals:
        """The weight strictly above each score: `tp` and `fp` one step earlier."""
        negatives = kernel.following(self.inside.fp, self.starts)
        return Totals(
            self.spread(self.offsets.positives_above) + self.positives_above_inside,
            self.spread(self.offsets.negatives_above) + negatives,
        )

    def thresholds(self, strict: bool) -> Floats:
        """The threshold that ends at each score: the score itself, or under rule ">" the next lower one."""
        if not strict:
            return self.score
        lower = np.roll(self.score, 1)
        lower[self.starts] = self.offsets.score_below
        return lower


@dataclass(frozen=True)
class Around:
    """Everything that segments are part of, in the same range.

    Attributes
    ----------
    total : the scores of all segments together.
    step : array of int64: for each step of the segments, the step of the total at the same score.
    group : array of int64, shape (groups,): the group of the total that each segment is part of.
    """

    total: Steps
    step: Integers
    group: Integers
