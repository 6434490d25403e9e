"""Where results lie, and how they are read so that no reader ever sees a mix of two runs."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import reduce
from typing import Protocol, TypeVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sparkmetrics import schemas
from sparkmetrics.columns import listed, quote, table_name
from sparkmetrics.errors import (
    SPARK_ERRORS,
    ConfigError,
    DataError,
    NotThereError,
    first_line,
    is_not_there,
    told,
)
from sparkmetrics.lakes import LAKES, lake
from sparkmetrics.ledger import RUNS, Record, first_runs, last_done
from sparkmetrics.origins import with_notes_of_text
from sparkmetrics.parquet_files import read_parquet

TABLES = (*schemas.RESULT_TABLES, *schemas.JOB_TABLES, *schemas.STATE_TABLES)
"""The tables of a day, beside the ledger."""

FORMATS = ("parquet", *LAKES)

PREFIX = re.compile(r"([^.]+\.)*[\w-]*")
"""What names of catalog tables may begin with."""

SPARK_CATALOG = "spark_catalog"
"""The name of Spark's own catalog, whose class a setting can replace."""

TRIES, FIRST_PAUSE = 6, 0.25
"""Times that a reader looks for a whole day, and seconds before the second look; each later pause is twice as long."""


class Place(Protocol):
    """Where a job's results are, for who reads them."""

    def runs(self, first: date, last: date) -> DataFrame | None:
        """The ledger's rows of some days, with `run_date`; None where there is none."""

    def read(self, table: str, day: date, run_id: str) -> DataFrame:
        """A table of a day as a run wrote it, or as it is now. Raises DataError where there is none."""

    def gone(self, table: str, runs: Sequence[Record]) -> set[date]:
        """The days of these runs, which wrote the table, that it does not have any more."""

    def run_ids(self, tables: Collection[str], day: date) -> dict[str, str]:
        """The run of one row of a day of each table that has any, as a plain reader finds it."""


def day_path(root: str, table: str, run_date: date) -> str:
    """The folder of one table of one day: `<root>/<table>/run_date=YYYY-MM-DD`."""
    return f"{root.rstrip('/')}/{table}/run_date={run_date.isoformat()}"


@dataclass(frozen=True)
class Folder:
    """A folder of plain Parquet files."""

    spark: SparkSession
    root: str

    def __str__(self) -> str:
        return self.root

    def runs(self, first: date, last: date) -> DataFrame | None:
        """The ledger's rows of some days."""
        return ledger_files(self.spark, f"{self.root.rstrip('/')}/{RUNS}", first, last)

    def read(self, table: str, day: date, run_id: str) -> DataFrame:
        """The day's folder, whoever wrote it."""
        return read_parquet(self.spark, day_path(self.root, table, day))

    def gone(self, table: str, runs: Sequence[Record]) -> set[date]:
        """The days whose folders have been removed."""
        return _without_files(self, table, runs)

    def run_ids(self, tables: Collection[str], day: date) -> dict[str, str]:
        """The run of one row of each of the day's folders that has any."""
        found = {}
        for table in tables:
            with contextlib.suppress(NotThereError):
                found[table] = self.read(table, day, "")
        return first_runs(found)


