"""Runs jobs that write tables of Iceberg, one after the other in one session; prints what was found as JSON.

`lakes.py kill CONFIG DAY` is killed between two tables. `lakes.py facts FOLDER TABLE,... DAY...` does all else: FOLDER
has the configs and the predictions that `test_lake.py` made. Three catalogs are of one warehouse: `lake` is written,
`other` is what another session would see or write, `plain` keeps nothing in memory.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any
from unittest import mock

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import sparkmetrics as sm
from sparkmetrics import cli, session, tables
from sparkmetrics.errors import WriteError
from sparkmetrics.lake_stores import LakeStore

write = LakeStore.write


def ran(*words: str) -> list[Any]:
    """Exit code, and what a command said."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        code = cli.main(words)
    return [code, out.getvalue()]


def after(table: str, action: Callable[[], None]) -> Any:
    """Does something once, when a run has written that table."""
    done: list[str] = []

    def writes(store: LakeStore, name: str, frame: DataFrame, small: bool = False) -> None:
        write(store, name, frame, small)
        if name == table and not done:
            done.append(name)
            action()

    return mock.patch.object(LakeStore, "write", writes)


def killed(config: str, day: str) -> None:
    with after("metrics", lambda: os.kill(os.getpid(), signal.SIGKILL)):
        cli.main(["evaluate", "--config", config, "--run-date", day])


def fails() -> None:
    raise WriteError("the disk is full")


class Facts:
    """What the jobs of a folder of configs leave."""

    def __init__(self, spark: SparkSession, folder: Path, days: list[str]) -> None:
        self.spark, self.folder, (self.old, self.before, self.day) = spark, folder, days
        self.found: dict[str, Any] = {}

    def config(self, name: str) -> str:
        return str(self.folder / f"{name}.yaml")

    def evaluate(self, config: str, *words: str) -> list[Any]:
        return ran("evaluate", "--config", self.config(config), *(words or ("--run-date", self.day)))

    def table(self, name: str, day: str | None = None) -> DataFrame:
        """As a reader sees it who knows nothing of the ledger."""
        table = self.spark.read.table(f"plain.db.eval_{name}")
        return table if day is None else table.where(F.col("run_date") == F.lit(date.fromisoformat(day)))

    def run_ids(self, name: str, day: str) -> dict[str, int]:
        return {row[0]: row[1] for row in self.table(name, day).groupBy("run_id").count().collect()}

    def runs(self) -> list[dict[str, Any]]:
        rows = self.table("runs").orderBy("started_at").collect()
        return [{**row.asDict(), "started_at": "", "finished_at": "", "input_newest": ""} for row in rows]

    def read(self, name: str, day: str | None = None, prefix: str = "other.db.eval_") -> list[str] | str:
        """The rows that `read_results` gives in another session than the writer's, or its error."""
        try:
            frame = sm.read_results(self.spark, None, name, day or self.day, table_prefix=prefix, format="iceberg")
        except sm.DataError as error:
            return str(error)
        return rows_of(frame)

    def files(self, name: str, path: str) -> list[str]:
        return rows_of(sm.read_results(self.spark, str(self.folder / path), name, self.day))

    @contextlib.contextmanager
    def reader(self) -> Any:
        """Reads a table of the day in a loop meanwhile: `reads` are the runs that each look found, with their rows."""
        reads: list[dict[str, int]] = []
        failed: list[str] = []
        ended = threading.Event()

        def loop() -> None:
            while not ended.is_set():
                try:
                    reads.append(self.run_ids("metrics", self.day))
                except Exception as error:
                    failed.append(f"{type(error).__name__}: {error}")

        thread = threading.Thread(target=loop)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
            self.found |= {"reads": reads, "failed reads": failed}


def rows_of(frame: DataFrame) -> list[str]:
    """A schema, notes and rows in one order. Iceberg has integers in place of short ones."""
    columns = [
        f"{f.name} {f.dataType.simpleString().replace('smallint', 'int')} {json.dumps(f.metadata, sort_keys=True)}"
        for f in frame.schema
        if f.name != "run_id"
    ]
    return [*columns, *sorted(repr(tuple(row)) for row in frame.drop("run_id").collect())]


def facts(folder: Path, names: list[str], days: list[str]) -> dict[str, Any]:
    tables.FIRST_PAUSE = 0.01  # nobody puts in place what is mixed here
    on = Facts(session.get_session(), folder, days)
    spark, day, found = on.spark, on.day, on.found
    # A session that has seen what a killed run left.
    found["mixed"] = [on.read("metrics"), on.read("segment_auc"), on.run_ids("segment_auc", day)]
    found["mixed runs"] = on.runs()
    with on.reader():
        period = ("--from", on.old, "--to", day, "--only-missing")
        found["restored"] = [on.evaluate("job", *period), on.read("metrics"), on.runs()]
        shutil.copytree(folder / "later", folder / "predictions", dirs_exist_ok=True)
        found["changed"] = [on.evaluate("job", *period), {t: on.read(t) for t in names}]
        found["files"] = [on.evaluate("files"), {t: on.files(t, "files") for t in names}]
        found["earlier"] = [{t: on.run_ids(t, on.before) for t in names}, on.run_ids("score_counts", on.old)]
        with after("metrics", fails):
            found["failed"] = [on.evaluate("job"), on.read("metrics"), on.runs()[-1]]
        found["fewer"] = [on.evaluate("fewer"), {t: on.run_ids(t, day) for t in (*names, "gates")}, on.read("gates")]
    found["earlier again"] = [{t: on.run_ids(t, on.before) for t in names}, on.run_ids("score_counts", on.old)]
    found["old metrics"] = on.run_ids("metrics", on.old)
    runs = on.runs()
    found["wider"] = [on.evaluate("wider"), on.evaluate("wider", "--run-date", day, "--dry-run"), on.runs() == runs]
    found["dry run"] = [on.evaluate("job", "--run-date", day, "--dry-run"), on.runs() == runs]
    second: list[Any] = []
    with after("metrics", lambda: second.extend(on.evaluate("second"))):
        found["two"] = [on.evaluate("job"), second, on.runs()[len(runs) :], on.read("metrics", prefix="lake.db.eval_")]
    found["two ids"] = on.run_ids("metrics", day)
    runs, early = on.runs(), list[Any]()
    with after("score_counts", lambda: early.extend(on.evaluate("second"))):
        found["before results"] = [on.evaluate("job"), early, on.runs()[len(runs) :], {}]
    found["before results"][-1] = {t: on.run_ids(t, day) for t in names}
    merge = ("merge", "--config", on.config("job"), "--output-prefix", "lake.db.month_", "--to", day, "--from")
    found["merged"] = [ran(*merge, on.old), ran(*merge, on.old, "--allow-missing")]
    found["merged"] += [{t: on.read(t, prefix="lake.db.month_") for t in ("metrics", "segment_auc")}]
    found["union"] = [on.evaluate("union"), {t: on.files(t, "union") for t in ("metrics", "segment_auc")}]
    show = ("show", "--table-prefix", "lake.db.eval_", "--format", "iceberg", "--run-date", day)
    found["shown"] = ran(*show, "--level", "total", "--metric", "roc_auc")
    files = spark.read.table("plain.db.eval_metrics.files").select("partition.run_date").collect()
    found["data files"] = [str(row[0]) for row in files]
    return found


if __name__ == "__main__":
    if sys.argv[1] == "kill":
        killed(*sys.argv[2:])
    else:
        print(json.dumps(facts(Path(sys.argv[2]), sys.argv[3].split(","), sys.argv[4:]), default=str))
