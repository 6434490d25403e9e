"""The job: tables of a day and their ledger, exit codes, one clear message for bad input and nothing left behind."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml
from conftest import KIND
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from results import SEGMENT_TABLES

import sparkmetrics as sm
from sparkmetrics import cli, stores, tables
from sparkmetrics.files import LocalFiles
from sparkmetrics.locks import DayLock

DAY = date(2026, 11, 29)
ROWS = [
    ("m", "a", 1, 0.9, "2026-11-29"),
    ("m", "a", 0, 0.2, "2026-11-29"),
    ("m", "b", 1, 0.6, "2026-11-29"),
    ("m", None, 0, 0.6, "2026-11-29"),
    ("m", "b", 1, None, "2026-11-28"),
]
METRICS = ["roc_auc", "ks", "brier", "ece", "best_f1", "recall", "accuracy"]
"""One of each kind: that a job makes all where none are named is in `test_terminal.py`."""

FEW: dict[str, dict[str, Any]] = {
    "evaluate": {"metrics": ["roc_auc"], "levels": [[]]},
    "output": {"tables": ["metrics", "confusion"], "save_counts": False},
}
"""Changes for a run that is not about what its tables hold."""

Job = Callable[..., tuple[int, str]]


@pytest.fixture(scope="module")
def predictions(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Predictions of two days, the earlier one with a null score, and columns with all sorts of faults."""
    path = str(tmp_path_factory.mktemp("job") / "predictions")
    frame = spark.createDataFrame(ROWS, "model string, seg string, y int, p double, day string")
    faults = {
        "label3": F.when(F.col("seg").isNull(), "2").otherwise(F.col("y").cast("string")),
        "nan": F.lit(float("nan")),
        "minus": F.lit(-1.0),
    }
    frame.withColumns(faults).coalesce(1).write.parquet(path)
    return path


def run_job(folder: Path, predictions: str, changes: dict[str, dict[str, Any]]) -> int:
    """Runs `sparkmetrics evaluate` with some keys of its config changed."""
    content: dict[str, Any] = {
        "predictions": {"path": predictions, "filter": "day = '{run_date}'"},
        "columns": {"by": ["model"], "segments": ["seg"], "label": "y", "score": "p"},
        "evaluate": {"thresholds": [0.5, 0.8], "metrics": METRICS},
        "output": {"path": str(folder / "results"), "atomic": KIND != "connect"},
    }
    for section, keys in changes.items():
        content[section] = {**content.get(section, {}), **keys}
    path = folder / "job.yaml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return cli.main(["evaluate", "--config", str(path), "--run-date", DAY.isoformat()])


