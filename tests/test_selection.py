"""Only the metrics and tables that are wanted: the same values, and nothing else."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import DataFrame, SparkSession
from results import assert_same_bits, tables

import sparkmetrics as sm
from sparkmetrics import cli

ROWS = [(f"s{i % 3}", i % 7 % 2, (i * 37 % 101) / 101, str(i % 5 % 2)) for i in range(120)]
ARGUMENTS: dict[str, Any] = {"segments": ["seg"], "label": "y", "score": "p", "thresholds": [0.3], "beta": [2.0]}
CHOSEN = ["fbeta_2", "ks", "roc_auc", "ece", "cohen_kappa"]


@pytest.fixture(scope="module")
def frame(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(ROWS, "seg string, y int, p double, c string").cache()


def values(evaluation: sm.Evaluation) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    columns = ("seg", "level", "metric", "average", "class", "threshold")
    found = evaluation.metrics().collect()
    return {tuple(r[c] for c in columns): (r["value"], r["lower"], r["upper"], r["reason"], r["rows"]) for r in found}


@pytest.mark.parametrize(
    "changes",
    [pytest.param({}, id="scores", marks=pytest.mark.slow), pytest.param({"prediction": "c"}, id="scores and classes")],
)
def test_chosen_metrics_are_those_of_all(frame: DataFrame, changes: dict[str, Any]) -> None:
    every = values(sm.evaluate(frame, **ARGUMENTS, **changes))
    some = values(sm.evaluate(frame, **ARGUMENTS, **changes, metrics=CHOSEN))
    assert some == {key: row for key, row in every.items() if key[2] in CHOSEN}
    assert {key[2] for key in some} == {*CHOSEN}


def test_a_metric_may_be_alone(frame: DataFrame) -> None:
    found = sm.evaluate(frame, **ARGUMENTS, metrics=["brier"])
    assert {key[2] for key in values(found)} == {"brier"}
    assert {row["metric"] for row in found.segment_disparity().collect()} == {"brier"}


@pytest.mark.slow
def test_tables_that_do_not_share_the_pass_are_right_too(frame: DataFrame) -> None:
    names = ("metrics", "confusion", "curves", "gains", "segment_gap")
    expected = tables(sm.evaluate(frame, **ARGUMENTS), names)
    keys = ["level", "seg", "metric", "threshold", "point", "bucket"]
    evaluation = sm.evaluate(frame, **ARGUMENTS)
    for shared in (["curves", "gains"], ["metrics"], []):
        evaluation.share(shared)
        found = {name: make().drop("run_id").toArrow() for name, make in evaluation.tables(names).items()}
        assert_same_bits(
            {n: t.sort_by([(k, "ascending") for k in keys if k in t.column_names]) for n, t in found.items()},
            {n: t.sort_by([(k, "ascending") for k in keys if k in t.column_names]) for n, t in expected.items()},
        )
    evaluation.unpersist()


def test_tables_that_are_not_there_are_errors(frame: DataFrame) -> None:
    evaluation = sm.evaluate(frame, **ARGUMENTS)
    for wrong in (["nope"], ["class_counts"], "metrics", [1]):
        with pytest.raises(sm.ConfigError, match=r"^tables"):
            evaluation.share(wrong)
    assert list(evaluation.tables(["curves", "metrics", "curves"])) == ["curves", "metrics"]


def test_a_job_writes_the_tables_that_are_wanted(frame: DataFrame, tmp_path: Path) -> None:
    frame.write.parquet(str(tmp_path / "in"))
    output: dict[str, Any] = {"path": str(tmp_path / "out"), "tables": ["metrics", "curves"], "save_counts": False}
    content = {
        "predictions": {"path": str(tmp_path / "in"), "reader": "arrow"},
        "columns": {"segments": ["seg"], "label": "y", "score": "p"},
        "evaluate": {"metrics": ["ks"]},
        "output": output,
    }

    def run() -> int:
        (tmp_path / "job.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
        return cli.main(["evaluate", "--config", str(tmp_path / "job.yaml"), "--run-date", "2026-11-29"])

    assert run() == cli.DONE
    assert sorted(path.name for path in (tmp_path / "out").glob("[!.]*")) == ["curves", "metrics", "runs"]
    written = sm.read_results(frame.sparkSession, output["path"], "metrics", date(2026, 11, 29))
    assert {row["metric"] for row in written.collect()} == {"ks"}
    output |= {"path": str(tmp_path / "none"), "tables": ["class_counts"], "save_counts": True}
    assert run() == cli.BAD_INPUT
    assert not (tmp_path / "none").exists()
