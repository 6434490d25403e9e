"""The registry: every metric with its formula, range, direction and undefined case. Output, docs and tests read it.

A metric without parameters is one function under its own name. One with parameters is a function of these too, and
`each` says which metrics it makes of the parameters of an evaluation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from sparkmetrics.metrics.arithmetic import Number
from sparkmetrics.metrics.counts import Cells, Totals
from sparkmetrics.metrics.parameters import Parameters
from sparkmetrics.metrics.parts import Part

Best = Literal["highest", "lowest"] | None

Each = Callable[[Parameters], Mapping[str, Mapping[str, Any]]]
"""The names of the metrics that an evaluation asks for, with the arguments of each."""

Formula = Callable[..., Number]

UNBOUNDED = (float("-inf"), float("inf"))


@dataclass(frozen=True)
class Metric:
    """What is true of any metric.

    Attributes
    ----------
    name : as it stands in the table `metrics`.
    shown : as it stands in the docs, where a parameter has a letter: `fbeta_B`.
    purpose : one line.
    formula : for people.
    needs : counts that must not be 0, or the value is NULL; the first that is 0 is the reason.
    best : which end is good; None where neither is.
    range : least and largest value.
    source : paper or book, where the definition is not obvious.
    averaged : whether K classes have its macro, micro and weighted average.
    of_pairs : whether it is a share of P N, which is NULL where that product has lost its digits.
    also_undefined : further cases, for people.
    """

    name: str
    shown: str
    purpose: str
    formula: str
    needs: tuple[str, ...]
    best: Best
    range: tuple[float, float]
    source: str
    averaged: bool
    of_pairs: bool = field(default=False, kw_only=True)
    also_undefined: str = field(default="", kw_only=True)

    def undefined_when(self) -> str:
        """The undefined cases as a phrase: "no positives", "no positives, or no negatives"."""
        cases = [*(reason(need) for need in self.needs), self.also_undefined]
        return ", or ".join(case for case in cases if case)


@dataclass(frozen=True)
class ThresholdMetric(Metric):
    """A metric of the confusion counts at a threshold, or of hard predictions.

    Attributes
    ----------
    value : the metric from the cells.
    proportion_of : the count that it is a proportion of, which makes Wilson's interval right; None for others.
    """

    value: Callable[[Cells], Number]
    proportion_of: str | None


@dataclass(frozen=True)
class Interval:
    """How a metric of scores gets its interval.

    Attributes
    ----------
    part : what it is made from.
    bounds : (value, combined part, totals, z) -> lower, upper.
    """

    part: Part
    bounds: Callable[[Number, Number, Totals, float], tuple[Number, Number]]


@dataclass(frozen=True)
class ScoreMetric(Metric):
    """A metric of all scores of a group.

    Attributes
    ----------
    part : what ranges contribute, and how contributions combine.
    value : the metric from the combined part and the group's totals.
    undefined : further reasons to be NULL: (combined part, totals) -> {reason: whether it holds}.
    probability : whether scores must lie in [0, 1].
    interval : how it gets its interval, or None.
    """

    part: Part
    value: Callable[[Number, Totals], Number]
    undefined: Callable[[Number, Totals], Mapping[str, Number]]
    probability: bool
    interval: Interval | None

    @property
    def parts(self) -> tuple[Part, ...]:
        """What the metric and its interval are made from."""
        return (self.part, *([self.interval.part] if self.interval else []))


THRESHOLD: list[Callable[[Parameters], Iterable[ThresholdMetric]]] = []
"""Metrics of the confusion counts, in the order they were registered."""

ScoreMaker = Callable[[Parameters], Iterable[ScoreMetric]]

SCORE: list[ScoreMaker] = []
"""Metrics of all scores of a group: rankings, best thresholds and probabilities."""


def threshold_metrics(parameters: Parameters) -> dict[str, ThresholdMetric]:
    """The metrics at thresholds that an evaluation with these parameters has, by name."""
    return {metric.name: metric for make in THRESHOLD for metric in make(parameters)}


def score_metrics(parameters: Parameters) -> dict[str, ScoreMetric]:
    """The metrics of scores that an evaluation with these parameters has, by name."""
    return {metric.name: metric for make in SCORE for metric in make(parameters)}


def parts(metrics: Iterable[ScoreMetric]) -> dict[str, Part]:
    """Every part that metrics and their intervals are made from, once."""
    found: dict[str, Part] = {}
    for metric in metrics:
        for part in metric.parts:
            if found.setdefault(part.name, part) != part:
                raise ValueError(
                    f"{metric.name}: another part has the name {part.name!r}; parts are columns, and need names of "
                    "their own."
                )
    return found


def reason(need: str) -> str:
    """The reason a value is undefined where the count of that name is 0."""
    return "no " + need.replace("_", " ")


def threshold_metric(
    *,
    formula: str,
    needs: tuple[str, ...],
    best: Best,
    range: tuple[float, float] = (0.0, 1.0),
    source: str = "",
    name: str | None = None,
    each: Each | None = None,
    proportion_of: str | None = None,
    averaged: bool = False,
    of_pairs: bool = False,
    also_undefined: str = "",
) -> Callable[[Formula], Formula]:
    """Registers a function of `Cells` (and parameters) as a metric; its docstring is the purpose.

    Parameters
    ----------
    formula, needs, best, range, source, proportion_of, averaged, of_pairs, also_undefined : of `ThresholdMetric`.
    name : where it is not the function's; with a letter for each parameter.
    each : the metrics that the parameters ask for; None makes one, without arguments.
    """

    def register(value: Formula) -> Formula:
        shown = name or value.__name__

        def make(parameters: Parameters) -> Iterable[ThresholdMetric]:
            for full_name, arguments in _each(each, shown, parameters).items():
                yield ThresholdMetric(
                    name=full_name,
                    shown=shown,
                    purpose=_purpose(value),
                    formula=formula,
                    needs=needs,
                    best=best,
                    range=range,
                    source=source,
                    averaged=averaged,
                    of_pairs=of_pairs,
                    also_undefined=also_undefined,
                    value=partial(value, **arguments),
                    proportion_of=proportion_of,
                )

        THRESHOLD.append(make)
        return value

    return register


def score_metric(
    *,
    part: Part | Callable[..., Part],
    formula: str,
    needs: tuple[str, ...],
    best: Best,
    range: tuple[float, float],
    source: str = "",
    name: str | None = None,
    each: Each | None = None,
    undefined: Callable[..., Mapping[str, Number]] | None = None,
    probability: bool = False,
    interval: Interval | None = None,
    averaged: bool = False,
    of_pairs: bool = False,
    also_undefined: str = "",
    into: list[ScoreMaker] = SCORE,
) -> Callable[[Formula], Formula]:
    """Registers a function of a combined part, the group's `Totals` and parameters as a metric.

    Parameters
    ----------
    part : of `ScoreMetric`; with parameters a function of them.
    formula, needs, best, range, source, undefined, probability, interval, averaged, of_pairs, also_undefined : of
        `ScoreMetric`.
    name, each : as in `threshold_metric`.
    into : the list it joins.
    """

    def register(value: Formula) -> Formula:
        shown = name or value.__name__

        def make(parameters: Parameters) -> Iterable[ScoreMetric]:
            for full_name, arguments in _each(each, shown, parameters).items():
                yield ScoreMetric(
                    name=full_name,
                    shown=shown,
                    purpose=_purpose(value),
                    formula=formula,
                    needs=needs,
                    best=best,
                    range=range,
                    source=source,
                    averaged=averaged,
                    of_pairs=of_pairs,
                    also_undefined=also_undefined or ("scores outside [0, 1]" if probability else ""),
                    part=part if isinstance(part, Part) else part(**arguments),
                    value=partial(value, **arguments),
                    undefined=partial(undefined or _never, **arguments),
                    probability=probability,
                    interval=interval,
                )

        into.append(make)
        return value

    return register


def _each(each: Each | None, shown: str, parameters: Parameters) -> Mapping[str, Mapping[str, Any]]:
    return {shown: {}} if each is None else each(parameters)


def _never(part: Number, totals: Totals, /, **arguments: Any) -> Mapping[str, Number]:
    return {}


def _purpose(value: Formula) -> str:
    return (value.__doc__ or "").strip().splitlines()[0].rstrip(".")
