"""Gates of a config: what is refused, what the documented ones mean, and that they fit the table of metrics."""

from __future__ import annotations

import copy
import re
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    IntegerType,
    StringType,
    TimestampType,
)

import sparkmetrics as sm
from sparkmetrics import config
from sparkmetrics.columns import Keys
from sparkmetrics.gates import Gate, check_values
from sparkmetrics.key_values import key_text
from sparkmetrics.metrics.known import known_metrics
from sparkmetrics.options import Options
from sparkmetrics.row_kinds import PREDICTION, Kind, Source, row_kinds

# --- values of key columns

VALUES: list[tuple[Any, str]] = [
    ("007", "string"),
    (True, "boolean"),
    (-128, "tinyint"),
    (9223372036854775807, "bigint"),
    (0.7, "float"),
    (float("nan"), "double"),
    (1, "double"),
    (12.5, "decimal(5,2)"),
    (date(2026, 11, 29), "date"),
    ("2026-11-29", "date"),
    (datetime(2026, 11, 29, 1, 2, 3), "timestamp"),
    ("2026-11-29 01:02:03", "timestamp_ntz"),
    (None, "binary"),
]


def test_a_value_of_a_config_is_that_of_its_column(spark: SparkSession) -> None:
    text = {datetime(2026, 11, 29, 1, 2, 3): "2026-11-29 01:02:03"}
    columns = [
        F.lit(None if value is None else str(text.get(value, value))).cast(kind).alias(f"c{i}")
        for i, (value, kind) in enumerate(VALUES)
    ]
    row = spark.range(1).select(*columns)
    kinds = {field.name: field.dataType for field in row.schema}
    same = [
        F.col(f"c{i}").eqNullSafe(F.lit(key_text(value, kinds[f"c{i}"], "")).cast(kinds[f"c{i}"]))
        for i, (value, _) in enumerate(VALUES)
    ]
    assert set(row.select(*same).collect()[0]) == {True}


UNFIT: list[tuple[Any, DataType]] = [
    (7, StringType()),
    (False, StringType()),
    ("1", IntegerType()),
    (True, IntegerType()),
    (2**31, IntegerType()),
    (1.0, IntegerType()),
    (12.345, DecimalType(5, 2)),
    (1000, DecimalType(5, 2)),
    ("1 May", DateType()),
    (datetime(2026, 11, 29), DateType()),
    (1, TimestampType()),
    ("x", BinaryType()),
    (1, BooleanType()),
]


@pytest.mark.parametrize(("value", "kind"), UNFIT)
def test_a_value_that_no_row_can_have_is_refused(value: Any, kind: DataType) -> None:
    keys = Keys(("model",), (), (kind,))
    gate = Gate.make(Source(keys, Options.make(keys)), metric="roc_auc", min=0.5, by={"model": value})
    with pytest.raises(sm.ConfigError, match=rf"gates\.0\.by\.model: .* is no {re.escape(kind.simpleString())}"):
        check_values([gate], keys)


# --- configs

BASE: dict[str, Any] = {
    "predictions": {"path": "data"},
    "columns": {"by": ["model"], "segments": ["country", "device"], "label": "y", "score": "s"},
    "output": {"path": "results"},
}


def with_gates(*gates: Any, **changes: dict[str, Any]) -> dict[str, Any]:
    content = copy.deepcopy(BASE) | {"gates": list(gates)}
    for section, keys in changes.items():
        content[section] = {**content.get(section, {}), **keys}
    return content


AUC = {"metric": "roc_auc", "min": 0.7}
DROP = {"metric": "roc_auc", "max_drop": 0.1}
CLASSES = {"score": None, "probabilities": "p"}

