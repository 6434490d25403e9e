"""Exact evaluation of classifiers where the predictions are: every segment, every roll-up and the total, on Spark."""

from sparkmetrics.api import class_counts, evaluate, evaluate_path, score_counts
from sparkmetrics.class_counts import ClassCounts, read_class_counts
from sparkmetrics.errors import (
    ConfigError,
    DataError,
    SchemaError,
    SparkMetricsError,
    SparkMetricsWarning,
    WriteError,
)
from sparkmetrics.evaluation import Evaluation
from sparkmetrics.ranges import Sizing
from sparkmetrics.score_counts import ScoreCounts, read_score_counts
from sparkmetrics.tables import read_results

__version__ = "0.1.0"

__all__ = [
    "ClassCounts",
    "ConfigError",
    "DataError",
    "Evaluation",
    "SchemaError",
    "ScoreCounts",
    "Sizing",
    "SparkMetricsError",
    "SparkMetricsWarning",
    "WriteError",
    "class_counts",
    "evaluate",
    "evaluate_path",
    "read_class_counts",
    "read_results",
    "read_score_counts",
    "score_counts",
]
