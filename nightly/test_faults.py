"""Faults: killed drivers and executors, files that change or are cut short, disks that are full or read-only."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import predictions
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
import results
import yaml
from children import run, run_to_end, started
from environments import Environment

import jobs
from jobs import CLUSTER, CLUSTER_SETTINGS, JobsRun

KILLS = 20
ROWS = 400_000
"""Predictions of a run that is killed: enough for work to be under way when an executor dies."""


def write_config(folder: Path, source: Path, results_at: Path, **changes: dict[str, Any]) -> Path:
    content: dict[str, Any] = {
        **predictions.PLAIN,
        "predictions": {"path": str(source), "filter": "event_date = DATE'{run_date}'"},
        "output": {"path": str(results_at)},
    }
    for section, keys in changes.items():
        content[section] = {**content.get(section, {}), **keys}
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "job.yaml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return path


def command(environment: Environment, config: Path) -> list[str | Path]:
    words = ["evaluate", "--config", config, "--run-date", predictions.DAY]
    return [environment.python, "-m", "sparkmetrics.cli", *words]


def local_session(folder: Path, environment: Environment) -> dict[str, str]:
    return jobs.described(folder, environment, environment, "local[2]", {})


def last_run(output: Path) -> dict[str, Any]:
    """The last row of the ledger that is done."""
    rows = ds.dataset(output / "runs" / f"run_date={predictions.DAY}", format="parquet").to_table().to_pylist()
    return max((row for row in rows if row["status"] == "done"), key=lambda row: row["finished_at"])


def assert_whole(output: Path) -> str:
    """Each table of the day is that of the last run that is done; its id."""
    last = last_run(output)
    for name, rows in dict(last["tables"]).items():
        table = ds.dataset(output / name / f"run_date={predictions.DAY}", format="parquet").to_table(["run_id"])
        assert table.num_rows == rows, name
        assert table["run_id"].unique().to_pylist() == ([last["run_id"]] if rows else []), name
    return str(last["run_id"])


def day_of(output: Path) -> results.Results:
    return results.read_job(output.parent, output.name)


def timed_run(words: list[str | Path], variables: Mapping[str, str], folder: Path) -> float:
    """Runs a command that should succeed; the seconds that it took."""
    began = time.monotonic()
    run(words, variables, folder, 300)
    return time.monotonic() - began


def test_a_driver_killed_at_any_moment(installed: Environment, source: Path, local: JobsRun, tmp_path: Path) -> None:
    """After each kill the next run succeeds, and what is there then is whole and right."""
    output, draw = tmp_path / "rows", random.Random(20261129)
    config = write_config(tmp_path, source, output)
    variables = local_session(tmp_path / "spark", installed)
    whole_run = timed_run(command(installed, config), variables, tmp_path / "first")
    expected = day_of(output)
    results.assert_same(expected, local.results("rows"))
    killed_late = 0
    for number in range(KILLS):
        before = assert_whole(output)
        # Most of them while tables are written and put in place.
        delay = whole_run * (draw.uniform(0.1, 0.6) if number % 4 == 0 else draw.uniform(0.6, 1.02))
        folder = tmp_path / f"killed-{number}"
        folder.mkdir()
        with started(command(installed, config), variables, folder) as (process, _, _):
            time.sleep(delay)
            if process.poll() is None:  # or it was done before
                killed_late += any((output / ".staging").iterdir())
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(60)
        if not any((output / ".staging").glob("*/journal.json")):
            assert_whole(output)  # untouched, or done before it was killed
        # How fast the machine is just now says when to kill the next.
        whole_run = timed_run(command(installed, config), variables, tmp_path / f"after-{number}")
        assert assert_whole(output) != before
        assert list((output / ".staging").iterdir()) == []
        results.assert_same(day_of(output), expected)
    assert killed_late >= KILLS / 2


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Predictions enough for a run of some time."""
    one = predictions.make()
    copies = [
        one.set_column(one.column_names.index("score"), "score", shifted(one, i)) for i in range(ROWS // len(one))
    ]
    return predictions.write(pa.concat_tables(copies), tmp_path_factory.mktemp("large") / "predictions")


def shifted(table: pa.Table, number: int) -> pa.Array:
    """Other scores, so that they do not collapse."""
    return pc.add(pc.multiply(table["score"], 0.5), number / 1000.0)


def executors(of: int) -> list[int]:
    """The executors' processes of a process group, the youngest last."""
    asked = ["pgrep", "-g", str(of), "-f", "org.apache.spark.executor.CoarseGrainedExecutorBackend"]
    found = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.split()
    return sorted(map(int, found))


@pytest.fixture(scope="module")
def undisturbed(installed: Environment, large: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, float]:
    """The results of a run on the cluster that nothing disturbs, and its seconds."""
    folder = tmp_path_factory.mktemp("undisturbed")
    config = write_config(folder, large, folder / "rows")
    variables = jobs.described(folder / "spark", installed, installed, CLUSTER, CLUSTER_SETTINGS)
    began = time.monotonic()
    run(command(installed, config), variables, folder / "process", 600)
    return folder / "rows", time.monotonic() - began


@pytest.mark.parametrize("share", [0.35, 0.5, 0.65, 0.8])
@pytest.mark.parametrize("rewritten", [False, True])
def test_an_executor_killed_in_the_middle(
    installed: Environment, large: Path, undisturbed: tuple[Path, float], tmp_path: Path, share: float, rewritten: bool
) -> None:
    """The results are the same; where the input was rewritten meanwhile, they are, or there is an error."""
    source = tmp_path / "predictions"
    shutil.copytree(large, source)
    output = tmp_path / "rows"
    config = write_config(tmp_path, source, output)
    variables = jobs.described(tmp_path / "spark", installed, installed, CLUSTER, CLUSTER_SETTINGS)
    expected, seconds = undisturbed
    folder = tmp_path / "process"
    folder.mkdir()
    with started(command(installed, config), variables, folder) as (process, _, err):
        time.sleep(seconds * share)
        alive = executors(process.pid)
        assert alive, "no executor is at work"
        if rewritten:
            for path in sorted((source / f"event_date={predictions.DAY}").glob("*.parquet")):
                table = pq.read_table(path)
                other = pc.subtract(1.5, table["score"])
                changed = table.set_column(table.column_names.index("score"), "score", other)
                pq.write_table(changed, path, row_group_size=700)
        os.kill(alive[-1], signal.SIGKILL)
        code = process.wait(600)
        said = err.read_text(errors="replace")
    if rewritten and code != 0:
        assert "sparkmetrics: " in said
        assert not (output / "metrics").exists()
        return
    assert code == 0, said[-4000:]
    results.assert_same(day_of(output), day_of(expected))


def test_two_runs_of_a_day_at_once(installed: Environment, source: Path, local: JobsRun, tmp_path: Path) -> None:
    """One wins whole; the other says so, or began when it was done."""
    output = tmp_path / "rows"
    config = write_config(tmp_path, source, output)
    codes, said = [], []
    variables = [local_session(tmp_path / f"spark-{number}", installed) for number in range(2)]
    folders = [tmp_path / f"run-{number}" for number in range(2)]
    with contextlib.ExitStack() as stack:
        running = []
        for folder, of in zip(folders, variables, strict=True):
            folder.mkdir()
            running.append(stack.enter_context(started(command(installed, config), of, folder)))
        for process, _, err in running:
            codes.append(process.wait(600))
            said.append(err.read_text(errors="replace"))
    assert 0 in codes, said
    for code, text in zip(codes, said, strict=True):
        assert code == 0 or (code == 1 and "Another run of 2026-11-29 is at work" in text), text[-2000:]
    assert_whole(output)
    results.assert_same(day_of(output), local.results("rows"))


# --- disks and files


@contextmanager
def tmpfs(folder: Path, size: str) -> Iterator[Path]:
    """A small disk of its own; the test is skipped where none can be mounted."""
    folder.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", folder], capture_output=True, check=False
    )
    if made.returncode != 0:
        pytest.skip("this process may not mount a small disk")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=False)


