"""The registry: every metric with its formula, range, direction and undefined case. Output, docs and tests read it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from sparkmetrics.metrics.arithmetic import Number
from sparkmetrics.metrics.counts import Cells, Totals
from sparkmetrics.metrics.parts import Part

Best = Literal["highest", "lowest"] | None

THRESHOLD: dict[str, ThresholdMetric] = {}
"""Metrics of the confusion counts at a threshold, in the order they were registered."""

SCORE: dict[str, ScoreMetric] = {}
"""Metrics of all scores of a group: rankings and probabilities."""


@dataclass(frozen=True)
class Metric:
    """What is true of any metric.

    Attributes
    ----------
    name : as it stands in the table `metrics`.
    purpose : one line.
    formula : for people.
    needs : counts that must not be 0, or the value is NULL; the first that is 0 is the reason.
    best : which end is good; None where neither is.
    range : least and largest value.
    source : paper or book, where the definition is not obvious.
    """

    name: str
    purpose: str
    formula: str
    needs: tuple[str, ...]
    best: Best
    range: tuple[float, float]
    source: str

    def undefined_when(self) -> str:
        """The undefined cases as a phrase: "no positives", "no positives, or no negatives"."""
        return ", or ".join(reason(need) for need in self.needs)


@dataclass(frozen=True)
class ThresholdMetric(Metric):
    """A metric of the confusion counts at a threshold."""

    value: Callable[[Cells], Number]


@dataclass(frozen=True)
class ScoreMetric(Metric):
    """A metric of all scores of a group.

    Attributes
    ----------
    part : what ranges contribute, and how contributions combine.
    value : the metric from the combined part and the group's totals.
    probability : whether scores must lie in [0, 1].
    """

    part: Part
    value: Callable[[Number, Totals], Number]
    probability: bool


def reason(need: str) -> str:
    """The reason a value is undefined where the count of that name is 0."""
    return "no " + need.replace("_", " ")


def threshold_metric(
    *, formula: str, needs: str, best: Best, range: tuple[float, float] = (0.0, 1.0), source: str = ""
) -> Callable[[Callable[[Cells], Number]], Callable[[Cells], Number]]:
    """Registers a function of `Cells` as a metric under its own name; its docstring is the purpose."""

    def register(value: Callable[[Cells], Number]) -> Callable[[Cells], Number]:
        name = value.__name__
        THRESHOLD[name] = ThresholdMetric(name, _purpose(value), formula, (needs,), best, range, source, value)
        return value

    return register


def score_metric(
    *,
    part: Part,
    formula: str,
    needs: tuple[str, ...],
    best: Best,
    range: tuple[float, float],
    source: str = "",
    probability: bool = False,
) -> Callable[[Callable[[Number, Totals], Number]], Callable[[Number, Totals], Number]]:
    """Registers a function of a combined part and the group's `Totals` as a metric under its own name."""

    def register(value: Callable[[Number, Totals], Number]) -> Callable[[Number, Totals], Number]:
        name = value.__name__
        if parts().get(part.name, part) != part:
            raise ValueError(
                f"{name}: another part has the name {part.name!r}; parts are columns, and need names of their own."
            )
        SCORE[name] = ScoreMetric(name, _purpose(value), formula, needs, best, range, source, part, value, probability)
        return value

    return register


def parts() -> dict[str, Part]:
    """Every part that a registered metric is made from, once."""
    return {metric.part.name: metric.part for metric in SCORE.values()}


def _purpose(value: Callable[..., Number]) -> str:
    return (value.__doc__ or "").strip().splitlines()[0].rstrip(".")
