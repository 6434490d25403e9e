"""Files that workers read themselves: what Spark reads, bit for bit, or Spark reads them and says why."""

from __future__ import annotations

import logging
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from results import assert_same_bits, tables

import sparkmetrics as sm
from sparkmetrics.columns import quote

WANTED = ("metrics", "confusion", "curves", "segment_auc")
COLUMNS: dict[str, Any] = {"by": ["model"], "segments": ["seg"], "label": "y", "score": "p"}


def rows(size: int, seed: int = 0) -> pa.Table:
    """Predictions with ties, a null segment, both zeros and infinite scores."""
    draw = np.random.default_rng(seed)
    score = np.where(draw.random(size) < 0.3, draw.integers(0, 5, size) / 4.0, draw.random(size))
    score[: min(size, 4)] = [-0.0, 0.0, np.inf, -np.inf][:size]
    segments = [None if i == 3 else "é" * i for i in draw.integers(0, 5, size)]
    return pa.table(
        {
            "model": pa.array([f"m{i}" for i in draw.integers(0, 2, size)]),
            "seg": pa.array(segments, pa.string()),
            "y": pa.array(draw.integers(0, 2, size), pa.int32()),
            "p": pa.array(score),
            "w": pa.array(draw.integers(0, 4, size) / 2.0),
        }
    )


def write(folder: Path, name: str, table: pa.Table, **options: Any) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, **options)
    return path


def with_column(table: pa.Table, name: str, values: Any) -> pa.Table:
    return table.set_column(table.column_names.index(name), name, values)


def states_of(evaluation: sm.Evaluation) -> dict[str, pa.Table]:
    """The weights of every distinct score in every group: all that was read."""
    scores = evaluation.states.scores
    assert scores is not None
    keys, lists = scores.keys.names, ("score", "pos", "neg")
    read = scores.frame.select(*map(quote, (*keys, *lists))).toArrow().combine_chunks()
    apart = read.select(list(keys)).take(pc.list_parent_indices(read["score"].combine_chunks()))
    for name in lists:
        apart = apart.append_column(name, pc.list_flatten(read[name]))
    return {"score_counts": apart.sort_by([(key, "ascending") for key in (*keys, "score")])}


def both(
    spark: SparkSession, path: Path, wanted: tuple[str, ...] = (), **changes: Any
) -> tuple[sm.Evaluation, sm.Evaluation]:
    """The evaluations of both readers, after what they read, and the wanted tables, were compared."""
    arguments = {**COLUMNS, "curve_points": None, **changes}
    direct, through_spark = (
        sm.evaluate_path(spark, str(path), reader=reader, **arguments) for reader in ("arrow", "spark")
    )
    assert_same_bits(states_of(direct), states_of(through_spark))
    if wanted:
        assert_same_bits(tables(direct, wanted), tables(through_spark, wanted))
    assert direct.states.row_counts == through_spark.states.row_counts
    return direct, through_spark


def test_a_folder_of_awkward_files(spark: SparkSession, tmp_path: Path) -> None:
    table = rows(3_000)
    write(tmp_path, "a b%20c.parquet", table.slice(0, 1_000), row_group_size=170)
    write(tmp_path, "empty.parquet", table.slice(0, 0))
    write(tmp_path, "plain.parquet", table.slice(1_000, 1_000), use_dictionary=False, compression="zstd")
    large = with_column(table.slice(2_000, 990), "seg", table.slice(2_000, 990)["seg"].cast(pa.large_string()))
    write(tmp_path, "large.parquet", large, data_page_version="2.0")
    coded = with_column(table.slice(2_990), "seg", table.slice(2_990)["seg"].combine_chunks().dictionary_encode())
    write(tmp_path, "coded.parquet", coded)
    pq.write_metadata(table.schema, tmp_path / "_metadata")
    (tmp_path / "_hidden.parquet").write_text("not a Parquet file")
    (tmp_path / ".hidden.parquet").write_text("neither")
    direct, _ = both(spark, tmp_path, WANTED, metrics=["roc_auc", "ks", "brier", "recall"])
    assert direct.states.row_counts is not None
    assert direct.states.row_counts.read == 3_000


