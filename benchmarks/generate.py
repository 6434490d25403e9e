"""Write a data set of the benchmark as Parquet.

    python -m benchmarks.generate --data-set skewed --rows 10000000 --out DIR

Each file is made on its own, so that all cores can work, and memory stays at one row group a process.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import shutil
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq

from benchmarks.data_sets import DATA_SETS, SCHEMA, predictions

ROW_GROUP = 1_000_000
LEAST_FILES = 10
ROWS_OF_FILE = 10_000_000


class File(NamedTuple):
    """Rows `start` to `stop` (excluded) of a data set, and where they go."""

    path: Path
    data_set: str
    seed: int
    start: int
    stop: int

    def write(self) -> None:
        """In row groups of at most a million rows."""
        with pq.ParquetWriter(self.path, SCHEMA, compression="zstd") as writer:
            for first in range(self.start, self.stop, ROW_GROUP):
                last = min(first + ROW_GROUP, self.stop)
                writer.write_table(predictions(first, last, self.seed, self.data_set))


def generate(
    rows: int, out: Path, *, data_set: str = "skewed", seed: int = 0, files: int | None = None, processes: int = 1
) -> None:
    """Write `rows` predictions to the new folder `out`.

    The folder gets its name once it is complete.

    Parameters
    ----------
    rows, out : how many, and where.
    data_set : a name in DATA_SETS.
    seed : of the generator.
    files : how many; None makes files of at most 10,000,000 rows, and at least 10. Of days: in each of them; None makes
        as few as possible.
    processes : that write files at the same time.

    Raises
    ------
    FileExistsError : `out` exists.
    """
    if out.exists():
        raise FileExistsError(f"{out} exists: remove it or name another folder")
    partial = out.with_name(f"{out.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)  # left by a run that was stopped
    partial.mkdir(parents=True)
    wanted = planned(rows, partial, data_set=data_set, seed=seed, files=files)
    for folder in {file.path.parent for file in wanted}:
        folder.mkdir(exist_ok=True)
    if processes == 1:
        for file in wanted:
            file.write()
    else:
        with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
            list(pool.map(File.write, wanted))  # raises what a process raised
    partial.rename(out)


def planned(rows: int, out: Path, *, data_set: str, seed: int, files: int | None) -> list[File]:
    """The files of a data set."""
    days = DATA_SETS[data_set].day_names()
    folders = [out / day for day in days] or [out]
    most = -(-rows // len(folders))
    count = files or max(1 if days else LEAST_FILES, -(-most // ROWS_OF_FILE))
    ends = [rows * (file + 1) // (len(folders) * count) for file in range(len(folders) * count)]
    return [
        File(folders[file // count] / f"part-{file % count:05d}.parquet", data_set, seed, start, stop)
        for file, (start, stop) in enumerate(zip([0, *ends], ends, strict=False))
    ]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.generate", description="Write predictions.")
    parser.add_argument("--data-set", choices=DATA_SETS, default="skewed")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--out", type=Path, required=True, help="the folder to make")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--files", type=int, help="default: at least 10, of at most 10,000,000 rows")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()

    started = time.perf_counter()
    try:
        generate(
            options.rows,
            options.out,
            data_set=options.data_set,
            seed=options.seed,
            files=options.files,
            processes=options.processes,
        )
    except FileExistsError as error:
        parser.error(str(error))
    seconds = time.perf_counter() - started
    written = list(options.out.rglob("*.parquet"))
    megabytes = sum(file.stat().st_size for file in written) / 1e6
    print(
        f"{options.out}: {options.rows:,} rows, {DATA_SETS[options.data_set].what}, seed {options.seed}, "
        f"{len(written)} files, {megabytes:,.0f} MB, {seconds:.1f} s"
    )


if __name__ == "__main__":
    main()
