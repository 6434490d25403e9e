"""Joins in which a null key equals a null key (a null segment is a group like any other), and unions of many tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

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


def union_of(frames: Iterable[DataFrame]) -> DataFrame:
    """The rows of all tables, at least one, of equal columns in equal order.

    By pairs, and pairs of these: a union of unions is a level more of the plan, and Spark Connect bounds its depth.
    """
    found = list(frames)
    while len(found) > 1:
        pairs = [one.union(other) for one, other in zip(found[::2], found[1::2], strict=False)]
        found = [*pairs, *found[2 * len(pairs) :]]
    return found[0]
