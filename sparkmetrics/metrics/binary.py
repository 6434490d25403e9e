"""Measures of two classes, at a threshold or of hard predictions: each a formula of the four cells.

To add one, write its formula below and register it with what its denominator counts: the tables, the docs and the
invariance tests follow from the registry.
"""

from __future__ import annotations

from sparkmetrics.metrics.arithmetic import Number, choose, clip, only_where, ratio, smaller, square_root
from sparkmetrics.metrics.counts import Cells
from sparkmetrics.metrics.parameters import as_text
from sparkmetrics.metrics.registry import UNBOUNDED, threshold_metric


@threshold_metric(formula="(tp + tn) / (tp + fp + fn + tn)", needs=("weight",), best="highest", proportion_of="weight")
def accuracy(c: Cells) -> Number:
    """Share of rows called right."""
    return ratio(c.tp + c.tn, c.weight)


@threshold_metric(formula="(fp + fn) / (tp + fp + fn + tn)", needs=("weight",), best="lowest", proportion_of="weight")
def error_rate(c: Cells) -> Number:
    """Share of rows called wrong."""
    return ratio(c.fp + c.fn, c.weight)


@threshold_metric(formula="(recall + specificity) / 2", needs=("positives", "negatives"), best="highest")
def balanced_accuracy(c: Cells) -> Number:
    """Mean of the shares of positives and of negatives called right."""
    return (recall(c) + specificity(c)) / 2.0


@threshold_metric(
    formula="tp / (tp + fp)",
    needs=("predicted_positives",),
    best="highest",
    proportion_of="predicted_positives",
    averaged=True,
)
def precision(c: Cells) -> Number:
    """Share of the predicted positives that are positive; positive predictive value."""
    return ratio(c.tp, c.predicted_positives)


@threshold_metric(
    formula="tp / (tp + fn)", needs=("positives",), best="highest", proportion_of="positives", averaged=True
)
def recall(c: Cells) -> Number:
    """Share of the positives that are found; sensitivity, true positive rate."""
    return ratio(c.tp, c.positives)


@threshold_metric(formula="tn / (fp + tn)", needs=("negatives",), best="highest", proportion_of="negatives")
def specificity(c: Cells) -> Number:
    """Share of the negatives that are left alone; true negative rate."""
    return ratio(c.tn, c.negatives)


@threshold_metric(formula="fp / (fp + tn)", needs=("negatives",), best="lowest", proportion_of="negatives")
def fpr(c: Cells) -> Number:
    """Share of the negatives that raise a false alarm; false positive rate."""
    return ratio(c.fp, c.negatives)


@threshold_metric(formula="fn / (tp + fn)", needs=("positives",), best="lowest", proportion_of="positives")
def fnr(c: Cells) -> Number:
    """Share of the positives that are missed; false negative rate."""
    return ratio(c.fn, c.positives)


@threshold_metric(
    formula="tn / (fn + tn)", needs=("predicted_negatives",), best="highest", proportion_of="predicted_negatives"
)
def npv(c: Cells) -> Number:
    """Share of the predicted negatives that are negative; negative predictive value."""
    return ratio(c.tn, c.predicted_negatives)


@threshold_metric(
    formula="fp / (tp + fp)", needs=("predicted_positives",), best="lowest", proportion_of="predicted_positives"
)
def fdr(c: Cells) -> Number:
    """Share of the predicted positives that are negative; false discovery rate."""
    return ratio(c.fp, c.predicted_positives)


@threshold_metric(
    name="for",
    formula="fn / (fn + tn)",
    needs=("predicted_negatives",),
    best="lowest",
    proportion_of="predicted_negatives",
)
def false_omission_rate(c: Cells) -> Number:
    """Share of the predicted negatives that are positive; false omission rate."""
    return ratio(c.fn, c.predicted_negatives)


@threshold_metric(
    name="fbeta_B",
    each=lambda parameters: {f"fbeta_{as_text(beta)}": {"beta": beta} for beta in parameters.beta},
    formula="(1 + B^2) tp / ((1 + B^2) tp + B^2 fn + fp)",
    needs=("positives_or_predicted_positives",),
    best="highest",
    source="van Rijsbergen 1979",
    averaged=True,
)
def fbeta(c: Cells, beta: float) -> Number:
    """Weighted harmonic mean of precision and recall, in which recall counts B times as much."""
    square = beta * beta
    return ratio((1.0 + square) * c.tp, (1.0 + square) * c.tp + square * c.fn + c.fp)


@threshold_metric(
    formula="2 tp / (2 tp + fp + fn)", needs=("positives_or_predicted_positives",), best="highest", averaged=True
)
def f1(c: Cells) -> Number:
    """Harmonic mean of precision and recall; 0 where nothing is found and something is there or called."""
    return fbeta(c, beta=1.0)


@threshold_metric(
    formula="tp / (tp + fp + fn)", needs=("positives_or_predicted_positives",), best="highest", averaged=True
)
def jaccard(c: Cells) -> Number:
    """Share found of the rows that are positive or called so; critical success index."""
    return ratio(c.tp, c.positives_or_predicted_positives)


@threshold_metric(formula="(precision + recall) / 2", needs=("positives", "predicted_positives"), best="highest")
def precision_recall_mean(c: Cells) -> Number:
    """Arithmetic mean of precision and recall."""
    return (precision(c) + recall(c)) / 2.0


@threshold_metric(formula="min(precision, recall)", needs=("positives", "predicted_positives"), best="highest")
def precision_recall_min(c: Cells) -> Number:
    """The worse of precision and recall."""
    return smaller(precision(c), recall(c))


