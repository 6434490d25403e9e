"""What gates look at: their rows of the tables `metrics` of several days, brought together by gate and group."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import date, timedelta

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    IntegralType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from sparkmetrics import schemas
from sparkmetrics.columns import Keys, quote
from sparkmetrics.gates import Gate
from sparkmetrics.joins import join_on
from sparkmetrics.key_values import key_text

_TEXT, _FLAG, _NUMBER = StringType(), BooleanType(), DoubleType()

TOLD: dict[str, DataType] = {
    # what it judges, and by what
    **{"gate": IntegerType(), "name": _TEXT, "metric": _TEXT, "average": _TEXT, "class": _TEXT, "level": _TEXT},
    **{"threshold": _NUMBER, "at_threshold": _FLAG},
    **{"min": _NUMBER, "max": _NUMBER, "max_drop": _NUMBER, "min_ratio": _NUMBER, "max_ratio": _NUMBER},
    **{"min_rows": LongType(), "rises": _FLAG},
    # where it fails only beyond the interval: its quantile, and the metric's range; NULL elsewhere
    **{"z": _NUMBER, "least": _NUMBER, "largest": _NUMBER},
    # the days of its reference, counted back from the run date, and how many need a value
    **{"is_median": _FLAG, "first_day": IntegerType(), "last_day": IntegerType(), "days_needed": IntegerType()},
    # words for messages
    **{"day": _TEXT, "reference_name": _TEXT, "few_days": _TEXT, "unread": _TEXT, "only_before": _TEXT},
    **{"missing": _TEXT, "nowhere": _TEXT},
}
"""What the plan knows of a gate."""


def told_of(gates: Sequence[Gate], keys: Keys, run_date: date, unread: Mapping[int, str]) -> Column:
    """A constant array of structs: what the plan knows of each gate, TOLD and the values of key columns.

    Parameters
    ----------
    gates, keys, run_date : as in `verdicts.gate_table`.
    unread : why there are no rows of a day, by how many days before the run date it is.
    """
    value = StructType([StructField("named", _FLAG), StructField("value", _TEXT)])
    fields = [StructField(name, kind) for name, kind in (*TOLD.items(), *((key, value) for key in keys.columns))]
    told = [_told(position, gate, keys, run_date, unread) for position, gate in enumerate(gates)]
    # One literal, however many gates there are.
    return F.from_json(F.lit(json.dumps(told)), ArrayType(StructType(fields)))


def _told(position: int, gate: Gate, keys: Keys, run_date: date, unread: Mapping[int, str]) -> dict[str, object]:
    day = None if gate.days_ago is None else str(run_date - timedelta(gate.days_ago))
    of_median = f"of the last {gate.median_of} days"
    named = {**gate.by, **gate.segments}
    values = {
        inside: {"named": name in named, "value": key_text(named.get(name), kind, name)}
        for name, inside, kind in zip(keys.names, keys.columns, keys.types, strict=True)
    }
    same = ("name", "metric", "average", "level", "threshold", "at_threshold", "min_rows", "z", "days_needed")
    bounds = ("min", "max", "max_drop", "min_ratio", "max_ratio")
    return {
        **{name: getattr(gate, name) for name in (*same, *bounds)},
        **values,
        "gate": position,
        "class": gate.class_,
        # Of other gates it may be infinite, which JSON does not have.
        **dict(zip(("least", "largest"), gate.scale if gate.interval else (None, None), strict=True)),
        # A metric whose lowest value is best gets worse by rising.
        "rises": gate.best == "lowest",
        "is_median": gate.median_of is not None,
        "first_day": min(gate.days, default=None),
        "last_day": max(gate.days, default=None),
        "day": day,
        "reference_name": f" (median {of_median})" if gate.median_of else f" on {day}",
        "few_days": f"a value on fewer than {gate.days_needed} {of_median}",
        "unread": unread.get(gate.days_ago or 0),
        "only_before": "only on earlier days" if gate.median_of else f"only in the results of {day}",
        "missing": _missing(gate),
        "nowhere": "no such by tuple" if gate.by else "no results",
    }


def _missing(gate: Gate) -> str:
    """What a gate lacks that finds no row of a `by` tuple."""
    segment = "no such segment" if gate.segments else ""
    of_class = "" if gate.class_ is None else f"no class {gate.class_!r}"
    return ", or ".join(filter(None, (segment, of_class))) or f"no row of {gate.metric}"


def has_keys(frame: DataFrame, keys: Keys) -> bool:
    """Whether a table of another day has the same key columns; integers of any width are one kind.

    (Iceberg has no short ones: a key that is short in the predictions is an `int` in its tables.)
    """
    kinds = {field.name: _kind(field.dataType) for field in frame.schema}
    return all(kinds.get(name) == _kind(kind) for name, kind in zip(keys.names, keys.types, strict=True))


def _kind(kind: DataType) -> DataType:
    return LongType() if isinstance(kind, IntegralType) else kind


def rows_of_day(metrics: DataFrame, keys: Keys, ago: int) -> DataFrame:
    """The rows of a day under internal names."""
    fields = [quote(field.name) for field in schemas.METRICS]
    return metrics.select(*keys.inward(), "level", *fields, F.lit(ago).alias("ago"))


def groups(rows: DataFrame, keys: Keys, gates: Sequence[Gate], told: Column) -> DataFrame:
    """One row for each gate and group that it judges, or should have judged.

    Parameters
    ----------
    rows : of the run date and of the days of references, as of `rows_of_day`.
    told : what `told_of` gives.

    Returns
    -------
    `gate`, `of` (what is told of it), keys, the metric's row of today (`now`), that of the day of the reference
    (`before`), over all days of the reference the median of the values (`median`) and how many there are (`days`), and
    `expected`: NULL, or what a gate misses that has nothing of a `by` tuple.
    """
    found = _judged(_asked(rows, keys, gates, told), keys).unionByName(
        _expected(rows.where(F.col("ago") == 0), keys, told), allowMissingColumns=True
    )
    # What was expected is told only where the gate found nothing.
    some = F.count(F.when(F.col("expected").isNull(), 1)).over(Window.partitionBy("gate", *keys.by_columns))
    kept = found.withColumn("found", some).where(F.col("expected").isNull() | (F.col("found") == 0))
    return kept.withColumn("of", F.get(told, F.col("gate")))


def _has_named(keys: Keys, columns: Sequence[str]) -> Column:
    """Whether key columns have the values that a gate names."""
    kinds, of, result = dict(zip(keys.columns, keys.types, strict=True)), F.col("of"), F.lit(True)
    for inside in columns:
        same = F.col(inside).eqNullSafe(of[inside]["value"].cast(kinds[inside]))
        result = result & (~of[inside]["named"] | same)
    return result


def _asked(rows: DataFrame, keys: Keys, gates: Sequence[Gate], told: Column) -> DataFrame:
    """The rows that gates judge or compare with: one a gate, group and day."""
    some = F.col("level").isin([g.level for g in gates]) & F.col("metric").isin([g.metric for g in gates])
    of = F.col("of")
    same = (F.col("level") == of["level"]) & (F.col("metric") == of["metric"])
    for name in ("average", "class"):
        same = same & F.col(name).eqNullSafe(of[name])
    at = ~of["at_threshold"] | F.col("threshold").eqNullSafe(of["threshold"])
    day = (F.col("ago") == 0) | F.coalesce(F.col("ago").between(of["first_day"], of["last_day"]), F.lit(False))
    every = rows.where(some).withColumn("of", F.explode(told))
    return every.where(same & at & day & _has_named(keys, keys.columns))


def _judged(asked: DataFrame, keys: Keys) -> DataFrame:
    """One row a gate and group; of the days of a reference those count where the group has enough rows."""
    row = F.struct("value", "lower", "upper", "reason", "rows", "positives", "negatives", "threshold")
    is_today = F.col("ago") == 0
    value = F.when(~is_today & (F.col("rows") >= F.col("of.min_rows")), F.col("value"))
    return asked.groupBy(F.col("of.gate").alias("gate"), *keys.columns).agg(
        F.first(F.when(is_today, row), ignorenulls=True).alias("now"),
        F.first(F.when(~is_today, row), ignorenulls=True).alias("before"),
        F.median(value).alias("median"),
        F.count(value).alias("days"),
        F.lit(None).cast("string").alias("expected"),
    )


def _expected(today: DataFrame, keys: Keys, told: Column) -> DataFrame:
    """What each gate should find: something of each `by` tuple that it names, and one such tuple."""
    tuples = today.select(*keys.by_columns, F.lit(True).alias("some")).distinct()
    of_tuples = tuples.withColumn("of", F.explode(told)).where(_has_named(keys, keys.by_columns))
    every = today.sparkSession.range(1).select(F.explode(told).alias("of")).withColumn("gate", F.col("of.gate"))
    seen = of_tuples.select(F.col("of.gate").alias("gate"))
    kinds = dict(zip(keys.columns, keys.types, strict=True))
    by, segments = (
        [F.col("of")[inside]["value"].cast(kinds[inside]).alias(inside) for inside in columns]
        for columns in (keys.by_columns, keys.segment_columns)
    )

    def missing(name: str) -> Column:
        return F.col(f"of.{name}").alias("expected")

    nowhere = join_on(every, seen, ["gate"], "left_anti").select("gate", *by, *segments, missing("nowhere"))
    return nowhere.unionByName(
        of_tuples.select(F.col("of.gate").alias("gate"), *keys.by_columns, *segments, missing("missing"))
    )
