"""What formulas are written in: the four cells of a confusion table, and the totals of a group."""

from __future__ import annotations

from dataclasses import dataclass

from sparkmetrics.metrics.arithmetic import Number


@dataclass(frozen=True)
class Totals:
    """The weight of the positives and negatives of a group. Columns, arrays or floats.

    The names of the properties, here and in `Cells`, are also the reasons: a metric that needs `positives` is NULL with
    "no positives" where they are 0.
    """

    positives: Number
    negatives: Number

    @property
    def weight(self) -> Number:
        """All rows."""
        return self.positives + self.negatives


@dataclass(frozen=True)
class Cells:
    """True positives, false positives, false negatives and true negatives. Columns, arrays or floats."""

    tp: Number
    fp: Number
    fn: Number
    tn: Number

    @property
    def positives(self) -> Number:
        """Rows whose label is positive."""
        return self.tp + self.fn

    @property
    def negatives(self) -> Number:
        """Rows whose label is negative."""
        return self.fp + self.tn

    @property
    def predicted_positives(self) -> Number:
        """Rows that the threshold calls positive."""
        return self.tp + self.fp

    @property
    def predicted_negatives(self) -> Number:
        """Rows that the threshold calls negative."""
        return self.fn + self.tn

    @property
    def positives_or_predicted_positives(self) -> Number:
        """Rows that are positive, or called so, or both."""
        return self.tp + self.fp + self.fn

    @property
    def weight(self) -> Number:
        """All rows."""
        return self.positives + self.negatives
