"""The notebook's face: lazy DataFrames of results from the states of a prediction table."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Sequence
from functools import cached_property, reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField

from sparkmetrics import buckets, curves, groups, row_kinds, schemas
from sparkmetrics.class_counts import NORMALIZE, class_count_table, counts_at_levels
from sparkmetrics.class_metrics import cells_of_class, class_metric_table
from sparkmetrics.columns import listed, quote
from sparkmetrics.disparity import disparity_table
from sparkmetrics.errors import ConfigError
from sparkmetrics.evaluator import GROUPS, POINTS
from sparkmetrics.exact_sums import Sums
from sparkmetrics.levels import group_columns
from sparkmetrics.metric_rows import metric_table
from sparkmetrics.metrics import probability, ranking, threshold_metrics
from sparkmetrics.metrics.intervals import quantile
from sparkmetrics.metrics.known import known_metrics
from sparkmetrics.metrics.list_parts import CELLS, CellsAt, ScoreBins
from sparkmetrics.options import Options, checked_tables, checked_thresholds
from sparkmetrics.passes import Passes
from sparkmetrics.probability_metrics import ProbabilityTask, probability_metrics
from sparkmetrics.score_counts import ScoreCounts
from sparkmetrics.segment_pairs import pair_table
from sparkmetrics.segments import gap_table, summary_table
from sparkmetrics.small_groups import SmallGroups
from sparkmetrics.states import States

STRATEGIES = ("uniform", "quantile")
"""Bins of equal width, and of equal weight."""


class Evaluation:
    """Exact measures of every group at every level, as lazy DataFrames.

    With `min_group_rows`, every table has a column `reason`, and the values of groups of fewer rows are NULL; in tables
    of several rows a group such a group has one row.

    Attributes
    ----------
    states : what it reads.
    options : what is evaluated.
    run_id : stands in every row of its tables.
    """

    def __init__(self, states: States, options: Options, run_id: str | None = None) -> None:
        source = row_kinds.Source(states.keys, options, *states.given)
        row_kinds.check_fit(source)
        self.states = states
        self.options = options
        self.run_id = run_id or uuid.uuid4().hex
        self._small = SmallGroups(options.min_group_rows)
        self._lacking = source.lacking
        if states.scores is None and states.positive is None:
            self._lacking["confusion"] = "two classes: give score, scores, or a prediction of two classes"

    @property
    def counts(self) -> ScoreCounts:
        """The score counts. Raises ConfigError for an evaluation of classes alone."""
        if self.states.scores is None:
            raise ConfigError("Score counts need scores: give score or scores.")
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
        return self._table(self._metric_rows(), schemas.METRICS)

    def _metric_rows(self) -> DataFrame:
        """The long table of metrics under internal names."""
        parameters, found = self.options.parameters, []
        if self.states.scores is not None:
            found.append(
                metric_table(
                    self._passes.groups_with(*self._passes.metric_parts),
                    self.states.keys,
                    self.options.score_metrics,
                    self.options.threshold_metrics,
                    self._passes.cells,
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
            found.append(probability_metrics(self._classes))
        rows = reduce(DataFrame.unionByName, found)
        if self.options.metrics is not None:
            rows = rows.where(F.col("metric").isin(list(self.options.metrics)))
        rows = self._small.emptied(rows, F.col("rows"), ("value", "lower", "upper"))
        # Where a value is reached is known with the value; where it is taken, always.
        taken = F.col("metric").isin(list(threshold_metrics(parameters)))
        return rows.withColumn("threshold", F.when(taken | F.col("value").isNotNull(), F.col("threshold")))

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
        self._check_has("class_counts")
        assert self.states.classes is not None  # since it has
        if normalize not in (None, *NORMALIZE):
            raise ConfigError(f"normalize must be None or one of {listed(NORMALIZE)}, found {normalize!r}.")
        keys, leveled = self.states.keys, counts_at_levels(self.states.classes, self.options.levels)
        group = group_columns(keys)

        def of_groups() -> DataFrame:
            return leveled.groupBy(*group).agg(F.sum("rows").alias("rows"))

        table = self._small.replaced(class_count_table(leveled, keys, normalize), of_groups, group)
        return self._table(table, schemas.CLASS_COUNTS)

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
        self._check_has("confusion")
        found = []
        if thresholds is not None and self.states.scores is None:
            raise ConfigError("confusion cuts scores at thresholds, and this evaluation has predictions alone.")
        if self.states.scores is not None:
            cells = self._passes.cells if thresholds is None else CellsAt("cells", checked_thresholds(thresholds))
            found.append(groups.cells_at_thresholds(self._passes.groups_with(cells), self.states.keys, cells))
        if self.states.classes is not None and self.states.positive is not None:
            leveled = counts_at_levels(self.states.classes, self.options.levels)
            found.append(cells_of_class(leveled, self.states.keys, self.states.positive))
        fields = [*group_columns(self.states.keys), "rows", *(field.name for field in schemas.CONFUSION)]
        table = reduce(DataFrame.unionByName, (f.select(*fields) for f in found))
        return self._table(self._small.emptied(table, F.col("rows"), CELLS), schemas.CONFUSION)

    def curves(self) -> DataFrame:
        """The threshold table of each group, from the highest score down: ROC, PR, CAP, gain and lift are views of it.

        Returns
        -------
        `by..., level, segments..., point, threshold, tp, fp, fn, tn, tpr, fpr, precision, predicted_positive_rate,
        lift, (curve_metrics...), run_id`. Point 0 is the sentinel, threshold +Infinity with nothing predicted. Every
        exact ROC point is within 1 / curve_points of the polyline; between points interpolate tp and fp, never
        precision. A group whose weights are all 0 has no curve.
        """
        self._check_has("curves")
        options = self.options
        points = self._passes.rows(POINTS)
        ranges = self._passes.rows(GROUPS) if options.curve_points is None else points
        chosen = [threshold_metrics(options.parameters)[name] for name in options.curve_metrics]
        table = curves.curve_table(points, ranges, self.counts.keys, options.curve_points, chosen)
        return self._table(self._of_large_groups(table), schemas.curves(options.curve_metrics))

    def gains(self) -> DataFrame:
        """Gain and lift of each group over equal buckets of its ranking; ties across an edge are split in proportion.

        Returns
        -------
        `by..., level, segments..., bucket, rows, positives, positive_rate, cumulative_positives, cumulative_gain, lift,
        cumulative_lift, run_id`. Bucket 1 has the highest scores. `rows` and `positives` are weights, and fractions
        where an edge falls inside a row or a tie. A group whose weights are all 0 has no rows.
        """
        self._check_has("gains")
        tops = ranking.tops(self.options.parameters)
        table = buckets.gains_table(self._passes.groups_with(tops), self.counts.keys, tops)
        return self._table(self._of_large_groups(table), schemas.GAINS)

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
        self._check_has("calibration")
        if strategy not in STRATEGIES:
            raise ConfigError(f"strategy must be one of {listed(STRATEGIES)}, found {strategy!r}.")
        bins = probability.score_bins(self.options.parameters)
        if strategy == "quantile":
            bins = ScoreBins("quantile_bins", self.options.parameters.calibration_bins, equal_weight=True)
        table = buckets.calibration_table(self._passes.groups_with(bins), self.counts.keys, bins)
        return self._table(self._of_large_groups(table), schemas.CALIBRATION)

    def segment_auc(self) -> DataFrame:
        """The pair matrix of each level with segments: every pair (segment of the positive, of the negative).

        Returns
        -------
        `by..., level, positive_segment, negative_segment, positives, negatives, pairs, wins2, auc, pair_share,
        contribution, mirror_auc, auc_difference, mixed, reason, run_id`. At each level `wins2` adds up to the total's
        U2 exactly when unweighted, and `contribution` to its roc_auc, counting those that `min_group_rows` hides.
        `mirror_auc` is that of the two segments with their sides changed; `reason` says why `auc` is NULL. Of a level
        with more than `max_pair_segments` segments the largest are named and the rest are pooled as `(other)`, whose
        pair with itself is `mixed`: it lies inside segments and between them.

        Raises
        ------
        ConfigError : no scores, or no level with a segment column.
        """
        self._check_has("segment_auc")
        table = pair_table(self._passes.pair_wins, self._passes.pair_levels, self._small)
        return self._table(table, schemas.segment_auc(self.counts.weighted), False)

    def segment_summary(self) -> DataFrame:
        """What each segment is to the whole, for any number of segments.

        Returns
        -------
        `by..., level, segments..., rows, positives, negatives, prevalence, subgroup_auc, bpsn_auc, bnsp_auc,
        leave_one_out_auc, gap_contribution, reason, run_id`. `bpsn_auc` is of the positives outside the segment against
        its negatives, `bnsp_auc` of its positives against the negatives outside, `leave_one_out_auc` of all rows
        outside. `gap_contribution` is the segment's part of total_auc - within_auc (`segment_gap`): over the segments
        of a level it adds up to that. `reason` names what is missing where a value is NULL.

        Raises
        ------
        ConfigError : no scores, or no level with a segment column.

        Source: Borkan et al. 2019, "Nuanced metrics for measuring unintended bias", with segments for subgroups.
        """
        self._check_has("segment_summary")
        table = summary_table(self._passes.sides, self.counts.keys, self._small)
        return self._table(table, schemas.SEGMENT_SUMMARY)

    def segment_gap(self) -> DataFrame:
        """How far each level's total is from its segments.

        Returns
        -------
        `by..., level, rows, positives, negatives, segments, defined_segments, total_auc, within_auc, within_share,
        between_auc, between_share, smallest_auc, largest_auc, mean_auc, gauc, gauc_positives, total_position,
        segment_score_auc, segment_prevalence_auc, reason, run_id`. total_auc = within_share within_auc + between_share
        between_auc. `gauc` is the mean AUC of segments with both classes by the weight of their rows, `gauc_positives`
        by that of their positives. `total_position` is "above" every segment, "below" every one, "equal" or "between".
        `segment_score_auc` is the AUC if each row had its segment's mean score, `segment_prevalence_auc` if it had its
        segment's prevalence: an in-sample upper bound of what segments alone can tell.

        Raises
        ------
        ConfigError : no scores, or no level with a segment column.
        """
        self._check_has("segment_gap")
        table = gap_table(self._passes.sides, self.counts.keys, Sums(self.counts.weighted), self._small)
        return self._table(table, schemas.SEGMENT_GAP, False)

    def segment_disparity(self) -> DataFrame:
        """How each metric differs between the segments of each level, over those where it is defined.

        Returns
        -------
        `by..., level, metric, average, class, threshold, segments, macro_mean, best_segment, best_value, best_lower,
        best_upper, worst_segment, worst_value, worst_lower, worst_upper, difference, ratio, reason, run_id`. Best and
        worst go by the metric's direction, and are NULL where it has none; of equals the first name. `difference` is
        the largest value less the smallest, `ratio` the smallest over the largest where the metric cannot be negative.
        All are NULL under two segments. Of many segments the worst is partly so by chance: see its interval.

        Raises
        ------
        ConfigError : no level with a segment column.
        """
        self._check_has("segment_disparity")
        levels, known = self.options.segment_levels, known_metrics(self.options.parameters)
        table = disparity_table(self._metric_rows(), self.states.keys, *levels, known)
        return self._table(table, schemas.SEGMENT_DISPARITY, False)

    def tables(self, wanted: Collection[str] | None = None) -> dict[str, Callable[[], DataFrame]]:
        """The tables that this evaluation has, by name: methods that make them.

        Parameters
        ----------
        wanted : the names of some of them; None takes all.

        Raises
        ------
        ConfigError : a name of no table, or of one that this evaluation does not have.
        """
        lacking = self._lacking
        had = [name for name in schemas.RESULT_TABLES if name not in lacking]
        names = had if wanted is None else checked_tables(wanted, schemas.RESULT_TABLES, lacking)
        return {name: getattr(self, name) for name in names}

    def share(self, tables: Collection[str] | None = None) -> None:
        """Prepares to make several tables in one pass over the scores, which is kept until `unpersist`.

        Worth it where more than one is made; without it each table makes the pass it needs. Tables that are not named
        still do.

        Parameters
        ----------
        tables : their names, of those in `tables()`; None takes all.

        Raises
        ------
        ConfigError : a name that is not in `tables()`.
        """
        wanted = self.tables(tables)
        if self.states.scores is not None:
            self._passes.share(wanted)

    def unpersist(self) -> None:
        """Frees what the cluster keeps of this evaluation and of its states."""
        if "_passes" in vars(self):
            self._passes.unpersist()
        if self._classes is not None:
            self._classes.unpersist()
        self.states.unpersist()

    @cached_property
    def _passes(self) -> Passes:
        """The passes over the scores."""
        return Passes(self.counts, self.options)

    def _check_has(self, table: str) -> None:
        """Raises ConfigError for a table that this evaluation cannot have."""
        if table in self._lacking:
            raise ConfigError(f"{table} needs {self._lacking[table]}.")

    def _of_large_groups(self, table: DataFrame) -> DataFrame:
        """A table of several rows a group, of which small groups keep one."""
        return self._small.replaced(table, self._passes.groups_with, group_columns(self.counts.keys))

    @cached_property
    def _classes(self) -> ProbabilityTask | None:
        """What is evaluated of class probabilities."""
        options, state = self.options, self.states.probabilities
        if state is None:
            return None
        return ProbabilityTask(state, self.states.keys, options.levels, options.level_names, options.parameters)

    def _table(self, frame: DataFrame, fields: list[StructField], with_segments: bool = True) -> DataFrame:
        """A table under the user's names, with the run's id."""
        fields = schemas.with_reason(fields, self._small.least > 0)
        by, segment = self.states.keys.outward()
        columns = [
            *by,
            F.col("level"),
            *(segment if with_segments else []),
            *(F.col(quote(field.name)) for field in fields),
        ]
        named = frame.select(*columns, F.lit(self.run_id).alias("run_id"))
        return schemas.conform(named, schemas.result_table(self.states.keys, fields, with_segments))
