"""Gates: what passes, fails and cannot be judged, on tables of metrics made by hand."""

from __future__ import annotations

import re
from datetime import date
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import IntegerType, ShortType, StringType
from settings import setting

from sparkmetrics import schemas
from sparkmetrics.columns import Keys
from sparkmetrics.gates import Gate
from sparkmetrics.metrics.intervals import least_difference, quantile, wilson
from sparkmetrics.options import Options
from sparkmetrics.row_kinds import PREDICTION, Source
from sparkmetrics.verdicts import FAILED, NOT_JUDGED, PASSED, gate_table, outcome

RUN_DATE = date(2026, 11, 29)
WEEK_AGO = "2026-11-22"

# Names that the inside uses too, and one that needs every kind of quoting.
ODD = 'a`b."c'
BY, SEX, CLASS = "s0", "b0", ODD
KEYS = Keys((BY,), (SEX, CLASS), (StringType(), StringType(), IntegerType()))
CROSS = 'b0,"a`b.\\"c"'
SOURCE = Source(KEYS, Options.make(KEYS, thresholds=[0.3, 0.5]), scores=True, classes=True)

Row = dict[str, Any]


def total(metric: str, value: float | None, lower: float | None = None, upper: float | None = None, **more: Any) -> Row:
    """A row of the total of model a, of 1000 rows."""
    row = {BY: "a", "level": "total", "metric": metric, "value": value, "lower": lower, "upper": upper, "rows": 1000.0}
    return row | more


def segment(sex: str | None, value: float | None, *limits: float, level: str = SEX, **more: Any) -> Row:
    """The AUC of a segment of model a, of 100 rows."""
    return total("roc_auc", value, *limits) | {"level": level, SEX: sex, "rows": 100.0} | more


AT = {"threshold": 0.5}

TODAY = [
    # Lower limit of the fall from 0.8 [0.77, 0.88]: 0.05 - sqrt(0.03^2 + 0.04^2) = 0.
    total("roc_auc", 0.75, 0.6, 0.79),
    total("roc_auc", 0.7, **{BY: None}),
    # Of the fall from 0.7 [0.66, 0.8]: 0.1 - sqrt(0.04^2 + 0.03^2) = 0.05.
    total("recall", 0.6, 0.5, 0.63, **AT),
    total("recall", 0.9, threshold=0.3),
    total("recall", 0.55),  # of predicted classes
    total("recall", 0.35, average="macro"),
    total("recall", 0.25, **{"class": "x"}),
    # Of the rise from 0.2 [0.15, 0.24]: 0.1 - sqrt(0.03^2 + 0.04^2) = 0.05.
    total("error_rate", 0.3, 0.27, 0.36, **AT),
    total("brier", 0.15),
    total("log_loss", 0.3),
    total("average_precision", 0.9),
    total("fpr", 0.1, **AT),
    total("ks", 0.4, threshold=0.123),
    segment("f", 0.6),
    segment("m", None, reason="no negatives", rows=50.0),
    segment(None, 0.9, 0.85, 0.95),
    segment("new", 0.5, 0.4, 0.6),
    segment("f", 0.61, level=CROSS, **{CLASS: 1}),
    segment("f", 0.62, level=CROSS, **{CLASS: None}),
    segment("m", 0.63, level=CROSS, **{CLASS: 1}),
]
BEFORE = [
    total("roc_auc", 0.8, 0.77, 0.88),
    total("roc_auc", None, reason="no positives", **{BY: None}),
    total("roc_auc", 0.6, **{BY: "gone"}),
    total("recall", 0.7, 0.66, 0.8, **AT),
    total("error_rate", 0.2, 0.15, 0.24, **AT),
    total("brier", 0.12),
    total("log_loss", 0.5),
    total("average_precision", 0.5),
    total("fpr", 0.0, **AT),
    segment("f", 0.7, rows=30.0),
    segment("m", 0.7),
    segment(None, 0.95),
]
LAST_DAYS = {
    1: [total("recall", 0.64, **AT), total("brier", 0.2), segment("f", 0.64)],
    2: [total("recall", 0.66, **AT), total("brier", 0.1), segment("f", None, reason="no positives")],
    3: [total("recall", 0.9, **AT), total("brier", 0.0, rows=10.0)],
}  # and none 4 days ago

Expected = dict[tuple[str | None, str | None, int | None], tuple[str, str | None]]
"""Of a gate: (model, sex, class) -> status, reason."""

OF_A = ("a", None, None)


def fails(reason: str) -> Expected:
    return {OF_A: (FAILED, reason)}


def unjudged(reason: str) -> Expected:
    return {OF_A: (NOT_JUDGED, reason)}


