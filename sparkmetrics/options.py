"""What to evaluate: levels, thresholds, rule and curve points, checked before anything runs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sparkmetrics.columns import Keys, level_name, listed
from sparkmetrics.errors import ConfigError
from sparkmetrics.offsets import Level

RULES = (">=", ">")
"""When a score is a predicted positive at a threshold."""


@dataclass(frozen=True)
class Options:
    """What to evaluate.

    Attributes
    ----------
    levels : segment positions of each level; the empty one is the total.
    level_names : their names.
    thresholds : where confusion counts are taken, in the order given.
    strict : rule ">" instead of ">=".
    curve_points : thinning of curves; None keeps every distinct score.
    """

    levels: tuple[Level, ...]
    level_names: tuple[str, ...]
    thresholds: tuple[float, ...]
    strict: bool
    curve_points: int | None

    @classmethod
    def make(
        cls,
        keys: Keys,
        *,
        levels: Sequence[Sequence[str]] | None = None,
        thresholds: Sequence[float] = (0.5,),
        threshold_rule: str = ">=",
        curve_points: int | None = 1000,
    ) -> Options:
        """Checked options; the parameters are those of `evaluate`. Raises ConfigError."""
        if threshold_rule not in RULES:
            raise ConfigError(f"threshold_rule must be one of {listed(RULES)}, found {threshold_rule!r}.")
        whole = isinstance(curve_points, int) and not isinstance(curve_points, bool)
        if curve_points is not None and not (whole and curve_points >= 1):
            raise ConfigError(f"curve_points must be a whole number of at least 1, or None, found {curve_points!r}.")
        chosen = _levels(keys, levels)
        names = tuple(level_name([keys.segments[i] for i in level]) for level in chosen)
        return cls(chosen, names, checked_thresholds(thresholds), threshold_rule == ">", curve_points)


def _levels(keys: Keys, levels: Sequence[Sequence[str]] | None) -> tuple[Level, ...]:
    """Levels as positions; by default the total, each segment column alone, and all of them crossed."""
    if levels is None:
        levels = [[], *([name] for name in keys.segments), list(keys.segments)]
    if not _is_list(levels) or not all(_is_list(level) for level in levels):
        raise ConfigError(f"levels must be lists of segment columns, for example [[], ['country']], found {levels!r}.")
    unknown = [name for level in levels for name in level if name not in keys.segments]
    if unknown:
        raise ConfigError(f"levels: {listed(unknown)} is not a segment column. These are: {listed(keys.segments)}.")
    chosen = [tuple(sorted({keys.segments.index(name) for name in level})) for level in levels]
    if not chosen:
        raise ConfigError("levels is empty: give at least one level; [] inside the list is the total.")
    return tuple(dict.fromkeys(chosen))


def checked_thresholds(thresholds: Sequence[float]) -> tuple[float, ...]:
    """Thresholds as floats, each once. Raises ConfigError for what is not a number."""
    if not _is_list(thresholds):
        raise ConfigError(f"thresholds must be a list of numbers, for example [0.5], found {thresholds!r}.")
    try:
        values = tuple(dict.fromkeys(float(threshold) for threshold in thresholds))
    except (TypeError, ValueError):
        raise ConfigError(f"thresholds must be numbers, found {thresholds!r}.") from None
    if any(math.isnan(value) for value in values):
        raise ConfigError("thresholds must be numbers, found NaN.")
    return values


def _is_list(value: object) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str)
