"""Class probabilities -> the long table of metrics: one-vs-rest, one-vs-one, top-k, log loss, Brier, in one plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from sparkmetrics import groups, schemas
from sparkmetrics.class_counts import sum_of_weights
from sparkmetrics.class_scores import CLASS, ClassScores
from sparkmetrics.columns import Keys, level_name
from sparkmetrics.evaluator import GROUPS, VERSUS
from sparkmetrics.kernel import EXACT
from sparkmetrics.levels import Level, at_levels, group_columns
from sparkmetrics.metric_rows import metric_table
from sparkmetrics.metrics import Parameters, ScoreMetric, parts, reason, score_metrics
from sparkmetrics.metrics.intervals import quantile, wilson
from sparkmetrics.metrics.list_parts import CellsAt
from sparkmetrics.metrics.multiclass import POOLED, ROC_AUC_OVO, top_k_metrics
from sparkmetrics.metrics.pair_parts import LEAST_PRODUCT, TOO_SMALL, auc_of, exact_total
from sparkmetrics.metrics.parts import Part
from sparkmetrics.passes import scan

NO_CELLS = CellsAt("cells", ())
"""Scores of classes are not cut at thresholds."""


@dataclass(frozen=True)
class ProbabilityTask:
    """What to evaluate of class probabilities.

    Attributes
    ----------
    state : the class probabilities.
    keys : the user's key columns: those of the state without `class` and `label`.
    levels, names : of the evaluation.
    parameters : of metrics; `top_k` of whole numbers asks for top-k accuracy.
    """

    state: ClassScores
    keys: Keys
    levels: tuple[Level, ...]
    names: tuple[str, ...]
    parameters: Parameters

    @property
    def class_names(self) -> list[str]:
        """The names of the levels with the segment `class` behind."""
        return [level_name([*(self.keys.segments[i] for i in level), CLASS]) for level in self.levels]

    @property
    def averaged(self) -> list[ScoreMetric]:
        """Metrics of each class against the rest."""
        return [metric for metric in score_metrics(self.parameters).values() if metric.averaged]

    @property
    def pooled(self) -> list[ScoreMetric]:
        """Metrics of all classes together."""
        return [metric for make in POOLED for metric in make(self.parameters)]

    @property
    def parts(self) -> tuple[Part, ...]:
        """What these metrics are made from."""
        return (*parts([*self.averaged, *self.pooled]).values(), NO_CELLS)

    @cached_property
    def found(self) -> DataFrame:
        """What one pass over the scores of all classes finds; persisted, since several tables are made from it."""
        return scan_classes(self).persist(StorageLevel.MEMORY_AND_DISK)

    def unpersist(self) -> None:
        """Frees what the cluster keeps of the pass."""
        if "found" in vars(self):
            self.found.unpersist()


def scan_classes(task: ProbabilityTask) -> DataFrame:
    """The one pass over the scores of all classes."""
    by_class = [(*level, len(task.keys.segments)) for level in task.levels]
    return scan(
        task.state.counts,
        [*by_class, *task.levels],
        [*task.class_names, *task.names],
        emits=(GROUPS, VERSUS),
        parts=task.parts,
        label=task.state.counts.keys.segment_columns[-1],
    )


def probability_metrics(task: ProbabilityTask) -> DataFrame:
    """The long table of metrics of class probabilities.

    Returns
    -------
    Keys, `level` and the columns of `schemas.METRICS`. `roc_auc` and `average_precision` of each class against the
    rest, their averages macro, micro and weighted (by prevalence); `roc_auc_ovo` (Hand and Till) macro and weighted;
    `log_loss`, `brier` and `top_k_accuracy_K`.
    """
    keys, counts, classes, found = task.keys, task.state.counts, len(task.state.classes), task.found
    column = counts.keys.segment_columns[len(keys.segments)]
    combined = groups.combine(found.where(F.col("kind") == GROUPS), counts.keys, task.parts, counts.weighted)
    of_classes = _renamed(combined, task)
    together = combined.where(F.col("level").isin(list(task.names))).withColumn("rows", F.col("rows") / classes)
    class_rows = _rows(of_classes, task.averaged, task).withColumn("class", F.col(column))
    is_micro = F.col("metric").isin([metric.name for metric in task.averaged])
    # A row's scores are not independent of one another, which DeLong's interval takes them to be.
    whole = _rows(together, [*task.averaged, *task.pooled], task).withColumns(
        {"average": F.when(is_micro, F.lit("micro")), **_nothing("lower", "upper")}
    )
    against = _renamed(found.where(F.col("kind") == VERSUS), task)
    tables = [
        class_rows,
        *(_without_counts(frame) for frame in (whole, _averages(class_rows, keys))),
        _one_vs_one(against, of_classes, keys, column),
        *_top_k(task),
    ]
    columns = [*group_columns(keys), *(field.name for field in schemas.METRICS)]
    return reduce(DataFrame.unionByName, (table.select(*columns) for table in tables))


def _renamed(frame: DataFrame, task: ProbabilityTask) -> DataFrame:
    """Rows of the levels that have `class`, under the names they have without."""
    pairs = zip(task.class_names, task.names, strict=True)
    table = F.create_map(*(F.lit(text) for pair in pairs for text in pair))
    of_classes = frame.where(F.col("level").isin(task.class_names))
    return of_classes.withColumn("level", F.element_at(table, F.col("level")))


def _rows(frame: DataFrame, metrics: Sequence[ScoreMetric], task: ProbabilityTask) -> DataFrame:
    return metric_table(frame, task.state.counts.keys, metrics, (), NO_CELLS, task.parameters.confidence)


def _without_counts(rows: DataFrame) -> DataFrame:
    """Rows of all classes together: no class is the positive one."""
    return rows.withColumns({name: F.lit(None).cast("double") for name in ("positives", "negatives")})


def _in_order(items: Column, term: str) -> Column:
    """The sum of a field of structs, one after the other, so that it has the same bits every time."""
    return F.aggregate(items, F.lit(0.0), lambda total, item: total + item[term])


def _averages(class_rows: DataFrame, keys: Keys) -> DataFrame:
    """Macro and prevalence-weighted averages of the values of classes; NULL names a class that has none."""
    item = F.struct(
        "class",
        F.col("value"),
        F.col("positives").alias("weight"),
        (F.col("value") * F.col("positives")).alias("weighed"),
        "reason",
    )
    listed = class_rows.groupBy(*group_columns(keys), "metric").agg(
        F.array_sort(F.collect_list(item)).alias("macro"),
        F.max("rows").alias("rows"),
    )
    listed = listed.withColumn("weighted", F.filter("macro", lambda c: c["weight"] > 0))
    return listed.select(
        *group_columns(keys), "metric", "rows", F.inline(F.array(*(_average(n) for n in ("macro", "weighted"))))
    ).withColumns(_nothing("class", "threshold", "lower", "upper"))


def _average(name: str) -> Column:
    items = F.col(name)
    undefined = F.get(F.filter(items, lambda c: c["reason"].isNotNull()), F.lit(0))
    blame = F.concat(undefined["reason"], F.lit(" (class "), undefined["class"], F.lit(")"))
    why = F.when(undefined.isNotNull(), blame)
    why = F.when(F.size(items) == 0, F.lit("no weight")).otherwise(why)
    if name == "macro":
        value = _in_order(items, "value") / F.size(items)
    else:
        value = _in_order(items, "weighed") / _in_order(items, "weight")
    return F.struct(F.lit(name).alias("average"), F.when(why.isNull(), value).alias("value"), why.alias("reason"))


def _one_vs_one(against: DataFrame, of_classes: DataFrame, keys: Keys, column: str) -> DataFrame:
    """Hand and Till's mean of the AUCs of all ordered pairs of classes that occur as labels."""
    group = group_columns(keys)
    pairs = against.groupBy(*group, F.col(column).alias("one"), F.col("other_label").alias("other")).agg(
        exact_total("against_exact", "against_rounded").alias("wins")
    )
    weights = of_classes.select(*group, F.col(column).alias("one"), "positives", "rows")
    both = (
        pairs.unionByName(weights, allowMissingColumns=True)
        .groupBy(*group)
        .agg(
            F.array_sort(F.collect_list(F.when(F.col("wins").isNotNull(), F.struct("one", "other", "wins")))).alias(
                "pairs"
            ),
            F.map_from_entries(
                F.collect_list(F.when(F.col("positives").isNotNull(), F.struct("one", "positives")))
            ).alias("weights"),
            F.max("rows").alias("rows"),
        )
    )

    def auc(pair: Column) -> Column:
        one, other = (F.element_at(F.col("weights"), pair[side]) for side in ("one", "other"))
        pairs = one * other
        share = auc_of(pair["wins"], pairs)
        return F.struct(
            share.alias("auc"),
            (one + other).alias("weight"),
            (share * (one + other)).alias("weighed"),
            pairs.alias("pairs"),
        )

    occurring = F.filter("pairs", lambda pair: F.element_at(F.col("weights"), pair["one"]) > 0)
    aucs = both.withColumn("aucs", F.transform(occurring, auc))
    items = F.col("aucs")
    averages = {
        "macro": _in_order(items, "auc") / F.size(items),
        "weighted": _in_order(items, "weighed") / _in_order(items, "weight"),
    }
    why = F.when(F.size(items) == 0, reason(ROC_AUC_OVO.needs[0]))
    why = why.when(F.exists(items, lambda item: item["pairs"] < LEAST_PRODUCT), TOO_SMALL)
    rows = F.array(
        *(
            F.struct(F.lit(name).alias("average"), F.when(why.isNull(), value).alias("value"))
            for name, value in averages.items()
        )
    )
    table = aucs.select(
        *group,
        "rows",
        F.lit(ROC_AUC_OVO.name).alias("metric"),
        why.alias("reason"),
        F.inline(rows),
    )
    return table.withColumns(_nothing("class", "threshold", "lower", "upper", "positives", "negatives"))


