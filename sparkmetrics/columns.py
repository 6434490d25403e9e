"""The only place where a user's column name exists: resolving, quoting, and internal names.

Inside the engine the `by` columns are `b0, b1, ...` and the segment columns `s0, s1, ...`, so no name of a user can
meet one of ours, and no quoting is needed past this module.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from sparkmetrics.errors import ConfigError, SchemaError

TOTAL = "total"
"""The name of the level without segments."""


def quote(name: str) -> str:
    """A column name as Spark reads it whatever it holds: in backticks, those inside doubled."""
    return "`" + name.replace("`", "``") + "`"


def table_name(name: str) -> str:
    """The name of a catalog's table as Spark reads it: each part quoted."""
    return ".".join(map(quote, name.split(".")))


def listed(names: Iterable[object], most: int = 20) -> str:
    """Names for a message: quoted, at most `most` of them."""
    names = list(names)
    if not names:
        return "none"
    shown = ", ".join(repr(name) for name in names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")


def resolve(frame: DataFrame, name: str, role: str) -> Column:
    """The column of that exact name.

    Parameters
    ----------
    frame : any DataFrame.
    name : the column's name as it stands in the schema; dots, spaces and backticks are part of it.
    role : what it is wanted for, for the message ("score", "segment", ...).

    Raises
    ------
    SchemaError : no such column, or more than one that Spark cannot tell apart.
    """
    field_type(frame, name, role)
    return F.col(quote(name))


def field_type(frame: DataFrame, name: object, role: str) -> DataType:
    """The type of the column of that exact name. Raises SchemaError as `resolve` does."""
    if not isinstance(name, str) or not name:
        raise ConfigError(f"{role} column: a column name is expected, found {name!r}.")
    names = frame.schema.names
    alike = [other for other in names if other.lower() == name.lower()]
    exact = alike.count(name)
    if exact == 0:
        hint = f" Did you mean {listed(alike)}?" if alike else ""
        raise SchemaError(f"{role} column {name!r} is not in the table.{hint} Its columns: {listed(names)}.")
    sensitive = frame.sparkSession.conf.get("spark.sql.caseSensitive") == "true"
    if exact > 1 or (len(alike) > 1 and not sensitive):
        raise SchemaError(
            f"{role} column {name!r} is ambiguous: the table has {listed(alike)}. Rename or drop all but one"
            + ("." if exact > 1 else ", or set spark.sql.caseSensitive=true.")
        )
    return frame.schema[names.index(name)].dataType


def level_name(segments: Sequence[str]) -> str:
    """The name of a level: `total`, `sex`, `sex,pclass`.

    A column whose name holds a comma or a quote, or is `total`, is JSON-quoted.
    """
    names = (json.dumps(s, ensure_ascii=False) if s == TOTAL or "," in s or '"' in s else s for s in segments)
    return ",".join(names) if segments else TOTAL


@dataclass(frozen=True)
class Keys:
    """The `by` and segment columns of an evaluation: their names outside and inside, and their types.

    Attributes
    ----------
    by, segments : the user's names.
    types : the type of each, `by` first.
    inside : internal names of the `by` columns, where they are others than `b0, b1, ...`.
    """

    by: tuple[str, ...]
    segments: tuple[str, ...]
    types: tuple[DataType, ...] = field(default=())
    inside: tuple[str, ...] = ()

    @property
    def by_columns(self) -> list[str]:
        """Internal names of the `by` columns."""
        return list(self.inside) or [f"b{i}" for i in range(len(self.by))]

    @property
    def segment_columns(self) -> list[str]:
        """Internal names of the segment columns."""
        return [f"s{i}" for i in range(len(self.segments))]

    @property
    def names(self) -> tuple[str, ...]:
        """The user's names, `by` first."""
        return self.by + self.segments

    @property
    def columns(self) -> list[str]:
        """Internal names, `by` first."""
        return self.by_columns + self.segment_columns

    @property
    def apart(self) -> Keys:
        """The same columns under the same internal names, none of them pooled: each cell is a `by` tuple of its own."""
        return Keys(self.names, (), self.types, tuple(self.columns))

    def inward(self) -> list[Column]:
        """The user's columns under their internal names; of floating keys there is one zero and one NaN."""
        return [
            _one_key(F.col(quote(name)), kind).alias(inside)
            for name, inside, kind in zip(self.names, self.columns, self.types, strict=True)
        ]

    def outward(self) -> tuple[list[Column], list[Column]]:
        """The internal `by` and segment columns under the user's names."""
        columns = [F.col(inside).alias(name) for inside, name in zip(self.columns, self.names, strict=True)]
        return columns[: len(self.by)], columns[len(self.by) :]

    def rolled_up(self, segments: Sequence[str]) -> tuple[Keys, list[Column]]:
        """Keys of fewer segment columns, and these internal columns under the new internal names.

        Raises
        ------
        ConfigError : a name that is not a segment column.
        """
        unknown = [name for name in segments if name not in self.segments]
        if unknown:
            raise ConfigError(
                f"roll_up: {listed(unknown)} is not a segment column. These are: {listed(self.segments)}."
            )
        names = {*self.by, *segments}
        kept = [i for i, name in enumerate(self.names) if name in names]
        behind = tuple(self.names[i] for i in kept[len(self.by) :])
        keys = Keys(self.by, behind, tuple(self.types[i] for i in kept))
        return keys, [F.col(self.columns[i]).alias(new) for i, new in zip(kept, keys.columns, strict=True)]

    def check_distinct(self) -> None:
        """Raises SchemaError where a column is named twice."""
        twice = [name for name, times in Counter(name.lower() for name in self.names).items() if times > 1]
        if twice:
            raise SchemaError(
                f"by and segments name {listed(twice)} more than once (names that differ by case count as one, since "
                "most readers of the results cannot tell them apart)."
            )

    def of_table(self, frame: DataFrame, reserved: Iterable[str]) -> Keys:
        """These keys with the types they have in a table.

        Parameters
        ----------
        frame : the prediction table.
        reserved : column names of our result tables, which a key cannot have.

        Raises
        ------
        SchemaError : a column is missing, ambiguous, given twice, of a type that cannot be a key, or named like a
            column of the results.
        """
        taken = {name.lower() for name in reserved}
        types = []
        for role, names in (("by", self.by), ("segment", self.segments)):
            for name in names:
                kind = field_type(frame, name, role)
                if not is_key_type(kind):
                    raise SchemaError(
                        f"{role} column {name!r} has type {kind.simpleString()}: a key is a string, number, boolean, "
                        "date, timestamp or binary value. Cast it, or select the fields you need as columns."
                    )
                if name.lower() in taken:
                    raise SchemaError(
                        f"{role} column {name!r} has the name of a column of the results. Rename it first, for example "
                        f"df.withColumnRenamed({name!r}, {'my_' + name!r})."
                    )
                types.append(kind)
        self.check_distinct()
        return Keys(self.by, self.segments, tuple(types))


def _one_key(key: Column, kind: DataType) -> Column:
    """A key column in which equal values have equal bits: workers tell -0.0 from 0.0, and one NaN from another."""
    if kind.typeName() not in ("double", "float"):
        return key
    zero, nan = (F.lit(value).cast(kind) for value in (0.0, float("nan")))
    return F.when(key == 0, zero).when(F.isnan(key), nan).otherwise(key)


def is_key_type(kind: DataType) -> bool:
    """Whether a column of this type can be a key: atomic, and known to Arrow."""
    nested = isinstance(kind, (ArrayType, MapType, StructType))
    # Strings that are equal under a collation are not equal to the kernel.
    unfit = ("void", "udt", "variant", "interval", "geometry", "geography", "collate")
    return not nested and not any(word in kind.typeName() or word in kind.simpleString() for word in unfit)