@pytest.mark.parametrize(
    ("label", "positive", "score"),
    [
        (pa.bool_(), True, pa.float32()),
        (pa.int8(), 1, pa.bool_()),
        (pa.int16(), "1", pa.int16()),
        (pa.float32(), 1.0, pa.int8()),
        (pa.float64(), 0, pa.int32()),
    ],
)
def test_types_of_labels_and_scores(
    spark: SparkSession, tmp_path: Path, label: pa.DataType, positive: Any, score: pa.DataType
) -> None:
    table = rows(60)
    narrow = pa.array(np.linspace(0.1, 3.9, 60), pa.float32())
    scores = narrow if score == pa.float32() else narrow.cast(pa.int8(), safe=False).cast(score)
    table = with_column(with_column(table, "y", table["y"].cast(label)), "p", scores)
    write(tmp_path, "a.parquet", table)
    both(spark, tmp_path, positive=positive)


def test_keys_of_every_type_with_nulls(spark: SparkSession, tmp_path: Path) -> None:
    kinds: dict[str, pa.DataType] = {"i8": pa.int8(), "i16": pa.int16(), "i32": pa.int32(), "i64": pa.int64()}
    table = rows(200)
    numbers = np.random.default_rng(1).integers(-3, 3, 200)
    nullable = pa.array([None if n == 2 else int(n) for n in numbers])
    for name, kind in kinds.items():
        table = table.append_column(name, nullable.cast(kind))
    table = table.append_column("flag", pa.array([None if n == 2 else bool(n % 2) for n in numbers]))
    days = [None if n == 2 else date(2026, 11, 20 + int(n)) for n in numbers]
    table = table.append_column("day", pa.array(days, pa.date32()))
    table = table.append_column("text", pa.array([None if n == 2 else str(n) for n in numbers]))
    write(tmp_path, "a.parquet", table.slice(0, 90))
    write(tmp_path, "b.parquet", table.slice(90))
    both(spark, tmp_path, by=["day", "i64"], segments=["i8", "i16", "i32", "flag", "text"], levels=["each", "total"])


def partitioned(folder: Path) -> Path:
    table, days = rows(400), ("2026-11-28", "2026-11-29", "__HIVE_DEFAULT_PARTITION__")
    for number, day in enumerate(days):
        for model in ("a%2Fb", "c d", "1", "Z%C3%BCrich", "(é"):
            part = table.slice(number * 100 + len(model), 60 + len(model)).drop(["model"])
            write(folder, f"day={day}/model={model}/file=0{len(model)}/x.parquet", part, row_group_size=25)
    return folder


@pytest.mark.parametrize(
    "condition",
    [
        None,
        "day = '2026-11-29'",
        "day >= DATE'2026-11-29' and file in (1, 3)",
        "(day is null or not day > '2026-11-28') and model <> '1'",
        "model IN ('1', '(é') OR file BETWEEN 5 and 6",
    ],
)
def test_partition_columns(spark: SparkSession, tmp_path: Path, condition: str | None) -> None:
    path = partitioned(tmp_path)
    direct, _ = both(spark, path, by=["day", "file"], segments=["seg", "model"], levels=["each"], filter=condition)
    assert direct.states.row_counts is not None
    found = set(states_of(direct)["score_counts"]["model"].to_pylist())
    assert found <= {None, "a/b", "c d", "1", "ZÃ¼rich", "(é"}  # Spark takes each byte of %C3%BC for a character


def test_odd_names(spark: SparkSession, tmp_path: Path) -> None:
    names = ["m`o d", "s'é=1", 'y,"y', "select", "w"]
    write(tmp_path, "a.parquet", rows(200).rename_columns(names))
    both(spark, tmp_path, by=names[:1], segments=names[1:2], label=names[2], score=names[3])


def test_weights_agree(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path, "a.parquet", rows(500), row_group_size=100)
    both(spark, tmp_path, ("confusion",), weight="w")  # halves add up exactly


def test_bad_rows_are_counted_alike(spark: SparkSession, tmp_path: Path) -> None:
    size = 40
    table = rows(size)
    label = pa.array([None if i % 7 == 0 else float(i % 2) for i in range(size)])
    score = pa.array([None if i % 5 == 0 else (float("nan") if i % 11 == 0 else i / size) for i in range(size)])
    weight = pa.array([None if i % 13 == 0 else (float("nan") if i == 8 else 1.0) for i in range(size)])
    for name, values in {"y": label, "p": score, "w": weight}.items():
        table = with_column(table, name, values)
    write(tmp_path, "a.parquet", table, row_group_size=9)
    arguments = {**COLUMNS, "weight": "w"}
    messages = []
    for reader in ("arrow", "spark"):
        with pytest.raises(sm.DataError) as error:
            sm.evaluate_path(spark, str(tmp_path), reader=reader, **arguments)
        messages.append(str(error.value))
    assert messages[0] == messages[1]
    with pytest.warns(sm.SparkMetricsWarning):
        direct, _ = both(spark, tmp_path, weight="w", invalid_rows="drop")
    assert direct.states.row_counts is not None
    assert direct.states.row_counts.dropped


