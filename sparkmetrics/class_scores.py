"""The state of class probabilities: every class a binary problem, and the rank of the true class.

Each row has one score a class, its probability, which is positive where the class is the label. So the score counts of
all classes hold every one-vs-rest and one-vs-one measure: `class` and `label` are two more segments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from sparkmetrics import inspection, schemas
from sparkmetrics.class_columns import true_rank
from sparkmetrics.class_counts import sum_of_weights
from sparkmetrics.columns import Keys, quote
from sparkmetrics.errors import SchemaError
from sparkmetrics.joins import union_of
from sparkmetrics.origins import OF_PROBABILITIES, Origin, note, note_of, with_note
from sparkmetrics.predictions import Predictions
from sparkmetrics.ranges import Sizing
from sparkmetrics.score_counts import ScoreCounts, added_score_counts, counts_of_frame

CLASS, LABEL = "class", "label"
"""The segments that score counts of classes have behind those of the user."""


@dataclass(frozen=True)
class ClassScores:
    """Class probabilities of every (by, segments).

    Attributes
    ----------
    counts : score counts with the segments `class` (whose probability the score is) and `label` (of the row) behind
        those of the user.
    ranks : internal key columns, `rank` of the true class (1 is best), `count` (weight) and `rows`.
    classes : their names, in order.
    """

    counts: ScoreCounts
    ranks: DataFrame
    classes: tuple[str, ...]

    @property
    def keys(self) -> Keys:
        """The user's key columns."""
        wider = self.counts.keys
        return Keys(wider.by, wider.segments[:-2], wider.types[:-2])

    def rank_table(self) -> DataFrame:
        """The ranks under the user's names: `by..., segments..., true_rank, count, rows`, with a note on `count`."""
        by, segments = self.keys.outward()
        named = self.ranks.select(*by, *segments, F.col("rank").alias("true_rank"), "count", "rows")
        table = schemas.conform(named, schemas.class_ranks(self.keys))
        return with_note(table, "count", note(self.keys, self.counts.weighted, self.counts.origin))

    def unpersist(self) -> None:
        """Frees what the cluster keeps of them; they are made again when needed."""
        self.counts.unpersist()
        self.ranks.unpersist()


def class_scores_of(
    predictions: Predictions, classes: tuple[str, ...], sizing: Sizing, origin: Origin | None = None
) -> ClassScores:
    """Class probabilities of clean predictions. One action takes a sample of them for the cut points.

    Parameters
    ----------
    predictions : with the columns `class_label`, `probability` and `class_place`.
    classes : of the probabilities, in order.
    sizing : how work is cut into tasks.
    origin : what they are made with.
    """
    keys = predictions.keys
    weight = ["weight"] if predictions.weighted else []
    good = predictions.frame.where(F.col("reason").isNull())
    wider = with_classes(keys)
    of_class, of_label = wider.segment_columns[-2:]
    names = F.array(*map(F.lit, classes))
    exploded = good.select(
        *keys.columns,
        "tuple",
        "class_label",
        "class_place",
        *weight,
        F.posexplode("probability").alias("place", "score"),
    )
    scored = exploded.select(
        *keys.columns,
        F.get(names, F.col("place")).alias(of_class),
        F.col("class_label").alias(of_label),
        "tuple",
        (F.col("place") == F.col("class_place")).alias("positive"),
        "score",
        *weight,
        F.lit(None).cast("long").alias("label_hash"),
        F.lit(False).alias("inexact"),
        F.lit(None).cast("string").alias("reason"),
    )
    of_classes = Predictions(scored, wider, predictions.weighted, predictions.sources)
    plan, _ = inspection.inspect(of_classes, sizing, "error")
    counts = ScoreCounts(
        wider,
        of_classes.good,
        weighted=predictions.weighted,
        of_predictions=True,
        sizing=sizing,
        plan=plan,
        origin=origin,
    )
    ranked = good.select(*keys.columns, *weight, true_rank(F.col("probability"), F.col("class_place")).alias("rank"))
    rows = F.count("*").cast("double")
    ranks = ranked.groupBy(*keys.columns, "rank").agg(
        (sum_of_weights("weight") if weight else rows).alias("count"), rows.alias("rows")
    )
    return ClassScores(counts, ranks.persist(StorageLevel.MEMORY_AND_DISK), classes)


def with_classes(keys: Keys) -> Keys:
    """The key columns of score counts of classes: `class` and `label` behind the user's segments."""
    return Keys(keys.by, (*keys.segments, CLASS, LABEL), (*keys.types, StringType(), StringType()))


def added_class_scores(scores: Sequence[ClassScores], places: Sequence[str]) -> ClassScores:
    """The sum of any number of class probabilities. Its ranks are persisted.

    Parameters
    ----------
    scores : at least one.
    places : where each stands, for messages.

    Raises
    ------
    SchemaError : they do not fit together.
    """
    counts = added_score_counts([one.counts for one in scores], places, OF_PROBABILITIES, "class probabilities")
    keys = scores[0].keys
    columns = [*keys.columns, "rank", "count", "rows"]
    together = union_of(one.ranks.select(*columns) for one in scores)
    ranks = together.groupBy(*keys.columns, "rank").agg(
        sum_of_weights("count").alias("count"), F.sum("rows").alias("rows")
    )
    return ClassScores(counts, ranks.persist(StorageLevel.MEMORY_AND_DISK), scores[0].classes)


def scores_of_frames(counts: DataFrame, ranks: DataFrame, where: str, sizing: Sizing) -> ClassScores:
    """Class probabilities from the tables `class_score_counts` and `class_ranks`; more columns behind are left out.

    Raises
    ------
    SchemaError : they are something else, of a later format, or have lost their note.
    """
    read = counts_of_frame(counts, where, sizing)
    if read.keys.segments[-2:] != (CLASS, LABEL):
        raise SchemaError(f"{where!r} does not hold score counts of classes: {CLASS!r} and {LABEL!r} are no segments.")
    if read.origin is None or read.origin.classes is None:
        raise SchemaError(
            f"{where!r} has lost the metadata of column 'score' of class_score_counts, which names the classes. Save "
            "it with a writer that keeps metadata."
        )
    state = ClassScores(read, ranks, read.origin.classes)
    expected = schemas.class_ranks(state.keys)
    types = {f.name: f.dataType for f in ranks.schema}
    if any(types.get(f.name) != f.dataType for f in expected):
        raise SchemaError(
            f"{where!r} does not hold ranks of classes: expected {expected.simpleString()}; found "
            f"{ranks.schema.simpleString()}."
        )
    note_of(ranks, "count", where, "ranks of classes").check_names(state.keys, where, "ranks of classes")
    inward = (
        F.col(quote(name)).alias(inside) for name, inside in zip(state.keys.names, state.keys.columns, strict=True)
    )
    return replace(state, ranks=ranks.select(*inward, F.col("true_rank").alias("rank"), "count", "rows"))
