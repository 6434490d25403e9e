"""DeLong's placements: integers that add up exactly, however scores are cut; past 38 digits, doubles."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from sparkmetrics import kernel
from sparkmetrics.metrics.pair_parts import Placements
from sparkmetrics.metrics.steps import Offsets, Steps

PART = Placements("placements")


class Score(NamedTuple):
    """The weight of positives and of negatives at a score."""

    positive: float
    negative: float


def random_scores(size: int, most: float, seed: int) -> list[Score]:
    random = np.random.default_rng(seed)
    return [Score(*np.floor(most ** random.random(2)) * (random.random(2) < 0.7)) for _ in range(size)]


GROUPS: dict[str, list[Score]] = {
    "a few rows": [Score(1, 0), Score(0, 1), Score(2, 1), Score(0, 3), Score(1, 0)],
    "one positive": [Score(0, 5), Score(1, 2), Score(0, 1)],
    "all tied": [Score(3, 4)],
    "no positives": [Score(0, 3), Score(0, 2)],
    "fractions": [Score(0.5, 1), Score(1, 0.25)],
    "many rows": random_scores(300, 1e6, 1),
    # Its positives are all but at one place: doubles would keep no digit of their spread.
    "no spread to speak of": [Score(0, 7e9), Score(5e8, 1), Score(5e8, 0), Score(0, 3e9)],
    "just below 38 digits": [Score(0, 3e11), Score(4e11, 2e11), Score(5e11, 4e11), Score(1e11, 1e10)],
    # Twice its negatives are more than doubles count, and its positives lie at neighbouring places.
    "twice its rows past whole doubles": [Score(0, 6e15 + 1), Score(3, 1), Score(2, 0), Score(0, 1)],
    "past 38 digits": [Score(0, 3e12), Score(4e12, 2e12), Score(5e12, 4e12), Score(1e12, 1e11)],
    "past whole doubles": [Score(1e20, 3e20), Score(4e20, 2e20), Score(5e20, 4e20), Score(1e20, 1e19)],
}


def squares(scores: Sequence[Score]) -> tuple[Fraction, Fraction]:
    """The sum of squared deviations of the placements of positives, and of negatives, from their definition."""
    totals = [sum(Fraction(score[side]) for score in scores) for side in (0, 1)]
    found = []
    for mine, others, ahead in ((0, 1, 1), (1, 0, -1)):
        beaten = Fraction(0)
        placements = []
        for score in scores[::ahead]:
            placements.append((Fraction(score[mine]), (beaten + Fraction(score[others]) / 2) / (totals[others] or 1)))
            beaten += Fraction(score[others])
        mean = sum(w * v for w, v in placements) / (totals[mine] or 1)
        found.append(sum(w * (v - mean) ** 2 for w, v in placements))
    return found[0], found[1]


def contributions(cuts: int) -> Iterator[pa.Table]:
    """What ranges contribute of all groups, each cut into so many of about the same number of scores."""
    for name, scores in GROUPS.items():
        whole = np.array(scores, dtype=np.float64)
        edges = np.unique(np.linspace(0, len(scores), cuts + 1).astype(int))
        for begin, end in pairwise(edges):
            above, below = whole[end:].sum(axis=0), whole[:begin].sum(axis=0)
            outside = [np.array([number]) for number in (*above, *below, *whole.sum(axis=0), -np.inf, 1.0)]
            mine = whole[begin:end]
            steps = Steps(np.arange(begin, end) + 0.0, mine[:, 0], mine[:, 1], np.array([0]), Offsets(*outside))
            weights = dict(zip(("positives", "negatives"), mine.sum(axis=0)[:, None], strict=True))
            yield pa.table({"group": [name], "cuts": [cuts], **weights, **PART.contribute(steps, True, False)})


def test_placements_spread_as_defined_however_they_are_cut(spark: SparkSession) -> None:
    # Groups of one task, some of them with fractions, are also evaluated side by side.
    table = pa.concat_tables([part for cuts in (1, 2, 4) for part in contributions(cuts)])
    combined = spark.createDataFrame(table.to_pandas(), schema_of(table)).groupBy("group", "cuts").agg(PART.combine())
    found = {(row["group"], row["cuts"]): row["placements"] for row in combined.collect()}
    assert len(found) == 3 * len(GROUPS)
    for (name, cuts), placements in found.items():
        assert placements["whole"] == (name != "fractions")
        if name == "fractions":
            continue
        for side, expected in zip(("positive", "negative"), squares(GROUPS[name]), strict=True):
            if name == "no positives":
                assert placements[side] in (None, 0.0)
                continue
            assert placements[side] == pytest.approx(float(expected), rel=1e-12, abs=1e-30), (name, cuts, side)
            if not name.startswith("past"):
                assert placements[side] == found[name, 1][side], (name, cuts, side)


def schema_of(table: pa.Table) -> str:
    kinds = {"string": "string", "int64": "bigint", "double": "double", "bool": "boolean"}
    return ", ".join(f"{field.name} {kinds.get(str(field.type), 'decimal(38,0)')}" for field in table.schema)


def test_groups_do_not_disturb_one_another() -> None:
    """One with fractions or past 38 digits has no integers, and those beside it are as if alone."""
    starts = np.cumsum([0, *(len(scores) for scores in GROUPS.values())])[:-1]
    weights = np.array([score for scores in GROUPS.values() for score in scores], dtype=np.float64)
    totals = [kernel.segment_sums(side, starts) for side in weights.T]
    nothing = np.zeros(len(starts))
    steps = Steps(np.arange(len(weights)) + 0.0, *weights.T, starts, Offsets(*[nothing] * 4, *totals, nothing, nothing))
    together = pa.table(dict(PART.contribute(steps, True, False)))
    for row, alone in zip(together.to_pylist(), contributions(1), strict=True):
        (expected,) = alone.to_pylist()
        assert row == {name: expected[name] for name in row}, expected["group"]
        exact = {name for name, value in row.items() if value is not None} >= {"placements_positive_squares"}
        assert exact == (expected["group"] not in ("fractions", "past 38 digits", "past whole doubles"))


def moments_of(values: Sequence[int], weights: Sequence[int], starts: Sequence[int], shift: int = 0) -> list[list[int]]:
    """Sums of weights, of weights * values and of weights * values**2, by segment."""
    stretches = [slice(*ends) for ends in pairwise([*starts, len(values)])]
    return [
        [
            sum(w * (v + shift) ** power for v, w in zip(values[piece], weights[piece], strict=True))
            for piece in stretches
        ]
        for power in range(3)
    ]


@pytest.mark.parametrize(
    ("step", "weight", "kind"),
    [
        pytest.param(3, 5, np.int64, id="int64 holds all"),
        pytest.param(2_000_000, 1_000, object, id="int64 holds pieces"),
        pytest.param(2**44, 2**40, object, id="int64 holds single values"),
    ],
)
def test_moments_of_integers_are_exact(step: int, weight: int, kind: type) -> None:
    random = np.random.default_rng(3)
    starts = [0, 1, 65, 130]
    values = [int(v) for v in np.cumsum(random.integers(0, step, 400))]
    weights = [int(w) for w in random.integers(0, weight, 400)]
    values[65:130] = values[65:130][::-1]
    arrays = np.array(values), np.array(weights, dtype=np.float64), np.array(starts)
    moments = kernel.integer_moments(*arrays)
    assert [m.tolist() for m in moments] == moments_of(values, weights, starts)
    assert {m.dtype.type for m in moments} == {kind if kind is np.int64 else np.object_}
    for shift in (0, 7, 2**53):
        shifted = kernel.shifted_moments(moments, np.full(4, float(shift)), np.full(4, 2.0**200))
        assert [m.tolist() for m in shifted] == moments_of(values, weights, starts, shift)[1:]
    if kind is np.int64:
        near = kernel.shifted_moments(moments, np.full(4, 7.0), np.full(4, 2.0**61))
        assert {m.dtype.type for m in near} == {np.int64}


def test_a_range_of_many_ties_makes_few_python_integers() -> None:
    """Their memory would be that of the task many times over."""
    values, weights = np.cumsum(np.full(20_000, 2_000)), np.full(20_000, 1_000.0)
    tracemalloc.start()
    moments = kernel.integer_moments(values, weights, np.array([0]))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert moments[2].tolist() == [1_000 * sum(int(v) ** 2 for v in values)]
    assert moments[2].dtype == object
    assert peak < 60 * len(values)
