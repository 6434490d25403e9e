"""The state: for each (by, segments, distinct score) the weight of positives and of negatives. It adds up exactly."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sparkmetrics import merging, ranges, schemas
from sparkmetrics.columns import Keys, quote
from sparkmetrics.direct import Scan
from sparkmetrics.errors import SPARK_ERRORS, SchemaError, WriteError, first_line
from sparkmetrics.inspection import RowCounts
from sparkmetrics.joins import union_of
from sparkmetrics.merging import Merged
from sparkmetrics.origins import HERE_AND_THERE, OF_SCORES, Origin, fitting, note, note_of, with_note
from sparkmetrics.parquet_files import read_parquet
from sparkmetrics.ranges import Plan, Sizing

if TYPE_CHECKING:
    from sparkmetrics.evaluation import Evaluation

ROW_GROUP_BYTES = 16 * 1024 * 1024
"""Parquet row groups of saved counts: a reader unpacks one at a time, and packed counts grow many times over."""


class ScoreCounts:
    """The exact state of a binary evaluation: score counts of every (by, segments), which add up with `+`.

    Made by `score_counts` or `read_score_counts`. Lazy: rows are read when something made from it is.

    Attributes
    ----------
    keys : names and types of the `by` and segment columns.
    weighted : whether predictions carried weights.
    sizing : how work on it is cut into tasks.
    row_counts : of the predictions it was made from, or None.
    origin : the columns and the positive label it was made with; None where that is not known.
    """

    def __init__(
        self,
        keys: Keys,
        source: DataFrame,
        *,
        weighted: bool,
        of_predictions: bool,
        sizing: Sizing,
        plan: Plan | None = None,
        row_counts: RowCounts | None = None,
        scan: Scan | None = None,
        origin: Origin | None = None,
    ) -> None:
        self.keys = keys
        self.weighted = weighted
        self.sizing = sizing
        self.row_counts = row_counts
        self.origin = origin
        self._source = source
        self._of_predictions = of_predictions
        self._given_plan = plan
        self._scan = scan

    @cached_property
    def _plan(self) -> Plan:
        """Where every score goes: as was given, or from an action that finds cut points."""
        return self._given_plan or self._plan_of_counts()

    @cached_property
    def merged(self) -> Merged:
        """These counts brought together by score range, persisted. Where cells are persisted nothing is read again."""
        cells = self._merged_cells
        if cells is not None:
            return cells.pooled(range(len(self.keys.segments))).merged
        merged = self._merge()
        return Merged(merged.frame.persist(StorageLevel.MEMORY_AND_DISK), merged.plan)

    @property
    def _is_merged(self) -> bool:
        return "merged" in vars(self)

    @property
    def _merged_cells(self) -> CellCounts | None:
        cells: CellCounts | None = vars(self).get("cells")
        return cells if cells is not None and cells._is_merged else None

    @cached_property
    def cells(self) -> CellCounts | None:
        """The same counts with each (by, segments) as a `by` tuple of its own, where ranges would scatter them."""
        plan, is_merged = self._plan, self._is_merged  # what is persisted is not read again
        if plan.cells is None or not self.keys.segments:
            return None
        return CellCounts(
            self.keys.apart,
            self.merged.frame if is_merged else self._source,
            weighted=self.weighted,
            of_predictions=self._of_predictions and not is_merged,
            sizing=self.sizing,
            plan=plan.cells,
            scan=None if self._scan is None or is_merged else self._scan.apart,
            whole=(self.keys, replace(plan, cells=None)),
        )

    def _merge(self, packed: bool = True) -> Merged:
        return merging.merge(
            self._source,
            self.keys,
            replace(self._plan, cells=None),
            self.sizing,
            of_predictions=self._of_predictions,
            weighted=self.weighted,
            read=None if self._scan is None else self._scan.good_rows,
            packed=packed,
        )

    @property
    def frame(self) -> DataFrame:
        """The table `score_counts`: `by..., range, segments..., rows, positives, negatives, score, pos, neg`.

        One row is a stretch of at most 16,384 distinct scores, increasing, of one range and segment; `pos` and `neg`
        hold the weight of positives and negatives at each. `rows` stands on the first row of each stretch.
        """
        by, segments = self.keys.outward()
        scores = self._lists().select(*by, "range", *segments, *(f.name for f in schemas.SCORES))
        return schemas.conform(scores, schemas.score_counts(self.keys))

    def _lists(self) -> DataFrame:
        """Merged counts: those that are persisted, or else made for one use, so that nothing stays behind."""
        laid = self._merged_cells or (self if self._is_merged else self.cells or self)
        if laid._is_merged:
            return merging.unpacked(laid.merged.frame, laid.keys)
        return laid._merge(packed=False).frame

    def __add__(self, other: ScoreCounts) -> ScoreCounts:
        """The counts of both: exactly those of the union of their rows, whatever their cut points.

        Raises
        ------
        SchemaError : their key columns differ, or what they were made with: label, positive label, score, weight.
            States of unknown origin are checked by their key columns alone.
        """
        if not isinstance(other, ScoreCounts):
            return NotImplemented
        return added_score_counts([self, other])

    def __radd__(self, other: int) -> ScoreCounts:
        """`sum` begins with 0."""
        return self if other == 0 else NotImplemented

    def roll_up(self, segments: Sequence[str]) -> ScoreCounts:
        """The counts of fewer segment columns, pooled over the others.

        Raises
        ------
        ConfigError : a name that is not a segment column of these counts.
        """
        keys, columns = self.keys.rolled_up(segments)
        counts = self._counts().select(*columns, "range", *(f.name for f in schemas.SCORES))
        return ScoreCounts(
            keys, counts, weighted=self.weighted, of_predictions=False, sizing=self.sizing, origin=self.origin
        )

    def write(self, path: str, mode: str = "error") -> None:
        """Saves the counts as Parquet, to be read with `read_score_counts` or as plain arrays.

        Parameters
        ----------
        path : a folder that Spark can write.
        mode : Spark's save mode: "error" (default) refuses an existing folder, "overwrite" replaces it.

        Raises
        ------
        WriteError : the folder exists, or Spark cannot write there.
        """
        write_parquet(self.saved(), path, mode)

    def saved(self) -> DataFrame:
        """`frame`, with what `read_score_counts` must know kept as metadata of its column `score`."""
        return with_note(self.frame, "score", note(self.keys, self.weighted, self.origin))

    def evaluate(self, **options: Any) -> Evaluation:
        """Measures of these counts; the options are those of `sparkmetrics.evaluate` from `levels` on."""
        from sparkmetrics.evaluation import Evaluation  # the state knows its reader here alone
        from sparkmetrics.options import Options
        from sparkmetrics.states import States

        return Evaluation(States(self.keys, scores=self), Options.make(self.keys, **options))

    def unpersist(self) -> None:
        """Frees what the cluster keeps of these counts; they are made again when needed."""
        if self._is_merged:
            self.merged.frame.unpersist()
        if cells := vars(self).get("cells"):
            cells.unpersist()

    def _counts(self) -> DataFrame:
        """These counts under internal names, merged or not."""
        source = self._lists() if self._of_predictions else self._source
        columns = [*self.keys.columns, "range", *(f.name for f in schemas.SCORES)]
        # Spark makes one union of unions that have nothing in between: a sum of many is planned much faster.
        return source if source.columns == columns else source.select(*columns)

    def _plan_of_counts(self) -> Plan:
        """The cut points of counts that come from elsewhere: one action over the lengths of their arrays."""
        tuples = ranges.sampled_counts(self._source, self.keys, self.sizing)
        sample = ranges.collect_sample(tuples, self.sizing, [])
        return ranges.plan(sample, self.sizing, ranges.shuffle_partitions(self._source))


class CellCounts(ScoreCounts):
    """Score counts of which each (by, segments) is a `by` tuple of its own.

    A small one is whole in one row, wherever its hash falls; a large one is cut into ranges of its own.

    Attributes
    ----------
    whole : keys and plan of the counts that it is made from.
    """

    def __init__(self, keys: Keys, source: DataFrame, *, whole: tuple[Keys, Plan], **options: Any) -> None:
        super().__init__(keys, source, **options)
        self.whole = whole
        self._pooled: dict[frozenset[int], ScoreCounts] = {}

    def pooled(self, kept: Collection[int]) -> ScoreCounts:
        """The counts that it is made from, by score range, pooled over all but some segment columns, which are NULL.

        Of the groups that need offsets the plan knows an upper bound, the number of cells, but where all are pooled.
        """
        chosen = frozenset(kept)
        if chosen not in self._pooled:
            keys, plan = self.whole
            frame = self.merged.frame
            of_segments = zip(keys.segment_columns, keys.types[len(keys.by) :], strict=True)
            unused = {name: kind for place, (name, kind) in enumerate(of_segments) if place not in chosen}
            nothing = {name: F.lit(None).cast(kind) for name, kind in unused.items()}
            self._pooled[chosen] = ScoreCounts(
                keys,
                frame.withColumns(nothing) if nothing else frame,
                weighted=self.weighted,
                of_predictions=False,
                sizing=self.sizing,
                plan=plan if chosen else replace(plan, offset_rows=plan.ranges),
            )
        return self._pooled[chosen]

    def unpersist(self) -> None:
        """Frees what the cluster keeps of these counts, and of what was pooled."""
        super().unpersist()
        for counts in self._pooled.values():
            counts.unpersist()


def added_score_counts(
    counts: Sequence[ScoreCounts],
    places: Sequence[str] = HERE_AND_THERE,
    matters: Sequence[str] = OF_SCORES,
    what: str = "score counts",
) -> ScoreCounts:
    """The sum of any number of score counts: one union of all, which is merged once.

    Parameters
    ----------
    counts : at least one.
    places : where each stands, for messages.
    matters : what of their origins must be the same.
    what : they are, for messages.

    Raises
    ------
    SchemaError : they do not fit together.
    """
    origin = fitting(counts, matters, what, places)
    return ScoreCounts(
        counts[0].keys,
        union_of(one._counts() for one in counts),
        weighted=any(one.weighted for one in counts),
        of_predictions=False,
        sizing=counts[0].sizing,
        origin=origin,
    )


def read_score_counts(spark: SparkSession, path: str, sizing: Sizing | None = None) -> ScoreCounts:
    """Score counts that `ScoreCounts.write` or a job saved.

    Parameters
    ----------
    spark : session.
    path : the folder, or one day's folder of a job's `score_counts`.
    sizing : how work is cut into tasks.

    Raises
    ------
    DataError : the folder cannot be read as Parquet.
    SchemaError : it holds something else than score counts, or counts of a later format.
    """
    return counts_of_frame(read_parquet(spark, path), path, sizing or Sizing())


def write_parquet(frame: DataFrame, path: str, mode: str) -> None:
    """Saves a state as Parquet. Raises WriteError where the folder exists (mode "error") or Spark cannot write."""
    writer = frame.write.mode(mode).option("parquet.block.size", ROW_GROUP_BYTES)
    try:
        writer.parquet(path)
    except SPARK_ERRORS as error:
        raise WriteError(f"Could not write {path!r}: {first_line(error)}") from error


def counts_of_frame(frame: DataFrame, where: str, sizing: Sizing) -> ScoreCounts:
    """Score counts from a DataFrame with the columns of the table `score_counts`; more columns behind are left out."""
    names = frame.schema.names
    expected = [f.name for f in schemas.SCORES]
    types = {f.name: f.dataType for f in frame.schema}
    if "range" not in names or any(types.get(f.name) != f.dataType for f in schemas.SCORES):
        raise SchemaError(
            f"{where!r} does not hold score counts: expected columns by..., range, segments..., {', '.join(expected)}; "
            f"found {frame.schema.simpleString()}."
        )
    kept = note_of(frame, "score", where, "score counts")
    by, segments = names[: names.index("range")], names[names.index("range") + 1 : names.index("rows")]
    keys = Keys(tuple(by), tuple(segments), tuple(types[name] for name in (*by, *segments)))
    kept.check_names(keys, where, "score counts")
    columns = [F.col(quote(name)).alias(inside) for name, inside in zip(keys.names, keys.columns, strict=True)]
    counts = frame.select(*columns, "range", *expected)
    return ScoreCounts(keys, counts, weighted=kept.weighted, of_predictions=False, sizing=sizing, origin=kept.origin)
