"""Where a job writes, so that a day is replaced whole: tables of Delta or Iceberg."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import date

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ByteType, IntegerType, ShortType, StructField, StructType

from sparkmetrics import schemas
from sparkmetrics.catalog_stores import check_columns, sql_date
from sparkmetrics.columns import quote, table_name
from sparkmetrics.errors import WriteError, told
from sparkmetrics.lakes import Lake
from sparkmetrics.ledger import RUNS, Record
from sparkmetrics.locks import LockedError
from sparkmetrics.origins import notes_as_text, with_notes_of_text
from sparkmetrics.score_counts import ROW_GROUP_BYTES
from sparkmetrics.stores import in_files
from sparkmetrics.tables import TABLES


class LakeStore:
    """Tables of Delta or Iceberg, which replace the rows of a day in one step each.

    A run that is killed between two tables leaves the day mixed, until it is run again; `read_results` does not take
    such a day for whole. There is no lock: a run looks before each table, and at its end, whether what it wrote is
    still there, and stops where another run has replaced it.
    """

    how = "replaced by the format's own commit"

    def __init__(self, spark: SparkSession, place: Lake, day: date, run_id: str) -> None:
        self.place = place
        self.tables: dict[str, int] = {}
        self._spark, self._day, self._run_id = spark, day, run_id
        self._notes: dict[str, str | None] = {}

    def check(self, frames: Callable[[], Mapping[str, DataFrame]]) -> None:
        """Raises SchemaError where a table has other columns than the run would write."""
        there = {table: old for table in TABLES if (old := self.place.frame(table, fresh=True)) is not None}
        for table, frame in (frames() if there else {}).items():
            if table in there:
                name = table if self.place.prefix is None else f"{self.place.prefix}{table}"
                check_columns(name, there[table], self._stored(self._dated(table, frame).schema))

    def begin(self) -> None:
        """Nothing can be locked."""

    def write(self, table: str, frame: DataFrame, small: bool = False) -> None:
        """Replaces the rows of the day."""
        # To look at a saved state anew would drop what is cached of it, which the tables are made of.
        self._check_alone([name for name in self.tables if name not in schemas.STATE_TABLES][:1])
        self._replace(table, in_files(self._dated(table, frame), table, small))
        self._notes[table] = notes_as_text(frame)
        with told(WriteError, f"Could not read what was written to the table {table!r} of {self.place}"):
            self.tables[table] = self._of_day(table).count()

    def written(self, table: str) -> DataFrame:
        """What this run wrote of a table."""
        own = self._of_day(table).where(F.col("run_id") == self._run_id)
        return with_notes_of_text(own, self._notes[table])

    def commit(self, record: Record) -> None:
        """Deletes the day from tables that this run did not write, then adds to the ledger."""
        self._check_alone(self.tables)
        for table in TABLES:
            if table not in self.tables and (frame := self.place.frame(table)) is not None:
                self._replace(table, frame.limit(0))
        self.note(record)

    def note(self, record: Record) -> None:
        """Adds a row to the ledger."""
        row = record.frame(self._spark).withColumn("run_date", F.lit(self._day))
        with told(WriteError, f"Could not write the table {RUNS!r} of {self.place}"):
            writer = row.write.format(self.place.format).mode("append").partitionBy("run_date")
            if self.place.prefix is None:
                writer.save(self._path(RUNS))
            else:
                writer.saveAsTable(self._name(RUNS))

    def expire(self, tables: Collection[str], before: date) -> None:
        """Deletes earlier days of some tables."""
        for table in tables:
            if self.place.frame(table) is None:
                continue
            name = f"{self.place.format}.{quote(self._path(table))}" if self.place.prefix is None else self._name(table)
            with told(WriteError, f"Could not delete from the table {table!r} of {self.place}"):
                self._spark.sql(f"DELETE FROM {name} WHERE run_date < {sql_date(before)}")

    def end(self) -> None:
        """Nothing is left."""

    def _check_alone(self, tables: Collection[str]) -> None:
        """Raises LockedError where another run has replaced what this one wrote."""
        having = [table for table in tables if self.tables[table]]
        with told(WriteError, f"Could not read what was written to {self.place}"):
            found = self.place.run_ids(having, self._day)
        for table in having:
            if found.get(table) != self._run_id:
                other = f"run {found[table]}" if table in found else "another run"
                raise LockedError(
                    f"Another run of {self._day} is at work: {other} has replaced the day in the table {table!r} of "
                    f"{self.place}, which this run had written. Run again when it is done."
                )

    def _of_day(self, table: str) -> DataFrame:
        """The rows of the day."""
        frame = self.place.frame(table)
        if frame is None:
            raise WriteError(f"The table {table!r} of {self.place} was dropped while the run was at work.")
        return frame.where(F.col("run_date") == F.lit(self._day)).drop("run_date")

    def _dated(self, table: str, frame: DataFrame) -> DataFrame:
        """The rows with their day, and those of a saved state with its note."""
        if table in schemas.STATE_TABLES:
            frame = frame.withColumn(schemas.STATE_NOTE, F.lit(notes_as_text(frame)).cast("string"))
        return frame.withColumn("run_date", F.lit(self._day))

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
        is_there = self.place.frame(table) is not None
        with told(WriteError, f"Could not write the table {table!r} of {self.place}"):
            if self.place.format == "iceberg":
                # All rows are of one partition: tasks write what they have, without another exchange or sort.
                writer = dated.writeTo(self._name(table)).using("iceberg")
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
            delta = delta.option("replaceWhere", f"run_date = {sql_date(self._day)}") if is_there else delta
            if self.place.prefix is None:
                delta.save(self._path(table))
            else:
                delta.saveAsTable(self._name(table))

    def _path(self, table: str) -> str:
        return f"{str(self.place.root).rstrip('/')}/{table}"

    def _name(self, table: str) -> str:
        return table_name(f"{self.place.prefix}{table}")
