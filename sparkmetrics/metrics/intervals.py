"""Confidence intervals: each formula once, on Columns, arrays and floats."""

from __future__ import annotations

from statistics import NormalDist

from sparkmetrics.metrics.arithmetic import Number, choose, clip, exponential, logarithm, ratio, square_root


def quantile(confidence: float) -> float:
    """The normal quantile z of a two-sided interval: 1.96 for 0.95."""
    return NormalDist().inv_cdf((1.0 + confidence) / 2.0)


def wilson(share: Number, size: Number, z: Number) -> tuple[Number, Number]:
    """Wilson's score interval of a proportion.

    Parameters
    ----------
    share : the proportion, in [0, 1].
    size : the count it is a share of.
    z : from `quantile`.

    Returns
    -------
    lower, upper : (s + z^2 / 2n -/+ z sqrt(s (1 - s) / n + z^2 / 4n^2)) / (1 + z^2 / n); undefined where `size` is 0.

    Source: Wilson 1927; Brown, Cai and DasGupta 2001.
    """
    each = ratio(z * z, size)
    middle, half = share + each / 2.0, square_root(each * share * (1.0 - share) + each * each / 4.0)
    lower, upper = ((middle + side * half) / (1.0 + each) for side in (-1.0, 1.0))
    # At the ends the bound is the share itself, which rounding would miss.
    return choose(share <= 0.0, 0.0 * each, clip(lower, 0.0, 1.0)), choose(
        share >= 1.0, 1.0 + 0.0 * each, clip(upper, 0.0, 1.0)
    )


def least_difference(first: Number, first_lower: Number, second: Number, second_upper: Number) -> Number:
    """The lower limit of the difference of two independent estimates, from their own intervals.

    Parameters
    ----------
    first, second : the estimates; the difference is first - second.
    first_lower, second_upper : the limits on the sides where it is least; the estimate itself where it is a fixed
        number.

    Returns
    -------
    d - sqrt((first - first_lower)^2 + (second_upper - second)^2), d = first - second; its confidence is that of the
    intervals.

    Source: Newcombe 1998 for proportions; Zou and Donner 2008 for any estimate.
    """
    below, above = first - first_lower, second_upper - second
    return first - second - square_root(below * below + above * above)


def logit_normal(share: Number, error: Number, z: float) -> tuple[Number, Number]:
    """An interval that is symmetric on the logit scale, and so stays inside [0, 1].

    Parameters
    ----------
    share : an estimate in [0, 1].
    error : its standard error; where it is 0 the interval is the estimate alone.
    z : from `quantile`.

    Returns
    -------
    lower, upper : expit(logit(s) -/+ z error / (s (1 - s))).

    Source: Pepe 2003, section 5.2.
    """
    odds, spread = ratio(share, 1.0 - share), ratio(error, share * (1.0 - share))
    bounds = []
    for side in (-1.0, 1.0):
        # Odds times e^(side z spread), turned over where that is large.
        inverse = exponential(-logarithm(odds) - side * z * spread)
        bounds.append(choose(error <= 0.0, share, ratio(1.0, 1.0 + inverse)))
    return bounds[0], bounds[1]
