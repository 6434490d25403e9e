"""The files behind a Parquet path: whether workers may read them with pyarrow just as Spark would, and in which pieces.

It is exact or not at all: whatever is not known to mean the same to both goes to Spark's reader, with the reason.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import date
from typing import Any
from urllib.parse import quote as quoted_uri
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from sparkmetrics.columns import listed, quote
from sparkmetrics.errors import SPARK_ERRORS, DataError, NotThereError, first_line, is_not_there

READERS = ("auto", "spark", "arrow")
"""Who reads the files: pyarrow where that is exact, else Spark; Spark; pyarrow, or an error."""

SCHEMES = ("file",)
"""Where workers need no credentials of their own."""

ASKED_SCHEMES = (*SCHEMES, "hdfs")
"""Where they may need some, which only the caller knows."""

MOST_FILES, MOST_CHUNKS = 10_000, 2_000_000
"""Footers of more files, or of more column chunks, would keep the driver busy."""

NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"

NUMBERS = ("double", "float", "tinyint", "smallint", "int", "boolean")
"""Types of labels, scores and weights whose every value both readers make the same double."""

KEYS = {
    "string": pa.string(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
}
"""Types of keys that both readers make the same value: Spark's names, and Arrow's types."""

PARTITION_KEYS = ("string", "int", "bigint", "date")
"""Types of partition columns whose text is read the same way here."""

FIRST_GREGORIAN_DAY = date(1582, 10, 15)
"""Dates before it may have been written in the calendar that was used then."""

LITERAL = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""")
"""A text in a SQL condition."""


class NotExactError(Exception):
    """Why workers may not read the files themselves."""


def read_parquet(spark: SparkSession, path: str) -> DataFrame:
    """A Parquet folder as a DataFrame. Raises DataError where it cannot be read, NotThereError where there is none."""
    try:
        frame = spark.read.parquet(path)
        _ = frame.schema  # a Connect session looks for the path only now
    except SPARK_ERRORS as error:
        kind = NotThereError if is_not_there(error) else DataError
        raise kind(f"Cannot read {path!r}: {first_line(error)}") from error
    return frame


def filtered(frame: DataFrame, condition: str, what: str, where: str) -> DataFrame:
    """The rows of a SQL condition. Raises DataError, with what it is and of what, where it does not fit."""
    try:
        found = _where(frame, condition)
    except SPARK_ERRORS as error:
        raise DataError(f"{what} does not fit {where}: {first_line(error)}") from error
    return found


def _where(frame: DataFrame, condition: str) -> DataFrame:
    """The rows of a SQL condition.

    A condition alone may end in a word that Spark takes for a name (`a = 1 and`), one in brackets may close them.
    """
    found = frame
    for text in (condition, f"(\n{condition}\n)"):
        found = frame.where(text)
        # A Connect session takes the schema for known, and analyses the condition only when asked something else.
        _ = found.isStreaming
    return found


