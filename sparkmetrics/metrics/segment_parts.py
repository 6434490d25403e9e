"""Parts that tell a segment from the total it is part of: its wins and losses against everything, its mean score."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa

from sparkmetrics import kernel
from sparkmetrics.kernel import Floats
from sparkmetrics.metrics.pair_parts import EXACT_TYPE, TwiceWins, exact_sum, exact_total, twice_wins
from sparkmetrics.metrics.parts import Part, reproducible
from sparkmetrics.metrics.steps import Steps

if TYPE_CHECKING:
    from pyspark.sql import Column


@dataclass(frozen=True)
class AgainstAll(Part):
    """Twice the pairs that a segment's positives win over all negatives, and that all positives win over its negatives.

    Combined: a struct of `won`, `lost` and `inside` (both sides of the segment), and the same as `won_exact`,
    `lost_exact`, `inside_exact`: decimal(38,0), NULL where a weight is no whole number.

    Attributes
    ----------
    inside : the part that counts the pairs of the segment, which must be in the same pass.
    """

    inside: TwiceWins
    needs_total: ClassVar[bool] = True

    def columns(self) -> dict[str, str]:
        sides = (f"{self.name}_won", f"{self.name}_lost")
        return {f"{side}_{kind}": of for side in sides for kind, of in (("exact", EXACT_TYPE), ("rounded", "double"))}

    def contribute(self, steps: Steps, weighted: bool, strict: bool) -> Mapping[str, pa.Array]:
        around = steps.around
        assert around is not None  # the evaluator gives it where a part needs it
        total, step, group = around.total, around.step, around.group
        whole = steps.whole and total.whole
        won = twice_wins(
            total.negatives_below_inside[step],
            total.negative[step],
            steps.positive,
            steps.starts,
            outside=total.offsets.negatives_below[group],
            inside=total.negatives_inside[group],
            whole=whole,
        )
        lost = twice_wins(
            total.positives_above_inside[step],
            total.positive[step],
            steps.negative,
            steps.starts,
            outside=total.offsets.positives_above[group],
            inside=total.positives_inside[group],
            whole=whole,
        )
        return dict(zip(self.columns(), (*won, *lost), strict=True))

    def combine(self) -> Column:
        from pyspark.sql import functions as F

        own = list(self.columns())
        sides = {"won": own[:2], "lost": own[2:], "inside": list(self.inside.columns())}
        totals = [exact_total(*side).alias(name) for name, side in sides.items()]
        exact = [exact_sum(*side).alias(f"{name}_exact") for name, side in sides.items()]
        return F.struct(*totals, *exact).alias(self.name)


@dataclass(frozen=True)
class ScoreSum(Part):
    """The sum of the scores of all rows; the same bits in any order when unweighted, while it is below 2**1000.

    It may be infinite, and is NaN where there are infinite scores of both signs.
    """

    def columns(self) -> dict[str, str]:
        return {f"{self.name}_high": "double", f"{self.name}_low": "double"}

    def contribute(self, steps: Steps, weighted: bool, strict: bool) -> Mapping[str, pa.Array]:
        with np.errstate(over="ignore", invalid="ignore"):
            terms: Floats = (steps.positive + steps.negative) * steps.score
            bounds = steps.group_totals.weight * steps.offsets.extent
            rounds = steps.spread(bounds < LARGEST_BOUND)
            high, low = reproducible(terms, bounds, steps, weighted)
            high, low = (np.where(rounds, half, rest) for half, rest in ((high, terms), (low, 0.0)))
            sums = [kernel.segment_sums(half, steps.starts) for half in (high, low)]
        return {name: pa.array(values) for name, values in zip(self.columns(), sums, strict=True)}

    def combine(self) -> Column:
        from pyspark.sql import functions as F

        high, low = self.columns()
        return (F.sum(high) + F.sum(low)).alias(self.name)


LARGEST_BOUND = 2.0**1000
"""Steps that round a larger sum would be past the largest double."""
