"""The table `gates`: what the gates of a config say of a day's metrics. One plan for all gates, groups and days."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from sparkmetrics import schemas
from sparkmetrics.columns import TOTAL, Keys, quote
from sparkmetrics.gate_rows import groups, has_keys, rows_of_day, told_of
from sparkmetrics.gates import Gate, check_values
from sparkmetrics.metrics.arithmetic import ratio
from sparkmetrics.metrics.intervals import least_difference, wilson
from sparkmetrics.segment_names import value_text

PASSED, FAILED, NOT_JUDGED = "passed", "failed", "not judged"

TOLERANCE = 1e-12
"""What separates values that are equal: weighted results agree to this, relative above 1."""

SHOWN = 20
"""Failed rows that `outcome` tells."""

Past = Callable[[date], DataFrame | None]
"""Gives the table `metrics` of a day, or None where there is none."""


def gate_table(metrics: DataFrame, keys: Keys, gates: Sequence[Gate], past: Past, run_date: date) -> DataFrame:
    """One row for each gate and group that it judges, or should have judged.

    Parameters
    ----------
    metrics : the table `metrics` of the run date.
    keys : its key columns with their types.
    gates : at least one.
    past : gives the same table of an earlier day, None where there is none; asked once for each day of a reference.
    run_date : the day.

    Returns
    -------
    `by..., level, segments...` and the columns of `schemas.GATES`. `status` is "passed", "failed" or "not judged", and
    `reason` says why it is one of the latter. A gate without any group of a `by` tuple has one row that says so, with
    the key values that it names.

    Raises
    ------
    ConfigError : a gate names a value that its key column cannot have.
    """
    check_values(gates, keys)
    frames, unread = [rows_of_day(metrics, keys, 0)], dict[int, str]()
    for ago in sorted({ago for gate in gates for ago in gate.days}):
        day = run_date - timedelta(days=ago)
        frame = past(day)
        if frame is None:
            unread[ago] = f"no results of {day}"
        elif not has_keys(frame, keys):
            unread[ago] = f"the results of {day} have other key columns"
        else:
            frames.append(rows_of_day(frame, keys, ago))
    told = told_of(gates, keys, run_date, unread)
    return _verdicts(groups(reduce(DataFrame.unionByName, frames), keys, gates, told), keys)


def outcome(table: DataFrame) -> tuple[int, int, list[str]]:
    """What a run's log says of the table `gates`, in one action.

    Returns
    -------
    The number of rows that failed, of those that were not judged, and a line for each of the first 20 that failed.
    """
    place, names = table.columns.index("level"), table.columns
    by, segments = names[:place], names[place + 1 : names.index("gate")]
    kinds = {field.name: field.dataType for field in table.schema}
    texts = [value_text(F.col(quote(name)), kinds[name]) for name in (*by, *segments)]
    failed = table.where(F.col("status") == FAILED)
    keys = F.array(*texts) if texts else F.array().cast("array<string>")
    line = F.struct("gate", "level", keys.alias("keys"), "reason")
    lines = failed.select(line.alias("line")).orderBy("line").limit(SHOWN).agg(F.collect_list("line").alias("lines"))
    counts = table.agg(
        *(F.count(F.when(F.col("status") == status, 1)).alias(status) for status in (FAILED, NOT_JUDGED))
    )
    row = counts.crossJoin(lines).collect()[0]
    told = []
    for found in row["lines"]:
        used = {*by, *_columns_of(found["level"])}
        group = [f"{name}={text}" for name, text in zip((*by, *segments), found["keys"], strict=True) if name in used]
        told.append(f"{found['gate']} [{', '.join(group) or TOTAL}]: {found['reason']}")
    return row[FAILED], row[NOT_JUDGED], told


def _columns_of(level: str) -> list[str]:
    """The segment columns of a level's name, the inverse of `columns.level_name`."""
    parts = re.findall(r'"(?:[^"\\]|\\.)*"|[^,]+', level) if level != TOTAL else []
    return [json.loads(part) if part.startswith('"') else part for part in parts]


