"""Measures of two classes at a threshold: each a formula of the four cells.

To add one, write its formula below and register it with what its denominator counts: the tables, the docs and the
invariance tests follow from the registry.
"""

from __future__ import annotations

from sparkmetrics.metrics.arithmetic import Number, ratio
from sparkmetrics.metrics.counts import Cells
from sparkmetrics.metrics.registry import threshold_metric


@threshold_metric(formula="(tp + tn) / (tp + fp + fn + tn)", needs="weight", best="highest")
def accuracy(c: Cells) -> Number:
    """Share of rows called right."""
    return ratio(c.tp + c.tn, c.weight)


@threshold_metric(formula="(fp + fn) / (tp + fp + fn + tn)", needs="weight", best="lowest")
def error_rate(c: Cells) -> Number:
    """Share of rows called wrong."""
    return ratio(c.fp + c.fn, c.weight)


@threshold_metric(formula="tp / (tp + fp)", needs="predicted_positives", best="highest")
def precision(c: Cells) -> Number:
    """Share of the predicted positives that are positive."""
    return ratio(c.tp, c.predicted_positives)


@threshold_metric(formula="tp / (tp + fn)", needs="positives", best="highest")
def recall(c: Cells) -> Number:
    """Share of the positives that are found; sensitivity, true positive rate."""
    return ratio(c.tp, c.positives)


@threshold_metric(formula="tn / (fp + tn)", needs="negatives", best="highest")
def specificity(c: Cells) -> Number:
    """Share of the negatives that are left alone; true negative rate."""
    return ratio(c.tn, c.negatives)


@threshold_metric(formula="fp / (fp + tn)", needs="negatives", best="lowest")
def fpr(c: Cells) -> Number:
    """Share of the negatives that raise a false alarm; false positive rate."""
    return ratio(c.fp, c.negatives)


@threshold_metric(formula="fn / (tp + fn)", needs="positives", best="lowest")
def fnr(c: Cells) -> Number:
    """Share of the positives that are missed; false negative rate."""
    return ratio(c.fn, c.positives)


@threshold_metric(formula="tn / (fn + tn)", needs="predicted_negatives", best="highest")
def npv(c: Cells) -> Number:
    """Share of the predicted negatives that are negative; negative predictive value."""
    return ratio(c.tn, c.predicted_negatives)


@threshold_metric(formula="2 tp / (2 tp + fp + fn)", needs="positives_or_predicted_positives", best="highest")
def f1(c: Cells) -> Number:
    """Harmonic mean of precision and recall; 0 where nothing is found and something is there or called."""
    return ratio(2.0 * c.tp, 2.0 * c.tp + c.fp + c.fn)


@threshold_metric(formula="(tp + fn) / (tp + fp + fn + tn)", needs="weight", best=None)
def prevalence(c: Cells) -> Number:
    """Share of the positives; the same at every threshold."""
    return ratio(c.positives, c.weight)


@threshold_metric(formula="(tp + fp) / (tp + fp + fn + tn)", needs="weight", best=None)
def predicted_positive_rate(c: Cells) -> Number:
    """Share of the rows called positive."""
    return ratio(c.predicted_positives, c.weight)
