"""Executors in processes of their own, whose Python has NumPy and pyarrow and lacks the package."""

from __future__ import annotations

import json
import sys
import zipfile
from pathlib import Path

import environments
import predictions
import pytest
import results
from children import run, run_to_end
from environments import REPOSITORY, Environment

import jobs
from jobs import CLUSTER, CLUSTER_SETTINGS, NO_PACKAGE, JobsRun, RunJobs


def assert_on_executors(about: dict[str, object], python: Path, driver: Path) -> None:
    """Work was done on two executors, by workers of that Python."""
    assert about["spark.master"] == CLUSTER
    workers = about["workers"]
    assert isinstance(workers, list)
    assert {Path(worker["python"]) for worker in workers} == {python}
    assert driver != python
    assert len({worker["folder"] for worker in workers}) == 2  # each executor has a work folder


def test_the_package_travels_by_value(
    run_jobs: RunJobs, installed: Environment, bare: Environment, local: JobsRun
) -> None:
    found = run_jobs(installed, workers=bare, master=CLUSTER, settings=CLUSTER_SETTINGS)
    assert_on_executors(found.about, bare.python, installed.python)
    # Before the jobs and after them, no worker can import it.
    assert {(worker["found"], worker["error"]) for worker in found.about["workers"]} == {("None", NO_PACKAGE)}
    found.same_as(local)


def test_a_state_in_many_ranges_crosses_executors(
    installed: Environment, bare: Environment, local: JobsRun, source: Path, tmp_path: Path
) -> None:
    variables = jobs.described(tmp_path / "spark", installed, bare, CLUSTER, CLUSTER_SETTINGS)
    output = tmp_path / "notebook"
    run(
        [installed.python, jobs.NOTEBOOK, source, predictions.DAY, output],
        variables,
        tmp_path / "process",
        jobs.SECONDS,
    )
    for name, job in (("rows", "rows"), ("files", "files"), ("ranges", "rows"), ("classes", "classes")):
        results.assert_same(results.read_notebook(output / name, job), local.results(job))


@pytest.fixture(scope="module")
def package_zip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as docs/deploy.md zips it."""
    path = tmp_path_factory.mktemp("zip") / "sparkmetrics.zip"
    with zipfile.ZipFile(path, "w") as file:
        for module in sorted((REPOSITORY / "sparkmetrics").rglob("*")):
            if module.suffix in (".py", ".properties"):
                file.write(module, module.relative_to(REPOSITORY))
    return path


def test_spark_submit_with_py_files(
    package_zip: Path, installed: Environment, bare: Environment, local: JobsRun, source: Path, tmp_path: Path
) -> None:
    """The driver's Python has what the package requires, and gets the package from the zip as the executors do."""
    driver = environments.environment("driver", Path(sys.executable), environments.needed())
    configs = predictions.write_configs(source, tmp_path / "jobs")
    variables = {
        **jobs.described(tmp_path / "spark", installed, bare, None, CLUSTER_SETTINGS),
        "PYSPARK_DRIVER_PYTHON": str(driver.python),
    }
    submit = [installed.spark_home / "bin" / "spark-submit", "--master", CLUSTER, "--py-files", package_zip]
    job = [REPOSITORY / "jobs" / "evaluate.py", "--config", configs["files"], "--run-date", predictions.DAY]
    run([*submit, *job], variables, tmp_path / "process", jobs.SECONDS)
    results.assert_same(results.read_job(tmp_path / "jobs", "files"), local.results("files"))

    out = run([*submit, jobs.RUN_JOBS, predictions.DAY], variables, tmp_path / "asked", jobs.SECONDS)
    about = json.loads(out.splitlines()[-1])
    assert_on_executors(about, bare.python, driver.python)
    assert Path(about["python"]) == driver.python
    found = {worker["found"] for worker in about["workers"]}
    assert all(f"{package_zip.name}/sparkmetrics/__init__.py" in path for path in (about["package"], *found))
    # What the package imports at once NumPy, pyarrow and Spark's own Python are enough for: no yaml, no pydantic.
    assert {worker["error"] for worker in about["workers"]} == {"none"}


def test_spark_submit_ends_with_the_exit_code_of_the_job(
    package_zip: Path, installed: Environment, bare: Environment, tmp_path: Path
) -> None:
    variables = jobs.described(tmp_path / "spark", installed, bare, CLUSTER, CLUSTER_SETTINGS)
    variables["PYSPARK_DRIVER_PYTHON"] = str(installed.python)
    config = tmp_path / "job.yaml"
    config.write_text("predictions: {path: p, treshold: 1}", encoding="utf-8")
    submit = [installed.spark_home / "bin" / "spark-submit", "--py-files", package_zip]
    job = [REPOSITORY / "jobs" / "evaluate.py", "--config", config, "--run-date", predictions.DAY]
    code, out, err = run_to_end([*submit, *job], variables, tmp_path / "process", jobs.SECONDS)
    assert code == 2, err
    assert "predictions.treshold: unknown key" in out  # spark-submit prints there what the script says on stderr
