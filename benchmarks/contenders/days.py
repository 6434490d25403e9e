"""A month of days: saved states that are added up, against reading all rows again."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from benchmarks.contenders.base import RANKING, Contender, Work
from benchmarks.contenders.ours import metric_values, ranking
from benchmarks.data_sets import DataSet


def states_folder(work: Work) -> Path:
    return work.folder.with_name(f"{work.folder.name}-states")


def save_states(work: Work) -> None:
    """One state a day, as a daily job would have left it; states that are there already stay."""
    import sparkmetrics as sm

    for day, path in zip(work.data_set.day_names(), work.paths, strict=True):
        saved = states_folder(work) / day
        if not (saved / "_SUCCESS").exists():
            rows = work.spark.read.parquet(path)
            counts = sm.score_counts(
                rows, by=["model"], segments=["segment"], label="label", score="score", weight=work.data_set.weight
            )
            counts.write(str(saved), mode="overwrite")
            counts.unpersist()


def add_states(work: Work) -> pa.Table:
    """Reads the states, adds them up and evaluates the sum."""
    import sparkmetrics as sm

    folder = states_folder(work)
    days = (sm.read_score_counts(work.spark, str(folder / day)) for day in work.data_set.day_names())
    found = sum(days).evaluate(metrics=list(RANKING))  # type: ignore[union-attr]  # sum() may be 0
    values = metric_values(found)
    found.unpersist()
    return values


def of_days(data_set: DataSet) -> bool:
    return data_set.days > 0


CONTENDERS = [
    Contender("re-read 30 days", "AUC, AP, KS", ranking("spark"), fits=of_days),
    Contender("state of days: add and evaluate", "AUC, AP, KS", add_states, fits=of_days, prepare=save_states),
]
