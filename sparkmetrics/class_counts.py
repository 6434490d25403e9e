"""The second state: for each (by, segments) the weight of every (label, predicted class) pair. It adds up too."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame, SparkSession, Window, WindowSpec
from pyspark.sql import functions as F

from sparkmetrics import schemas
from sparkmetrics.columns import Keys, level_name, quote
from sparkmetrics.errors import SchemaError
from sparkmetrics.joins import union_of
from sparkmetrics.levels import Level, at_levels, group_columns
from sparkmetrics.origins import HERE_AND_THERE, OF_CLASSES, OF_MOST_LIKELY, Origin, fitting, note, note_of, with_note
from sparkmetrics.parquet_files import read_parquet
from sparkmetrics.score_counts import write_parquet

if TYPE_CHECKING:
    from sparkmetrics.evaluation import Evaluation
    from sparkmetrics.predictions import Label

NORMALIZE = {"true": ["label"], "pred": ["prediction"], "all": []}
"""What the shares of `class_count_table` are of: rows of one label, of one prediction, of the group."""

SPLIT = 2.0**27 + 1.0
"""Splits a double into two halves of 26 bits (Veltkamp 1968)."""


class ClassCounts:
    """The exact state of an evaluation of predicted classes: counts of every (by, segments), which add up with `+`.

    Made by `sparkmetrics.class_counts`, which keeps them until `unpersist`, or by `read_class_counts`.

    Attributes
    ----------
    keys : names and types of the `by` and segment columns.
    weighted : whether predictions carried weights.
    origin : the columns it was made with; None where that is not known.
    """

    def __init__(
        self, keys: Keys, frame: DataFrame, *, weighted: bool, origin: Origin | None = None, pooled: bool = True
    ) -> None:
        self.keys = keys
        self.weighted = weighted
        self.origin = origin
        self._frame = frame
        self._pooled = pooled

    @cached_property
    def frame(self) -> DataFrame:
        """Internal key columns, `label`, `prediction`, `count` (weight) and `rows` (prediction rows).

        One row for each combination that occurs. One whose weights are all 0 has `rows` and a count of 0.
        """
        return self._frame if self._pooled else _pooled(self._frame, self.keys.columns)

    def __add__(self, other: ClassCounts) -> ClassCounts:
        """The counts of both: exactly those of the union of their rows.

        Raises
        ------
        SchemaError : their key columns differ, or what they were made with: label, positive label, prediction, weight.
            States of unknown origin are checked by their key columns alone.
        """
        if not isinstance(other, ClassCounts):
            return NotImplemented
        return added_class_counts([self, other])

    def __radd__(self, other: int) -> ClassCounts:
        """`sum` begins with 0."""
        return self if other == 0 else NotImplemented

    def roll_up(self, segments: Sequence[str]) -> ClassCounts:
        """The counts of fewer segment columns, pooled over the others.

        Raises
        ------
        ConfigError : a name that is not a segment column of these counts.
        """
        keys, columns = self.keys.rolled_up(segments)
        counts = self._frame.select(*columns, *(f.name for f in schemas.CLASS_STATE))
        return ClassCounts(keys, counts, weighted=self.weighted, origin=self.origin, pooled=False)

    def table(self) -> DataFrame:
        """The state under the user's names: `by..., segments..., label, prediction, count, rows`.

        What `read_class_counts` must know is kept as metadata of the column `count`.
        """
        by, segments = self.keys.outward()
        named = self.frame.select(*by, *segments, *(f.name for f in schemas.CLASS_STATE))
        table = schemas.conform(named, schemas.class_state(self.keys))
        return with_note(table, "count", note(self.keys, self.weighted, self.origin))

    def write(self, path: str, mode: str = "error") -> None:
        """Saves the counts as Parquet, to be read with `read_class_counts` or as a plain table.

        Parameters
        ----------
        path : a folder that Spark can write.
        mode : Spark's save mode: "error" (default) refuses an existing folder, "overwrite" replaces it.

        Raises
        ------
        WriteError : the folder exists, or Spark cannot write there.
        """
        write_parquet(self.table(), path, mode)

    def unpersist(self) -> None:
        """Frees what the cluster keeps of these counts; they are made again when needed."""
        self.frame.unpersist()

    def evaluate(self, positive: Label = 1, **options: Any) -> Evaluation:
        """Measures of these counts; one action looks for the classes.

        Parameters
        ----------
        positive : the positive class, where there are two.
        options : those of `sparkmetrics.evaluate` from `levels` on.
        """
        from sparkmetrics.evaluation import Evaluation  # the state knows its reader here alone
        from sparkmetrics.options import Options
        from sparkmetrics.states import States, positive_class, seen_classes

        checked = Options.make(self.keys, **options)
        found = positive_class(seen_classes(self, checked.classes), positive)
        return Evaluation(States(self.keys, classes=self, positive=found), checked)


def added_class_counts(counts: Sequence[ClassCounts], places: Sequence[str] = HERE_AND_THERE) -> ClassCounts:
    """The sum of any number of class counts: one union of all, which is pooled once.

    Parameters
    ----------
    counts : at least one.
    places : where each stands, for messages.

    Raises
    ------
    SchemaError : they do not fit together.
    """
    columns = [*counts[0].keys.columns, *(f.name for f in schemas.CLASS_STATE)]
    of_column = any(one.origin is not None and one.origin.prediction is not None for one in counts)
    origin = fitting(counts, OF_CLASSES if of_column else OF_MOST_LIKELY, "class counts", places)
    return ClassCounts(
        counts[0].keys,
        union_of(one._frame.select(*columns) for one in counts),
        weighted=any(one.weighted for one in counts),
        origin=origin,
        pooled=False,
    )


def class_counts_of(clean: DataFrame, keys: Keys, weighted: bool) -> ClassCounts:
    """Class counts of clean predictions.

    Parameters
    ----------
    clean : internal key columns, `class_label` and `class_prediction` (strings) and, when weighted, `weight`.
    keys : names and types of the key columns.
    weighted : whether predictions carry weights.
    """
    cells = clean.groupBy(
        *keys.columns, F.col("class_label").alias("label"), F.col("class_prediction").alias("prediction")
    )
    rows = F.count("*").cast("double")
    counts = cells.agg((sum_of_weights("weight") if weighted else rows).alias("count"), rows.alias("rows"))
    return ClassCounts(keys, counts, weighted=weighted)


def read_class_counts(spark: SparkSession, path: str) -> ClassCounts:
    """Class counts that `ClassCounts.write` saved.

    Parameters
    ----------
    spark : session.
    path : the folder.

    Raises
    ------
    DataError : the folder cannot be read as Parquet.
    SchemaError : it holds something else than class counts, or counts of a later format.
    """
    return counts_of_frame(read_parquet(spark, path), path)


def counts_of_frame(frame: DataFrame, where: str) -> ClassCounts:
    """Class counts from a DataFrame with the columns of `ClassCounts.table`; more columns behind are left out."""
    names, types = frame.schema.names, {f.name: f.dataType for f in frame.schema}
    expected = [f.name for f in schemas.CLASS_STATE]
    if any(types.get(f.name) != f.dataType for f in schemas.CLASS_STATE):
        raise SchemaError(
            f"{where!r} does not hold class counts: expected columns by..., segments..., {', '.join(expected)}; "
            f"found {frame.schema.simpleString()}."
        )
    kept = note_of(frame, "count", where, "class counts")
    if kept.by is None:
        raise SchemaError(
            f"{where!r} has lost the metadata of its column 'count', which says how many of its keys are by columns. "
            "Class counts must be saved with ClassCounts.write, or as ClassCounts.table() by a writer that keeps it."
        )
    outside = names[: names.index("label")]
    keys = Keys(tuple(outside[: kept.by]), tuple(outside[kept.by :]), tuple(types[name] for name in outside))
    kept.check_names(keys, where, "class counts")
    columns = [F.col(quote(name)).alias(inside) for name, inside in zip(keys.names, keys.columns, strict=True)]
    return ClassCounts(keys, frame.select(*columns, *expected), weighted=kept.weighted, origin=kept.origin)


def counts_at_levels(counts: ClassCounts, levels: Sequence[Level]) -> DataFrame:
    """The counts of every group: keys, `level` (its name), `label`, `prediction`, `count`, `rows`.

    Parameters
    ----------
    counts : the state.
    levels : segment positions of each level; segments that a level does not use are NULL.
    """
    keys = counts.keys
    names = [level_name([keys.segments[i] for i in level]) for level in levels]
    leveled = at_levels(counts.frame, keys, levels, names)
    return _pooled(leveled, group_columns(keys))


def class_count_table(leveled: DataFrame, keys: Keys, normalize: str | None = None) -> DataFrame:
    """The public table of class counts: keys, `level`, `label`, `prediction`, `count`; pairs that do not occur are out.

    Parameters
    ----------
    leveled : what `counts_at_levels` gives.
    keys : its key columns.
    normalize : makes shares of the counts: "true" of those with the same label, "pred" of those with the same
        prediction, "all" of the group's (scikit-learn's `confusion_matrix`).
    """
    group = group_columns(keys)
    count = F.col("count")
    if normalize is not None:
        count = count / sum_of_weights("count", Window.partitionBy(*group, *NORMALIZE[normalize]))
    return leveled.where(F.col("count") > 0).select(*group, "label", "prediction", count.alias("count"))


def _pooled(counts: DataFrame, keys: Sequence[str]) -> DataFrame:
    """The counts summed over all rows of one combination of keys, label and prediction."""
    cells = counts.groupBy(*keys, "label", "prediction")
    return cells.agg(sum_of_weights("count").alias("count"), F.sum("rows").alias("rows"))


def sum_of_weights(weight: str | Column, window: WindowSpec | None = None) -> Column:
    """A sum of weights that does not drift: the upper halves of their digits add up without rounding.

    A running sum of 4,000,000 weights of 0.1 is off by 2.7e-11. Weights of one size have upper halves on one grid, and
    2**27 of them add up exactly; the lower halves round 2**27 times less than the weights would.
    """
    value = F.col(weight) if isinstance(weight, str) else weight
    upper = value * SPLIT - (value * SPLIT - value)
    sums = [F.sum(half) if window is None else F.sum(half).over(window) for half in (upper, value - upper)]
    return sums[0] + sums[1]
