"""Measures of scores that are probabilities; NULL for a group with a score outside [0, 1]."""

from __future__ import annotations

import numpy as np

from sparkmetrics.kernel import Floats
from sparkmetrics.metrics.arithmetic import Bins, Number, absolute, largest_over, logarithm_of_1_plus, ratio, sum_over
from sparkmetrics.metrics.counts import Totals
from sparkmetrics.metrics.list_parts import ScoreBins, squared_errors
from sparkmetrics.metrics.parameters import Parameters
from sparkmetrics.metrics.parts import Sum
from sparkmetrics.metrics.registry import Each, score_metric
from sparkmetrics.metrics.steps import Steps

CLIP = 2.0**-52
"""How far log loss keeps probabilities from 0 and 1 (float64 epsilon, as scikit-learn): a row costs 36.04 at most."""


def _log_losses(steps: Steps) -> Floats:
    s = np.clip(steps.score, CLIP, 1.0 - CLIP)
    return -(steps.positive * np.log(s) + steps.negative * np.log1p(-s))


def _scores(steps: Steps) -> Floats:
    return (steps.positive + steps.negative) * np.clip(steps.score, 0.0, 1.0)


def _reliability(steps: Steps) -> Floats:
    weight = steps.positive + steps.negative
    terms: Floats = weight * np.square(np.clip(steps.score, 0.0, 1.0) - steps.positive / weight)
    return terms


def _resolution(steps: Steps) -> Floats:
    weight, totals = steps.positive + steps.negative, steps.totals
    terms: Floats = weight * np.square(steps.positive / weight - totals.positives / totals.weight)
    return terms


LOG_LOSSES = Sum("log_losses", _log_losses, lambda totals: 36.05 * totals.weight)
SQUARED_ERRORS = Sum("squared_errors", squared_errors, lambda totals: totals.weight)


def _prevalence(totals: Totals) -> Number:
    return ratio(totals.positives, totals.weight)


# --- of every row


