"""Saved days add up to what all their rows give; those that do not fit are refused, and the message says why."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from asked import ASKED
from conftest import KIND
from plans import exchanges, plan_of
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType, StringType, StructField
from results import COUNTS, TABLES, assert_close, assert_same_bits, tables

import sparkmetrics as sm
from sparkmetrics import schemas
from sparkmetrics.class_counts import ClassCounts
from sparkmetrics.class_counts import counts_of_frame as class_counts_of_frame
from sparkmetrics.class_scores import ClassScores, with_classes
from sparkmetrics.columns import Keys
from sparkmetrics.options import Options
from sparkmetrics.origins import Origin, note, plain_columns, plain_label, with_note
from sparkmetrics.saved_states import added, loaded, saved
from sparkmetrics.score_counts import ScoreCounts, counts_of_frame
from sparkmetrics.states import States, read_states

CLASSES = ["a", "b", "c"]
THREE = sm.Sizing(ranges=3, sample_every=1, placed_rows=1, small_task_scores=1)
DAYS = 3


def predictions() -> pa.Table:
    """Three days of scores in other ranges; some lack segments, one lacks a model, one a class."""
    random = np.random.default_rng(20_261_130)
    rows = 1_500
    day = random.integers(0, DAYS, rows)
    model = random.choice(["ties", "any", "fine"], rows)
    model = np.where((day == 2) & (model == "any"), "fine", model)
    sex = random.choice(["f", "m", "x"], rows, p=[0.6, 0.3, 0.1])
    zone = np.where(day < 1, random.integers(0, 3, rows), random.integers(0, 2, rows))
    label = random.random(rows) < np.where(zone == 2, 0.05, 0.4)
    score = 0.15 * day + 0.4 * (0.7 * random.random(rows) + 0.3 * label)
    score = np.select([model == "ties", model == "any"], [np.round(score, 1), 40.0 * (score - 0.5)], score)
    odds = random.gamma(1.0 + day[:, None] % 2, size=(rows, 3)).round(1) + 0.1
    odds /= odds.sum(axis=1, keepdims=True)
    truth = np.where(day == 1, random.integers(0, 2, rows), random.integers(0, 3, rows))
    return pa.table(
        {
            "day": day,
            "model": model,
            "sex": pa.array(sex, mask=sex == "x"),
            "zone": zone,
            "y": np.where(label, "yes", "no"),
            "p": score,
            "guess": np.where((random.random(rows) < 0.8) == label, "yes", "no"),
            "truth": np.array(CLASSES)[truth],
            **{name: odds[:, k] for k, name in enumerate(CLASSES)},
            "w": np.where(random.random(rows) < 0.1, 0.0, random.lognormal(0.0, 4.0, rows)),
        }
    )


KEYS_OF_ALL = {"by": ["model"], "segments": ["sex", "zone"]}
BINARY: dict[str, Any] = {"label": "y", "score": "p", "prediction": "guess", "positive": "yes"}
MULTICLASS: dict[str, Any] = {"label": "truth", "probabilities": CLASSES}


@cache
def frame(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(predictions()).cache()


def days_and_all(spark: SparkSession, folder: Path, days: int, columns: dict[str, Any]) -> tuple[list[States], States]:
    """The states of each day, saved and read back, and those of all rows."""
    rows = frame(spark).where(F.col("day") < days)
    found = []
    for day in range(days):
        sizing = THREE if day % 2 else None
        states = read_states(rows.where(F.col("day") == day), **KEYS_OF_ALL, **columns, sizing=sizing)
        read = {}
        for name, table in saved(states).items():
            path = str(folder / str(day) / name)
            # A job adds a column behind, and the folder's name another.
            table.withColumn("run_id", F.lit("run")).write.parquet(path)
            read[name] = spark.read.parquet(path).withColumn("run_date", F.lit("day"))
        states.unpersist()
        found.append(loaded(read, f"day {day}", THREE))
    return found, read_states(rows, **KEYS_OF_ALL, **columns)


def results(states: States, names: tuple[str, ...], **asked: Any) -> Mapping[str, pa.Table]:
    return tables(sm.Evaluation(states, Options.make(states.keys, curve_points=20, **asked)), names)


def test_days_add_up_to_their_rows(spark: SparkSession, tmp_path: Path) -> None:
    days, whole = days_and_all(spark, tmp_path, DAYS, BINARY)
    total = added(days)
    assert total.positive == whole.positive == "yes"
    assert (total.keys, total.row_counts) == (whole.keys, None)
    assert {(day.positive, day.where) for day in days} == {("yes", f"day {number}") for number in range(DAYS)}
    assert total.scores is not None
    assert total.classes is not None
    assert not total.scores.weighted
    made = Origin("y", "string", score="p", prediction="guess", prediction_type="string", positive="yes")
    assert {total.scores.origin, total.classes.origin, *(day.classes and day.classes.origin for day in days)} == {made}
    names = (*TABLES, "class_counts")
    found, expected = (results(states, names, levels=[[], ["sex", "zone"]], **ASKED) for states in (total, whole))
    assert_close(found, expected, relative=COUNTS)
    assert_same_bits(found, expected)


@pytest.mark.parametrize("weight", [None, pytest.param("w", marks=pytest.mark.slow)])
def test_days_of_probabilities_add_up_to_their_rows(spark: SparkSession, tmp_path: Path, weight: str | None) -> None:
    days, whole = days_and_all(spark, tmp_path, 2, MULTICLASS | {"weight": weight})
    total = added(days, CLASSES)
    assert (total.scores, total.positive, whole.positive) == (None, None, None)
    assert total.probabilities is not None
    assert whole.probabilities is not None
    assert total.probabilities.classes == tuple(CLASSES)
    assert total.probabilities.counts.keys == whole.probabilities.counts.keys
    made = Origin("truth", "string", probabilities=plain_columns(CLASSES), classes=tuple(CLASSES), weight=weight)
    assert total.probabilities.counts.origin == replace(made, positive=1)
    names = ("metrics",)
    asked = {"levels": [[], ["sex"]], "top_k": [1, 2], "classes": CLASSES}
    found, expected = (results(states, names, **asked) for states in (total, whole))
    assert_close(found, expected, relative=COUNTS)
    if weight is None:
        assert_same_bits(found, expected)
    with_names = saved(total)
    assert with_names.keys() == {"class_cells", "class_score_counts", "class_ranks"}
    assert with_names["class_ranks"].columns == ["model", "sex", "zone", "true_rank", "count", "rows"]


def test_days_of_two_classes_may_be_a_month_of_three(spark: SparkSession) -> None:
    def day(*rows: tuple[str, str]) -> States:
        cells = spark.createDataFrame([("m", "f", *row, 1.0, 1.0) for row in rows], CELLS)
        tables_of = {"class_cells": with_note(cells, "count", note(KEYS, False, MADE, positive_class="yes"))}
        return loaded(tables_of, "day")

    one, other, third = day(("yes", "no")), day(("no", "no")), day(("yes", "maybe"))
    for days, positive in (([one, other], "yes"), ([one, other, third], None)):
        assert [state.positive for state in days] == ["yes"] * len(days)
        total = added(days)
        assert total.positive == positive
        total.unpersist()


# --- what does not fit

KEYS = Keys(("model",), ("sex",), (StringType(), StringType()))
MADE = Origin("y", "string", score="p", prediction="guess", prediction_type="string", positive="yes")
OF_CLASSES = Origin("y", "string", probabilities="p", classes=("a", "b"), positive=1)
WIDE = replace(MADE, score={"rf": "p_rf", "lr": "p_lr"}, prediction=None, prediction_type=None)


@pytest.fixture(scope="module")
def states_of(spark: SparkSession) -> Callable[..., States]:
    """Makes states of one row of nulls, by what they were made with."""

    def nulls(keys: Keys, fields: list[StructField]) -> DataFrame:
        columns = dict(zip(keys.columns, keys.types, strict=True)) | {field.name: field.dataType for field in fields}
        return spark.range(1).select(*(F.lit(None).cast(kind).alias(name) for name, kind in columns.items()))

    def scores(keys: Keys, origin: Origin | None, weighted: bool) -> ScoreCounts:
        frame = nulls(keys, [StructField("range", IntegerType()), *schemas.SCORES])
        return ScoreCounts(keys, frame, weighted=weighted, of_predictions=False, sizing=sm.Sizing(), origin=origin)

    def make(origin: Origin | None, where: str, keys: Keys = KEYS, classes: bool = False) -> States:
        weighted = origin is not None and origin.weight is not None
        cells = ClassCounts(keys, nulls(keys, schemas.CLASS_STATE), weighted=weighted, origin=origin)
        if origin is not None and origin.classes is not None:
            wider, ranks = with_classes(keys), schemas.CLASS_RANKS
            counts = scores(wider, origin, weighted)
            ranked = nulls(keys, ranks).withColumnRenamed("true_rank", "rank")
            return States(keys, None, cells, ClassScores(counts, ranked, origin.classes), where=where)
        has_classes = classes or (origin is not None and origin.prediction is not None)
        return States(keys, scores(keys, origin, weighted), cells if has_classes else None, where=where)

    return make


MISFITS = {
    "positive": (MADE, {"positive": 1}, "positive: 'yes' in 'mon', 1 in 'tue'"),
    "label": (MADE, {"label": "bought"}, "label: 'y' in 'mon', 'bought' in 'tue'"),
    "label type": (MADE, {"label_type": "boolean"}, "label type: 'string' in 'mon', 'boolean' in 'tue'"),
    "score": (MADE, {"score": "p2"}, "score counts do not fit together: score: 'p' in 'mon', 'p2' in 'tue'"),
    "wide": (MADE, {"score": {"rf": "p"}}, "score: 'p' in 'mon', {'rf': 'p'} in 'tue'"),
    "model": (WIDE, {"score": {"rf": "p_rf", "lr": "p"}}, "score of 'lr': 'p_lr' in 'mon', 'p' in 'tue'"),
    "weights": (MADE, {"weight": "w"}, "weight: none in 'mon', 'w' in 'tue'"),
    "two at once": (
        MADE,
        {"positive": "no", "weight": "w"},
        "positive: 'yes' in 'mon', 'no' in 'tue'; weight: none in 'mon', 'w' in 'tue'. Make them again alike",
    ),
    "prediction": (MADE, {"prediction": "g"}, "class counts do not fit together: prediction: 'guess' in 'mon', 'g'"),
    "prediction type": (MADE, {"prediction_type": "number"}, "prediction type: 'string' in 'mon', 'number' in 'tue'"),
    "most likely": (OF_CLASSES, {"probabilities": "q"}, "probabilities: 'p' in 'mon', 'q' in 'tue'"),
    "classes": (OF_CLASSES, {"classes": ("a", "c")}, "classes: ['a', 'b'] in 'mon', ['a', 'c'] in 'tue'"),
    "order of classes": (OF_CLASSES, {"classes": ("b", "a")}, "classes: ['a', 'b'] in 'mon', ['b', 'a'] in 'tue'"),
    "no classes": (
        MADE,
        {"prediction": None, "prediction_type": None},
        "states do not fit together: 'score_counts', 'class_cells' in 'mon', 'score_counts' in 'tue'",
    ),
}


@pytest.mark.parametrize("name", MISFITS)
def test_misfits_are_refused(states_of: Callable[..., States], name: str) -> None:
    made, change, message = MISFITS[name]
    monday, tuesday = states_of(made, "mon"), states_of(replace(made, **change), "tue")
    with pytest.raises(sm.SchemaError, match=re.escape(message)):
        added([monday, tuesday])
    if made == MADE and tuesday.classes is not None:
        # Days that say nothing of themselves fit to all others, and these still have to fit to one another.
        old = states_of(None, "old", classes=True)
        with pytest.raises(sm.SchemaError, match=re.escape(message)):
            added([old, monday, old, monday, tuesday])


def test_plus_refuses_what_does_not_fit(states_of: Callable[..., States]) -> None:
    one, other = states_of(MADE, "mon"), states_of(replace(MADE, positive=1, prediction="g"), "tue")
    assert one.scores is not None
    assert one.classes is not None
    assert other.scores is not None
    assert other.classes is not None
    with pytest.raises(sm.SchemaError, match="positive: 'yes' here, 1 there"):
        _ = one.scores + other.scores
    with pytest.raises(sm.SchemaError, match="prediction: 'guess' here, 'g' there"):
        _ = sum([one.classes, other.classes])
    with pytest.raises(sm.SchemaError, match="There are no states"):
        added([])
    first, second, third = ({"rf": "p_rf"}, {"lr": "p_lr"}, {"rf": "p_rf", "lr": "p"})
    days = zip((first, second, third), ("mon", "tue", "wed"), strict=True)
    with pytest.raises(sm.SchemaError, match="score of 'lr': 'p_lr' in 'tue', 'p' in 'wed'"):
        added([states_of(replace(WIDE, score=score), where) for score, where in days])


@pytest.mark.parametrize(
    ("keys", "shown"),
    [
        (Keys(("model",), (), (StringType(),)), "by 'model' string, segments none in 'tue'"),
        (replace(KEYS, by=("Model",)), "by 'Model' string, segments 'sex' string in 'tue'"),
        (replace(KEYS, types=(StringType(), LongType())), "by 'model' string, segments 'sex' bigint in 'tue'"),
    ],
)
def test_other_keys_are_refused(states_of: Callable[..., States], keys: Keys, shown: str) -> None:
    message = f"key columns are by 'model' string, segments 'sex' string in 'mon'; {shown}"
    with pytest.raises(sm.SchemaError, match=re.escape(message)):
        added([states_of(WIDE, "mon"), states_of(WIDE, "tue", keys)])


def test_what_fits(states_of: Callable[..., States]) -> None:
    """Names of one positive label; a model that comes or goes; what another state of the day was made with."""
    for one, other in ((1, True), (1, 1.0), ("1", 1), (True, "true")):
        assert MADE.differences(replace(MADE, positive=one), ("positive",), "", "") != []
        assert replace(MADE, positive=one).differences(replace(MADE, positive=other), ("positive",), "", "") == []
    total = added([states_of(WIDE, "mon"), states_of(replace(WIDE, score={"xgb": "p_xgb"}), "tue")])
    assert total.scores is not None
    assert total.scores.origin == replace(WIDE, score={"rf": "p_rf", "lr": "p_lr", "xgb": "p_xgb"})
    assert total.scores.roll_up([]).origin == total.scores.origin
    one, other = (states_of(origin, "").scores for origin in (MADE, replace(MADE, prediction="g")))
    assert one is not None
    assert other is not None
    assert (one + other).origin == replace(MADE, prediction=None)
    assert [type(plain_label(x)) for x in (np.int64(1), np.bool_(1), np.float32(1), 2**70)] == [int, bool, float, str]


# --- what notes say, and what they do not


def test_origins_are_kept(spark: SparkSession) -> None:
    frame = spark.createDataFrame(
        [(True, 0.5, 1, 0.25, 1.0), (False, 0.5, 0, 0.75, 2.0)],
        "y boolean, `p.1` double, guess int, q double, w double",
    )
    wide = read_states(frame, label="y", scores={"r f": "p.1", 'l"r': "q"}, weight="w", positive=np.bool_(True))
    both = read_states(frame, label="y", score="q", prediction="guess")
    odd = read_states(frame, label="guess", probabilities={0: "p.1", 1: "p.1"})
    for states, made in (
        (wide, Origin("y", "boolean", score={"r f": "p.1", 'l"r': "q"}, weight="w", positive=True)),
        (both, Origin("y", "boolean", score="q", prediction="guess", prediction_type="number", positive=1)),
        (odd, Origin("guess", "number", probabilities={"0": "p.1", "1": "p.1"}, classes=("0", "1"), positive=1)),
    ):
        again = loaded(saved(states), "here")
        for state in (again.scores, again.classes, again.probabilities and again.probabilities.counts):
            assert state is None or (state.origin, state.weighted) == (made, made.weight is not None)
        assert (again.keys, again.positive) == (states.keys, states.positive)
        states.unpersist()
    assert both.positive == "1"


SCORES = "model string, range int, sex string, rows double, positives double, negatives double, " + ", ".join(
    f"{name} array<double>" for name in ("score", "pos", "neg")
)
CELLS = "model string, sex string, label string, prediction string, count double, rows double"


def test_older_states_are_read_and_added(spark: SparkSession) -> None:
    rows = [("m", 0, "f", 3.0, 2.0, 1.0, [0.25, 0.75], [0.0, 2.0], [1.0, 0.0])]
    frame = spark.createDataFrame(rows, SCORES)
    old, new, later = (
        with_note(frame, "score", kept)
        for kept in (
            {"format": 1, "weighted": False},
            note(KEYS, False, replace(MADE, prediction=None, prediction_type=None)),
            {"format": 3},
        )
    )
    states = [loaded({"score_counts": table}, name) for name, table in (("old", old), ("new", new), ("bare", frame))]
    counts = [one.scores for one in states if one.scores is not None]
    assert [(one.origin is None, one.weighted) for one in counts] == [(True, False), (False, False), (True, True)]
    assert not (counts[0] + counts[1]).weighted
    total = added(states).scores
    assert total is not None
    assert (total.origin, total.weighted) == (None, True)
    (row,) = total.frame.collect()
    assert (row["rows"], row["score"], row["pos"], row["neg"]) == (9.0, [0.25, 0.75], [0.0, 6.0], [3.0, 0.0])
    with pytest.raises(sm.SchemaError, match="'later' holds score counts of format 3; this version reads up to 2"):
        counts_of_frame(later, "later", sm.Sizing())

    cells = spark.createDataFrame([("m", "f", "yes", "no", 2.0, 2.0)], CELLS)
    before = class_counts_of_frame(with_note(cells, "count", {"format": 1, "weighted": False, "by": 1}), "old")
    assert (before.keys, before.weighted, before.origin) == (KEYS, False, None)
    now = class_counts_of_frame(with_note(cells, "count", note(KEYS, False, MADE)), "new")
    assert (before + now).origin is None
    assert [row["count"] for row in (before + now).frame.collect()] == [4.0]
    with pytest.raises(sm.SchemaError, match="do not say which class is positive: in 'old'"):
        added([States(KEYS, classes=before, where="old"), States(KEYS, classes=now, where="new")])


def without_note(frame: DataFrame) -> DataFrame:
    return frame.select(*(F.col(name).alias(name, metadata={"comment": "theirs"}) for name in frame.columns))


def test_states_that_are_not_what_was_saved(spark: SparkSession, states_of: Callable[..., States]) -> None:
    tables_of, multiclass = saved(states_of(MADE, "")), saved(states_of(OF_CLASSES, ""))
    other = saved(states_of(replace(MADE, positive="no"), ""))
    bare = {name: without_note(table) for name, table in multiclass.items()}
    renamed = {name: table.withColumnRenamed("sex", "gender") for name, table in tables_of.items()}
    for found, message in (
        ({}, "'there' holds none: states are score_counts, class_cells"),
        ({"metrics": bare["class_ranks"]}, "'there' holds 'metrics': states are"),
        ({"class_score_counts": multiclass["class_score_counts"]}, "class_score_counts with class_ranks"),
        ({"class_cells": bare["class_cells"]}, "lost the metadata of its column 'count'"),
        ({**multiclass, "class_score_counts": bare["class_score_counts"]}, "which names the classes"),
        ({**multiclass, "class_score_counts": tables_of["score_counts"]}, "'class' and 'label' are no segments"),
        ({**multiclass, "class_ranks": tables_of["class_cells"]}, "does not hold ranks of classes: expected"),
        ({"score_counts": renamed["score_counts"]}, "saved with the key columns 'model', 'sex', and now has"),
        ({"class_cells": renamed["class_cells"]}, "now has 'model', 'gender'. Key columns of a saved state stay"),
        (
            {"class_cells": with_note(tables_of["class_cells"], "count", {"format": 2, "origin": {"x": 1}})},
            "none of ours",
        ),
        (
            {"score_counts": tables_of["score_counts"], "class_cells": other["class_cells"]},
            "'there' were not made together: positive: 'yes' in score_counts, 'no' in class_cells. Run the day again",
        ),
    ):
        with pytest.raises(sm.SchemaError, match=re.escape(message)):
            loaded(found, "there")
    assert loaded({**tables_of, "metrics": bare["class_ranks"]}, "there").positive is None


@pytest.mark.skipif(KIND == "connect", reason="a client prints the plan of what is persisted, too")
def test_a_month_is_one_union(states_of: Callable[..., States]) -> None:
    """However many days there are, their counts are brought together once."""
    month = added([states_of(OF_CLASSES, str(day)) for day in range(9)])
    assert month.probabilities is not None
    for state in (month.probabilities.counts.frame, month.probabilities.ranks, month.classes and month.classes.frame):
        assert state is not None
        plan = plan_of(state)
        assert exchanges(plan) == 1
        assert len(set(re.findall(r"Union \((\d+)\)", plan))) == 1
    month.unpersist()