PASSES: Expected = {OF_A: (PASSED, None)}
A: dict[str, Any] = {"by": {BY: "a"}}
WEEK: dict[str, Any] = {"days_ago": 7, **A}
INTERVAL: dict[str, Any] = {"beyond": "interval"}

CASES: dict[str, tuple[dict[str, Any], Expected]] = {
    # --- bounds
    "min of every tuple": (
        {"metric": "roc_auc", "min": 0.75},
        {OF_A: (PASSED, None), (None, None, None): (FAILED, "value 0.7 is below min 0.75")},
    ),
    "max": ({"metric": "error_rate", **AT, "max": 0.25, **A}, fails("value 0.3 is above max 0.25")),
    "max held": ({"metric": "error_rate", **AT, "max": 0.3, **A}, PASSES),
    "min, interval over it": ({"metric": "recall", **AT, "min": 0.62, **INTERVAL, **A}, PASSES),
    "min, interval below": (
        {"metric": "recall", **AT, "min": 0.65, **INTERVAL, **A},
        fails("value 0.6, at most 0.63, is below min 0.65"),
    ),
    "max, interval over it": ({"metric": "error_rate", **AT, "max": 0.28, **INTERVAL, **A}, PASSES),
    "max, interval above": (
        {"metric": "error_rate", **AT, "max": 0.26, **INTERVAL, **A},
        fails("value 0.3, at least 0.27, is above max 0.26"),
    ),
    "both ends": ({"metric": "brier", "min": 0.2, "max": 0.5, **A}, fails("value 0.15 is below min 0.2")),
    # --- which row of a group
    "threshold": ({"metric": "recall", "threshold": 0.3, "min": 0.9, **A}, PASSES),
    "prediction": (
        {"metric": "recall", "threshold": PREDICTION, "min": 0.58, **A},
        fails("value 0.55 is below min 0.58"),
    ),
    "average": ({"metric": "recall", "average": "macro", "min": 0.4, **A}, fails("value 0.35 is below min 0.4")),
    "class": ({"metric": "recall", "class_": "x", "min": 0.3, **A}, fails("value 0.25 is below min 0.3")),
    "threshold where it is reached": ({"metric": "ks", "min": 0.4, **A}, PASSES),
    "absent class": ({"metric": "recall", "class_": "z", "min": 0.3, **A}, unjudged("no class 'z'")),
    "no such row": ({"metric": "mcc", "threshold": 0.3, "min": 0.3, **A}, unjudged("no row of mcc")),
    # --- drops
    "equal but for rounding": ({"metric": "roc_auc", "max_drop": 0.05, **WEEK}, PASSES),  # 0.8 - 0.75 > 0.05
    "fall": (
        {"metric": "recall", **AT, "max_drop": 0.09, **WEEK},
        fails(f"value 0.6 is worse than 0.7 on {WEEK_AGO} by 0.1, more than max_drop 0.09"),
    ),
    "rise where low is good": (
        {"metric": "brier", "max_drop": 0.02, **WEEK},
        fails(f"value 0.15 is worse than 0.12 on {WEEK_AGO} by 0.03, more than max_drop 0.02"),
    ),
    "fall where low is good": ({"metric": "log_loss", "max_drop": 0.0, **WEEK}, PASSES),
    "rise where high is good": ({"metric": "average_precision", "max_drop": 0.0, **WEEK}, PASSES),
    "of every tuple": (
        {"metric": "roc_auc", "max_drop": 0.06, "days_ago": 7},
        {
            OF_A: (PASSED, None),
            (None, None, None): (NOT_JUDGED, f"undefined on {WEEK_AGO}: no positives"),
            ("gone", None, None): (NOT_JUDGED, f"only in the results of {WEEK_AGO}"),
        },
    ),
    "noise": ({"metric": "roc_auc", **INTERVAL, **WEEK}, PASSES),
    "fall beyond noise": (
        {"metric": "recall", **AT, "max_drop": 0.04, **INTERVAL, **WEEK},
        fails(f"value 0.6 is worse than 0.7 on {WEEK_AGO} by 0.1, at least 0.05, more than max_drop 0.04"),
    ),
    "rise beyond noise": (
        {"metric": "error_rate", **AT, "max_drop": 0.04, **INTERVAL, **WEEK},
        fails(f"value 0.3 is worse than 0.2 on {WEEK_AGO} by 0.1, at least 0.05, more than max_drop 0.04"),
    ),
    "fall within noise": ({"metric": "recall", **AT, "max_drop": 0.06, **INTERVAL, **WEEK}, PASSES),
    "rise within noise": ({"metric": "error_rate", **AT, "max_drop": 0.06, **INTERVAL, **WEEK}, PASSES),
    # --- ratios
    "min_ratio": (
        {"metric": "recall", **AT, "min_ratio": 0.9, **WEEK},
        fails(f"value 0.6 is 0.857142857 of 0.7 on {WEEK_AGO}, below min_ratio 0.9"),
    ),
    "max_ratio": (
        {"metric": "brier", "min_ratio": 0.9, "max_ratio": 1.2, **WEEK},
        fails(f"value 0.15 is 1.25 of 0.12 on {WEEK_AGO}, above max_ratio 1.2"),
    ),
    "ratios held": ({"metric": "brier", "min_ratio": 0.9, "max_ratio": 1.25, **WEEK}, PASSES),
    "ratio to 0": ({"metric": "fpr", **AT, "max_ratio": 1.2, **WEEK}, unjudged("the reference is 0")),
    # --- medians: of 0.64, 0.66 and 0.9; its lower limit of the fall is 0.06 - 0.03
    "median": (
        {"metric": "recall", **AT, "max_drop": 0.05, "median_of": 4, **A},
        fails("value 0.6 is worse than 0.66 (median of the last 4 days) by 0.06, more than max_drop 0.05"),
    ),
    "median beyond noise": (
        {"metric": "recall", **AT, "max_drop": 0.02, "median_of": 3, **INTERVAL, **A},
        fails(
            "value 0.6 is worse than 0.66 (median of the last 3 days) by 0.06, at least 0.03, more than max_drop 0.02"
        ),
    ),
    "median within noise": ({"metric": "recall", **AT, "max_drop": 0.04, "median_of": 3, **INTERVAL, **A}, PASSES),
    # 0.15 is the median of 0.2 and 0.1; the day of 10 rows, 0.0, is left out.
    "median of days with rows": ({"metric": "brier", "max_drop": 0.0, "median_of": 3, "min_rows": 11, **A}, PASSES),
    # --- references that are not there
    "no results": (
        {"metric": "roc_auc", "max_drop": 0.1, "days_ago": 20, **A},
        unjudged("no results of 2026-11-09"),
    ),
    "other keys": (
        {"metric": "roc_auc", "max_drop": 0.1, "days_ago": 10, **A},
        unjudged("the results of 2026-11-19 have other key columns"),
    ),
    "failed all the same": (
        {"metric": "roc_auc", "min": 0.9, "max_drop": 0.1, "days_ago": 20, **A},
        fails("value 0.75 is below min 0.9; no results of 2026-11-09"),
    ),
    # --- segments
    "every segment": (
        {"metric": "roc_auc", "level": SEX, "min": 0.8, "min_rows": 51, **A},
        {
            ("a", "f", None): (FAILED, "value 0.6 is below min 0.8"),
            ("a", "m", None): (NOT_JUDGED, "fewer than 51 rows (50)"),
            OF_A: (PASSED, None),
            ("a", "new", None): (FAILED, "value 0.5 is below min 0.8"),
        },
    ),
    "segments of a week ago": (
        {"metric": "roc_auc", "level": SEX, "max_drop": 0.2, "min_rows": 50, **INTERVAL, **WEEK},
        {
            ("a", "f", None): (NOT_JUDGED, f"fewer than 50 rows (30) on {WEEK_AGO}; no interval"),
            ("a", "m", None): (NOT_JUDGED, "undefined: no negatives"),
            OF_A: (NOT_JUDGED, f"no interval on {WEEK_AGO}"),
            ("a", "new", None): (NOT_JUDGED, f"not in the results of {WEEK_AGO}"),
        },
    ),
    "median of too few": (
        {"metric": "roc_auc", "level": SEX, "segments": {SEX: "f"}, "max_drop": 0.1, "median_of": 4, **A},
        {("a", "f", None): (NOT_JUDGED, "a value on fewer than 2 of the last 4 days (1)")},
    ),
    "the NULL segment": (
        {"metric": "roc_auc", "level": SEX, "segments": {SEX: None}, "min": 0.95, **A},
        fails("value 0.9 is below min 0.95"),
    ),
    "no such segment": (
        {"metric": "roc_auc", "level": SEX, "segments": {SEX: "zz"}, "min": 0.5},
        {(model, "zz", None): (NOT_JUDGED, "no such segment") for model in ("a", None)},
    ),
    "segment of one tuple": (
        {"metric": "roc_auc", "level": SEX, "segments": {SEX: "new"}, "min": 0.5},
        {("a", "new", None): (PASSED, None), (None, "new", None): (NOT_JUDGED, "no such segment")},
    ),
    "one column of two": (
        {"metric": "roc_auc", "level": CROSS, "segments": {SEX: "f"}, "min": 0.615, **A},
        {("a", "f", 1): (FAILED, "value 0.61 is below min 0.615"), ("a", "f", None): (PASSED, None)},
    ),
    "a number": (
        {"metric": "roc_auc", "level": CROSS, "segments": {CLASS: 1, SEX: "m"}, "min": 0.5, **A},
        {("a", "m", 1): (PASSED, None)},
    ),
    "no such tuple": (
        {"metric": "roc_auc", "level": SEX, "by": {BY: "zz"}, "segments": {SEX: "f"}, "min": 0.5},
        {("zz", "f", None): (NOT_JUDGED, "no such by tuple")},
    ),
}