@pytest.fixture
def job(spark: SparkSession, predictions: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Job:
    """Runs a job in the test's folder, of few results if so asked; gives its exit code and what it wrote to stderr."""

    def run(few: bool = False, **changes: dict[str, Any]) -> tuple[int, str]:
        if few:
            changes |= {section: {**keys, **changes.get(section, {})} for section, keys in FEW.items()}
        code = run_job(tmp_path, predictions, changes)
        return code, capfd.readouterr().err

    return run


@pytest.fixture(scope="module")
def results(spark: SparkSession, predictions: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The results of one run."""
    folder = tmp_path_factory.mktemp("done")
    assert run_job(folder, predictions, {}) == cli.DONE
    return str(folder / "results")


def test_a_run_writes_every_table_and_a_ledger_that_vouches_for_them(spark: SparkSession, results: str) -> None:
    run = spark.read.parquet(f"{results}/runs").toPandas().iloc[0]
    assert str(run.run_date) == DAY.isoformat()
    assert (run.status, run.rows_read, run.rows_used, dict(run.rows_dropped)) == ("done", 4, 4, {})
    assert set(dict(run.tables)) == {
        *("metrics", "confusion", "curves", "gains", "calibration", "score_counts"),
        *("segment_auc", "segment_summary", "segment_gap", "segment_disparity"),
    }
    assert len(run.config_sha256) == 64
    assert run.started_at <= run.finished_at
    for table, rows in dict(run.tables).items():
        run_ids = pq.read_table(f"{results}/{table}/run_date={DAY}", columns=["run_id"])["run_id"].to_pylist()
        assert sm.read_results(spark, results, table, DAY).count() == len(run_ids) == rows > 0, table
        assert set(run_ids) == {run.run_id}, table


def test_the_results_are_those_of_the_notebook(spark: SparkSession, results: str, predictions: str) -> None:
    frame = spark.read.parquet(predictions).where(F.col("day") == DAY.isoformat())
    columns: dict[str, Any] = {"by": ["model"], "segments": ["seg"], "label": "y", "score": "p"}
    ev = sm.evaluate(frame, **columns, thresholds=[0.5, 0.8], metrics=METRICS)
    names = ("metrics", "confusion", "curves", *SEGMENT_TABLES, "segment_auc")
    for name in names:
        written = sm.read_results(spark, results, name, DAY).drop("run_id").toArrow()
        expected = getattr(ev, name)().drop("run_id").toArrow()
        assert (written.schema.names, written.schema.types) == (expected.schema.names, expected.schema.types), name
        assert sorted(map(str, written.to_pylist())) == sorted(map(str, expected.to_pylist())), name


def test_the_log_says_where_segments_are_pooled(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = [("m", f"s{number % 6}", number % 2, number / 20) for number in range(20)]
    frame = spark.createDataFrame(rows, "model string, seg string, y int, p double")
    frame.write.parquet(str(tmp_path / "many"))
    with caplog.at_level("INFO", logger="sparkmetrics"):
        changes: dict[str, dict[str, Any]] = {
            "predictions": {"filter": None},
            "evaluate": {"max_pair_segments": 4},
            "output": {"tables": ["segment_auc"], "save_counts": False},
        }
        assert run_job(tmp_path, str(tmp_path / "many"), changes) == cli.DONE
    (said,) = (record.getMessage() for record in caplog.records if "(other)" in record.getMessage())
    assert "segment_auc of level seg names the 4 largest segments" in said
    assert "of 1 by tuple(s)" in said


def test_saved_counts_of_a_job_can_be_evaluated_later(spark: SparkSession, results: str) -> None:
    counts = sm.read_score_counts(spark, f"{results}/score_counts/run_date={DAY}")
    assert (counts.keys.by, counts.keys.segments, counts.weighted) == (("model",), ("seg",), False)
    auc = counts.evaluate(levels=[[]], metrics=["roc_auc"]).metrics().first()
    with pytest.raises(sm.WriteError, match="Could not write"):
        counts.write(f"{results}/score_counts/run_date={DAY}")
    # Pairs: 0.9 beats 0.2 and 0.6; 0.6 beats 0.2 and ties with 0.6.
    assert auc is not None
    assert auc["value"] == 3.5 / 4


def test_a_rerun_replaces_the_day_and_adds_a_run(spark: SparkSession, job: Job, results: str, tmp_path: Path) -> None:
    """Fewer thresholds, fewer tables, no saved counts: nothing of the earlier run is left."""
    shutil.copytree(results, tmp_path / "results")
    results = str(tmp_path / "results")
    assert job(few=True, evaluate={"thresholds": [0.5]})[0] == 0
    left = {path.parent.name for path in Path(results).glob("*/run_date=*") if pq.read_table(path).num_rows}
    assert left == {"metrics", "confusion", "runs"}
    assert spark.read.parquet(f"{results}/runs").count() == 2
    thresholds = sm.read_results(spark, results, "confusion", DAY).select("threshold").distinct().collect()
    assert [row[0] for row in thresholds] == [0.5]


def test_read_results_refuses_a_table_that_its_run_did_not_write(
    spark: SparkSession, results: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(results, tmp_path / "results")
    day = tmp_path / "results" / "confusion" / f"run_date={DAY}"
    spark.read.parquet(f"{results}/confusion/run_date={DAY}").limit(1).write.mode("overwrite").parquet(str(day))
    monkeypatch.setattr(tables, "TRIES", 2)
    monkeypatch.setattr(tables, "FIRST_PAUSE", 0.0)
    with pytest.raises(
        sm.DataError, match=r"whole: .* is not what its last finished run .* wrote \(8 rows\): it holds 1 rows"
    ):
        sm.read_results(spark, str(tmp_path / "results"), "confusion", DAY)
    with pytest.raises(sm.ConfigError, match="table must be one of metrics"):
        sm.read_results(spark, results, "metric", DAY)
    with pytest.raises(sm.ConfigError, match="'yesterday'"):
        sm.read_results(spark, results, "metrics", "yesterday")
    with pytest.raises(sm.DataError, match=r"No finished run of 2026-11-28 in "):
        sm.read_results(spark, results, "metrics", "2026-11-28")
    with pytest.raises(sm.DataError, match="wrote no table 'gates'"):
        sm.read_results(spark, results, "gates", DAY)
    with pytest.raises(sm.ConfigError, match="Give path or table_prefix"):
        sm.read_results(spark, None, "metrics", DAY)


def test_dropped_rows_are_counted_by_reason_and_only_the_total_needs_no_pair_table(
    spark: SparkSession, job: Job, tmp_path: Path
) -> None:
    code, _ = job(
        predictions={"filter": "day >= '2026-11-28'"},
        evaluate={"invalid_rows": "drop", "levels": [[]], "metrics": ["roc_auc"]},
        output={"save_counts": False},
    )
    assert code == 0
    run = spark.read.parquet(f"{tmp_path}/results/runs").toPandas().iloc[0]
    assert (run.rows_read, run.rows_used, dict(run.rows_dropped)) == (5, 4, {"null score": 1})
    assert set(dict(run.tables)) == {"metrics", "confusion", "curves", "gains", "calibration"}


def test_predicted_classes_and_probabilities(spark: SparkSession, job: Job, tmp_path: Path) -> None:
    """Two classes and three; the costs of classes under numbers and texts."""
    rows = [(0, 0, 0.75, 0.25, 0.0), (1, 1, 0.25, 0.5, 0.25), (1, 0, 0.5, 0.25, 0.25), (1, None, 0.5, 0.25, 0.25)]
    source, results = str(tmp_path / "classes"), str(tmp_path / "results")
    spark.createDataFrame(rows, "y int, guess int, p0 double, p1 double, p2 double").write.parquet(source)
    costs = {0: {1: 5}, "1": {0: 2.5}}
    for classes in (2, 3):
        probabilities = {k: f"p{k}" for k in range(3)} if classes == 3 else None
        code, _ = job(
            predictions={"path": source, "filter": None},
            columns={"by": [], "segments": [], "score": None, "prediction": "guess", "probabilities": probabilities},
            evaluate={
                **{"classes": list(range(classes)), "class_costs": costs, "top_k": [2], "invalid_rows": "drop"},
                "metrics": ["accuracy", "empirical_risk", *(["top_k_accuracy_2"] if classes == 3 else [])],
            },
        )
        assert code == cli.DONE
        run = spark.read.parquet(f"{results}/runs").orderBy(F.desc("finished_at")).first()
        assert run is not None
        assert (run["rows_read"], run["rows_used"], run["rows_dropped"]) == (4, 3, {"null prediction": 1})
        of_three = {"class_score_counts", "class_ranks"} if classes == 3 else set()
        assert set(run["tables"]) == {"metrics", "class_counts", "confusion", "class_cells"} | of_three
        found = {
            row["metric"]: row["value"]
            for row in sm.read_results(spark, results, "metrics", DAY)
            .where("class is null and average is null")
            .collect()
        }
        assert (found["accuracy"], found["empirical_risk"]) == pytest.approx((2 / 3, 2.5 / 3))
        assert found.get("top_k_accuracy_2") == (1.0 if classes == 3 else None)
        counts = sm.read_results(spark, results, "class_counts", DAY).select("label", "prediction", "count").collect()
        assert sorted(map(tuple, counts)) == [("0", "0", 1.0), ("1", "0", 1.0), ("1", "1", 1.0)]
        (cells,) = sm.read_results(spark, results, "confusion", DAY).collect()
        assert (cells["threshold"], cells["tp"], cells["fp"], cells["fn"], cells["tn"]) == (None, 1, 0, 1, 1)


BAD = {
    "missing column": ({"columns": {"score": "q"}}, ["score column 'q' is not in the table", "'p'"]),
    "third label": ({"columns": {"label": "label3"}}, ["'label3' has more than two labels", "'0', '1', '2'"]),
    "no positive label": ({"columns": {"positive": 7}}, ["none of its labels is positive=7", "0, 1"]),
    "null score": ({"predictions": {"filter": None}}, ["1 x null score (column 'p')", "invalid_rows='drop'"]),
    "NaN score": ({"columns": {"score": "nan"}}, ["4 x NaN score (column 'nan')"]),
    "negative weight": ({"columns": {"weight": "minus"}}, ["4 x negative weight (column 'minus')"]),
    "empty table": ({"predictions": {"filter": "day = '1999-01-01'"}}, ["No rows to evaluate: the table is empty"]),
    "unknown key": ({"evaluate": {"treshold": 1}}, ["evaluate.treshold: unknown key"]),
    "unreadable path": (
        {"predictions": {"path": "/no/such/folder"}},
        ["Cannot read predictions.path '/no/such/folder'"],
    ),
    "unreadable table": (
        {"predictions": {"path": None, "table": "no.such"}},
        ["Cannot read predictions.table 'no.such'"],
    ),
    "filter that is cut off": (
        {"predictions": {"filter": "day = '{run_date}' and"}},
        ["predictions.filter \"day = '2026-11-29' and\" does not fit"],
    ),
    "filter that closes what it did not open": (
        {"predictions": {"filter": "p > 0) or (p < 1"}},
        ["predictions.filter 'p > 0) or (p < 1' does not fit"],
    ),
    "filter that fails on values": (
        {"predictions": {"filter": "assert_true(p < 0) is null"}},
        ["Cannot read the predictions, where 'assert_true(p < 0) is null' (predictions.filter): ", "is not true!"],
    ),
    "wrong filter": ({"predictions": {"filter": "nothing = 1"}}, ["predictions.filter 'nothing = 1' does not fit"]),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_exit_code_2_one_message_and_no_output(name: str, job: Job, tmp_path: Path) -> None:
    changes, messages = BAD[name]
    code, err = job(**changes)
    assert code == cli.BAD_INPUT
    assert len([line for line in err.splitlines() if line.startswith("sparkmetrics: ")]) == 1
    for message in messages:
        assert message in err
    assert "Traceback" not in err
    assert not (tmp_path / "results").exists()


def test_an_output_that_cannot_be_written_is_exit_code_1_and_a_message(job: Job, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "metrics").write_text("in the way of a folder", encoding="utf-8")
    code, err = job(few=True, output={"path": str(tmp_path / "new")})
    assert code == cli.FAILED
    assert "sparkmetrics: Could not" in err
    assert "Traceback" not in err


def test_a_run_that_fails_leaves_the_day_and_a_row_in_the_ledger(
    spark: SparkSession, job: Job, predictions: str, results: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The input is rewritten while it is evaluated; a table cannot be written."""
    shutil.copytree(results, tmp_path / "results")
    shutil.copytree(predictions, tmp_path / "input")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "results").glob("*/run_date=*/*.parquet")}
    written = stores.write_files

    def rewrites(frame: DataFrame, path: str, table: str, small: bool = False) -> int:
        for file in (tmp_path / "input").glob("*.parquet"):
            os.utime(file, (2_000_000_000, 2_000_000_000))
        return written(frame, path, table, small)

    monkeypatch.setattr(stores, "write_files", rewrites)
    output = {"tables": ["confusion", "gains"]}
    code, err = job(few=True, predictions={"path": str(tmp_path / "input")}, output=output)
    assert code == cli.BAD_INPUT
    assert "The predictions changed while they were evaluated: 4 rows, the newest file of" in err

    def fails(frame: DataFrame, path: str, table: str, small: bool = False) -> int:
        if table == "gains":
            raise sm.WriteError("the disk is full")
        return written(frame, path, table, small)

    monkeypatch.setattr(stores, "write_files", fails)
    code, err = job(few=True, output=output)
    assert code == cli.FAILED
    assert "sparkmetrics: the disk is full" in err
    runs = spark.read.parquet(f"{tmp_path}/results/runs").orderBy("started_at").collect()
    assert [run["status"] for run in runs] == ["done", "failed", "failed"]
    assert runs[1]["message"].startswith("The predictions changed")
    assert (runs[2]["message"], runs[2]["tables"], runs[2]["rows_read"]) == ("the disk is full", {}, 4)
    if KIND == "classic":  # without renames the tables before it were overwritten
        after = {path: path.stat().st_mtime_ns for path in (tmp_path / "results").glob("*/run_date=*/*.parquet")}
        assert {path: when for path, when in after.items() if "/runs/" not in str(path)} == {
            path: when for path, when in before.items() if "/runs/" not in str(path)
        }
        assert not list((tmp_path / "results" / ".staging").iterdir())


