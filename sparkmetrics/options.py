"""What to evaluate: levels, thresholds, parameters of metrics, curves, checked before anything runs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from numbers import Integral, Real
from typing import Any, TypeGuard, TypeVar

from sparkmetrics.class_columns import class_name
from sparkmetrics.columns import Keys, level_name, listed
from sparkmetrics.errors import ConfigError
from sparkmetrics.levels import Level, Levels, chosen_levels
from sparkmetrics.metrics import Parameters, ScoreMetric, ThresholdMetric, score_metrics, threshold_metrics
from sparkmetrics.metrics.counts import Cells
from sparkmetrics.metrics.known import known_metrics
from sparkmetrics.metrics.parameters import ALIKE, ZERO_ONE, Region

T = TypeVar("T")

RULES = (">=", ">")
"""When a score is a predicted positive at a threshold."""

CURVE_COLUMNS = ("tpr", "fpr", "precision", "predicted_positive_rate", "lift")
"""What every curve has beside its counts."""


MOST = 100_000
"""Most points of a curve, buckets, bins and thresholds: they are lists in one row."""

MOST_METRICS = 100
"""Most values of a parameter each of which makes a metric."""

MOST_ROWS = 10**15
"""Most rows that a group can be asked to have: doubles count no more than 9 times that exactly."""

LEAST_PAIR_SEGMENTS, MOST_PAIR_SEGMENTS = 2, 999
"""Segments that a pair matrix can be asked to name: at least those that may hold more than half of the positives or of
the negatives; at most what Spark limits windows to before it exchanges their rows."""

MOST_CONFIDENCE = 1.0 - 1e-9
"""Beyond it a double has lost the digits that the quantile needs."""

LARGEST = 1e100
"""Bound of costs and payoffs, as of weights: their products are numbers."""


@dataclass(frozen=True)
class Options:
    """What to evaluate.

    Attributes
    ----------
    levels : segment positions of each level; the empty one is the total.
    level_names : their names.
    metrics : the metrics that are wanted, by name; None wants all.
    thresholds : where confusion counts are taken, in the order given.
    strict : rule ">" instead of ">=".
    curve_points : thinning of curves; None keeps every distinct score.
    curve_metrics : metrics at every point of a curve, by name.
    parameters : of metrics.
    classes : to average over, in their order; None takes those that occur.
    class_costs : {label: {predicted class: cost}}, or None.
    min_group_rows : groups of fewer rows keep their rows in the tables and lose their values.
    max_pair_segments : the pair matrix of a level of more segments keeps the largest and pools the rest.
    """

    levels: tuple[Level, ...]
    level_names: tuple[str, ...]
    metrics: tuple[str, ...] | None
    thresholds: tuple[float, ...]
    strict: bool
    curve_points: int | None
    curve_metrics: tuple[str, ...]
    parameters: Parameters
    classes: tuple[str, ...] | None
    class_costs: Mapping[str, Mapping[str, float]] | None
    min_group_rows: int
    max_pair_segments: int

    @property
    def segment_levels(self) -> tuple[tuple[Level, ...], tuple[str, ...]]:
        """The levels that have segments, and their names."""
        chosen = [(level, name) for level, name in zip(self.levels, self.level_names, strict=True) if level]
        return tuple(level for level, _ in chosen), tuple(name for _, name in chosen)

    @property
    def score_metrics(self) -> tuple[ScoreMetric, ...]:
        """The wanted metrics of all scores of a group."""
        return tuple(metric for metric in score_metrics(self.parameters).values() if self.wants(metric.name))

    @property
    def threshold_metrics(self) -> tuple[ThresholdMetric, ...]:
        """The wanted metrics at thresholds."""
        return tuple(metric for metric in threshold_metrics(self.parameters).values() if self.wants(metric.name))

    def wants(self, metric: str) -> bool:
        """Whether a metric is wanted."""
        return self.metrics is None or metric in self.metrics

    @classmethod
    def make(
        cls,
        keys: Keys,
        *,
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
    ) -> Options:
        """Checked options; the parameters are those of `evaluate`. Raises ConfigError."""
        if threshold_rule not in RULES:
            raise ConfigError(f"threshold_rule must be one of {listed(RULES)}, found {threshold_rule!r}.")
        if curve_points is not None:
            _count("curve_points", curve_points, ", or None")
        chosen = chosen_levels(keys, levels)
        if not _is_number(confidence) or not 0.0 < confidence <= MOST_CONFIDENCE:
            raise ConfigError(f"confidence must be a number between 0 and 1, for example 0.95, found {confidence!r}.")
        parameters = Parameters(
            beta=_at_most(MOST_METRICS, "beta", _betas(beta)),
            costs=_cells("costs", costs, default=0.0) if costs is not None else ZERO_ONE,
            payoffs=_cells("payoffs", payoffs, default=0.0) if payoffs is not None else None,
            accuracy_weights=_weights(accuracy_weights),
            partial_auc=_at_most(MOST_METRICS, "partial_auc", _regions(partial_auc)),
            top_k=_at_most(MOST_METRICS, "top_k", _tops(top_k)),
            buckets=_count("buckets", buckets),
            calibration_bins=_count("calibration_bins", calibration_bins),
            confidence=float(confidence),
        )
        return cls(
            levels=chosen,
            level_names=tuple(level_name([keys.segments[i] for i in level]) for level in chosen),
            metrics=_metrics(metrics, parameters),
            thresholds=checked_thresholds(thresholds),
            strict=threshold_rule == ">",
            curve_points=curve_points,
            curve_metrics=_curve_metrics(curve_metrics, parameters, keys),
            parameters=parameters,
            classes=_classes(classes),
            class_costs=_class_costs(class_costs),
            min_group_rows=_count("min_group_rows", min_group_rows, least=0, most=MOST_ROWS),
            max_pair_segments=_count(
                "max_pair_segments", max_pair_segments, least=LEAST_PAIR_SEGMENTS, most=MOST_PAIR_SEGMENTS
            ),
        )


def checked_tables(tables: object, known: Collection[str], lacking: Mapping[str, str]) -> list[str]:
    """Names of tables, each once. Raises ConfigError for one that is not known, or that lacks what it needs."""
    if not _is_list(tables) or isinstance(tables, Mapping):
        raise ConfigError(f"tables must be a list of tables, for example ['metrics', 'curves'], found {tables!r}.")
    unknown = [name for name in tables if name not in known]
    if unknown:
        raise ConfigError(f"tables: there is no {listed(unknown)}. There are: {listed(known, 20)}.")
    for name in tables:
        if name in lacking:
            raise ConfigError(f"tables: {name} needs {lacking[name]}.")
    return list(dict.fromkeys(tables))


def _metrics(names: object, parameters: Parameters) -> tuple[str, ...] | None:
    if names is None:
        return None
    if not _is_list(names) or isinstance(names, Mapping) or not names:
        raise ConfigError(f"metrics must be a list of metrics, for example ['roc_auc', 'ks'], or None, not {names!r}.")
    known, chosen = known_metrics(parameters), list(names)
    unknown = [name for name in chosen if not isinstance(name, str) or name not in known]
    if unknown:
        raise ConfigError(
            f"metrics: {listed(unknown)} is no metric of this evaluation. Those with a parameter need it, too, for "
            f"example fbeta_2 with beta=[2]. These are: {listed(known, 100)}."
        )
    return tuple(dict.fromkeys(chosen))


def checked_thresholds(thresholds: Sequence[float]) -> tuple[float, ...]:
    """Thresholds as floats, each once. Raises ConfigError for what is not a number."""
    return _at_most(MOST, "thresholds", _numbers("thresholds", thresholds, "[0.5]"))


def _numbers(name: str, numbers: object, example: str) -> tuple[float, ...]:
    """A list of numbers as floats, each once."""
    if not _is_list(numbers):
        raise ConfigError(f"{name} must be a list of numbers, for example {example}, found {numbers!r}.")
    values = list(numbers)
    wrong = [value for value in values if not _is_number(value)]
    if wrong:
        raise ConfigError(f"{name} must be numbers, found {listed(wrong)}.")
    return tuple(dict.fromkeys(float(value) + 0.0 for value in values))  # -0.0 is 0.0


def _betas(beta: Sequence[float]) -> tuple[float, ...]:
    values = _numbers("beta", beta, "[0.5, 1, 2]")
    wrong = [value for value in values if not 1e-6 <= value <= 1e6]
    if wrong:
        raise ConfigError(f"beta must be positive numbers, 1e-6 to 1e6, found {listed(wrong)}.")
    return values


def _cells(name: str, values: object, default: float) -> Cells:
    """A number for each cell; cells that are not given get the default."""
    cells = [field.name for field in fields(Cells)]
    if not isinstance(values, Mapping) or not values or not set(values) <= set(cells):
        raise ConfigError(f"{name} must give numbers for some of {listed(cells)}, found {values!r}.")
    wrong = {cell: value for cell, value in values.items() if not (_is_number(value) and abs(value) <= LARGEST)}
    if wrong:
        raise ConfigError(f"{name} must be finite numbers, at most {LARGEST:g}, found {wrong!r}.")
    return Cells(*(float(values.get(cell, default)) for cell in cells))


def _weights(values: object) -> Cells:
    if values is None:
        return ALIKE
    weights = _cells("accuracy_weights", values, default=1.0)
    if min(vars(weights).values()) < 0.0:
        raise ConfigError(f"accuracy_weights must not be negative, found {values!r}.")
    return weights


def _regions(regions: object) -> tuple[Region, ...]:
    """Stretches of the ROC curve: ("fpr", 0, 0.1) or {"fpr": [0, 0.1]}."""
    if not _is_list(regions) or isinstance(regions, Mapping):
        raise ConfigError(f'partial_auc must be a list, for example [{{"fpr": [0, 0.1]}}], found {regions!r}.')
    return tuple(dict.fromkeys(_region(region) for region in regions))


def _region(region: object) -> Region:
    ends: Any = region
    if isinstance(region, Mapping) and len(region) == 1:
        ((axis, limits),) = region.items()
        ends = (axis, *limits) if _is_list(limits) else region
    if _is_list(ends) and not isinstance(ends, Mapping):
        found = list(ends)
        if len(found) == 3 and found[0] in ("fpr", "tpr") and all(map(_is_number, found[1:])):
            axis, begin, end = found
            if 0.0 <= begin < end <= 1.0:
                return Region(axis, float(begin), float(end))
    raise ConfigError(
        f'partial_auc: {region!r} is no stretch of the ROC curve. Give ("fpr", 0, 0.1) or {{"fpr": [0, 0.1]}}, or the '
        "same of tpr, within 0 and 1."
    )


def _tops(tops: object) -> tuple[float, ...]:
    """Tops of the ranking: rows (100), fractions (0.01) or per cents ("1%")."""
    if not _is_list(tops):
        raise ConfigError(f"top_k must be a list, for example [100, 0.01], found {tops!r}.")
    return tuple(dict.fromkeys(_top(top) for top in tops))


def _top(top: object) -> float:
    value: object = top
    if isinstance(top, str) and top.strip().endswith("%"):
        try:
            value = float(top.strip()[:-1]) / 100.0
        except ValueError:
            value = None
        if isinstance(value, float) and not value < 1.0:
            value = None
    if isinstance(value, Real) and _is_number(value) and 0.0 < float(value) < math.inf:
        return float(value)
    raise ConfigError(f'top_k: {top!r} is neither a number of rows (100) nor a fraction below 1 of them (0.01, "1%").')


def _classes(classes: object) -> tuple[str, ...] | None:
    if classes is None:
        return None
    if not _is_list(classes) or isinstance(classes, Mapping):
        raise ConfigError(f"classes must be a list, for example ['a', 'b', 'c'], found {classes!r}.")
    _check_class_names("classes", classes)
    names = [class_name(c) for c in classes]
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice or not names:
        raise ConfigError(f"classes must name each class once, found {classes!r}.")
    return tuple(names)


def _check_class_names(argument: str, names: Iterable[object]) -> None:
    wrong = [name for name in names if not isinstance(name, (str, bool, Real))]
    if wrong:
        raise ConfigError(f"{argument}: a class is a string, a number or a boolean, found {listed(wrong)}.")


def _class_costs(costs: object) -> Mapping[str, Mapping[str, float]] | None:
    """{label: {predicted class: cost}} with the names that classes have in tables."""
    if costs is None:
        return None
    if not isinstance(costs, Mapping) or not costs or not all(isinstance(row, Mapping) for row in costs.values()):
        raise ConfigError(f"class_costs must be {{label: {{predicted class: cost}}}}, found {costs!r}.")
    _check_class_names("class_costs", [*costs, *(p for row in costs.values() for p in row)])
    table = {class_name(y): {class_name(p): cost for p, cost in row.items()} for y, row in costs.items()}
    wrong = [cost for row in table.values() for cost in row.values() if not (_is_number(cost) and abs(cost) <= LARGEST)]
    if wrong:
        raise ConfigError(f"class_costs must be finite numbers, at most {LARGEST:g}, found {listed(wrong)}.")
    return table


def _curve_metrics(names: object, parameters: Parameters, keys: Keys) -> tuple[str, ...]:
    known = threshold_metrics(parameters)
    if not _is_list(names):
        raise ConfigError(f"curve_metrics must be a list of metrics, for example ['accuracy', 'f1'], found {names!r}.")
    chosen = list(names)
    unknown = [name for name in chosen if not isinstance(name, str) or name not in known]
    if unknown:
        raise ConfigError(
            f"curve_metrics: {listed(unknown)} is no metric at a threshold. These are: {listed(known, 60)}."
        )
    columns = {key.lower() for key in keys.names}
    taken = [name for name in chosen if name in columns]
    if taken:
        raise ConfigError(f"curve_metrics: {listed(taken)} is also the name of a key column. Rename that column.")
    return tuple(name for name in dict.fromkeys(chosen) if name not in CURVE_COLUMNS)


def _count(name: str, value: object, also: str = "", least: int = 1, most: int = MOST) -> int:
    """A whole number from `least` to `most`."""
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < least:
        raise ConfigError(f"{name} must be a whole number of at least {least}{also}, found {value!r}.")
    if int(value) > most:
        raise ConfigError(f"{name} must be at most {most:,}, found {value!r}.")
    return int(value)


def _at_most(most: int, name: str, values: tuple[T, ...]) -> tuple[T, ...]:
    """The values, if they are not too many."""
    if len(values) > most:
        raise ConfigError(f"{name} must be at most {most:,} values, found {len(values):,}.")
    return values


def _is_number(value: object) -> bool:
    """Whether it is a real number, of Python or NumPy, that a double can hold, and no NaN."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    try:
        return not math.isnan(float(value))
    except OverflowError:
        return False


def _is_list(value: object) -> TypeGuard[Collection[Any]]:
    """Whether it holds values that can be read more than once."""
    return isinstance(value, Collection) and not isinstance(value, str)
