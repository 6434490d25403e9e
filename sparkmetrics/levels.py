"""Levels: subsets of the segment columns that rows are pooled by."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import combinations
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sparkmetrics.columns import TOTAL, Keys, listed
from sparkmetrics.errors import ConfigError

Level = tuple[int, ...]
"""A level as the positions of its segment columns; the empty one is the total."""

Levels = str | Sequence[str | Sequence[str]]
"""Levels as users write them: a shorthand, or a list of shorthands, column names and lists of column names."""

MOST_LEVELS = 1024
"""Every level is evaluated on its own: a cube of ten columns has this many."""


def _each(count: int) -> list[Level]:
    return [(position,) for position in range(count)]


def _rollup(count: int) -> list[Level]:
    return [tuple(range(size)) for size in range(count + 1)]


def _cube(count: int) -> list[Level]:
    return [level for size in range(count + 1) for level in combinations(range(count), size)]


SHORTHANDS: dict[str, Callable[[int], list[Level]]] = {
    TOTAL: lambda count: [()],
    "each": _each,
    "rollup": _rollup,
    "cube": _cube,
}
"""Levels by name, of so many segment columns: the total, each column alone, the hierarchy from the total to all of them
in their order, and every subset."""


def chosen_levels(keys: Keys, levels: object) -> tuple[Level, ...]:
    """Levels as positions, each once; by default the total, each segment column alone, and all of them crossed.

    Parameters
    ----------
    keys : the segment columns.
    levels : `Levels`, or None for the default.

    Raises
    ------
    ConfigError : something else, or a name that is no segment column.
    """
    count = len(keys.segments)
    if levels is None:
        return tuple(dict.fromkeys([(), *_each(count), tuple(range(count))]))
    if not isinstance(levels, Collection):
        raise _not_levels(levels)
    asked: list[Any] = [levels] if isinstance(levels, str) else list(levels)
    if not asked:
        raise ConfigError("levels is empty: give at least one level; [] inside the list is the total.")
    if "cube" in asked and 2**count > MOST_LEVELS:
        raise ConfigError(
            f"levels: a cube of {count} segment columns has {2**count:,} levels, and {MOST_LEVELS:,} are the most. "
            "Name the levels that you need."
        )
    named = [_shorthand_or_names(keys, item, levels) for item in asked]
    unknown = [name for item in named if not isinstance(item, str) for name in item if name not in keys.segments]
    if unknown:
        raise ConfigError(
            f"levels: {listed(unknown)} is not a segment column. These are: {listed(keys.segments)}. "
            f"Shorthands are: {listed(SHORTHANDS)}."
        )
    chosen: dict[Level, None] = {}
    for item in named:
        of_item = (
            SHORTHANDS[item](count) if isinstance(item, str) else [tuple(sorted(map(keys.segments.index, {*item})))]
        )
        chosen |= dict.fromkeys(of_item)
    if len(chosen) > MOST_LEVELS:
        raise ConfigError(f"levels: at most {MOST_LEVELS:,} levels, found {len(chosen):,}.")
    return tuple(chosen)


def _shorthand_or_names(keys: Keys, item: object, levels: object) -> str | list[str]:
    """An element of a list of levels: a shorthand as it is, anything else as a list of columns."""
    if isinstance(item, str):
        if item in SHORTHANDS and item in keys.segments:
            raise ConfigError(
                f"levels: {item!r} is a shorthand and also a segment column. Write [{item!r}] for the column."
            )
        return item if item in SHORTHANDS else [item]
    if not isinstance(item, Collection) or not all(isinstance(name, str) for name in item):
        raise _not_levels(levels)
    return list(item)


def _not_levels(levels: object) -> ConfigError:
    return ConfigError(
        f"levels must be lists of segment columns, for example [[], ['country']], or one of {listed(SHORTHANDS)}, "
        f"found {levels!r}."
    )


def group_columns(keys: Keys) -> list[str]:
    """The columns that tell one group from another: `by..., level, segments...`."""
    return [*keys.by_columns, "level", *keys.segment_columns]


def at_levels(frame: DataFrame, keys: Keys, levels: Sequence[Level], names: Sequence[object]) -> DataFrame:
    """Every row once for each level: `by..., level, segments...` and the other columns, to be summed by the first.

    Parameters
    ----------
    frame : internal key columns and others.
    levels : segment positions of each level; segments that a level does not use become NULL.
    names : what stands for each level in the column `level`.
    """
    leveled = frame.withColumn("level", F.explode(F.array(*map(F.lit, names))))
    segments = []
    for position, column in enumerate(keys.segment_columns):
        using = [name for name, level in zip(names, levels, strict=True) if position in level]
        segments.append(F.when(F.col("level").isin(using), F.col(column)).alias(column))
    others = [name for name in frame.columns if name not in keys.columns]
    return leveled.select(*keys.by_columns, "level", *segments, *others)