# --- what a row says


def _less(one: Column, other: Column) -> Column:
    """Whether a number is less by more than equal ones differ."""
    return other - one > TOLERANCE * F.greatest(F.lit(1.0), F.abs(one), F.abs(other))


def _text(*parts: Column | str) -> Column:
    """Text of literals and numbers; those that are NULL are left out."""
    return F.concat_ws("", *(F.lit(part) if isinstance(part, str) else part.cast("string") for part in parts))


def _verdicts(groups: DataFrame, keys: Keys) -> DataFrame:
    """The table, from one row a gate and group."""
    of, now = F.col("of"), F.col("now")
    # Step by step: what is used more than once is a column, or the compiled expression would hold it as often.
    found = _compared(groups).withColumns(
        {
            "nothing": F.when(F.col("expected").isNotNull(), F.col("expected"))
            .when(now.isNull(), of["only_before"])
            .when(now["rows"] < of["min_rows"], _few(now["rows"]))
            .when(now["value"].isNull(), _text("undefined: ", now["reason"])),
            "failures": F.filter(F.array(*_failures()), lambda text: text.isNotNull()),
            "doubts": F.filter(F.array(*_doubts()), lambda text: text.isNotNull()),
        }
    )
    nothing, failed, doubted = F.col("nothing"), F.size("failures") > 0, F.size("doubts") > 0
    columns = {
        "gate": of["name"],
        **{name: of[name] for name in ("metric", "average", "class")},
        "threshold": F.coalesce(now["threshold"], of["threshold"]),
        **{name: now[name] for name in ("value", "lower", "upper")},
        "reference": F.col("reference"),
        "status": F.when(nothing.isNotNull(), NOT_JUDGED)
        .when(failed, FAILED)
        .when(doubted, NOT_JUDGED)
        .otherwise(PASSED),
        "reason": F.when(nothing.isNotNull(), nothing).when(
            failed | doubted, F.concat_ws("; ", F.col("failures"), F.col("doubts"))
        ),
        "rows": now["rows"],
    }
    by, segments = keys.outward()
    named = (column.alias(name) for name, column in columns.items())
    table = found.select(*by, of["level"].alias("level"), *segments, *named)
    return schemas.conform(table, StructType(schemas.result_table(keys, schemas.GATES).fields[:-1]))


def _compared(groups: DataFrame) -> DataFrame:
    """Groups with `reference`, and what is compared: `highest`, `lowest`, `worse`, `surely_worse`, `share`."""
    of, reference, worse, value = F.col("of"), F.col("reference"), F.col("worse"), F.col("now.value")
    limits, before = F.get("limits", F.lit(0)), F.get("limits", F.lit(1))
    lower, upper = limits["lower"], limits["upper"]
    enough = (of["days_needed"] > 0) & (F.col("days") >= of["days_needed"])
    # A median is a fixed number.
    before_lower, before_upper = (
        F.when(of["is_median"], reference).otherwise(before[name]) for name in ("lower", "upper")
    )
    beyond_noise = F.when(of["rises"], least_difference(value, lower, reference, before_upper)).otherwise(
        least_difference(reference, before_lower, value, upper)
    )
    return (
        groups.withColumn("reference", F.when(enough, F.col("median")))
        # A lambda, since what is compiled for one row must stay below the compiler's limit.
        .withColumn("limits", F.transform(F.array("now", "before"), lambda row: _limits(F.col("of"), row)))
        .withColumns(
            {
                "highest": F.when(of["z"].isNotNull(), upper).otherwise(value),
                "lowest": F.when(of["z"].isNotNull(), lower).otherwise(value),
                "worse": F.when(of["rises"], value - reference).otherwise(reference - value),
                "share": ratio(value, reference),
            }
        )
        .withColumn("surely_worse", F.when(of["z"].isNotNull(), beyond_noise).otherwise(worse))
    )


