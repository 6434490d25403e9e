"""Runs jobs of one day in one process, one session; then prints, as JSON, what session and workers that was."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyspark
import yaml

import sparkmetrics as sm
from sparkmetrics import cli, session


def worker(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What a worker is: its process and Python, where it finds the package, and what happens when it imports it."""
    import importlib.util
    import os
    import sys

    for _ in batches:
        pass
    spec = importlib.util.find_spec("sparkmetrics")
    try:
        importlib.import_module("sparkmetrics")
        error = "none"
    except ImportError as problem:
        error = f"{type(problem).__name__}: {problem}"
    about = [[sys.executable], [os.getcwd()], [str(spec and spec.origin)], [error]]
    yield pa.record_batch([pa.array(value) for value in about], names=["python", "folder", "found", "error"])


def about(spark: Any) -> dict[str, Any]:
    schema = "python string, folder string, found string, error string"
    rows = spark.range(0, 8, numPartitions=8).mapInArrow(worker, schema).collect()
    settings = ("spark.master", "spark.sql.ansi.enabled", "spark.sql.session.timeZone")
    return {
        "pyspark": pyspark.__version__,
        "python": sys.executable,
        "package": sm.__file__,
        "workers": [row.asDict() for row in rows],
        **{name: spark.conf.get(name) for name in settings},
    }


def main(day: str, *configs: str) -> int:
    """The first exit code that is not 0."""
    before = about(session.get_session())["workers"]
    for config in configs:
        code = cli.main(["evaluate", "--config", config, "--run-date", day])
        if code != cli.DONE:
            return code
    spark = session.get_session()
    rows = {}
    for config in configs:
        with open(config, encoding="utf-8") as file:
            path = yaml.safe_load(file)["output"]["path"]
        rows[path] = sm.read_results(spark, path, "metrics", day).count()
    found = about(spark)
    found["workers"] += before
    print(json.dumps({**found, "metrics": rows}))
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