def fails(environment: Environment, config: Path, folder: Path, variables: Mapping[str, str]) -> str:
    """What a run says that ends with exit code 1 and no stack trace."""
    code, _, err = run_to_end(command(environment, config), variables, folder, 300)
    assert code == 1, err[-3000:]
    (said,) = [line for line in err.splitlines() if line.startswith("sparkmetrics: ")]
    assert "Traceback" not in err
    return said


def fill(path: Path) -> None:
    """Writes a file until the disk is full."""
    with contextlib.suppress(OSError), path.open("wb", buffering=0) as file:
        while file.write(b"x" * 4096):
            pass


def test_a_full_disk(installed: Environment, source: Path, tmp_path: Path) -> None:
    variables = local_session(tmp_path / "spark", installed)
    with tmpfs(tmp_path / "disk", "3m") as disk:
        output = disk / "rows"
        config = write_config(tmp_path, source, output, output={"tables": ["metrics"]})
        run(command(installed, config), variables, tmp_path / "first", 300)
        before = assert_whole(output)
        fill(disk / "filler")
        assert "No space left on device" in fails(installed, config, tmp_path / "full", variables)
        assert assert_whole(output) == before
        (disk / "filler").unlink()
        run(command(installed, config), variables, tmp_path / "again", 300)
        assert assert_whole(output) != before
        assert list((output / ".staging").iterdir()) == []


def test_a_read_only_folder(installed: Environment, source: Path, tmp_path: Path) -> None:
    variables = local_session(tmp_path / "spark", installed)
    with tmpfs(tmp_path / "disk", "20m") as disk:
        config = write_config(tmp_path, source, disk / "rows", output={"tables": ["metrics"]})
        run(command(installed, config), variables, tmp_path / "first", 300)
        before = assert_whole(disk / "rows")
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        assert "Read-only file system" in fails(installed, config, tmp_path / "read-only", variables)
        assert assert_whole(disk / "rows") == before


@pytest.mark.parametrize("reader", ["spark", "arrow"])
def test_a_file_that_was_cut_short(installed: Environment, source: Path, tmp_path: Path, reader: str) -> None:
    copy = tmp_path / "predictions"
    shutil.copytree(source, copy)
    path = sorted((copy / f"event_date={predictions.DAY}").glob("*.parquet"))[1]
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    config = write_config(tmp_path, copy, tmp_path / "rows", predictions={"reader": reader})
    variables = local_session(tmp_path / "spark", installed)
    code, _, err = run_to_end(command(installed, config), variables, tmp_path / "process", 300)
    assert code == 2, err[-3000:]
    assert "Traceback" not in err
    assert path.name in next(line for line in err.splitlines() if line.startswith("sparkmetrics: "))
    assert not (tmp_path / "rows" / "metrics").exists()
