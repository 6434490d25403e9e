"""The ledger `runs`: one row a run, only ever added to, and written last: it vouches for the rest."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import date, datetime, timezone
from functools import reduce

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import TimestampType

from sparkmetrics import schemas
from sparkmetrics.errors import DataError, told
from sparkmetrics.inspection import RowCounts

RUNS = "runs"
"""The ledger's table."""

DONE, FAILED = "done", "failed"
"""What `status` says."""


@dataclass(frozen=True)
class Input:
    """What is known of a prediction table without its values: other numbers mean other input.

    Attributes
    ----------
    rows : of the day.
    newest : when the newest of their files was written, UTC; None where they are in no files that Spark knows.
    """

    rows: int | None = None
    newest: datetime | None = None


@dataclass(frozen=True)
class Record:
    """A row of the ledger: a run that began, and what became of it.

    Attributes
    ----------
    rows_read, rows_used, rows_dropped : of predictions; `rows_read` is `rows_used` plus those dropped, by reason.
    tables : rows of each table that it wrote.
    message : why it failed.
    """

    run_id: str
    run_date: date
    started_at: datetime
    config_sha256: str
    versions: Mapping[str, str]
    finished_at: datetime | None = None
    status: str = FAILED
    rows_read: int | None = None
    rows_used: int | None = None
    rows_dropped: Mapping[str, int] = field(default_factory=dict)
    tables: Mapping[str, int] = field(default_factory=dict)
    input_rows: int | None = None
    input_newest: datetime | None = None
    message: str | None = None

    @classmethod
    def begin(cls, run_date: date, config_sha256: str, versions: Mapping[str, str]) -> Record:
        """The record of a run that begins now."""
        return cls(uuid.uuid4().hex, run_date, _now(), config_sha256, versions)

    def of_input(self, rows: RowCounts | None, source: Input) -> Record:
        """With what was read."""
        known = replace(self, input_rows=source.rows, input_newest=source.newest)
        if rows is None:
            return known
        return replace(known, rows_read=rows.read, rows_used=rows.used, rows_dropped=dict(rows.dropped))

    def done(self, tables: Mapping[str, int]) -> Record:
        """Of a run that wrote these tables.

        Raises
        ------
        DataError : not all rows that were read are accounted for.
        """
        if self.rows_read is not None:
            accounted = (self.rows_used or 0) + sum(self.rows_dropped.values())
            if accounted != self.rows_read:
                raise DataError(
                    f"{self.rows_read} rows were read, and {accounted} were used or dropped: {dict(self.rows_dropped)}."
                )
        return replace(self, tables=dict(tables), status=DONE, finished_at=_now())

    def failed(self, message: str) -> Record:
        """Of a run that stopped."""
        return replace(self, status=FAILED, message=message, finished_at=_now(), tables={})

    def frame(self, spark: SparkSession) -> DataFrame:
        """The row, without `run_date`, which is in its path."""
        row = tuple(getattr(self, name) for name in schemas.RUNS.names)
        return spark.createDataFrame([row], schemas.RUNS).coalesce(1)


assert {f.name for f in fields(Record)} == {*schemas.RUNS.names, "run_date"}


def last_done(runs: DataFrame | None) -> dict[date, Record]:
    """The last run that was done of each day: one row a day comes to the driver.

    Parameters
    ----------
    runs : rows of the ledger with `run_date`, or None where there is none.
    """
    if runs is None:
        return {}
    times = {f.name: F.unix_micros(f.name) for f in schemas.RUNS if isinstance(f.dataType, TimestampType)}
    row = F.struct(*(times.get(name, F.col(name)).alias(name) for name in schemas.RUNS.names))
    last = runs.where(F.col("status") == DONE).groupBy("run_date").agg(F.max_by(row, "finished_at").alias("run"))
    with told(DataError, f"Cannot read the ledger {RUNS!r}"):
        rows = last.collect()
    return {found["run_date"]: _record(found["run_date"], found["run"], times) for found in rows}


def first_runs(tables: Mapping[str, DataFrame]) -> dict[str, str]:
    """The run of one row of each table that has any: one action. A table that was written whole is of one run."""
    firsts = [frame.select(F.lit(table).alias("table"), "run_id").limit(1) for table, frame in tables.items()]
    if not firsts:
        return {}
    return {row["table"]: row["run_id"] for row in reduce(DataFrame.unionAll, firsts).collect()}


def _record(day: date, run: Row, times: Collection[str]) -> Record:
    """A row of the ledger, with times in UTC whatever the session's zone."""
    values = run.asDict()
    for name in times:
        if values[name] is not None:
            values[name] = datetime.fromtimestamp(values[name] / 1e6, timezone.utc)
    return Record(run_date=day, **values)


def _now() -> datetime:
    return datetime.now(timezone.utc)
