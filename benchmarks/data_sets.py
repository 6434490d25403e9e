"""The benchmark's data sets: what row i of each one is.

Row i is a function of (seed, i) alone: the generator is counter-based (Philox), and each row owns eight of its draws.
So neither the number of files nor the size of a chunk changes a value, and a longer table begins with a shorter one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

MODELS = 4
SEGMENTS = 50
ROUNDED_MODEL = 3  # of `skewed`: its scores have 3 decimals, heavy ties
FEW_SEGMENTS = 5  # of each of many models
ROWS_OF_MODEL = 10_000
ROWS_OF_TINY_SEGMENT = 10
DAYS = 30
DRAWS_PER_ROW = 8
DRAWS_PER_STEP = 4  # Philox4x64 makes four numbers per step of its counter

SCHEMA = pa.schema(
    [
        pa.field("model", pa.string(), nullable=False),
        pa.field("segment", pa.string(), nullable=False),
        pa.field("label", pa.int32(), nullable=False),
        pa.field("score", pa.float64(), nullable=False),
        pa.field("weight", pa.float64(), nullable=False),
    ]
)

Floats = npt.NDArray[np.float64]
Whole = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Chunk:
    """Some rows while they are made: numbers of models and segments, a latent normal, the draws."""

    model: Whole
    segment: Whole
    place: Floats
    z: Floats
    draws: Floats

    @property
    def probability(self) -> Floats:
        """The score that is a probability: a logistic function of z plus a shift of the segment."""
        return logistic(1.5 * self.z - 1 + 0.8 * (self.place - 0.5))


# Groups: the numbers of models and segments of rows first, first + 1, ...


def zipf_groups(first: int, draws: Floats) -> tuple[Whole, Whole]:
    model = (draws[:, 0] * MODELS).astype(np.intp)
    return model, np.searchsorted(segment_share_ends(), draws[:, 1], side="right")


def one_group(first: int, draws: Floats) -> tuple[Whole, Whole]:
    nothing = np.zeros(len(draws), np.intp)
    return nothing, nothing


def tiny_groups(first: int, draws: Floats) -> tuple[Whole, Whole]:
    return np.zeros(len(draws), np.intp), dealt(first, len(draws), ROWS_OF_TINY_SEGMENT, together=1000)


def many_groups(first: int, draws: Floats) -> tuple[Whole, Whole]:
    model = dealt(first, len(draws), ROWS_OF_MODEL, together=10)
    return model, (draws[:, 1] * FEW_SEGMENTS).astype(np.intp)


def dealt(first: int, count: int, each: int, *, together: int) -> Whole:
    """Numbers of groups of `each` rows, dealt out in turn to as many groups as `together`, then to the next ones."""
    row = np.arange(first, first + count)
    return row // (each * together) * together + row % together


# Scores.


def mixed(chunk: Chunk) -> Floats:
    return np.where(chunk.model == ROUNDED_MODEL, three_decimals(chunk), chunk.probability)


def distinct(chunk: Chunk) -> Floats:
    return chunk.probability


def half_equal(chunk: Chunk) -> Floats:
    return np.where(chunk.draws[:, 7] < 0.5, 0.5, mixed(chunk))


def three_decimals(chunk: Chunk) -> Floats:
    rounded: Floats = np.clip(np.round(chunk.probability, 3), 0.001, 0.999)
    return rounded


def narrow_logits(chunk: Chunk) -> Floats:
    return 3 + 1e-6 * chunk.z


@dataclass(frozen=True)
class DataSet:
    """What a data set is made of.

    Attributes
    ----------
    what : in a few words.
    groups : numbers of models and segments from (first row, draws).
    scores : of a chunk.
    shared_folder : the data set whose files it is, where that is another.
    weight : the column of weights that is used, or None.
    days : number of folders, each a day; 0 for one table.
    model_width, segment_width : digits of their names.
    """

    name: str
    what: str
    groups: Callable[[int, Floats], tuple[Whole, Whole]] = field(repr=False)
    scores: Callable[[Chunk], Floats] = field(repr=False)
    shared_folder: str | None = None
    weight: str | None = None
    days: int = 0
    model_width: int = 1
    segment_width: int = 2

    def folder(self, data: Path, rows: int) -> Path:
        return data / f"{self.shared_folder or self.name}-{rows}"

    def paths(self, folder: Path) -> list[str]:
        """The folders with the Parquet files."""
        return [str(folder / day) for day in self.day_names()] or [str(folder)]

    def day_names(self) -> list[str]:
        return [f"day-{day:02d}" for day in range(1, self.days + 1)]

    @property
    def zipf(self) -> bool:
        """Whether its groups are the 4 models x 50 segments, and 4 totals."""
        return self.groups is zipf_groups


DATA_SETS = {
    found.name: found
    for found in (
        DataSet("skewed", "4 models x 50 Zipf segments, one model with scores of 3 decimals", zipf_groups, mixed),
        DataSet("one_group", "one model, one segment", one_group, distinct),
        DataSet("half_equal", "skewed, and half of all scores are 0.5", zipf_groups, half_equal),
        DataSet("three_decimals", "skewed, all scores have 3 decimals", zipf_groups, three_decimals),
        DataSet("narrow_logits", "skewed, scores are 3 + 1e-6 z, no probabilities", zipf_groups, narrow_logits),
        DataSet("tiny_segments", "one model, segments of 10 rows", tiny_groups, distinct, segment_width=9),
        DataSet("many_models", "models of 10,000 rows, 5 segments", many_groups, distinct, model_width=6),
        DataSet("weighted", "skewed with weights", zipf_groups, mixed, shared_folder="skewed", weight="weight"),
        DataSet("days", "30 days of 4 models x 50 Zipf segments, distinct scores", zipf_groups, distinct, days=DAYS),
        DataSet(
            "days_three_decimals",
            "30 days of 4 models x 50 Zipf segments, scores of 3 decimals",
            zipf_groups,
            three_decimals,
            days=DAYS,
        ),
    )
}


def predictions(start: int, stop: int, seed: int, data_set: str = "skewed") -> pa.Table:
    """Rows `start` to `stop` (excluded) of the table of `seed`.

    A row has a latent normal z. P(label = 1) is a logistic function of z whose slope is the quality of the model on
    the segment, and the score is a function of z and mostly of the segment: so AUC differs by model and segment, and
    a total's AUC differs from all of its segments'.
    """
    kind = DATA_SETS[data_set]
    bits = np.random.Philox(key=seed).advance(start * (DRAWS_PER_ROW // DRAWS_PER_STEP))
    draws = np.random.Generator(bits).random((stop - start, DRAWS_PER_ROW))

    model, segment = kind.groups(start, draws)
    place = segment * 7 % SEGMENTS / (SEGMENTS - 1)  # in [0, 1], unrelated to the size of the segment
    # Box and Muller's normal. 1 - u is in (0, 1], so the logarithm is finite.
    z = np.sqrt(-2 * np.log1p(-draws[:, 2])) * np.cos(2 * np.pi * draws[:, 3])
    slope = (1.2 + 1.6 * place) * (1 - 0.1 * (model % MODELS))
    label = (draws[:, 4] < logistic(slope * z - 1)).astype(np.int32)
    weight = -np.log1p(-draws[:, 5:7]).sum(axis=1) / 2  # gamma of shape 2 and mean 1
    score = kind.scores(Chunk(model, segment, place, z, draws))

    keys = [names("m", model, kind.model_width), names("s", segment, kind.segment_width)]
    return pa.table([*keys, label, score, weight], schema=SCHEMA)


def segment_share_ends() -> Floats:
    """Cumulative shares of the segments, share proportional to 1 / rank (Zipf): from 22% down to 0.4%."""
    shares = 1 / np.arange(1, SEGMENTS + 1)
    ends: Floats = np.cumsum(shares) / shares.sum()
    ends[-1] = 1
    return ends


def logistic(x: Floats) -> Floats:
    result: Floats = 1 / (1 + np.exp(-x))
    return result


def names(prefix: str, numbers: Whole, width: int) -> pa.Array:
    """Their names: m0, s07."""
    if not len(numbers):
        return pa.array([], pa.string())
    least = int(numbers.min())
    known = pa.array([f"{prefix}{number:0{width}d}" for number in range(least, int(numbers.max()) + 1)])
    return known.take(pa.array(numbers - least))
