"""The measures: each formula once. Importing this package fills the registry."""

from sparkmetrics.metrics import binary, probability, ranking
from sparkmetrics.metrics.registry import SCORE, THRESHOLD, Metric, ScoreMetric, ThresholdMetric, parts, reason

__all__ = [
    "SCORE",
    "THRESHOLD",
    "Metric",
    "ScoreMetric",
    "ThresholdMetric",
    "binary",
    "parts",
    "probability",
    "ranking",
    "reason",
]
