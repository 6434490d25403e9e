"""Measures at a threshold and curves straight from their definitions, in exact fractions, row by row.

Rankings are in `brute_ranking.py`, probabilities in `brute_probability.py`, intervals in `brute_intervals.py`.

Knows nothing of the library. Slow, meant for groups of a few dozen rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import cache, partial
from itertools import pairwise
from typing import NamedTuple

INFINITY = math.inf

Exact = int | Fraction
"""A weight, or a sum or product of weights: never rounded."""


class Row(NamedTuple):
    """A scored example; `label` is 1 or 0."""

    label: int
    score: float
    weight: Exact = 1


class Cells(NamedTuple):
    """Confusion counts."""

    tp: Exact
    fp: Exact
    fn: Exact
    tn: Exact

    @property
    def positives(self) -> Exact:
        return self.tp + self.fn

    @property
    def negatives(self) -> Exact:
        return self.fp + self.tn

    @property
    def called(self) -> Exact:
        """Predicted positives."""
        return self.tp + self.fp

    @property
    def left(self) -> Exact:
        """Predicted negatives."""
        return self.fn + self.tn

    @property
    def weight(self) -> Exact:
        return self.positives + self.negatives

    def total(self, values: Cells) -> Exact:
        """The sum of a value a row, given for each cell."""
        return sum(value * count for value, count in zip(values, self, strict=True))


class Asked(NamedTuple):
    """What measures are asked with.

    `row` is the weight of one row: what rows are weighed in may be a fraction of that.
    """

    beta: Sequence[float] = ()
    costs: Cells = Cells(0, 1, 1, 0)
    payoffs: Cells = Cells(0, 0, 0, 0)
    accuracy_weights: Cells = Cells(1, 1, 1, 1)
    regions: Sequence[tuple[str, float, float]] = ()
    top_k: Sequence[float] = ()
    buckets: int = 10
    bins: int = 10
    confidence: float = 0.95
    row: int = 1


class Measure(NamedTuple):
    """A value, or the reason why there is none."""

    value: Exact | float | None
    reason: str | None


class Point(NamedTuple):
    """A point of a curve."""

    threshold: float
    cells: Cells


def ratio(numerator: Exact, denominator: Exact) -> Fraction | None:
    """None where the denominator is 0."""
    return Fraction(numerator, denominator) if denominator else None


def total(rows: Iterable[Row], label: int) -> Exact:
    """The weight of one class."""
    return sum(row.weight for row in rows if row.label == label)


def wins2(winners: Iterable[Row], losers: Sequence[Row]) -> Exact:
    """Twice the weight of the pairs in which a winners' positive scores above a losers' negative; ties count once."""
    wins: Exact = 0
    for positive in (row for row in winners if row.label == 1):
        for negative in (row for row in losers if row.label == 0):
            if positive.score > negative.score:
                wins += 2 * positive.weight * negative.weight
            elif positive.score == negative.score:
                wins += positive.weight * negative.weight
    return wins


def u2(rows: Sequence[Row]) -> Exact:
    """Twice the Mann-Whitney U of the positives."""
    return wins2(rows, rows)


def cells(rows: Iterable[Row], threshold: float, strict: bool) -> Cells:
    """Confusion counts with every row called positive that scores at least (strict: above) the threshold."""
    counts: dict[tuple[int, bool], Exact] = {(label, called): 0 for label in (0, 1) for called in (False, True)}
    for row in rows:
        called = row.score > threshold if strict else row.score >= threshold
        counts[row.label, called] += row.weight
    return Cells(counts[1, True], counts[0, True], counts[1, False], counts[0, False])


def distinct_scores(rows: Iterable[Row]) -> list[float]:
    """Scores that weigh something, from the highest down."""
    return sorted({row.score for row in rows if row.weight}, reverse=True)


def curve(rows: Sequence[Row], strict: bool) -> list[Point]:
    """The sentinel, then one point a distinct score; under the strict rule its threshold is the next lower score."""
    scores = distinct_scores(rows)
    if not scores:
        return []
    thresholds = [*scores[1:], -INFINITY] if strict else scores
    points = [
        Point(threshold, cells(rows, score, strict=False)) for threshold, score in zip(thresholds, scores, strict=True)
    ]
    return [Point(INFINITY, Cells(0, 0, total(rows, 1), total(rows, 0))), *points]


def rates(c: Cells) -> dict[str, Fraction | None]:
    """What stands beside the counts of a point."""
    precision, prevalence = ratio(c.tp, c.tp + c.fp), ratio(c.positives, c.weight)
    return {
        "tpr": ratio(c.tp, c.positives),
        "fpr": ratio(c.fp, c.negatives),
        "precision": precision,
        "predicted_positive_rate": ratio(c.tp + c.fp, c.weight),
        "lift": precision / prevalence if precision is not None and prevalence else None,
    }


def gap(c: Cells) -> Fraction:
    """|tpr - fpr|."""
    return abs(Fraction(c.tp, c.positives) - Fraction(c.fp, c.negatives))


def ks_point(rows: Sequence[Row], strict: bool) -> Point:
    """Where |tpr - fpr| is largest, the one at the higher threshold where several are."""
    return max(curve(rows, strict)[1:], key=lambda point: gap(point.cells))  # max keeps the first, the highest


def measured(why: Mapping[str, object], value: Callable[[], Exact | float]) -> Measure:
    """The value, or the first reason whose condition holds."""
    reason = next((reason for reason, holds in why.items() if holds), None)
    return Measure(value() if reason is None else None, reason)


def signed_root(square: Fraction, negative: bool) -> float:
    """The square root of an exact number, with a sign."""
    return -math.sqrt(square) if negative else math.sqrt(square)


def mcc(c: Cells) -> float:
    """Matthews correlation; 0 with an empty margin."""
    margins = c.called * c.positives * c.negatives * c.left
    covariance = c.tp * c.tn - c.fp * c.fn
    return signed_root(Fraction(covariance**2, margins), covariance < 0) if margins else 0.0


@cache
def threshold_measures(c: Cells, asked: Asked) -> dict[str, Measure]:
    """The measures of confusion counts."""
    tp, fp, fn, tn = c
    P, N, W, called, left = c.positives, c.negatives, c.weight, c.called, c.left
    found = tp + fp + fn
    no_weight, no_positives, no_negatives = {"no weight": not W}, {"no positives": not P}, {"no negatives": not N}
    no_class = no_positives | no_negatives
    no_called, no_left = {"no predicted positives": not called}, {"no predicted negatives": not left}
    nothing_found = {"no positives or predicted positives": not found}
    chance = called * N + P * left

    def fbeta(beta: float) -> Fraction:
        square = Fraction(beta) ** 2
        return (1 + square) * tp / ((1 + square) * tp + square * fn + fp)

    return {
        "accuracy": measured(no_weight, lambda: Fraction(tp + tn, W)),
        "error_rate": measured(no_weight, lambda: Fraction(fp + fn, W)),
        "balanced_accuracy": measured(no_class, lambda: (Fraction(tp, P) + Fraction(tn, N)) / 2),
        "precision": measured(no_called, lambda: Fraction(tp, called)),
        "recall": measured(no_positives, lambda: Fraction(tp, P)),
        "specificity": measured(no_negatives, lambda: Fraction(tn, N)),
        "fpr": measured(no_negatives, lambda: Fraction(fp, N)),
        "fnr": measured(no_positives, lambda: Fraction(fn, P)),
        "npv": measured(no_left, lambda: Fraction(tn, left)),
        "fdr": measured(no_called, lambda: Fraction(fp, called)),
        "for": measured(no_left, lambda: Fraction(fn, left)),
        **{f"fbeta_{beta:g}": measured(nothing_found, partial(fbeta, beta)) for beta in asked.beta},
        "f1": measured(nothing_found, lambda: Fraction(2 * tp, 2 * tp + fp + fn)),
        "jaccard": measured(nothing_found, lambda: Fraction(tp, found)),
        "precision_recall_mean": measured(
            no_positives | no_called, lambda: (Fraction(tp, called) + Fraction(tp, P)) / 2
        ),
        "precision_recall_min": measured(no_positives | no_called, lambda: Fraction(tp, max(called, P))),
        "fowlkes_mallows": measured(no_positives | no_called, lambda: math.sqrt(Fraction(tp**2, called * P))),
        "gmean": measured(no_class, lambda: math.sqrt(Fraction(tp * tn, P * N))),
        "informedness": measured(no_class, lambda: Fraction(tp, P) + Fraction(tn, N) - 1),
        "markedness": measured(no_called | no_left, lambda: Fraction(tp, called) + Fraction(tn, left) - 1),
        "cohen_kappa": measured(
            no_weight | {"no expected disagreement": not chance}, lambda: 1 - Fraction((fp + fn) * W, chance)
        ),
        "mcc": measured(no_weight, lambda: mcc(c)),
        "prevalence": measured(no_weight, lambda: Fraction(P, W)),
        "predicted_positive_rate": measured(no_weight, lambda: Fraction(called, W)),
        "lr_plus": measured(no_class | {"no false positives": not fp}, lambda: Fraction(tp * N, P * fp)),
        "lr_minus": measured(no_class | {"no true negatives": not tn}, lambda: Fraction(fn * N, P * tn)),
        "dor": measured(
            {"no false positives": not fp, "no false negatives": not fn}, lambda: Fraction(tp * tn, fp * fn)
        ),
        "weighted_accuracy": measured(
            no_weight,
            lambda: c.total(asked.accuracy_weights._replace(fp=0, fn=0)) / Fraction(c.total(asked.accuracy_weights)),
        ),
        "empirical_risk": measured(no_weight, lambda: Fraction(c.total(asked.costs)) / W),
        "profit": measured(no_weight, lambda: Fraction(c.total(asked.payoffs)) / asked.row),
    }


PROPORTIONS: Mapping[str, Callable[[Cells], Exact]] = {
    **dict.fromkeys(("accuracy", "error_rate", "prevalence", "predicted_positive_rate"), lambda c: c.weight),
    **dict.fromkeys(("precision", "fdr"), lambda c: c.called),
    **dict.fromkeys(("recall", "fnr"), lambda c: c.positives),
    **dict.fromkeys(("specificity", "fpr"), lambda c: c.negatives),
    **dict.fromkeys(("npv", "for"), lambda c: c.left),
}
"""What the measures that have Wilson's interval are a share of."""


def thinned(points: Sequence[Point], curve_points: int) -> list[Point]:
    """The points of a curve that are kept, by the rule of the definitions, for whole weights.

    A point is kept when its cell of the ROC square differs from that of the point above it, when
    floor(16 log2(tp + fp)) does, and at both ends and where |tpr - fpr| is largest.
    """
    if not points:
        return []
    P, N = points[-1].cells.tp, points[-1].cells.fp

    def place(c: Cells) -> tuple[int, int, int]:
        called = int(c.tp + c.fp)
        sixteenths = (called**16).bit_length() - 1  # floor(16 log2(called)); -1 stands for minus infinity
        return curve_points * c.fp // N if N else 0, curve_points * c.tp // P if P else 0, sixteenths

    best = max(points[1:], key=lambda point: gap(point.cells)) if P and N else None
    kept = [points[0]]
    for before, point in pairwise(points):
        if place(point.cells) != place(before.cells) or point is points[-1] or point is best:
            kept.append(point)
    return kept
