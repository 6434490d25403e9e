"""Measures of predicted classes from their counts, {(label, prediction): weight} for each group, without a session."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from results import Found

from sparkmetrics.class_metrics import ClassTask, class_metric_rows
from sparkmetrics.metrics import Parameters, threshold_metrics

METRICS = threshold_metrics(Parameters(beta=(0.5,)))
Z = 1.959963984540054
Counts = Mapping[tuple[str, str], float]


def cell_table(groups: Mapping[str, Counts]) -> pa.Table:
    """What a worker gets; every cell stands for one prediction row."""
    cells = [(name, *pair, weight) for name, counts in groups.items() for pair, weight in counts.items()]
    names, labels, predictions, weights = zip(*cells, strict=True)
    text = pa.string()
    return pa.table(
        {
            "b0": pa.array(names, text),
            "level": pa.array(["total"] * len(cells), text),
            "label": pa.array(labels, text),
            "prediction": pa.array(predictions, text),
            "count": pa.array(weights, pa.float64()),
            "rows": pa.array([1.0] * len(cells)),
        }
    )


def measured(table: pa.Table, **options: Any) -> pa.Table:
    """The metrics that a worker makes of a table of cells."""
    chosen: dict[str, Any] = {"metrics": METRICS, "classes": None, "class_costs": None, "positive": None, "z": Z}
    task = ClassTask(keys=("b0", "level"), **(chosen | options))
    return pa.Table.from_batches(class_metric_rows(iter(table.to_batches()), task))


def by_key(rows: Iterable[Mapping[str, Any]], *keys: str) -> Found:
    """{(keys..., metric, average, class): row}; a key must not come twice, and NULL values must have a reason."""
    found: Found = {}
    for row in rows:
        key = tuple(row[name] for name in (*keys, "metric", "average", "class"))
        assert key not in found, key
        assert (row["value"] is None) == (row["reason"] is not None), row
        found[key] = dict(row)
    return found


def of_groups(groups: Mapping[str, Counts], **options: Any) -> Found:
    return by_key(measured(cell_table(groups), **options).to_pylist(), "b0")


def of_counts(counts: Counts, **options: Any) -> Found:
    """{(metric, average, class): row} of one group."""
    return {key[1:]: row for key, row in of_groups({"": counts}, **options).items()}


def overall(found: Found, *names: str) -> list[float | None]:
    return [found[name, None, None]["value"] for name in names]


def averages(found: Found, average: str) -> list[float | None]:
    return [found[name, average, None]["value"] for name in ("precision", "recall", "f1")]


def matrix(classes: Sequence[str], rows: Sequence[Sequence[float]]) -> Counts:
    return {
        (label, predicted): float(weight)
        for label, row in zip(classes, rows, strict=True)
        for predicted, weight in zip(classes, row, strict=True)
        if weight
    }
