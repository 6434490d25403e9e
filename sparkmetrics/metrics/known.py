"""Every metric there is, of scores, thresholds, predicted classes and class probabilities, by name."""

from __future__ import annotations

from sparkmetrics.metrics import Metric, Parameters, score_metrics, threshold_metrics
from sparkmetrics.metrics.classes import CLASS
from sparkmetrics.metrics.multiclass import POOLED, ROC_AUC_OVO, TOP_K_ACCURACY, top_k_metrics


def known_metrics(parameters: Parameters) -> dict[str, Metric]:
    """Every metric that an evaluation may have, by name."""
    of_classes = [metric for make in POOLED for metric in make(parameters)]
    tops = dict.fromkeys(top_k_metrics(parameters), TOP_K_ACCURACY)
    return {
        **CLASS,
        **{metric.name: metric for metric in (*of_classes, ROC_AUC_OVO)},
        **tops,
        **score_metrics(parameters),
        **threshold_metrics(parameters),
    }