def _limits(of: Column, row: Column) -> Column:
    """The interval of a row as a gate takes it: `lower` and `upper`.

    An interval of no width, such as DeLong's of an AUC of 1 however few its rows, tells nothing of noise. Then it is
    the score interval of the largest variance that an AUC a can have, a (1 - a) / min(P, N), Gini put on its scale.

    Source: Birnbaum and Klose 1957 for the variance.
    """
    span = of["largest"] - of["least"]
    share, size = (row["value"] - of["least"]) / span, F.least(row["positives"], row["negatives"])
    widest = (of["least"] + span * limit for limit in wilson(share, size, of["z"]))
    flat = row["lower"] == row["upper"]
    limits = zip(("lower", "upper"), widest, strict=True)
    return F.struct(*(F.when(flat, limit).otherwise(row[name]).alias(name) for name, limit in limits))


def _failures() -> list[Column]:
    """What each bound says where it is broken; NULL where it holds, is not given, or cannot be judged."""
    of, reference, share, surely_worse = (F.col(name) for name in ("of", "reference", "share", "surely_worse"))
    value, interval, of_reference = F.col("now.value"), of["z"].isNotNull(), _text(reference, of["reference_name"])

    def where(broken: Column, *parts: Column | str) -> Column:
        return F.when(broken, _text("value ", value, *parts))

    def limit(text: str, number: Column) -> Column:
        return F.when(interval, _text(text, number, ","))

    return [
        where(
            _less(F.col("highest"), of["min"]),
            *(limit(", at most ", F.col("highest")), " is below min ", of["min"]),
        ),
        where(
            _less(of["max"], F.col("lowest")),
            *(limit(", at least ", F.col("lowest")), " is above max ", of["max"]),
        ),
        where(
            _less(of["max_drop"], surely_worse),
            *(" is worse than ", of_reference, " by ", F.col("worse")),
            *(F.when(interval, _text(", at least ", surely_worse)), ", more than max_drop ", of["max_drop"]),
        ),
        where(
            share.isNotNull() & _less(value, of["min_ratio"] * reference),
            *(" is ", share, " of ", of_reference, ", below min_ratio ", of["min_ratio"]),
        ),
        where(
            share.isNotNull() & _less(of["max_ratio"] * reference, value),
            *(" is ", share, " of ", of_reference, ", above max_ratio ", of["max_ratio"]),
        ),
    ]


def _doubts() -> list[Column]:
    """Why each bound cannot be judged; NULL where it can, or is not given."""
    of, now, before, reference = F.col("of"), F.col("now"), F.col("before"), F.col("reference")
    day, interval, is_ratio = of["day"], of["z"].isNotNull(), of["min_ratio"].isNotNull() | of["max_ratio"].isNotNull()
    lacking = (
        F.when(of["is_median"], _text(of["few_days"], " (", F.col("days"), ")"))
        .when(of["unread"].isNotNull(), of["unread"])
        .when(before.isNull(), _text("not in the results of ", day))
        .when(before["rows"] < of["min_rows"], _text(_few(before["rows"]), " on ", day))
        .otherwise(_text("undefined on ", day, ": ", before["reason"]))
    )

    def without(row: Column) -> Column:
        return interval & (row["lower"].isNull() | row["upper"].isNull())

    return [
        F.when((of["days_needed"] > 0) & reference.isNull(), lacking),
        F.when(without(now), "no interval"),
        F.when(day.isNotNull() & reference.isNotNull() & without(before), _text("no interval on ", day)),
        F.when(is_ratio & (reference == 0), "the reference is 0"),
    ]


def _few(rows: Column) -> Column:
    return _text("fewer than ", F.col("of.min_rows"), " rows (", rows.cast("long"), ")")
