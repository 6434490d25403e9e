"""Measures of rankings straight from their definitions, in exact fractions: over pairs of rows, and along the curve."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import cache, partial
from itertools import pairwise

from brute_force import (
    Asked,
    Cells,
    Exact,
    Measure,
    Point,
    Row,
    curve,
    distinct_scores,
    gap,
    ks_point,
    mcc,
    measured,
    ratio,
    total,
    u2,
)
from brute_intervals import delong_error, whole


def tied_pairs(rows: Sequence[Row]) -> Exact:
    """The weight of the pairs of a positive and a negative with the same score."""
    return sum(p.weight * n.weight for p in rows for n in rows if p.label and not n.label and p.score == n.score)


def average_precision(rows: Sequence[Row]) -> Fraction:
    """The step sum of precision over recall."""
    area, before = Fraction(0), Fraction(0)
    for point in curve(rows, strict=False)[1:]:
        c = point.cells
        recall = Fraction(c.tp, c.positives)
        if recall > before:
            area += (recall - before) * Fraction(c.tp, c.called)
        before = recall
    return area


def trapezoid_area(rows: Sequence[Row]) -> Fraction:
    """Under straight lines between precision-recall points, from (0, precision of the first block)."""
    points = [(Fraction(c.tp, c.positives), Fraction(c.tp, c.called)) for _, c in curve(rows, strict=False)[1:]]
    points.insert(0, (Fraction(0), points[0][1]))
    return sum(((x1 - x0) * (y0 + y1) / 2 for (x0, y0), (x1, y1) in pairwise(points)), Fraction(0))


def partial_area(rows: Sequence[Row], axis: str, begin: float, end: float) -> Fraction:
    """Of tpr over a stretch of fpr, or of 1 - fpr over a stretch of tpr: under straight lines between ROC points."""
    points = []
    for _, c in curve(rows, strict=False):
        fpr, tpr = Fraction(c.fp, c.negatives), Fraction(c.tp, c.positives)
        points.append((fpr, tpr) if axis == "fpr" else (tpr, 1 - fpr))
    area = Fraction(0)
    for (x0, y0), (x1, y1) in pairwise(points):
        left, right = max(x0, Fraction(begin)), min(x1, Fraction(end))
        if left < right:
            heights = [y0 + (y1 - y0) * (x - x0) / (x1 - x0) for x in (left, right)]
            area += (right - left) * sum(heights) / 2
    return area


def corrected(area: Fraction, axis: str, begin: float, end: float) -> Fraction:
    """McClish's: chance is 1/2, perfection 1."""
    a, b = Fraction(begin), Fraction(end)
    least = (b**2 - a**2) / 2 if axis == "fpr" else ((1 - a) ** 2 - (1 - b) ** 2) / 2
    return (1 + (area - least) / (b - a - least)) / 2


def positives_in_top(rows: Sequence[Row], weight: Exact) -> Exact:
    """The positives in the highest scores of that weight; a tie block across the edge counts in proportion."""
    found, left = Fraction(0), Fraction(weight)
    for score in distinct_scores(rows):
        block = [row for row in rows if row.score == score]
        p, w = total(block, 1), sum(row.weight for row in block)
        found += p * min(left / w, Fraction(1))
        left -= min(left, Fraction(w))
    return found


def gains(rows: Sequence[Row], buckets: int) -> list[dict[str, Fraction | None]]:
    """Equal buckets of the ranking, from the highest scores down."""
    P, W = total(rows, 1), sum(row.weight for row in rows)
    size, prevalence = Fraction(W, buckets), Fraction(P, W)
    cumulative = [positives_in_top(rows, size * i) for i in range(buckets + 1)]
    return [
        {
            "rows": size,
            "positives": after - before,
            "positive_rate": (after - before) / size,
            "cumulative_positives": after,
            "cumulative_gain": after / P if P else None,
            "lift": (after - before) / size / prevalence if P else None,
            "cumulative_lift": after / (size * i) / prevalence if P else None,
        }
        for i, (before, after) in enumerate(pairwise(cumulative), start=1)
    ]


Values = Callable[[Cells], Exact | float | None]
"""A value at a threshold; None where it is no candidate."""


