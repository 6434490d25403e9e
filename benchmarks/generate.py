"""Write the benchmark's predictions: 4 models x 50 segments of very different sizes, as Parquet.

    python -m benchmarks.generate --rows 10000000 --out DIR

Row i is a function of (seed, i) alone: the generator is counter-based (Philox), and each row owns eight of its draws.
So neither the number of files nor the size of a chunk changes a value, and a longer table begins with a shorter one.
"""

from __future__ import annotations

import argparse
import shutil
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

MODELS = 4
SEGMENTS = 50
ROUNDED_MODEL = 3  # its scores have 3 decimals: heavy ties
ROW_GROUP = 1_000_000
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


def generate(rows: int, out: Path, *, seed: int = 0, files: int = 10) -> None:
    """Write `rows` predictions to the new folder `out`, in `files` files with row groups of at most a million rows.

    The folder gets its name once it is complete, and memory stays at one row group.

    Raises
    ------
    FileExistsError : `out` exists.
    """
    if out.exists():
        raise FileExistsError(f"{out} exists: remove it or name another folder")
    partial = out.with_name(f"{out.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)  # left by a run that was stopped
    partial.mkdir(parents=True)
    ends = [rows * (file + 1) // files for file in range(files)]
    for file, (start, stop) in enumerate(zip([0, *ends], ends, strict=False)):
        with pq.ParquetWriter(partial / f"part-{file:05d}.parquet", SCHEMA, compression="zstd") as writer:
            for first in range(start, stop, ROW_GROUP):
                writer.write_table(predictions(first, min(first + ROW_GROUP, stop), seed))
    partial.rename(out)


def predictions(start: int, stop: int, seed: int) -> pa.Table:
    """Rows `start` to `stop` (excluded) of the table of `seed`.

    A row has a latent normal z. P(label = 1) is a logistic function of z whose slope is the quality of the model on
    the segment, and the score is a logistic function of z plus a shift of the segment: so AUC differs by model and
    segment, and a total's AUC differs from all of its segments'.
    """
    bits = np.random.Philox(key=seed).advance(start * (DRAWS_PER_ROW // DRAWS_PER_STEP))
    draws = np.random.Generator(bits).random((stop - start, DRAWS_PER_ROW))

    model = (draws[:, 0] * MODELS).astype(np.intp)
    segment = np.searchsorted(segment_share_ends(), draws[:, 1], side="right")
    place = segment * 7 % SEGMENTS / (SEGMENTS - 1)  # in [0, 1], unrelated to the size of the segment

    # Box and Muller's normal. 1 - u is in (0, 1], so the logarithm is finite.
    z = np.sqrt(-2 * np.log1p(-draws[:, 2])) * np.cos(2 * np.pi * draws[:, 3])
    slope = (1.2 + 1.6 * place) * (1 - 0.1 * model)
    label = (draws[:, 4] < logistic(slope * z - 1)).astype(np.int32)
    score = logistic(1.5 * z - 1 + 0.8 * (place - 0.5))
    score = np.where(model == ROUNDED_MODEL, np.clip(np.round(score, 3), 0.001, 0.999), score)
    weight = -np.log1p(-draws[:, 5:7]).sum(axis=1) / 2  # gamma of shape 2 and mean 1

    return pa.table(
        [names("m", MODELS, width=1).take(model), names("s", SEGMENTS, width=2).take(segment), label, score, weight],
        schema=SCHEMA,
    )


def segment_share_ends() -> Floats:
    """Cumulative shares of the segments, share proportional to 1 / rank (Zipf): from 22% down to 0.4%."""
    shares = 1 / np.arange(1, SEGMENTS + 1)
    ends: Floats = np.cumsum(shares) / shares.sum()
    ends[-1] = 1
    return ends


def logistic(x: Floats) -> Floats:
    result: Floats = 1 / (1 + np.exp(-x))
    return result


def names(prefix: str, count: int, *, width: int) -> pa.Array:
    return pa.array([f"{prefix}{number:0{width}d}" for number in range(count)])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.generate", description="Write skewed predictions.")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--out", type=Path, required=True, help="the folder to make")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--files", type=int, default=10)
    options = parser.parse_args()

    started = time.perf_counter()
    try:
        generate(options.rows, options.out, seed=options.seed, files=options.files)
    except FileExistsError as error:
        parser.error(str(error))
    seconds = time.perf_counter() - started
    megabytes = sum(file.stat().st_size for file in options.out.iterdir()) / 1e6
    print(
        f"{options.out}: {options.rows:,} rows, {MODELS} models x {SEGMENTS} segments, seed {options.seed}, "
        f"{options.files} files, {megabytes:,.0f} MB, {seconds:.1f} s"
    )


if __name__ == "__main__":
    main()
