"""The config of a job: what is accepted, and that every error is named in one message."""

from __future__ import annotations

import copy
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

from sparkmetrics import config
from sparkmetrics.errors import ConfigError

SMALLEST: dict[str, Any] = {
    "predictions": {"path": "data"},
    "columns": {"label": "y", "score": "s"},
    "output": {"path": "results"},
}


def changed(section: str, **keys: Any) -> dict[str, Any]:
    content = copy.deepcopy(SMALLEST)
    content.setdefault(section, {}).update(keys)
    return content


def test_the_smallest_config_has_the_documented_defaults() -> None:
    job = config.parse(SMALLEST)
    assert job.columns.by == job.columns.segments == []
    assert job.columns.positive == 1
    assert job.evaluate.model_dump() == {
        "levels": None,
        "thresholds": [0.5],
        "threshold_rule": ">=",
        "beta": [1.0],
        "costs": None,
        "curve_points": 1000,
        "metrics": None,
        "buckets": 10,
        "calibration_bins": 10,
        "classes": None,
        "class_costs": None,
        "accuracy_weights": None,
        "payoffs": None,
        "top_k": [],
        "curve_metrics": [],
        "partial_auc": [],
        "confidence": 0.95,
        "min_group_rows": 0,
        "max_pair_segments": 200,
        "invalid_rows": "error",
    }
    assert job.output.save_counts
    assert job.predictions.format == "parquet"


@pytest.mark.parametrize("name", ["evaluate.yaml", "titanic.yaml"])
def test_the_configs_of_the_repository_are_valid(name: str) -> None:
    config.load(Path(__file__).parents[1] / "conf" / name)


def test_a_config_with_every_documented_key_at_its_neutral_value_is_valid() -> None:
    text = """
predictions: {path: data/predictions, format: parquet, filter: "event_date = DATE'{run_date}'"}
columns: {by: [model], segments: [sex, pclass], label: survived, positive: 1, score: score,
          scores: null, weight: null, prediction: null, probabilities: null, id: null}
evaluate: {levels: null, thresholds: [0.5], threshold_rule: ">=", beta: [1.0], curve_points: 1000, buckets: 10,
           calibration_bins: 10, min_group_rows: 0, invalid_rows: error}
output: {path: results, format: parquet, table_prefix: null, save_counts: true}
"""
    job = config.parse(yaml.safe_load(text)).on(date(2026, 11, 29))
    assert job.predictions.filter == "event_date = DATE'2026-11-29'"


def test_the_run_date_fills_path_and_filter() -> None:
    job = config.parse(changed("predictions", path="in/{run_date}", filter="d = '{run_date}'")).on(date(2026, 1, 2))
    assert (job.predictions.path, job.predictions.filter) == ("in/2026-01-02", "d = '2026-01-02'")


def test_the_fingerprint_depends_on_content_and_not_on_layout() -> None:
    assert config.parse(SMALLEST).sha256() == config.parse(dict(reversed(SMALLEST.items()))).sha256()
    assert config.parse(SMALLEST).sha256() != config.parse(changed("columns", label="z")).sha256()


def test_classes_are_whatever_yaml_makes_of_them() -> None:
    text = """
predictions: {path: data}
columns: {label: y, probabilities: {0: p0, 1: p1, 2.5: p2, other: p3}}
evaluate: {classes: [0, 1, 2.5, other], class_costs: {0: {1: 5, other: 1}, "1": {2.5: 0.5}}}
output: {path: results}
"""
    job = config.parse(yaml.safe_load(text))
    assert job.columns.probabilities == {0: "p0", 1: "p1", 2.5: "p2", "other": "p3"}
    assert job.evaluate.classes == [0, 1, 2.5, "other"]
    assert job.evaluate.class_costs == {0: {1: 5.0, "other": 1.0}, "1": {2.5: 0.5}}
    assert len(job.sha256()) == 64


