"""Subset versus total: hundreds of random levels, and the Titanic's, against brute force over pairs."""

from __future__ import annotations

import csv
import math
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import brute_segments
import pytest
from brute_force import Exact, Row, total
from brute_segments import Pairs, Segments
from pyspark.sql import SparkSession
from results import assert_same_bits, tables
from sizes import cases

import sparkmetrics as sm

TITANIC = Path(__file__).parents[1] / "examples" / "titanic_predictions.csv"

CASES = cases(whole=500, first=60)
SEGMENT_TABLES = ("segment_auc", "segment_summary", "segment_gap")
UNIT = Fraction(1, 2**90)
"""Every weight of the cases is a whole number of these, so that brute force adds and multiplies integers."""

MOST_SEGMENTS = 2
"""Of a pair matrix, where larger levels are pooled."""


class Example(NamedTuple):
    """A row of the prediction table."""

    case: int
    segment: str | None
    label: int
    score: float
    weight: float


class Level(NamedTuple):
    """The segments of one (by, level) and what brute force counts of them."""

    segments: Segments
    wins: Pairs


class Run(NamedTuple):
    """Cases evaluated with weights or without."""

    weighted: bool
    levels: Mapping[Any, Level]
    tables: Mapping[str, Mapping[Any, list[dict[str, Any]]]]
    """Rows of each table by level."""


def examples() -> list[Example]:
    """Levels of 1 to 30 segments: with nulls, of one class, with scores tied across segments, with heavy segments."""
    r = random.Random(41)
    rows = []
    for case in range(CASES):
        names = [None, *(f"s{number}" for number in range(29))][: r.randint(1, 30)]
        scores = ((0.0, 0.25, 0.5, 0.75), (0.5,), (-1e9, -2.0, 1e9), None, (math.inf, 1.0, -3.0))[case % 5]
        labels = {name: r.choice(((0, 1), (0, 1), (0,), (1,))) for name in names}
        heavy = {name: 10.0 ** (9 if case % 3 else r.randint(-9, 9)) for name in r.sample(names, min(2, len(names)))}
        for _ in range(1 if case % 29 == 0 else r.randint(2, 60)):
            name = r.choice(names)
            score = r.random() if scores is None else r.choice(scores)
            weight = (r.random() + 0.5) * heavy.get(name, 1e-6) if case % 7 else float(r.randint(0, 2))
            rows.append(Example(case, name, r.choice(labels[name]), score, weight))
    return rows


CAUSES = {"", "no positives", "no negatives", "no pairs inside segments", "no pairs between segments"}


def segment_text(value: str | None) -> str:
    return f"segment={'NULL' if value is None else value}"


