"""Best thresholds: the best value of a measure over all thresholds, and the threshold where it is reached.

The candidates are all distinct scores and "predict none" (+Infinity); of equals the higher threshold is reported.
"""

from __future__ import annotations

from functools import partial

from sparkmetrics.metrics import binary
from sparkmetrics.metrics.arithmetic import Number, square_root
from sparkmetrics.metrics.counts import Cells, Totals
from sparkmetrics.metrics.parts import Extreme
from sparkmetrics.metrics.registry import UNBOUNDED, score_metric


@score_metric(
    part=Extreme("best_accuracy", binary.accuracy, with_none=True),
    formula="max accuracy over thresholds",
    needs=("weight",),
    best="highest",
    range=(0.0, 1.0),
)
def best_accuracy(found: Number, totals: Totals) -> Number:
    """Highest accuracy of any threshold."""
    return found["value"]


@score_metric(
    part=Extreme("best_f1", binary.f1, with_none=True),
    formula="max f1 over thresholds",
    needs=("weight",),
    best="highest",
    range=(0.0, 1.0),
)
def best_f1(found: Number, totals: Totals) -> Number:
    """Highest F1 of any threshold."""
    return found["value"]


@score_metric(
    part=Extreme("best_mcc", binary.mcc, with_none=True),
    formula="max mcc over thresholds",
    needs=("weight",),
    best="highest",
    range=(0.0, 1.0),
)
def best_mcc(found: Number, totals: Totals) -> Number:
    """Highest Matthews correlation of any threshold; at least 0, that of predicting none."""
    return found["value"]


@score_metric(
    part=Extreme("best_informedness", binary.informedness, with_none=True),
    formula="max (tpr - fpr) over thresholds",
    needs=("positives", "negatives"),
    of_pairs=True,
    best="highest",
    range=(0.0, 1.0),
    source="Youden 1950",
)
def best_informedness(found: Number, totals: Totals) -> Number:
    """Highest informedness of any threshold: Youden's; at least 0, that of predicting none."""
    return found["value"]


def corner_distance(c: Cells) -> Number:
    """The distance of a ROC point from the top left corner, where every row is called right."""
    fnr, fpr = binary.fnr(c), binary.fpr(c)
    return square_root(fnr * fnr + fpr * fpr)


@score_metric(
    part=Extreme("closest_to_top_left", corner_distance, lowest=True, with_none=True),
    formula="min sqrt((1 - tpr)^2 + fpr^2) over thresholds",
    needs=("positives", "negatives"),
    best="lowest",
    range=(0.0, 1.0),
    source="Perkins and Schisterman 2006",
)
def closest_to_top_left(found: Number, totals: Totals) -> Number:
    """Least distance of the ROC curve from its top left corner."""
    return found["value"]


@score_metric(
    each=lambda parameters: {"best_risk": {"costs": parameters.costs}},
    part=lambda costs: Extreme("best_risk", partial(binary.empirical_risk, costs=costs), lowest=True, with_none=True),
    formula="min empirical_risk over thresholds",
    needs=("weight",),
    best="lowest",
    range=UNBOUNDED,
)
def best_risk(found: Number, totals: Totals, costs: Cells) -> Number:
    """Lowest mean cost of any threshold (costs)."""
    return found["value"]


@score_metric(
    each=lambda parameters: {} if parameters.payoffs is None else {"best_profit": {"payoffs": parameters.payoffs}},
    part=lambda payoffs: Extreme("best_profit", partial(binary.profit, payoffs=payoffs), with_none=True),
    formula="max profit over thresholds",
    needs=("weight",),
    best="highest",
    range=UNBOUNDED,
)
def best_profit(found: Number, totals: Totals, payoffs: Cells) -> Number:
    """Highest profit of any threshold (payoffs)."""
    return found["value"]
