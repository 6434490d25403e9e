"""A small warehouse table of predictions with what differs between environments, and the jobs that evaluate it."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

DAY = "2026-11-29"
ROWS = 6000

FALL_BACK = datetime(2026, 11, 1, 4, 30, tzinfo=timezone.utc)
"""Half past midnight in New York on the day that has the hour from one to two twice."""


def make(seed: int = 7) -> pa.Table:
    """Predictions of one day: ties, nulls, a segment of one class, dates and instants, decimals, three classes."""
    random = np.random.default_rng(seed)
    label = random.random(ROWS) < 0.3
    score = np.round(np.clip(random.normal(0.4 + 0.2 * label, 0.2), 0, 1), 3)
    country = np.array(["AT", "CH", None, 'a "b", c=d', ""], dtype=object)[random.integers(0, 5, ROWS)]
    hour = random.integers(0, 5, ROWS)
    label[hour == 4] = False  # a segment without positives
    classes = random.integers(0, 3, ROWS)
    probabilities = random.integers(1, 20, (ROWS, 3)).astype(float)
    probabilities[np.arange(ROWS), classes] += 10
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    guess = np.where(random.random(ROWS) < 0.8, probabilities.argmax(axis=1), random.integers(0, 3, ROWS))
    days = [date(1969, 12, 31), date(2000, 2, 29), date(2026, 11, 29)]
    return pa.table(
        {
            "model": pa.array(np.array(["a", "b"])[random.integers(0, 2, ROWS)]),
            "country": pa.array(country, pa.string()),
            "scored_on": pa.array([days[i] for i in random.integers(0, 3, ROWS)], pa.date32()),
            "at": pa.array([FALL_BACK + timedelta(hours=int(h)) for h in hour], pa.timestamp("us", tz="UTC")),
            "label": pa.array(label.astype(np.int32)),
            "answer": pa.array(np.where(label, "yes", "no"), mask=random.random(ROWS) < 0.01),
            "score": pa.array(score),
            "decimal": pa.array([Decimal(f"{value:.3f}") for value in score], pa.decimal128(5, 3)),
            "class": pa.array(classes.astype(np.int32)),
            "guess": pa.array(guess.astype(str)),
            **{f"p{k}": pa.array(probabilities[:, k]) for k in range(3)},
        }
    )


def write(table: pa.Table, folder: Path) -> Path:
    """The predictions as a folder of days, three files the day; another day must not be read."""
    for day, rows in ((DAY, table), ("2026-11-28", table.slice(0, 50))):
        target = folder / f"event_date={day}"
        target.mkdir(parents=True)
        for part in range(3):
            share = -(-rows.num_rows // 3)
            pq.write_table(rows.slice(part * share, share), target / f"part-{part}.parquet", row_group_size=700)
    return folder


KEYS = {"by": ["model"], "segments": ["country", "scored_on"]}
PLAIN: dict[str, Any] = {"columns": {**KEYS, "label": "label", "score": "score"}}

JOBS: dict[str, dict[str, Any]] = {
    # Workers read the files; then Spark reads the same.
    "files": {**PLAIN, "predictions": {"reader": "arrow"}},
    "rows": {**PLAIN, "predictions": {"reader": "spark"}},
    # What casts and time zones could change: decimals, text labels, nulls to drop, instants as segments.
    "casts": {
        "columns": {
            "by": ["model"],
            "segments": ["at"],
            "label": "answer",
            "positive": "yes",
            "score": "decimal",
        },
        "evaluate": {"invalid_rows": "drop"},
    },
    "classes": {
        "columns": {
            "by": ["model"],
            "segments": ["country"],
            "label": "class",
            "prediction": "guess",
            "probabilities": {k: f"p{k}" for k in range(3)},
        },
        "evaluate": {"top_k": [2]},
    },
}


def write_configs(predictions: Path, folder: Path, atomic: bool = True) -> dict[str, Path]:
    """The jobs' configs, by name; results of a job go to a folder of its name beside its config."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = {}
    for name, job in JOBS.items():
        source = {"path": str(predictions), "filter": "event_date = DATE'{run_date}'", **job.get("predictions", {})}
        content = {**job, "predictions": source, "output": {"path": str(folder / name), "atomic": atomic}}
        paths[name] = folder / f"{name}.yaml"
        paths[name].write_text(yaml.safe_dump(content), encoding="utf-8")
    return paths
