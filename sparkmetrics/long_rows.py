"""Rows of the long table of metrics, from arrays of values: one place that decides what is undefined, and why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sparkmetrics import batches
from sparkmetrics.kernel import Booleans, Floats
from sparkmetrics.metrics.counts import Cells, Totals
from sparkmetrics.metrics.intervals import wilson
from sparkmetrics.metrics.pair_parts import LEAST_PRODUCT, TOO_SMALL
from sparkmetrics.metrics.registry import Metric, ThresholdMetric, reason

Tests = Iterable[tuple[Booleans, str]]
"""Where a value is undefined, and why; the first that holds is the reason."""

Bounds = tuple[Floats, Floats]


def missing(metric: Metric, counts: Cells | Totals) -> list[tuple[Booleans, str]]:
    """Where counts that a metric needs are 0, or too small to be multiplied."""
    tests = [(getattr(counts, need) == 0, reason(need)) for need in metric.needs]
    if metric.of_pairs:
        tests.append((counts.positives * counts.negatives < LEAST_PRODUCT, TOO_SMALL))
    return tests


@dataclass(frozen=True)
class Rows:
    """Rows of one kind: what all their metrics have in common.

    Attributes
    ----------
    common : the columns that do not depend on the metric: keys, `class`, `rows`, `positives`, `negatives`.
    whole : array of bool: whether all counts of a row are whole numbers, so that a proportion has an interval.
    z : half the width of an interval in standard errors.
    """

    common: Mapping[str, pa.Array]
    whole: Booleans
    z: float

    def of_cells(
        self, metric: ThresholdMetric, cells: Cells, tests: Tests = (), threshold: float | None = None
    ) -> pa.Table:
        """The rows of a metric of cells.

        Parameters
        ----------
        cells : arrays, one element a row.
        tests : where it is undefined beside what the metric needs.
        threshold : where the cells were counted.
        """
        values = metric.value(cells)
        size = None if metric.proportion_of is None else getattr(cells, metric.proportion_of)
        at = None if threshold is None else np.full(np.size(values), threshold)
        return self.of_values(metric.name, values, [*tests, *missing(metric, cells)], size=size, threshold=at)

    def of_values(
        self,
        name: str,
        values: Floats,
        tests: Tests = (),
        *,
        average: str | None = None,
        size: Floats | None = None,
        bounds: Bounds | None = None,
        threshold: Floats | None = None,
    ) -> pa.Table:
        """The rows of a metric.

        Parameters
        ----------
        name : of the metric.
        values : one a row; NaN where undefined.
        tests : where it is undefined, and why.
        average : what stands in the column of that name.
        size : the count that the value is a proportion of, which gives it an interval.
        bounds : its interval, where it has another one.
        threshold : where the value is taken, NaN for nowhere.
        """
        values, number = np.ravel(values), len(self.whole)
        texts: list[str] = []
        code = np.full(number, -1)
        overflow = (np.isinf(values), "too large for a double")
        for where, text in (*tests, (np.isnan(values), "denominator is 0"), overflow):
            code[(code < 0) & np.ravel(where)] = len(texts)
            texts.append(text)
        undefined = code >= 0
        if size is not None:
            share, n = (np.where(undefined | ~self.whole, np.nan, np.ravel(array)) for array in (values, size))
            bounds = wilson(share, n, self.z)
        nothing = np.full(number, np.nan)
        lower, upper = bounds or (nothing, nothing)
        numbers = {
            "lower": np.where(undefined, np.nan, lower),
            "upper": np.where(undefined, np.nan, upper),
            "threshold": nothing if threshold is None else threshold,
        }
        return pa.table(
            {
                **self.common,
                "metric": pa.repeat(pa.scalar(name, pa.string()), number),
                "average": pa.repeat(pa.scalar(average, pa.string()), number),
                "reason": pa.array(texts, pa.string()).take(pa.array(code, mask=~undefined)),
                "value": pa.array(values, mask=undefined),
                **{column: pa.array(array, mask=np.isnan(array)) for column, array in numbers.items()},
            }
        )


def bounded(tables: Iterable[pa.Table]) -> Iterator[pa.RecordBatch]:
    """Tables of any size as record batches of about `BATCH_ROWS` rows."""
    waiting: list[pa.Table] = []
    rows = 0
    for table in tables:
        waiting.append(table)
        rows += table.num_rows
        if rows >= batches.BATCH_ROWS:
            yield from _joined(waiting)
            waiting, rows = [], 0
    if waiting:
        yield from _joined(waiting)


def _joined(tables: list[pa.Table]) -> list[pa.RecordBatch]:
    joined: list[pa.RecordBatch] = pa.concat_tables(tables).combine_chunks().to_batches(batches.BATCH_ROWS)
    return joined
