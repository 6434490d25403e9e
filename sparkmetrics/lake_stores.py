"""Where a job writes, so that a day is replaced whole: tables of Delta or Iceberg."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import date

from pyspark.sql import DataFrame, DataFrameWriter, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ByteType, IntegerType, ShortType, StructField, StructType

from sparkmetrics import schemas
from sparkmetrics.catalog_stores import check_columns, sql_date
from sparkmetrics.columns import quote
from sparkmetrics.errors import SPARK_ERRORS, DataError, WriteError, told
from sparkmetrics.lakes import Lake
from sparkmetrics.ledger import RUNS, Record, last_done
from sparkmetrics.locks import LockedError
from sparkmetrics.origins import notes_as_text, with_notes_of_text
from sparkmetrics.score_counts import ROW_GROUP_BYTES
from sparkmetrics.stores import in_files
from sparkmetrics.tables import TABLES


@contextlib.contextmanager
def writing() -> Iterator[None]:
    """What cannot be looked at while a run writes is told as a WriteError: its config and its data are not to blame."""
    try:
        yield
    except DataError as error:
        raise WriteError(str(error)) from error


class LakeStore:
    """Tables of Delta or Iceberg, which replace the rows of a day in one step each.

    A run that is killed between two tables leaves the day mixed, until it is run again; `read_results` does not take
    such a day for whole. There is no lock. Before each table a run looks whether the ledger has a run of the day that
    was done since it began, and whether the first result table that it wrote is still its own; before it deletes the
    day from other tables and adds itself to the ledger, it looks at the ledger and all that it wrote. It stops where
    another run has come between.
    """

    how = "replaced by the format's own commit"

    def __init__(self, spark: SparkSession, place: Lake, day: date, run_id: str) -> None:
        self.place = place
        self.tables: dict[str, int] = {}
        self._spark, self._day, self._run_id = spark, day, run_id
        self._notes: dict[str, str | None] = {}
        self._before: str | None = None

    def check(self, frames: Callable[[], Mapping[str, DataFrame]]) -> None:
        """Raises SchemaError where a table has other columns than the run would write."""
        there = {table: old for table in TABLES if (old := self.place.frame(table, fresh=True)) is not None}
        for table, frame in (frames() if there else {}).items():
            if table in there:
                self._check_columns(table, there[table], self._dated(table, frame, notes_as_text(frame)))

    @writing()
    def begin(self) -> None:
        """Remembers the run whose results of the day these will replace: nothing can be locked."""
        self._before = self._last_done()

    @writing()
    def write(self, table: str, frame: DataFrame, small: bool = False) -> None:
        """Replaces the rows of the day. Raises SchemaError where the table has other columns."""
        # To look at a saved state anew would drop what is cached of it, which the tables are made of.
        self._check_alone([name for name in self.tables if name not in schemas.STATE_TABLES][:1])
        self._notes[table] = notes_as_text(frame)
        self._replace(table, in_files(self._dated(table, frame, self._notes[table]), table, small))
        with told(WriteError, f"Could not read what was written to the table {table!r} of {self.place}"):
            self.tables[table] = self._of_day(table).count()

    @writing()
    def written(self, table: str) -> DataFrame:
        """What this run wrote of a table."""
        own = self._of_day(table).where(F.col("run_id") == self._run_id)
        return with_notes_of_text(own, self._notes[table])

    @writing()
    def commit(self, record: Record) -> None:
        """Deletes the day from tables that this run did not write, then adds to the ledger."""
        self._check_alone(self.tables)
        for table in TABLES:
            if table not in self.tables and (frame := self.place.frame(table)) is not None:
                self._replace(table, frame.limit(0))
        self.note(record)

    @writing()
    def note(self, record: Record) -> None:
        """Adds a row to the ledger."""
        row = record.frame(self._spark).withColumn("run_date", F.lit(self._day))
        self._put(RUNS, lambda there: self._append(RUNS, row))

    @writing()
    def expire(self, tables: Collection[str], before: date) -> None:
        """Deletes earlier days of some tables."""
        for table in tables:
            if self.place.frame(table) is None:
                continue
            by_path = self.place.prefix is None
            name = f"{self.place.format}.{quote(self.place.path(table))}" if by_path else self.place.name(table)
            with told(WriteError, f"Could not delete from the table {table!r} of {self.place}"):
                self._spark.sql(f"DELETE FROM {name} WHERE run_date < {sql_date(before)}")

    def end(self) -> None:
        """Nothing is left."""

    def _last_done(self) -> str | None:
        """The last run of the day that was done."""
        last = last_done(self.place.runs(self._day, self._day)).get(self._day)
        return None if last is None else last.run_id

    def _check_alone(self, tables: Collection[str]) -> None:
        """Raises LockedError where another run has replaced one of these tables, or was done since this one began."""
        having = [table for table in tables if self.tables[table]]
        with told(WriteError, f"Could not read what was written to {self.place}"):
            found = self.place.run_ids(having, self._day)
        other = f"Another run of {self._day} was or is at work:"
        for table in having:
            if found.get(table) != self._run_id:
                name = f"run {found[table]}" if table in found else "one"
                raise LockedError(
                    f"{other} {name} has replaced the day in the table {table!r} of {self.place}, which this run had "
                    "written. Its results stand once it is done."
                )
        last = self._last_done()
        if last not in (None, self._before):
            raise LockedError(
                f"{other} run {last} was done in {self.place} after this run had begun. Its results stand."
            )

    def _of_day(self, table: str) -> DataFrame:
        """The rows of the day."""
        frame = self.place.frame(table)
        if frame is None:
            raise WriteError(
                f"The table {table!r} of {self.place} was dropped while the run was at work. Run the day again."
            )
        return self.place.of_day(frame, self._day)

    def _dated(self, table: str, frame: DataFrame, notes: str | None) -> DataFrame:
        """The rows with their day, and those of a saved state with its notes."""
        if table in schemas.STATE_TABLES:
            frame = frame.withColumn(schemas.STATE_NOTE, F.lit(notes).cast("string"))
        return frame.withColumn("run_date", F.lit(self._day))

    def _check_columns(self, table: str, there: DataFrame, dated: DataFrame) -> None:
        """Raises SchemaError where a table has other columns; Delta itself would fill one that is missing with NULL."""
        name = table if self.place.prefix is None else f"{self.place.prefix}{table}"
        check_columns(name, there, self._stored(dated.schema))

    def _stored(self, schema: StructType) -> StructType:
        """The columns as the format keeps them: Iceberg has no short integers."""
        if self.place.format != "iceberg":
            return schema
        short = (ByteType, ShortType)
        return StructType(
            [StructField(f.name, IntegerType() if isinstance(f.dataType, short) else f.dataType) for f in schema]
        )

    def _replace(self, table: str, dated: DataFrame) -> None:
        """Replaces the rows of the day, or makes the table."""

        def put(there: DataFrame | None) -> None:
            if there is not None:
                self._check_columns(table, there, dated)
            self._overwrite(table, dated, there is not None)

        self._put(table, put)

    def _put(self, table: str, put: Callable[[DataFrame | None], None]) -> None:
        """Writes to a table, or makes it; to one that another run made in between it writes as well.

        Parameters
        ----------
        table : its name.
        put : writes; given the table, or None where there is none.
        """
        there = self.place.frame(table)
        with told(WriteError, f"Could not write the table {table!r} of {self.place}"):
            try:
                put(there)
            except SPARK_ERRORS:
                if there is not None or (made := self.place.frame(table, fresh=True)) is None:
                    raise
                put(made)

    def _overwrite(self, table: str, dated: DataFrame, is_there: bool) -> None:
        """Replaces the rows of the day in a table that is there, or makes one."""
        if self.place.format == "iceberg":
            # All rows are of one partition: tasks write what they have, without another exchange or sort.
            writer = dated.writeTo(self.place.name(table)).using("iceberg")
            writer = writer.option("distribution-mode", "none").option("fanout-enabled", "true")
            if is_there:
                writer.overwrite(F.col("run_date") == F.lit(self._day))
                return
            if table in schemas.STATE_TABLES:
                writer = writer.tableProperty("write.parquet.row-group-size-bytes", str(ROW_GROUP_BYTES))
            writer.partitionedBy(F.col("run_date")).create()
            return
        # Without a condition an overwrite would take all days.
        delta = dated.write.format("delta").mode("overwrite" if is_there else "error").partitionBy("run_date")
        self._save(delta.option("replaceWhere", f"run_date = {sql_date(self._day)}") if is_there else delta, table)

    def _append(self, table: str, rows: DataFrame) -> None:
        """Adds rows to a table, which is made where there is none."""
        self._save(rows.write.format(self.place.format).mode("append").partitionBy("run_date"), table)

    def _save(self, writer: DataFrameWriter, table: str) -> None:
        if self.place.prefix is None:
            writer.save(self.place.path(table))
        else:
            writer.saveAsTable(self.place.name(table))