@dataclass(frozen=True)
class Piece:
    """A part of a file: plain data, it travels to the workers.

    Attributes
    ----------
    uri : of the file.
    size, changed : its bytes, and when it was written (in nanoseconds), when it was listed.
    row_groups : which of it.
    rows : in these.
    partition : the value of each partition column, in the order of `Pieces.partition_columns`.
    """

    uri: str
    size: int
    changed: int
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
    table : what Spark reads there.
    filter : a SQL condition, or None.
    """

    table: DataFrame
    filter: str | None = None

    def pieces(
        self,
        numbers: Collection[str],
        keys: Collection[str],
        *,
        least: int,
        most: int,
        tasks: int,
        schemes: Collection[str],
    ) -> Pieces:
        """The pieces that hold the rows of the filter.

        Parameters
        ----------
        numbers : columns of labels, scores and weights.
        keys : key columns.
        least, most : rows a task reads, as row groups allow.
        tasks : how many tasks keep the cluster busy.
        schemes : of the addresses that may be read.

        Raises
        ------
        NotExactError : pyarrow might not read what Spark reads.
        """
        try:
            files, partition = self._checked(numbers, keys, schemes)
            return Pieces(_packed(files, partition, least, most, tasks), partition)
        except (OSError, ValueError, OverflowError, pa.ArrowException) as error:
            raise NotExactError(f"this process cannot read the files: {first_line(error)}") from None

    def _checked(
        self, numbers: Collection[str], keys: Collection[str], schemes: Collection[str]
    ) -> tuple[list[File], tuple[tuple[str, str], ...]]:
        """The files that pass the filter, whose columns mean the same to both, and the keys that stand in paths."""
        types = {field.name: field.dataType.simpleString() for field in self.table.schema}
        files = _listed(self.table, schemes)
        inside = {name for file in files for name in file.names}
        names = [name for name in types if name not in inside]
        if stray := {*names} & {*numbers}:
            raise NotExactError(f"{listed(sorted(stray))} is in the paths, and no key")
        if both := {name.lower() for file in files for name, _ in file.folders} & {name.lower() for name in inside}:
            raise NotExactError(f"column {listed(sorted(both))} is in the files and in their paths")
        partition = tuple((name, types[name]) for name in names if name in keys)
        for name, kind in partition:
            if kind not in PARTITION_KEYS:
                raise NotExactError(f"partition column {name!r} has type {kind}")
        for file in files:
            for columns, allowed in ((numbers, NUMBERS), (keys, KEYS)):
                for name in columns:
                    if name not in names:
                        file.check(name, types[name], allowed)
        return files if self.filter is None else self._filtered(files, self.filter, names), partition

    def _filtered(self, files: Sequence[File], condition: str, names: Sequence[str]) -> list[File]:
        """The files whose partition values pass the filter, as Spark judges it."""
        # A function may give another answer for each row, or read what is no column.
        bare = LITERAL.sub("''", condition)
        calls = {word.lower() for word in re.findall(r"(\w+)\s*\(", bare)} - {"in", "and", "or", "not"}
        if calls or not names or re.search(r"`|--|/\*|\bselect\b", bare, re.IGNORECASE):
            raise NotExactError(f"the filter {condition!r} is more than AND, OR, =, IN and ranges on partition columns")
        number = "\0file"
        text = StructType([StructField(name, StringType()) for name in (number, *names)])
        rows = [(str(place), *(file.partition_text(name) for name in names)) for place, file in enumerate(files)]
        typed = [F.col(quote(name)).cast(self.table.schema[name].dataType).alias(name) for name in names]
        try:
            values = self.table.sparkSession.createDataFrame(rows, text).select(F.col(quote(number)), *typed)
            kept = _where(values, condition).select(F.col(quote(number))).collect()
        except SPARK_ERRORS as error:
            if "UNRESOLVED_COLUMN" in str(error):
                raise NotExactError(
                    f"the filter {condition!r} is not of the partition columns {listed(names)} alone"
                ) from None
            raise NotExactError(
                f"the filter {condition!r} fails on the partition columns {listed(names)}: {first_line(error)}"
            ) from None
        return [files[int(row[0])] for row in kept]


@dataclass(frozen=True)
class File:
    """A Parquet file as its footer describes it."""

    uri: str
    size: int
    changed: int
    metadata: pq.FileMetaData
    names: tuple[str, ...]
    places: Mapping[str, int]

    def check(self, name: str, spark_type: str, allowed: Collection[str]) -> None:
        """Raises NotExactError unless the column means the same to pyarrow as to Spark."""
        if spark_type not in allowed:
            raise NotExactError(f"column {name!r} has type {spark_type}")
        alike = [other for other in self.names if other.lower() == name.lower()]
        if alike != [name] or "." in name:
            raise NotExactError(f"column {name!r} is {listed(alike)} in {self.uri!r}")
        place = self.places.get(name)
        if place is None or self.metadata.schema.column(place).max_repetition_level:
            raise NotExactError(f"column {name!r} is nested in {self.uri!r}")
        stored = _stored_type(self.metadata.schema.column(place))
        if stored != spark_type:
            raise NotExactError(f"column {name!r} is stored as {stored} in {self.uri!r}, and Spark reads {spark_type}")
        for number in range(self.metadata.num_row_groups):
            codec = self.metadata.row_group(number).column(place).compression
            if codec != "UNCOMPRESSED" and not pa.Codec.is_available(codec.lower()):
                raise NotExactError(f"{self.uri!r} is compressed with {codec}, which pyarrow lacks here")
        if spark_type == "date":
            self._check_calendar(name, place)

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

    @property
    def folders(self) -> list[tuple[str, str]]:
        """The names and values that stand in the path, `name=value`, unescaped as Spark does: a character a byte."""
        parts = (part.partition("=") for part in unquote(urlsplit(self.uri).path).split("/")[:-1] if "=" in part)
        return [(unquote(name, encoding="latin-1"), unquote(value, encoding="latin-1")) for name, _, value in parts]

    def partition_text(self, name: str) -> str | None:
        """The value that the path gives a partition column; None for a null."""
        texts = [value for key, value in self.folders if key.lower() == name.lower()]
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


def _listed(frame: DataFrame, schemes: Collection[str]) -> list[File]:
    """The files that Spark would read, with their footers."""
    uris = [uri for uri in sorted(frame.inputFiles()) if not uri.rsplit("/", 1)[1].startswith(("_", "."))]
    found = {urlsplit(uri).scheme for uri in uris}
    if not uris or not found <= {*schemes}:
        raise NotExactError(f"the files are at {listed(sorted(found))}" if uris else "there are no files")
    if len(uris) > MOST_FILES:
        raise NotExactError(f"there are {len(uris):,} files")
    with ThreadPoolExecutor(16) as pool:
        files = list(pool.map(_footer, uris))
    if sum(len(file.metadata.schema) * file.metadata.num_row_groups for file in files) > MOST_CHUNKS:
        raise NotExactError(f"the files have more than {MOST_CHUNKS:,} column chunks")
    folders = {uri.rsplit("/", 1)[0] for uri in uris}
    for above in {parent for folder in folders for parent in _parents(folder)}:
        where, path = located(above)
        if where.get_file_info(f"{path}/_delta_log").type != fs.FileType.NotFound:
            raise NotExactError("they belong to a Delta table, whose log says which rows count")
    return files


def _parents(folder: str) -> Iterable[str]:
    """A folder and those above it that are partitions of the same table, and the table's."""
    yield folder
    while "=" in folder.rsplit("/", 1)[1]:
        folder = folder.rsplit("/", 1)[0]
        yield folder


