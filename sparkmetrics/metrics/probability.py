"""Measures of scores that are probabilities; NULL for a group with a score outside [0, 1]."""

from __future__ import annotations

import numpy as np

from sparkmetrics.kernel import Floats
from sparkmetrics.metrics.arithmetic import Number, ratio
from sparkmetrics.metrics.counts import Totals
from sparkmetrics.metrics.parts import Sum
from sparkmetrics.metrics.registry import score_metric
from sparkmetrics.metrics.steps import Steps

CLIP = 2.0**-52
"""How far log loss keeps probabilities from 0 and 1 (float64 epsilon, as scikit-learn): a row costs 36.04 at most."""


def _log_losses(steps: Steps) -> Floats:
    p = np.clip(steps.score, CLIP, 1.0 - CLIP)
    return -(steps.positive * np.log(p) + steps.negative * np.log1p(-p))


def _squared_errors(steps: Steps) -> Floats:
    p = np.clip(steps.score, 0.0, 1.0)
    return steps.positive * np.square(1.0 - p) + steps.negative * np.square(p)


@score_metric(
    part=Sum("log_losses", _log_losses, lambda totals: 36.05 * totals.weight),
    formula="-sum (p log s + n log(1 - s)) / W, s clipped to [2^-52, 1 - 2^-52]",
    needs=("weight",),
    best="lowest",
    range=(0.0, 36.05),
    probability=True,
)
def log_loss(log_losses: Number, totals: Totals) -> Number:
    """Mean negative log-likelihood of the labels."""
    return ratio(log_losses, totals.weight)


@score_metric(
    part=Sum("squared_errors", _squared_errors, lambda totals: totals.weight),
    formula="sum (p (1 - s)^2 + n s^2) / W",
    needs=("weight",),
    best="lowest",
    range=(0.0, 1.0),
    source="Brier 1950",
    probability=True,
)
def brier(squared_errors: Number, totals: Totals) -> Number:
    """Mean squared distance of the score from the label."""
    return ratio(squared_errors, totals.weight)