@threshold_metric(
    formula="sqrt(precision recall)",
    needs=("positives", "predicted_positives"),
    best="highest",
    source="Fowlkes and Mallows 1983, of two classes; not the index that compares clusterings",
)
def fowlkes_mallows(c: Cells) -> Number:
    """Geometric mean of precision and recall."""
    return square_root(precision(c) * recall(c))


@threshold_metric(formula="sqrt(recall specificity)", needs=("positives", "negatives"), best="highest")
def gmean(c: Cells) -> Number:
    """Geometric mean of the shares of positives and of negatives called right."""
    return square_root(recall(c) * specificity(c))


@threshold_metric(
    formula="recall + specificity - 1",
    needs=("positives", "negatives"),
    of_pairs=True,
    best="highest",
    range=(-1.0, 1.0),
    source="Youden 1950",
)
def informedness(c: Cells) -> Number:
    """How much better than chance positives and negatives are told apart; Youden's J, tpr - fpr.

    One division of whole numbers, so that equal values are equal (while P N is below 2^53); recall + specificity - 1
    rounds three times.
    """
    return ratio(c.tp * c.negatives - c.fp * c.positives, c.positives * c.negatives)


@threshold_metric(
    formula="precision + npv - 1",
    needs=("predicted_positives", "predicted_negatives"),
    best="highest",
    range=(-1.0, 1.0),
    source="Powers 2011",
)
def markedness(c: Cells) -> Number:
    """How much better than chance predictions tell the label."""
    return precision(c) + npv(c) - 1.0


@threshold_metric(
    formula="1 - (observed disagreement) / (disagreement expected of these margins)",
    needs=("weight", "expected_disagreement"),
    best="highest",
    range=(-1.0, 1.0),
    source="Cohen 1960",
)
def cohen_kappa(c: Cells) -> Number:
    """Agreement of prediction and label beyond chance."""
    return 1.0 - ratio(error_rate(c), c.expected_disagreement)


@threshold_metric(
    formula="(tp tn - fp fn) / sqrt((tp + fp) (tp + fn) (fp + tn) (fn + tn)), 0 with an empty margin",
    needs=("weight",),
    best="highest",
    range=(-1.0, 1.0),
    source="Matthews 1975",
)
def mcc(c: Cells) -> Number:
    """Correlation of prediction and label; Matthews correlation coefficient, phi."""
    s = c.shares
    # Paired so that two light margins are not multiplied.
    margins = square_root(s.positives * s.negatives) * square_root(s.predicted_positives * s.predicted_negatives)
    product = clip(ratio(s.tp * s.tn - s.fp * s.fn, choose(margins == 0.0, 1.0, margins)), -1.0, 1.0)
    return choose(margins == 0.0, 0.0, product)


@threshold_metric(formula="(tp + fn) / (tp + fp + fn + tn)", needs=("weight",), best=None, proportion_of="weight")
def prevalence(c: Cells) -> Number:
    """Share of the positives; the same at every threshold."""
    return ratio(c.positives, c.weight)


@threshold_metric(formula="(tp + fp) / (tp + fp + fn + tn)", needs=("weight",), best=None, proportion_of="weight")
def predicted_positive_rate(c: Cells) -> Number:
    """Share of the rows called positive."""
    return ratio(c.predicted_positives, c.weight)


@threshold_metric(
    formula="recall / fpr",
    needs=("positives", "negatives", "false_positives"),
    best="highest",
    range=(0.0, float("inf")),
)
def lr_plus(c: Cells) -> Number:
    """Positive likelihood ratio: how much a positive call raises the odds of a positive."""
    return ratio(recall(c), fpr(c))


@threshold_metric(
    formula="fnr / specificity",
    needs=("positives", "negatives", "true_negatives"),
    best="lowest",
    range=(0.0, float("inf")),
)
def lr_minus(c: Cells) -> Number:
    """Negative likelihood ratio: what a negative call leaves of the odds of a positive."""
    return ratio(fnr(c), specificity(c))


@threshold_metric(
    formula="tp tn / (fp fn)",
    needs=("false_positives", "false_negatives"),
    best="highest",
    range=(0.0, float("inf")),
    source="Glas et al. 2003",
)
def dor(c: Cells) -> Number:
    """Diagnostic odds ratio: the odds of a positive call of positives, over those of negatives."""
    return ratio(c.tp, c.fp) * ratio(c.tn, c.fn)


@threshold_metric(
    each=lambda parameters: {"weighted_accuracy": {"weights": parameters.accuracy_weights}},
    formula="(w_tp tp + w_tn tn) / (w_tp tp + w_fp fp + w_fn fn + w_tn tn)",
    needs=("weight",),
    also_undefined="accuracy_weights of 0 on all cells that occur",
    best="highest",
)
def weighted_accuracy(c: Cells, weights: Cells) -> Number:
    """Share of rows called right when each cell has a weight of its own (accuracy_weights)."""
    return ratio(weights.tp * c.tp + weights.tn * c.tn, c.total(weights))


@threshold_metric(
    each=lambda parameters: {"empirical_risk": {"costs": parameters.costs}},
    formula="sum of cost x count / n; by default right costs 0 and wrong 1",
    needs=("weight",),
    best="lowest",
    range=UNBOUNDED,
    source="Vapnik 1998",
)
def empirical_risk(c: Cells, costs: Cells) -> Number:
    """Mean cost of a row (costs)."""
    return ratio(c.total(costs), c.weight)


@threshold_metric(
    each=lambda parameters: {} if parameters.payoffs is None else {"profit": {"payoffs": parameters.payoffs}},
    formula="sum of payoff x count",
    needs=("weight",),
    best="highest",
    range=UNBOUNDED,
)
def profit(c: Cells, payoffs: Cells) -> Number:
    """What acting on the predictions earns (payoffs)."""
    return only_where(c.weight > 0.0, c.total(payoffs))
