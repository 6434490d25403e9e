"""Everything that sparkmetrics raises on purpose, under one root, and what it warns with."""

from __future__ import annotations


class SparkMetricsError(Exception):
    """Root of every error that sparkmetrics raises on purpose."""


class ConfigError(SparkMetricsError, ValueError):
    """An argument or a key of a config is wrong: says which one, what was found and what is accepted."""


class SchemaError(SparkMetricsError, ValueError):
    """A table lacks a column, or a column has a type or a name that cannot be used."""


class DataError(SparkMetricsError, ValueError):
    """The rows of a table cannot be evaluated: says how many, in which column and what to change."""


class WriteError(SparkMetricsError, OSError):
    """Results could not be written."""


class SparkMetricsWarning(UserWarning):
    """Something in the input deserves a look, and the evaluation goes on."""
