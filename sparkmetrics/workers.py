"""How a function of this package gets to the executors: by value, so that they need NumPy and pyarrow alone."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

Task = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""What runs in a worker: the record batches of one partition in, record batches out."""


def map_partitions(frame: DataFrame, task: Task, schema: StructType) -> DataFrame:
    """`mapInArrow` with a task whose code travels with it.

    Parameters
    ----------
    frame : input.
    task : a function, or a `functools.partial` of one with plain data.
    schema : of what it yields, columns in this order.
    """
    names = schema.names

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in task(batches):
            yield batch.select(names)

    # Only the whole package can be shipped by value: a part of it would still import the rest.
    cloudpickle.register_pickle_by_value(sys.modules[__package__])  # type: ignore[no-untyped-call]
    return frame.mapInArrow(run, schema)
