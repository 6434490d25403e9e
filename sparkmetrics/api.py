"""What users call with a prediction table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from inspect import signature
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from sparkmetrics.class_columns import ProbabilityColumns
from sparkmetrics.class_counts import ClassCounts
from sparkmetrics.columns import Keys
from sparkmetrics.evaluation import Evaluation
from sparkmetrics.levels import Levels
from sparkmetrics.options import Options
from sparkmetrics.parquet_files import ParquetPath, filtered, read_parquet
from sparkmetrics.predictions import Label, checked_names
from sparkmetrics.ranges import Sizing
from sparkmetrics.score_counts import ScoreCounts
from sparkmetrics.states import read_states


def evaluate(
    frame: DataFrame,
    *,
    by: Sequence[str] = (),
    segments: Sequence[str] = (),
    label: str,
    score: str | None = None,
    scores: Mapping[str, str] | None = None,
    prediction: str | None = None,
    probabilities: ProbabilityColumns | None = None,
    weight: str | None = None,
    positive: Label = 1,
    levels: Levels | None = None,
    metrics: Sequence[str] | None = None,
    thresholds: Sequence[float] = (0.5,),
    threshold_rule: str = ">=",
    beta: Sequence[float] = (1.0,),
    costs: Mapping[str, float] | None = None,
    curve_points: int | None = 1000,
    buckets: int = 10,
    calibration_bins: int = 10,
    classes: Sequence[object] | None = None,
    class_costs: Mapping[object, Mapping[object, float]] | None = None,
    accuracy_weights: Mapping[str, float] | None = None,
    payoffs: Mapping[str, float] | None = None,
    top_k: Sequence[float | str] = (),
    curve_metrics: Sequence[str] = (),
    partial_auc: Sequence[Any] = (),
    confidence: float = 0.95,
    min_group_rows: int = 0,
    max_pair_segments: int = 200,
    invalid_rows: str = "error",
) -> Evaluation:
    """Exact measures of a prediction table for every `by` tuple, on every segment, every roll-up and the total.

    One action runs at once: it takes a sample of the scores and counts bad rows by reason, so that bad input is an
    error here and not in a worker. Predictions add an action that counts them by class, probabilities one that samples
    them, and one more where the classes of an array or map must be found. Everything after is lazy.

    Parameters
    ----------
    frame : prediction table, one row per scored example.
    by : columns whose tuples are never pooled (model, version, ...): strings, numbers, booleans, dates, timestamps.
    segments : columns that divide the population of one `by` tuple; of the same types.
    label : column of labels: boolean, numeric or string.
    score : column of scores of the positive class: double, float, integer, decimal, boolean, or a vector or array whose
        element 1 it is.
    scores : instead of `score`, {model: score column} of a wide table; `model` joins `by`.
    prediction : column of predicted classes, of the same kind as the labels; two or more classes.
    probabilities : probabilities of all classes: an array, ml vector, map or struct column, {class: column}, or a list
        of columns named like the classes. Those of a row add up to 1. Without `prediction` the most likely class is the
        predicted one; of equals the one that stands first.
    weight : column of weights, finite and not negative; None counts each row once.
    positive : the label that is positive (default 1 or True).
    levels : subsets of the segment columns to pool by; [] is the total. Shorthands, alone or in the list: "total",
        "each" (each segment column alone), "rollup" (the hierarchy: total, first column, first two, ...), "cube" (every
        subset). None takes the total, each segment column alone, and all of them crossed.
    metrics : names of the metrics in `metrics` and `segment_disparity`; None takes all. Of
        scores, only what these need is computed.
    thresholds : scores where confusion counts and their metrics are taken.
    threshold_rule : a row is a predicted positive when its score is ">=" (default) or ">" the threshold.
    beta : B of `fbeta_B`: how much more recall counts than precision.
    costs : {"tp": , "fp": , "fn": , "tn": } cost of a row in `empirical_risk` and `best_risk`; what is left out costs
        0. None: right costs 0, wrong 1.
    curve_points : curves keep every exact ROC point within 1 / curve_points; None keeps every distinct score.
    buckets : equal buckets of the ranking in `gains`.
    calibration_bins : bins of `calibration`, `ece`, `mce` and the binned Brier parts.
    classes : the classes that are averaged over, in their order; also names those of a probability array or vector
        (default 0, 1, ...). None takes the classes that occur in each group as label or prediction.
    class_costs : {label: {predicted class: cost}}, what is left out costs 0; for `empirical_risk` and
        `cohen_kappa_class_costs` of classes.
    accuracy_weights : {"tp": , "fp": , "fn": , "tn": } of `weighted_accuracy`; what is left out weighs 1.
    payoffs : {"tp": , "fp": , "fn": , "tn": } gain of a row in `profit` and `best_profit`; what is left out gains 0.
    top_k : tops of the ranking, for `precision_at_K` and `recall_at_K`: K >= 1 rows, or a fraction below 1 of the rows
        (0.01 or "1%"). Of probabilities, whole K are those of `top_k_accuracy_K`.
    curve_metrics : metrics at a threshold that `curves` has as further columns.
    partial_auc : stretches of the ROC curve, ("fpr", 0, 0.1) or {"tpr": [0.8, 1]}.
    confidence : of the intervals.
    min_group_rows : groups of fewer rows keep their rows in every table and lose their values; they still count in
        what they are part of. A filter for reliability, not disclosure control.
    max_pair_segments : the pair matrix of a level of more segments keeps the largest and pools the rest as (other).
    invalid_rows : what happens to rows that cannot be evaluated (a null label, score, prediction, ...): "error" or
        "drop".

    Returns
    -------
    Evaluation, whose methods `metrics`, `confusion`, `curves`, `gains`, `calibration`, `segment_auc`,
    `segment_summary`, `segment_gap`, `segment_disparity` and `class_counts` return DataFrames.

    Raises
    ------
    SchemaError : a column is missing, ambiguous, or of a type that does not fit.
    ConfigError : an argument is wrong, or arguments do not fit together.
    DataError : no rows; bad rows under "error"; weights that are negative or above 1e100; with scores, labels that are
        not two of which one is `positive`; more than 2,000 classes.

    Examples
    --------
    >>> ev = evaluate(df, by=["model"], segments=["sex"], label="survived", score="score")
    >>> ev.metrics().where("metric = 'roc_auc' and level = 'total'").show()
    """
    return _evaluation({**locals()})


def evaluate_path(
    spark: SparkSession, path: str, *, filter: str | None = None, reader: str = "auto", **arguments: Any
) -> Evaluation:
    """What `evaluate` gives for a path of Parquet files, read by the workers themselves where that is exact.

    Rows then never pass through the JVM, which is the dearest part of reading. A DataFrame cannot be read so: what was
    done to it would be lost.

    Parameters
    ----------
    spark : session.
    path : as `spark.read.parquet` takes it.
    filter : a SQL condition on its columns, or None.
    reader : "auto" lets workers read with pyarrow where they read exactly what Spark does, else Spark, and logs why;
        "spark" always lets Spark read; "arrow" is an error where pyarrow might read something else. Exact are: files on
        local disk, and with "arrow" on HDFS; score, label and weight double, float, boolean or integer up to 32 bits;
        keys string, integer, boolean, or date not in a legacy calendar, in the files or in their paths; a filter of
        AND, OR, =, IN and ranges on partition columns.
    arguments : those of `evaluate` after `frame`.

    Returns
    -------
    Evaluation : the same: without weights bit for bit.

    Raises
    ------
    SchemaError, ConfigError, DataError : as `evaluate`; DataError also where the path cannot be read.

    Examples
    --------
    >>> ev = evaluate_path(spark, "predictions", filter="day = '2026-11-29'", label="converted", score="score")
    """
    table = read_parquet(spark, path)
    frame = table if filter is None else filtered(table, filter, f"filter {filter!r}", repr(path))
    bound = signature(evaluate).bind(frame, **arguments)
    bound.apply_defaults()
    return _evaluation(bound.arguments, ParquetPath(table, filter), reader)


OF_STATES = (
    *("by", "segments", "label", "score", "scores", "prediction", "probabilities", "classes", "weight", "positive"),
    "invalid_rows",
)
"""The arguments of `evaluate` that say how predictions are read; `classes` is also an option."""


def _evaluation(arguments: dict[str, Any], files: ParquetPath | None = None, reader: str = "auto") -> Evaluation:
    """What the arguments of `evaluate` ask for."""
    for argument in ("by", "segments"):
        checked_names(argument, arguments[argument])
    apart = {"frame", *OF_STATES} - {"classes"}
    options = {name: value for name, value in arguments.items() if name not in apart}
    # Checked before anything runs.
    Options.make(Keys(tuple(arguments["by"]), tuple(arguments["segments"])), **options)
    of_states = {name: arguments[name] for name in OF_STATES}
    states = read_states(arguments["frame"], **of_states, files=files, reader=reader)
    return Evaluation(states, Options.make(states.keys, **options))


def class_counts(
    frame: DataFrame,
    *,
    by: Sequence[str] = (),
    segments: Sequence[str] = (),
    label: str,
    prediction: str,
    weight: str | None = None,
    invalid_rows: str = "error",
) -> ClassCounts:
    """Class counts of a prediction table: all that a measure of predicted classes needs, and they add up.

    Two actions run at once: one counts bad rows by reason, one counts rows by class.

    Parameters
    ----------
    frame, by, segments, label, prediction, weight, invalid_rows : as in `evaluate`.

    Returns
    -------
    ClassCounts

    Raises
    ------
    SchemaError, ConfigError, DataError : as `evaluate`.
    """
    states = read_states(
        frame,
        by=by,
        segments=segments,
        label=label,
        prediction=prediction,
        weight=weight,
        invalid_rows=invalid_rows,
    )
    counts = states.classes
    assert counts is not None  # there is a prediction
    assert counts.origin is not None  # they were just made
    # Nobody said which class is positive.
    return ClassCounts(
        counts.keys, counts.frame, weighted=counts.weighted, origin=replace(counts.origin, positive=None)
    )


def score_counts(
    frame: DataFrame,
    *,
    by: Sequence[str] = (),
    segments: Sequence[str] = (),
    label: str,
    score: str | None = None,
    scores: Mapping[str, str] | None = None,
    weight: str | None = None,
    positive: Label = 1,
    invalid_rows: str = "error",
    sizing: Sizing | None = None,
) -> ScoreCounts:
    """Score counts of a prediction table: all that any binary measure needs, and they add up.

    One action runs at once: it takes a sample of the scores and counts bad rows by reason. The rest is lazy.

    Parameters
    ----------
    frame : prediction table, one row per scored example.
    by : columns whose tuples are never pooled (model, version, ...): strings, numbers, booleans, dates, timestamps.
    segments : columns that divide the population of one `by` tuple; of the same types.
    label : column of labels: boolean, numeric or string.
    score : column of scores: double, float, integer, decimal, boolean, or a vector or array whose element 1 it is.
    scores : instead of `score`, {model: score column} of a wide table; `model` joins `by`.
    weight : column of weights, finite and not negative; None counts each row once.
    positive : the label that is positive (default 1 or True).
    invalid_rows : what happens to rows whose label, score or weight is null or NaN: "error" or "drop".
    sizing : how work is cut into tasks; never changes a result.

    Returns
    -------
    ScoreCounts

    Raises
    ------
    SchemaError : a column is missing, ambiguous, or of a type that does not fit.
    ConfigError : arguments that do not fit together.
    DataError : no rows; bad rows under "error"; weights that are negative or above 1e100; labels that are not two of
        which one is `positive`.
    """
    states = read_states(
        frame,
        by=by,
        segments=segments,
        label=label,
        score=score,
        scores=scores,
        weight=weight,
        positive=positive,
        invalid_rows=invalid_rows,
        sizing=sizing,
    )
    assert states.scores is not None  # without prediction or probabilities there is nothing else
    return states.scores