@dataclass(frozen=True)
class Catalog:
    """Tables of a catalog over Parquet files: each run of a day has a folder of its own, which never changes."""

    spark: SparkSession
    prefix: str

    def __str__(self) -> str:
        return f"{self.prefix}*"

    def name(self, table: str) -> str:
        """The quoted name of a table."""
        return table_name(f"{self.prefix}{table}")

    def check(self, format: str = "parquet") -> None:
        """Raises ConfigError for a prefix that names cannot begin with, or of a database without tables of a format."""
        where = f"output.table_prefix {self.prefix!r}"
        if not PREFIX.fullmatch(self.prefix):
            raise ConfigError(
                f"{where}: give [[catalog.]database.]prefix, whose last part has letters, digits, _ and - alone."
            )
        *parents, beginning = self.prefix.split(".")
        with told(DataError, f"{where}: cannot look for its catalog"):
            catalog, kind = self._catalog(parents)
        if catalog == SPARK_CATALOG and "-" in beginning:
            raise ConfigError(f"{where}: names of tables in Spark's own catalog have letters, digits and _ alone.")
        if format == "parquet" and catalog != SPARK_CATALOG and ".iceberg." in kind:
            raise ConfigError(
                f"{where}: {catalog!r} is a catalog of Iceberg, which does not point partitions at Parquet files. Set "
                "output.format to iceberg, or name a database of another catalog."
            )
        if format == "iceberg" and catalog == SPARK_CATALOG and not kind:
            raise ConfigError(
                f"{where}: Spark's own catalog has no tables of Iceberg. Begin with the name of a catalog that has "
                "(catalog.database.prefix)."
            )
        with told(DataError, f"{where}: cannot look for its database"):
            is_there = not parents or self.spark.catalog.databaseExists(".".join(map(quote, parents)))
        if not is_there:
            raise ConfigError(f"{where}: there is no database {'.'.join(parents)!r}. Make it, or name another one.")

    def _catalog(self, parents: list[str]) -> tuple[str, str]:
        """The name of the catalog that parts of a name are of, and its class; "" where it is Spark's own."""
        setting = "spark.sql.catalog."
        named = self.spark.conf.get(setting + parents[0], "") if parents else ""
        if named:
            return parents[0], named
        current = self.spark.catalog.currentCatalog()
        return current, self.spark.conf.get(setting + current, "") or ""

    def location(self, table: str) -> str | None:
        """The folder of a table; None where the catalog has no such table."""
        with told(DataError, f"Cannot look for the table {self.prefix}{table}"):
            if not self.spark.catalog.tableExists(self.name(table)):
                return None
            rows = self.spark.sql(f"DESCRIBE TABLE EXTENDED {self.name(table)}").collect()
        found = [row["data_type"] for row in rows if row["col_name"] == "Location"]
        if not found:
            raise DataError(f"{self.prefix}{table} is no table of files: it has no location.")
        return str(found[0])

    def runs(self, first: date, last: date) -> DataFrame | None:
        """The ledger's rows of some days."""
        location = self.location(RUNS)
        return None if location is None else ledger_files(self.spark, location, first, last)

    def read(self, table: str, day: date, run_id: str) -> DataFrame:
        """The folder of that run, whatever the catalog's partition points at."""
        location = self.location(table)
        if location is None:
            raise NotThereError(f"There is no table {self.prefix}{table}.")
        return read_parquet(self.spark, run_path(location, day, run_id))

    def gone(self, table: str, runs: Sequence[Record]) -> set[date]:
        """The days whose folders have been removed."""
        return _without_files(self, table, runs)

    def run_ids(self, tables: Collection[str], day: date) -> dict[str, str]:
        """The run of one row of what the day's partitions point at."""
        there = [table for table in tables if self.location(table) is not None]
        of_day = F.col("run_date") == F.lit(day)
        return first_runs({table: self.spark.read.table(self.name(table)).where(of_day) for table in there})


def _without_files(where: Place, table: str, runs: Sequence[Record]) -> set[date]:
    gone = set()
    for run in runs:
        try:
            where.read(table, run.run_date, run.run_id)
        except NotThereError:
            gone.add(run.run_date)
    return gone


def run_path(location: str, day: date, run_id: str) -> str:
    """The folder of one run of one day below the folder of a catalog table."""
    return f"{location.rstrip('/')}/run_date={day.isoformat()}/run_id={run_id}"


def ledger_files(spark: SparkSession, location: str, first: date, last: date) -> DataFrame | None:
    """The rows of a ledger of Parquet files; those of earlier versions lack some columns.

    Raises DataError where it cannot be told whether there is one: a day without a ledger is taken for one without runs.
    """
    try:
        found = spark.read.schema(schemas.runs_of_days()).parquet(location)
        _ = found.isStreaming  # a Connect session looks for the path only now
    except SPARK_ERRORS as error:
        if is_not_there(error):
            return None
        raise DataError(f"Cannot read {location!r}: {first_line(error)}") from error
    return found.where(F.col("run_date").between(first, last))


def place(spark: SparkSession, path: str | None, table_prefix: str | None, format: str) -> Place:
    """Where results of these settings of `output` are. Raises ConfigError for a format that is not there."""
    if format not in FORMATS:
        raise ConfigError(f"format must be one of {listed(FORMATS)}, found {format!r}.")
    if format in LAKES:
        return lake(spark, path, table_prefix, format)
    if table_prefix is not None:
        return Catalog(spark, table_prefix)
    return Folder(spark, str(path))


