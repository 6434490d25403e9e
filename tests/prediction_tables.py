"""Small prediction tables, and what is made of them as plain dicts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.types import StructField, StructType

import sparkmetrics as sm
from sparkmetrics.metrics import Parameters, threshold_metrics

INF, NAN = math.inf, math.nan


def struct(**types: Any) -> StructType:
    return StructType([StructField(name, kind) for name, kind in types.items()])


def table(spark: SparkSession, rows: Sequence[Sequence[Any]], **types: Any) -> DataFrame:
    return spark.createDataFrame([tuple(row) for row in rows], struct(**types))


def plain(spark: SparkSession) -> DataFrame:
    """Two rows that evaluate."""
    return spark.createDataFrame([(1, 0.9, 1.0), (0, 0.1, 1.0)], "y int, p double, w double")


def state(counts: sm.ScoreCounts) -> dict[tuple[Any, ...], dict[float, tuple[float, float]]]:
    """Score counts as {key values: {score: (positives, negatives)}}."""
    found: dict[tuple[Any, ...], dict[float, tuple[float, float]]] = {}
    for row in counts.frame.collect():
        cells = found.setdefault(tuple(row[name] for name in counts.keys.names), {})
        cells |= {score: (p, n) for score, p, n in zip(row["score"], row["pos"], row["neg"], strict=True)}
    return found


def values_of(rows: list[Row], *key: str) -> dict[tuple[Any, ...], dict[str, float | None]]:
    """Rows of the table `metrics` as {key values: {metric: value}}; metrics at a threshold as `recall@0.5`."""
    found: dict[tuple[Any, ...], dict[str, float | None]] = {}
    for row in rows:
        name = (
            f"{row['metric']}@{row['threshold']}" if row["metric"] in threshold_metrics(Parameters()) else row["metric"]
        )
        found.setdefault(tuple(row[k] for k in key), {})[name] = row["value"]
    return found
