"""One pass over merged scores: their offsets laid beside them, the evaluator's task sent to the workers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from pyspark.sql import DataFrame

from sparkmetrics import evaluator
from sparkmetrics.evaluator import Task
from sparkmetrics.levels import Level
from sparkmetrics.metrics.parts import Part
from sparkmetrics.offsets import with_offsets
from sparkmetrics.score_counts import ScoreCounts
from sparkmetrics.workers import map_partitions


def scan(
    counts: ScoreCounts,
    levels: Sequence[Level],
    level_names: Sequence[str],
    *,
    emits: Iterable[str],
    parts: Sequence[Part] = (),
    strict: bool = False,
    curve_points: int | None = None,
    label: str | None = None,
) -> DataFrame:
    """What the evaluator emits of score counts.

    Parameters
    ----------
    counts : the state.
    levels, level_names : segment positions of each level, and its name.
    emits, parts, strict, curve_points, label : as in `evaluator.Task`.

    Returns
    -------
    The columns of `evaluator.emitted_schema`.
    """
    keys, kinds = counts.keys, frozenset(emits)
    task = Task(
        by=keys.by_columns,
        segments=keys.segment_columns,
        levels=tuple(levels),
        level_names=tuple(level_names),
        weighted=counts.weighted,
        strict=strict,
        parts=tuple(parts),
        curve_points=curve_points,
        emits=kinds,
        label=label,
    )
    scores = with_offsets(counts.merged, keys, levels, counts.sizing)
    return map_partitions(scores, partial(evaluator.evaluate, task=task), evaluator.emitted_schema(keys, kinds, parts))
