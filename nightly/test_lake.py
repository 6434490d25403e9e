"""Tables of Iceberg, by the jars of Apache Iceberg on PySpark 3.5; and of Delta, as Sail's server has them.

The jobs of the first half run in two processes (`programs/lakes.py`): one is killed between two tables, the other does
all else in one session and tells what it found.
"""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Any

import environments
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from children import environ, run, run_to_end
from environments import Environment

import jobs
from jobs import PROGRAMS

ICEBERG = "snowpark-connect-deps-iceberg>=1.0.1,<1.0.3"
"""Brings the jars of Apache Iceberg 1.9 and 1.10 for Spark 3.5; those of 1.0.3 lack Jackson."""

SAIL = ("pysail>=0.7,<0.8", "pyspark-client>=4,<4.2")

DAYS = ("2026-11-27", "2026-11-28", "2026-11-29")
ROWS = 240

TABLES = ("metrics", "segment_auc", "class_counts", "score_counts", "class_cells")
LAKE = {"format": "iceberg", "table_prefix": "lake.db.eval_", "tables": list(TABLES[:3])}
ONE_DAY = "event_date = DATE'{run_date}'"
TWO_DAYS = f"event_date BETWEEN DATE'{DAYS[1]}' AND DATE'{DAYS[2]}'"
SEGMENTS = ["shelf", "country"]

GATE = {"metric": "roc_auc", "max_drop": 0.9, "days_ago": 1}


def predictions_of(day: str, countries: tuple[str, ...]) -> pa.Table:
    """A day with a short integer, a null and text as segments, scores with ties, and predicted classes."""
    random = np.random.default_rng(DAYS.index(day))
    label = random.random(ROWS) < 0.4
    score = np.round(np.clip(random.normal(0.4 + 0.2 * label, 0.2), 0, 1), 2)
    country = np.array([None, "AT", "CH", "XX"], dtype=object)[random.integers(0, 4, ROWS)]
    table = pa.table(
        {
            "model": pa.array(np.array(["a", "b"])[random.integers(0, 2, ROWS)]),
            "shelf": pa.array(random.integers(0, 3, ROWS), pa.int16()),
            "country": pa.array(country, pa.string()),
            "device": pa.array(np.array(["tv", "web"])[random.integers(0, 2, ROWS)]),
            "label": pa.array(label.astype(np.int32)),
            "score": pa.array(score),
            "guess": pa.array((score >= 0.5).astype(np.int32)),
        }
    )
    return table.filter(pa.array([name is None or name in countries for name in country]))


def write(folder: Path, day: str, table: pa.Table) -> None:
    target = folder / f"event_date={day}"
    target.mkdir(parents=True)
    pq.write_table(table, target / "part-0.parquet")


