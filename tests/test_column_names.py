"""A hundred horrors of column names, as by, segment, label and score: right numbers, or an error before any work."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import sparkmetrics as sm
from sparkmetrics import predictions, schemas
from sparkmetrics.columns import quote

HORRORS = [
    *(
        "a.b",
        "a.b.c",
        ".",
        "..",
        ".a",
        "a.",
        "a..b",
        "`",
        "``",
        "a`b",
        "`a`",
        "`a`.`b`",
        "a.`b`",
        "'",
        '"',
        "a'b",
        'a"b',
    ),
    *(
        "a b",
        " a",
        "a ",
        " ",
        "\t",
        "a\tb",
        "a\nb",
        "\n",
        "a\rb",
        "\\",
        "a\\b",
        "a\\nb",
        "/",
        "a/b",
        "%",
        "a%20b",
        "%s",
        "a?b",
    ),
    *(
        "{",
        "{}",
        "{run_date}",
        "a{b}c",
        "$",
        "${x}",
        "$1",
        "@",
        "#",
        "&",
        "*",
        "a*b",
        "(",
        "a)b",
        "[0]",
        "a[0]",
        "a['b']",
    ),
    *(
        "=",
        "a=b",
        "a==b",
        ",",
        "a,b",
        ";",
        ":",
        "a:b",
        "|",
        "<",
        ">=",
        "!",
        "~",
        "^",
        "+",
        "-",
        "a-b",
        "--",
        "-- x",
        "/* x */",
    ),
    *("🙂", "größe", "列", "имя", "é", "e\u0301", "\u200b", "a\u00a0b", "İ", "ß", "\u0661", "\u202e"),
    *(
        "select",
        "from",
        "null",
        "true",
        "order",
        "case",
        "date",
        "1",
        "1a",
        "1.5",
        "_",
        "__",
        "___",
        "_metadata",
        "by0",
        "segment0",
    ),
]
"""Names that some part of a pipeline could trip over; two that differ by case are below."""

ROWS = [(1, 0.9), (1, 0.6), (0, 0.6), (0, 0.2), (0, 0.7)]
AUC = 4.5 / 6
"""0.9 beats three; 0.6 beats 0.2, ties with 0.6 and loses to 0.7."""

RESERVED = sorted(schemas.reserved_names())
OTHERS: dict[str, Any] = {
    **{"by": (), "segments": (), "scores": None, "weight": None},
    **{"positive": 1, "reserved": RESERVED},
}


def frame(spark: SparkSession, columns: dict[str, str]) -> DataFrame:
    """The rows with further columns of these names, by expressions of y and p."""
    rows = spark.createDataFrame(ROWS, "`label y` int, `score p` double")
    return rows.select("*", *(F.expr(text).alias(name) for name, text in columns.items()))


def aucs(table: DataFrame, *columns: str) -> list[tuple[object, ...]]:
    found = table.where(F.col("metric") == "roc_auc").select(*map(quote, columns), "value").collect()
    return sorted(map(tuple, found), key=str)


def chunks(names: Sequence[str], size: int) -> list[Sequence[str]]:
    return [names[begin : begin + size] for begin in range(0, len(names), size)]


def test_there_are_a_hundred() -> None:
    assert len(set(HORRORS)) == len({name.lower() for name in HORRORS}) >= 100
    assert not {name.lower() for name in HORRORS} & set(RESERVED)


def test_as_by(spark: SparkSession, tmp_path: Path) -> None:
    wide = frame(spark, {name: f"'v{number}'" for number, name in enumerate(HORRORS)})
    ev = sm.evaluate(wide, by=HORRORS, label="label y", score="score p", metrics=["roc_auc"])
    # Written and read back, as a job does.
    ev.metrics().write.parquet(str(tmp_path / "metrics"))
    metrics = spark.read.parquet(str(tmp_path / "metrics"))
    assert metrics.columns[: len(HORRORS)] == HORRORS
    assert aucs(metrics, *HORRORS) == [(*(f"v{number}" for number in range(len(HORRORS))), AUC)]


@pytest.mark.parametrize("names", chunks(HORRORS, 52))
def test_as_segments(spark: SparkSession, names: Sequence[str]) -> None:
    wide = frame(spark, {name: f"if(`score p` > 0.65, 'high', 'v{number}')" for number, name in enumerate(names)})
    ev = sm.evaluate(
        wide, segments=names, label="label y", score="score p", metrics=["roc_auc"], levels=[[], *([n] for n in names)]
    )
    metrics = ev.metrics()
    assert metrics.columns[1 : len(names) + 1] == list(names)
    found = {row["level"]: 0 for row in metrics.select("level").distinct().collect()}
    assert len(found) == len(names) + 1
    # Of the high scores one is positive: 0.9 beats 0.7. Of the others 0.6 beats 0.2 and ties with 0.6.
    values = {(row[0], row[1]) for row in aucs(metrics, "level")}
    assert {value for level, value in values if level == "total"} == {AUC}
    assert {value for level, value in values if level != "total"} == {1.0, 0.75}
    for number, name in enumerate(names):
        one = metrics.where(F.col(quote(name)) == f"v{number}")
        if number % 26 == 0:  # each costs a job
            assert aucs(one) == [(0.75,)]


def test_as_scores(spark: SparkSession) -> None:
    """Each is a model of a wide table, every other one the wrong way round."""
    wide = frame(spark, {name: "`score p`" if number % 2 else "-`score p`" for number, name in enumerate(HORRORS)})
    ev = sm.evaluate(wide, label="label y", scores={name: name for name in HORRORS}, metrics=["roc_auc"])
    expected = [(name, AUC if number % 2 else 1 - AUC) for number, name in enumerate(HORRORS)]
    assert aucs(ev.metrics(), "model") == sorted(expected, key=str)


@pytest.mark.slow
def test_as_labels(spark: SparkSession) -> None:
    """What is evaluated of a label are the rows that it calls positive: those of the first names, and of the others."""
    wide = frame(spark, {name: "`label y`" if number % 2 else "1 - `label y`" for number, name in enumerate(HORRORS)})
    cleaned = [
        predictions.clean(wide, label=name, score="score p", **OTHERS).good.select(
            F.lit(number).alias("number"), F.col("positive").cast("int").alias("positive")
        )
        for number, name in enumerate(HORRORS)
    ]
    counted = reduce(DataFrame.unionAll, cleaned).groupBy("number").agg(F.sum("positive"), F.count("*")).collect()
    assert {row[0]: tuple(row)[1:] for row in counted} == {
        number: (2 if number % 2 else 3, 5) for number in range(len(HORRORS))
    }


def test_names_of_ours_and_names_that_differ_by_case_are_refused_before_any_work(spark: SparkSession) -> None:
    for name in (*RESERVED[::6], "Value", "RUN_ID", "run_date"):
        with pytest.raises(sm.SchemaError, match="has the name of a column of the results"):
            sm.evaluate(frame(spark, {name: "'x'"}), by=[name], label="label y", score="score p")
    both = frame(spark, {"Model": "'x'", "model": "'y'"})
    for columns, said in (
        ({"by": ["model"]}, "is ambiguous: the table has"),
        ({"weight": "MODEL"}, "Did you mean 'Model'"),
    ):
        with pytest.raises(sm.SchemaError, match=said):
            sm.evaluate(both, label="label y", score="score p", **columns)
    with pytest.raises(sm.SchemaError, match="more than once"):
        sm.evaluate(frame(spark, {"model": "'x'"}), by=["model"], segments=["model"], label="label y", score="score p")
