"""Exact evaluation of classifiers where the predictions are: every segment, every roll-up and the total, on Spark."""

from sparkmetrics.errors import (
    ConfigError,
    DataError,
    SchemaError,
    SparkMetricsError,
    SparkMetricsWarning,
    WriteError,
)
from sparkmetrics.evaluation import Evaluation, evaluate
from sparkmetrics.ranges import Sizing
from sparkmetrics.score_counts import ScoreCounts, read_score_counts, score_counts
from sparkmetrics.tables import read_results

__version__ = "0.1.0"

__all__ = [
    "ConfigError",
    "DataError",
    "Evaluation",
    "SchemaError",
    "ScoreCounts",
    "Sizing",
    "SparkMetricsError",
    "SparkMetricsWarning",
    "WriteError",
    "evaluate",
    "read_results",
    "read_score_counts",
    "score_counts",
]