BAD: list[tuple[dict[str, Any], str]] = [
    (with_gates({"metrci": "roc_auc", "min": 0.7}), "gates.0.metrci: unknown key; did you mean 'metric'?"),
    (with_gates(AUC, {**AUC, "clas": 1}), "gates.1.clas: unknown key; did you mean 'class'?"),
    (with_gates({**AUC, "min": "x"}), "gates.0.min: Input should be a valid number, found 'x'"),
    (with_gates({**AUC, "metric": "auc"}), "gates.0.metric: there is no 'auc' in this evaluation"),
    (with_gates({**AUC, "metric": "fbeta_2"}), "gates.0.metric: there is no 'fbeta_2' in this evaluation"),
    (with_gates(AUC, evaluate={"metrics": ["ks"]}), "gates.0.metric: 'roc_auc' is not among evaluate.metrics"),
    (with_gates(AUC, columns={"score": None, "prediction": "p"}), "gates.0.metric: 'roc_auc' cannot be had"),
    (with_gates(AUC, columns=CLASSES), "say which. average macro; average micro; average weighted"),
    (with_gates({**AUC, "average": "macro"}), "gates.0.metric: 'roc_auc' has no row with average macro"),
    (with_gates({**AUC, "class": [1]}, columns=CLASSES), "gates.0.class: a class is a string, a number or a boolean"),
    (
        with_gates({**AUC, "class": "z"}, columns=CLASSES, evaluate={"classes": ["a", "b"]}),
        "gates.0.class: 'z' is not among evaluate.classes: 'a', 'b'",
    ),
    (
        with_gates({"metric": "recall", "min": 0.5}, evaluate={"thresholds": [0.3, 0.5]}),
        "gates.0.metric: 'recall' has more than one row in a group: say which. threshold 0.3; threshold 0.5",
    ),
    (with_gates({"metric": "recall", "min": 0.5, "threshold": 0.4}), "gates.0.metric: 'recall' has no row with thresh"),
    (with_gates({**AUC, "threshold": 0.5}), "gates.0.metric: 'roc_auc' has no row with threshold 0.5"),
    (with_gates({**AUC, "level": "countri"}), "gates.0.level: 'countri' is not evaluated. Levels are: 'total', 'cou"),
    (with_gates({**AUC, "level": "device"}, evaluate={"levels": "total"}), "gates.0.level: 'device' is not evaluated"),
    (
        with_gates({**AUC, "level": "country", "segments": {"device": "x"}}),
        "gates.0.segments.device: 'device' is not a segment column of level 'country'. These are: 'country'",
    ),
    (with_gates({**AUC, "by": {"modl": "x"}}), "gates.0.by.modl: 'modl' is not a by column. These are: 'model'"),
    (with_gates({**AUC, "by": {"model": [1]}}), "gates.0.by.model: a value is a string, number, boolean, date or null"),
    (with_gates({"metric": "roc_auc"}), "gates.0.metric: the gate has no bound"),
    (with_gates({**AUC, "min": 70}), "gates.0.min: roc_auc is 0 to 1, found 70.0"),
    (with_gates({"metric": "brier", "max": 1.5}), "gates.0.max: brier is 0 to 1, found 1.5"),
    (with_gates({"metric": "brier", "max": 2.5}, columns=CLASSES), "gates.0.max: brier is 0 to 2, found 2.5"),
    (with_gates({**AUC, "min": float("nan")}), "gates.0.min: must be a finite number"),
    (with_gates({**AUC, "max": 0.6}), "gates.0.min: is 0.7, above max 0.6"),
    (with_gates(DROP), "gates.0.max_drop: compares with earlier days: give days_ago or median_of"),
    (with_gates({**DROP, "days_ago": 0}), "gates.0.days_ago: must be a number of days, 1 to 3,650, found 0"),
    (with_gates({**DROP, "median_of": 1000}), "gates.0.median_of: must be a number of days, 1 to 366, found 1000"),
    (with_gates({**DROP, "days_ago": 1, "median_of": 2}), "gates.0.days_ago: give either days_ago or median_of"),
    (with_gates({**AUC, "days_ago": 7}), "gates.0.days_ago: nothing is compared with it"),
    (with_gates({**DROP, "max_drop": 5, "days_ago": 1}), "gates.0.max_drop: a drop of roc_auc is at least 0 and below"),
    (
        with_gates({"metric": "prevalence", "max_drop": 0.1, "days_ago": 1}),
        "gates.0.max_drop: neither end of prevalence is good",
    ),
    (with_gates({"metric": "mcc", "min_ratio": 0.9, "days_ago": 1}), "gates.0.min_ratio: mcc can be negative"),
    (with_gates({"metric": "recall", "min_ratio": 0, "days_ago": 1}), "gates.0.min_ratio: must be above 0"),
    (with_gates({"metric": "f1", "min": 0.5, "beyond": "interval"}), "gates.0.beyond: f1 has no interval here"),
    (
        with_gates({"metric": "recall", "min_ratio": 0.9, "days_ago": 1, "beyond": "interval"}),
        "gates.0.beyond: intervals go with min, max and max_drop; make min_ratio a gate of its own",
    ),
    (with_gates({**AUC, "beyond": "noise"}), "gates.0.beyond: Input should be 'interval', found 'noise'"),
    (with_gates({**AUC, "name": ""}), "gates.0.name: must not be empty"),
    (with_gates({**AUC, "min_rows": -1}), "gates.0.min_rows: must be a number of rows"),
    (with_gates(AUC, {**AUC, "by": {}}), "gates.1.name: 'roc_auc, total, min 0.7' is also the name of gates.0"),
    (with_gates(AUC, output={"tables": ["curves"]}), "output.tables: gates judge the table 'metrics'"),
    (with_gates(AUC, columns={"segments": ["Status"]}), "gates: the key column 'Status' has the name of a column"),
]


