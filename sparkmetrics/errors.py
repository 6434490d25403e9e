"""Everything that sparkmetrics raises on purpose, under one root, and what it warns with."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Iterator

from pyspark.errors import PySparkException

try:
    from py4j.protocol import Py4JError
except ImportError:  # a client of Spark Connect has no py4j
    SPARK_ERRORS: tuple[type[Exception], ...] = (PySparkException,)
else:
    SPARK_ERRORS = (PySparkException, Py4JError)
"""What Spark raises; some errors of file systems come through as they are."""


class SparkMetricsError(Exception):
    """Root of every error that sparkmetrics raises on purpose."""


class ConfigError(SparkMetricsError, ValueError):
    """An argument or a key of a config is wrong: says which one, what was found and what is accepted."""


class SchemaError(SparkMetricsError, ValueError):
    """A table lacks a column, or a column has a type or a name that cannot be used."""


class DataError(SparkMetricsError, ValueError):
    """The rows of a table cannot be evaluated: says how many, in which column and what to change."""


class NotThereError(DataError):
    """A path or table that is not there."""


class WriteError(SparkMetricsError, OSError):
    """Results could not be written."""


class SparkMetricsWarning(UserWarning):
    """Something in the input deserves a look, and the evaluation goes on."""


@contextlib.contextmanager
def told(kind: type[SparkMetricsError], what: str) -> Iterator[None]:
    """Spark's errors as one of ours, which says what could not be done and why."""
    try:
        yield
    except SPARK_ERRORS as error:
        raise kind(f"{what}: {first_line(error)}") from error


NOT_THERE = ("PATH_NOT_FOUND", "TABLE_OR_VIEW_NOT_FOUND", "DELTA_TABLE_NOT_FOUND", "DELTA_PATH_DOES_NOT_EXIST")
"""Conditions of Spark's errors that say that a path or table is not there. Others may say that nobody answered."""


def is_not_there(error: BaseException) -> bool:
    """Whether Spark's error says that a path or table is not there."""
    return any(condition in str(error) for condition in NOT_THERE)


def first_line(error: BaseException) -> str:
    """What went wrong in Spark's words, without its stack traces."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    # Errors that come through unconverted begin with the call that failed; the Java error is below it.
    java = [line[1:].strip() for line in lines if line.startswith(":")]
    # What a Python worker raised stands below its traceback, not indented.
    _, _, below = str(error).partition("Traceback (most recent call last):")
    python = [line for line in below.splitlines() if line and not line[0].isspace()]
    return (python or java or lines or [type(error).__name__])[0]


def warn(message: str) -> None:
    """Warns, with a SparkMetricsWarning that points at the line outside this package that called into it."""
    level, frame = 1, sys._getframe()
    while frame.f_back and frame.f_globals.get("__name__", "").split(".")[0] == __package__:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, SparkMetricsWarning, stacklevel=level)
