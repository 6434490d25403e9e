"""What an evaluation has, known from its options alone: its tables, and the rows of each metric in `metrics`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from sparkmetrics.columns import Keys, listed
from sparkmetrics.errors import ConfigError
from sparkmetrics.metrics import Metric, score_metrics, threshold_metrics
from sparkmetrics.metrics.classes import CLASS
from sparkmetrics.metrics.known import known_metrics
from sparkmetrics.metrics.multiclass import POOLED, ROC_AUC_OVO, TOP_K_ACCURACY, top_k_metrics
from sparkmetrics.options import Options

OF_SCORES = ("curves", "gains", "calibration", "segment_auc", "segment_summary", "segment_gap")
OF_SEGMENTS = ("segment_auc", "segment_summary", "segment_gap", "segment_disparity")
"""Tables that need scores, and levels that have segments."""

PREDICTION = "prediction"
"""The threshold of a metric of predicted classes, which nothing was cut at."""


@dataclass(frozen=True)
class Source:
    """What is evaluated, and of what.

    Attributes
    ----------
    keys : names of the `by` and segment columns.
    options : of the evaluation.
    scores, classes, probabilities : whether it has scores, predicted classes (also the most likely ones of
        probabilities), and class probabilities.
    """

    keys: Keys
    options: Options
    scores: bool = True
    classes: bool = False
    probabilities: bool = False

    @property
    def lacking(self) -> dict[str, str]:
        """The tables that it cannot have, and what each needs. Whether there are two classes is not known here."""
        found = {} if self.classes else {"class_counts": "predicted classes: give prediction or probabilities"}
        if not any(self.options.levels):
            found |= dict.fromkeys(OF_SEGMENTS, "a level with at least one segment column; levels has only the total")
        if not self.scores:
            found |= dict.fromkeys(OF_SCORES, "scores: give score or scores")
        return found


class Kind(NamedTuple):
    """One of the rows that a group can have of a metric.

    Attributes
    ----------
    average : as in the table.
    of_class : whether it is of one class.
    threshold : where scores are cut, or PREDICTION; None where the metric is of all scores.
    """

    average: str | None
    of_class: bool
    threshold: float | str | None

    def __str__(self) -> str:
        """As keys of a gate."""
        said = [
            "" if self.average is None else f"average {self.average}",
            "a class" if self.of_class else "",
            "" if self.threshold is None else f"threshold {self.threshold}",
        ]
        return " and ".join(filter(None, said)) or "neither average nor class"


def row_kinds(of: Source, name: str) -> dict[Kind, tuple[Metric, bool]]:
    """The rows of a metric that a group can have: the metric that each is of, and whether it has an interval."""
    parameters, found = of.options.parameters, dict[Kind, tuple[Metric, bool]]()
    at_threshold, of_scores = threshold_metrics(parameters).get(name), score_metrics(parameters).get(name)
    if of.scores:
        if at_threshold is not None:
            one = at_threshold, at_threshold.proportion_of is not None
            found |= {Kind(None, False, threshold): one for threshold in of.options.thresholds}
        if of_scores is not None:
            found[Kind(None, False, None)] = of_scores, of_scores.interval is not None
    if of.classes and at_threshold is not None:
        one = at_threshold, at_threshold.proportion_of is not None
        # Without class and average: of the positive class, where there are two.
        found |= {Kind(None, each, PREDICTION): one for each in (True, False)}
        found |= {Kind(average, False, PREDICTION): (at_threshold, False) for average in _averages(at_threshold)}
    if of.classes and name in CLASS:
        overall = CLASS[name]
        if "free_diagonal" not in overall.needs or of.options.class_costs is not None:
            cut = None if at_threshold is None else PREDICTION
            found.setdefault(Kind(overall.average, False, cut), (overall, overall.proportion_of is not None))
    if of.probabilities:
        if of_scores is not None and of_scores.averaged:
            found[Kind(None, True, None)] = of_scores, of_scores.interval is not None
            found |= {Kind(average, False, None): (of_scores, False) for average in _averages(of_scores)}
        pooled = {metric.name: metric for make in POOLED for metric in make(parameters)}
        if name in pooled:
            found[Kind(None, False, None)] = pooled[name], False
        if name == ROC_AUC_OVO.name:
            found |= {Kind(average, False, None): (ROC_AUC_OVO, False) for average in ("macro", "weighted")}
        if name in top_k_metrics(parameters):
            found[Kind(None, False, None)] = TOP_K_ACCURACY, True
    return found


def check_fit(of: Source) -> None:
    """Raises ConfigError for classes that are named where there are none, and for metrics that cannot be had."""
    options = of.options
    if not of.classes and (options.classes, options.class_costs) != (None, None):
        raise ConfigError("classes and class_costs need prediction or probabilities: give one, or leave them out.")
    if lacking := [name for name in options.metrics or () if not row_kinds(of, name)]:
        had = [name for name in known_metrics(options.parameters) if row_kinds(of, name)]
        reasons = [why_not(of, name) for name in lacking]
        told = (
            f"{listed(name for name, why in zip(lacking, reasons, strict=True) if why == reason)} {reason}"
            for reason in dict.fromkeys(reasons)
        )
        raise ConfigError(f"metrics: {'; '.join(told)}. These can be had: {listed(had, 100)}.")


def why_not(of: Source, name: str) -> str:
    """Why an evaluation has no row of a metric."""
    if of.classes and name in CLASS:
        return "needs class_costs"
    return "cannot be had of the columns given (score, scores, prediction, probabilities)"


def _averages(metric: Metric) -> tuple[str, ...]:
    return ("macro", "micro", "weighted") if metric.averaged else ()


def chosen_kind(
    kinds: Iterable[Kind], metric: str, average: str | None, of_class: bool, threshold: float | str | None
) -> Kind:
    """The one kind of row that a gate asks for, of some."""
    kinds = list(kinds)
    if threshold is not None and not isinstance(threshold, str):
        threshold = threshold + 0.0  # -0.0 is 0.0, as among the evaluation's
    fitting = [
        kind
        for kind in kinds
        if kind.of_class == of_class and average in (None, kind.average) and threshold in (None, kind.threshold)
    ]
    plain = [kind for kind in fitting if kind.average is None] or fitting
    if len(plain) == 1:
        return plain[0]
    if plain:
        choices = "; ".join(map(str, plain[:20]))
        raise ConfigError(f"metric: {metric!r} has more than one row in a group: say which. {choices}.")
    asked = Kind(average, of_class, threshold)
    choices = "; ".join(map(str, kinds[:20]))
    raise ConfigError(f"metric: {metric!r} has no row with {asked}. It has those with: {choices}.")