def write_config(folder: Path, name: str, output: dict[str, Any], **changes: Any) -> None:
    keys = {"by": ["model"], "segments": changes.get("segments", SEGMENTS)}
    content = {
        "predictions": {"path": str(folder / "predictions"), "filter": changes.get("filter", ONE_DAY)},
        "columns": {**keys, "label": "label", "score": "score", "prediction": "guess"},
        "evaluate": {"metrics": ["roc_auc", "average_precision", "recall", "accuracy"]},
        "output": output,
        "gates": changes.get("gates", []),
    }
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Predictions, what comes later of the last day, and configs."""
    folder = tmp_path_factory.mktemp("lake")
    for day in DAYS:
        write(folder / "predictions", day, predictions_of(day, ("AT", "CH", "XX")))
    write(folder / "later", DAYS[2], predictions_of(DAYS[2], ("AT", "CH")))
    files = {"tables": LAKE["tables"], "save_counts": True}
    write_config(folder, "job", LAKE)
    write_config(folder, "second", {**LAKE, "table_prefix": "other.db.eval_"})
    write_config(folder, "fewer", {**LAKE, "tables": ["metrics"], "retention_days": 1}, gates=[GATE])
    write_config(folder, "wider", LAKE, segments=[*SEGMENTS, "device"])
    write_config(folder, "files", {**files, "path": str(folder / "files")})
    write_config(folder, "union", {**files, "path": str(folder / "union")}, filter=TWO_DAYS)
    return folder


@pytest.fixture(scope="module")
def session(spark35: Environment, folder: Path) -> dict[str, str]:
    """Variables of processes whose administrator has set up Iceberg: one warehouse, and three catalogs of it."""
    jars = environments.environment("iceberg", environments.python("3.11"), [ICEBERG])
    (jar,) = jars.site_packages.glob("snowpark_connect_deps_iceberg/jars/iceberg-spark-runtime-3.5_2.12-*.jar")
    settings = {"spark.jars": str(jar)}
    for name in ("lake", "other", "plain"):
        catalog = f"spark.sql.catalog.{name}"
        settings[catalog] = "org.apache.iceberg.spark.SparkCatalog"
        settings |= {f"{catalog}.type": "hadoop", f"{catalog}.warehouse": str(folder / "warehouse")}
    settings["spark.sql.catalog.plain.cache-enabled"] = "false"
    (folder / "warehouse" / "db").mkdir(parents=True)
    variables = jobs.described(folder / "spark", spark35, spark35, "local[2]", settings)
    return {**variables, "JAVA_HOME": jobs.java_of(spark35, folder / "java")}


@pytest.fixture(scope="module")
def facts(spark35: Environment, session: dict[str, str], folder: Path) -> dict[str, Any]:
    """What `programs/lakes.py` found, after a run that was done and one that was killed."""
    program = [spark35.python, PROGRAMS / "lakes.py"]
    evaluate = ["evaluate", "--config", folder / "job.yaml", "--run-date", DAYS[2]]
    run([spark35.python, "-m", "sparkmetrics.cli", *evaluate], session, folder / "first", jobs.SECONDS)
    code, _, said = run_to_end([*program, "kill", folder / "job.yaml", DAYS[2]], session, folder / "kill", jobs.SECONDS)
    assert code == -signal.SIGKILL, said
    out = run([*program, "facts", folder, ",".join(TABLES), *DAYS], session, folder / "facts", jobs.SECONDS)
    found: dict[str, Any] = json.loads(out.splitlines()[-1])
    return found


def done(answer: list[Any]) -> str:
    """What a command said that ended well."""
    assert answer[0] == 0, answer[1]
    return str(answer[1])


def test_a_killed_run_leaves_a_day_that_is_not_read(facts: dict[str, Any]) -> None:
    metrics, pairs, ids = facts["mixed"]
    assert isinstance(pairs, list), pairs
    (first,) = facts["mixed runs"]
    run_id, rows = first["run_id"], first["tables"]["metrics"]
    assert f"is not what its last finished run {run_id} wrote ({rows} rows): it holds {rows} rows, 0 of" in metrics
    # What was not replaced is whole.
    assert len(pairs) > ids[run_id] == first["tables"]["segment_auc"] > 0


def test_only_missing_restores_it(facts: dict[str, Any]) -> None:
    answer, metrics, runs = facts["restored"]
    lines = done(answer).splitlines()
    assert [line.partition(":")[0] for line in lines if line.startswith("2026")] == [
        f"{DAYS[0]} done",
        f"{DAYS[1]} done",
        f"{DAYS[2]} done",
    ]
    assert "another run was stopped" in lines[-1]
    assert any("XX" in row for row in metrics)
    assert [run["status"] for run in runs] == ["done"] * 4


def test_a_day_is_replaced_whole_and_is_that_of_files(facts: dict[str, Any]) -> None:
    """All tables and their notes, with fewer segments than before; other days are skipped."""
    answer, tables = facts["changed"]
    said = done(answer)
    assert said.count("skipped: done") == 2
    assert "(its input changed)" in said
    done(facts["files"][0])
    for name in TABLES:
        assert tables[name] == facts["files"][1][name], name
        assert len(tables[name]) > 20, name
        assert not any("XX" in row for row in tables[name]), name
    assert any('"positive"' in line for line in tables["class_cells"])


def test_other_days_stay(facts: dict[str, Any]) -> None:
    assert facts["earlier"][0] == facts["earlier again"][0]
    assert [len(ids) for ids in facts["earlier"][0].values()] == [1] * 5


def test_a_run_that_fails_between_two_tables(facts: dict[str, Any]) -> None:
    (code, said), metrics, row = facts["failed"]
    assert code == 1
    assert "the disk is full" in said
    assert "0 of them of that run" in metrics
    assert (row["status"], row["message"], row["tables"]) == ("failed", "the disk is full", {})


def test_tables_that_are_not_written_any_more_lose_the_day(facts: dict[str, Any]) -> None:
    answer, ids, gates = facts["fewer"]
    done(answer)
    assert ids["segment_auc"] == ids["class_counts"] == {}
    assert len({run for name in ("metrics", "gates", "score_counts", "class_cells") for run in ids[name]}) == 1
    assert all(len(ids[name]) == 1 for name in ("metrics", "gates", "score_counts", "class_cells"))
    # The gate has seen the day before.
    assert sum("'passed'" in row for row in gates) == 2


def test_retention_deletes_saved_counts_alone(facts: dict[str, Any]) -> None:
    (_, before), (_, after) = facts["earlier"], facts["earlier again"]
    assert before
    assert after == {}
    assert facts["old metrics"]


def test_a_plain_reader_sees_whole_days(facts: dict[str, Any]) -> None:
    """Runs of the day that each look found: one, with all rows that it ever had."""
    assert not facts["failed reads"]
    reads = [tuple(read.items()) for read in facts["reads"]]
    assert all(len(read) == 1 for read in reads), [read for read in reads if len(read) != 1][:3]
    assert len({run for ((run, _),) in reads}) == len({read for (read,) in reads}) >= 4
    assert len(reads) > 20


def test_other_columns_are_refused_before_any_work(facts: dict[str, Any]) -> None:
    evaluated, dry, unchanged = facts["wider"]
    for code, said in (evaluated, dry):
        assert code == 2
        assert "The table lake.db.eval_metrics has other columns than this run would write: 'device' is new" in said
    assert unchanged


def test_a_dry_run_writes_nothing(facts: dict[str, Any]) -> None:
    answer, unchanged = facts["dry run"]
    assert f"lake.db.eval_*, the day {DAYS[2]} of each table replaced by the format's own commit" in done(answer)
    assert unchanged


def test_of_two_runs_at_once_the_first_stops(facts: dict[str, Any]) -> None:
    """The second, of another session, begins and ends while the first is at work."""
    (code, said), second, runs, metrics = facts["two"]
    assert code == 1
    (winner,) = runs
    assert (
        f"Another run of {DAYS[2]} was or is at work: run {winner['run_id']} has replaced the day in the table" in said
    )
    assert "'metrics'" in said
    done(second)
    assert facts["two ids"] == {winner["run_id"]: winner["tables"]["metrics"]}
    assert metrics == facts["changed"][1]["metrics"]


def test_a_run_that_was_done_before_the_first_table_of_results_stands(facts: dict[str, Any]) -> None:
    (code, said), second, runs, ids = facts["before results"]
    assert code == 1
    done(second)
    (winner,) = runs
    assert f"Another run of {DAYS[2]} was or is at work: run {winner['run_id']} was done in lake.db.eval_*" in said
    assert ids == {name: {winner["run_id"]: winner["tables"][name]} for name in TABLES}


def test_saved_days_are_added_up(facts: dict[str, Any]) -> None:
    """The sum of two days is their union, evaluated as files; the day without counts is named."""
    (code, said), merged, tables = facts["merged"]
    assert code == 2
    assert f"No saved counts of {DAYS[0]} in 'lake.db.eval_*'" in said
    done(merged)
    done(facts["union"][0])
    assert tables == facts["union"][1]


def test_the_ledger_is_added_to(facts: dict[str, Any]) -> None:
    first, restored = facts["mixed runs"], facts["restored"][2]
    assert restored[: len(first)] == first
    assert sorted(restored[-1]["tables"]) == sorted(TABLES)
    assert restored[-1]["versions"]["pyspark"].startswith("3.5.")


def test_it_is_shown_and_small_tables_are_one_file_a_day(facts: dict[str, Any]) -> None:
    said = done(facts["shown"])
    assert len([line for line in said.splitlines() if " roc_auc " in line]) == 2
    assert sorted(facts["data files"]) == list(DAYS)


@pytest.fixture(scope="module")
def delta(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What `programs/delta.py` found."""
    try:
        sail = environments.environment("sail", Path(sys.executable), [*SAIL, *environments.needed()])
    except pytest.fail.Exception as error:
        pytest.skip(f"no pysail to be had: {error}")
    environments.pip_install(sail, "--no-deps", "--force-reinstall", str(wheel))
    folder = tmp_path_factory.mktemp("delta")
    out = run([sail.python, PROGRAMS / "delta.py", folder / "days"], environ(), folder / "process", 300)
    assert list((folder / "days").glob("metrics/_delta_log/*.json"))
    found: dict[str, Any] = json.loads(out.splitlines()[-1])
    return found


