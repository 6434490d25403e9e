"""Standard errors and confidence intervals straight from their definitions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from statistics import NormalDist

from brute_force import Exact, Row, total


@cache
def whole(rows: tuple[Row, ...], row: int) -> bool:
    """Whether weights are frequencies: whole numbers of rows at each score, as doubles."""
    weights: dict[tuple[int, float], Exact] = {}
    for r in rows:
        weights[r.label, r.score] = weights.get((r.label, r.score), 0) + r.weight
    return all(float(Fraction(weight, row)).is_integer() for weight in weights.values())


def z_of(confidence: float) -> float:
    """The normal quantile that leaves half of what is missing to 1 above it."""
    return NormalDist().inv_cdf(0.5 + confidence / 2)


@cache
def delong_error(rows: tuple[Row, ...], row: int) -> float:
    """DeLong's standard error of the AUC: the variance over rows of the share of the other class that is beaten."""
    variance = Fraction(0)
    for label in (1, 0):
        mine = [r for r in rows if r.label == label and r.weight]
        others = [r for r in rows if r.label != label and r.weight]
        size, size_of_others = total(mine, label), total(others, 1 - label)

        def placement(r: Row, others: Sequence[Row] = others, size: Exact = size_of_others) -> Fraction:
            below = sum((2 * (o.score < r.score) + (o.score == r.score)) * o.weight for o in others)
            return Fraction(below, 2 * size)

        placements = [(r.weight, placement(r)) for r in mine]
        mean = sum(w * v for w, v in placements) / Fraction(size)
        squares = sum(w * (v - mean) ** 2 for w, v in placements) / Fraction(row)
        n = Fraction(size, row)
        variance += squares / (n - 1) / n
    return math.sqrt(variance)


def logit_interval(share: float, error: float, z: float) -> tuple[float, float]:
    """Symmetric on the logit scale; the share alone where the error is 0."""
    if error == 0.0:
        return share, share
    logit, spread = math.log(share / (1.0 - share)), z * error / (share * (1.0 - share))
    lower, upper = (1.0 / (1.0 + math.exp(-bound)) for bound in (logit - spread, logit + spread))
    return lower, upper


@cache
def wilson_interval(share: Fraction, size: Fraction, z: float) -> tuple[float, float]:
    """The proportions p with (share - p)^2 = z^2 p (1 - p) / size: the roots of a quadratic."""
    square = Fraction(z) ** 2 / size
    a, b, c = 1 + square, -(2 * share + square), share**2
    root = math.sqrt(b * b - 4 * a * c)
    return (-float(b) - root) / float(2 * a), (-float(b) + root) / float(2 * a)
