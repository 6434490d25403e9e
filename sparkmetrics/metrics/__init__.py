"""The measures: each formula once. Importing this package fills the registry."""

from sparkmetrics.metrics import best, binary, probability, ranking
from sparkmetrics.metrics.parameters import Parameters
from sparkmetrics.metrics.registry import (
    Metric,
    ScoreMetric,
    ThresholdMetric,
    parts,
    reason,
    score_metrics,
    threshold_metrics,
)

__all__ = [
    "Metric",
    "Parameters",
    "ScoreMetric",
    "ThresholdMetric",
    "best",
    "binary",
    "parts",
    "probability",
    "ranking",
    "reason",
    "score_metrics",
    "threshold_metrics",
]
