"""What a writer of Delta or Iceberg tables looks at, on tables in memory: `make nightly` has the formats themselves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import date
from functools import partial
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from sparkmetrics.columns import Keys
from sparkmetrics.errors import DataError, SchemaError, WriteError
from sparkmetrics.lake_stores import LakeStore
from sparkmetrics.lakes import Lake
from sparkmetrics.ledger import RUNS, Record
from sparkmetrics.locks import LockedError
from sparkmetrics.origins import note, notes_as_text, with_note
from sparkmetrics.tables import whole_day

OLD, DAY = date(2026, 11, 28), date(2026, 11, 29)


@dataclass(frozen=True)
class Memory(Lake):
    """Tables that are DataFrames."""

    kept: dict[str, DataFrame] = field(default_factory=dict)

    def frame(self, table: str, fresh: bool = False) -> DataFrame | None:
        return self.kept.get(table)


class Store(LakeStore):
    """Writes to Memory: what Delta or Iceberg is asked for."""

    place: Memory

    def _overwrite(self, table: str, dated: DataFrame, is_there: bool) -> None:
        self._keep(table, self.place.kept[table].where(F.col("run_date") != self._day) if is_there else None, dated)

    def _append(self, table: str, rows: DataFrame) -> None:
        self._keep(table, self.place.kept.get(table), rows)

    def _keep(self, table: str, others: DataFrame | None, rows: DataFrame) -> None:
        """Rows and not how they were made, as a table has them."""
        every = rows if others is None else others.unionByName(rows)
        # Without metadata, which Iceberg does not keep.
        fields = [StructField(column.name, column.dataType) for column in every.schema]
        self.place.kept[table] = self._spark.createDataFrame(every.collect(), StructType(fields))


@pytest.fixture
def lake(spark: SparkSession) -> Memory:
    return Memory(spark, "iceberg", None, "lake.db.eval_")


@pytest.fixture
def begin(spark: SparkSession, lake: Memory) -> Callable[..., Store]:
    def begun(run_id: str, day: date = DAY) -> Store:
        store = Store(spark, lake, day, run_id)
        store.begin()
        return store

    return begun


def rows(spark: SparkSession, run_id: str, count: int = 2, **columns: Any) -> DataFrame:
    frame = spark.range(count).select(F.lit("a").alias("name"), F.lit(1.0).alias("value"))
    return frame.withColumns(columns).withColumn("run_id", F.lit(run_id))


def counts(spark: SparkSession, run_id: str, weighted: bool = False) -> DataFrame:
    """A saved state with its note."""
    frame = spark.range(1).select(F.lit("a").alias("name"), F.lit(1.0).alias("count"), F.lit(run_id).alias("run_id"))
    return with_note(frame, "count", note(Keys((), ("name",)), weighted, None))


def record(store: Store, day: date = DAY) -> Record:
    return replace(Record.begin(day, "", {}), run_id=store._run_id).done(store.tables)


def test_a_day_that_is_written_and_read(spark: SparkSession, lake: Memory, begin: Callable[..., Store]) -> None:
    """Each day has the notes of its own run; a table that is not written any more has no rows of the day."""
    lake.kept["gates"] = rows(spark, "before").withColumn("run_date", F.explode(F.lit([OLD, DAY])))
    records = []
    for day, run_id in ((OLD, "old"), (DAY, "new")):
        store = begin(run_id, day)
        state = counts(spark, run_id, weighted=day == OLD)
        store.write("class_cells", state, small=True)
        assert notes_as_text(store.written("class_cells")) == notes_as_text(state)
        if day == OLD:
            store.write("gates", rows(spark, run_id))
        records.append(record(store, day))
        store.commit(records[-1])
    of_old, of_new = records
    assert lake.run_ids(("gates", "class_cells", "curves"), OLD) == {"gates": "old", "class_cells": "old"}
    assert lake.run_ids(("gates", "class_cells"), DAY) == {"class_cells": "new"}
    weighted, not_weighted = (notes_as_text(whole_day(lake, "class_cells", day)) for day in (OLD, DAY))
    assert weighted == notes_as_text(counts(spark, "", True))
    assert not_weighted == notes_as_text(counts(spark, ""))
    assert lake.gone("gates", [of_old, replace(of_new, tables={"gates": 2})]) == {DAY}
    assert lake.gone("class_cells", records) == set()
    assert lake.gone("curves", [replace(of_new, tables={"curves": 1})]) == {DAY}


def test_of_two_runs_the_later_stands(spark: SparkSession, lake: Memory, begin: Callable[..., Store]) -> None:
    """Whether the other was done before this one wrote a table, replaced a table, or was done before this one began."""
    first = begin("first")
    first.write("score_counts", counts(spark, "first"))
    second = begin("second")
    second.write("metrics", rows(spark, "second"))
    second.commit(record(second))
    with pytest.raises(LockedError, match="was or is at work: run second was done in lake"):
        first.write("metrics", rows(spark, "first"))
    assert lake.run_ids(["metrics", "score_counts"], DAY) == {"metrics": "second"}

    third = begin("third")
    third.write("metrics", rows(spark, "third"))
    third.write("gates", rows(spark, "third"))
    begin("fourth").write("metrics", rows(spark, "fourth"))
    with pytest.raises(LockedError, match=r"run fourth has replaced the day in the table 'metrics'.*stand once it is"):
        third.write("curves", rows(spark, "third"))
    third.tables = {"gates": 2, "score_counts": 1}  # of saved states it is asked at the end
    with pytest.raises(LockedError, match="one has replaced the day in the table 'score_counts'"):
        third.commit(record(third))
    assert RUNS in lake.kept
    assert lake.kept[RUNS].count() == 1


def test_other_columns_are_refused(spark: SparkSession, lake: Memory, begin: Callable[..., Store]) -> None:
    """Iceberg keeps short integers as integers; a column less is not filled with NULL."""
    store = begin("run")
    lake.kept["metrics"] = rows(spark, "", 0, shelf=F.lit(1)).withColumn("run_date", F.lit(DAY))
    store.write("metrics", rows(spark, "run", shelf=F.lit(1).cast("short")).select("*"))
    for frame, said in (
        (rows(spark, "run"), "eval_metrics has other columns than this run would write: 'shelf' is gone"),
        (rows(spark, "run", shelf=F.lit("1")), "'shelf' was int and is string"),
    ):
        for refused in (
            partial(store.write, "metrics", frame),
            partial(store.check, lambda frame=frame: {"metrics": frame}),
        ):
            with pytest.raises(SchemaError, match=said):
                refused()


def test_a_table_that_another_run_makes_in_between(
    spark: SparkSession, lake: Memory, begin: Callable[..., Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first runs of two days find no table, and both make it."""
    overwrite, asked = Store._overwrite, []

    def is_late(store: Store, table: str, dated: DataFrame, is_there: bool) -> None:
        asked.append(is_there)
        if not is_there:
            lake.kept.setdefault(table, rows(spark, "other").withColumn("run_date", F.lit(OLD)))
            raise PySparkException("it already exists")
        overwrite(store, table, dated, is_there)

    monkeypatch.setattr(Store, "_overwrite", is_late)
    begin("run").write("metrics", rows(spark, "run", 3))
    assert asked == [False, True]
    assert lake.kept["metrics"].count() == 5


def test_what_cannot_be_looked_at_is_no_bad_data_once_a_run_writes(
    spark: SparkSession, lake: Memory, begin: Callable[..., Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = begin("run")
    store.tables = {"metrics": 1}
    store._notes = {"metrics": None}
    with pytest.raises(WriteError, match="was dropped while the run was at work"):
        store.written("metrics")

    def unreachable(*_: Any, **__: Any) -> None:
        raise DataError("nobody answers")

    monkeypatch.setattr(Memory, "frame", unreachable)
    calls: dict[str, Callable[[], object]] = {
        "begin": store.begin,
        "write": lambda: store.write("metrics", rows(spark, "run")),
        "written": lambda: store.written("metrics"),
        "commit": lambda: store.commit(record(store)),
        "note": lambda: store.note(record(store)),
        "expire": lambda: store.expire(["metrics"], DAY),
    }
    for call in calls.values():
        with pytest.raises(WriteError, match="nobody answers"):
            call()
    with pytest.raises(DataError, match="nobody answers"):
        store.check(dict)
