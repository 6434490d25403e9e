"""Arithmetic that reads the same on Spark Columns, NumPy arrays and floats."""

from __future__ import annotations

from typing import Any

import numpy as np

Number = Any
"""A Spark Column, a NumPy array or a float: what every formula is written for."""


def ratio(numerator: Number, denominator: Number) -> Number:
    """numerator / denominator; undefined where the denominator is 0: NULL in Spark, NaN in NumPy.

    Parameters
    ----------
    numerator, denominator : Columns, arrays or floats.
    """
    if hasattr(denominator, "isNull"):
        from pyspark.sql import functions as F  # workers compute with arrays and need no Spark

        return numerator / F.when(denominator != 0, denominator)
    result = np.full(np.broadcast(numerator, denominator).shape, np.nan)
    np.divide(numerator, denominator, out=result, where=np.asarray(denominator) != 0)
    return result if result.ndim else float(result)
