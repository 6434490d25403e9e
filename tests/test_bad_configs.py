"""Hundreds of bad configs: each is exit code 2 with one message that names the key; none a stack trace or a file."""

from __future__ import annotations

import copy
import datetime
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from sparkmetrics import cli, config
from sparkmetrics.errors import ConfigError

GOOD: dict[str, Any] = {
    "predictions": {"path": "predictions", "filter": "day = '{run_date}'"},
    "columns": {"by": ["model"], "segments": ["seg", "age"], "label": "y", "score": "p"},
    "evaluate": {"thresholds": [0.5]},
    "output": {"path": "results"},
}

NOT_TEXT = (7, 0.5, True, ["a"], {"a": 1}, datetime.date(2026, 11, 29))
NOT_NUMBER = ("7", ["1"], {"a": 1}, "ﬁve", "", "٣")
NOT_LIST = ("a", 7, {"a": 1}, True)
HUGE = list(range(20_000))

WRONG: dict[str, tuple[Any, ...]] = {
    "predictions.path": (*NOT_TEXT, "", None, "days/{date}"),
    "predictions.table": (*NOT_TEXT[:4], ""),
    "predictions.format": (*NOT_TEXT, None),
    "predictions.options": ("a", 7, [1], {"header": [1]}),
    "predictions.filter": (*NOT_TEXT, "day = '{rundate}'"),
    "predictions.reader": ("pandas", 7, None, "ARROW"),
    "columns.by": (*NOT_LIST, [7], [["model"]], [None], None, ["seg"], ["model", "model"]),
    "columns.segments": (*NOT_LIST, [7], [None], None, ["model"], ["seg", "seg"]),
    "columns.label": (*NOT_TEXT, None),
    "columns.positive": (["a"], {"a": 1}, None),
    "columns.score": NOT_TEXT,
    "columns.scores": ("p", 7, ["p"], {"rf": 7}, {"rf": None}, {"rf": "p"}),
    "columns.prediction": NOT_TEXT,
    "columns.probabilities": (7, True, 0.5, [7], {"a": 7}, "probs"),
    "columns.weight": NOT_TEXT,
    "columns.id": ("id", 7),
    "evaluate.levels": (7, "all", "roll up", [["sex"]], [7], {"a": 1}, []),
    "evaluate.metrics": ("roc_auc", 7, ["auc"], [7], ["fbeta_2"], []),
    "evaluate.thresholds": (*NOT_NUMBER, 0.5, ["0.5"], [None], [float("nan")], None, [True]),
    "evaluate.threshold_rule": ("=>", "≥", 7, None, "<"),
    "evaluate.beta": (*NOT_NUMBER, 1, ["1"], [0], [-1], [float("nan")], [1e9]),
    "evaluate.costs": ("a", 7, [1], {}, {"tp": "1"}, {"TP": 1}, {"fn": 1e200}, {"fn": float("inf")}),
    "evaluate.payoffs": ("a", {"profit": 1}, {"tp": "1"}),
    "evaluate.accuracy_weights": ("a", {"tp": -1}, {"x": 1}),
    "evaluate.curve_points": (*NOT_NUMBER, 0, -1, 0.5, 10**9, True),
    "evaluate.buckets": (*NOT_NUMBER, 0, -1, 2.5, None, 10**9),
    "evaluate.calibration_bins": (*NOT_NUMBER, 0, -1, 2.5, None),
    "evaluate.classes": ("a", 7, [], [["a"]], ["a", "a"], [None], ["a", "b"]),
    "evaluate.class_costs": ("a", {"a": 1}, {"a": {"b": "x"}}, {"a": {"b": 1}}),
    "evaluate.top_k": ("1%", 7, [0], [-1], ["0%"], ["x%"], ["100%"], [None]),
    "evaluate.curve_metrics": ("f1", 7, ["F1"], ["roc_auc"], [7]),
    "evaluate.partial_auc": ("fpr", 7, [[0, 0.1]], [{"fpr": [0.5, 0.1]}], [{"tpr": [0, 2]}], [{"fpr": 7}]),
    "evaluate.confidence": (*NOT_NUMBER, 0, 1, 1.5, -1, None),
    "evaluate.min_group_rows": (*NOT_NUMBER, -1, 2.5, None),
    "evaluate.max_pair_segments": (*NOT_NUMBER, 1, 1000, 2.5, None),
    "evaluate.invalid_rows": ("ignore", 7, None, True),
    "output.path": (*NOT_TEXT, ""),
    "output.format": ("orc", "csv", 7, None, "Parquet"),
    "output.table_prefix": (*NOT_TEXT, ""),
    "output.atomic": ("no", 7, None, "ﬀ"),
    "output.save_counts": ("yes", 7, None),
    "output.retention_days": (*NOT_NUMBER, 0, -1, 2.5, 10**9),
    "output.tables": (*NOT_LIST, [], ["metric"], [7], ["score_counts"]),
}
"""Values that each key does not take."""