def metrics_of(spark: SparkSession, rows: list[Row], keys: Keys = KEYS) -> DataFrame:
    """A table `metrics`."""
    schema = schemas.result_table(keys, schemas.METRICS)
    return spark.createDataFrame([tuple(row.get(name) for name in schema.names) for row in rows], schema)


@pytest.fixture(scope="module")
def asked() -> list[date]:
    """The days that were looked for."""
    return []


@pytest.fixture(scope="module")
def table(spark: SparkSession, asked: list[date]) -> DataFrame:
    """What all gates say, in one plan, brought together once."""
    days = {7: BEFORE, 10: BEFORE, **LAST_DAYS}

    def past(day: date) -> DataFrame | None:
        asked.append(day)
        ago = (RUN_DATE - day).days
        # Integers of another width are the same keys.
        kind = {10: StringType(), 7: ShortType()}.get(ago, IntegerType())
        keys = Keys((BY,), (SEX, CLASS), (StringType(), StringType(), kind))
        return metrics_of(spark, days[ago], keys) if ago in days else None

    gates = [Gate.make(SOURCE, name=name, **arguments) for name, (arguments, _) in CASES.items()]
    made = gate_table(metrics_of(spark, TODAY), KEYS, gates, past, RUN_DATE)
    return spark.createDataFrame(made.collect(), made.schema)


