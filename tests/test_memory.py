"""A worker's memory is set by what one task holds: not by the rows, the groups or the ties it goes through."""

from __future__ import annotations

import subprocess
import sys
import tempfile

import pytest

SCRIPT = """
import os, resource, sys

# A program starts with the peak of the one that ran it, which getrusage carries over exec; a fork starts with its own.
if child := os.fork():
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

from functools import partial

import numpy as np
import pyarrow as pa

from sparkmetrics import evaluator, merging
from sparkmetrics.metrics import Parameters, parts, score_metrics
from sparkmetrics.metrics.list_parts import CellsAt
from sparkmetrics.ranges import Plan

task, entries, groups, step = sys.argv[1], *map(int, sys.argv[2:5])


def predictions(size):
    draw = np.random.default_rng(0)
    for begin in range(0, size, 10_000):
        number = min(10_000, size - begin)
        segment = pa.array([f"s{i}" for i in draw.integers(0, groups, number)])
        score = np.round(draw.random(number) * step) / step if step else draw.random(number)
        columns = {"s0": segment, "tuple": np.zeros(number, dtype=np.int64), "positive": draw.random(number) < 0.3}
        yield pa.RecordBatch.from_pydict(columns | {"score": score})


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


shared = dict(by=[], segments=["s0"], weighted=False)
build = partial(merging.build_runs, **shared, of_predictions=True, plan=Plan(1))
before = peak()
if task == "build":
    for _ in build(predictions(entries), chunk=CHUNK):
        pass
else:
    # Made in a child, whose peak is its own.
    path = sys.argv[5]
    if (child := os.fork()) == 0:
        with pa.OSFile(path, "wb") as file:
            merged = merging.merge_runs(build(predictions(entries), chunk=100_000), **shared)
            first = next(merged)
            with pa.ipc.new_stream(file, first.schema) as stream:
                for batch in (first, *merged):
                    stream.write_batch(batch)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    before = peak()
    merged = pa.ipc.open_stream(pa.OSFile(path))
    chosen = (*parts(score_metrics(Parameters()).values()).values(), CellsAt("cells", (0.5,)))
    what = evaluator.Task(
        by=[], segments=["s0"], levels=((), (0,)), level_names=("total", "s"), weighted=False, strict=False,
        parts=chosen, curve_points=1000, emits=frozenset({evaluator.GROUPS, evaluator.POINTS}),
    )
    for _ in evaluator.evaluate(iter(merged), what):
        pass
print(peak() - before)
"""

CHUNK = 200_000
BYTES = 350
"""What docs/design.md promises: bytes of a row of a build task's chunk, and of an entry of an evaluation task."""

SLACK = 60_000_000
"""What does not grow, over the imports."""


def peak(task: str, entries: int, groups: int = 10, step: int = 0) -> int:
    """Bytes by which a fresh process grows over its imports."""
    script = SCRIPT.replace("CHUNK", str(CHUNK))
    with tempfile.NamedTemporaryFile() as file:
        command = [sys.executable, "-c", script, task, *map(str, (entries, groups, step)), file.name]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    return int(done.stdout)


@pytest.mark.slow
def test_a_build_task_holds_a_chunk_whatever_it_reads() -> None:
    small, large = peak("build", 2 * CHUNK), peak("build", 10 * CHUNK)
    assert large <= small + SLACK / 2
    assert large <= BYTES * CHUNK + SLACK
    assert peak("build", 4 * CHUNK, groups=10_000) <= BYTES * CHUNK + SLACK


@pytest.mark.slow
@pytest.mark.parametrize(("groups", "step"), [(1, 0), (10, 0), (2_000, 0), (10, 1_000)])
def test_an_evaluation_task_grows_with_its_entries_alone(groups: int, step: int) -> None:
    small, large = (peak("evaluate", entries, groups, step) for entries in (200_000, 800_000))
    assert small <= BYTES * 200_000 + SLACK
    assert large <= BYTES * 800_000 + SLACK
    if step:
        assert large <= SLACK  # ties were joined: there are few entries
    else:
        assert large > small  # what is measured does grow