def located(uri: str) -> tuple[fs.FileSystem, str]:
    """The file system of an address that Spark gave, and the path there; letters past ASCII stand in it as they are."""
    if urlsplit(uri).scheme == "file":
        return fs.LocalFileSystem(), unquote(urlsplit(uri).path)
    found: tuple[fs.FileSystem, str] = fs.FileSystem.from_uri(quoted_uri(uri, safe="/:%"))
    return found


def _footer(uri: str) -> File:
    where, path = located(uri)
    info = where.get_file_info(path)
    with where.open_input_file(path) as file:
        metadata = pq.read_metadata(file)
    names = tuple(metadata.schema.to_arrow_schema().names)
    places = {metadata.schema.column(place).path: place for place in range(len(metadata.schema))}
    return File(uri, info.size, info.mtime_ns, metadata, names, places)


def _packed(
    files: Sequence[File], partition: Sequence[tuple[str, str]], least: int, most: int, tasks: int
) -> tuple[tuple[Piece, ...], ...]:
    """Row groups of consecutive files put together to tasks of about the same number of rows."""
    numbered = ((file, number) for file in files for number in range(file.metadata.num_row_groups))
    groups = [(file, number, file.metadata.row_group(number).num_rows) for file, number in numbered]
    total = sum(rows for _, _, rows in groups)
    target = max(min(most, -(-total // max(tasks, 1))), least)
    packed: list[list[Piece]] = []
    held = target
    for file, number, rows in groups:
        if not packed or held + rows > target:  # a first group may be empty
            packed.append([])
            held = 0
        held += rows
        task = packed[-1]
        if task and task[-1].uri == file.uri:
            last = task.pop()
            task.append(replace(last, row_groups=(*last.row_groups, number), rows=last.rows + rows))
        else:
            values = tuple(_partition_value(file.partition_text(name), kind) for name, kind in partition)
            task.append(Piece(file.uri, file.size, file.changed, (number,), rows, values))
    return tuple(tuple(task) for task in packed)


def _partition_value(text: str | None, kind: str) -> str | int | date | None:
    """The value that Spark gives a partition column of that type."""
    if text is None:
        return None
    if kind == "date":
        return date.fromisoformat(text)
    return text if kind == "string" else int(text)
