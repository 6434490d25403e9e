"""What formulas are written in: the four cells of a confusion table, and the totals of a group."""

from __future__ import annotations

from dataclasses import dataclass

from sparkmetrics.metrics.arithmetic import Number, ratio


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
    """True positives, false positives, false negatives and true negatives. Columns, arrays or floats.

    Also what goes with each of the cells: a cost, a payoff, a weight.
    """

    tp: Number
    fp: Number
    fn: Number
    tn: Number

    @property
    def false_positives(self) -> Number:
        """Negatives that are called positive."""
        return self.fp

    @property
    def false_negatives(self) -> Number:
        """Positives that are called negative."""
        return self.fn

    @property
    def true_negatives(self) -> Number:
        """Negatives that are called negative."""
        return self.tn

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

    @property
    def shares(self) -> Cells:
        """The cells as shares of all rows: products of these neither overflow nor vanish."""
        return Cells(*(ratio(cell, self.weight) for cell in (self.tp, self.fp, self.fn, self.tn)))

    @property
    def expected_disagreement(self) -> Number:
        """The share of rows that two independent raters with these margins would call differently."""
        s = self.shares
        return s.predicted_positives * s.negatives + s.positives * s.predicted_negatives

    def total(self, values: Cells) -> Number:
        """The sum of a value a row: `values` says it for each cell."""
        return values.tp * self.tp + values.fp * self.fp + values.fn * self.fn + values.tn * self.tn


def nothing_predicted(totals: Totals) -> Cells:
    """The cells above every score: no row is called positive."""
    none = 0.0 * totals.positives
    return Cells(tp=none, fp=none, fn=totals.positives, tn=totals.negatives)
