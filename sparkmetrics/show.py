"""Results as text: a table for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, MapType

from sparkmetrics.columns import listed, quote
from sparkmetrics.errors import ConfigError, DataError
from sparkmetrics.tables import read_results

MOST_WIDTH = 40
"""Characters of a cell."""

QUIET = ("run_id",)
"""Columns that tell a person little."""


def shown(
    spark: SparkSession,
    path: str | None,
    run_date: date,
    *,
    table: str = "metrics",
    levels: Sequence[str] = (),
    metrics: Sequence[str] = (),
    rows: int = 100,
    table_prefix: str | None = None,
    format: str = "parquet",
) -> str:
    """A table of results of a day as text.

    Parameters
    ----------
    spark : session.
    path, table, run_date, table_prefix, format : as in `read_results`.
    levels, metrics : those that are shown; none means all.
    rows : most rows.

    Raises
    ------
    ConfigError : the table has no level or metric to choose by.
    DataError : as `read_results`; or no row has these levels and metrics: says which there are.
    """
    frame = read_results(spark, path, table, run_date, table_prefix=table_prefix, format=format)
    chosen = frame
    for column, values in (("level", levels), ("metric", metrics)):
        if not values:
            continue
        if column not in frame.columns:
            raise ConfigError(f"The table {table!r} has no column {column!r} to choose by.")
        chosen = chosen.where(F.col(column).isin(list(values)))
    kept = [
        field.name
        for field in frame.schema
        if field.name not in QUIET and not isinstance(field.dataType, (ArrayType, MapType))
    ]
    ordered = chosen.select(*(quote(name) for name in kept))
    found = ordered.orderBy(*(F.col(quote(name)).asc_nulls_first() for name in kept)).limit(rows + 1).collect()
    if not found and (levels or metrics):
        raise DataError(f"No row of {table!r} of {run_date} has them. {_choices(frame)}")
    # A column without a value says nothing.
    filled = [i for i, name in enumerate(kept) if name == "value" or any(row[i] is not None for row in found[:rows])]
    cells = [[kept[i] for i in filled], *([text(row[i]) for i in filled] for row in found[:rows])]
    lines = aligned(cells)
    if len(found) > rows:
        lines.append(f"... and more: choose by --level or --metric, or raise --rows (now {rows}).")
    return "\n".join(lines)


def _choices(frame: DataFrame) -> str:
    """The levels and metrics of a table in words: a handful of names."""
    words = []
    for column in ("level", "metric"):
        if column in frame.columns:
            names = [row[0] for row in frame.select(column).distinct().orderBy(column).limit(100).collect()]
            words.append(f"There is {column} {listed(names, 100)}.")
    return " ".join(words)


def text(value: object) -> str:
    """A cell: six digits of a number, `-` for NULL."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.0f}" if 1000 <= abs(value) < 1e15 and value.is_integer() else f"{value:.6g}"
    said = str(value).replace("\n", "\\n")
    return said if len(said) <= MOST_WIDTH else said[: MOST_WIDTH - 1] + "…"


def aligned(cells: Sequence[Sequence[str]]) -> list[str]:
    """Rows of cells as lines: columns of one width, numbers to the right; the first row is the header."""
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    right = [all(_is_number(cell) for cell in column[1:]) for column in zip(*cells, strict=True)]
    lines = [
        "  ".join(
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(row, widths, right, strict=True)
        ).rstrip()
        for row in cells
    ]
    return [lines[0], "  ".join("-" * width for width in widths), *lines[1:]]


def _is_number(cell: str) -> bool:
    try:
        float(cell.replace(",", ""))
    except ValueError:
        return cell == "-"
    return True
