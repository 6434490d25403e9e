"""What metrics can be asked with. Parameters are part of a metric's name: `fbeta_0.5`, `precision_at_1%`."""

from __future__ import annotations

from dataclasses import dataclass

from sparkmetrics.metrics.counts import Cells

ZERO_ONE = Cells(tp=0.0, fp=1.0, fn=1.0, tn=0.0)
"""The cost of being wrong: the mean of it is the error rate."""

ALIKE = Cells(tp=1.0, fp=1.0, fn=1.0, tn=1.0)
"""Every cell counts alike."""


@dataclass(frozen=True)
class Region:
    """A stretch of an axis of the ROC curve.

    Attributes
    ----------
    axis : "fpr" or "tpr".
    begin, end : 0 <= begin < end <= 1.
    """

    axis: str
    begin: float
    end: float

    @property
    def name(self) -> str:
        """As it stands in the name of a metric: `fpr_0_0.1`."""
        return f"{self.axis}_{as_text(self.begin)}_{as_text(self.end)}"


@dataclass(frozen=True)
class Parameters:
    """The parameters of the metrics of one evaluation, checked by `Options`.

    Attributes
    ----------
    beta : weights of recall in F-beta.
    costs : cost of a row of each cell.
    payoffs : gain of a row of each cell; None asks for no profit.
    accuracy_weights : weights of the cells in `weighted_accuracy`.
    partial_auc : stretches of the ROC curve.
    top_k : tops of the ranking: k >= 1 rows, or a fraction below 1 of the rows.
    buckets : of the gains table.
    calibration_bins : of equal width or equal weight.
    confidence : of intervals.
    """

    beta: tuple[float, ...] = (1.0,)
    costs: Cells = ZERO_ONE
    payoffs: Cells | None = None
    accuracy_weights: Cells = ALIKE
    partial_auc: tuple[Region, ...] = ()
    top_k: tuple[float, ...] = ()
    buckets: int = 10
    calibration_bins: int = 10
    confidence: float = 0.95


def as_text(number: float) -> str:
    """A number as it stands in the name of a metric."""
    return f"{number:.15g}"


def top_text(k: float) -> str:
    """A top as it stands in the name of a metric: `100` rows, or `1%` of them."""
    return as_text(k) if k >= 1 else f"{as_text(100 * k)}%"
