"""What a person sees: the plan in words, results as a table, the progress line, help, log lines."""

from __future__ import annotations

import io
import json
import logging
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import KIND
from pyspark.sql import SparkSession

import sparkmetrics as sm
from sparkmetrics import cli
from sparkmetrics.columns import Keys
from sparkmetrics.metrics import score_metrics, threshold_metrics
from sparkmetrics.options import Options
from sparkmetrics.progress import Progress
from sparkmetrics.show import aligned, text

DAY = date(2026, 11, 29)
ROWS = [("m", "a", 1, 0.9), ("m", "a", 0, 0.2), ("m", "b", 1, 0.6), ("m", None, 0, 0.6)]


@pytest.fixture(scope="module")
def folder(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A config, its predictions, and the results of one run."""
    folder = tmp_path_factory.mktemp("terminal")
    spark.createDataFrame(ROWS, "model string, seg string, y int, p double").write.parquet(str(folder / "predictions"))
    write_config(folder)
    assert evaluate(folder) == cli.DONE
    return folder


def write_config(folder: Path, **changes: dict[str, Any]) -> None:
    content: dict[str, Any] = {
        "predictions": {"path": str(folder / "predictions"), "filter": "p > 0"},
        "columns": {"by": ["model"], "segments": ["seg"], "label": "y", "score": "p"},
        "evaluate": {"thresholds": [0.5, 0.25]},
        "output": {"path": str(folder / "results"), "atomic": KIND != "connect", "tables": ["metrics"]},
    }
    for section, keys in changes.items():
        content[section] = {**content.get(section, {}), **keys}
    (folder / "job.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")


def evaluate(folder: Path, *words: str) -> int:
    return cli.main(["evaluate", "--config", str(folder / "job.yaml"), "--run-date", str(DAY), *words])


def test_a_run_that_names_no_metrics_makes_all(spark: SparkSession, folder: Path) -> None:
    made = sm.read_results(spark, str(folder / "results"), "metrics", DAY).select("metric").distinct().collect()
    asked = Options.make(Keys((), ())).parameters
    assert {row["metric"] for row in made} == set(threshold_metrics(asked)) | set(score_metrics(asked))


def test_a_dry_run_says_the_plan_and_does_nothing(
    spark: SparkSession, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_config(tmp_path, predictions={"path": str(folder / "predictions")}, output={"save_counts": False})
    assert evaluate(tmp_path, "--dry-run") == cli.DONE
    said = capsys.readouterr().out
    for words in (
        f"predictions:  {folder}/predictions, where p > 0, read by Spark",
        "label 'y' (positive: 1); score 'p'",
        "each distinct (model), at 2 levels: total; seg",
        "0.5, 0.25 (score >= threshold)",
        "metrics, runs",
        f"{tmp_path}/results, the day {DAY} of each table",
        "Nothing was written.",
    ):
        assert words in said, said
    columns = {"by": [], "prediction": "y"}
    write_config(tmp_path, predictions={"path": str(folder / "predictions")}, columns=columns)
    assert evaluate(tmp_path, "--dry-run") == cli.DONE
    assert "prediction 'y'" in capsys.readouterr().out
    write_config(tmp_path, predictions={"path": str(folder / "predictions")}, columns={"score": "q"})
    assert evaluate(tmp_path, "--dry-run") == cli.BAD_INPUT
    assert "score column 'q' is not in the table" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["job.yaml"]


def test_a_dry_run_of_metrics_of_probabilities(spark: SparkSession, tmp_path: Path) -> None:
    rows = [("a", 0.75, 0.25), ("b", 0.5, 0.5)]
    spark.createDataFrame(rows, "y string, a double, b double").write.parquet(str(tmp_path / "predictions"))
    columns = {"by": [], "segments": [], "score": None, "probabilities": ["a", "b"], "positive": "a"}
    write_config(tmp_path, columns=columns, predictions={"filter": None}, evaluate={"metrics": ["log_loss"]})
    for words in (["--dry-run"], []):
        assert evaluate(tmp_path, *words) == cli.DONE


@pytest.mark.parametrize("words", [["--dry-run"], []])
def test_what_pyarrow_cannot_read_is_an_error_of_runs_and_dry_runs(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    arrow = {"path": str(folder / "predictions"), "reader": "arrow"}
    write_config(tmp_path, predictions=arrow)
    assert evaluate(tmp_path, *words) == cli.BAD_INPUT
    said = capsys.readouterr().err
    assert "(predictions.reader of a config) cannot read the predictions: the filter 'p > 0' is more than" in said
    write_config(tmp_path, predictions=arrow | {"filter": None}, output={"tables": ["confusion"]})
    assert evaluate(tmp_path, *words) == cli.DONE
    assert ("predictions, read by workers with pyarrow" in capsys.readouterr().out) == bool(words)


def test_a_dry_run_of_many_days(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_config(tmp_path, predictions={"path": str(folder / "predictions")})
    words = ["--from", "2026-11-01", "--to", str(DAY), "--dry-run"]
    assert cli.main(["evaluate", "--config", str(tmp_path / "job.yaml"), *words]) == cli.DONE
    assert (
        "run date:     2026-11-01 to 2026-11-29, one after the other; below, of 2026-11-01" in capsys.readouterr().out
    )


@pytest.mark.parametrize("words", [["--dry-run"], []])
def test_places_where_no_results_can_be(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    (tmp_path / "file").write_text("")
    predictions = {"path": str(folder / "predictions")}
    bad = [
        ({"path": None, "table_prefix": "nodb.x_"}, "output.table_prefix 'nodb.x_': there is no database 'nodb'"),
        ({"path": None, "table_prefix": "a b"}, "output.table_prefix 'a b': give [[catalog.]database.]prefix"),
        ({"path": None, "table_prefix": "o2-"}, "output.table_prefix 'o2-': names of tables in Spark's own catalog"),
        ({"path": None, "table_prefix": "..x"}, "output.table_prefix '..x': give [[catalog.]database.]prefix"),
    ]
    if KIND != "connect":
        bad += [
            ({"path": str(tmp_path / "file")}, f"output.path '{tmp_path}/file': '{tmp_path}/file' is a file"),
            ({"path": str(tmp_path / "file/x")}, f"output.path '{tmp_path}/file/x': '{tmp_path}/file' is a file"),
            ({"path": "s3a://bucket/x"}, "output.path 's3a://bucket/x': this session has no such file system"),
        ]
    for output, said in bad:
        write_config(tmp_path, predictions=predictions, output=output)
        assert evaluate(tmp_path, *words) == cli.BAD_INPUT
        printed = capsys.readouterr().err
        assert said in printed
        assert "Traceback" not in printed
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "job.yaml"]


def test_results_as_a_table(spark: SparkSession, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    show = ["show", str(folder / "results"), "--run-date", str(DAY)]
    assert cli.main([*show, "--level", "total", "--metric", "roc_auc", "--metric", "recall"]) == cli.DONE
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == [
        "model",
        "level",
        "metric",
        "threshold",
        "value",
        "lower",
        "upper",
        "rows",
        "positives",
        "negatives",
    ]
    cells = [line.split()[:5] for line in lines[2:]]
    assert cells == [
        ["m", "total", "recall", "0.25", "1"],
        ["m", "total", "recall", "0.5", "1"],
        ["m", "total", "roc_auc", "-", "0.875"],
    ]
    assert cli.main([*show, "--rows", "2"]) == cli.DONE
    assert "... and more: choose by --level or --metric" in capsys.readouterr().out
    assert cli.main([*show, "--metric", "auc"]) == cli.BAD_INPUT
    said = capsys.readouterr().err
    assert "There is level 'seg', 'total'." in said
    assert "'roc_auc'" in said
    assert cli.main([*show, "--table", "score_counts", "--level", "total"]) == cli.BAD_INPUT
    assert "has no column 'level'" in capsys.readouterr().err
    assert cli.main(["show", str(folder / "results"), "--run-date", "2026-11-28"]) == cli.BAD_INPUT
    assert "No finished run of 2026-11-28" in capsys.readouterr().err


def test_cells_and_lines() -> None:
    assert [text(v) for v in (None, 0.123456789, 3.0, 1_234_567.0, 1e300, float("inf"), "a\nb", True, "x" * 50)] == [
        *("-", "0.123457", "3", "1,234,567", "1e+300", "inf", "a\\nb", "True", "x" * 39 + "…")
    ]
    assert aligned([["name", "value"], ["a", "1"], ["long", "-"], ["b", "22.5"]]) == [
        *("name  value", "----  -----", "a         1", "long      -", "b      22.5")
    ]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_progress_line_is_for_terminals() -> None:
    terminal, file = Terminal(), io.StringIO()
    for stream in (terminal, file):
        progress = Progress(stream)
        progress.begin(2)
        progress.step("saving counts")
        progress.step("metrics, 1,234 rows of predictions")
        progress.end()
        progress.step("late")  # after the end nothing is shown
    assert file.getvalue() == ""
    shown = terminal.getvalue()
    assert "[1/2] saving counts, 0 s" in shown
    assert "[2/2] metrics, 1,234 rows of predictions, 0 s" in shown
    assert "late" not in shown
    assert shown.endswith("\r\x1b[K")


def test_help_has_examples(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ([], ["evaluate"], ["merge"], ["show"]):
        with pytest.raises(SystemExit) as stop:
            cli.main([*command, "--help"])
        assert stop.value.code == 0
        said = capsys.readouterr().out
        assert (f"example:\n  sparkmetrics {command[0]} " if command else "Exit codes: 0 done") in said


def test_log_lines_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.root, "handlers", [])
    write_config(tmp_path)
    assert evaluate(tmp_path, "--log-format", "json") == cli.BAD_INPUT
    lines = capsys.readouterr().err.splitlines()
    found = [json.loads(line) for line in lines]
    assert (found[0]["level"], "evaluate 2026-11-29" in found[0]["message"]) == ("INFO", True)
    assert found[0]["time"].endswith("+00:00")
    assert (found[-1]["level"], "Cannot read predictions.path" in found[-1]["message"]) == ("ERROR", True)
