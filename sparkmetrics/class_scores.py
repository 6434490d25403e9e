"""The state of class probabilities: every class a binary problem, and the rank of the true class.

Each row has one score a class, its probability, which is positive where the class is the label. So the score counts of
all classes hold every one-vs-rest and one-vs-one measure: `class` and `label` are two more segments.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from sparkmetrics import inspection
from sparkmetrics.class_columns import true_rank
from sparkmetrics.class_counts import sum_of_weights
from sparkmetrics.columns import Keys
from sparkmetrics.predictions import Predictions
from sparkmetrics.ranges import Sizing
from sparkmetrics.score_counts import ScoreCounts

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

    def unpersist(self) -> None:
        """Frees what the cluster keeps of them; they are made again when needed."""
        self.counts.unpersist()
        self.ranks.unpersist()


def class_scores_of(predictions: Predictions, classes: tuple[str, ...], sizing: Sizing) -> ClassScores:
    """Class probabilities of clean predictions. One action takes a sample of them for the cut points.

    Parameters
    ----------
    predictions : with the columns `class_label`, `probability` and `class_place`.
    classes : of the probabilities, in order.
    sizing : how work is cut into tasks.
    """
    keys = predictions.keys
    weight = ["weight"] if predictions.weighted else []
    good = predictions.frame.where(F.col("reason").isNull())
    wider = Keys(keys.by, (*keys.segments, CLASS, LABEL), (*keys.types, StringType(), StringType()))
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
        wider, of_classes.good, weighted=predictions.weighted, of_predictions=True, sizing=sizing, plan=plan
    )
    ranked = good.select(*keys.columns, *weight, true_rank(F.col("probability"), F.col("class_place")).alias("rank"))
    rows = F.count("*").cast("double")
    ranks = ranked.groupBy(*keys.columns, "rank").agg(
        (sum_of_weights("weight") if weight else rows).alias("count"), rows.alias("rows")
    )
    return ClassScores(counts, ranks.persist(StorageLevel.MEMORY_AND_DISK), classes)
