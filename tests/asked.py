"""Arguments of an evaluation that ask for every metric of two classes, with and without parameters."""

from __future__ import annotations

from typing import Any

from sparkmetrics.columns import Keys
from sparkmetrics.metrics import Metric, Parameters, ScoreMetric, ThresholdMetric, score_metrics, threshold_metrics
from sparkmetrics.options import Options

ASKED: dict[str, Any] = {
    "beta": [0.5, 2],
    "costs": {"fp": 1, "fn": 5},
    "payoffs": {"tp": 2, "fp": -1},
    "accuracy_weights": {"tp": 2},
    "partial_auc": [("fpr", 0, 0.25), {"tpr": [0.5, 1]}],
    "top_k": [5, "20%"],
    "buckets": 4,
    "calibration_bins": 5,
}

PARAMETERS: Parameters = Options.make(Keys((), ()), **ASKED).parameters
SCORE: dict[str, ScoreMetric] = score_metrics(PARAMETERS)
THRESHOLD: dict[str, ThresholdMetric] = threshold_metrics(PARAMETERS)
ALL: dict[str, Metric] = {**THRESHOLD, **SCORE}
