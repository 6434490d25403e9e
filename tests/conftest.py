"""One Spark session for the suite: classic, or Spark Connect where SPARKMETRICS_TEST_SESSION=connect."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from settings import COMPILED, INTERPRETED, session_settings

from sparkmetrics import session
from sparkmetrics.files import HadoopFiles

KIND = os.environ.get("SPARKMETRICS_TEST_SESSION", "classic")
OLD = not hasattr(DataFrame, "toArrow")  # PySpark 3.5
SHARED = Path(__file__).parents[2] / "shared"


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A small local session of the kind asked for."""
    session.ensure_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable  # workers of the same environment
    if not OLD:  # whose check of plans, under this variable, refuses what it makes itself of a table joined with itself
        os.environ["SPARK_TESTING"] = "1"  # a Connect server takes a free port, so that two runs may share a machine
    builder = SparkSession.builder.remote("local[2]") if KIND == "connect" else SparkSession.builder.master("local[2]")
    settings = {
        "spark.driver.memory": "4g",
        # Many small queries: the optimising compiler would cost more than it saves, and so would pauses that are short.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseParallelGC",
        "spark.python.sql.dataFrameDebugging.enabled": "false",  # lines of Python that each expression is from
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        # A table of users is no constant of the plan, whose projections the driver works out once a query.
        "spark.sql.optimizer.excludedRules": "org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    if KIND == "classic":
        settings |= INTERPRETED  # a Connect session runs them compiled
    for name, value in settings.items():
        builder = builder.config(name, value)
    created = builder.getOrCreate()
    if KIND == "classic":
        remember_names(created)
    yield created
    created.stop()


def to_arrow(frame: DataFrame) -> pa.Table:
    """What `DataFrame.toArrow` gives, which PySpark 3.5 lacks."""
    from pyspark.sql.pandas.types import to_arrow_schema

    batches = frame._collect_as_arrow()
    return pa.Table.from_batches(batches) if batches else to_arrow_schema(frame.schema).empty_table()


if OLD:
    DataFrame.toArrow = to_arrow


def remember_names(spark: SparkSession) -> None:
    """Names that PySpark has Java look up in every jar, each time it makes an expression: looked up once."""
    for name in ("functions", "org.apache.spark.sql.functions", "PythonUtils", "PythonSQLUtils"):
        setattr(spark._jvm, name, getattr(spark._jvm, name))


@pytest.fixture
def hadoop_files(spark: SparkSession) -> HadoopFiles:
    """Hadoop's own file system of local disk, which refuses and moves as HDFS does."""
    if KIND == "connect":
        pytest.skip("a client of Spark Connect does not see files")
    jvm: Any = spark._jvm
    return HadoopFiles(jvm, jvm.org.apache.hadoop.fs.FileSystem.getLocal(spark._jsc.hadoopConfiguration()))


@pytest.fixture
def compiled(spark: SparkSession) -> Iterator[None]:
    """Queries are compiled, as Spark does by default: for tests of many rows."""
    with session_settings(spark, COMPILED):
        yield


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The larger reference tables, which are not part of the repository."""
    if not (SHARED / "data").is_dir():
        pytest.skip("the shared reference tables are not beside this checkout")
    return SHARED / "data"


@pytest.fixture(scope="session")
def shared_cases() -> Path:
    """The cases from public bug reports, which are not part of the repository."""
    if not (SHARED / "cases").is_dir():
        pytest.skip("the shared cases are not beside this checkout")
    return SHARED / "cases"
