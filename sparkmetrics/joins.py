"""Joins in which a null key equals a null key: a null segment is a group like any other."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def join_on(left: DataFrame, right: DataFrame, names: Sequence[str], how: str = "inner") -> DataFrame:
    """The rows of two tables with equal keys: the columns of `left`, and those of `right` that are not keys.

    Parameters
    ----------
    names : key columns of both, at least one.
    how : of join, as Spark names it.
    """
    others = {name: f"of_{name}" for name in names}
    same = F.lit(True)
    for name, of_right in others.items():
        same = same & F.col(name).eqNullSafe(F.col(of_right))
    return left.join(right.withColumnsRenamed(others), same, how).drop(*others.values())
