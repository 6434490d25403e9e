"""What people write today: one pandas function a group, for segments and then for totals."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from benchmarks.contenders.base import LEVELS, RANKING, Contender, Work, collected, stacked


def group_values(label: Any, score: Any, weight: Any = None) -> tuple[float, float, float] | None:
    """AUC, AP and KS of one group; None where it has one class."""
    from sklearn.metrics import average_precision_score, roc_auc_score, roc_curve

    if label.min() == label.max():
        return None
    fpr, tpr, _ = roc_curve(label, score, sample_weight=weight, drop_intermediate=False)
    return (
        float(roc_auc_score(label, score, sample_weight=weight)),
        float(average_precision_score(label, score, sample_weight=weight)),
        float(abs(tpr - fpr).max()),
    )


def run(work: Work) -> pa.Table:
    """In `groupBy().applyInPandas`."""
    import pandas as pd

    weight = work.data_set.weight

    def evaluate(keys: tuple[Any, ...], group: pd.DataFrame) -> pd.DataFrame:
        values = group_values(group["label"], group["score"], group[weight] if weight else None)
        return pd.DataFrame([[*keys, *values]] if values else [], columns=range(len(keys) + len(RANKING)))

    found = []
    for keys in LEVELS:
        schema = ", ".join([*(f"{key} string" for key in keys), *(f"{name} double" for name in RANKING)])
        found.append(collected(work.frame(*keys).groupBy(*keys).applyInPandas(evaluate, schema)))
    return stacked(found)


CONTENDERS = [Contender("scikit-learn", "AUC, AP, KS", run)]
