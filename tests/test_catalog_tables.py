"""Results as tables of a catalog: a day is one run's whole, whatever happens, and other columns are refused."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import KIND
from pyspark.sql import SparkSession
from settings import session_settings

import sparkmetrics as sm
from sparkmetrics import catalog_stores, cli, tables
from sparkmetrics.catalog_stores import CatalogStore
from sparkmetrics.errors import ConfigError, DataError
from sparkmetrics.ledger import Record
from sparkmetrics.locks import LockedError
from sparkmetrics.stores import STAGING
from sparkmetrics.tables import Catalog

DAY = date(2026, 11, 29)
Job = Callable[..., tuple[int, str]]
ROWS = [("a", 1, 0.9), ("a", 0, 0.2), ("b", 1, 0.6), (None, 0, 0.6)]


@pytest.fixture
def prefix(spark: SparkSession) -> Iterator[str]:
    """Tables in a database of the test's own."""
    spark.sql("CREATE DATABASE catalog_test")
    yield "catalog_test.eval_"
    spark.sql("DROP DATABASE catalog_test CASCADE")


@pytest.fixture
def job(spark: SparkSession, tmp_path: Path, prefix: str, capfd: pytest.CaptureFixture[str]) -> Job:
    """Runs a job that writes catalog tables; gives its exit code and what it wrote to stderr."""
    spark.createDataFrame(ROWS, "seg string, y int, p double").write.parquet(str(tmp_path / "predictions"))

    def run(day: date = DAY, **changes: dict[str, Any]) -> tuple[int, str]:
        content: dict[str, Any] = {
            "predictions": {"path": str(tmp_path / "predictions")},
            "columns": {"segments": ["seg"], "label": "y", "score": "p"},
            "evaluate": {"metrics": ["roc_auc"], "levels": [[]]},
            "output": {"table_prefix": prefix, "tables": ["metrics", "confusion"]},
        }
        for section, keys in changes.items():
            content[section] = {**content.get(section, {}), **keys}
        path = tmp_path / "job.yaml"
        path.write_text(yaml.safe_dump(content), encoding="utf-8")
        code = cli.main(["evaluate", "--config", str(path), "--run-date", day.isoformat()])
        return code, capfd.readouterr().err

    return run


def folders(spark: SparkSession, prefix: str, table: str, day: date = DAY) -> list[str]:
    """The runs whose files of a day are there."""
    location = tables.Catalog(spark, prefix).location(table)
    return sorted(path.name for path in Path(str(location).removeprefix("file:"), f"run_date={day}").glob("run_id=*"))


def days_of(spark: SparkSession, table: str) -> list[str]:
    """The days that have rows in a table."""
    return sorted(str(row[0]) for row in spark.table(table).select("run_date").distinct().collect())


def test_reruns_other_days_and_other_columns(spark: SparkSession, job: Job, prefix: str, tmp_path: Path) -> None:
    assert job()[0] == cli.DONE
    assert job(date(2026, 11, 30))[0] == cli.DONE
    first = sm.read_results(spark, None, "metrics", DAY, table_prefix=prefix)
    assert first.columns == sm.read_results(spark, None, "metrics", "2026-11-30", table_prefix=prefix).columns
    assert (first.columns[:2], first.columns[-1]) == (["level", "seg"], "run_id")
    total = "level = 'total' and metric = 'roc_auc'"
    assert [row["value"] for row in first.where(total).collect()] == [3.5 / 4]
    # By name, with both days; the saved counts are a table, too.
    days = spark.table(f"{prefix}metrics").where(total).select("run_date", "value").collect()
    assert sorted((str(row[0]), row[1]) for row in days) == [(str(DAY), 3.5 / 4), ("2026-11-30", 3.5 / 4)]
    assert spark.table(f"{prefix}score_counts").groupBy("run_date").sum("rows").count() == 2
    # A rerun of fewer tables: the day has no confusion any more, the other day has.
    assert job(output={"tables": ["metrics"], "save_counts": False})[0] == cli.DONE
    assert [str(row[0]) for row in spark.table(f"{prefix}confusion").select("run_date").distinct().collect()] == [
        "2026-11-30"
    ]
    assert spark.table(f"{prefix}metrics").where(f"run_date = '{DAY}'").select("run_id").distinct().count() == 1
    runs = spark.table(f"{prefix}runs").where("status = 'done'")
    assert runs.count() == 3
    # What was replaced is removed by the next run.
    if KIND == "classic":
        assert len(folders(spark, prefix, "metrics")) == 2
        assert job()[0] == cli.DONE
        assert len(folders(spark, prefix, "metrics")) == 2
    # Other columns are refused by name, and nothing is changed.
    frame = spark.createDataFrame([(*row, 1) for row in ROWS], "seg string, y int, p double, age int")
    frame.write.mode("overwrite").parquet(str(tmp_path / "predictions"))
    code, err = job(columns={"segments": ["seg", "age"]})
    assert code == cli.BAD_INPUT
    assert f"The table {prefix}metrics has other columns than this run would write: 'age' is new" in err
    assert spark.table(f"{prefix}runs").where("status = 'failed'").count() == 0


