"""Measures of class probabilities, from scores of all classes pooled: one score a class of each row.

Pooled, each row is one positive, its label's class, and a negative of every other class.
"""

from __future__ import annotations

import numpy as np

from sparkmetrics.kernel import Floats
from sparkmetrics.metrics.arithmetic import Number, ratio
from sparkmetrics.metrics.counts import Totals
from sparkmetrics.metrics.parameters import Parameters
from sparkmetrics.metrics.parts import Sum
from sparkmetrics.metrics.probability import CLIP, SQUARED_ERRORS
from sparkmetrics.metrics.registry import Metric, ScoreMaker, score_metric
from sparkmetrics.metrics.steps import Steps

POOLED: list[ScoreMaker] = []
"""Metrics of the pooled scores of all classes."""


def _losses_of_labels(steps: Steps) -> Floats:
    losses: Floats = -steps.positive * np.log(np.clip(steps.score, CLIP, 1.0 - CLIP))
    return losses


@score_metric(
    into=POOLED,
    part=Sum("label_losses", _losses_of_labels, lambda totals: 36.05 * totals.positives),
    formula="-sum w log (probability of the label) / W, probabilities clipped to [2^-52, 1 - 2^-52]",
    needs=("weight",),
    best="lowest",
    range=(0.0, 36.05),
)
def log_loss(label_losses: Number, totals: Totals) -> Number:
    """Mean negative log-likelihood of the labels."""
    return ratio(label_losses, totals.positives)


@score_metric(
    into=POOLED,
    part=SQUARED_ERRORS,
    formula="sum over rows and classes of w (probability - [class is the label])^2 / W",
    needs=("weight",),
    best="lowest",
    range=(0.0, 2.0),
    source="Brier 1950",
)
def brier(squared_errors: Number, totals: Totals) -> Number:
    """Mean squared distance of the probabilities from the label, summed over classes."""
    return ratio(squared_errors, totals.positives)


ROC_AUC_OVO = Metric(
    name="roc_auc_ovo",
    shown="roc_auc_ovo",
    purpose="Mean AUC of one class against each other, by the probability of the one",
    formula="mean over ordered pairs (i, j) of classes that occur of A(i, j), the AUC of score i on rows of i "
    "and j; macro, or weighted by t_i + t_j",
    needs=("second_class",),
    best="highest",
    range=(0.0, 1.0),
    source="Hand and Till 2001",
    averaged=True,
)

TOP_K_ACCURACY = Metric(
    name="top_k_accuracy",
    shown="top_k_accuracy_K",
    purpose="Share of rows whose label is among the K most likely classes",
    formula="weight of rows whose label has rank <= K / W; of equals the class that stands first ranks higher",
    needs=("weight",),
    best="highest",
    range=(0.0, 1.0),
    source="",
    averaged=False,
)


def top_k_metrics(parameters: Parameters) -> dict[str, int]:
    """The names of the top-k accuracies that an evaluation asks for, with K: the whole numbers of `top_k`."""
    return {f"{TOP_K_ACCURACY.name}_{int(k)}": int(k) for k in parameters.top_k if float(k).is_integer()}
