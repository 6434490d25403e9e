"""Results as files, read without Spark: brought to one form, and compared exactly or within a tolerance."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from predictions import DAY

TABLES = {
    "scores": (
        *("metrics", "confusion", "curves", "gains", "calibration"),
        *("segment_auc", "segment_summary", "segment_gap", "segment_disparity"),
    ),
    "classes": ("metrics", "segment_disparity", "class_counts"),
}

WITHIN = ("lower", "upper", "best_lower", "best_upper", "worst_lower", "worst_upper")
"""Columns of intervals: of DeLong's variance, which is no sum of integers."""

WITHIN_METRICS = ("roc_auc_se",)

Results = dict[str, pa.Table]

INSTANT = re.compile(r"at=(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)([+-]\d\d:\d\d|Z)?")


def tables_of(job: str) -> tuple[str, ...]:
    return TABLES.get(job, TABLES["scores"])


def read_job(folder: Path, job: str, zone: str = "UTC") -> Results:
    """The day's tables of a job, read as plain files."""
    found = {}
    for name in tables_of(job):
        table = ds.dataset(folder / job / name / f"run_date={DAY}", format="parquet").to_table()
        assert len(table["run_id"].unique()) == 1, (job, name)
        found[name] = in_order(table.drop_columns(["run_id"]), zone)
    return found


def read_notebook(folder: Path, job: str) -> Results:
    """The tables that `programs/notebook.py` wrote."""
    return {
        name: in_order(pq.read_table(folder / f"{name}.parquet").drop_columns(["run_id"])) for name in tables_of(job)
    }


def in_order(table: pa.Table, zone: str = "UTC") -> pa.Table:
    """The table with instants as plain microseconds, also those in names of segments, and rows in one order."""
    for index, field in enumerate(table.schema):
        column = table.column(index)
        if pa.types.is_timestamp(field.type):
            column = column.cast(pa.timestamp("us", tz=field.type.tz)).cast(pa.int64())
        elif field.name.endswith("_segment"):
            column = pa.array([instants_in(text, ZoneInfo(zone)) for text in column.to_pylist()], pa.string())
        table = table.set_column(index, field.name, column)
    keys = [field.name for field in table.schema if not pa.types.is_floating(field.type)]
    keys += [name for name in ("threshold",) if name in table.column_names]
    return table.sort_by([(name, "ascending") for name in keys if pa.types.is_nested(table[name].type) is False])


def instants_in(text: str | None, zone: ZoneInfo) -> str | None:
    """The name of a segment with UTC in place of a zone's own time; an hour that is there twice is the first one."""

    def utc(found: re.Match[str]) -> str:
        if found[2]:
            instant = datetime.fromisoformat(found[1] + found[2].replace("Z", "+00:00"))
        else:
            instant = datetime.fromisoformat(found[1]).replace(tzinfo=zone, fold=0)
        return f"at={instant.astimezone(timezone.utc).isoformat()}"

    return text and INSTANT.sub(utc, text)


def assert_same(found: Mapping[str, pa.Table], expected: Mapping[str, pa.Table], tolerance: float = 0.0) -> None:
    """Equal tables: doubles exactly, or within a relative tolerance; those of DeLong's variance within 1e-12."""
    assert found.keys() == expected.keys()
    for name in expected:
        assert found[name].column_names == expected[name].column_names, name
        assert found[name].num_rows == expected[name].num_rows > 0, name
        loose = np.zeros(expected[name].num_rows, dtype=bool)
        if "metric" in expected[name].column_names:
            loose = pc.is_in(expected[name]["metric"], pa.array(WITHIN_METRICS)).to_numpy()
        for column in expected[name].column_names:
            mine, other = found[name][column], expected[name][column]
            assert mine.type == other.type, (name, column)
            if not pa.types.is_floating(other.type):
                assert mine.equals(other), (name, column)
                continue
            assert mine.is_null().equals(other.is_null()), (name, column)
            a, b = mine.to_numpy(), other.to_numpy()
            allowed = np.where(loose | (column in WITHIN), max(tolerance, 1e-12), tolerance)
            with np.errstate(invalid="ignore"):  # infinite thresholds
                near = np.abs(a - b) <= allowed * np.maximum(1, np.abs(b))
            far = ~((a == b) | (np.isnan(a) & np.isnan(b)) | near)
            assert not far.any(), (name, column, found[name].filter(pa.array(far)).slice(0, 5).to_pylist())


def assert_right(metrics: pa.Table, confusion: pa.Table, predictions: pa.Table, segments: tuple[str, ...]) -> None:
    """AUC and confusion counts of every group, from the predictions, pair by pair and row by row."""
    groups = grouped(predictions, segments)
    aucs = {key(row, segments): row for row in metrics.to_pylist() if row["metric"] == "roc_auc"}
    cells = {key(row, segments): row for row in confusion.to_pylist()}
    assert aucs.keys() == cells.keys() == groups.keys()
    for name, (label, score) in groups.items():
        positive, negative = score[label], score[~label]
        row = aucs[name]
        assert (row["rows"], row["positives"], row["negatives"]) == (len(label), len(positive), len(negative)), name
        called = score >= 0.5
        counts = [int(n) for n in ((called & label).sum(), (called & ~label).sum())]
        assert [cells[name]["tp"], cells[name]["fp"]] == counts, name
        assert [cells[name]["fn"], cells[name]["tn"]] == [len(positive) - counts[0], len(negative) - counts[1]], name
        if not len(positive) or not len(negative):
            assert row["value"] is None, name
            continue
        ahead = (positive[:, None] > negative).sum() + (positive[:, None] >= negative).sum()
        assert row["value"] == ahead / (2 * len(positive) * len(negative)), name


def key(row: Mapping[str, object], segments: tuple[str, ...]) -> tuple[object, ...]:
    return row["model"], row["level"], *(row[name] for name in segments)


def grouped(
    predictions: pa.Table, segments: tuple[str, ...]
) -> dict[tuple[object, ...], tuple[np.ndarray, np.ndarray]]:
    """Labels and scores of every model at the total, at each segment column and at their cross."""
    levels = [(), *((name,) for name in segments), segments] if len(segments) > 1 else [(), segments]
    rows: dict[tuple[object, ...], list[tuple[bool, float]]] = {}
    for row in predictions.select(["model", *segments, "label", "score"]).to_pylist():
        for level in levels:
            name = ",".join(level) or "total"
            group = (row["model"], name, *(row[column] if column in level else None for column in segments))
            rows.setdefault(group, []).append((row["label"] == 1, row["score"]))
    return {
        group: (np.array([label for label, _ in found]), np.array([score for _, score in found]))
        for group, found in rows.items()
    }
