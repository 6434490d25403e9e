"""Passes over merged scores: their offsets laid beside them, the evaluator's task sent to the workers.

Tables share a pass, or each makes the one it needs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import cached_property, partial, reduce

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sparkmetrics import evaluator, groups
from sparkmetrics.evaluator import GROUPS, PAIRS, POINTS, Task
from sparkmetrics.exact_sums import Sums
from sparkmetrics.levels import Level
from sparkmetrics.metrics import parts as parts_of
from sparkmetrics.metrics import probability, ranking
from sparkmetrics.metrics.list_parts import CellsAt
from sparkmetrics.metrics.parts import Part
from sparkmetrics.metrics.ranking import PLACEMENTS
from sparkmetrics.offsets import with_offsets
from sparkmetrics.options import Options
from sparkmetrics.pooling import with_largest
from sparkmetrics.score_counts import ScoreCounts
from sparkmetrics.segment_pairs import PairLevels, pair_wins
from sparkmetrics.segments import SEGMENT_PARTS, segment_sides, without_differences
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
    largest: DataFrame | None = None,
) -> DataFrame:
    """What the evaluator emits of score counts.

    Where ranges would scatter the groups of all segments together, these are evaluated whole, and what is pooled over
    segments range by range. Only what needs segments beside one another keeps all levels in one pass.

    Parameters
    ----------
    counts : the state.
    levels, level_names : segment positions of each level, and its name.
    emits, parts, strict, curve_points, label : as in `evaluator.Task`.
    largest : for pairs, the segments to name at crowded levels.

    Returns
    -------
    The columns of `evaluator.emitted_schema`.
    """
    kinds, finest = frozenset(emits), tuple(range(len(counts.keys.segments)))
    of_ranges = partial(
        _scan_ranges, parts=parts, strict=strict, curve_points=curve_points, label=label, largest=largest
    )
    alone = kinds & {GROUPS, POINTS}
    apart = alone and finest in levels and not any(part.needs_total for part in parts)
    cells = counts.cells if apart else None
    if cells is None:
        return of_ranges(counts, levels, level_names, kinds)
    found = [of_ranges(cells, [()], [level_names[list(levels).index(finest)]], alone)]
    others = [(level, name) for level, name in zip(levels, level_names, strict=True) if level != finest]
    if others:
        pooled = cells.pooled({position for level, _ in others for position in level})
        found.append(of_ranges(pooled, [level for level, _ in others], [name for _, name in others], alone))
    if kinds - alone:
        found.append(of_ranges(counts, levels, level_names, kinds - alone))
    return reduce(partial(DataFrame.unionByName, allowMissingColumns=True), found)


def _scan_ranges(
    counts: ScoreCounts,
    levels: Sequence[Level],
    level_names: Sequence[str],
    kinds: frozenset[str],
    *,
    parts: Sequence[Part],
    strict: bool,
    curve_points: int | None,
    label: str | None,
    largest: DataFrame | None,
) -> DataFrame:
    """`scan` in one pass over the ranges of the counts."""
    keys, offset_levels = counts.keys, tuple(levels)
    total = None
    if any(part.needs_total for part in parts):
        offset_levels = tuple(dict.fromkeys([*levels, ()]))
        total = offset_levels.index(())
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
        total=total,
    )
    scores = with_offsets(counts.merged, keys, offset_levels, counts.sizing)
    if largest is not None and PAIRS in kinds:
        scores = with_largest(scores, largest, keys)
    return map_partitions(scores, partial(evaluator.evaluate, task=task), evaluator.emitted_schema(keys, kinds, parts))


OF_GROUPS = frozenset({"metrics", "segment_disparity", "confusion", "gains", "calibration"})
"""The tables that are made from one row a group."""

OF_SIDES = frozenset({"segment_summary", "segment_gap"})
"""The tables that are made from segments beside what lies outside them."""

ALL_TABLES = OF_GROUPS | OF_SIDES | {"curves", "segment_auc"}
"""The tables that are made from scores."""


class Passes:
    """What the tables of one evaluation read.

    Attributes
    ----------
    counts : the state.
    options : what is evaluated.
    """

    def __init__(self, counts: ScoreCounts, options: Options) -> None:
        self.counts = counts
        self.options = options
        self._tables: frozenset[str] = ALL_TABLES
        self._shared: tuple[frozenset[str], DataFrame] | None = None
        self._groups: dict[tuple[Part, ...], DataFrame] = {}

    @property
    def cells(self) -> CellsAt:
        """The confusion counts at the thresholds of the evaluation."""
        return CellsAt("cells", self.options.thresholds)

    @property
    def pair_levels(self) -> PairLevels:
        """The levels that have pairs of segments."""
        levels, names = self.options.segment_levels
        return PairLevels(self.counts.keys, levels, names, self.options.max_pair_segments, self.counts.weighted)

    @cached_property
    def metric_parts(self) -> tuple[Part, ...]:
        """What the table of metrics is made from; placements also tell whether weights are whole numbers."""
        return tuple(dict.fromkeys([*parts_of(self.options.score_metrics).values(), PLACEMENTS, self.cells]))

    @property
    def parts(self) -> tuple[Part, ...]:
        """What the tables of groups that are wanted are made from."""
        parameters = self.options.parameters
        of_tables = {
            "metrics": self.metric_parts,
            "segment_disparity": self.metric_parts,
            "confusion": (self.cells,),
            "gains": (ranking.tops(parameters),),
            "calibration": (probability.score_bins(parameters),),
        }
        assert of_tables.keys() == OF_GROUPS
        return tuple(dict.fromkeys(p for table, found in of_tables.items() if table in self._tables for p in found))

    def groups_with(self, *wanted: Part) -> DataFrame:
        """One row a group with its totals and at least these parts, combined.

        What a table is made from is persisted, since another one may want the same; of tables that share a pass all
        parts together.
        """
        if not set(wanted) <= set(self.parts):
            return self.combined(wanted)
        for made, frame in self._groups.items():
            if set(wanted) <= set(made):
                return frame
        chosen = wanted if self._shared is None else self.parts
        self._groups[chosen] = self.combined(chosen).persist(StorageLevel.MEMORY_AND_DISK)
        return self._groups[chosen]

    @cached_property
    def segments(self) -> DataFrame:
        """One row a group with what tells it from the total; persisted, since it meets the sums of its level."""
        return self.combined(SEGMENT_PARTS).persist(StorageLevel.MEMORY_AND_DISK)

    @cached_property
    def sides(self) -> DataFrame:
        """Segments beside what lies outside them; persisted, since tables are made of it several times over."""
        keys, weighted = self.counts.keys, self.counts.weighted
        sides = segment_sides(self.segments, keys, self.pair_levels.names, Sums(weighted))
        if weighted:
            sides = without_differences(sides, self.pair_wins, keys)
        return sides.persist(StorageLevel.MEMORY_AND_DISK)

    @cached_property
    def pair_wins(self) -> DataFrame:
        """Twice the wins of every pair of segments; persisted, since with weights more than one table needs them."""
        found = pair_wins(self.rows(PAIRS), self.counts.merged.frame, self.largest, self.pair_levels)
        return found.persist(StorageLevel.MEMORY_AND_DISK)

    @cached_property
    def largest(self) -> DataFrame:
        """The segments that pair matrices name, where a level has more; persisted, so that all who ask get the same."""
        return self.pair_levels.largest(self.counts.merged.frame).persist(StorageLevel.MEMORY_AND_DISK)

    def combined(self, wanted: tuple[Part, ...]) -> DataFrame:
        """One row a group with its totals and these parts, combined."""
        return groups.combine(self.rows(GROUPS, wanted), self.counts.keys, wanted, self.counts.weighted)

    def rows(self, kind: str, wanted: tuple[Part, ...] = ()) -> DataFrame:
        """What workers emit of one kind: of GROUPS with these parts."""
        if self._shared is not None and kind in self._shared[0] and set(wanted) <= set(self._shared_parts):
            return self._shared[1].where(F.col("kind") == kind)
        return self._emit(frozenset({kind}), wanted)

    def share(self, tables: Collection[str]) -> None:
        """Makes one pass for these tables; it is kept until `unpersist`, or until another is shared."""
        self.unpersist()
        self._tables = ALL_TABLES & frozenset(tables)
        if self._tables:
            kinds = self._shared_kinds
            self._shared = (kinds, self._emit(kinds, self._shared_parts).persist(StorageLevel.MEMORY_AND_DISK))

    def unpersist(self) -> None:
        """Frees what the cluster keeps of passes; what is asked for later is made anew."""
        if self._shared is not None:
            self._shared[1].unpersist()
            self._shared = None
        for frame in self._groups.values():
            frame.unpersist()
        self._groups.clear()
        for name in ("segments", "sides", "pair_wins", "largest"):
            if name in vars(self):
                vars(self).pop(name).unpersist()

    @property
    def _shared_kinds(self) -> frozenset[str]:
        """What the one pass for the tables that are wanted emits."""
        tables, segments = self._tables, any(self.options.levels)
        numbered = "curves" in tables and self.options.curve_points is None
        emits = {
            GROUPS: bool(tables & (OF_GROUPS | OF_SIDES)) or numbered or self.options.min_group_rows > 0,
            POINTS: "curves" in tables,
            PAIRS: segments and ("segment_auc" in tables or (self.counts.weighted and bool(tables & OF_SIDES))),
        }
        return frozenset(kind for kind, wanted in emits.items() if wanted)

    @property
    def _shared_parts(self) -> tuple[Part, ...]:
        """What the one pass for the tables that are wanted is made from."""
        of_sides = SEGMENT_PARTS if any(self.options.levels) and self._tables & OF_SIDES else ()
        return tuple(dict.fromkeys([*self.parts, *of_sides]))

    def _emit(self, emits: frozenset[str], wanted: tuple[Part, ...]) -> DataFrame:
        options = self.options
        return scan(
            self.counts,
            options.levels,
            options.level_names,
            emits=emits,
            parts=wanted,
            strict=options.strict,
            curve_points=options.curve_points,
            largest=self.largest if PAIRS in emits else None,
        )
