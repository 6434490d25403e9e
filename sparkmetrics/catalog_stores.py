"""Where a job writes, so that a day is replaced whole: tables of a catalog over Parquet files."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import date

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DateType, StructField, StructType

from sparkmetrics import schemas
from sparkmetrics.columns import quote
from sparkmetrics.errors import SchemaError, WriteError, told
from sparkmetrics.files import Files, files_of
from sparkmetrics.ledger import RUNS, Record, last_done
from sparkmetrics.locks import LEASE_SECONDS, DayLock, LockedError
from sparkmetrics.stores import STAGING, append_record, day_of, folder_day, write_files
from sparkmetrics.tables import TABLES, Catalog, run_path

RUN_DATE = StructField("run_date", DateType())

NO_RUN = "none"
"""Where the partition of a day points that is about to be dropped."""


class CatalogStore:
    """Tables of a catalog over Parquet files, partitioned by `run_date`.

    A run writes `run_date=D/run_id=R/` below the folder of each table. Once all are there, the catalog's partitions are
    pointed at them, table by table, and last the run's row is added to the ledger. Who reads a table by its name sees
    the day as one run wrote it. Where a run is killed between two tables, the ledger has no row of it, and the next run
    points the partitions back at what the last finished run wrote. Folders that no partition points at are removed by
    the next run, so that who reads them is not disturbed.
    """

    how = "replaced by pointing its partition at new files"

    def __init__(
        self,
        spark: SparkSession,
        prefix: str,
        root: str | None,
        day: date,
        run_id: str,
        lease: float = LEASE_SECONDS,
    ) -> None:
        self.place = Catalog(spark, prefix)
        self.tables: dict[str, int] = {}
        self._spark, self._root, self._day, self._run_id, self._lease = spark, root, day, run_id, lease
        self._files: Files | None = None
        self._lock: DayLock | None = None
        self._mark = ""
        self._done = False

    def check(self, frames: Callable[[], Mapping[str, DataFrame]]) -> None:
        """Raises SchemaError where a table of the catalog has other columns than the run would write."""
        there = [table for table in TABLES if self.place.location(table) is not None]
        for table, frame in (frames() if there else {}).items():
            if table in there:
                self._check_columns(table, frame.schema)

    def begin(self) -> None:
        """Locks the day where files can be created, and restores what killed runs left of this and other days."""
        found = files_of(self._spark, self._made(RUNS, schemas.RUNS))
        if found is None:
            self._mend(self._day)
            return
        files, folder = found
        self._lock = DayLock(files, folder, self._day, self._run_id, self._lease)
        self._lock.acquire()
        self._files = files
        # A mark says that a run of a day has begun and not ended.
        self._mark = f"{folder}/{STAGING}/{self._day.isoformat()}.{self._run_id}"
        marks = files.names(f"{folder}/{STAGING}")
        files.create(self._mark, "")
        self._mend(self._day)
        for name in marks:
            day, run_id = day_of(name)
            if day is None:
                continue
            if day != self._day:
                try:
                    with DayLock(files, folder, day, run_id, self._lease):
                        self._mend(day)
                except LockedError:
                    continue  # it is at work
            files.remove(f"{folder}/{STAGING}/{name}")

    def write(self, table: str, frame: DataFrame, small: bool = False) -> None:
        """Writes the run's own folder of a table, which is made where the catalog has none."""
        location = self._made(table, frame.schema)
        self._check_columns(table, frame.schema)
        self.tables[table] = write_files(frame, run_path(location, self._day, self._run_id), table, small)

    def written(self, table: str) -> DataFrame:
        """What this run wrote of a table."""
        return self.place.read(table, self._day, self._run_id)

    def commit(self, record: Record) -> None:
        """Points the day's partitions at what this run wrote, and drops those of tables that it did not write."""
        if self._lock is not None:
            self._lock.check()
        self._point(self.tables, self._run_id, self._day)
        self.note(record)
        self._done = True

    def note(self, record: Record) -> None:
        """Adds a row to the ledger."""
        folder = f"{self._made(RUNS, schemas.RUNS)}/run_date={self._day.isoformat()}"
        self._alter(RUNS, f"ADD IF NOT EXISTS PARTITION (run_date = {sql_date(self._day)}) LOCATION {literal(folder)}")
        append_record(self._spark, folder, record)

    def expire(self, tables: Collection[str], before: date) -> None:
        """Drops earlier days of some tables, and removes their folders where files can be removed."""
        for table in tables:
            location = self.place.location(table)
            if location is None:
                continue
            with told(WriteError, f"Could not list the days of the table {self.place.prefix}{table}"):
                found = self._spark.sql(f"SHOW PARTITIONS {self.place.name(table)}").collect()
            for day in (folder_day(row[0]) for row in found):
                if day is not None and day < before:
                    self._alter(table, f"DROP IF EXISTS PARTITION (run_date = {sql_date(day)})")
                    self._remove(f"{location}/run_date={day.isoformat()}")

    def end(self) -> None:
        """Where the run was not put in place, makes the day what it was; unlocks it."""
        if self._files is None or self._lock is None:
            return
        try:
            if not self._done:
                self._mend(self._day)
            self._files.remove(self._mark)
        finally:
            self._lock.release()

    def _check_columns(self, table: str, schema: StructType) -> None:
        check_columns(f"{self.place.prefix}{table}", self._spark.read.table(self.place.name(table)), schema)

    def _mend(self, day: date) -> None:
        """Makes a day what the ledger says of it, and removes the folders of other runs."""
        last = last_done(self.place.runs(day, day)).get(day)
        self._point({} if last is None else last.tables, "" if last is None else last.run_id, day)
        if self._files is None:
            return
        for table in TABLES:
            location = self.place.location(table)
            if location is None:
                continue
            folder = f"{location}/run_date={day.isoformat()}"
            for name in self._names(folder):
                if name.startswith("run_id=") and (last is None or name != f"run_id={last.run_id}"):
                    self._remove(f"{folder}/{name}")

    def _point(self, tables: Collection[str], run_id: str, day: date) -> None:
        """Points a day's partitions of these tables at what a run wrote, and drops those of all others."""
        partition = f"PARTITION (run_date = {sql_date(day)})"
        for table in TABLES:
            location = self.place.location(table)
            if location is None:
                continue
            target = literal(run_path(location, day, run_id if table in tables else NO_RUN))
            # Added where there is none; pointed elsewhere where there is one.
            self._alter(table, f"ADD IF NOT EXISTS {partition} LOCATION {target}")
            self._alter(table, f"{partition} SET LOCATION {target}")
            if table not in tables:
                # A catalog removes the files of what it drops from a table that is its own: here there are none.
                self._alter(table, f"DROP IF EXISTS {partition}")

    def _made(self, table: str, schema: StructType) -> str:
        """The folder of a table, which is made where the catalog has none."""
        location = self.place.location(table)
        if location is not None:
            return location
        name = self.place.name(table)
        columns = ", ".join(f"{quote(f.name)} {f.dataType.simpleString()}" for f in (*schema, RUN_DATE))
        where = ""
        if self._root is not None:
            known = files_of(self._spark, self._root)  # a catalog takes a relative path for one below its own folder
            where = f" LOCATION {literal(f'{self._root if known is None else known[1]}/{table}')}"
        with told(WriteError, f"Could not make the table {name}"):
            self._spark.sql(
                f"CREATE TABLE IF NOT EXISTS {name} ({columns}) USING parquet PARTITIONED BY (run_date){where}"
            )
        return str(self.place.location(table))

    def _alter(self, table: str, change: str) -> None:
        with told(WriteError, f"Could not change the table {self.place.prefix}{table}"):
            self._spark.sql(f"ALTER TABLE {self.place.name(table)} {change}")

    def _names(self, location: str) -> list[str]:
        found = files_of(self._spark, location)
        return [] if found is None else found[0].names(found[1])

    def _remove(self, path: str) -> None:
        found = files_of(self._spark, path)
        if found is not None:
            found[0].remove(found[1])


def check_columns(table: str, frame: DataFrame, schema: StructType) -> None:
    """Raises SchemaError where a table of days has other columns than are to be written."""
    there, wanted = (
        {f.name: f.dataType.simpleString() for f in columns if f.name != RUN_DATE.name}
        for columns in (frame.schema, schema)
    )
    if list(there.items()) == list(wanted.items()):
        return
    changes = [f"{name!r} is new" for name in wanted if name not in there]
    changes += [f"{name!r} is gone" for name in there if name not in wanted]
    changes += [
        f"{name!r} was {there[name]} and is {kind}"
        for name, kind in wanted.items()
        if name in there and there[name] != kind
    ]
    raise SchemaError(
        f"The table {table} has other columns than this run would write: "
        f"{'; '.join(changes) or 'their order differs'}. Write to another table_prefix, or drop or alter the table."
    )


def literal(text: str) -> str:
    """A string as SQL has it."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def sql_date(day: date) -> str:
    """A day as SQL has it."""
    return f"DATE'{day.isoformat()}'"