@score_metric(
    part=LOG_LOSSES,
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
    part=SQUARED_ERRORS,
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


@score_metric(
    part=LOG_LOSSES,
    formula="1 - log_loss / (log loss of the prevalence as score)",
    needs=("positives", "negatives"),
    best="highest",
    range=(float("-inf"), 1.0),
    source="McFadden 1974",
    probability=True,
)
def log_loss_skill(log_losses: Number, totals: Totals) -> Number:
    """How much of the log loss of knowing the prevalence alone the scores save."""
    P, N = totals.positives, totals.negatives
    # -P log(P / W) - N log(N / W), in which the logarithm of a share near 1 would lose the digits of the other.
    of_prevalence = P * logarithm_of_1_plus(ratio(N, P)) + N * logarithm_of_1_plus(ratio(P, N))
    return 1.0 - ratio(log_losses, of_prevalence)


@score_metric(
    part=SQUARED_ERRORS,
    formula="1 - brier / (prevalence (1 - prevalence))",
    needs=("positives", "negatives"),
    best="highest",
    range=(float("-inf"), 1.0),
    source="Murphy 1973",
    probability=True,
)
def brier_skill(squared_errors: Number, totals: Totals) -> Number:
    """How much of the Brier score of knowing the prevalence alone the scores save."""
    return 1.0 - ratio(brier(squared_errors, totals), brier_uncertainty(squared_errors, totals))


@score_metric(
    part=Sum("score_sum", _scores, lambda totals: totals.weight),
    formula="(sum of scores - P) / W",
    needs=("weight",),
    best=None,
    range=(-1.0, 1.0),
    probability=True,
)
def mean_score_minus_prevalence(score_sum: Number, totals: Totals) -> Number:
    """Mean score less the share of positives: calibration in the large; 0 is right."""
    return ratio(score_sum - totals.positives, totals.weight)


# --- parts of the Brier score: brier = reliability - resolution + uncertainty


@score_metric(
    part=Sum("reliability_sum", _reliability, lambda totals: totals.weight),
    formula="sum over distinct scores of w (s - p / w)^2 / W",
    needs=("weight",),
    best="lowest",
    range=(0.0, 1.0),
    source="Murphy 1973",
    probability=True,
)
def brier_reliability(reliability_sum: Number, totals: Totals) -> Number:
    """What the Brier score loses by scores that are not the share of positives among rows of that score."""
    return ratio(reliability_sum, totals.weight)


@score_metric(
    part=Sum("resolution_sum", _resolution, lambda totals: totals.weight),
    formula="sum over distinct scores of w (p / w - prevalence)^2 / W",
    needs=("weight",),
    best="highest",
    range=(0.0, 1.0),
    source="Murphy 1973",
    probability=True,
)
def brier_resolution(resolution_sum: Number, totals: Totals) -> Number:
    """What the Brier score gains by telling rows apart."""
    return ratio(resolution_sum, totals.weight)


@score_metric(
    part=SQUARED_ERRORS,
    formula="prevalence (1 - prevalence)",
    needs=("weight",),
    best=None,
    range=(0.0, 0.25),
    source="Murphy 1973",
    probability=True,
)
def brier_uncertainty(squared_errors: Number, totals: Totals) -> Number:
    """The Brier score of knowing the prevalence alone."""
    return ratio(totals.positives, totals.weight) * ratio(totals.negatives, totals.weight)


# --- over bins of equal width


def score_bins(parameters: Parameters) -> ScoreBins:
    """The bins of equal width that an evaluation asks for."""
    return _bins(parameters.calibration_bins)


def _bins(size: int) -> ScoreBins:
    return ScoreBins("bins", size)


def _each_bins(metric: str) -> Each:
    return lambda parameters: {metric: {"size": parameters.calibration_bins}}


@score_metric(
    each=_each_bins("ece"),
    part=_bins,
    formula="sum over bins of w |mean score - positive rate| / W",
    needs=("weight",),
    best="lowest",
    range=(0.0, 1.0),
    source="Naeini, Cooper and Hauskrecht 2015",
    probability=True,
)
def ece(bins: Bins, totals: Totals, size: int) -> Number:
    """Expected calibration error: the mean distance of score and positive rate over bins of equal width."""
    return ratio(sum_over(bins, lambda b: absolute(b["score"] - b["positives"])), totals.weight)


@score_metric(
    each=_each_bins("mce"),
    part=_bins,
    formula="max over bins of |mean score - positive rate|",
    needs=("weight",),
    best="lowest",
    range=(0.0, 1.0),
    source="Naeini, Cooper and Hauskrecht 2015",
    probability=True,
)
def mce(bins: Bins, totals: Totals, size: int) -> Number:
    """Maximum calibration error: the largest distance of score and positive rate over bins that hold rows."""
    return largest_over(bins, lambda b: ratio(absolute(b["score"] - b["positives"]), b["weight"]))


@score_metric(
    each=_each_bins("brier_reliability_binned"),
    part=_bins,
    formula="sum over bins of w (mean score - positive rate)^2 / W",
    needs=("weight",),
    best="lowest",
    range=(0.0, 1.0),
    source="Murphy 1973",
    probability=True,
)
def brier_reliability_binned(bins: Bins, totals: Totals, size: int) -> Number:
    """Reliability part of the Brier score over bins of equal width."""

    def lost(b: Bins) -> Number:
        gap = ratio(b["score"] - b["positives"], b["weight"])
        return b["weight"] * gap * gap

    return ratio(sum_over(bins, lost), totals.weight)


@score_metric(
    each=_each_bins("brier_resolution_binned"),
    part=_bins,
    formula="sum over bins of w (positive rate - prevalence)^2 / W",
    needs=("weight",),
    best="highest",
    range=(0.0, 1.0),
    source="Murphy 1973",
    probability=True,
)
def brier_resolution_binned(bins: Bins, totals: Totals, size: int) -> Number:
    """Resolution part of the Brier score over bins of equal width."""
    base = _prevalence(totals)

    def spread(b: Bins) -> Number:
        apart = ratio(b["positives"], b["weight"]) - _of_bins(base)
        return b["weight"] * apart * apart

    return ratio(sum_over(bins, spread), totals.weight)


@score_metric(
    each=_each_bins("brier_within_bin"),
    part=_bins,
    formula="brier - (reliability - resolution + uncertainty), of bins",
    needs=("weight",),
    best=None,
    range=(-1.0, 1.0),
    source="Stephenson, Coelho and Jolliffe 2008",
    probability=True,
)
def brier_within_bin(bins: Bins, totals: Totals, size: int) -> Number:
    """What the binned parts of the Brier score leave out: how scores and labels vary inside bins."""
    whole = ratio(sum_over(bins, lambda b: b["squared_errors"]), totals.weight)
    parts = brier_reliability_binned(bins, totals, size) - brier_resolution_binned(bins, totals, size)
    return whole - (parts + brier_uncertainty(bins, totals))


def _of_bins(of_group: Number) -> Number:
    """A value of each group, as one for each of its bins."""
    return np.expand_dims(of_group, -1) if isinstance(of_group, (np.ndarray, float)) else of_group
