"""Where a job writes, so that a day is replaced whole: files that are swapped by rename.

A run stages its tables in `<root>/.staging/<day>.<run_id>`, then writes a journal there, and then moves folders: what
was there before into the staging folder, what is new to its place, and last the run's row of the ledger. Each move is
one rename, so that whoever finds a journal can tell which moves are left, and make them. Whoever finds a staging folder
without a journal removes it. Both are done by the next run, of whatever day, under the lock of the day in question.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Collection, Mapping
from datetime import date
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession

from sparkmetrics import schemas
from sparkmetrics.errors import NotThereError, WriteError, told, warn
from sparkmetrics.files import Files
from sparkmetrics.ledger import RUNS, Record
from sparkmetrics.locks import LEASE_SECONDS, DayLock, LockedError
from sparkmetrics.parquet_files import read_parquet
from sparkmetrics.score_counts import ROW_GROUP_BYTES
from sparkmetrics.tables import TABLES, Folder, Place, day_path

STAGING = ".staging"
JOURNAL = "journal.json"
"""There once all tables of a run are staged: from then on the run is put in place, by itself or by the next."""


class Store(Protocol):
    """Where one run writes its tables. All calls raise WriteError; `begin` comes before `write`, `end` last of these.

    Attributes
    ----------
    place : where readers find what was written.
    tables : rows of each table written so far.
    how : a day is replaced, in words.
    """

    @property
    def how(self) -> str:
        """How a day is replaced, in words."""

    @property
    def place(self) -> Place:
        """Where readers find what was written."""

    @property
    def tables(self) -> dict[str, int]:
        """Rows of each table written so far."""

    def check(self, frames: Callable[[], Mapping[str, DataFrame]]) -> None:
        """Before any work: raises where tables that are there have other columns."""

    def begin(self) -> None:
        """Locks the day, and mends or removes what killed runs left."""

    def write(self, table: str, frame: DataFrame, small: bool = False) -> None:
        """Writes a table of the run where nobody looks for it yet; a small one into one file."""

    def written(self, table: str) -> DataFrame:
        """What this run wrote of a table."""

    def commit(self, record: Record) -> None:
        """Puts the day in place: its tables, no others, and last the run's row of the ledger."""

    def note(self, record: Record) -> None:
        """Adds the row of a run that failed to the ledger."""

    def expire(self, tables: Collection[str], before: date) -> None:
        """Removes earlier days of some tables."""

    def end(self) -> None:
        """Removes what was not put in place, and unlocks the day."""


def in_files(frame: DataFrame, table: str, small: bool) -> DataFrame:
    """The rows of a table, in one file where they are few: of a saved state `small` says so, of others Spark finds out.

    That Spark finds it out needs its adaptive execution.
    """
    if small:
        return frame.coalesce(1)
    return frame if table in schemas.STATE_TABLES else frame.hint("rebalance")


def write_files(frame: DataFrame, path: str, table: str, small: bool = False) -> int:
    """Writes a table to a folder as Parquet, over what is there, and counts its rows.

    Raises
    ------
    WriteError : Spark could not write there.
    """
    writer = in_files(frame, table, small).write.mode("overwrite")
    if table in schemas.STATE_TABLES:
        writer = writer.option("parquet.block.size", ROW_GROUP_BYTES)
    with told(WriteError, f"Could not write {path!r}"):
        writer.parquet(path)
        return frame.sparkSession.read.parquet(path).count()


def append_record(spark: SparkSession, path: str, record: Record) -> None:
    """Adds the row of a run to a day's folder of the ledger, as one file."""
    with told(WriteError, f"Could not write {path!r}"):
        record.frame(spark).write.mode("append").parquet(path)