@pytest.mark.parametrize(
    ("name", "values"), [("w", [-1.0, 1.0]), ("w", [2e100, 1.0]), ("y", [3, 1]), ("y", [0, 3]), ("y", [5, 6])]
)
def test_faults_are_the_same_errors(spark: SparkSession, tmp_path: Path, name: str, values: list[Any]) -> None:
    table = rows(30)
    changed = pa.array([*values, *table[name].to_pylist()[2:]], table[name].type)
    if values == [5, 6]:
        changed = pa.array([5, 6] * 15, pa.int32())
    write(tmp_path, "a.parquet", with_column(table, name, changed))
    messages = []
    for reader in ("arrow", "spark"):
        with pytest.raises(sm.DataError) as error:
            sm.evaluate_path(spark, str(tmp_path), reader=reader, **COLUMNS, weight="w")
        messages.append(str(error.value))
    assert messages[0] == messages[1]


def test_a_big_file_is_many_tasks(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path, "a.parquet", rows(40_000), row_group_size=5_000)
    direct, _ = both(spark, tmp_path)
    scan = direct.counts._scan
    assert scan is not None
    assert [len(task) for task in scan.pieces.tasks] == [1, 1]  # as many as spark.sql.shuffle.partitions
    assert [piece.row_groups for task in scan.pieces.tasks for piece in task] == [(0, 1, 2, 3), (4, 5, 6, 7)]
    assert scan.pieces.rows == 40_000


# --- what only Spark reads


def old_dates(folder: Path) -> None:
    table = rows(20).append_column("day", pa.array([date(1500, 1, 1)] * 20, pa.date32()))
    write(folder, "a.parquet", table)


def of_spark_2(folder: Path) -> None:
    table = rows(20).append_column("day", pa.array([date(2020, 1, 1)] * 20, pa.date32()))
    write(folder, "a.parquet", table.replace_schema_metadata({"org.apache.spark.version": "2.4.8"}))


def two_types(folder: Path) -> None:
    table = rows(20)
    write(folder, "a.parquet", table)
    write(folder, "b.parquet", with_column(table, "p", table["p"].cast(pa.float32())))


def one_column_less(folder: Path) -> None:
    write(folder, "a.parquet", rows(20))
    write(folder, "b.parquet", rows(20).drop(["seg"]))


def other_case(folder: Path) -> None:
    write(folder, "a.parquet", rows(20))
    write(folder, "b.parquet", rows(20).rename_columns(["model", "SEG", "y", "p", "w"]))


def of_delta(folder: Path) -> None:
    write(folder, "a.parquet", rows(20))
    (folder / "_delta_log").mkdir()


def in_path_too(folder: Path) -> None:
    write(folder, "model=x/a.parquet", rows(20))


def changed(name: str, values: Any) -> Any:
    return lambda folder: write(folder, "a.parquet", with_column(rows(20), name, values))


NOT_EXACT: dict[str, tuple[Any, dict[str, Any], str]] = {
    "decimal": (changed("p", pa.array([Decimal("0.5")] * 20)), {}, "column 'p' has type decimal"),
    "long label": (changed("y", pa.array([1, 0] * 10, pa.int64())), {}, "column 'y' has type bigint"),
    "text label": (changed("y", pa.array(["1", "0"] * 10)), {}, "column 'y' has type string"),
    "double key": (changed("seg", pa.array([0.5] * 20)), {}, "column 'seg' has type double"),
    "binary key": (changed("seg", pa.array([b"x"] * 20)), {}, "column 'seg' has type binary"),
    "unsigned": (changed("seg", pa.array([1] * 20, pa.uint8())), {}, "column 'seg'"),
    "timestamp": (changed("seg", pa.array([datetime(2026, 1, 1)] * 20)), {}, "column 'seg' has type timestamp"),
    "old dates": (old_dates, {"segments": ["day"]}, "legacy calendar"),
    "dates of Spark 2": (of_spark_2, {"segments": ["day"]}, "legacy calendar"),
    "two types": (two_types, {}, "column 'p' is stored as"),
    "one column less": (one_column_less, {}, "column 'seg'"),
    "other case": (other_case, {}, "column 'seg'"),
    "in the path, too": (in_path_too, {}, "'model' is in the files and in their paths"),
    "classes": (changed("y", pa.array([1, 0] * 10, pa.int32())), {"prediction": "y"}, "there are predicted classes"),
    "Delta": (of_delta, {}, "Delta"),
    "filter of rows": (changed("y", pa.array([1, 0] * 10, pa.int32())), {"filter": "p > 0.2"}, "the filter"),
    "several models": (
        changed("y", pa.array([1, 0] * 10, pa.int32())),
        {"by": [], "score": None, "scores": {"a": "p", "b": "w"}},
        "several models",
    ),
}


