"""Arithmetic that reads the same on Spark Columns, NumPy arrays and floats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Number = Any
"""A Spark Column, a NumPy array or a float: what every formula is written for."""

Bins = Any
"""Bins of scores: a Column of a struct of lists, or a mapping of arrays whose last axis is the bins."""

BIN_FIELDS = ("weight", "positives", "score", "squared_errors")
"""What formulas know of a bin: its weight, that of its positives, the sums of its scores and of (score - label)^2."""


def is_column(number: Number) -> bool:
    """Whether it is a Spark Column, whose arithmetic is Spark's."""
    return hasattr(number, "isNull")


def ratio(numerator: Number, denominator: Number) -> Number:
    """numerator / denominator; undefined where the denominator is 0: NULL in Spark, NaN in NumPy.

    Parameters
    ----------
    numerator, denominator : Columns, arrays or floats.
    """
    if is_column(denominator):
        from pyspark.sql import functions as F  # workers compute with arrays and need no Spark

        return numerator / F.when(denominator != 0, denominator)
    with np.errstate(all="ignore"):
        result = np.asarray(np.divide(numerator, denominator))
    zero = np.asarray(denominator) == 0
    if zero.any():
        result = np.where(zero, np.nan, result)
    return _plain(result)


def only_where(condition: Number, number: Number) -> Number:
    """The number where the condition holds, undefined elsewhere."""
    if is_column(condition):
        from pyspark.sql import functions as F

        return F.when(condition, number)
    return _plain(np.where(condition, number, np.nan))


def square_root(number: Number) -> Number:
    """The square root; undefined for a negative number."""
    if is_column(number):
        from pyspark.sql import functions as F

        return F.sqrt(F.when(number >= 0, number))
    return _plain(np.sqrt(number, out=np.full(np.shape(number), np.nan), where=np.asarray(number) >= 0))


def exponential(number: Number) -> Number:
    """e to the power of a number; infinite past the largest double."""
    if is_column(number):
        from pyspark.sql import functions as F

        return F.exp(number)
    with np.errstate(over="ignore"):
        return _plain(np.exp(number))


def logarithm(number: Number) -> Number:
    """The natural logarithm of a positive number; undefined for 0."""
    if is_column(number):
        from pyspark.sql import functions as F

        return F.ln(number)  # NULL for 0
    positive = np.asarray(number) > 0
    return _plain(np.log(number, out=np.full(np.shape(number), np.nan), where=positive))


def logarithm_of_1_plus(number: Number) -> Number:
    """The natural logarithm of 1 plus a number of at least 0, which keeps the digits of a small one."""
    if is_column(number):
        from pyspark.sql import functions as F

        return F.log1p(number)
    return _plain(np.log1p(number))


def choose(condition: Number, then: Number, otherwise: Number) -> Number:
    """`then` where the condition holds, `otherwise` where it does not."""
    if is_column(condition):
        from pyspark.sql import functions as F

        return F.when(condition, then).otherwise(otherwise)
    return _plain(np.where(condition, then, otherwise))


def clip(number: Number, least: float, largest: float) -> Number:
    """The number, or the bound it is rounded past; undefined stays undefined."""
    return choose(number < least, least, choose(number > largest, largest, number))


def absolute(number: Number) -> Number:
    """The number without its sign."""
    if is_column(number):
        from pyspark.sql import functions as F

        return F.abs(number)
    return _plain(np.abs(number))


def smaller(one: Number, other: Number) -> Number:
    """The smaller of two numbers; undefined where one is."""
    return choose(one <= other, one, other + 0 * one)


def element(numbers: Number, position: int) -> Number:
    """One of a list of numbers: an element of an array Column, or along the last axis."""
    if is_column(numbers):
        from pyspark.sql import functions as F

        return F.get(numbers, F.lit(position))
    return _plain(np.asarray(numbers)[..., position])


def sum_over(bins: Bins, term: Callable[[Bins], Number]) -> Number:
    """The sum of a term over bins, in their order; bins where it is undefined count 0.

    Parameters
    ----------
    bins : a Column of a struct of lists, or a mapping of arrays whose last axis is the bins.
    term : of a bin, whose fields it takes by name.
    """
    if is_column(bins):
        from pyspark.sql import functions as F

        return F.aggregate(_terms(bins, term), F.lit(0.0), lambda total, x: total + F.coalesce(x, F.lit(0.0)))
    # Summed one after the other, as Spark does.
    return _plain(np.cumsum(np.nan_to_num(term(bins)), axis=-1)[..., -1])


def largest_over(bins: Bins, term: Callable[[Bins], Number]) -> Number:
    """The largest value of a term over the bins where it is defined."""
    if is_column(bins):
        from pyspark.sql import functions as F

        return F.array_max(_terms(bins, term))
    largest = np.max(np.nan_to_num(term(bins), nan=-np.inf), axis=-1)
    return _plain(np.where(np.isneginf(largest), np.nan, largest))


def _terms(bins: Bins, term: Callable[[Bins], Number]) -> Number:
    """A term of each bin, as an array."""
    from pyspark.sql import functions as F

    positions = F.sequence(F.lit(0), F.size(bins["weight"]) - 1)
    return F.transform(positions, lambda i: term({name: F.get(bins[name], i) for name in BIN_FIELDS}))


def _plain(result: Any) -> Number:
    """Arrays as they are, a single number as float."""
    return result if np.ndim(result) else float(result)