def corner_distance(c: Cells) -> float:
    """From the ROC point to (0, 1)."""
    return math.sqrt(Fraction(c.fn, c.positives) ** 2 + Fraction(c.fp, c.negatives) ** 2)


def thresholds_to_choose(asked: Asked) -> dict[str, tuple[Values, str, int]]:
    """The measures that are the best of a value over thresholds: value, need, and 1 for max, -1 for min."""
    return {
        "best_accuracy": (lambda c: Fraction(c.tp + c.tn, c.weight), "weight", 1),
        "best_f1": (lambda c: ratio(2 * c.tp, 2 * c.tp + c.fp + c.fn), "weight", 1),
        "best_mcc": (mcc, "weight", 1),
        "best_informedness": (lambda c: Fraction(c.tp, c.positives) - Fraction(c.fp, c.negatives), "classes", 1),
        "closest_to_top_left": (corner_distance, "classes", -1),
        "best_risk": (lambda c: Fraction(c.total(asked.costs)) / c.weight, "weight", -1),
        "best_profit": (lambda c: Fraction(c.total(asked.payoffs)) / asked.row, "weight", 1),
    }


def best_point(points: Iterable[Point], values: Values, sign: int) -> tuple[Exact | float, float]:
    """The best value and the highest threshold that has it."""
    candidates = [(value, t) for t, c in points if (value := values(c)) is not None]
    return max(candidates, key=lambda candidate: sign * candidate[0])  # max keeps the first, the highest


@cache
def ranking_measures(rows: tuple[Row, ...], asked: Asked) -> dict[str, Measure]:
    """The measures of the order of the scores, and the best values over thresholds."""
    P, N = total(rows, 1), total(rows, 0)
    W = P + N
    no_weight, no_positives = {"no weight": not W}, {"no positives": not P}
    no_class = no_positives | {"no negatives": not N}
    no_error = no_class | {
        "weights are not whole numbers": not whole(rows, asked.row),
        "fewer than two positives": Fraction(P, asked.row) < 2,
        "fewer than two negatives": Fraction(N, asked.row) < 2,
    }

    def gini() -> Fraction:
        return 2 * Fraction(u2(rows), 2 * P * N) - 1

    measures = {
        "roc_auc": measured(no_class, lambda: Fraction(u2(rows), 2 * P * N)),
        "roc_auc_se": measured(no_error, lambda: delong_error(rows, asked.row)),
        "gini": measured(no_class, gini),
        "accuracy_ratio": measured(no_class, gini),
        "accuracy_ratio_optimistic": measured(no_class, lambda: gini() + Fraction(tied_pairs(rows), P * N)),
        "average_precision": measured(no_positives, lambda: average_precision(rows)),
        "pr_auc_trapezoid": measured(no_positives, lambda: trapezoid_area(rows)),
        "average_precision_over_prevalence": measured(no_positives, lambda: average_precision(rows) * W / P),
        "ks": measured(no_class, lambda: gap(ks_point(rows, strict=False).cells)),
    }
    for axis, a, b in asked.regions:
        area = measured(no_class, partial(partial_area, rows, axis, a, b))
        name = f"{axis}_{a:g}_{b:g}"
        measures[f"partial_auc_{name}"] = area
        measures[f"partial_auc_corrected_{name}"] = (
            area if area.value is None else Measure(corrected(area.value, axis, a, b), None)
        )
    for k in asked.top_k:
        edge = Fraction(k) * (asked.row if k >= 1 else W)
        name = f"{k:g}" if k >= 1 else f"{100 * k:g}%"
        too_few = {f"fewer than {k:g} rows": edge > W}
        found = positives_in_top(rows, edge)
        measures[f"precision_at_{name}"] = measured(no_weight | too_few, lambda found=found, edge=edge: found / edge)
        measures[f"recall_at_{name}"] = measured(no_positives | too_few, lambda found=found: found / P)
    points = curve(rows, strict=False)
    for name, (values, needed, sign) in thresholds_to_choose(asked).items():
        choose = partial(best_point, points, values, sign)
        measures[name] = measured(no_class if needed == "classes" else no_weight, lambda choose=choose: choose()[0])
    return measures
