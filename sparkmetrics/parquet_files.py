"""The files behind a Parquet path: whether workers may read them with pyarrow just as Spark would, and in which pieces.

It is exact or not at all: whatever is not known to mean the same to both goes to Spark's reader, with the reason.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from sparkmetrics.columns import listed, quote
from sparkmetrics.errors import SPARK_ERRORS, DataError, first_line

READERS = ("auto", "spark", "arrow")
"""Who reads the files: pyarrow where that is exact, else Spark; Spark; pyarrow, or an error."""

SCHEMES = ("file", "hdfs")
"""Where workers need no credentials of their own."""

MOST_FILES = 10_000
"""Footers of more files would keep the driver busy."""

NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"

NUMBERS = ("double", "float", "tinyint", "smallint", "int", "boolean")
"""Types of labels, scores and weights whose every value both readers make the same double."""

KEYS = ("string", "tinyint", "smallint", "int", "bigint", "boolean", "date")
"""Types of keys that both readers make the same value."""

PARTITION_KEYS = ("string", "int", "bigint", "date")
"""Types of partition columns whose text is read the same way here."""

FIRST_GREGORIAN_DAY = date(1582, 10, 15)
"""Dates before it may have been written in the calendar that was used then."""

log = logging.getLogger("sparkmetrics")


class NotExactError(Exception):
    """Why workers may not read the files themselves."""


def filtered(frame: DataFrame, condition: str, what: str, where: str) -> DataFrame:
    """The rows of a SQL condition. Raises DataError, with what it is and of what, where it does not fit."""
    try:
        found = frame.where(condition)
        # A Connect session takes the schema for known, and analyses the filter only when asked something else.
        _ = found.isStreaming
    except SPARK_ERRORS as error:
        raise DataError(f"{what} does not fit {where}: {first_line(error)}") from error
    return found


@dataclass(frozen=True)
class Piece:
    """A part of a file: plain data, it travels to the workers.

    Attributes
    ----------
    uri : of the file.
    size : its bytes when it was listed.
    row_groups : which of it.
    rows : in these.
    partition : the value of each partition column, in the order of `Pieces.partition_columns`.
    """

    uri: str
    size: int
    row_groups: tuple[int, ...]
    rows: int
    partition: tuple[str | int | date | None, ...]


@dataclass(frozen=True)
class Pieces:
    """What the tasks of a scan read.

    Attributes
    ----------
    tasks : the pieces of each task.
    partition_columns : columns that stand in the paths, with Spark's type.
    """

    tasks: tuple[tuple[Piece, ...], ...]
    partition_columns: tuple[tuple[str, str], ...]

    @property
    def rows(self) -> int:
        """All rows, as the files' footers say."""
        return sum(piece.rows for task in self.tasks for piece in task)


