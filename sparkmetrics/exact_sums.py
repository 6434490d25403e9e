"""Sums that are the same in any order: of counts as integers, of other numbers as decimals."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

SCALES = ((1e12, 1e30, -60), (1e-6, 1e12, 0), (0.0, 1e-6, 60))
"""Least and largest size of numbers, and the power of two that brings them to where decimal(38,18) holds their digits.
"""


def sum_in_any_order(value: Column) -> Column:
    """The sum of numbers below 1e30, to 15 digits of the largest; of larger ones in the order that they come."""
    size = F.abs(value)
    total = F.coalesce(F.sum(F.when(size >= SCALES[0][1], value)), F.lit(0.0))
    for least, most, power in SCALES:
        scaled = F.when((size >= least) & (size < most), value * 2.0**power)
        total = total + F.coalesce(F.sum(scaled.cast("decimal(38,18)")).cast("double"), F.lit(0.0)) * 2.0**-power
    return total


@dataclass(frozen=True)
class Sums:
    """How to add up counts, and wins, which are products of two.

    Attributes
    ----------
    weighted : whether predictions carried weights; without, counts and wins are integers, and add up as such.
    """

    weighted: bool

    @property
    def count(self) -> str:
        """The type of a count."""
        return "double" if self.weighted else "decimal(18,0)"

    @property
    def wins(self) -> str:
        """The type of a sum of products of two counts."""
        return "double" if self.weighted else "decimal(38,0)"

    def product(self, one: str | Column, other: str | Column) -> Column:
        """The product of two counts."""
        left, right = (F.col(side) if isinstance(side, str) else side for side in (one, other))
        return (left.cast(self.count) * right.cast(self.count)).cast(self.wins)