class FolderStore:
    """A folder on a file system that renames: see the module."""

    how = "replaced in one step"

    def __init__(
        self, spark: SparkSession, files: Files, root: str, day: date, run_id: str, lease: float = LEASE_SECONDS
    ) -> None:
        self.place = Folder(spark, root)
        self.tables: dict[str, int] = {}
        self._spark, self._files, self._root, self._day = spark, files, root, day
        self._run_id, self._lease = run_id, lease
        self._lock = DayLock(files, root, day, run_id, lease)
        self._staged = f"{root}/{STAGING}/{day.isoformat()}.{run_id}"

    def check(self, frames: Callable[[], Mapping[str, DataFrame]]) -> None:
        """Nothing: days of plain files may have other columns."""

    def begin(self) -> None:
        """Locks the day; finishes or removes what killed runs of this and other days left."""
        self._lock.acquire()
        for name in self._files.names(f"{self._root}/{STAGING}"):
            day, run_id = day_of(name)
            if day is None:
                continue
            if day == self._day:
                self._mend(name, day)
                continue
            try:
                with DayLock(self._files, self._root, day, run_id, self._lease):
                    self._mend(name, day)
            except LockedError:
                continue  # it is at work
            except WriteError as error:
                warn(f"What a killed run left of {day} stays as it is, until {day} is run again: {error}")

    def write(self, table: str, frame: DataFrame, small: bool = False) -> None:
        """Stages a table."""
        self.tables[table] = write_files(frame, f"{self._staged}/{table}", table, small)

    def written(self, table: str) -> DataFrame:
        """What is staged of a table."""
        return read_parquet(self._spark, f"{self._staged}/{table}")

    def commit(self, record: Record) -> None:
        """Writes the journal, and makes its moves."""
        append_record(self._spark, f"{self._staged}/{RUNS}", record)
        self._lock.check()
        journal = {"tables": sorted(self.tables), "run_id": self._run_id}
        self._files.publish(f"{self._staged}/{JOURNAL}", json.dumps(journal))
        try:
            self._finish(self._staged, self._day, journal["tables"])
        except WriteError as error:
            raise WriteError(f"{error} All tables are written; the next run puts them in place.") from error

    def note(self, record: Record) -> None:
        """Adds the row of a failed run, which is staged first, since two runs may fail at once.

        A run whose journal is written has not failed: the next run completes it.
        """
        if self._files.exists(f"{self._staged}/{JOURNAL}"):
            return
        staged = f"{self._staged}.note"
        append_record(self._spark, f"{staged}/{RUNS}", record)
        self._move_record(staged, self._day)
        self._files.remove(staged)

    def expire(self, tables: Collection[str], before: date) -> None:
        """Removes the folders of earlier days."""
        for table in tables:
            for name in self._files.names(f"{self._root}/{table}"):
                day = folder_day(name)
                if day is not None and day < before:
                    self._files.remove(f"{self._root}/{table}/{name}")

    def end(self) -> None:
        """Removes what is staged, unless its journal says that it is to be put in place."""
        try:
            if not self._files.exists(f"{self._staged}/{JOURNAL}"):
                self._files.remove(self._staged)
        finally:
            self._lock.release()

    def _mend(self, name: str, day: date) -> None:
        """Finishes what a killed run had begun to put in place, and removes what another left."""
        staged = f"{self._root}/{STAGING}/{name}"
        journal = self._files.read(f"{staged}/{JOURNAL}")
        if journal is None:
            self._files.remove(staged)
        else:
            self._finish(staged, day, _tables_of(journal, f"{staged}/{JOURNAL}"))

    def _finish(self, staged: str, day: date, tables: Collection[str]) -> None:
        """Makes the moves that are left. What is still staged has not been moved."""
        for table in TABLES:
            new, place, old = f"{staged}/{table}", day_path(self._root, table, day), f"{staged}/old/{table}"
            waits = self._files.exists(new)
            if (waits or table not in tables) and self._files.exists(place):
                self._files.rename(place, old)
            if waits:
                self._files.rename(new, place)
        self._move_record(staged, day)
        # The journal goes first: without it the rest is waste.
        self._files.remove(f"{staged}/{JOURNAL}")
        with contextlib.suppress(WriteError):  # a later run removes it
            self._files.remove(staged)

    def _move_record(self, staged: str, day: date) -> None:
        """Adds a staged row to the ledger, unless that was done."""
        for name in self._files.names(f"{staged}/{RUNS}"):
            if name.startswith("part-"):
                self._files.rename(f"{staged}/{RUNS}/{name}", f"{day_path(self._root, RUNS, day)}/{name}")


class PlainStore:
    """A folder that is written in place, one table after the other: where nothing can be renamed."""

    how = "overwritten in place (output.atomic: false)"

    def __init__(self, spark: SparkSession, root: str, day: date) -> None:
        self.place = Folder(spark, root)
        self.tables: dict[str, int] = {}
        self._spark, self._root, self._day = spark, root, day

    def check(self, frames: Callable[[], Mapping[str, DataFrame]]) -> None:
        """Nothing: days of plain files may have other columns."""

    def begin(self) -> None:
        """Nothing can be locked."""

    def write(self, table: str, frame: DataFrame, small: bool = False) -> None:
        """Replaces a table of the day."""
        self.tables[table] = write_files(frame, day_path(self._root, table, self._day), table, small)

    def written(self, table: str) -> DataFrame:
        """What this run wrote of a table."""
        return read_parquet(self._spark, day_path(self._root, table, self._day))

    def commit(self, record: Record) -> None:
        """Empties tables of the day that earlier runs wrote and this one did not, then adds to the ledger."""
        for table in TABLES:
            path = day_path(self._root, table, self._day)
            if table in self.tables:
                continue
            try:
                schema = read_parquet(self._spark, path).schema
            except NotThereError:
                continue
            write_files(self._spark.createDataFrame([], schema), path, table)
        self.note(record)

    def note(self, record: Record) -> None:
        """Adds a row to the ledger."""
        append_record(self._spark, day_path(self._root, RUNS, self._day), record)

    def expire(self, tables: Collection[str], before: date) -> None:
        """Nothing can be removed: a config that asks for it is refused."""

    def end(self) -> None:
        """Nothing is left."""


def _tables_of(journal: str, path: str) -> list[str]:
    """The tables that a journal names. Raises WriteError where it is damaged."""
    try:
        tables = json.loads(journal)["tables"]
        if isinstance(tables, list) and all(isinstance(table, str) for table in tables):
            return tables
    except (ValueError, TypeError, KeyError):
        pass
    raise WriteError(
        f"{path!r} is no journal of a run, which says what was to be put in place. Remove its folder, and run the day "
        "again."
    )


def day_of(name: str) -> tuple[date | None, str]:
    """The day and the run of a name `2026-11-29.<run_id>`; no day where it is none of ours."""
    text, _, run_id = name.partition(".")
    try:
        return date.fromisoformat(text), run_id
    except ValueError:
        return None, run_id


def folder_day(name: str) -> date | None:
    """The day of a folder `run_date=2026-11-29`; None where it is none."""
    try:
        return date.fromisoformat(name.removeprefix("run_date="))
    except ValueError:
        return None
