"""Where results lie as tables of Delta or Iceberg."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import date

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sparkmetrics.columns import table_name
from sparkmetrics.errors import SPARK_ERRORS, ConfigError, DataError, NotThereError, first_line, is_not_there, told
from sparkmetrics.ledger import RUNS, Record, first_runs

LAKES = ("delta", "iceberg")
"""Formats whose tables replace a day by themselves."""


@dataclass(frozen=True)
class Lake:
    """Delta or Iceberg tables, by path or by name, with `run_date` as a column that they are partitioned by."""

    spark: SparkSession
    format: str
    root: str | None
    prefix: str | None

    def __str__(self) -> str:
        return f"{self.prefix}*" if self.root is None else self.root

    def path(self, table: str) -> str:
        """The folder of a table that has no name."""
        return f"{str(self.root).rstrip('/')}/{table}"

    def name(self, table: str) -> str:
        """The quoted name of a table."""
        return table_name(f"{self.prefix}{table}")

    @staticmethod
    def of_day(frame: DataFrame, day: date) -> DataFrame:
        """The rows of one day of a whole table, without `run_date`."""
        return frame.where(F.col("run_date") == F.lit(day)).drop("run_date")

    def frame(self, table: str, fresh: bool = False) -> DataFrame | None:
        """A whole table; None where there is none.

        Parameters
        ----------
        table : its name.
        fresh : as it is now. While a session uses an Iceberg table, it keeps it as it first saw it, or as it wrote it
            itself. What is cached of the table is dropped.

        Raises
        ------
        DataError : it cannot be told whether there is one.
        """
        try:
            if self.prefix is not None:
                name = self.name(table)
                if fresh and self.format == "iceberg":
                    self.spark.sql(f"REFRESH TABLE {name}")
                return self.spark.read.table(name) if self.spark.catalog.tableExists(name) else None
            frame = self.spark.read.format(self.format).load(self.path(table))
            _ = frame.schema
        except SPARK_ERRORS as error:
            if is_not_there(error):
                return None
            raise DataError(f"Cannot look for the table {table!r} in {self}: {first_line(error)}") from error
        return frame

    def runs(self, first: date, last: date) -> DataFrame | None:
        """The ledger's rows of some days."""
        frame = self.frame(RUNS, fresh=True)
        return None if frame is None else frame.where(F.col("run_date").between(first, last))

    def read(self, table: str, day: date, run_id: str) -> DataFrame:
        """The rows of that day; those of a saved state with their note as a column."""
        frame = self.frame(table, fresh=True)
        if frame is None:
            raise NotThereError(f"There is no table {table!r} in {self}.")
        return self.of_day(frame, day)

    def gone(self, table: str, runs: Sequence[Record]) -> set[date]:
        """The days whose rows have been deleted: one action."""
        having = {run.run_date for run in runs if run.tables[table]}
        frame = self.frame(table, fresh=True)
        if frame is None or not having:
            return having
        days = frame.where(F.col("run_date").between(min(having), max(having))).select("run_date").distinct()
        with told(DataError, f"Cannot read the days of the table {table!r} in {self}"):
            return having - {row["run_date"] for row in days.collect()}

    def run_ids(self, tables: Collection[str], day: date) -> dict[str, str]:
        """The run of one row of a day of each table that has any."""
        frames = {table: self.frame(table, fresh=True) for table in tables}
        there = {table: frame for table, frame in frames.items() if frame is not None}
        return first_runs({table: self.of_day(frame, day) for table, frame in there.items()})


def lake(spark: SparkSession, path: str | None, table_prefix: str | None, format: str) -> Lake:
    """Where tables of these settings of `output` are. Raises ConfigError where the session lacks the format."""
    try:
        _ = spark.read.format(format).load("/nowhere").schema
    except SPARK_ERRORS as error:
        if any(word in str(error) for word in ("DATA_SOURCE_NOT_FOUND", "ClassNotFoundException")):
            raise ConfigError(
                f"output.format {format!r} is not installed in this Spark session: start it with the package of "
                f"{format} (spark-submit --packages, or spark.jars), or set output.format to parquet."
            ) from error
    return Lake(spark, format, None if table_prefix else path, table_prefix)
