"""Keys of a prediction table: every type and its values, what is no key, and days of the session's time zone."""

from __future__ import annotations

import datetime as dt
import math
import re
from decimal import Decimal
from typing import Any

import pytest
from prediction_tables import INF, NAN, plain
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from settings import setting

import sparkmetrics as sm
from sparkmetrics.columns import level_name

KEY_VALUES: dict[str, list[Any]] = {
    "string": ["a", "", "ä\n"],
    "byte": [0, 1, -128],
    "short": [0, 1, -(2**15)],
    "int": [0, 1, -(2**31)],
    "long": [0, 1, -(2**63)],
    "float": [0.0, NAN, 1.5],
    "double": [0.0, NAN, INF],
    "decimal(38,6)": [Decimal("0.000000"), Decimal("1.500000"), Decimal("-" + "9" * 32 + ".000001")],
    "boolean": [False, True, True],
    "date": [dt.date(1970, 1, 1), dt.date(2024, 2, 29), dt.date(9999, 12, 31)],
    "timestamp": [dt.datetime(1970, 1, 2), dt.datetime(2024, 3, 31, 1, 30, 0, 1), dt.datetime(2024, 10, 27, 1, 30)],
    "timestamp_ntz": [dt.datetime(1970, 1, 1), dt.datetime(2024, 3, 31, 1, 30, 0, 1), dt.datetime(1582, 10, 15)],
    "binary": [b"", b"\x00", b"\xff\x00"],
}
"""Of each type of key: values that differ (of a boolean, two)."""


def comparable(value: Any) -> str:
    """A key value as text: NaN equals itself, -0.0 is 0.0, and any kind of bytes are bytes."""
    if isinstance(value, (bytes, bytearray)):
        value = bytes(value)
    return repr(value + 0.0 if isinstance(value, float) else value)  # NaN prints without its sign


def twin(value: Any) -> Any:
    """The same key in other bits: -0.0 for 0.0, a NaN with its sign set for NaN."""
    return math.copysign(value, -1.0) if isinstance(value, float) and (value == 0 or math.isnan(value)) else value


def test_keys_of_every_type_keep_their_type_and_values(spark: SparkSession) -> None:
    kinds = list(KEY_VALUES)
    by, segments = [f"by {kind}" for kind in kinds], [f"segment {kind}" for kind in kinds]
    base = [values[0] for values in KEY_VALUES.values()]
    keys = [(*base, *base)]
    # Tuples that differ from the first in one column; then the first tuple in other segments.
    for place, values in enumerate(KEY_VALUES.values()):
        keys += [(*base[:place], other, *base[place + 1 :], *base) for other in (*values[1:], None)]
    keys += [(*base, *(values[number] for values in KEY_VALUES.values())) for number in (1, 2)]
    keys.append((*base, *[None] * len(kinds)))
    rows = [row for key in keys for row in ((1, *key), (0, *map(twin, key)))]
    types = [f"`{name}` {kind}" for name, kind in zip(by + segments, kinds * 2, strict=True)]
    rows = [(1 - place / len(rows), *row) for place, row in enumerate(rows)]
    frame = spark.createDataFrame(rows, ", ".join(["p double", "y int", *types])).repartition(3)

    # Several ranges, so that keys are also matched with those of their offsets.
    sizing = sm.Sizing(placed_rows=1, sample_every=1, ranges=3)
    counts = sm.score_counts(frame, by=by, segments=segments, label="y", score="p", sizing=sizing)
    levels = [[], *([name] for name in segments)]
    table = counts.evaluate(levels=levels, thresholds=[]).metrics().where("metric = 'roc_auc'")
    assert [table.schema[name].dataType for name in by + segments] == [
        frame.schema[name].dataType for name in by + segments
    ]
    found: dict[tuple[str, ...], tuple[float | None, ...]] = {}
    for row in table.collect():
        key = (row["level"], *(comparable(row[name]) for name in by + segments))
        assert key not in found
        found[key] = (row["positives"], row["negatives"], row["value"])

    scores: dict[tuple[str, ...], tuple[list[float], list[float]]] = {}
    for p, y, *values in rows:
        tuple_, mine = values[: len(by)], values[len(by) :]
        for level in levels:
            used = [v if name in level else None for name, v in zip(segments, mine, strict=True)]
            key = (level_name(level), *map(comparable, tuple_), *map(comparable, used))
            scores.setdefault(key, ([], []))[y].append(p)
    assert found.keys() == scores.keys()
    for key, (negatives, positives) in scores.items():
        pairs = [(p > n) for p in positives for n in negatives]
        auc = sum(pairs) / len(pairs) if pairs else None
        assert found[key] == (len(positives), len(negatives), auc), key


