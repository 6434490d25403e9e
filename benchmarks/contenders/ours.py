"""sparkmetrics: through Spark's reader or its own, of the compared metrics alone or with more tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from benchmarks.contenders.base import METRICS, RANKING, Contender, Work, collected
from benchmarks.data_sets import DataSet

if TYPE_CHECKING:
    from sparkmetrics import Evaluation

THRESHOLDS = [0.1, 0.5, 0.9]
CURVES = ("metrics", "confusion", "curves")
PAIRS = (*CURVES, "segment_auc")
EVERY_TABLE = ()


def evaluation(work: Work, metrics: Sequence[str] | None, reader: str) -> Evaluation:
    """Every model's segments and totals. `reader` "spark" has Spark read the files, "arrow" the workers."""
    import sparkmetrics as sm

    arguments: dict[str, Any] = {
        "by": ["model"],
        "segments": ["segment"],
        "label": "label",
        "score": "score",
        "weight": work.data_set.weight,
        "thresholds": THRESHOLDS,
        "metrics": metrics,
    }
    if reader == "spark":
        return sm.evaluate(work.frame(), **arguments)
    return sm.evaluate_path(work.spark, str(work.folder), reader=reader, **arguments)


def ranking(reader: str) -> Callable[[Work], pa.Table]:
    """AUC, AP and KS alone."""

    def run(work: Work) -> pa.Table:
        found = evaluation(work, list(RANKING), reader)
        values = metric_values(found)
        found.unpersist()
        return values

    return run


def tables(reader: str, names: Sequence[str], metrics: Sequence[str] | None = METRICS) -> Callable[[Work], pa.Table]:
    """These tables (none named: all that there are) from one pass: metrics collected, the rest written nowhere."""

    def run(work: Work) -> pa.Table:
        found = evaluation(work, list(metrics) if metrics else None, reader)
        known = found.tables()
        chosen = tuple(names) or tuple(known)
        found.share(tables=chosen)
        values = metric_values(found)
        for name in chosen:
            if name != "metrics":
                known[name]().write.format("noop").mode("overwrite").save()
        found.unpersist()
        return values

    return run


def metric_values(found: Evaluation) -> pa.Table:
    """All metrics of the groups with both classes: others have no AUC, and peers leave them out."""
    both = found.metrics().where("positives > 0 and negatives > 0 and value is not null")
    return collected(both.select("model", "segment", "metric", "value"))


def one_table(data_set: DataSet) -> bool:
    return data_set.days == 0


FULL = "AUC, AP, KS, Brier, log loss; confusion at 3 thresholds; 1000-point curves"
SHORT = "AUC, AP, KS"

CONTENDERS = [
    Contender("sparkmetrics", FULL, tables("spark", CURVES)),
    Contender("sparkmetrics (AUC, AP, KS)", SHORT, ranking("spark")),
    Contender("sparkmetrics direct", FULL, tables("arrow", CURVES), fits=one_table),
    Contender("sparkmetrics direct (AUC, AP, KS)", SHORT, ranking("arrow"), fits=one_table),
    Contender("sparkmetrics (Connect)", FULL, tables("spark", CURVES), session="connect"),
    Contender("sparkmetrics + pairs", f"{FULL}; pair matrix", tables("spark", PAIRS)),
    Contender("sparkmetrics all tables", "all metrics, all tables", tables("spark", EVERY_TABLE, metrics=None)),
]