def read_results(
    spark: SparkSession,
    path: str | None,
    table: str,
    run_date: date | str,
    *,
    table_prefix: str | None = None,
    format: str = "parquet",
) -> DataFrame:
    """One table of one day's results, whole, as its last finished run wrote it.

    It reads `runs` first, then the table, and compares run and number of rows. Where they differ another run is just
    being put in place, and it looks again. On a classic session the DataFrame is of the files that were compared: once
    another run has replaced the day, using it is an error, and never a mix. A client of Spark Connect plans anew at
    each use; there, and of Delta and Iceberg tables, it holds rows of that one run or none. What the session has cached
    of an Iceberg table is dropped, since it is looked at anew (`REFRESH TABLE`).

    Parameters
    ----------
    spark : session.
    path : `output.path` of the job; None with `table_prefix`.
    table : "metrics", "confusion", "curves", "gains", "calibration", "segment_auc", "segment_summary", "segment_gap",
        "segment_disparity", "class_counts", "gates", or a saved state such as "score_counts".
    run_date : the day.
    table_prefix : `output.table_prefix` of a job that writes catalog tables.
    format : `output.format` of the job.

    Returns
    -------
    The table; its columns are those of the docs.

    Raises
    ------
    ConfigError : no such table, not a date, or neither or both of path and table_prefix.
    DataError : no finished run of that day, it wrote no such table, or the table holds other rows than it wrote (a
        later run was stopped, and none has run since).
    """
    if table not in TABLES:
        raise ConfigError(f"table must be one of {', '.join(TABLES)}, found {table!r}.")
    if (path is None) == (table_prefix is None):
        raise ConfigError("Give path or table_prefix: where the job's results are.")
    try:
        day = date.fromisoformat(str(run_date)) if not isinstance(run_date, datetime) else run_date.date()
    except (TypeError, ValueError):
        raise ConfigError(f"run_date must be a date like 2026-11-29, found {run_date!r}.") from None
    return whole_day(place(spark, path, table_prefix, format), table, day)


def whole_day(where: Place, table: str, day: date, pause: Callable[[float], None] = time.sleep) -> DataFrame:
    """A table of a day as its last finished run wrote it; see `read_results`."""

    def look() -> DataFrame:
        run = last_done(where.runs(day, day)).get(day)
        if run is None:
            raise NoRunError(f"No finished run of {day} in {str(where)!r}.")
        if table not in run.tables:
            raise NoRunError(f"The last run of {day} in {str(where)!r} wrote no table {table!r}.")
        return as_written(where, table, [run])[day]

    return looked(look, f"Table {table!r} of {day} in {str(where)!r}", pause)


Found = TypeVar("Found")


def looked(look: Callable[[], Found], what: str, pause: Callable[[float], None] = time.sleep) -> Found:
    """What a look at results gives, looking again where a run is just being put in place. Raises DataError."""
    problem = ""
    for tried in range(TRIES):
        if tried:
            pause(FIRST_PAUSE * 2 ** (tried - 1))
        try:
            return look()
        except NoRunError:
            raise
        except DataError as error:
            problem = str(error)
        except SPARK_ERRORS as error:  # files were replaced while they were read
            problem = first_line(error)
    raise DataError(f"{what} cannot be read whole: {problem}")


class NoRunError(DataError):
    """No run of the day was finished, or it did not write the table."""


def as_written(where: Place, table: str, runs: Sequence[Record]) -> dict[date, DataFrame]:
    """A table of some days, where it holds the rows that their runs say that they wrote: one small action.

    What says what a saved state is, is metadata of its columns, whatever the format keeps of it.

    Parameters
    ----------
    where : the place.
    table : its name.
    runs : one of each day, which wrote the table.

    Raises
    ------
    DataError : it holds other rows.
    """
    frames = {run.run_id: where.read(table, run.run_date, run.run_id) for run in runs}
    sides = [
        frame.select(
            "run_id",
            F.lit(run_id).alias("expected"),
            F.col(schemas.STATE_NOTE)
            if schemas.STATE_NOTE in frame.columns
            else F.lit(None).cast("string").alias(schemas.STATE_NOTE),
        )
        for run_id, frame in frames.items()
    ]
    counted = reduce(DataFrame.unionAll, sides).groupBy("expected")
    is_of_run = F.col("run_id") == F.col("expected")
    of_run = F.sum(is_of_run.cast("long")).alias("of_run")
    note = F.max(F.when(is_of_run, F.col(schemas.STATE_NOTE))).alias("note")
    found = {row["expected"]: row for row in counted.agg(F.count("*").alias("all"), of_run, note).collect()}
    whole = {}
    for run in runs:
        rows, row = run.tables[table], found.get(run.run_id)
        seen, of_it, text = (row["all"], row["of_run"] or 0, row["note"]) if row is not None else (0, 0, None)
        if not seen == of_it == rows:
            raise DataError(
                f"{run.run_date} is not what its last finished run {run.run_id} wrote ({rows} rows): it holds {seen} "
                f"rows, {of_it} of them of that run. Another run was stopped, or is at work. Run the day again."
            )
        own = frames[run.run_id].where(F.col("run_id") == run.run_id)
        whole[run.run_date] = with_notes_of_text(own, text)
    return whole
