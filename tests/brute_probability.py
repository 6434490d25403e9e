"""Measures of scores that are probabilities straight from their definitions, in exact fractions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import cache
from typing import NamedTuple

from brute_force import Asked, Exact, Measure, Row, distinct_scores, measured, total


class Bin(NamedTuple):
    """Rows in a bin of scores."""

    place: int
    rows: Sequence[Row]

    @property
    def weight(self) -> Exact:
        return sum(row.weight for row in self.rows)

    @property
    def positives(self) -> Exact:
        return total(self.rows, 1)

    @property
    def mean_score(self) -> Fraction:
        return sum(row.weight * Fraction(row.score) for row in self.rows) / Fraction(self.weight)

    @property
    def positive_rate(self) -> Fraction:
        return Fraction(self.positives, self.weight)

    @property
    def distance(self) -> Fraction:
        """From the mean score to the positive rate."""
        return abs(self.mean_score - self.positive_rate)


def weighty(rows: Iterable[Row]) -> list[Row]:
    """The rows that weigh something."""
    return [row for row in rows if row.weight]


def blocks(rows: Iterable[Row]) -> list[Bin]:
    """A bin for each distinct score, from the lowest up."""
    rows = weighty(rows)
    return [Bin(i, [r for r in rows if r.score == score]) for i, score in enumerate(distinct_scores(rows)[::-1])]


def bins_of_equal_width(rows: Iterable[Row], bins: int) -> list[Bin]:
    """Bins of [0, 1] that hold rows: i / bins <= score < (i + 1) / bins in doubles, the last one closed."""
    members = [
        Bin(i, [r for r in weighty(rows) if i / bins <= r.score and (r.score < (i + 1) / bins or i == bins - 1)])
        for i in range(bins)
    ]
    return [found for found in members if found.rows]


def places_of_equal_weight(rows: Iterable[Row], bins: int) -> list[tuple[Bin, Fraction]]:
    """Each tie block with the place that it has in the ranking, of 0 to `bins`: bins (W_below + w / 2) / W."""
    found = blocks(rows)
    W = sum(block.weight for block in found)
    below: Exact = 0
    places = []
    for block in found:
        places.append((block, bins * (below + Fraction(block.weight, 2)) / W))
        below += block.weight
    return places


def bins_of_equal_weight(rows: Iterable[Row], bins: int) -> list[Bin]:
    """Bins that hold rows; a tie block falls where its middle does."""
    members: dict[int, list[Row]] = {}
    for block, place in places_of_equal_weight(rows, bins):
        members.setdefault(math.floor(place), []).extend(block.rows)
    return [Bin(place, rows) for place, rows in members.items()]


def probabilities(rows: Iterable[Row]) -> bool:
    """Whether every score is within [0, 1]."""
    return all(0 <= row.score <= 1 for row in weighty(rows))


def log_loss(rows: Iterable[Row]) -> float:
    """Mean negative log-likelihood, probabilities kept 2**-52 away from 0 and 1."""
    rows, losses = weighty(rows), []
    for row in rows:
        p = min(max(row.score, 2.0**-52), 1.0 - 2.0**-52)
        losses.append(-float(row.weight) * (math.log(p) if row.label else math.log1p(-p)))
    return math.fsum(losses) / math.fsum(float(row.weight) for row in rows)


def entropy(P: Exact, N: Exact) -> float:
    """The log loss of the prevalence as score."""
    return (P * math.log1p(Fraction(N, P)) + N * math.log1p(Fraction(P, N))) / (P + N)


def brier(rows: Iterable[Row]) -> Fraction:
    """Mean squared distance of score and label."""
    rows = weighty(rows)
    errors = sum(row.weight * (row.label - Fraction(row.score)) ** 2 for row in rows)
    return Fraction(errors) / sum(row.weight for row in rows)


def reliability(bins: Sequence[Bin]) -> Fraction:
    """Mean squared distance of mean score and positive rate."""
    return sum(b.weight * b.distance**2 for b in bins) / Fraction(sum(b.weight for b in bins))


def resolution(bins: Sequence[Bin]) -> Fraction:
    """Mean squared distance of positive rate and prevalence."""
    W = sum(b.weight for b in bins)
    prevalence = Fraction(sum(b.positives for b in bins), W)
    return sum(b.weight * (b.positive_rate - prevalence) ** 2 for b in bins) / Fraction(W)


@cache
def probability_measures(rows: tuple[Row, ...], asked: Asked) -> dict[str, Measure]:
    """The measures of scores that are probabilities."""
    P, N = total(rows, 1), total(rows, 0)
    W = P + N
    outside = {"scores outside [0, 1]": not probabilities(rows)}
    undefined = {"no weight": not W} | outside
    one_class = {"no positives": not P, "no negatives": not N} | outside
    scores, bins = blocks(rows), bins_of_equal_width(rows, asked.bins)

    def uncertainty() -> Fraction:
        return Fraction(P * N, W**2)

    def mean_score() -> Fraction:
        return sum(row.weight * Fraction(row.score) for row in weighty(rows)) / Fraction(W)

    return {
        "log_loss": measured(undefined, lambda: log_loss(rows)),
        "brier": measured(undefined, lambda: brier(rows)),
        "log_loss_skill": measured(one_class, lambda: 1 - log_loss(rows) / entropy(P, N)),
        "brier_skill": measured(one_class, lambda: 1 - brier(rows) / uncertainty()),
        "mean_score_minus_prevalence": measured(undefined, lambda: mean_score() - Fraction(P, W)),
        "brier_reliability": measured(undefined, lambda: reliability(scores)),
        "brier_resolution": measured(undefined, lambda: resolution(scores)),
        "brier_uncertainty": measured(undefined, uncertainty),
        "ece": measured(undefined, lambda: sum(b.weight * b.distance for b in bins) / Fraction(W)),
        "mce": measured(undefined, lambda: max(b.distance for b in bins)),
        "brier_reliability_binned": measured(undefined, lambda: reliability(bins)),
        "brier_resolution_binned": measured(undefined, lambda: resolution(bins)),
        "brier_within_bin": measured(
            undefined, lambda: brier(rows) - (reliability(bins) - resolution(bins) + uncertainty())
        ),
    }