@pytest.fixture(scope="module", params=[pytest.param("unweighted", marks=pytest.mark.slow), "weighted"])
def run(request: pytest.FixtureRequest, spark: SparkSession) -> Run:
    weighted = request.param == "weighted"
    rows = examples()
    members: dict[int, dict[str | None, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        weight = int(Fraction(row.weight) / UNIT) if weighted else 1
        members[row.case][row.segment].append(Row(row.label, row.score, weight))
    counts = sm.score_counts(
        spark.createDataFrame(rows, "case int, segment string, label int, score double, weight double"),
        by=["case"],
        segments=["segment"],
        label="label",
        score="score",
        weight="weight" if weighted else None,
        sizing=sm.Sizing(ranges=3, sample_every=1, placed_rows=12, small_task_scores=1),
    )
    found = {"segment_auc": counts.evaluate(levels=["each"]).segment_auc()}
    # With weights the summary and the gap are made of the pooled matrix, too.
    pooled = counts.evaluate(levels=["each"], max_pair_segments=MOST_SEGMENTS)
    found |= {"pooled": pooled.segment_auc()}
    found |= {"segment_summary": pooled.segment_summary(), "segment_gap": pooled.segment_gap()}
    return Run(
        weighted,
        {case: Level(segments, brute_segments.pairs_in_order(segments)) for case, segments in members.items()},
        {name: by_level(table.toArrow().to_pylist(), "case") for name, table in found.items()},
    )


def by_level(rows: Sequence[dict[str, Any]], *keys: str) -> dict[Any, list[dict[str, Any]]]:
    found = defaultdict(list)
    for row in rows:
        found[row[keys[0]] if len(keys) == 1 else tuple(row[key] for key in keys)].append(row)
    return found


def assert_value(shown: float | None, expected: Exact | None, where: object) -> None:
    """To 1e-12."""
    assert (shown is None) == (expected is None), where
    assert expected is None or abs(shown - float(expected)) <= 1e-12, where


def assert_pairs(rows: Sequence[dict[str, Any]], level: Level, names: Mapping[Any, str], weighted: bool) -> None:
    """A pair matrix is that of brute force, and adds up to the total."""
    pairs = {(row["positive_segment"], row["negative_segment"]): row for row in rows}
    assert len(pairs) == len(rows) == len(level.segments) ** 2
    P, N = (sum(total(members, label) for members in level.segments.values()) for label in (1, 0))
    for (i, j), wins2 in level.wins.items():
        row, mirror = pairs[names[i], names[j]], (j, i)
        p, n = total(level.segments[i], 1), total(level.segments[j], 0)
        auc = brute_segments.auc(wins2, p * n)
        back = brute_segments.auc(level.wins[mirror], total(level.segments[j], 1) * total(level.segments[i], 0))
        assert_value(row["auc"], auc, row)
        assert_value(row["mirror_auc"], back, row)
        assert_value(row["auc_difference"], None if auc is None or back is None else auc - back, row)
        assert_value(row["pair_share"], brute_segments.ratio(p * n, P * N), row)
        assert_value(row["contribution"], brute_segments.auc(wins2, P * N), row)
        assert (row["reason"] is None) == (auc is not None), row
        if not weighted:
            assert (row["positives"], row["negatives"], row["pairs"], row["wins2"]) == (p, n, p * n, wins2), row
    if not weighted:
        assert sum(int(row["wins2"]) for row in rows) == sum(level.wins.values())


def test_pair_matrix(run: Run) -> None:
    assert run.tables["segment_auc"].keys() == run.levels.keys()
    for case, rows in run.tables["segment_auc"].items():
        level = run.levels[case]
        assert_pairs(rows, level, {s: segment_text(s) for s in level.segments}, run.weighted)
        assert not any(row["mixed"] for row in rows)


def named(level: Level, weighted: bool) -> set[str | None]:
    """The segments that a matrix of MOST_SEGMENTS names: those with most rows; heavy ones first with weights."""
    P, N = (sum(total(members, label) for members in level.segments.values()) for label in (1, 0))

    def place(segment: str | None) -> tuple[Fraction, int, str]:
        rows = level.segments[segment]
        shares = [Fraction(total(rows, label), whole) for label, whole in ((1, P), (0, N)) if whole]
        heavy = max(shares, default=Fraction(0))
        return -heavy if weighted and heavy > Fraction(49, 100) else Fraction(0), -len(rows), segment or ""

    return set(sorted(level.segments, key=place)[:MOST_SEGMENTS])


def test_pooled_pair_matrix(run: Run) -> None:
    crowded = 0
    for case, rows in run.tables["pooled"].items():
        segments = run.levels[case].segments
        chosen = named(run.levels[case], run.weighted)
        pooled: dict[str, list[Row]] = defaultdict(list)
        for segment, members in segments.items():
            pooled[segment_text(segment) if segment in chosen else "(other)"] += members
        crowded += len(segments) > MOST_SEGMENTS
        assert ("(other)" in pooled) == (len(segments) > MOST_SEGMENTS)
        level = Level(pooled, brute_segments.pairs_in_order(pooled))
        assert_pairs(rows, level, {name: name for name in pooled}, run.weighted)
        assert [(row["positive_segment"], row["negative_segment"]) for row in rows if row["mixed"]] == [
            ("(other)", "(other)") for _ in range("(other)" in pooled)
        ]
    assert crowded > 0.4 * CASES


def assert_summary(rows: Sequence[dict[str, Any]], level: Level, segment_of: Any) -> None:
    expected = brute_segments.summary(level.segments, level.wins)
    assert len(rows) == len(expected)
    for row in rows:
        values = expected[segment_of(row)]
        for name, value in values.items():
            assert_value(row[name], value, (row, name))
        assert (row["reason"] is None) == all(value is not None for value in values.values()), row
        assert row["rows"] == len(level.segments[segment_of(row)])
    gap = brute_segments.gap(level.segments, level.wins)
    if rows[0]["gap_contribution"] is not None:
        added = math.fsum(row["gap_contribution"] for row in rows)
        assert_value(added, gap["total_auc"] - gap["within_auc"], rows)


def test_summary(run: Run) -> None:
    assert run.tables["segment_summary"].keys() == run.levels.keys()
    for case, rows in run.tables["segment_summary"].items():
        assert_summary(rows, run.levels[case], lambda row: row["segment"])


def assert_gap(row: dict[str, Any], level: Level, weighted: bool) -> None:
    slack = Fraction(1e-12) if weighted else 0
    causes = set((row["reason"] or "").split("; "))
    assert ("no pairs inside segments" in causes) == (row["within_auc"] is None)
    assert ("no pairs between segments" in causes) == (row["between_auc"] is None)
    assert causes - CAUSES == set()
    for name, value in brute_segments.gap(level.segments, level.wins, slack).items():
        if isinstance(value, str):
            assert row[name] == value, (row, name)
        else:
            assert_value(row[name], value, (row, name))
    weighed = {s: rows for s, rows in level.segments.items() if sum(r.weight for r in rows)}
    prevalences = {s: Fraction(total(rows, 1), total(rows, 1) + total(rows, 0)) for s, rows in weighed.items()}
    shared = {"segment_prevalence_auc": {s: float(value) for s, value in prevalences.items()}}
    if not any(math.isinf(r.score) for rows in weighed.values() for r in rows):
        shared["segment_score_auc"] = {
            s: float(sum(r.weight * Fraction(r.score) for r in rows) / sum(r.weight for r in rows))
            for s, rows in weighed.items()
        }
    for name, values in shared.items():
        assert_value(row[name], brute_segments.auc_of_segment_values(level.segments, values), (row, name))


def test_gap(run: Run) -> None:
    assert run.tables["segment_gap"].keys() == run.levels.keys()
    positions = set()
    for case, (row,) in run.tables["segment_gap"].items():
        assert_gap(row, run.levels[case], run.weighted)
        positions.add(row["total_position"])
    assert positions == {"above", "below", "equal", "between", None}


# --- the Titanic


@pytest.fixture(scope="module")
def titanic(spark: SparkSession) -> sm.ScoreCounts:
    frame = spark.read.csv(str(TITANIC), header=True, inferSchema=True)
    return sm.score_counts(frame, by=["model"], segments=["sex", "pclass"], label="survived", score="score")


def test_titanic(titanic: sm.ScoreCounts) -> None:
    members: dict[tuple[str, str], dict[Any, list[Row]]] = defaultdict(lambda: defaultdict(list))
    with TITANIC.open() as file:
        for line in csv.DictReader(file):
            row = Row(int(line["survived"]), float(line["score"]))
            sex, pclass = line["sex"], int(line["pclass"])
            for level, key in {"sex": (sex, None), "pclass": (None, pclass), "sex,pclass": (sex, pclass)}.items():
                members[line["model"], level][key].append(row)
    assert len(members) == 9
    found = {
        name: by_level(table.to_pylist(), "model", "level")
        for name, table in tables(titanic.evaluate(levels="cube"), SEGMENT_TABLES).items()
    }
    for key, segments in members.items():
        level = Level(segments, brute_segments.pairs_in_order(segments))
        names = {
            (sex, pclass): ", ".join(f"{n}={v}" for n, v in (("sex", sex), ("pclass", pclass)) if v is not None)
            for sex, pclass in segments
        }
        assert_pairs(found["segment_auc"][key], level, names, weighted=False)
        assert_summary(found["segment_summary"][key], level, lambda row: (row["sex"], row["pclass"]))
        (gap,) = found["segment_gap"][key]
        assert_gap(gap, level, weighted=False)
    assert all(len(levels) == len(members) for levels in found.values())


# --- crossed segments, and partitions


@pytest.mark.parametrize(
    "as_rows",
    [pytest.param(False, id="offsets by broadcast", marks=pytest.mark.slow), pytest.param(True, id="offsets as rows")],
)
@pytest.mark.parametrize(
    "weighted", [pytest.param(False, marks=pytest.mark.slow), True], ids=["unweighted", "weighted"]
)
def test_pooling_of_crossed_segments(spark: SparkSession, weighted: bool, as_rows: bool) -> None:
    """One tuple is crowded and the other is not, at some levels and not at others; keys are dates, integers, nulls."""
    r = random.Random(5)
    days = (None, *(date(2026, 11, day) for day in range(1, 7)))
    rows = [
        (by, r.choice(days[: 2 if by == "few" else 7]), r.choice((None, 1, -1)), r.randint(0, 1), r.randint(0, 9) / 8)
        for by in ("few", "many")
        for _ in range(60)
    ]
    weighed = [(*row, 10.0 ** r.randint(-6, 6)) for row in rows]
    counts = sm.score_counts(
        spark.createDataFrame(weighed, "model string, day date, zone int, y int, p double, w double"),
        by=["model"],
        segments=["day", "zone"],
        label="y",
        score="p",
        weight="w" if weighted else None,
        sizing=sm.Sizing(
            ranges=3, sample_every=1, placed_rows=1, small_task_scores=1, broadcast_offsets=1 if as_rows else 1_000_000
        ),
    )
    ev = counts.evaluate(levels="cube", max_pair_segments=MOST_SEGMENTS)
    found = {name: by_level(getattr(ev, name)().toArrow().to_pylist(), "model", "level") for name in SEGMENT_TABLES}
    crowded = set()
    for level in ("day", "zone", "day,zone"):
        for model in ("few", "many"):
            members: dict[Any, list[Row]] = defaultdict(list)
            for by, day, zone, label, score, weight in weighed:
                if by == model:
                    key = (day if "day" in level else None, zone if "zone" in level else None)
                    members[key].append(Row(label, score, int(Fraction(weight) / UNIT) if weighted else 1))
            brute = Level(members, brute_segments.pairs_in_order(members))
            assert_summary(found["segment_summary"][model, level], brute, lambda row: (row["day"], row["zone"]))
            (gap,) = found["segment_gap"][model, level]
            assert_gap(gap, brute, weighted)
            matrix = found["segment_auc"][model, level]
            assert len(matrix) == min(len(members), MOST_SEGMENTS + 1) ** 2
            total_auc = brute_segments.gap(members, brute.wins)["total_auc"]
            assert_value(math.fsum(row["contribution"] for row in matrix), total_auc, (model, level))
            if any(row["mixed"] for row in matrix):
                crowded.add((model, level))
    assert crowded == {(model, level) for model in ("few", "many") for level in ("day", "zone", "day,zone")} - {
        ("few", "day")
    }


@pytest.mark.slow
def test_partitions_do_not_change_a_bit(spark: SparkSession) -> None:
    rows = [row for row in examples() if row.case < 40]
    wanted = (*SEGMENT_TABLES, "segment_disparity")
    found = []
    for ranges, partitions in ((1, 1), (5, 4)):
        random.Random(ranges).shuffle(rows)
        frame = spark.createDataFrame(rows, "case int, segment string, label int, score double, weight double")
        counts = sm.score_counts(
            frame.repartition(partitions),
            by=["case"],
            segments=["segment"],
            label="label",
            score="score",
            sizing=sm.Sizing(ranges=ranges, sample_every=1, placed_rows=8, small_task_scores=1),
        )
        found.append(tables(counts.evaluate(levels=["each"], max_pair_segments=9), wanted))
    assert_same_bits(*found)