def _top_k(task: ProbabilityTask) -> list[DataFrame]:
    """The share of rows whose true class is among the K most likely ones."""
    keys, parameters = task.keys, task.parameters
    tops = top_k_metrics(parameters)
    if not tops:
        return []
    leveled = at_levels(task.state.ranks, keys, task.levels, task.names)
    group = group_columns(keys)
    weight, whole = sum_of_weights("count"), F.every(F.col("count") == F.rint("count"))
    ranked = leveled.groupBy(*group).agg(
        F.sum("rows").alias("rows"),
        weight.alias("weight"),
        (whole & (weight < EXACT)).alias("whole"),
        *(
            sum_of_weights(F.when(F.col("rank") <= k, F.col("count")).otherwise(0.0)).alias(f"top{k}")
            for k in tops.values()
        ),
    )
    some = F.col("weight") > 0

    def row(name: str, k: int) -> Column:
        value = F.when(some, F.col(f"top{k}") / F.col("weight"))
        lower, upper = wilson(value, F.col("weight"), quantile(parameters.confidence))
        return F.struct(
            F.lit(name).alias("metric"),
            value.alias("value"),
            F.when(F.col("whole"), lower).alias("lower"),
            F.when(F.col("whole"), upper).alias("upper"),
        )

    table = ranked.select(
        *group,
        "rows",
        F.when(~some, F.lit("no weight")).alias("reason"),
        F.inline(F.array(*(row(*top) for top in tops.items()))),
    )
    return [table.withColumns(_nothing("average", "class", "threshold", "positives", "negatives"))]


def _nothing(*names: str) -> dict[str, Column]:
    """Columns of the long table that a row has no use for."""
    types = {field.name: field.dataType for field in schemas.METRICS}
    return {name: F.lit(None).cast(types[name]) for name in names}