@pytest.mark.parametrize("case", NOT_EXACT)
def test_what_might_differ_is_for_spark(
    spark: SparkSession, tmp_path: Path, case: str, caplog: pytest.LogCaptureFixture
) -> None:
    make, arguments, why = NOT_EXACT[case]
    make(tmp_path)
    arguments = {**COLUMNS, **arguments}
    with pytest.raises(sm.ConfigError, match=r"reader='arrow' .*cannot read") as error:
        sm.evaluate_path(spark, str(tmp_path), reader="arrow", **arguments)
    assert why in str(error.value)
    if case in ("old dates", "dates of Spark 2", "two types"):
        return  # Spark itself may refuse these
    with caplog.at_level(logging.INFO, logger="sparkmetrics"):
        auto = sm.evaluate_path(spark, str(tmp_path), metrics=["roc_auc"], **arguments)
    (line,) = [record.getMessage() for record in caplog.records if "Spark reads" in record.getMessage()]
    assert why in line
    assert auto.metrics().count() > 0


@pytest.mark.parametrize(
    "condition",
    [
        *("rand() < 0.5", "file = (select 1)", "lower(model) = 'c d'", "p > 0.5 and file = 1"),
        *("`input_file_name`() like '%x%'", "rand/**/() < 0.5", "model = 'a' -- and"),
    ],
)
def test_filters_that_only_spark_judges(spark: SparkSession, tmp_path: Path, condition: str) -> None:
    with pytest.raises(sm.ConfigError, match="the filter"):
        sm.evaluate_path(
            spark, str(partitioned(tmp_path)), reader="arrow", filter=condition, segments=["seg"], label="y", score="p"
        )


def test_other_faults_are_errors(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(sm.DataError, match="Cannot read"):
        sm.evaluate_path(spark, str(tmp_path / "nowhere"), **COLUMNS)
    write(tmp_path, "a.parquet", rows(20))
    with pytest.raises(sm.DataError, match="does not fit"):
        sm.evaluate_path(spark, str(tmp_path), filter="nothing = 1", **COLUMNS)
    with pytest.raises(sm.ConfigError, match="reader must be one of"):
        sm.evaluate_path(spark, str(tmp_path), reader="fast", **COLUMNS)
    with pytest.raises(TypeError, match="scoer"):
        sm.evaluate_path(spark, str(tmp_path), label="y", scoer="p")


def test_a_file_that_changed_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    path = write(tmp_path, "a.parquet", rows(50))
    evaluation = sm.evaluate_path(spark, str(tmp_path), reader="arrow", **COLUMNS)
    path.unlink()
    write(tmp_path, "a.parquet", rows(50))
    with pytest.raises(Exception, match="It changed while it was read"):
        evaluation.metrics().collect()


def test_files_that_begin_with_an_empty_row_group(spark: SparkSession, tmp_path: Path) -> None:
    rows = pa.table({"y": pa.array([1, 0, 1, 0], pa.int32()), "p": [0.9, 0.2, 0.6, 0.6]})
    pq.write_table(rows.slice(0, 0), tmp_path / "a.parquet")
    assert pq.read_metadata(tmp_path / "a.parquet").num_row_groups == 1
    pq.write_table(rows, tmp_path / "b.parquet")
    arguments = {"label": "y", "score": "p", "metrics": ["roc_auc"], "reader": "arrow"}
    found = sm.evaluate_path(spark, str(tmp_path), **arguments).metrics().first()
    assert found is not None
    assert (found["value"], found["rows"]) == (3.5 / 4, 4.0)