def test_delta_replaces_a_day(delta: dict[str, Any]) -> None:
    """Rows that vanished are gone, other days stay, a table that is not written any more has no rows of the day."""
    old, _, last = delta["ids"]
    before = [[DAYS[1], name, old] for name in ("None", "a", "b")]
    assert delta["tables"] == {
        "metrics": [*before, [DAYS[2], "c", last]],
        "gates": [[DAYS[1], "c", old]],
        "class_cells": [*before[1:], [DAYS[2], "a", last], [DAYS[2], "b", last]],
    }
    assert delta["whole"] == [["None", "a", "b"], ["c"]]
    assert delta["last"] == [old, last]


def test_delta_keeps_the_notes_of_each_day(delta: dict[str, Any]) -> None:
    assert [notes["count"]["weighted"] for notes in delta["notes"]] == [True, False]
    assert all(notes["count"]["segments"] == ["name"] for notes in delta["notes"])


def test_delta_refuses_other_columns_and_mixes(delta: dict[str, Any]) -> None:
    wider, same = delta["columns"]
    assert "The table metrics has other columns than this run would write: 'device' is new" in wider
    assert same == "no error"
    assert "0 of them of that run" in delta["stopped"]
    locked, metrics = delta["two"]
    assert locked.startswith("LockedError: Another run of 2026-11-29 was or is at work")
    assert metrics == ["c"]


def test_delta_adds_to_the_ledger_and_deletes_old_days(delta: dict[str, Any]) -> None:
    assert sorted(delta["ledger"]) == sorted(delta["runs"])
    assert delta["expired"] == [True, False]
    assert delta["gone"] == [DAYS[1]]
