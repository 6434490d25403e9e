"""Readers beside a job that rewrites a day in a loop: they see whole days, or an error, and never a mix."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest
from conftest import KIND
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

import sparkmetrics as sm
from sparkmetrics.catalog_stores import CatalogStore
from sparkmetrics.files import files_of
from sparkmetrics.ledger import Record
from sparkmetrics.stores import FolderStore, Store

DAY = date(2026, 11, 29)
RERUNS, LOOKS = 20, 10
READS = 5
"""Times that a reader reads who is told that a later run has taken the files away."""

pytestmark = pytest.mark.skipif(KIND == "connect", reason="one client of Spark Connect is not two programs")


def rerun(spark: SparkSession, store: Store, record: Record, number: int) -> None:
    """One run that writes two tables: run `number` has as many rows, in several files."""
    store.begin()
    try:
        for table in ("metrics", "confusion"):
            rows = spark.range(0, 10 + number, 1, 3).select(
                F.col("id").alias("value"), F.lit(number).alias("number"), F.lit(record.run_id).alias("run_id")
            )
            store.write(table, rows.repartition(3))
        store.commit(record.done(store.tables))
    finally:
        store.end()


def seen(read: Callable[[str], DataFrame], table: str) -> list[Row]:
    """The runs whose rows a reader finds. Whose files a later run has taken away gets an error, and reads again."""
    gone: Exception | None = None
    for _ in range(READS):
        try:
            return read(table).groupBy("number", "run_id").count().collect()
        except Exception as error:
            if not any(said in str(error) for said in ("FILE_NOT_EXIST", "does not exist")):
                raise
            gone = error
    raise AssertionError(f"gone {READS} times: {gone}")


def watched(spark: SparkSession, store: Callable[[str], Store], read: Callable[[str], DataFrame]) -> list[str]:
    """Reruns a day beside a reader: what it found wrong."""
    first = Record.begin(DAY, "", {})
    rerun(spark, store(first.run_id), first, 0)
    wrong, looks, stop = [], [0], threading.Event()

    def look() -> None:
        while not stop.is_set():
            for table in ("metrics", "confusion"):
                try:
                    rows = seen(read, table)
                except Exception as error:
                    wrong.append(f"{table}: {str(error)[:300]}")
                    continue
                if len(rows) != 1 or rows[0]["count"] != 10 + rows[0]["number"]:
                    wrong.append(f"{table}: {rows}")
            looks[0] += 1

    reader = threading.Thread(target=look)
    reader.start()
    number = 0
    while not wrong and (number < RERUNS or (looks[0] < LOOKS and number < 5 * RERUNS)):
        number += 1
        record = Record.begin(DAY, "", {})
        rerun(spark, store(record.run_id), record, number)
    stop.set()
    reader.join()
    assert wrong or looks[0] >= LOOKS
    return wrong


@pytest.mark.slow
def test_read_results_sees_whole_days_of_a_folder(spark: SparkSession, tmp_path: Path) -> None:
    def store(run_id: str) -> Store:
        found = files_of(spark, str(tmp_path))
        assert found is not None
        return FolderStore(spark, *found, DAY, run_id)

    def read(table: str) -> DataFrame:
        return sm.read_results(spark, str(tmp_path), table, DAY)

    assert watched(spark, store, read) == []


@pytest.mark.slow
def test_a_catalog_table_and_read_results_of_one_see_whole_days(spark: SparkSession) -> None:
    spark.sql("CREATE DATABASE readers_test")
    prefix = "readers_test.eval_"

    def store(run_id: str) -> Store:
        return CatalogStore(spark, prefix, None, DAY, run_id)

    def read(table: str) -> DataFrame:
        if table == "metrics":
            return spark.table(f"{prefix}metrics").where(f"run_date = '{DAY}'")
        return sm.read_results(spark, None, table, DAY, table_prefix=prefix)

    try:
        assert watched(spark, store, read) == []
    finally:
        spark.sql("DROP DATABASE readers_test CASCADE")
