"""Every measure straight from its definition: over pairs of rows, row by row at a threshold, in exact fractions.

Knows nothing of the library. Slow, meant for groups of a few dozen rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
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
    def weight(self) -> Exact:
        return self.positives + self.negatives


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


def average_precision(rows: Sequence[Row]) -> Fraction:
    """The step sum of precision over recall."""
    area, before = Fraction(0), Fraction(0)
    for point in curve(rows, strict=False)[1:]:
        c = point.cells
        recall = Fraction(c.tp, c.positives)
        if recall > before:
            area += (recall - before) * Fraction(c.tp, c.tp + c.fp)
        before = recall
    return area


def log_loss(rows: Iterable[Row]) -> float:
    """Mean negative log-likelihood, probabilities kept 2**-52 away from 0 and 1."""
    rows = [row for row in rows if row.weight]
    losses = []
    for row in rows:
        p = min(max(row.score, 2.0**-52), 1.0 - 2.0**-52)
        losses.append(-float(row.weight) * (math.log(p) if row.label else math.log1p(-p)))
    return math.fsum(losses) / math.fsum(float(row.weight) for row in rows)


def brier(rows: Iterable[Row]) -> Fraction:
    """Mean squared distance of score and label."""
    rows = [row for row in rows if row.weight]
    return sum(row.weight * (row.label - Fraction(row.score)) ** 2 for row in rows) / Fraction(
        sum(row.weight for row in rows)
    )


class Measure(NamedTuple):
    """A value, or the reason why there is none."""

    value: Fraction | float | None
    reason: str | None


def threshold_measures(c: Cells) -> dict[str, Measure]:
    """The measures of confusion counts."""
    tp, fp, fn, tn = c
    fractions: dict[str, tuple[Exact, Exact, str]] = {
        "accuracy": (tp + tn, c.weight, "no weight"),
        "error_rate": (fp + fn, c.weight, "no weight"),
        "precision": (tp, tp + fp, "no predicted positives"),
        "recall": (tp, tp + fn, "no positives"),
        "specificity": (tn, fp + tn, "no negatives"),
        "fpr": (fp, fp + tn, "no negatives"),
        "fnr": (fn, tp + fn, "no positives"),
        "npv": (tn, fn + tn, "no predicted negatives"),
        "f1": (2 * tp, 2 * tp + fp + fn, "no positives or predicted positives"),
        "prevalence": (tp + fn, c.weight, "no weight"),
        "predicted_positive_rate": (tp + fp, c.weight, "no weight"),
    }
    return {
        name: Measure(ratio(numerator, denominator), None if denominator else why)
        for name, (numerator, denominator, why) in fractions.items()
    }


def score_measures(rows: Sequence[Row]) -> dict[str, Measure]:
    """The measures of all scores."""
    P, N, scores = total(rows, 1), total(rows, 0), distinct_scores(rows)
    no_class = "no positives" if not P else "no negatives" if not N else None
    no_probability = "no weight" if not scores else "scores outside [0, 1]" if scores[0] > 1 or scores[-1] < 0 else None
    undefined = Measure(None, no_class)
    auc = None if no_class else Fraction(u2(rows), 2 * P * N)
    return {
        "roc_auc": Measure(auc, no_class),
        "gini": Measure(None if auc is None else 2 * auc - 1, no_class),
        "average_precision": Measure(average_precision(rows), None) if P else undefined,
        "ks": undefined if no_class else Measure(gap(ks_point(rows, strict=False).cells), None),
        "log_loss": Measure(None if no_probability else log_loss(rows), no_probability),
        "brier": Measure(None if no_probability else brier(rows), no_probability),
    }


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