@pytest.mark.parametrize("role", ["by", "segments"])
@pytest.mark.parametrize(
    "column",
    ["array(1)", "map('a', 1)", "named_struct('a', 1)", "null", "interval '1' day", "interval '1' month"],
)
def test_keys_of_no_atomic_type(spark: SparkSession, role: str, column: str) -> None:
    frame = plain(spark).withColumn("odd", F.expr(column))
    kind = frame.schema["odd"].dataType.simpleString()
    message = f"{role.rstrip('s')} column 'odd' has type {kind}: a key is a string, number"
    with pytest.raises(sm.SchemaError, match=re.escape(message)):
        sm.score_counts(frame, label="y", score="p", **{role: ["odd"]})


def test_collated_strings_are_no_keys(spark: SparkSession) -> None:
    """Spark takes 'a' and 'A' for one value, and a worker takes them for two."""
    if int(spark.version.split(".")[0]) < 4:
        pytest.skip("Spark 3 has no collations")
    frame = plain(spark).withColumn("odd", F.expr("'a' collate UTF8_LCASE"))
    with pytest.raises(sm.SchemaError, match=r"by column 'odd' has type string collate UTF8_LCASE.* Cast it"):
        sm.score_counts(frame, label="y", score="p", by=["odd"])


@pytest.mark.parametrize("zone", [pytest.param("UTC", marks=pytest.mark.slow), "Europe/London"])
def test_days_are_those_of_the_session_zone(spark: SparkSession, zone: str) -> None:
    instants = {"2023-05-22T22:30:00Z": (1, 0.9), "2023-05-22T23:30:00Z": (0, 0.1), "2023-05-23T01:00:00Z": (1, 0.2)}
    days = {"UTC": {"2023-05-22": 2, "2023-05-23": 1}, "Europe/London": {"2023-05-22": 1, "2023-05-23": 2}}
    clock = {"UTC": ["22:30:00", "23:30:00", "01:00:00"], "Europe/London": ["23:30:00", "00:30:00", "02:00:00"]}
    with setting(spark, "spark.sql.session.timeZone", zone):
        frame = spark.createDataFrame([(at, *row) for at, row in instants.items()], "at string, y int, p double")
        frame = frame.withColumn("at", F.to_timestamp("at")).withColumn("day", F.to_date("at"))
        ev = sm.evaluate(frame, segments=["day", "at"], label="y", score="p", levels=[["day"], ["at"]])
        confusion = ev.confusion().withColumn("second", F.col("at").cast("long")).collect()
        pairs = ev.segment_auc().where("positive_segment = negative_segment").collect()
    counted = {str(r["day"]): r["tp"] + r["fp"] + r["fn"] + r["tn"] for r in confusion if r["level"] == "day"}
    assert counted == days[zone]
    seconds = {int(dt.datetime.fromisoformat(at.replace("Z", "+00:00")).timestamp()) for at in instants}
    assert {r["second"] for r in confusion if r["level"] == "at"} == seconds
    names = {r["positive_segment"]: r["positives"] + r["negatives"] for r in pairs}
    assert {name[4:]: rows for name, rows in names.items() if name.startswith("day=")} == days[zone]
    assert sorted(name.split()[1] for name in names if name.startswith("at=")) == sorted(clock[zone])
