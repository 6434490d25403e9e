"""Measures of the order of the scores."""

from __future__ import annotations

import numpy as np

from sparkmetrics.kernel import Floats
from sparkmetrics.metrics import binary
from sparkmetrics.metrics.arithmetic import Number, ratio
from sparkmetrics.metrics.counts import Totals
from sparkmetrics.metrics.parts import Largest, Sum, TwiceWins
from sparkmetrics.metrics.registry import score_metric
from sparkmetrics.metrics.steps import Steps

U2 = TwiceWins("u2")


def rate_gap(steps: Steps) -> Floats:
    """|true positive rate - false positive rate| with each score as threshold; NaN without one of the classes.

    One division of whole numbers, so that equal gaps are equal: tp / P - fp / N would be rounded more than once.
    """
    cells, totals = steps.cells, steps.totals
    wider = np.abs(cells.tp * totals.negatives - cells.fp * totals.positives)
    gap: Floats = ratio(wider, totals.positives * totals.negatives)
    return gap


def _precision_of_positives(steps: Steps) -> Floats:
    terms: Floats = steps.positive * binary.precision(steps.cells)
    return terms


@score_metric(
    part=U2,
    formula="U2 / (2 P N), U2 = sum over scores of n (2 P_above + p)",
    needs=("positives", "negatives"),
    best="highest",
    range=(0.0, 1.0),
    source="Hanley and McNeil 1982",
)
def roc_auc(u2: Number, totals: Totals) -> Number:
    """Share of the positive-negative pairs in which the positive scores higher, a tie counting half."""
    return ratio(u2, 2.0 * totals.positives * totals.negatives)


@score_metric(
    part=U2,
    formula="2 roc_auc - 1",
    needs=("positives", "negatives"),
    best="highest",
    range=(-1.0, 1.0),
)
def gini(u2: Number, totals: Totals) -> Number:
    """Gini coefficient of the ranking (Somers' D); negative for a reversed one."""
    return 2.0 * roc_auc(u2, totals) - 1.0


@score_metric(
    part=Sum("precision_sum", _precision_of_positives, lambda totals: totals.positives),
    formula="sum over scores of p precision / P, tie blocks whole",
    needs=("positives",),
    best="highest",
    range=(0.0, 1.0),
)
def average_precision(precision_sum: Number, totals: Totals) -> Number:
    """Mean precision over the positives: the step sum under the precision-recall curve, never the trapezoid."""
    return ratio(precision_sum, totals.positives)


@score_metric(
    part=Largest("largest_gap", rate_gap),
    formula="max |tpr - fpr| over the distinct scores",
    needs=("positives", "negatives"),
    best="highest",
    range=(0.0, 1.0),
    source="Kolmogorov-Smirnov, two samples",
)
def ks(largest_gap: Number, totals: Totals) -> Number:
    """Largest distance between the score distributions of the classes, with the threshold where it is reached."""
    return largest_gap["value"]
