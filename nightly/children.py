"""Child processes with a Spark of their own: a clean environment, a time limit, nothing left running."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

SHOWN = 6000
"""Characters of a failed child's output that the report shows, from its end."""

LEAKS = ("PYTHON", "SPARK", "PYSPARK", "VIRTUAL_ENV", "PYTEST", "MAKE", "MFLAGS")
"""Beginnings of variables that would tell a child about the checkout or the virtual environment it is started from."""

SETTINGS = {
    "spark.driver.memory": "2g",
    # Many small queries: to compile them would take longer than to run them.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.shuffle.partitions": "4",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}

LOGGING = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
logger.spark.name = org.apache.spark
logger.spark.level = error
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
"""


def environ(**variables: str | Path) -> dict[str, str]:
    """This process's environment without what leads to its Python and its Spark, and with these variables."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(LEAKS)}
    return {**kept, "SPARK_LOCAL_IP": "127.0.0.1", **{name: str(value) for name, value in variables.items()}}


def spark_conf(folder: Path, master: str | None, settings: Mapping[str, str] | None = None) -> Path:
    """A folder for SPARK_CONF_DIR: a session as an administrator would describe it."""
    conf = folder / "conf"
    conf.mkdir(parents=True)
    content = {**SETTINGS, "spark.sql.warehouse.dir": str(folder / "warehouse"), **(settings or {})}
    if master is not None:
        content["spark.master"] = master
    lines = [f"{name} {value}\n" for name, value in content.items()]
    (conf / "spark-defaults.conf").write_text("".join(lines), encoding="utf-8")
    (conf / "log4j2.properties").write_text(LOGGING, encoding="utf-8")
    return conf


def run(
    command: Sequence[str | Path],
    variables: Mapping[str, str],
    folder: Path,
    seconds: int,
    working_in: Path | None = None,
) -> str:
    """Runs a command to its end and gives what it printed; the test fails where the command does, or takes too long.

    Parameters
    ----------
    command, variables : words, and the whole environment.
    folder : for what it prints; it works there, unless `working_in` says another folder.
    seconds : its time.
    """
    code, out, err = run_to_end(command, variables, folder, seconds, working_in)
    if code != 0:
        pytest.fail(f"{shown(command)} ended with {code}:\n{(out + err)[-SHOWN:]}", pytrace=False)
    return out


def run_to_end(
    command: Sequence[str | Path],
    variables: Mapping[str, str],
    folder: Path,
    seconds: int,
    working_in: Path | None = None,
) -> tuple[int, str, str]:
    """Exit code, output and errors of a command."""
    folder.mkdir(parents=True, exist_ok=True)
    with started(command, variables, folder, working_in) as (process, out, err):
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            said = (out.read_text(errors="replace") + err.read_text(errors="replace"))[-SHOWN:]
            pytest.fail(f"{shown(command)} took more than {seconds} s:\n{said}", pytrace=False)
    return code, out.read_text(errors="replace"), err.read_text(errors="replace")


@contextmanager
def started(
    command: Sequence[str | Path], variables: Mapping[str, str], folder: Path, working_in: Path | None = None
) -> Iterator[tuple[subprocess.Popen[bytes], Path, Path]]:
    """A running command, with the files of its output and errors; its whole process group is ended afterwards."""
    out, err = folder / "stdout", folder / "stderr"
    with out.open("wb") as to_out, err.open("wb") as to_err:
        process = subprocess.Popen(
            [str(word) for word in command],
            cwd=working_in or folder,
            env=dict(variables),
            stdin=subprocess.DEVNULL,
            stdout=to_out,
            stderr=to_err,
            start_new_session=True,
        )
    try:
        yield process, out, err
    finally:
        for kind in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(process.pid, kind)
            except ProcessLookupError:
                break
            time.sleep(1)
        process.wait(60)


def shown(command: Sequence[str | Path]) -> str:
    return " ".join(str(word) for word in command)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def wait_for_port(port: int, process: subprocess.Popen[bytes], log: Path, seconds: int) -> None:
    """Until a server listens there."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and process.poll() is None:
        with socket.socket() as client:
            client.settimeout(1)
            if client.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.5)
    pytest.fail(f"no server listens at port {port}:\n{log.read_text(errors='replace')[-SHOWN:]}", pytrace=False)
