"""A prediction table -> the additive states that everything is evaluated from."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sparkmetrics import inspection, predictions, ranges, schemas
from sparkmetrics.class_columns import MAX_CLASSES, ClassColumns, ProbabilityColumns, class_columns, class_name
from sparkmetrics.class_counts import ClassCounts, class_counts_of
from sparkmetrics.class_scores import ClassScores, class_scores_of
from sparkmetrics.columns import Keys, field_type, listed
from sparkmetrics.direct import Scan, scan_of
from sparkmetrics.errors import ConfigError, DataError, SchemaError, warn
from sparkmetrics.inspection import RowCounts
from sparkmetrics.origins import Origin, plain_columns, plain_label, type_of_labels
from sparkmetrics.parquet_files import ASKED_SCHEMES, READERS, SCHEMES, NotExactError, ParquetPath
from sparkmetrics.predictions import Label, Predictions
from sparkmetrics.ranges import Sizing
from sparkmetrics.score_counts import ScoreCounts

log = logging.getLogger("sparkmetrics")

INVALID_ROWS = ("error", "drop")

TWO_CLASSES = ({"0", "1"}, {"-1", "1"}, {"false", "true"})
"""Classes of which one is positive without being told."""


@dataclass(frozen=True)
class States:
    """What an evaluation reads.

    Attributes
    ----------
    keys : names and types of the `by` and segment columns.
    scores : of `score` or `scores`; None without them.
    classes : of `prediction`, or of the most likely class of the probabilities; None without either.
    probabilities : of `probabilities`; None without them.
    positive : the positive class, where predictions are of two classes; None for K classes.
    row_counts : of the prediction table, or None for states from elsewhere.
    where : they were saved, for messages; None for states that were not.
    """

    keys: Keys
    scores: ScoreCounts | None = None
    classes: ClassCounts | None = None
    probabilities: ClassScores | None = None
    positive: str | None = None
    row_counts: RowCounts | None = None
    where: str | None = None

    @property
    def given(self) -> tuple[bool, bool, bool]:
        """Whether there are scores, classes and probabilities."""
        return self.scores is not None, self.classes is not None, self.probabilities is not None

    def unpersist(self) -> None:
        """Frees what the cluster keeps of them; they are made again when needed."""
        if self.scores is not None:
            self.scores.unpersist()
        if self.classes is not None:
            self.classes.unpersist()
        if self.probabilities is not None:
            self.probabilities.unpersist()


def read_states(
    frame: DataFrame,
    *,
    by: Sequence[str] = (),
    segments: Sequence[str] = (),
    label: str,
    score: str | None = None,
    scores: Mapping[str, str] | None = None,
    prediction: str | None = None,
    probabilities: ProbabilityColumns | None = None,
    classes: Sequence[object] | None = None,
    weight: str | None = None,
    positive: Label = 1,
    invalid_rows: str = "error",
    sizing: Sizing | None = None,
    files: ParquetPath | None = None,
    reader: str = "auto",
) -> States:
    """The states of a prediction table.

    One action runs at once: it takes a sample of the scores and counts bad rows by reason. Predictions add one that
    counts them by class, and probabilities one that samples them, and one more to find the classes of an array or map
    where none are given. The rest is lazy.

    Parameters
    ----------
    frame, by, segments, label, score, scores, prediction, probabilities, classes, weight, positive, invalid_rows : as
        in `evaluate`.
    sizing : how work is cut into tasks; never changes a result.
    files : the Parquet path that `frame` reads, where it is one and nothing was done to it but the filter.
    reader : who reads it, one of READERS.

    Raises
    ------
    SchemaError, ConfigError, DataError : as `evaluate`. ConfigError also for the reader "arrow" where it might not read
        what Spark reads.
    """
    if not hasattr(frame, "sparkSession"):
        raise SchemaError(f"A Spark DataFrame is expected, found {type(frame).__name__}.")
    if invalid_rows not in INVALID_ROWS:
        raise ConfigError(f"invalid_rows must be one of {listed(INVALID_ROWS)}, found {invalid_rows!r}.")
    sizing = sizing or Sizing()
    clean, more = clean_predictions(
        frame,
        by=by,
        segments=segments,
        label=label,
        score=score,
        scores=scores,
        prediction=prediction,
        probabilities=probabilities,
        classes=classes,
        weight=weight,
        positive=positive,
    )
    scan = scan_for(files, reader, clean, sizing, of_classes=more is not None)
    sampling = sizing if scan is None else sizing.sampling(scan.pieces.rows)
    plan, row_counts = inspection.inspect(clean, sampling, invalid_rows, scan)
    origin = Origin(
        label=label,
        label_type=type_of_labels(field_type(frame, label, "label")),
        score=score if scores is None else dict(scores),
        prediction=prediction,
        prediction_type=None if prediction is None else type_of_labels(field_type(frame, prediction, "prediction")),
        probabilities=plain_columns(probabilities),
        classes=None if more is None else more.classes,
        weight=weight,
        positive=plain_label(positive),
    )
    of_scores = of_classes = of_probabilities = two = None
    if score is not None or scores is not None:
        of_scores = ScoreCounts(
            clean.keys,
            clean.good if scan is None else scan.source(frame.sparkSession),
            weighted=clean.weighted,
            of_predictions=True,
            sizing=sizing,
            plan=plan,
            row_counts=row_counts,
            scan=scan,
            origin=origin,
        )
    if more is not None:
        counted = class_counts_of(clean.frame.where(F.col("reason").isNull()), clean.keys, clean.weighted)
        of_classes = ClassCounts(
            clean.keys, counted.frame.persist(StorageLevel.MEMORY_AND_DISK), weighted=clean.weighted, origin=origin
        )
        seen = seen_classes(of_classes, classes)
        two = positive_class(seen, positive, scored=of_scores is not None)
        if more.classes is not None:
            of_probabilities = class_scores_of(clean, more.classes, sizing, origin)
    return States(clean.keys, of_scores, of_classes, of_probabilities, two, row_counts)


def clean_predictions(
    frame: DataFrame,
    *,
    by: Sequence[str],
    segments: Sequence[str],
    label: str,
    score: str | None,
    scores: Mapping[str, str] | None,
    prediction: str | None,
    probabilities: ProbabilityColumns | None,
    classes: Sequence[object] | None,
    weight: str | None,
    positive: Label,
) -> tuple[Predictions, ClassColumns | None]:
    """Predictions with their columns checked, under internal names, and those of classes; see `read_states`."""
    check_columns(score, scores, prediction, probabilities)
    more = None
    if prediction is not None or probabilities is not None:
        more = class_columns(frame, label, prediction, probabilities, classes)
    clean = predictions.clean(
        frame,
        by=by,
        segments=segments,
        label=label,
        score=score,
        scores=scores,
        weight=weight,
        positive=positive,
        reserved=schemas.reserved_names(),
        classes=more,
    )
    return clean, more


def scan_for(
    files: ParquetPath | None, reader: str, clean: Predictions, sizing: Sizing, of_classes: bool
) -> Scan | None:
    """How workers read the predictions themselves; None where Spark does, which is logged with the reason.

    Parameters
    ----------
    files, reader, sizing : as in `read_states`.
    clean : the predictions.
    of_classes : whether there are predicted classes or probabilities.

    Raises
    ------
    ConfigError : the reader is "arrow", and it might not read what Spark reads.
    """
    if reader not in READERS:
        raise ConfigError(f"reader must be one of {listed(READERS)}, found {reader!r}.")
    if reader == "spark":
        return None
    try:
        if files is None:
            raise NotExactError("they are no path of Parquet files without options")
        if of_classes:
            raise NotExactError("there are predicted classes or probabilities")
        schemes = ASKED_SCHEMES if reader == "arrow" else SCHEMES
        return scan_of(files, clean, sizing, tasks=ranges.shuffle_partitions(files.table), schemes=schemes)
    except NotExactError as why:
        if reader == "arrow":
            raise ConfigError(
                f"reader='arrow' (predictions.reader of a config) cannot read the predictions: {why}. Use 'auto' or "
                "'spark'."
            ) from None
        if files is not None:
            log.info("Spark reads the predictions: %s", why)
    return None


def check_columns(score: object, scores: object, prediction: object, probabilities: object) -> None:
    """Raises ConfigError for columns that cannot be evaluated together."""
    if score is None and scores is None and prediction is None and probabilities is None:
        raise ConfigError(
            "Nothing to evaluate: give score (one column), scores ({model: column} of a wide table), prediction or "
            "probabilities."
        )
    if score is not None and scores is not None:
        raise ConfigError("Give either score (one column) or scores ({model: column} of a wide table), not both.")
    if scores is not None and (prediction is not None or probabilities is not None):
        raise ConfigError("scores is of several models, prediction and probabilities are of one: evaluate them apart.")
    if score is not None and probabilities is not None:
        raise ConfigError("Give either score (of the positive class) or probabilities (of all classes), not both.")


def seen_classes(counts: ClassCounts, classes: Sequence[object] | None) -> set[str]:
    """The classes that occur as label or prediction.

    Raises DataError for too many; warns where no prediction is ever a label, and of classes that are not declared.
    """
    roles = (F.struct(F.col(role).alias("class"), F.lit(role).alias("role")) for role in ("label", "prediction"))
    occurring = counts.frame.where(F.col("count") > 0).select(F.inline(F.array(*roles))).distinct()
    rows = occurring.limit(2 * MAX_CLASSES + 1).collect()
    labels, predictions = ({row["class"] for row in rows if row["role"] == role} for role in ("label", "prediction"))
    seen = labels | predictions
    if labels and predictions and not labels & predictions:
        warn(
            f"No prediction is ever a label: the labels are {listed(sorted(labels), 5)}, the predictions "
            f"{listed(sorted(predictions), 5)}. Are they written alike?"
        )
    if len(seen) > MAX_CLASSES:
        raise DataError(
            f"Labels and predictions have more than {MAX_CLASSES} classes, for example {listed(sorted(seen), 5)}. A "
            "prediction is a class, not a score."
        )
    if classes is not None:
        undeclared = sorted(seen - {class_name(c) for c in classes})
        if undeclared:
            warn(
                f"{listed(undeclared)} occur as label or prediction and are not in classes: they stay in counts, "
                "accuracy, kappa and MCC, and out of averages."
            )
    return seen


def positive_class(seen: set[str], positive: Label, scored: bool = False) -> str | None:
    """The positive class of two; None where there are more, or where none of them is positive."""
    name = class_name(positive)
    if not isinstance(positive, str) and positive in (0, 1):
        words = seen & {"true", "false"} and not seen & {"0", "1"}
        name = class_name(bool(positive)) if words else class_name(int(positive))
    two = len(seen) <= 2 and (name in seen or any(seen <= pair and name in pair for pair in TWO_CLASSES))
    return name if two or scored else None
