"""Results as Arrow tables: fetched once, in an order of their own, compared by bits or within a tolerance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sparkmetrics import Evaluation

SEGMENT_TABLES = ("segment_summary", "segment_gap", "segment_disparity")
TABLES = ("metrics", "confusion", "curves", "gains", "calibration", "segment_auc")

COUNTS = frozenset({"rows", "tp", "fp", "fn", "tn", "positives", "negatives", "pairs", "wins2", "lift"})
"""Columns of weights, which are right to 1e-12 relative; measures are to 1e-12, relative above 1."""

LAST_KEYS = (
    *("metric", "average", "class", "threshold", "point", "bucket", "bin"),
    *("positive_segment", "negative_segment", "label", "prediction"),
)
"""What tells the rows of one group apart."""

Found = dict[tuple[Any, ...], dict[str, Any]]


def metrics_by_key(evaluation: Evaluation, *keys: str) -> Found:
    """The metrics as {(keys..., metric, average, class, threshold): row}; no key comes twice, NULL has a reason."""
    found: Found = {}
    for row in evaluation.metrics().toArrow().to_pylist():
        key = tuple(row[name] for name in (*keys, "metric", "average", "class", "threshold"))
        assert key not in found, key
        assert (row["value"] is None) == (row["reason"] is not None), row
        found[key] = row
    return found


def tables(evaluation: Evaluation, names: tuple[str, ...] = TABLES) -> dict[str, pa.Table]:
    """The tables of an evaluation without its run id, made in one pass, rows in the order of their keys."""
    keys = [*evaluation.states.keys.names, "level", *LAST_KEYS]
    if len(names) > 1:
        evaluation.share(names)
    try:
        found = {name: getattr(evaluation, name)().drop("run_id").toArrow() for name in names}
    finally:
        evaluation.unpersist()
    return {
        name: table.sort_by([(key, "ascending") for key in keys if key in table.column_names]).combine_chunks()
        for name, table in found.items()
    }


def bits(table: pa.Table) -> pa.Table:
    """The table with doubles as the integers that have their bits, so that == tells -0.0 from 0.0 and knows NaN."""
    columns = [pa.concat_arrays(column.chunks) if column.num_chunks else column for column in table.columns]
    return pa.table(
        [column.view(pa.int64()) if pa.types.is_float64(column.type) else column for column in columns],
        names=table.column_names,
    )


def assert_same_bits(left: Mapping[str, pa.Table], right: Mapping[str, pa.Table]) -> None:
    assert left.keys() == right.keys()
    for name in left:
        mine, other = bits(left[name]), bits(right[name])
        assert mine.schema == other.schema, name
        assert mine.num_rows == other.num_rows, name
        different = [column for column in mine.column_names if not mine.column(column).equals(other.column(column))]
        assert different == [], name


def assert_close(
    left: Mapping[str, pa.Table], right: Mapping[str, pa.Table], relative: frozenset[str], tolerance: float = 1e-12
) -> None:
    """Numbers within the tolerance, relative above 1 or, in the columns named so, always; the rest equal, nulls too.

    Weights of buckets are differences of sums, and so within the tolerance of the largest.
    """
    assert left.keys() == right.keys()
    for table in left:
        assert left[table].num_rows == right[table].num_rows, table
        for name in left[table].column_names:
            mine, other = left[table].column(name), right[table].column(name)
            if not pa.types.is_float64(mine.type):
                assert mine.equals(other), (table, name)
                continue
            assert mine.is_null().equals(other.is_null()), (table, name)
            a, b = mine.drop_null().to_numpy(), other.drop_null().to_numpy()
            least = np.max(np.abs(b), initial=0.0) if table == "gains" else 0.0 if name in relative else 1.0
            np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * least, err_msg=f"{table}.{name}")


def exactly(value: Any) -> Any:
    return pytest.approx(value, rel=0, abs=1e-12)
