"""Groups of fewer rows than `min_group_rows`: they keep their place in every table, and lose their values.

A filter for reliability: they still count in what they are part of, from which they can often be worked out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from sparkmetrics.joins import join_on


@dataclass(frozen=True)
class SmallGroups:
    """Which groups are too small.

    Attributes
    ----------
    least : rows that a group needs; 0 keeps the values of all.
    """

    least: int

    @property
    def reason(self) -> str:
        """Why their values are NULL."""
        return f"fewer than {self.least} rows"

    def emptied(self, table: DataFrame, rows: Column, values: Iterable[str]) -> DataFrame:
        """A table in which small groups have no values.

        Parameters
        ----------
        table : rows of groups.
        rows : the rows of the group that a row is of.
        values : the columns that become NULL; `reason` says why, and is added where the table has none.
        """
        if self.least == 0:
            return table
        small = rows < self.least
        before = F.col("reason") if "reason" in table.columns else F.lit(None).cast("string")
        return table.withColumns(
            {name: F.when(~small, F.col(name)) for name in values}
            | {"reason": F.when(small, self.reason).otherwise(before)}
        )

    def replaced(self, table: DataFrame, groups: Callable[[], DataFrame], keys: Sequence[str]) -> DataFrame:
        """A table of several rows a group, in which a small group has one row, of its keys and the reason.

        Parameters
        ----------
        table : rows of groups.
        groups : makes one row a group, with its `rows`, where that is needed.
        keys : the columns that tell groups apart.
        """
        if self.least == 0:
            return table
        small = groups().where(F.col("rows") < self.least).select(*keys)
        kept = join_on(table, small, keys, "left_anti")
        return kept.unionByName(small.withColumn("reason", F.lit(self.reason)), allowMissingColumns=True)