@dataclass(frozen=True)
class ParquetPath:
    """A path of Parquet files as a caller named it.

    Attributes
    ----------
    spark : session.
    path : as Spark takes it.
    filter : a SQL condition, or None.
    """

    spark: SparkSession
    path: str
    filter: str | None = None

    def frame(self) -> DataFrame:
        """What Spark reads there.

        Raises
        ------
        DataError : Spark cannot read the path, or the filter does not fit its columns.
        """
        try:
            frame = self.spark.read.parquet(self.path)
            _ = frame.schema  # a Connect session looks for the path only now
        except SPARK_ERRORS as error:
            raise DataError(f"Cannot read {self.path!r}: {first_line(error)}") from error
        return frame if self.filter is None else filtered(frame, self.filter, f"filter {self.filter!r}", self.path)

    def pieces(self, numbers: Collection[str], keys: Collection[str], task_rows: int, tasks: int) -> Pieces:
        """The pieces that hold the rows of the filter.

        Parameters
        ----------
        numbers : columns of labels, scores and weights.
        keys : key columns.
        task_rows : most rows a task reads, as row groups allow.
        tasks : how many tasks keep the cluster busy.

        Raises
        ------
        NotExactError : pyarrow might not read what Spark reads.
        """
        frame = self.spark.read.parquet(self.path)
        types = {field.name: field.dataType.simpleString() for field in frame.schema}
        files = _listed(frame)
        inside = {name for file in files for name in file.names}
        names = [name for name in types if name not in inside]
        for name in {*names} & {*numbers}:
            raise NotExactError(f"column {name!r} is in the paths, and is no key")
        partition = tuple((name, types[name]) for name in names)
        for name, kind in partition:
            if kind not in PARTITION_KEYS and name in keys:
                raise NotExactError(f"partition column {name!r} has type {kind}")
        for file in files:
            for columns, allowed in ((numbers, NUMBERS), (keys, KEYS)):
                for name in columns:
                    if name not in names:
                        file.check(name, types[name], allowed)
        kept = files if self.filter is None else self._filtered(files, frame.schema, names)
        return Pieces(_packed(kept, partition, task_rows, tasks), partition)

    def _filtered(self, files: Sequence[File], schema: StructType, names: Sequence[str]) -> list[File]:
        """The files whose partition values pass the filter, as Spark judges it."""
        condition = str(self.filter)
        # A function may give another answer for each row, or read another column.
        calls = {word.lower() for word in re.findall(r"(\w+)\s*\(", condition)} - {"in", "and", "or", "not"}
        if calls or not names or re.search(r"\bselect\b", condition, re.IGNORECASE):
            raise NotExactError(f"the filter {condition!r} is more than AND, OR, =, IN and ranges on partition columns")
        text = StructType([StructField("file", StringType()), *(StructField(name, StringType()) for name in names)])
        rows = [(str(number), *(file.partition_text(name) for name in names)) for number, file in enumerate(files)]
        kinds = {name: schema[name].dataType for name in names}
        typed = [F.col(quote(name)).cast(kind).alias(name) for name, kind in kinds.items()]
        values = self.spark.createDataFrame(rows, text).select(F.col("file").alias("\0file"), *typed)
        try:
            kept = values.where(condition).select(F.col("`\0file`")).collect()
        except SPARK_ERRORS:
            raise NotExactError(f"the filter {condition!r} is not of partition columns alone") from None
        return [files[int(row[0])] for row in kept]


@dataclass(frozen=True)
class File:
    """A Parquet file as its footer describes it."""

    uri: str
    size: int
    metadata: pq.FileMetaData
    names: tuple[str, ...]

    def check(self, name: str, spark_type: str, allowed: Collection[str]) -> None:
        """Raises NotExactError unless the column means the same to pyarrow as to Spark."""
        if spark_type not in allowed:
            raise NotExactError(f"column {name!r} has type {spark_type}")
        alike = [other for other in self.names if other.lower() == name.lower()]
        if alike != [name] or "." in name:
            raise NotExactError(f"column {name!r} is {listed(alike)} in {self.uri!r}")
        position = self.names.index(name)
        schema = self.metadata.schema
        places = [i for i in range(len(schema)) if schema.column(i).path.split(".")[0] == name]
        if len(places) != 1 or schema.column(places[0]).path != name or schema.column(places[0]).max_repetition_level:
            raise NotExactError(f"column {name!r} (the {position + 1}.) is nested in {self.uri!r}")
        column = schema.column(places[0])
        stored = _stored_type(column)
        if stored != spark_type:
            raise NotExactError(f"column {name!r} is stored as {stored} in {self.uri!r}, and Spark reads {spark_type}")
        if spark_type == "date":
            self._check_calendar(name, places[0])

    def _check_calendar(self, name: str, place: int) -> None:
        """Dates of old writers, or so old that the calendar matters, are for Spark."""
        notes = self.metadata.metadata or {}
        version = notes.get(b"org.apache.spark.version", b"").decode()
        legacy = b"org.apache.spark.legacyDateTime" in notes or (version and int(version.split(".")[0]) < 3)
        for number in range(self.metadata.num_row_groups):
            found = self.metadata.row_group(number).column(place).statistics
            known = found is not None and found.has_min_max
            empty = found is not None and found.null_count == self.metadata.row_group(number).num_rows
            if legacy or not (empty or (known and found.min >= FIRST_GREGORIAN_DAY)):
                raise NotExactError(f"date column {name!r} of {self.uri!r} may be in a legacy calendar")

    def partition_text(self, name: str) -> str | None:
        """The value that the path gives a partition column, unescaped; NULL where it says so."""
        folders = [part.partition("=") for part in unquote(urlsplit(self.uri).path).split("/")[:-1]]
        texts = [unquote(value) for key, _, value in folders if unquote(key).lower() == name.lower()]
        if not texts:
            raise NotExactError(f"column {name!r} is neither in {self.uri!r} nor in its path")
        return None if texts[-1] == NULL_PARTITION else texts[-1]