@pytest.fixture(scope="module")
def found(table: DataFrame) -> dict[str, dict[tuple[Any, ...], Row]]:
    by_gate: dict[str, dict[tuple[Any, ...], Row]] = {}
    for row in table.collect():
        group = (row[BY], row[SEX], row[CLASS])
        assert group not in by_gate.setdefault(row["gate"], {}), row
        by_gate[row["gate"]][group] = row.asDict()
    return by_gate


def rounded(reason: str | None) -> str | None:
    """A reason with its decimals to nine places."""
    return reason and re.sub(r"\d+\.\d+", lambda number: str(round(float(number[0]), 9)), reason)


@pytest.mark.parametrize("name", CASES)
def test_a_gate_says(found: dict[str, dict[tuple[Any, ...], Row]], name: str) -> None:
    arguments, expected = CASES[name]
    assert {group: (row["status"], rounded(row["reason"])) for group, row in found[name].items()} == expected
    for row in found[name].values():
        assert (row["level"], row["metric"]) == (arguments.get("level", "total"), arguments["metric"])
        assert (row["average"], row["class"]) == (arguments.get("average"), arguments.get("class_"))


def test_the_table_shows_what_was_judged(table: DataFrame, found: dict[str, dict[tuple[Any, ...], Row]]) -> None:
    expected = schemas.result_table(KEYS, schemas.GATES).fields[:-1]
    assert [(f.name, f.dataType) for f in table.schema] == [(f.name, f.dataType) for f in expected]
    numbers = ("threshold", "value", "lower", "upper", "reference", "rows")

    def shown(name: str, *group: Any) -> tuple[Any, ...]:
        row = found[name][group or OF_A]
        return tuple(row[number] for number in numbers)

    assert shown("fall beyond noise") == (0.5, 0.6, 0.5, 0.63, 0.7, 1000.0)
    assert shown("threshold where it is reached") == (0.123, 0.4, None, None, None, 1000.0)
    assert shown("median") == (0.5, 0.6, 0.5, 0.63, 0.66, 1000.0)
    assert shown("of every tuple", "gone", None, None) == (None, None, None, None, 0.6, None)
    assert shown("no such row") == (0.3, None, None, None, None, None)


def test_each_day_of_a_reference_is_read_once(found: object, asked: list[date]) -> None:
    assert [(RUN_DATE - day).days for day in asked] == [1, 2, 3, 4, 7, 10, 20]


