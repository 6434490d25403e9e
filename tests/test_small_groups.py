"""`min_group_rows`: smaller groups keep their place in every table, lose their values, and count in the totals."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

import sparkmetrics as sm

REASON = "fewer than 4 rows"
ROWS = [
    *(("big", y, s, str(y)) for y, s in ((1, 0.9), (0, 0.4), (1, 0.6), (0, 0.7))),
    *(("small", y, s, "1") for y, s in ((1, 0.8), (0, 0.3), (1, 0.2))),
]
KEPT = {
    "metrics": {"metric", "average", "class", "threshold", "rows", "positives", "negatives"},
    "confusion": {"threshold"},
    "segment_auc": {
        *("positive_segment", "negative_segment", "positives", "negatives", "pairs", "pair_share", "mixed"),
    },
    "segment_summary": {"rows", "positives", "negatives"},
}
"""What small groups keep beside their keys."""


@pytest.fixture(scope="module")
def found(spark: SparkSession) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Tables with and without a least number of rows: the rows of each by what they are of."""
    frame = spark.createDataFrame(ROWS, "seg string, y int, p double, predicted string")
    tables = {}
    for least in (0, 4):
        ev = sm.evaluate(
            frame,
            segments=["seg"],
            label="y",
            score="p",
            prediction="predicted",
            min_group_rows=least,
            thresholds=[0.5],
        )
        tables[least] = {name: [r.asDict() for r in make().collect()] for name, make in ev.tables().items()}
    return {"all": tables[0], "large": tables[4]}


def is_small(row: dict[str, Any]) -> bool:
    names = [row.get(name) for name in ("seg", "positive_segment", "negative_segment")]
    return any(name in ("small", "seg=small") for name in names)


@pytest.mark.parametrize(
    "table",
    ["metrics", "confusion", "curves", "gains", "calibration", "segment_auc", "segment_summary", "class_counts"],
)
def test_values_of_small_groups_are_null_with_a_reason(found: dict[str, Any], table: str) -> None:
    rows, before = found["large"][table], found["all"][table]
    small = [row for row in rows if is_small(row)]
    keys = {"seg", "level", "run_id", "reason"}
    assert small
    for row in small:
        assert row["reason"] == REASON
        kept = keys | KEPT.get(table, set())
        assert all(value is None for name, value in row.items() if name not in kept), row
    if table in KEPT:
        assert len(rows) == len(before)
        for row in small:
            (twin,) = (o for o in before if same_place(o, row, table))
            kept = KEPT[table] - ({"threshold"} if "metric" in row else set())
            assert {name: row[name] for name in kept} == {name: twin[name] for name in kept}
    else:
        assert len(small) == 1
    others = [row for row in rows if not is_small(row)]
    assert len(others) == len([row for row in before if not is_small(row)])
    assert all(row["reason"] != REASON for row in others)


def same_place(one: dict[str, Any], other: dict[str, Any], table: str) -> bool:
    names = ["level", "seg", "metric", "average", "class", "positive_segment", "negative_segment"]
    taken = one.get("metric") != "ks" and not str(one.get("metric")).startswith(("best_", "closest"))
    if table == "confusion" or (taken and "metric" in one):
        names.append("threshold")
    return all(one.get(name) == other.get(name) for name in names)


def test_a_threshold_that_is_part_of_a_value_goes_with_it(found: dict[str, Any]) -> None:
    thresholds = {
        row["metric"]: row["threshold"]
        for row in found["large"]["metrics"]
        if row["seg"] == "small" and row["threshold"]
    }
    assert "accuracy" in thresholds
    assert "ks" not in thresholds
    assert not any(name.startswith("best_") for name in thresholds)


def test_small_groups_still_count(found: dict[str, Any]) -> None:
    def totals(which: str, table: str) -> list[dict[str, Any]]:
        rows = [row for row in found[which][table] if row["level"] == "total"]
        return [{name: v for name, v in row.items() if name not in ("run_id", "reason")} for row in rows]

    for table in ("metrics", "confusion", "curves", "gains", "calibration", "class_counts"):
        key = str
        assert sorted(totals("all", table), key=key) == sorted(totals("large", table), key=key), table


def test_gap_and_disparity_are_of_the_segments_that_are_shown(found: dict[str, Any]) -> None:
    (before,), (gap,) = found["all"]["segment_gap"], found["large"]["segment_gap"]
    pooled = ("rows", "segments", "total_auc", "within_auc", "within_share", "between_auc", "between_share")
    assert {name: gap[name] for name in pooled} == {name: before[name] for name in pooled}
    # big: 0.9 and 0.6 against 0.4 and 0.7 is 3 of 4; small: 0.8 and 0.2 against 0.3 is 1 of 2.
    assert (before["smallest_auc"], before["mean_auc"], before["defined_segments"]) == (0.5, 0.625, 2)
    assert (gap["smallest_auc"], gap["mean_auc"], gap["gauc"], gap["defined_segments"]) == (0.75, 0.75, 0.75, 1)
    auc = next(row for row in found["large"]["segment_disparity"] if row["metric"] == "roc_auc")
    assert (auc["segments"], auc["worst_segment"], auc["reason"]) == (1, None, "fewer than two segments")


def test_a_total_that_is_too_small_has_no_gap(spark: SparkSession) -> None:
    frame = spark.createDataFrame(ROWS[:4], "seg string, y int, p double, predicted string")
    ev = sm.evaluate(frame, segments=["seg"], label="y", score="p", min_group_rows=5)
    (gap,) = ev.segment_gap().collect()
    assert (gap["total_auc"], gap["total_position"], gap["reason"]) == (None, None, "fewer than 5 rows")
    assert gap["rows"] == 4


def test_what_is_against_a_few_rows_outside_is_hidden_too(found: dict[str, Any]) -> None:
    (row,) = (row for row in found["large"]["segment_summary"] if row["seg"] == "big")
    (before,) = (row for row in found["all"]["segment_summary"] if row["seg"] == "big")
    assert (row["subgroup_auc"], row["gap_contribution"]) == (before["subgroup_auc"], before["gap_contribution"])
    assert {row[name] for name in ("bpsn_auc", "bnsp_auc", "leave_one_out_auc")} == {None}
    assert row["reason"] == "fewer than 4 rows outside"