@pytest.mark.parametrize(("content", "message"), BAD)
def test_what_can_never_judge_is_an_error_that_names_its_key(content: dict[str, Any], message: str) -> None:
    with pytest.raises(sm.ConfigError) as error:
        config.parse(content)
    assert message in str(error.value)


def test_unchecked_configs_and_arguments_are_checked_too() -> None:
    with pytest.raises(sm.ConfigError, match="there is no 'auc' in this evaluation"):
        config.gates_of(config.Config.model_validate(with_gates({**AUC, "metric": "auc"})))
    keys = Keys((), ())
    with pytest.raises(sm.ConfigError, match="beyond: must be 'interval' or null, found 'noise'"):
        Gate.make(Source(keys, Options.make(keys)), metric="roc_auc", min=0.5, beyond="noise")


def test_the_documented_gates_are_valid() -> None:
    page = (Path(__file__).parents[1] / "docs" / "gates.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```yaml\n(.*?)```", page, flags=re.DOTALL)
    job = config.parse(BASE | yaml.safe_load(block))
    first, second, third, fourth = config.gates_of(job)
    assert first.name == "roc_auc, total, min 0.7"
    assert (second.name, second.segments, second.threshold) == ("recall of phones", {"device": "phone"}, 0.5)
    assert (third.max_drop, list(third.days), third.interval, third.best) == (0.02, [7], True, "highest")
    assert (list(fourth.days), fourth.days_needed, fourth.max_drop) == (list(range(1, 15)), 7, None)
    assert len(job.sha256()) == 64


def test_models_of_a_wide_table_are_a_by_column() -> None:
    columns = {"by": [], "score": None, "scores": {"rf": "p"}}
    (gate,) = config.gates_of(config.parse(with_gates({**AUC, "by": {"model": "rf"}}, columns=columns)))
    assert gate.name == "roc_auc, total, model=rf, min 0.7"


# --- which rows a metric has


def test_the_rows_that_gates_know_of_are_those_of_the_table(spark: SparkSession) -> None:
    rows = [(i % 3, i % 2, 0.1 * i, [0.1 * i, 0.5 - 0.05 * i, 0.5 - 0.05 * i]) for i in range(10)]
    frame = spark.createDataFrame(rows, "k int, y int, s double, p array<double>")
    both = {"thresholds": [0.3, 0.5], "payoffs": {"tp": 1}, "top_k": [1], "partial_auc": [{"fpr": [0, 0.5]}]}
    of_scores = sm.evaluate(frame, label="y", score="s", prediction="y", **both)
    of_classes = sm.evaluate(frame, label="k", probabilities="p", classes=[0, 1, 2], top_k=[1])
    two = Kind(None, False, PREDICTION)
    for ev, scores in ((of_scores, True), (of_classes, False)):
        source = Source(ev.states.keys, ev.options, scores, classes=True, probabilities=not scores)
        known = {metric: row_kinds(source, metric) for metric in known_metrics(ev.options.parameters)}
        found: dict[str, dict[Kind, bool]] = {}
        for row in ev.metrics().collect():
            kinds = found.setdefault(row["metric"], {})
            cut: float | str | None = PREDICTION if row["threshold"] is None else row["threshold"]
            if all(kind.threshold is None for kind in known[row["metric"]]):
                cut = None  # where its value is reached, or nowhere
            kind = Kind(row["average"], row["class"] is not None, cut)
            kinds[kind] = kinds.get(kind, False) or row["lower"] is not None
        for metric, kinds in known.items():
            # The row of the positive class is there where there are two classes, which the data says.
            absent = {two} if not scores and two not in found.get(metric, {}) else set()
            assert found.get(metric, {}) == {kind: kinds[kind][1] for kind in kinds if kind not in absent}, metric
