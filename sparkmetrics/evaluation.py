"""The notebook's face: lazy DataFrames of results from a state of score counts."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField

from sparkmetrics import buckets, curves, evaluator, groups, schemas, segments
from sparkmetrics.columns import Keys, listed
from sparkmetrics.errors import ConfigError
from sparkmetrics.evaluator import GROUPS, PAIRS, POINTS, Task
from sparkmetrics.metric_rows import metric_table
from sparkmetrics.metrics import parts, probability, ranking, score_metrics, threshold_metrics
from sparkmetrics.metrics.list_parts import CellsAt, ScoreBins
from sparkmetrics.metrics.parts import Part
from sparkmetrics.offsets import with_offsets
from sparkmetrics.options import Options, checked_thresholds
from sparkmetrics.predictions import Label, checked_names
from sparkmetrics.score_counts import ScoreCounts, score_counts
from sparkmetrics.workers import map_partitions

STRATEGIES = ("uniform", "quantile")
"""Bins of equal width, and of equal weight."""


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
        threshold, and for `ks` and `best_*` the one where it is reached. `lower` and `upper` are the confidence
        interval of the AUC (DeLong, logit) and of proportions (Wilson), NULL for other metrics.
        """
        parameters = self.options.parameters
        table = metric_table(
            self._groups,
            self.counts.keys,
            score_metrics(parameters).values(),
            threshold_metrics(parameters).values(),
            self._cells,
            parameters.confidence,
        )
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
        found, cells = self._groups, self._cells
        if thresholds is not None:
            cells = CellsAt("cells", checked_thresholds(thresholds))
            found = self._combined((cells,))
        return self._table(groups.cells_at_thresholds(found, self.counts.keys, cells), schemas.CONFUSION)

    def curves(self) -> DataFrame:
        """The threshold table of each group, from the highest score down: ROC, PR, CAP, gain and lift are views of it.

        Returns
        -------
        `by..., level, segments..., point, threshold, tp, fp, fn, tn, tpr, fpr, precision, predicted_positive_rate,
        lift, (curve_metrics...), run_id`. Point 0 is the sentinel, threshold +Infinity with nothing predicted. Every
        exact ROC point is within 1 / curve_points of the polyline; between points interpolate tp and fp, never
        precision. A group whose weights are all 0 has no curve.
        """
        options = self.options
        points = self._rows(POINTS)
        ranges = self._rows(GROUPS) if options.curve_points is None else points
        known = threshold_metrics(options.parameters)
        chosen = [known[name] for name in options.curve_metrics]
        table = curves.curve_table(points, ranges, self.counts.keys, options.curve_points, chosen)
        return self._table(table, schemas.curves(options.curve_metrics))

    def gains(self) -> DataFrame:
        """Gain and lift of each group over equal buckets of its ranking; ties across an edge are split in proportion.

        Returns
        -------
        `by..., level, segments..., bucket, rows, positives, positive_rate, cumulative_positives, cumulative_gain, lift,
        cumulative_lift, run_id`. Bucket 1 has the highest scores. `rows` and `positives` are weights, and fractions
        where an edge falls inside a row or a tie. A group whose weights are all 0 has no rows.
        """
        tops = ranking.tops(self.options.parameters)
        return self._table(buckets.gains_table(self._groups, self.counts.keys, tops), schemas.GAINS)

    def calibration(self, strategy: str = "uniform") -> DataFrame:
        """The reliability table of each group: mean score and positive rate of bins of scores.

        Parameters
        ----------
        strategy : "uniform" makes bins of equal width on [0, 1], left-closed, the last one closed; "quantile" bins of
            about equal weight, which never split a tie block (that needs another pass over the scores).

        Returns
        -------
        `by..., level, segments..., bin, bin_lower, bin_upper, rows, positives, mean_score, positive_rate, run_id`. Bins
        count from 0; those without weight are left out, and so are groups with a score outside [0, 1]. The ends of a
        quantile bin are its least and largest score.

        Raises
        ------
        ConfigError : another strategy.
        """
        if strategy not in STRATEGIES:
            raise ConfigError(f"strategy must be one of {listed(STRATEGIES)}, found {strategy!r}.")
        bins, found = probability.score_bins(self.options.parameters), self._groups
        if strategy == "quantile":
            bins = ScoreBins("quantile_bins", self.options.parameters.calibration_bins, equal_weight=True)
            found = self._combined((bins,))
        return self._table(buckets.calibration_table(found, self.counts.keys, bins), schemas.CALIBRATION)

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
        kinds = frozenset({GROUPS, POINTS, *([PAIRS] if pairs and any(self.options.levels) else [])})
        self._shared = (kinds, self._emit(kinds, self._parts).persist(StorageLevel.MEMORY_AND_DISK))

    def unpersist(self) -> None:
        """Frees what the cluster keeps of this evaluation and of its counts."""
        if self._shared is not None:
            self._shared[1].unpersist()
        if "_groups" in self.__dict__:
            self._groups.unpersist()
        self.counts.unpersist()

    @property
    def _cells(self) -> CellsAt:
        """The confusion counts at the thresholds of the evaluation."""
        return CellsAt("cells", self.options.thresholds)

    @cached_property
    def _parts(self) -> tuple[Part, ...]:
        """All that `metrics`, `confusion`, `gains` and `calibration` are made from."""
        parameters = self.options.parameters
        of_metrics = parts(score_metrics(parameters).values())
        of_tables = (self._cells, ranking.tops(parameters), probability.score_bins(parameters))
        return tuple((of_metrics | {part.name: part for part in of_tables}).values())

    @cached_property
    def _groups(self) -> DataFrame:
        """One row a group with its totals and combined parts; persisted, since tables share it."""
        return self._combined(self._parts).persist(StorageLevel.MEMORY_AND_DISK)

    def _combined(self, parts: tuple[Part, ...]) -> DataFrame:
        """One row a group with its totals and these parts, combined."""
        return groups.combine(self._rows(GROUPS, parts), self.counts.keys, parts, self.counts.weighted)

    def _rows(self, kind: str, parts: tuple[Part, ...] = ()) -> DataFrame:
        """What workers emit of one kind: of GROUPS with these parts."""
        if self._shared is not None and kind in self._shared[0] and set(parts) <= set(self._parts):
            return self._shared[1].where(F.col("kind") == kind)
        return self._emit(frozenset({kind}), parts)

    def _emit(self, emits: frozenset[str], parts: tuple[Part, ...]) -> DataFrame:
        """One pass over the merged scores."""
        keys, options, counts = self.counts.keys, self.options, self.counts
        task = Task(
            by=keys.by_columns,
            segments=keys.segment_columns,
            levels=options.levels,
            level_names=options.level_names,
            weighted=counts.weighted,
            strict=options.strict,
            parts=parts,
            curve_points=options.curve_points,
            emits=emits,
        )
        scores = with_offsets(counts.merged, keys, options.levels, counts.sizing)
        schema = evaluator.emitted_schema(keys, emits, parts)
        return map_partitions(scores, partial(evaluator.evaluate, task=task), schema)

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
    beta: Sequence[float] = (1.0,),
    costs: Mapping[str, float] | None = None,
    curve_points: int | None = 1000,
    buckets: int = 10,
    calibration_bins: int = 10,
    accuracy_weights: Mapping[str, float] | None = None,
    payoffs: Mapping[str, float] | None = None,
    top_k: Sequence[float | str] = (),
    curve_metrics: Sequence[str] = (),
    partial_auc: Sequence[Any] = (),
    confidence: float = 0.95,
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
    options: dict[str, Any] = {
        "levels": levels,
        "thresholds": thresholds,
        "threshold_rule": threshold_rule,
        "beta": beta,
        "costs": costs,
        "curve_points": curve_points,
        "buckets": buckets,
        "calibration_bins": calibration_bins,
        "accuracy_weights": accuracy_weights,
        "payoffs": payoffs,
        "top_k": top_k,
        "curve_metrics": curve_metrics,
        "partial_auc": partial_auc,
        "confidence": confidence,
    }
    Options.make(Keys((), tuple(segments)), **options)  # checked before anything runs
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
    return counts.evaluate(**options)
