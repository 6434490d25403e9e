"""Segments as people read them: `sex=female, pclass=1`."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, DataType, TimestampType

from sparkmetrics.columns import Keys
from sparkmetrics.levels import Level

OTHER = "(other)"
"""All segments of a level that its pair matrix does not name, together."""


def segment_name(keys: Keys, levels: Sequence[Level], names: Sequence[str], columns: Sequence[str]) -> Column:
    """The name of a segment.

    Parameters
    ----------
    keys : key columns.
    levels, names : segment positions of each level, and its name, which stands in the column `level`.
    columns : the columns that hold the values of the segment columns.
    """
    text = F.lit(None).cast("string")
    for level, name in zip(levels, names, strict=True):
        kinds = keys.types[len(keys.by) :]
        parts = (F.concat(F.lit(f"{keys.segments[i]}="), value_text(F.col(columns[i]), kinds[i])) for i in level)
        text = F.when(F.col("level") == name, F.concat_ws(", ", *parts)).otherwise(text)
    return text


def value_text(value: Column, kind: DataType) -> Column:
    """A segment value as text, JSON-quoted where it reads NULL or (other), or holds a comma, = or a quote."""
    text = value.cast("string")
    if isinstance(kind, BinaryType):
        text = F.concat(F.lit("0x"), F.lower(F.hex(value)))
    if isinstance(kind, TimestampType):
        # The hour that is there twice when summer ends: its second time has the offset.
        again = F.concat(text, F.date_format(value, "XXX"))
        text = F.when(text.cast("timestamp") == value, text).otherwise(again)
    misread = text.isin("NULL", OTHER) | text.rlike('[,="]')
    quoted = F.to_json(F.array(text))
    inner = quoted.substr(F.lit(2), F.length(quoted) - 2)
    return F.when(value.isNull(), F.lit("NULL")).when(misread, inner).otherwise(text)
