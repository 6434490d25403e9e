"""Workers that read Parquet files themselves: the same clean predictions as Spark's, without a row in the JVM."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType

from sparkmetrics import batches, hashes
from sparkmetrics.kernel import Booleans, Floats, Integers
from sparkmetrics.parquet_files import KEYS, NotExactError, ParquetPath, Piece, Pieces, located
from sparkmetrics.predictions import LARGEST_WEIGHT, LabelValue, Predictions, positive_value
from sparkmetrics.ranges import Sizing
from sparkmetrics.workers import map_partitions

BATCH_ROWS = 262_144
"""Rows that are read at a time."""

BUFFER_BYTES = 1 << 20
"""Bytes of a column that are read at a time."""


@dataclass(frozen=True)
class Scan:
    """How workers read predictions. Plain data: it travels to them.

    Attributes
    ----------
    pieces : what each task reads.
    keys : the key columns: their names, internal names and types in Arrow.
    by : how many of these are `by` columns; they come first.
    label, score, weight : the columns; `weight` may be None.
    positive : the value of the label that is positive; None where no value can be.
    """

    pieces: Pieces
    keys: tuple[tuple[str, str, pa.DataType], ...]
    by: int
    label: str
    score: str
    weight: str | None
    positive: LabelValue | None

    @property
    def apart(self) -> Scan:
        """The same for keys of which none is pooled: `Keys.apart`."""
        return replace(self, by=len(self.keys))

    def source(self, spark: SparkSession) -> DataFrame:
        """A DataFrame of one row for each task, each in its own partition: its number."""
        tasks = len(self.pieces.tasks)
        return spark.range(0, tasks, 1, tasks)

    def good_rows(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Worker: the rows that are evaluated, as `Predictions.good` has them."""
        for rows in self._rows(numbers):
            kept = rows.reason < 0
            columns = dict(rows.keys)
            columns["tuple"] = pa.array(rows.tuples.view(np.int64))
            columns["positive"] = pa.array(rows.positive)
            columns["score"] = pa.array(rows.score)
            if rows.weight is not None:
                columns["weight"] = pa.array(rows.weight)
            batch = pa.RecordBatch.from_pydict(columns)
            yield batch if kept.all() else batch.filter(pa.array(kept))

    def counted(self, numbers: Iterator[pa.RecordBatch], sample_every: int) -> Iterator[pa.RecordBatch]:
        """Worker: rows by `by` tuple, reason and sampled score, as `inspection.inspect` counts them."""
        for rows in self._rows(numbers):
            yield rows.counted(sample_every)

    def counts(self, spark: SparkSession, sample_every: int) -> DataFrame:
        """What `counted` makes of all rows: the columns of COUNTED."""
        return map_partitions(self.source(spark), partial(Scan.counted, self, sample_every=sample_every), COUNTED)

    def _rows(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[Rows]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                for piece in self.pieces.tasks[number]:
                    yield from self._of_piece(piece)

    def _of_piece(self, piece: Piece) -> Iterator[Rows]:
        where, path = located(piece.uri)
        info = where.get_file_info(path)
        if (info.size, info.mtime_ns) != (piece.size, piece.changed):
            raise ValueError(
                f"sparkmetrics: {piece.uri!r} had {piece.size} bytes when it was listed, and has {info.size or 'none'} "
                "now, or was written anew. It changed while it was read; run again."
            )
        values = dict(zip((name for name, _ in self.pieces.partition_columns), piece.partition, strict=True))
        wanted = [*(name for name, _, _ in self.keys), self.label, self.score, *([self.weight] if self.weight else [])]
        stored = [name for name in dict.fromkeys(wanted) if name not in values]
        texts = [name for name, _, kind in self.keys if pa.types.is_string(kind) and name not in values]
        with where.open_input_file(path) as file:
            # A row group is read through a buffer, however large it is.
            reader = pq.ParquetFile(file, read_dictionary=texts, pre_buffer=False, buffer_size=BUFFER_BYTES)
            for batch in reader.iter_batches(BATCH_ROWS, list(piece.row_groups), stored, use_threads=False):
                if batch.num_rows:
                    yield self._cleaned(batch, values)

    def _cleaned(self, batch: pa.RecordBatch, values: Mapping[str, object]) -> Rows:
        size = batch.num_rows
        keys = {}
        for name, inside, kind in self.keys:
            in_path = name in values
            keys[inside] = _repeated(values[name], kind, size) if in_path else _key(batch.column(name), kind)
        label, no_label = _numbers(batch.column(self.label))
        score, no_score = _numbers(batch.column(self.score))
        weight = None
        tests: list[tuple[str, Booleans]] = [
            ("null label", no_label),
            ("NaN label", np.isnan(label) & ~no_label),
            ("null score", no_score),
            ("NaN score", np.isnan(score)),
        ]
        if self.weight is not None:
            weight, no_weight = _numbers(batch.column(self.weight))
            tests += [
                ("null weight", no_weight),
                ("NaN weight", np.isnan(weight)),
                ("negative weight", weight < 0),
                ("weight above 1e100", weight > LARGEST_WEIGHT),
            ]
        reason = np.full(size, -1)
        for number, (_, where) in reversed(list(enumerate(tests))):
            reason[where] = number
        columns = list(keys.values())
        return Rows(
            keys=keys,
            tuples=hashes.tuple_hashes(columns[: self.by], size),
            label=label,
            positive=np.zeros(size, dtype=bool) if self.positive is None else label == float(self.positive),
            score=score,
            weight=weight,
            reason=reason,
            reasons=tuple(text for text, _ in tests),
        )


COUNTED = StructType(
    [
        StructField("tuple", LongType()),
        StructField("reason", StringType()),
        StructField("sample", DoubleType()),
        *(StructField(name, LongType()) for name in ("entry", "group", "rows", "positive_rows")),
        *(StructField(name, LongType()) for name in ("least_label", "largest_label", "inexact")),
    ]
)
"""What workers count of predictions: as the first aggregate of `inspection.inspect` has it."""


@dataclass(frozen=True)
class Rows:
    """Rows of predictions, clean but for those with a reason.

    Attributes
    ----------
    keys : the key columns under internal names.
    tuples : array of uint64: the hash of each row's `by` tuple.
    label, score, weight : arrays of float64.
    positive : array of bool.
    reason : array of int64: what is wrong with a row, by its place in `reasons`; -1 for nothing.
    """

    keys: dict[str, pa.Array]
    tuples: hashes.Hashes
    label: Floats
    positive: Booleans
    score: Floats
    weight: Floats | None
    reason: Integers
    reasons: tuple[str, ...]

    def counted(self, sample_every: int) -> pa.RecordBatch:
        """One row for each (tuple, reason), and one for each sampled score of these."""
        size = len(self.score)
        groups = hashes.tuple_hashes(list(self.keys.values()), size)
        entries = hashes.with_scores(groups, self.score)
        good = self.reason < 0
        sampled = good & (entries % np.uint64(sample_every) == 0)
        reason = pa.array(self.reason, mask=good)
        entry = pa.array(entries.view(np.int64), mask=~sampled)
        tuples = pa.array(self.tuples.view(np.int64))
        codes = batches.key_codes([tuples, reason, entry], size)
        counts = good if self.weight is None else good & (self.weight > 0)
        negative = counts & ~self.positive
        bits = self.label.view(np.int64)
        least, largest = np.full(codes.size, np.iinfo(np.int64).max), np.full(codes.size, np.iinfo(np.int64).min)
        np.minimum.at(least, codes.row[negative], bits[negative])
        np.maximum.at(largest, codes.row[negative], bits[negative])
        first, none = pa.array(codes.first), least > largest
        columns = {
            "tuple": tuples.take(first),
            "reason": pa.array(self.reasons, pa.string()).take(reason.take(first)),
            "sample": pa.array(self.score, mask=~sampled).take(first),
            "entry": entry.take(first),
            "group": pa.array(groups.view(np.int64), mask=~sampled).take(first),
            "rows": pa.array(np.bincount(codes.row, minlength=codes.size)),
            "positive_rows": pa.array(np.bincount(codes.row[counts & self.positive], minlength=codes.size)),
            "least_label": pa.array(least, mask=none),
            "largest_label": pa.array(largest, mask=none),
            "inexact": pa.array(np.zeros(codes.size, dtype=np.int64)),
        }
        return pa.RecordBatch.from_pydict(columns)


def _key(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """A key column of one type for all files, whatever their writers noted: strings in a dictionary, others plain."""
    if not pa.types.is_string(kind):
        return batches.plain(column).cast(kind)
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    return pa.DictionaryArray.from_arrays(column.indices.cast(pa.int32()), column.dictionary.cast(kind))


def _repeated(value: object, kind: pa.DataType, size: int) -> pa.Array:
    """A column of one value, as a dictionary: it may be a long text."""
    indices = pa.nulls(size, pa.int32()) if value is None else pa.array(np.zeros(size, dtype=np.int32))
    return pa.DictionaryArray.from_arrays(indices, pa.array([] if value is None else [value], kind))


def _numbers(column: pa.Array) -> tuple[Floats, Booleans]:
    """A column as doubles of which there is one zero, and where it is null (NaN there)."""
    values = column.cast(pa.uint8()) if pa.types.is_boolean(column.type) else column
    found = values.cast(pa.float64()).to_numpy(zero_copy_only=False) + 0.0
    return found, pc.is_null(column).to_numpy(zero_copy_only=False)


def scan_of(
    files: ParquetPath, predictions: Predictions, sizing: Sizing, *, tasks: int, schemes: Collection[str]
) -> Scan:
    """How workers read the predictions of a path.

    Parameters
    ----------
    files : the path.
    predictions : what `predictions.clean` makes of it; names and positive label are taken from there.
    sizing : how work is cut into tasks.
    tasks : how many of these keep the cluster busy.
    schemes : of the addresses that workers may read.

    Raises
    ------
    NotExactError : pyarrow might not read what Spark reads.
    """
    keys, sources = predictions.keys, predictions.sources
    label, score, weight = (sources[role] for role in ("label", "score", "weight"))
    positive: Any = sources["positive"]
    if not isinstance(score, str) or not isinstance(label, str):
        raise NotExactError("there are scores of several models" if score else "there are no scores")
    numbers = [label, score, *([str(weight)] if weight is not None else [])]
    pieces = files.pieces(
        numbers, keys.names, least=sizing.placed_rows, most=sizing.chunk_rows, tasks=tasks, schemes=schemes
    )
    if not pieces.rows:
        raise NotExactError("there are no rows")
    described = zip(keys.names, keys.columns, keys.types, strict=True)
    return Scan(
        pieces=pieces,
        keys=tuple((name, inside, KEYS[kind.simpleString()]) for name, inside, kind in described),
        by=len(keys.by),
        label=label,
        score=score,
        weight=None if weight is None else str(weight),
        positive=positive_value(label, files.table.schema[label].dataType, positive),
    )
