"""One process of the benchmark: a session, one cold call of one contender, and warm ones.

Prints a line of JSON as each call ends, and one with memory and versions at the end. Values go to `call-N.parquet` in
the scratch folder, outside the clock.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from benchmarks.contenders import CONTENDERS
from benchmarks.contenders.base import CORES, Work, keyed
from benchmarks.data_sets import DATA_SETS
from benchmarks.memory import PeakMemory

VERSIONS = ("sparkmetrics", "pyspark", "pyarrow", "numpy", "pandas", "scikit-learn", "polars", "duckdb")


def start_session(kind: str | None, *, heap: str, partitions: int, scratch: Path) -> Any:
    """The same session for every contender that has one: local, two cores."""
    if kind is None:
        return None
    os.environ["PYSPARK_PYTHON"] = sys.executable  # workers of the same environment
    from pyspark.sql import SparkSession

    from sparkmetrics.session import ensure_java

    ensure_java()
    master = f"local[{CORES}]"
    builder = SparkSession.builder.remote(master) if kind == "connect" else SparkSession.builder.master(master)
    settings = {
        "spark.driver.memory": heap,
        "spark.local.dir": str(scratch / "spark"),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.sql.shuffle.partitions": str(partitions),
        # Spark 4 measures an Arrow batch at every row that it writes for a worker, unless there is no limit.
        "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def versions() -> dict[str, str]:
    """Of what takes part."""
    found = {"python": platform.python_version()}
    for name in VERSIONS:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    git = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        found["commit"] = subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip()
    return found


def say(**event: Any) -> None:
    print(json.dumps(event), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.measure", description="One process of the benchmark.")
    parser.add_argument("--contender", choices=CONTENDERS, required=True)
    parser.add_argument("--data-set", choices=DATA_SETS, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--scratch", type=Path, required=True, help="a folder for values and what Spark spills")
    parser.add_argument("--warm", type=int, default=1)
    parser.add_argument("--heap", default="6g")
    parser.add_argument("--partitions", type=int, default=8)
    parser.add_argument("--prepare", action="store_true", help="only make what the contender needs beside the data")
    options = parser.parse_args()

    contender = CONTENDERS[options.contender]
    session = start_session(
        contender.session, heap=options.heap, partitions=options.partitions, scratch=options.scratch
    )
    work = Work(DATA_SETS[options.data_set], options.folder, session, options.scratch)
    if options.prepare:
        if contender.prepare:
            contender.prepare(work)
    else:
        peak = PeakMemory()
        for call in range(1 + options.warm):
            with peak:
                begin = time.perf_counter()
                found = contender.run(work)
                seconds = time.perf_counter() - begin
            pq.write_table(keyed(found), options.scratch / f"call-{call}.parquet")
            say(seconds=seconds)
        say(memory=peak.megabytes, versions=versions())
    if session is not None:
        session.stop()


if __name__ == "__main__":
    main()