TOGETHER: dict[str, dict[str, Any]] = {
    "predictions.table": {"predictions.table": "db.t"},
    "predictions": {"predictions": None},
    "columns": {"columns": None},
    "output": {"output": {}},
    "columns.scores": {"columns.scores": {"rf": "p_rf"}},
    "prediction": {"columns.score": None},
    "output.tables": {"output.tables": ["class_counts", "nonsense"]},
    "table_prefix": {"output.format": "iceberg"},
    "path or table_prefix": {"output.format": "delta", "output.table_prefix": "x"},
    "evaluate.thresholds": {"evaluate.thresholds": ["x", *HUGE]},
    "columns.by": {"columns.by": [*map(str, HUGE), 7]},
    "evaluate.levels": {"evaluate.levels": [["seg", str(i)] for i in range(500)]},
}
"""What does not go together, and lists that are long; by what the message names."""

UNKNOWN = (
    *("evaluate.treshold", "evaluate.levls", "columns.lable", "output.pth", "predictions.filtr", "evalute", "gate"),
    *(
        "evaluate.größe",
        "columns.列",
        "output.🙂",
        "evaluate.",
        "columns. label",
        "output.path\u200b",
        "Evaluate",
        "evaluate.beta\n",
    ),
)
"""Keys that do not exist, some of which look as if they did."""


def changed(changes: dict[str, Any]) -> dict[str, Any]:
    content = copy.deepcopy(GOOD)
    for key, value in changes.items():
        section, _, name = key.partition(".")
        if name or key.endswith("."):
            content[section][name] = value
        else:
            content[section] = value
    return content


def cases() -> list[tuple[str, dict[str, Any]]]:
    """What the message must name, and the config."""
    found = [(key, changed({key: value})) for key, values in WRONG.items() for value in values]
    found += [(name, changed(changes)) for name, changes in TOGETHER.items()]
    found += [(key.partition(".")[2].strip() or key.strip("."), changed({key: 1})) for key in UNKNOWN]
    return found


def test_the_config_that_is_changed_is_good() -> None:
    assert config.parse(GOOD).columns.label == "y"
    braces = r"name RLIKE '^\p{L}{2}' AND day = '{run_date}'"
    globbed = changed({"predictions.filter": braces, "predictions.path": "days/{train,test}/{one}"})
    assert config.parse(globbed).predictions.filter == braces


def test_hundreds_of_bad_configs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    bad = cases()
    assert len(bad) >= 200
    path = tmp_path / "job.yaml"
    wrong = []
    for named, content in bad:
        path.write_text(yaml.safe_dump(content, allow_unicode=True), encoding="utf-8")
        code = cli.main(["evaluate", "--config", str(path), "--run-date", "2026-11-29"])
        printed = capsys.readouterr()
        key = named.rpartition(".")[2] or named
        key = key if key.isprintable() else repr(key)[1:-1]  # what cannot be seen is spelt out
        fine = code == cli.BAD_INPUT and printed.err.count("sparkmetrics: ") == 1 and key in printed.err
        fine = fine and not re.search(r"^  \S*\.(str|int|float|bool)\b", printed.err, re.MULTILINE)  # no type is a key
        if not fine or "Traceback" in printed.err or printed.out or len(printed.err) > 20_000:
            wrong.append((named, str(content)[:300], code, printed.err[-500:]))
    assert not wrong, "\n".join(map(str, wrong))
    assert [found.name for found in tmp_path.iterdir()] == ["job.yaml"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "must have the keys predictions, columns, evaluate, output"),
        ("- a\n- b\n", "must have the keys"),
        ("a: b: c", "is not valid YAML"),
        ("\tpredictions: {}", "is not valid YAML"),
        ("columns: {label: y}\ncolumns: {label: z}", "the key 'columns' comes twice"),
        ("columns: {label: y, label: z}", "the key 'label' comes twice"),
        ("a: 2026-13-45", "is not valid YAML"),
        ("a: " + 3_000 * "[", "is not valid YAML"),
        ("!!int x", "is not valid YAML"),
        ("!!python/object/apply:os.system ['true']", "is not valid YAML"),
    ],
)
def test_files_that_are_no_config(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=said):
        config.load(path)


def test_a_file_that_is_not_text(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_bytes(b"\xff\xfe\x00bad")
    for where in (path, tmp_path, tmp_path / "none.yaml"):
        with pytest.raises(ConfigError, match="Cannot read the config"):
            config.load(where)
