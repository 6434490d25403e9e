"""What the tests of environments share: the wheel, virtual environments, predictions, and results to compare with.

No test starts Spark in this process: child processes do, and the files that they write are read here.
"""

from __future__ import annotations

import shutil
import sys
from functools import partial
from pathlib import Path

import environments
import predictions
import pyarrow as pa
import pytest
from children import environ
from environments import Environment

import jobs
from jobs import JobsRun, RunJobs
from sparkmetrics import session


@pytest.fixture(scope="session", autouse=True)
def java() -> None:
    """JAVA_HOME or PATH leads children to a Java 17 or later."""
    session.ensure_java()


@pytest.fixture(scope="session")
def wheel() -> Path:
    return environments.build_wheel()


@pytest.fixture(scope="session")
def installed(wheel: Path) -> Environment:
    """What `pip install 'sparkmetrics[local]'` makes."""
    return environments.environment("installed", Path(sys.executable), [], wheel, "[local]")


@pytest.fixture(scope="session")
def spark35(wheel: Path) -> Environment:
    """PySpark 3.5 with the newest releases that it works with."""
    requirements = [*environments.old_spark(), *environments.testing()]
    return environments.environment("spark35", environments.python("3.11"), requirements, wheel)


@pytest.fixture(scope="session")
def bare() -> Environment:
    """What an executor must have, and no more: NumPy and pyarrow."""
    return environments.environment("bare", Path(sys.executable), environments.needed("numpy", "pyarrow"))


@pytest.fixture(scope="session")
def table() -> pa.Table:
    return predictions.make()


@pytest.fixture(scope="session")
def source(table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the predictions."""
    return predictions.write(table, tmp_path_factory.mktemp("source") / "predictions")


@pytest.fixture
def run_jobs(source: Path, tmp_path: Path) -> RunJobs:
    """`jobs.run_jobs` of the predictions, in the test's folder."""
    return partial(jobs.run_jobs, source, tmp_path / "jobs")


@pytest.fixture(scope="session")
def local(source: Path, installed: Environment, tmp_path_factory: pytest.TempPathFactory) -> JobsRun:
    """The jobs on a local session in UTC, with what is installed by default: what others are compared with."""
    return jobs.run_jobs(source, tmp_path_factory.mktemp("local"), installed)


@pytest.fixture(scope="session")
def without_java(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Variables of a process that finds no Java, nor any other command but those of a shell."""
    commands = tmp_path_factory.mktemp("commands")
    for name in ("bash", "sh", "dirname", "basename", "uname", "ps", "cat", "chmod"):
        if found := shutil.which(name):
            (commands / name).symlink_to(found)
    return {**{name: value for name, value in environ().items() if name != "JAVA_HOME"}, "PATH": str(commands)}