BAD = [
    (changed("evaluate", thresolds=[0.5]), ["evaluate.thresolds: unknown key; did you mean 'thresholds'?"]),
    (SMALLEST | {"ouput": {}}, ["ouput: unknown key; did you mean 'output'?"]),
    (changed("columns", by="model"), ["columns.by: Input should be a valid list, found 'model'"]),
    (changed("evaluate", threshold_rule="=>"), ["evaluate.threshold_rule", "'>=' or '>'", "found '=>'"]),
    (changed("evaluate", curve_points=0), ["evaluate.curve_points must be a whole number of at least 1", "found 0"]),
    (changed("evaluate", thresholds=[float("nan")]), ["evaluate.thresholds must be numbers, found nan"]),
    (changed("evaluate", levels=[["sex"]]), ["evaluate.levels: 'sex' is not a segment column"]),
    (changed("evaluate", invalid_rows="ignore"), ["evaluate.invalid_rows", "'error' or 'drop'"]),
    (changed("evaluate", min_group_rows=-1), ["evaluate.min_group_rows must be a whole number of at least 0"]),
    (changed("evaluate", max_pair_segments=1), ["evaluate.max_pair_segments must be a whole number of at least 2"]),
    (changed("evaluate", levels="cubes"), ["evaluate.levels: 'cubes' is not a segment column", "'cube'"]),
    (changed("columns", id="row"), ["columns.id: 'row' is not supported by this version"]),
    (
        changed("output", tables=["metrics", "metric"]),
        ["output.tables: there is no 'metric'. There are: ", "'metrics', "],
    ),
    (changed("output", tables=[]), ["output.tables"]),
    (
        changed("output", tables=["metrics", "segment_gap"]),
        ["output.tables: segment_gap needs a level with at least one"],
    ),
    (changed("output", tables=["class_counts"]), ["output.tables: class_counts needs predicted classes: give predi"]),
    (
        changed("columns", score=None, prediction="p", segments=["s"]) | {"output": {"path": "r", "tables": ["gains"]}},
        ["output.tables: gains needs scores: give score or scores"],
    ),
    (changed("evaluate", metrics=["auc"]), ["evaluate.metrics: 'auc' is no metric of this evaluation", "'roc_auc'"]),
    (
        changed("evaluate", metrics=["f1_of_means", "ks", "cohen_kappa_linear"]),
        [
            "evaluate.metrics: 'f1_of_means', 'cohen_kappa_linear' cannot be had of the columns given",
            "can be had: 'accuracy', ",
        ],
    ),
    (
        changed("columns", score=None, prediction="p") | {"evaluate": {"metrics": ["ks", "cohen_kappa_class_costs"]}},
        ["metrics: 'ks' cannot be had of the columns given", "; 'cohen_kappa_class_costs' needs class_costs. These"],
    ),
    (changed("predictions", reader="fast"), ["predictions.reader", "found 'fast'"]),
    (changed("output", format="orc"), ["output.format", "'parquet', 'delta' or 'iceberg'", "found 'orc'"]),
    (
        changed("columns", score=None, scores={"str": 5}),
        ["columns.scores.str: Input should be a valid string, found 5"],
    ),
    (changed("output", path=None), ["output: give path (a folder), or table_prefix"]),
    (changed("output", format="iceberg"), ["output: format iceberg needs table_prefix"]),
    (changed("output", path="a\0b"), ["output.path: has a NUL character, found 'a\\x00b'"]),
    (changed("predictions", path="a\0b"), ["predictions.path: has a NUL character"]),
    (changed("columns", **{"fo\no": 1}), ["'columns.fo\\no': unknown key"]),
    (changed("predictions", table="db.t"), ["predictions: give either path or table"]),
    (changed("columns", scores={"m": "s"}), ["columns: Give either score (one column) or scores"]),
    (changed("columns", label=None), ["columns.label: Input should be a valid string, found None"]),
    ({"columns": {"label": "y", "score": "s"}}, ["predictions: Field required", "output: Field required"]),
    ("text", ["must have the keys predictions, columns, evaluate, output"]),
    (None, ["must have the keys predictions, columns, evaluate, output"]),
]


@pytest.mark.parametrize(("content", "messages"), BAD)
def test_an_error_names_its_key_and_what_was_found(content: Any, messages: list[str]) -> None:
    with pytest.raises(ConfigError) as error:
        config.parse(content)
    for message in messages:
        assert message in str(error.value)


def test_all_errors_are_in_one_message() -> None:
    content = changed("evaluate", thresholds="0.5")
    content["output"] = {**content["output"], "format": "orc"}
    content["columns"]["weigth"] = "w"
    with pytest.raises(ConfigError, match=r"has 3 error\(s\)") as error:
        config.parse(content, "job.yaml")
    for key in ("job.yaml", "evaluate.thresholds", "output.format", "columns.weigth"):
        assert key in str(error.value)


def test_a_file_that_is_missing_or_not_yaml_is_a_config_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Cannot read the config"):
        config.load(tmp_path / "none.yaml")
    broken = tmp_path / "broken.yaml"
    broken.write_text("a: [1", encoding="utf-8")
    with pytest.raises(ConfigError, match="not valid YAML"):
        config.load(broken)
