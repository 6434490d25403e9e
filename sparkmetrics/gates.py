"""What a gate is: a metric of some groups, held against bounds or earlier days. Checked before anything runs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from sparkmetrics import schemas
from sparkmetrics.class_columns import class_name
from sparkmetrics.columns import TOTAL, Keys, listed
from sparkmetrics.errors import ConfigError
from sparkmetrics.key_values import key_text
from sparkmetrics.metrics import Metric
from sparkmetrics.metrics.intervals import quantile
from sparkmetrics.metrics.known import known_metrics
from sparkmetrics.metrics.registry import Best
from sparkmetrics.options import MOST_ROWS
from sparkmetrics.row_kinds import Source, chosen_kind, row_kinds, why_not

MOST_DAYS = {"days_ago": 3650, "median_of": 366}
"""Furthest that a gate looks back: every day of a median is read."""


@dataclass(frozen=True)
class Gate:
    """A check of one metric, as `Gate.make` gives it.

    Attributes
    ----------
    name : tells it from other gates.
    metric, average, class_, threshold : the rows that it judges; `threshold` is NULL for predicted classes.
    at_threshold : whether the metric is one at a threshold; others report the threshold where they are reached.
    level : its name.
    by, segments : values of key columns; columns that are left out take any.
    min, max : bounds of the value.
    max_drop : how much worse than the reference the value may be.
    min_ratio, max_ratio : bounds of value / reference.
    days_ago, median_of : the reference: the value so many days ago, or the median of the last days.
    min_rows : groups of fewer rows are not judged.
    z : the quantile of the interval beyond which alone it fails (`metrics.intervals.quantile`); None where the value
        counts.
    scale : the metric's least and largest value.
    best : which end of the metric is good.
    """

    name: str
    metric: str
    average: str | None
    class_: str | None
    threshold: float | None
    at_threshold: bool
    level: str
    by: Mapping[str, object]
    segments: Mapping[str, object]
    min: float | None
    max: float | None
    max_drop: float | None
    min_ratio: float | None
    max_ratio: float | None
    days_ago: int | None
    median_of: int | None
    min_rows: int
    z: float | None
    scale: tuple[float, float]
    best: Best

    @property
    def interval(self) -> bool:
        """Whether it fails only beyond the interval."""
        return self.z is not None

    @property
    def days(self) -> range:
        """How many days before the run date the days of the reference are; empty without one."""
        if self.days_ago is not None:
            return range(self.days_ago, self.days_ago + 1)
        return range(1, (self.median_of or 0) + 1)

    @property
    def days_needed(self) -> int:
        """How many of these days need a value: half of them."""
        return (len(self.days) + 1) // 2

    @classmethod
    def make(
        cls,
        of: Source,
        *,
        metric: str,
        level: str = TOTAL,
        by: Mapping[str, object] | None = None,
        segments: Mapping[str, object] | None = None,
        threshold: float | str | None = None,
        average: str | None = None,
        class_: object = None,
        min: float | None = None,
        max: float | None = None,
        max_drop: float | None = None,
        min_ratio: float | None = None,
        max_ratio: float | None = None,
        days_ago: int | None = None,
        median_of: int | None = None,
        min_rows: int = 0,
        beyond: str | None = None,
        name: str | None = None,
    ) -> Gate:
        """A checked gate; what each argument means is in docs/gates.md.

        Raises
        ------
        ConfigError : begins with the key that is wrong. Also for what could never judge, never pass or never fail.
        """
        _check_metric(of, metric)
        named_class = None if class_ is None else _class(of, class_)
        if not (kinds := row_kinds(of, metric)):
            raise ConfigError(f"metric: {metric!r} {why_not(of, metric)}.")
        kind = chosen_kind(kinds, metric, average, named_class is not None, threshold)
        found, has_interval = kinds[kind]
        by, segments = dict(by or {}), dict(segments or {})
        _check_where(of, level, by, segments)
        bounds = {"min": min, "max": max, "max_drop": max_drop, "min_ratio": min_ratio, "max_ratio": max_ratio}
        given = {key: float(bound) for key, bound in bounds.items() if bound is not None}
        reference = {key: days for key, days in (("days_ago", days_ago), ("median_of", median_of)) if days is not None}
        if beyond is not None and reference and not given.keys() & {"max_drop", "min_ratio", "max_ratio"}:
            given["max_drop"] = 0.0
        _check_reference(reference, given)
        _check_bounds(metric, found, given)
        _check_beyond(beyond, given, metric, has_interval)
        if not 0 <= min_rows <= MOST_ROWS:
            raise ConfigError(f"min_rows: must be a number of rows, 0 to {MOST_ROWS:g}, found {min_rows!r}.")
        if name is not None and not name:
            raise ConfigError("name: must not be empty; leave it out for one made of the other keys.")
        cut = kind.threshold if isinstance(kind.threshold, float) else None
        row = (
            metric,
            kind.average,
            None if named_class is None else f"of class {named_class}",
            None if cut is None else f"at {cut!r}",
        )
        limits = {**given, **reference, "min_rows": min_rows or None, "beyond": beyond}
        parts = (
            " ".join(filter(None, row)),
            level,
            *(f"{key}={'NULL' if value is None else value}" for key, value in {**by, **segments}.items()),
            *(f"{key} {value}" for key, value in limits.items() if value is not None),
        )
        return cls(
            name=name or ", ".join(parts),
            metric=metric,
            average=kind.average,
            class_=named_class,
            threshold=cut,
            at_threshold=kind.threshold is not None,
            level=level,
            by=by,
            segments=segments,
            **{key: given.get(key) for key in bounds},
            days_ago=days_ago,
            median_of=median_of,
            min_rows=min_rows,
            z=None if beyond is None else quantile(of.options.parameters.confidence),
            scale=found.range,
            best=found.best,
        )


def checked_gates(of: Source, asked: Sequence[Mapping[str, Any]]) -> tuple[tuple[Gate, ...], list[str]]:
    """Gates from the arguments of each, and what is wrong with them: lines that begin with the position and the key."""
    gates: list[Gate] = []
    problems: list[str] = []
    first: dict[str, int] = {}
    ours = {field.name for field in schemas.GATES}
    taken = [name for name in of.keys.names if name.lower() in ours]
    if asked and taken:
        problems.append(
            f"gates: the key column {listed(taken)} has the name of a column of the table gates. Rename that column."
        )
    for position, arguments in enumerate(asked):
        try:
            gate = Gate.make(of, **arguments)
        except ConfigError as error:
            problems.append(f"gates.{position}.{error}")
            continue
        if first.setdefault(gate.name, position) != position:
            problems.append(f"gates.{position}.name: {gate.name!r} is also the name of gates.{first[gate.name]}.")
        gates.append(gate)
    return tuple(gates), problems


def check_values(gates: Iterable[Gate], keys: Keys) -> None:
    """Raises ConfigError where a gate names a value that its key column cannot have; `keys` with their types."""
    kinds = dict(zip(keys.names, keys.types, strict=True))
    for position, gate in enumerate(gates):
        for key, values in (("by", gate.by), ("segments", gate.segments)):
            for name, value in values.items():
                key_text(value, kinds[name], f"gates.{position}.{key}.{name}")


# --- the keys of a gate


def _check_metric(of: Source, name: str) -> None:
    known = known_metrics(of.options.parameters)
    if name not in known:
        raise ConfigError(
            f"metric: there is no {name!r} in this evaluation. Those with a parameter need it under evaluate, too. "
            f"These are: {listed(known, 100)}."
        )
    if not of.options.wants(name):
        raise ConfigError(f"metric: {name!r} is not among evaluate.metrics, so it is not computed. Add it there.")


def _class(of: Source, value: object) -> str:
    if not isinstance(value, (str, bool, int, float)):
        raise ConfigError(f"class: a class is a string, a number or a boolean, found {value!r}.")
    name, declared = class_name(value), of.options.classes
    if declared is not None and name not in declared:
        raise ConfigError(f"class: {name!r} is not among evaluate.classes: {listed(declared)}.")
    return name


def _check_where(of: Source, level: str, by: Mapping[str, object], segments: Mapping[str, object]) -> None:
    names = of.options.level_names
    if level not in names:
        raise ConfigError(f"level: {level!r} is not evaluated. Levels are: {listed(names)}.")
    columns = [of.keys.segments[i] for i in of.options.levels[names.index(level)]]
    for key, values, known in (("by", by, of.keys.by), ("segments", segments, columns)):
        unknown = [name for name in values if name not in known]
        if unknown:
            what = "a by column" if key == "by" else f"a segment column of level {level!r}"
            raise ConfigError(f"{key}.{unknown[0]}: {unknown[0]!r} is not {what}. These are: {listed(known)}.")
        for name, value in values.items():
            if not isinstance(value, (str, bool, int, float, date, type(None))):
                raise ConfigError(f"{key}.{name}: a value is a string, number, boolean, date or null, found {value!r}.")


def _check_bounds(name: str, metric: Metric, given: Mapping[str, float]) -> None:
    """That each bound is one that values can be on both sides of."""
    low, high = metric.range
    if not given:
        raise ConfigError("metric: the gate has no bound. Give min, max, max_drop, min_ratio or max_ratio.")
    for key, bound in given.items():
        if not math.isfinite(bound):
            raise ConfigError(f"{key}: must be a finite number, found {bound!r}.")
        if key in ("min", "max") and not low <= bound <= high:
            raise ConfigError(f"{key}: {name} is {low:g} to {high:g}, found {bound!r}.")
        if key == "max_drop" and metric.best is None:
            raise ConfigError(f"max_drop: neither end of {name} is good. Bound it by ratios, or by min and max.")
        if key == "max_drop" and not 0.0 <= bound < high - low:
            raise ConfigError(f"max_drop: a drop of {name} is at least 0 and below {high - low:g}, not {bound}.")
        if key.endswith("ratio") and low < 0.0:
            raise ConfigError(f"{key}: {name} can be negative, and then a ratio says nothing. Use max_drop.")
        if key.endswith("ratio") and bound <= 0.0:
            raise ConfigError(f"{key}: must be above 0, found {bound!r}.")
    for least, most in (("min", "max"), ("min_ratio", "max_ratio")):
        if given.get(least, -math.inf) > given.get(most, math.inf):
            raise ConfigError(f"{least}: is {given[least]!r}, above {most} {given[most]!r}.")


def _check_reference(reference: Mapping[str, int], given: Mapping[str, float]) -> None:
    needing = [key for key in ("max_drop", "min_ratio", "max_ratio") if key in given]
    if len(reference) > 1:
        raise ConfigError("days_ago: give either days_ago or median_of, not both.")
    if needing and not reference:
        raise ConfigError(f"{needing[0]}: compares with earlier days: give days_ago or median_of, too.")
    for key, days in reference.items():
        if not needing:
            raise ConfigError(f"{key}: nothing is compared with it: give max_drop, min_ratio or max_ratio, too.")
        if not 1 <= days <= MOST_DAYS[key]:
            raise ConfigError(f"{key}: must be a number of days, 1 to {MOST_DAYS[key]:,}, found {days!r}.")


def _check_beyond(beyond: str | None, given: Mapping[str, float], metric: str, has_interval: bool) -> None:
    if beyond is None:
        return
    if beyond != "interval":
        raise ConfigError(f"beyond: must be 'interval' or null, found {beyond!r}.")
    ratios = [key for key in given if key.endswith("ratio")]
    if ratios:
        raise ConfigError(f"beyond: intervals go with min, max and max_drop; make {ratios[0]} a gate of its own.")
    if not has_interval:
        raise ConfigError(f"beyond: {metric} has no interval here (lower and upper in the table metrics).")