def test_a_day_that_is_being_run_is_refused(job: Job, tmp_path: Path) -> None:
    if KIND == "connect":
        pytest.skip("a client of Spark Connect cannot lock")
    with DayLock(LocalFiles(), str(tmp_path / "results"), DAY, "another"):
        code, err = job()
    assert code == cli.FAILED
    assert "sparkmetrics: Another run of 2026-11-29 is at work: run another on" in err
    assert not (tmp_path / "results" / "metrics").exists()


def test_small_tables_are_one_file(results: str) -> None:
    files = {path.parent.parent.name: 0 for path in Path(results).glob("*/run_date=*/*.parquet")}
    for path in Path(results).glob("*/run_date=*/*.parquet"):
        files[path.parent.parent.name] += 1
    assert set(files.values()) == {1}


def test_where_nothing_can_be_renamed_that_must_be_said(job: Job) -> None:
    if KIND == "classic":
        pytest.skip("an object store needs its client: a Connect session stands for it")
    code, err = job(output={"atomic": True})
    assert code == cli.BAD_INPUT
    assert "a day cannot be replaced in one step there" in err
    code, err = job(output={"retention_days": 30})
    assert code == cli.BAD_INPUT
    assert "output.retention_days: nothing can be removed" in err


def test_a_format_that_is_not_installed_is_one_message(job: Job, tmp_path: Path) -> None:
    for output in ({"format": "delta"}, {"format": "iceberg", "path": None, "table_prefix": "x.y."}):
        code, err = job(output=output)
        assert code == cli.BAD_INPUT
        assert f"output.format '{output['format']}' is not installed in this Spark session" in err
    assert not (tmp_path / "results").exists()


def test_results_among_the_predictions_are_refused(job: Job, predictions: str, tmp_path: Path) -> None:
    for path in (predictions, f"{predictions}/results", f"file:{predictions}/../predictions"):
        code, err = job(output={"path": path})
        assert code == cli.BAD_INPUT
        assert "output.path" in err
        assert "overlap" in err
    code, err = job(predictions={"path": str(tmp_path / "results" / "metrics")})
    assert "overlap" in err


def test_a_run_date_that_is_no_date_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main(["evaluate", "--config", "c.yaml", "--run-date", "2026-13-01"])
    assert stop.value.code == cli.BAD_INPUT
    assert "is not a date" in capsys.readouterr().err
