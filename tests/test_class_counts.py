"""Class counts: the state adds up, is saved and rolled up, makes tables, and is measured in one plan."""

from __future__ import annotations

import contextlib
import io
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from class_measures import METRICS, Z, by_key
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, StringType
from results import exactly
from sklearn import metrics as sklearn_metrics

from sparkmetrics import ConfigError, SchemaError, WriteError
from sparkmetrics.class_counts import (
    ClassCounts,
    class_count_table,
    class_counts_of,
    counts_at_levels,
    read_class_counts,
)
from sparkmetrics.class_metrics import class_metric_table
from sparkmetrics.columns import Keys

KEYS = Keys(("model",), ("day", "sex"), (StringType(), IntegerType(), StringType()))


def predictions(spark: SparkSession, rows: int, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    sex = rng.integers(0, 3, rows)
    return spark.createDataFrame(
        pa.table(
            {
                "b0": pa.array(rng.choice(["m", "n"], rows)),
                "s0": pa.array(rng.integers(0, 3, rows), pa.int32()),
                "s1": pa.array(np.array(["f", "m", "-"])[sex], mask=sex == 2),
                "class_label": pa.array(rng.choice(list("abc"), rows)),
                "class_prediction": pa.array(rng.choice(list("abcd"), rows)),
                "weight": pa.array(rng.integers(0, 3, rows).astype(np.float64)),
            }
        )
    )


def sorted_rows(frame: Any) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=repr)


def test_states_add_up(spark: SparkSession, tmp_path: Path) -> None:
    monday, tuesday = (predictions(spark, 300, seed) for seed in (1, 2))
    parts = [class_counts_of(frame, KEYS, weighted=True) for frame in (monday, tuesday)]
    whole = class_counts_of(monday.unionByName(tuesday), KEYS, weighted=True)
    added = parts[0] + parts[1]
    assert sorted_rows(added.frame) == sorted_rows(whole.frame)

    path = str(tmp_path / "state")
    added.write(path)
    again = read_class_counts(spark, path)
    assert (again.keys, again.weighted) == (KEYS, True)
    table = whole.table()
    assert table.columns == ["model", "day", "sex", "label", "prediction", "count", "rows"]
    assert sorted_rows(again.table()) == sorted_rows(table)
    with pytest.raises(WriteError, match="state"):
        added.write(path)

    rolled, by_hand = (
        again.roll_up(["sex"]),
        class_counts_of(
            monday.unionByName(tuesday).drop("s0").withColumnRenamed("s1", "s0"),
            Keys(("model",), ("sex",), (StringType(), StringType())),
            weighted=True,
        ),
    )
    assert rolled.keys == by_hand.keys
    assert sorted_rows(rolled.frame) == sorted_rows(by_hand.frame)
    with pytest.raises(ConfigError, match="country"):
        again.roll_up(["country"])
    with pytest.raises(SchemaError, match="class counts do not fit together"):
        _ = again + rolled
    cells = "label string, prediction string, count double, rows double"
    for name, other, message in (
        ("predictions", monday, "does not hold class counts"),
        ("bare", spark.createDataFrame([], f"model string, day int, {cells}"), "metadata"),
    ):
        other.write.parquet(str(tmp_path / name))
        with pytest.raises(SchemaError, match=message):
            read_class_counts(spark, str(tmp_path / name))


def test_class_count_table(spark: SparkSession) -> None:
    frame = predictions(spark, 400, 4)
    leveled = counts_at_levels(class_counts_of(frame, KEYS, weighted=True), [(), (1,), (0, 1)]).cache()
    used: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in frame.toArrow().to_pylist():
        for group in (
            ("total", row["b0"], None, None),
            ("sex", row["b0"], None, row["s1"]),
            ("day,sex", row["b0"], row["s0"], row["s1"]),
        ):
            used.setdefault(group, []).append(row)
    for normalize in (None, "true", "pred", "all"):
        found = {group: np.zeros((4, 4)) for group in used}
        for row in class_count_table(leveled, KEYS, normalize).toArrow().to_pylist():
            assert row["count"] > 0
            cell = "abcd".index(row["label"]), "abcd".index(row["prediction"])
            found[row["level"], row["b0"], row["s0"], row["s1"]][cell] = row["count"]
        for group, rows in used.items():
            wanted = sklearn_metrics.confusion_matrix(
                [row["class_label"] for row in rows],
                [row["class_prediction"] for row in rows],
                labels=list("abcd"),
                sample_weight=[row["weight"] for row in rows],
                normalize=normalize,
            )
            assert found[group] == pytest.approx(wanted, abs=1e-12), group
    leveled.unpersist()


def test_sums_of_weights_do_not_drift(spark: SparkSession) -> None:
    rows = 4_000_000
    text = F.lit("a")
    frame = spark.range(0, rows, 1, 2).select(
        text.alias("class_label"), text.alias("class_prediction"), F.lit(0.1).alias("weight")
    )
    (row,) = counts_at_levels(class_counts_of(frame, Keys((), (), ()), weighted=True), [()]).collect()
    assert row["count"] == pytest.approx(float(rows * Fraction(0.1)), rel=1e-14)
    assert row["rows"] == rows


def test_a_hundred_classes_in_one_plan(spark: SparkSession) -> None:
    """30 groups of two `by` tuples, 100 x 100 cells each, at two levels."""
    keys = Keys(("model",), ("day",), (StringType(), IntegerType()))
    cell = F.col("id")
    frame = spark.range(30 * 10_000).select(
        (cell % 2).cast("string").alias("b0"),
        (F.floor(cell / 2) % 15).cast("int").alias("s0"),
        (F.floor(cell / 30) % 100).cast("string").alias("label"),
        (F.floor(cell / 3_000) % 100).cast("string").alias("prediction"),
        (F.abs(F.hash(cell)) % 10).cast("double").alias("count"),
        F.lit(1.0).alias("rows"),
    )
    counts = ClassCounts(keys, frame, weighted=False)
    table = class_metric_table(counts_at_levels(counts, [(), (0,)]), keys, METRICS, z=Z)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        table.explain(mode="formatted")
    plan = printed.getvalue()
    assert "Exchange" in plan
    assert "SinglePartition" not in plan
    assert "CartesianProduct" not in plan
    found = by_key((row.asDict() for row in table.collect()), "b0", "s0")
    assert {key[:2] for key in found} == {(b, s) for b in "01" for s in (None, *range(15))}
    cells = frame.toPandas()
    for (model, day), group in [*cells.groupby(["b0", "s0"]), *(((b, None), g) for b, g in cells.groupby("b0"))]:
        n = np.zeros((100, 100))
        np.add.at(n, (group["label"].astype(int), group["prediction"].astype(int)), group["count"])
        share = n.sum(axis=1) @ n.sum(axis=0) / n.sum() ** 2
        accuracy = np.trace(n) / n.sum()
        row = found[model, day, "accuracy", None, None]
        assert (row["value"], row["rows"]) == (exactly(accuracy), len(group))
        assert found[model, day, "cohen_kappa", None, None]["value"] == exactly((accuracy - share) / (1 - share))
        recalls = np.diag(n) / n.sum(axis=1)
        assert found[model, day, "recall", None, "42"]["value"] == exactly(recalls[42])
        assert found[model, day, "recall", "macro", None]["value"] == exactly(recalls.mean())
