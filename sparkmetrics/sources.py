"""The prediction table of a job: how it is read, and what tells that it is not what it was."""

from __future__ import annotations

from datetime import datetime, timezone

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sparkmetrics.config import OutputSection, PredictionsSection
from sparkmetrics.errors import SPARK_ERRORS, ConfigError, DataError, first_line
from sparkmetrics.files import is_inside
from sparkmetrics.ledger import RUNS, Input
from sparkmetrics.parquet_files import ParquetPath, filtered
from sparkmetrics.tables import TABLES

WRITTEN = "_metadata.file_modification_time"
"""The hidden column of tables that Spark reads from files."""


def read_predictions(spark: SparkSession, source: PredictionsSection) -> tuple[DataFrame, ParquetPath | None]:
    """The prediction table of a config, filtered, and its files where workers may read these themselves.

    Raises
    ------
    DataError : Spark cannot read the path or table, or the filter does not fit its columns.
    """
    where = f"predictions.path {source.path!r}" if source.path else f"predictions.table {source.table!r}"
    try:
        if source.path:
            frame = spark.read.format(source.format).options(**source.options).load(source.path)
        else:
            spark.catalog.refreshTable(str(source.table))  # or a session would go on with the files that it knows
            frame = spark.read.table(str(source.table))
        _ = frame.schema  # a Connect session looks for the path only now
    except SPARK_ERRORS as error:
        raise DataError(f"Cannot read {where}: {first_line(error)}") from error
    plain = source.path is not None and source.format.lower() == "parquet" and not source.options
    files = ParquetPath(frame, source.filter) if plain else None
    if source.filter is None:
        return frame, files
    return filtered(frame, source.filter, f"predictions.filter {source.filter!r}", where), files


def check_apart(source: PredictionsSection, output: OutputSection, what: str = "output.path") -> None:
    """Raises ConfigError where results would be written among the predictions, or over them; `what` names the place."""
    if source.path is None or output.path is None:
        return
    over = [table for table in (*TABLES, RUNS) if is_inside(source.path, f"{output.path}/{table}")]
    if over or is_inside(output.path, source.path):
        raise ConfigError(
            f"{what} {output.path!r} and predictions.path {source.path!r} overlap: results would be read as "
            f"predictions, or replace them. Name another {what}."
        )


def input_of(predictions: DataFrame, condition: str | None = None) -> Input:
    """What is known of a prediction table without its values: one action.

    Of Parquet files it reads the columns of the filter, or just their footers; of text files, views and other databases
    all that the filter needs.

    Parameters
    ----------
    predictions : the table.
    condition : its filter, for messages.

    Raises
    ------
    DataError : Spark cannot read it.
    """
    rows = F.count("*").alias("rows")
    try:
        newest = F.max(F.unix_micros(F.col(WRITTEN))).alias("newest")
        asked = predictions.agg(rows, newest)
        _ = asked.schema
    except SPARK_ERRORS:  # it is of no files, or has a column of that name
        asked = predictions.agg(rows, F.lit(None).cast("long").alias("newest"))
    try:
        found = asked.first()
    except SPARK_ERRORS as error:
        of_filter = "" if condition is None else f", where {condition!r} (predictions.filter)"
        raise DataError(f"Cannot read the predictions{of_filter}: {first_line(error)}") from error
    assert found is not None  # an aggregate of all rows has one
    written = None if found["newest"] is None else datetime.fromtimestamp(found["newest"] / 1e6, timezone.utc)
    return Input(found["rows"], written)


def check_unchanged(before: Input, now: Input) -> None:
    """Raises DataError where predictions changed while they were evaluated, so that results may be of both."""
    if now != before:
        raise DataError(
            f"The predictions changed while they were evaluated: {_told(before)} before, {_told(now)} now. Run "
            "again when their writer is done. (A predictions.filter must say the same of a row each time.)"
        )


def _told(found: Input) -> str:
    newest = "" if found.newest is None else f", the newest file of {found.newest:%Y-%m-%d %H:%M:%S.%f}"
    return f"{found.rows} rows{newest}"
