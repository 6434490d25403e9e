"""Days of a Delta table, written by the job's own store against Sail's Spark Connect server; prints what was found.

Sail (pysail) has a Delta Lake of its own. It is not that of Spark: what it refuses and says may differ.
"""

from __future__ import annotations

import json
import sys
from datetime import date
from pathlib import Path
from typing import Any

from pysail.spark import SparkConnectServer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sparkmetrics import errors
from sparkmetrics.columns import Keys
from sparkmetrics.lake_stores import LakeStore
from sparkmetrics.lakes import Lake
from sparkmetrics.ledger import Record, last_done
from sparkmetrics.origins import note, notes_as_text, with_note
from sparkmetrics.tables import whole_day

OLD, DAY = date(2026, 11, 28), date(2026, 11, 29)

errors.NOT_THERE = (*errors.NOT_THERE, "No commit files found in _delta_log")
"""What Sail says of a table that is not there."""


class Days:
    """Runs of days in a folder of Delta tables."""

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self.spark, self.place = spark, Lake(spark, "delta", str(root), None)

    def begun(self, day: date) -> tuple[LakeStore, Record]:
        record = Record.begin(day, "config", {"pyspark": "Sail"})
        store = LakeStore(self.spark, self.place, day, record.run_id)
        store.begin()
        return store, record

    def frame(self, record: Record, rows: list[tuple[str | None, float]], schema: str = "name string, v double") -> Any:
        frame = self.spark.createDataFrame([tuple(row) for row in rows], schema)
        return frame.withColumn("run_id", F.lit(record.run_id))

    def counts(self, record: Record, weighted: bool) -> DataFrame:
        frame = self.frame(record, [("a", 1.0), ("b", 2.0)], "name string, count double")
        return with_note(frame, "count", note(Keys((), ("name",)), weighted, None))

    def run(self, day: date, tables: dict[str, list[tuple[str | None, float]]], weighted: bool = False) -> str:
        store, record = self.begun(day)
        store.write("class_cells", self.counts(record, weighted), small=True)
        assert notes_as_text(store.written("class_cells")) == notes_as_text(self.counts(record, weighted))
        for name, rows in tables.items():
            store.write(name, self.frame(record, rows))
        store.commit(record.done(store.tables))
        return record.run_id

    def rows(self, table: str) -> list[list[str]]:
        """All rows of all days."""
        frame = self.place.frame(table)
        assert frame is not None
        first = frame.columns[0]
        return sorted([str(row["run_date"]), str(row[first]), row["run_id"]] for row in frame.collect())

    def whole(self, table: str, day: date) -> list[str]:
        """What `read_results` gives."""
        return sorted(str(row[0]) for row in whole_day(self.place, table, day, lambda _: None).collect())


def told(action: Any) -> str:
    try:
        action()
    except errors.SparkMetricsError as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


def facts(spark: SparkSession, root: Path) -> dict[str, Any]:
    days, found = Days(spark, root), dict[str, Any]()
    three, one = [("a", 1.0), ("b", 2.0), (None, 3.0)], [("c", 4.0)]
    found["ids"] = [
        days.run(OLD, {"metrics": three, "gates": one}, weighted=True),
        days.run(DAY, {"metrics": three, "gates": one}),
        days.run(DAY, {"metrics": one}),
    ]
    found["tables"] = {name: days.rows(name) for name in ("metrics", "gates", "class_cells")}
    found["whole"] = [days.whole("metrics", OLD), days.whole("metrics", DAY)]
    found["notes"] = [json.loads(str(notes_as_text(whole_day(days.place, "class_cells", d)))) for d in (OLD, DAY)]
    done = last_done(days.place.runs(OLD, DAY))
    found["last"] = [done[OLD].run_id, done[DAY].run_id]

    store, record = days.begun(DAY)
    wider = days.frame(record, [], "name string, device string, v double")
    same = {"metrics": days.frame(record, []), "class_cells": days.counts(record, True)}
    found["columns"] = [told(lambda: store.check(lambda: {"metrics": wider})), told(lambda: store.check(lambda: same))]
    store.write("metrics", days.frame(record, three))
    found["stopped"] = told(lambda: days.whole("metrics", DAY))
    second = days.run(DAY, {"metrics": one})
    found["two"] = [told(lambda: store.write("gates", days.frame(record, one))), days.whole("metrics", DAY)]
    store.note(record.failed("stopped"))
    found["runs"] = [*found["ids"], second, record.run_id]
    found["ledger"] = [run for _, _, run in days.rows("runs")]

    store.expire(["class_cells", "score_counts"], DAY)
    found["expired"] = [{row[0] for row in days.rows(name)} == {str(DAY)} for name in ("class_cells", "metrics")]
    found["gone"] = [str(day) for day in days.place.gone("class_cells", list(done.values()))]
    return found


if __name__ == "__main__":
    server = SparkConnectServer(ip="127.0.0.1", port=0)
    server.start(background=True)
    _, port = server.listening_address
    session = SparkSession.builder.remote(f"sc://127.0.0.1:{port}").getOrCreate()
    print(json.dumps(facts(session, Path(sys.argv[1]))))
