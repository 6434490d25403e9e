"""The notebook's face: lazy DataFrames of results from the states of a prediction table."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from functools import cached_property, reduce

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField

from sparkmetrics import buckets, curves, groups, schemas, segments
from sparkmetrics.class_counts import NORMALIZE, class_count_table, counts_at_levels
from sparkmetrics.class_metrics import cells_of_class, class_metric_table
from sparkmetrics.columns import listed, quote
from sparkmetrics.errors import ConfigError
from sparkmetrics.evaluator import GROUPS, PAIRS, POINTS
from sparkmetrics.metric_rows import metric_table
from sparkmetrics.metrics import parts, probability, ranking, score_metrics, threshold_metrics
from sparkmetrics.metrics.intervals import quantile
from sparkmetrics.metrics.list_parts import CellsAt, ScoreBins
from sparkmetrics.metrics.parts import Part
from sparkmetrics.options import Options, checked_thresholds
from sparkmetrics.passes import scan
from sparkmetrics.probability_metrics import ProbabilityTask, probability_metrics, scan_classes
from sparkmetrics.score_counts import ScoreCounts
from sparkmetrics.states import States

STRATEGIES = ("uniform", "quantile")
"""Bins of equal width, and of equal weight."""


class Evaluation:
    """Exact measures of every group at every level, as lazy DataFrames.

    Attributes
    ----------
    states : what it reads.
    options : what is evaluated.
    run_id : stands in every row of its tables.
    """

    def __init__(self, states: States, options: Options, run_id: str | None = None) -> None:
        if states.classes is None and (options.classes, options.class_costs) != (None, None):
            raise ConfigError("classes and class_costs need prediction or probabilities: give one, or leave them out.")
        self.states = states
        self.options = options
        self.run_id = run_id or uuid.uuid4().hex
        self._shared: tuple[frozenset[str], DataFrame] | None = None

    @property
    def counts(self) -> ScoreCounts:
        """The score counts. Raises ConfigError for an evaluation of classes alone."""
        if self.states.scores is None:
            raise ConfigError("curves, gains, calibration and segment_auc need scores: give score or scores.")
        return self.states.scores

    def metrics(self) -> DataFrame:
        """One row for each metric of each group.

        Returns
        -------
        `by..., level, segments..., metric, average, class, threshold, value, lower, upper, reason, rows, positives,
        negatives, run_id`. `value` is NULL exactly when `reason` says why. `threshold` is that of a metric at a
        threshold, and for `ks`, `best_*` and `closest_to_top_left` the one where it is reached. `lower` and `upper`
        are the confidence interval of the AUC (DeLong, logit) and of rates (Wilson), NULL for other metrics. Of
        classes, `class` is the one that is measured against the rest, and `average` says how values were averaged.
        """
        parameters, found = self.options.parameters, []
        if self.states.scores is not None:
            found.append(
                metric_table(
                    self._groups,
                    self.states.keys,
                    score_metrics(parameters).values(),
                    threshold_metrics(parameters).values(),
                    self._cells,
                    parameters.confidence,
                )
            )
        if self.states.classes is not None:
            found.append(
                class_metric_table(
                    counts_at_levels(self.states.classes, self.options.levels),
                    self.states.keys,
                    threshold_metrics(parameters),
                    classes=self.options.classes,
                    class_costs=self.options.class_costs,
                    positive=self.states.positive,
                    z=quantile(parameters.confidence),
                )
            )
        if self._classes is not None:
            found.append(probability_metrics(self._class_scan, self._classes))
        return self._table(reduce(DataFrame.unionByName, found), schemas.METRICS)

    def class_counts(self, normalize: str | None = None) -> DataFrame:
        """The weight of every (label, predicted class) pair of each group.

        Parameters
        ----------
        normalize : "true" makes shares of the rows of each label, "pred" of those of each prediction, "all" of the
            group's; None (default) gives weights.

        Returns
        -------
        `by..., level, segments..., label, prediction, count, run_id`; pairs that do not occur are left out.

        Raises
        ------
        ConfigError : no prediction or probabilities were given, or another `normalize`.
        """
        if self.states.classes is None:
            raise ConfigError("class_counts needs predicted classes: give prediction or probabilities to evaluate.")
        if normalize not in (None, *NORMALIZE):
            raise ConfigError(f"normalize must be None or one of {listed(NORMALIZE)}, found {normalize!r}.")
        leveled = counts_at_levels(self.states.classes, self.options.levels)
        return self._table(class_count_table(leveled, self.states.keys, normalize), schemas.CLASS_COUNTS)

    def confusion(self, thresholds: Sequence[float] | None = None) -> DataFrame:
        """Confusion counts of each group at each threshold; other thresholds need no second look at predictions.

        Parameters
        ----------
        thresholds : scores to cut at; None takes those of the evaluation.

        Returns
        -------
        `by..., level, segments..., threshold, tp, fp, fn, tn, run_id`; `threshold` is NULL for a prediction of two
        classes.

        Raises
        ------
        ConfigError : a threshold that is not a number; neither scores nor a prediction of two classes.
        """
        found, cells = [], self._cells
        if thresholds is not None:
            cells = CellsAt("cells", checked_thresholds(thresholds))
            if self.states.scores is None:
                raise ConfigError("confusion cuts scores at thresholds, and this evaluation has predictions alone.")
        if self.states.scores is not None:
            rows = self._groups if thresholds is None else self._combined((cells,))
            found.append(groups.cells_at_thresholds(rows, self.states.keys, cells))
        if self.states.classes is not None and self.states.positive is not None:
            leveled = counts_at_levels(self.states.classes, self.options.levels)
            found.append(cells_of_class(leveled, self.states.keys, self.states.positive))
        if not found:
            raise ConfigError("confusion needs two classes: give score, scores, or a prediction of two classes.")
        fields = [*groups.group_columns(self.states.keys), *(field.name for field in schemas.CONFUSION)]
        return self._table(reduce(DataFrame.unionByName, (f.select(*fields) for f in found)), schemas.CONFUSION)

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

    def tables(self) -> dict[str, Callable[[], DataFrame]]:
        """The tables that this evaluation has, by name: methods that make them."""
        found: dict[str, Callable[[], DataFrame]] = {"metrics": self.metrics}
        if self.states.scores is not None or self.states.positive is not None:
            found["confusion"] = self.confusion
        if self.states.scores is not None:
            found |= {"curves": self.curves, "gains": self.gains, "calibration": self.calibration}
            if any(self.options.levels):
                found["segment_auc"] = self.segment_auc
        if self.states.classes is not None:
            found["class_counts"] = self.class_counts
        return found

    def share(self, pairs: bool = True) -> None:
        """Prepares to make all tables in one pass over the scores, which is kept until `unpersist`.

        Worth it for a job that writes them all; without it each table makes the pass it needs.

        Parameters
        ----------
        pairs : whether `segment_auc` is among them.
        """
        if self.states.scores is None:
            return
        kinds = frozenset({GROUPS, POINTS, *([PAIRS] if pairs and any(self.options.levels) else [])})
        self._shared = (kinds, self._emit(kinds, self._parts).persist(StorageLevel.MEMORY_AND_DISK))

    def unpersist(self) -> None:
        """Frees what the cluster keeps of this evaluation and of its states."""
        if self._shared is not None:
            self._shared[1].unpersist()
        for name in ("_groups", "_class_scan"):
            if name in self.__dict__:
                self.__dict__[name].unpersist()
        self.states.unpersist()

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
        options = self.options
        return scan(
            self.counts,
            options.levels,
            options.level_names,
            emits=emits,
            parts=parts,
            strict=options.strict,
            curve_points=options.curve_points,
        )

    @cached_property
    def _classes(self) -> ProbabilityTask | None:
        """What is evaluated of class probabilities."""
        options, state = self.options, self.states.probabilities
        if state is None:
            return None
        return ProbabilityTask(state, self.states.keys, options.levels, options.level_names, options.parameters)

    @cached_property
    def _class_scan(self) -> DataFrame:
        """One pass over the scores of all classes; persisted, since several tables are made from it."""
        assert self._classes is not None
        return scan_classes(self._classes).persist(StorageLevel.MEMORY_AND_DISK)

    def _table(self, frame: DataFrame, fields: list[StructField], with_segments: bool = True) -> DataFrame:
        """A table under the user's names, with the run's id."""
        by, segment = self.states.keys.outward()
        columns = [
            *by,
            F.col("level"),
            *(segment if with_segments else []),
            *(F.col(quote(field.name)) for field in fields),
        ]
        named = frame.select(*columns, F.lit(self.run_id).alias("run_id"))
        return schemas.conform(named, schemas.result_table(self.states.keys, fields, with_segments))