def test_outcome_counts_and_tells_in_one_action(table: DataFrame) -> None:
    failed, not_judged, lines = outcome(table)
    statuses = [status for _, expected in CASES.values() for status, _ in expected.values()]
    assert (failed, not_judged) == (statuses.count(FAILED), statuses.count(NOT_JUDGED))
    assert len(lines) == 20
    assert lines == sorted(lines)
    _, _, lines = outcome(table.where("gate in ('every segment', 'one column of two', 'the NULL segment', 'max')"))
    assert lines == [
        "every segment [s0=a, b0=f]: value 0.6 is below min 0.8",
        "every segment [s0=a, b0=new]: value 0.5 is below min 0.8",
        "max [s0=a]: value 0.3 is above max 0.25",
        'one column of two [s0=a, b0=f, a`b."c=1]: value 0.61 is below min 0.615',
        "the NULL segment [s0=a, b0=NULL]: value 0.9 is below min 0.95",
    ]


def test_without_keys_and_without_results(spark: SparkSession) -> None:
    keys = Keys((), ())
    source = Source(keys, Options.make(keys))
    gates = [Gate.make(source, metric="ks", min=0.5), Gate.make(source, metric="roc_auc", min=0.5)]
    some = metrics_of(spark, [total("ks", 0.4)], keys)
    judged = gate_table(some, keys, gates, lambda day: None, RUN_DATE)
    judged = spark.createDataFrame(judged.collect(), judged.schema)
    nothing = gate_table(some.limit(0), keys, gates[:1], lambda day: None, RUN_DATE)
    assert outcome(judged) == (1, 1, ["ks, total, min 0.5 [total]: value 0.4 is below min 0.5"])
    assert [(row["status"], row["reason"]) for row in nothing.collect()] == [(NOT_JUDGED, "no results")]


def test_an_interval_of_no_width_is_certain_only_of_many_rows(spark: SparkSession) -> None:
    keys = Keys((BY,), (), (StringType(),))
    source, flat = Source(keys, Options.make(keys)), {"few": 3.0, "many": 3000.0}
    perfect = [total("roc_auc", 1.0, 1.0, 1.0, **{BY: k, "positives": 9e6, "negatives": n}) for k, n in flat.items()]
    fallen = [total("roc_auc", 0.8, 0.75, 0.84, **{BY: name, "rows": 1e6}) for name in flat]
    constant = [total("gini", 0.0, 0.0, 0.0, **{BY: k, "positives": n, "negatives": 9e6}) for k, n in flat.items()]
    gates = [
        Gate.make(source, name="fall", metric="roc_auc", days_ago=1, beyond="interval"),
        Gate.make(source, name="constant", metric="gini", min=0.4, beyond="interval"),
        Gate.make(source, name="held", metric="gini", max=0.4, beyond="interval"),
    ]
    judged = gate_table(
        metrics_of(spark, fallen + constant, keys), keys, gates, lambda day: metrics_of(spark, perfect, keys), RUN_DATE
    )
    found = {(row["gate"], row[BY]): row for row in judged.collect()}
    statuses = {where: row["status"] for where, row in found.items()}
    certain = {("fall", "many"): FAILED, ("constant", "many"): FAILED}
    assert statuses == {(gate.name, name): PASSED for gate in gates for name in flat} | certain
    highest = 2.0 * wilson(0.5, 3000.0, quantile(0.95))[1] - 1.0
    assert rounded(found["constant", "many"]["reason"]) == rounded(f"value 0.0, at most {highest}, is below min 0.4")
    assert (found["constant", "many"]["lower"], found["constant", "many"]["upper"]) == (0.0, 0.0)


@pytest.mark.usefixtures("compiled")
def test_what_is_judged_is_within_what_spark_can_compile(spark: SparkSession) -> None:
    """Beyond that it interprets the plan, and fills the log with what it could not compile: here it is an error."""
    gates = [Gate.make(SOURCE, metric="roc_auc", **WEEK, **INTERVAL), Gate.make(SOURCE, metric="recall", **AT, min=0.5)]
    judged = gate_table(metrics_of(spark, TODAY), KEYS, gates, lambda day: metrics_of(spark, BEFORE), RUN_DATE)
    with setting(spark, "spark.sql.codegen.fallback", "false"):
        assert {row["status"] for row in judged.collect()} == {PASSED, NOT_JUDGED}


def test_the_limit_of_a_difference_is_newcombes() -> None:
    # 56 of 70 against 48 of 80: 0.0524, Newcombe 1998, table II (a), method 10.
    z = quantile(0.95)
    limit = least_difference(0.8, wilson(0.8, 70, z)[0], 0.6, wilson(0.6, 80, z)[1])
    assert limit == pytest.approx(0.0524, rel=0, abs=5e-5)
