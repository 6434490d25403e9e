"""A local session, by the built wheel in a clean environment; other Pythons, ANSI mode off, other time zones."""

from __future__ import annotations

from pathlib import Path

import environments
import predictions
import pyarrow as pa
import pytest
import results
from children import environ, run
from environments import REPOSITORY, Environment

import jobs
from jobs import JobsRun, RunJobs


def test_local_results_are_right(local: JobsRun, table: pa.Table) -> None:
    """The others are compared with these, so these are compared with pairs and rows of the predictions."""
    for job in ("files", "rows"):
        found = local.results(job)
        results.assert_right(found["metrics"], found["confusion"], table, ("country", "scored_on"))
    results.assert_same(local.results("files"), local.results("rows"))


def test_the_wheel_is_what_ran(local: JobsRun, installed: Environment) -> None:
    assert Path(local.about["package"]).is_relative_to(installed.site_packages)
    assert not Path(local.about["package"]).is_relative_to(REPOSITORY / "sparkmetrics")
    assert {Path(worker["python"]) for worker in local.about["workers"]} == {installed.python}


def test_the_command_of_the_wheel_runs_from_any_folder(
    installed: Environment, local: JobsRun, source: Path, tmp_path: Path
) -> None:
    """No setting, no variable: what a user types after `pip install`."""
    configs = predictions.write_configs(source, tmp_path / "jobs")
    command = [installed.python.with_name("sparkmetrics"), "evaluate"]
    told = run([*command, "--help"], environ(), tmp_path / "help", 60)
    assert "--run-date" in told
    run(
        [*command, "--config", configs["files"], "--run-date", predictions.DAY],
        environ(TZ="UTC"),
        tmp_path / "elsewhere",
        jobs.SECONDS,
    )
    results.assert_same(results.read_job(tmp_path / "jobs", "files"), local.results("files"))


def test_the_wheel_imports_without_spark_running(installed: Environment, tmp_path: Path) -> None:
    code = "import sparkmetrics; print(sparkmetrics.__version__, *sorted(sparkmetrics.__all__))"
    version, *names = run([installed.python, "-c", code], environ(), tmp_path, 60).split()
    assert version == environments.PROJECT["version"]
    assert {"evaluate", "read_results", "score_counts"} <= set(names)


def test_the_wheel_holds_the_package_and_nothing_else(installed: Environment) -> None:
    package = installed.site_packages / "sparkmetrics"
    ours = {path.relative_to(REPOSITORY).as_posix() for path in (REPOSITORY / "sparkmetrics").rglob("*.py")}
    files = {path.relative_to(installed.site_packages).as_posix() for path in package.rglob("*.py")}
    assert files == ours
    assert (package / "log4j2.properties").is_file()
    assert not (installed.site_packages / "tests").exists()


@pytest.mark.parametrize(("ansi", "zone"), [("false", "UTC"), ("true", "America/New_York"), ("false", "Asia/Kolkata")])
def test_ansi_mode_and_time_zone_change_no_number(
    ansi: str, zone: str, run_jobs: RunJobs, installed: Environment, local: JobsRun
) -> None:
    settings = {"spark.sql.ansi.enabled": ansi, "spark.sql.session.timeZone": zone}
    found = run_jobs(installed, settings=settings, variables={"TZ": zone}, names=("files", "casts", "classes"))
    assert {name: found.about[name] for name in settings} == settings
    assert local.about["spark.sql.ansi.enabled"] == "true"
    found.same_as(local, zone)


@pytest.mark.parametrize("version", ["3.12", "3.13"])
def test_other_pythons(version: str, wheel: Path, run_jobs: RunJobs, local: JobsRun) -> None:
    interpreter = environments.python(version)
    made = environments.environment(f"python{version}", interpreter, [], wheel, "[local]")
    found = run_jobs(made, names=("files", "classes"))
    assert found.about["python"].startswith(str(made.folder))
    found.same_as(local, tolerance=1e-12)


def test_a_machine_without_java(
    installed: Environment, without_java: dict[str, str], local: JobsRun, source: Path, tmp_path: Path
) -> None:
    """Java comes with the package."""
    configs = predictions.write_configs(source, tmp_path / "jobs")
    command = [installed.python.with_name("sparkmetrics"), "evaluate", "--config", configs["classes"]]
    variables = {**without_java, "HOME": str(tmp_path), "TZ": "UTC"}
    run([*command, "--run-date", predictions.DAY], variables, tmp_path / "elsewhere", jobs.SECONDS)
    results.assert_same(results.read_job(tmp_path / "jobs", "classes"), local.results("classes"))