def _stored_type(column: Any) -> str:
    """Spark's type of a column as a file stores it; another word for what is not read here."""
    logical = json.loads(column.logical_type.to_json())
    kind, physical = logical["Type"], column.physical_type
    plain = {"BOOLEAN": "boolean", "INT32": "int", "INT64": "bigint", "FLOAT": "float", "DOUBLE": "double"}
    if kind == "None" and physical in plain:
        return plain[physical]
    if kind == "Int" and logical["isSigned"]:
        return {8: "tinyint", 16: "smallint", 32: "int", 64: "bigint"}[logical["bitWidth"]]
    return {"String": "string", "Date": "date"}.get(kind, f"{physical} {kind}")


def _listed(frame: DataFrame) -> list[File]:
    """The files that Spark would read, with their footers."""
    uris = sorted(frame.inputFiles())
    schemes = {urlsplit(uri).scheme for uri in uris}
    if not uris or not schemes <= {*SCHEMES}:
        raise NotExactError(f"the files are at {listed(sorted(schemes))}" if uris else "there are no files")
    if len(uris) > MOST_FILES:
        raise NotExactError(f"there are {len(uris):,} files")
    with ThreadPoolExecutor(16) as pool:
        try:
            files = list(pool.map(_footer, uris))
        except (OSError, pa.ArrowException) as error:
            raise NotExactError(f"this process cannot read the files: {error}") from None
    folders = {uri.rsplit("/", 1)[0] for uri in uris}
    for above in {parent for folder in folders for parent in _parents(folder)}:
        where, path = fs.FileSystem.from_uri(above)
        if where.get_file_info(f"{path}/_delta_log").type != fs.FileType.NotFound:
            raise NotExactError("they belong to a Delta table, whose log says which rows count")
    return files


def _parents(folder: str) -> Iterable[str]:
    """A folder and those above it that are partitions of the same table, and the table's."""
    yield folder
    while "=" in folder.rsplit("/", 1)[1]:
        folder = folder.rsplit("/", 1)[0]
        yield folder


def _footer(uri: str) -> File:
    where, path = fs.FileSystem.from_uri(uri)
    size = where.get_file_info(path).size
    with where.open_input_file(path) as file:
        metadata = pq.read_metadata(file)
    return File(uri, size, metadata, tuple(metadata.schema.to_arrow_schema().names))


def _packed(
    files: Sequence[File], partition: Sequence[tuple[str, str]], task_rows: int, tasks: int
) -> tuple[tuple[Piece, ...], ...]:
    """Row groups of consecutive files put together to tasks of about the same number of rows."""
    numbered = ((file, number) for file in files for number in range(file.metadata.num_row_groups))
    groups = [(file, number, file.metadata.row_group(number).num_rows) for file, number in numbered]
    total = sum(rows for _, _, rows in groups)
    target = max(min(task_rows, -(-total // max(tasks, 1))), 1)
    packed: list[list[Piece]] = []
    held = target
    for file, number, rows in groups:
        if held + rows > target:
            packed.append([])
            held = 0
        held += rows
        task = packed[-1]
        if task and task[-1].uri == file.uri:
            last = task.pop()
            task.append(Piece(last.uri, last.size, (*last.row_groups, number), last.rows + rows, last.partition))
        else:
            values = tuple(_partition_value(file.partition_text(name), kind) for name, kind in partition)
            task.append(Piece(file.uri, file.size, (number,), rows, values))
    return tuple(tuple(task) for task in packed)


def _partition_value(text: str | None, kind: str) -> str | int | date | None:
    """The value that Spark gives a partition column of that type; those of other types are not read."""
    if text is None or kind not in PARTITION_KEYS:
        return None
    if kind == "date":
        return date.fromisoformat(text)
    return text if kind == "string" else int(text)