def test_saved_counts_of_catalog_tables_are_added_up(
    spark: SparkSession, job: Job, prefix: str, tmp_path: Path
) -> None:
    assert job(output={"tables": ["metrics"]})[0] == cli.DONE
    output = {"tables": ["metrics"], "retention_days": 5}
    assert job(date(2026, 11, 30), output=output)[0] == cli.DONE
    words = ["merge", "--config", str(tmp_path / "job.yaml"), "--from", str(DAY), "--to", "2026-11-30"]
    assert cli.main(words) == cli.BAD_INPUT  # it would replace the results of the last day
    assert cli.main([*words, "--output-prefix", f"{prefix}sum_"]) == cli.DONE
    found = sm.read_results(spark, None, "metrics", "2026-11-30", table_prefix=f"{prefix}sum_")
    (row,) = found.where("level = 'total' and metric = 'roc_auc'").collect()
    assert (row["rows"], row["value"]) == (8.0, 3.5 / 4)
    assert job(date(2026, 12, 5), output=output)[0] == cli.DONE
    assert days_of(spark, f"{prefix}score_counts") == ["2026-11-30", "2026-12-05"]


@pytest.mark.skipif(KIND == "connect", reason="a client of Spark Connect cannot lock")
def test_one_run_of_a_day_at_a_time(spark: SparkSession, prefix: str) -> None:
    first, second, other = (
        CatalogStore(spark, prefix, None, day, f"run {n}") for n, day in enumerate((DAY, DAY, date(2026, 11, 30)))
    )
    first.begin()
    with pytest.raises(LockedError, match="Another run of 2026-11-29 is at work: run run 0 "):
        second.begin()
    other.begin()
    other.end()
    first.end()
    second.begin()
    second.end()


@pytest.mark.skipif(KIND == "connect", reason="a client of Spark Connect neither locks nor removes files")
@pytest.mark.parametrize("next_day", [DAY, pytest.param(date(2026, 11, 30), marks=pytest.mark.slow)])
def test_a_run_killed_between_two_tables_is_undone_by_the_next(
    spark: SparkSession, prefix: str, monkeypatch: pytest.MonkeyPatch, next_day: date
) -> None:
    frames = {name: spark.range(rows).selectExpr("id as value") for name, rows in (("metrics", 2), ("confusion", 3))}

    def run(run_id: str, day: date = DAY) -> CatalogStore:
        store = CatalogStore(spark, prefix, None, day, run_id, lease=0.2)
        store.begin()
        for name, frame in frames.items():
            store.write(name, frame.selectExpr("value", f"'{run_id}' as run_id"))
        return store

    def record(run_id: str) -> Record:
        return replace(Record.begin(DAY, "", {}), run_id=run_id).done({"metrics": 2, "confusion": 3})

    first = run("first")
    first.commit(record("first"))
    first.end()
    frames.pop("confusion")  # the killed run has fewer tables: what it drops must come back
    killed = run("killed")
    frames["confusion"] = spark.range(3).selectExpr("id as value")
    altered = killed._alter

    def dies(table: str, change: str) -> None:
        altered(table, change)
        if table == "confusion" and change.startswith("DROP"):
            raise KeyboardInterrupt

    monkeypatch.setattr(killed, "_alter", dies)
    with pytest.raises(KeyboardInterrupt):
        killed.commit(record("killed"))
    killed._lock._stopping.set()  # type: ignore[union-attr]  # it is dead: no end(), and its lock ends
    assert [row[0] for row in spark.table(f"{prefix}metrics").select("run_id").distinct().collect()] == ["killed"]
    assert killed.place.run_ids(["metrics", "confusion"], DAY) == {"metrics": "killed"}
    time.sleep(0.4)
    after = CatalogStore(spark, prefix, None, next_day, "next", lease=0.2)
    after.begin()
    after.end()
    for name in frames:
        assert [row[0] for row in spark.table(f"{prefix}{name}").select("run_id").distinct().collect()] == ["first"]
        assert folders(spark, prefix, name) == ["run_id=first"]
    ledger = Path(str(tables.Catalog(spark, prefix).location("runs")).removeprefix("file:"))
    assert list((ledger / STAGING).iterdir()) == []


def test_strings_and_names_in_sql() -> None:
    assert catalog_stores.literal("it's a \\ path") == "'it\\'s a \\\\ path'"


def test_catalogs_that_do_not_have_the_format(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Told by the catalogs' settings, before they are asked for anything: here they have no class to load."""
    settings = {"spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog"}
    with session_settings(spark, settings):
        with pytest.raises(ConfigError, match=r"'lake.db.eval_': 'lake' is a catalog of Iceberg.*Set output.format"):
            Catalog(spark, "lake.db.eval_").check()
        for prefix in ("eval_", "default.eval_"):
            with pytest.raises(ConfigError, match=f"'{prefix}': Spark's own catalog has no tables of Iceberg"):
                Catalog(spark, prefix).check("iceberg")
            Catalog(spark, prefix).check("delta")
    own = {"spark.sql.catalog.spark_catalog": "org.apache.iceberg.spark.SparkSessionCatalog"}
    monkeypatch.setattr(spark.catalog, "currentCatalog", lambda: "spark_catalog")
    with session_settings(spark, own), pytest.raises(DataError, match="cannot look for its database"):
        Catalog(spark, "default.eval_").check()  # which looks for it, as that catalog has tables of Parquet, too
