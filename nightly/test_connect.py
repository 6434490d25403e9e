"""A Spark Connect server, and a client that has neither Java nor PySpark's classic half."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import environments
import predictions
import pytest
import results
from children import free_port, run, started, wait_for_port
from environments import Environment

import jobs
from jobs import JobsRun

CLIENT = "pyspark-client>=4,<4.4"
"""PySpark for Spark Connect alone: no jars, no py4j."""


@pytest.fixture(scope="module")
def server(installed: Environment, bare: Environment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server whose workers lack the package."""
    folder, port = tmp_path_factory.mktemp("server"), free_port()
    variables = jobs.described(folder / "spark", installed, bare, "local[2]", {})
    command = [
        *(installed.spark_home / "sbin" / "start-connect-server.sh",),
        *("--conf", f"spark.connect.grpc.binding.port={port}"),
        *("--conf", "spark.connect.grpc.binding.address=127.0.0.1"),
    ]
    with started(command, {**variables, "SPARK_NO_DAEMONIZE": "1"}, folder) as (process, _, err):
        wait_for_port(port, process, err, 120)
        yield f"sc://localhost:{port}"


@pytest.fixture(scope="module")
def client(wheel: Path) -> Environment:
    return environments.environment("client", Path(sys.executable), [CLIENT], wheel)


def test_a_client_without_java_gets_the_numbers_of_a_classic_session(
    server: str, client: Environment, without_java: dict[str, str], local: JobsRun, source: Path, tmp_path: Path
) -> None:
    assert not list(client.folder.rglob("*.jar"))
    output = tmp_path / "notebook"
    variables = {**without_java, "SPARK_REMOTE": server}
    said = run(
        [client.python, jobs.NOTEBOOK, source, predictions.DAY, output], variables, tmp_path / "process", jobs.SECONDS
    )
    about = json.loads(said.splitlines()[-1])
    assert about["session"] == "pyspark.sql.connect.session.SparkSession"
    assert about["loaded"] == []
    for name, job in (("rows", "rows"), ("files", "files"), ("ranges", "rows"), ("classes", "classes")):
        results.assert_same(results.read_notebook(output / name, job), local.results(job))


def test_the_command_runs_against_a_server(
    server: str, client: Environment, without_java: dict[str, str], local: JobsRun, source: Path, tmp_path: Path
) -> None:
    configs = predictions.write_configs(source, tmp_path / "jobs", atomic=False)
    command = [client.python.with_name("sparkmetrics"), "evaluate", "--config", configs["casts"]]
    variables = {**without_java, "SPARK_REMOTE": server}
    run([*command, "--run-date", predictions.DAY], variables, tmp_path / "process", jobs.SECONDS)
    results.assert_same(results.read_job(tmp_path / "jobs", "casts"), local.results("casts"))
