"""Values of key columns as a config writes them."""

from __future__ import annotations

import math
from contextlib import suppress
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from pyspark.sql.types import (
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from sparkmetrics.errors import ConfigError

BITS: dict[type[DataType], int] = {ByteType: 8, ShortType: 16, IntegerType: 32, LongType: 64}


def key_text(value: Any, kind: DataType, where: str) -> str | None:
    """The text whose cast to the column's type is a value of it; None for NULL.

    Parameters
    ----------
    value : as YAML has it: string, number, boolean, date, datetime or None.
    kind : the column's type.
    where : what names the value in the config.

    Raises
    ------
    ConfigError : it is no value of that type, so that no row has it.
    """
    if value is None:
        return None
    found = None
    with suppress(ValueError):  # of text that is no date
        found = _text(value, kind)
    if found is None:
        hint = " Quote it, so that YAML reads a string." if isinstance(kind, StringType) else ""
        raise ConfigError(f"{where}: {value!r} is no {kind.simpleString()}, which the column is.{hint}")
    return found


def _text(value: Any, kind: DataType) -> str | None:
    whole, number = type(value) is int, type(value) in (int, float)
    if isinstance(kind, StringType):
        return value if isinstance(value, str) else None
    if isinstance(kind, BooleanType):
        return str(value).lower() if isinstance(value, bool) else None
    if type(kind) in BITS:
        half = 2 ** (BITS[type(kind)] - 1)
        return str(value) if whole and -half <= value < half else None
    if isinstance(kind, (FloatType, DoubleType)):
        return repr(float(value)) if number else None
    if isinstance(kind, DecimalType):
        return _decimal(value, kind) if number and math.isfinite(value) else None
    if isinstance(kind, DateType):
        day = date.fromisoformat(value) if isinstance(value, str) else value
        return day.isoformat() if type(day) is date else None
    if isinstance(kind, (TimestampType, TimestampNTZType)):
        moment = datetime.fromisoformat(value) if isinstance(value, str) else value
        # Spark reads it in the session's time zone where it has no offset.
        return moment.isoformat(" ") if isinstance(moment, datetime) else None
    return None


def _decimal(value: float, kind: DecimalType) -> str | None:
    """The number in decimal digits, where the type has enough of them."""
    number = Decimal(str(value)).normalize()
    _, digits, exponent = number.as_tuple()
    fits = -int(exponent) <= kind.scale and len(digits) + int(exponent) <= kind.precision - kind.scale
    return format(number, "f") if fits else None
