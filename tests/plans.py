"""Plans as Spark prints them."""

from __future__ import annotations

import contextlib
import io
import re

from pyspark.sql import DataFrame


def plan_of(frame: DataFrame) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        frame.explain(mode="formatted")
    return printed.getvalue()


def exchanges(plan: str) -> int:
    """Shuffles of a formatted plan; a cached part that stands in it twice counts once."""
    return len(set(re.findall(r"(?<!Broadcast)Exchange \((\d+)\)", plan)))
