"""The notebook's face: lazy DataFrames of results from a state of score counts."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from functools import cached_property, partial

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField

from sparkmetrics import curves, evaluator, groups, schemas, segments
from sparkmetrics.columns import Keys
from sparkmetrics.errors import ConfigError
from sparkmetrics.evaluator import GROUPS, PAIRS, POINTS, Task
from sparkmetrics.offsets import with_offsets
from sparkmetrics.options import Options, checked_thresholds
from sparkmetrics.predictions import Label, checked_names
from sparkmetrics.score_counts import ScoreCounts, score_counts
from sparkmetrics.workers import map_partitions


class Evaluation:
    """Exact measures of every group at every level, as lazy DataFrames.

    Attributes
    ----------
    counts : the state it reads.
    options : what is evaluated.
    run_id : stands in every row of its tables.
    """

    def __init__(self, counts: ScoreCounts, options: Options, run_id: str | None = None) -> None:
        self.counts = counts
        self.options = options
        self.run_id = run_id or uuid.uuid4().hex
        self._shared: tuple[frozenset[str], DataFrame] | None = None

    def metrics(self) -> DataFrame:
        """One row for each metric of each group.

        Returns
        -------
        `by..., level, segments..., metric, average, class, threshold, value, lower, upper, reason, rows, positives,
        negatives, run_id`. `value` is NULL exactly when `reason` says why. `threshold` is that of a metric at a
        threshold, and for `ks` the one where it is reached.
        """
        table = groups.metric_table(self._groups, self.counts.keys, self.options.thresholds)
        return self._table(table, schemas.METRICS)

    def confusion(self, thresholds: Sequence[float] | None = None) -> DataFrame:
        """Confusion counts of each group at each threshold; other thresholds need no second look at predictions.

        Parameters
        ----------
        thresholds : scores to cut at; None takes those of the evaluation.

        Returns
        -------
        `by..., level, segments..., threshold, tp, fp, fn, tn, run_id`.

        Raises
        ------
        ConfigError : a threshold that is not a number.
        """
        keys, found, values = self.counts.keys, self._groups, self.options.thresholds
        if thresholds is not None:
            values = checked_thresholds(thresholds)
            found = groups.combine(self._emit(frozenset({GROUPS}), values), keys, values, self.counts.weighted)
        return self._table(groups.cells_at_thresholds(found, keys, values), schemas.CONFUSION)

    def curves(self) -> DataFrame:
        """The threshold table of each group, from the highest score down: ROC, PR, CAP, gain and lift are views of it.

        Returns
        -------
        `by..., level, segments..., point, threshold, tp, fp, fn, tn, tpr, fpr, precision, predicted_positive_rate,
        lift, run_id`. Point 0 is the sentinel, threshold +Infinity with nothing predicted. Every exact ROC point is
        within 1 / curve_points of the polyline; between points interpolate tp and fp, never precision. A group whose
        weights are all 0 has no curve.
        """
        points = self._rows(POINTS)
        ranges = self._rows(GROUPS) if self.options.curve_points is None else points
        return self._table(
            curves.curve_table(points, ranges, self.counts.keys, self.options.curve_points), schemas.CURVES
        )

    def segment_auc(self) -> DataFrame:
        """Subset versus total: for each level with segments, every pair (segment of the positive, of the negative).

        Returns
        -------
        `by..., level, positive_segment, negative_segment, positives, negatives, pairs, wins2, auc, pair_share,
        contribution, run_id`. At each level `wins2` adds up to the total's U2 exactly when unweighted, and
        `contribution` to its roc_auc. A level of a `by` tuple with more than 200 segments is left out.
        """
        keys, options, weighted = self.counts.keys, self.options, self.counts.weighted
        chosen = [(level, name) for level, name in zip(options.levels, options.level_names, strict=True) if level]
        if not chosen:
            raise ConfigError("segment_auc needs a level with at least one segment column; levels has only the total.")
        levels, names = zip(*chosen, strict=True)
        table = segments.pair_table(self._rows(PAIRS), self.counts.merged.frame, keys, levels, names, weighted)
        return self._table(table, schemas.segment_auc(weighted), with_segments=False)

    def share(self, pairs: bool = True) -> None:
        """Prepares to make all tables in one pass over the scores, which is kept until `unpersist`.

        Worth it for a job that writes them all; without it each table makes the pass it needs.

        Parameters
        ----------
        pairs : whether `segment_auc` is among them.
        """
        kinds = {GROUPS, POINTS, *([PAIRS] if pairs and any(self.options.levels) else [])}
        shared = self._emit(frozenset(kinds), self.options.thresholds)
        self._shared = (frozenset(kinds), shared.persist(StorageLevel.MEMORY_AND_DISK))

    def unpersist(self) -> None:
        """Frees what the cluster keeps of this evaluation and of its counts."""
        if self._shared is not None:
            self._shared[1].unpersist()
        if "_groups" in self.__dict__:
            self._groups.unpersist()
        self.counts.unpersist()

    @cached_property
    def _groups(self) -> DataFrame:
        """One row a group with its totals, combined parts and confusion counts; persisted, since tables share it."""
        counts, thresholds = self.counts, self.options.thresholds
        combined = groups.combine(self._rows(GROUPS), counts.keys, thresholds, counts.weighted)
        return combined.persist(StorageLevel.MEMORY_AND_DISK)

    def _rows(self, kind: str) -> DataFrame:
        """What workers emit of one kind."""
        if self._shared is not None and kind in self._shared[0]:
            return self._shared[1].where(F.col("kind") == kind)
        return self._emit(frozenset({kind}), self.options.thresholds)

    def _emit(self, emits: frozenset[str], thresholds: tuple[float, ...]) -> DataFrame:
        """One pass over the merged scores."""
        keys, options, counts = self.counts.keys, self.options, self.counts
        task = Task(
            by=keys.by_columns,
            segments=keys.segment_columns,
            levels=options.levels,
            level_names=options.level_names,
            weighted=counts.weighted,
            strict=options.strict,
            thresholds=thresholds,
            curve_points=options.curve_points,
            emits=emits,
        )
        scores = with_offsets(counts.merged, keys, options.levels, counts.sizing)
        return map_partitions(scores, partial(evaluator.evaluate, task=task), evaluator.emitted_schema(keys, emits))

    def _table(self, frame: DataFrame, fields: list[StructField], with_segments: bool = True) -> DataFrame:
        """A table under the user's names, with the run's id."""
        by, segment = self.counts.keys.outward()
        columns = [*by, F.col("level"), *(segment if with_segments else []), *(F.col(field.name) for field in fields)]
        named = frame.select(*columns, F.lit(self.run_id).alias("run_id"))
        return schemas.conform(named, schemas.result_table(self.counts.keys, fields, with_segments))


def evaluate(
    frame: DataFrame,
    *,
    by: Sequence[str] = (),
    segments: Sequence[str] = (),
    label: str,
    score: str | None = None,
    scores: Mapping[str, str] | None = None,
    weight: str | None = None,
    positive: Label = 1,
    levels: Sequence[Sequence[str]] | None = None,
    thresholds: Sequence[float] = (0.5,),
    threshold_rule: str = ">=",
    curve_points: int | None = 1000,
    invalid_rows: str = "error",
) -> Evaluation:
    """Exact measures of a prediction table for every `by` tuple, on every segment, every roll-up and the total.

    One action runs at once: it takes a sample of the scores and counts bad rows by reason, so that bad input is an
    error here and not in a worker. Everything after is lazy.

    Parameters
    ----------
    frame : prediction table, one row per scored example.
    by, segments, label, score, scores, weight, positive, invalid_rows : as in `score_counts`.
    levels : subsets of the segment columns to pool by; [] is the total. None takes the total, each segment column
        alone, and all of them crossed.
    thresholds : scores where confusion counts and their metrics are taken.
    threshold_rule : a row is a predicted positive when its score is ">=" (default) or ">" the threshold.
    curve_points : curves keep every exact ROC point within 1 / curve_points; None keeps every distinct score.

    Returns
    -------
    Evaluation, whose methods `metrics`, `confusion`, `curves`, `segment_auc` return DataFrames.

    Raises
    ------
    SchemaError, ConfigError, DataError : as `score_counts`; ConfigError also for levels and thresholds.

    Examples
    --------
    >>> ev = evaluate(df, by=["model"], segments=["sex"], label="survived", score="score")
    >>> ev.metrics().where("metric = 'roc_auc' and level = 'total'").show()
    """
    for argument, names in (("by", by), ("segments", segments)):
        checked_names(argument, names)
    # Options are checked before anything runs.
    Options.make(
        Keys((), tuple(segments)),
        levels=levels,
        thresholds=thresholds,
        threshold_rule=threshold_rule,
        curve_points=curve_points,
    )
    counts = score_counts(
        frame,
        by=by,
        segments=segments,
        label=label,
        score=score,
        scores=scores,
        weight=weight,
        positive=positive,
        invalid_rows=invalid_rows,
    )
    return counts.evaluate(
        levels=levels, thresholds=thresholds, threshold_rule=threshold_rule, curve_points=curve_points
    )
