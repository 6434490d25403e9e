"""Where a job's tables lie, how they are written, and how they are read back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, timezone

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sparkmetrics import schemas
from sparkmetrics.config import PredictionsSection
from sparkmetrics.errors import SPARK_ERRORS, ConfigError, DataError, WriteError, first_line
from sparkmetrics.inspection import RowCounts
from sparkmetrics.parquet_files import ParquetPath, filtered, read_parquet
from sparkmetrics.score_counts import ROW_GROUP_BYTES

RUNS = "runs"
"""The ledger: one file a run, written last."""

TABLES = (*schemas.RESULT_TABLES, *schemas.STATE_TABLES)


def day_path(root: str, table: str, run_date: date) -> str:
    """The folder of one table of one day: `<root>/<table>/run_date=YYYY-MM-DD`."""
    return f"{root.rstrip('/')}/{table}/run_date={run_date.isoformat()}"


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
            frame = spark.read.table(str(source.table))
        _ = frame.schema  # a Connect session looks for the path only now
    except SPARK_ERRORS as error:
        raise DataError(f"Cannot read {where}: {first_line(error)}") from error
    plain = source.path is not None and source.format.lower() == "parquet" and not source.options
    files = ParquetPath(frame, source.filter) if plain else None
    if source.filter is None:
        return frame, files
    return filtered(frame, source.filter, f"predictions.filter {source.filter!r}", where), files


def write_day(frame: DataFrame, root: str, table: str, run_date: date) -> int:
    """Writes one table of one day as Parquet, in place of what was there.

    Returns
    -------
    The number of rows written.

    Raises
    ------
    WriteError : Spark could not write there.
    """
    path = day_path(root, table, run_date)
    writer = frame.write.mode("overwrite")
    if table in schemas.STATE_TABLES:
        writer = writer.option("parquet.block.size", ROW_GROUP_BYTES)
    try:
        writer.parquet(path)
    except SPARK_ERRORS as error:
        raise WriteError(f"Could not write {path!r}: {first_line(error)}") from error
    return frame.sparkSession.read.parquet(path).count()


@dataclass(frozen=True)
class Run:
    """What the ledger keeps of a run."""

    run_id: str
    run_date: date
    started_at: datetime
    config_sha256: str
    versions: Mapping[str, str]


def write_run(spark: SparkSession, root: str, run: Run, rows: RowCounts, tables: Mapping[str, int]) -> None:
    """Adds the row of a run that is done. It vouches for the tables, so it comes last."""
    row = (
        run.run_id,
        run.started_at,
        datetime.now(timezone.utc),
        "done",
        run.config_sha256,
        rows.read,
        rows.used,
        dict(rows.dropped),
        dict(tables),
        dict(run.versions),
    )
    path = day_path(root, RUNS, run.run_date)
    try:
        spark.createDataFrame([row], schemas.RUNS).coalesce(1).write.mode("append").parquet(path)
    except SPARK_ERRORS as error:
        raise WriteError(f"Could not write {path!r}: {first_line(error)}") from error


def read_results(spark: SparkSession, path: str, table: str, run_date: date | str) -> DataFrame:
    """One table of one day's results, as its last finished run wrote it.

    Parameters
    ----------
    spark : session.
    path : `output.path` of the job.
    table : "metrics", "confusion", "curves", "gains", "calibration", "segment_auc", "class_counts" or "score_counts".
    run_date : the day.

    Returns
    -------
    The table; its columns are those of the docs.

    Raises
    ------
    ConfigError : no such table, or not a date.
    DataError : no finished run of that day, or the table holds other rows than the run wrote (a later run was stopped,
        or is at work).
    """
    if table not in TABLES:
        raise ConfigError(f"table must be one of {', '.join(TABLES)}, found {table!r}.")
    try:
        day = run_date if isinstance(run_date, date) else date.fromisoformat(run_date)
    except (TypeError, ValueError):
        raise ConfigError(f"run_date must be a date like 2026-11-29, found {run_date!r}.") from None
    try:
        runs = read_parquet(spark, day_path(path, RUNS, day))
    except DataError as error:
        raise DataError(f"No finished run of {day} in {path!r}. {error}") from error
    last = runs.orderBy(F.desc("finished_at")).select("run_id", F.element_at("tables", table).alias("rows")).first()
    if last is None or last["rows"] is None:
        raise DataError(f"The last run of {day} in {path!r} wrote no table {table!r}.")
    frame = read_parquet(spark, day_path(path, table, day))
    found = frame.where(F.col("run_id") == last["run_id"]).count()
    if found != last["rows"] or found != frame.count():
        raise DataError(
            f"Table {table!r} of {day} in {path!r} is not what its last finished run {last['run_id']} wrote: another "
            "run was stopped, or is at work. Run the day again."
        )
    return frame
