"""What a state was made with: it travels with the state, stands in the note of a saved one, and must fit to add up."""

from __future__ import annotations

import json
import math
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import reduce
from itertools import combinations
from typing import Any, Protocol

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, DataType, NumericType

from sparkmetrics import schemas
from sparkmetrics.class_columns import ProbabilityColumns, class_name
from sparkmetrics.columns import Keys, listed, quote
from sparkmetrics.errors import SchemaError
from sparkmetrics.predictions import Label

FORMAT = 2
"""Version of saved states. Format 1 had no origin, and no names of the key columns."""

NOTE = "sparkmetrics"
"""The key of a note in a column's metadata."""

HERE_AND_THERE = ("here", "there")
"""The places of two states in a message."""

OF_SCORES = ("label", "label_type", "positive", "score", "weight")
OF_CLASSES = ("label", "label_type", "positive", "prediction", "prediction_type", "weight")
OF_PROBABILITIES = ("label", "label_type", "positive", "probabilities", "classes", "weight")
OF_MOST_LIKELY = (*OF_CLASSES, "probabilities", "classes")
"""What must be the same in the origins of states that are added: of score counts, of class counts, of class
probabilities, and of class counts whose predictions are the most likely classes."""


@dataclass(frozen=True)
class Origin:
    """What a state was made with. The key columns are beside it, in the state's `keys`.

    Attributes
    ----------
    label, label_type : the column of labels, and whether they are a "number", a "boolean" or a "string".
    score : the column of scores, or {model: column} of a wide table.
    prediction, prediction_type : the column of predicted classes, and what they are, as of labels.
    probabilities : the column of probabilities, or {class: column}.
    classes : of the probabilities, in order: of equal probabilities the first is the most likely.
    weight : the column of weights; None counts rows.
    positive : the positive label, as it was given; None where it was not asked for.
    """

    label: str
    label_type: str
    score: str | Mapping[str, str] | None = None
    prediction: str | None = None
    prediction_type: str | None = None
    probabilities: str | Mapping[str, str] | None = None
    classes: tuple[str, ...] | None = None
    weight: str | None = None
    positive: Label | None = None

    def as_note(self) -> dict[str, Any]:
        """It as plain data; what is None is left out."""
        found = {name: value for name, value in vars(self).items() if value is not None}
        return found | ({"classes": list(self.classes)} if self.classes is not None else {})

    def differences(self, other: Origin, names: Sequence[str], here: str, there: str) -> list[str]:
        """What differs among the named fields, each spelt out: "positive: 1 here, 'yes' there"."""
        found = []
        for name in names:
            mine, theirs = getattr(self, name), getattr(other, name)
            if name == "score" and isinstance(mine, Mapping) and isinstance(theirs, Mapping):
                # A model that one of them lacks is another `by` tuple, and no difference.
                both = {model: (mine[model], theirs[model]) for model in mine if model in theirs}
                pairs = [(f"score of {model!r}", *pair) for model, pair in both.items() if pair[0] != pair[1]]
            elif name == "positive" and (mine is None or theirs is None or _same_label(mine, theirs)):
                pairs = []
            else:
                pairs = [(name.replace("_", " "), mine, theirs)] if mine != theirs else []
            found += [f"{what}: {_shown(one)} {here}, {_shown(two)} {there}" for what, one, two in pairs]
        return found

    def joined(self, other: Origin) -> Origin:
        """The origin of both together, where they fit: what they differ in besides is not known of the sum."""
        found: dict[str, Any] = {}
        for name in FIELDS:
            mine, theirs = getattr(self, name), getattr(other, name)
            if name == "score" and isinstance(mine, Mapping) and isinstance(theirs, Mapping):
                found[name] = {**mine, **theirs}
            elif name == "positive":
                found[name] = theirs if mine is None else mine
            else:
                found[name] = mine if mine == theirs else None
        return Origin(**found)


FIELDS = tuple(field.name for field in fields(Origin))


def plain_label(value: object) -> Label | None:
    """A label as a value that JSON has, as near as there is one."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, numbers.Integral) and abs(int(value)) < 2**63:
        return int(value)
    if isinstance(value, numbers.Real) and not isinstance(value, numbers.Integral) and math.isfinite(value):
        return float(value)
    return str(value)


def _same_label(one: Label, other: Label) -> bool:
    """Whether two ways to name the positive label mean one: 1, 1.0, True and "1" do, and so do True and "true"."""
    numbered = not isinstance(one, str) and not isinstance(other, str) and one == other
    return numbered or class_name(one) == class_name(other)


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{listed(value)}]"
    return "none" if value is None else repr(value)


def type_of_labels(kind: DataType) -> str:
    """What labels or predictions of a column type are: days can be added where they are of one kind."""
    if isinstance(kind, BooleanType):
        return "boolean"
    return "number" if isinstance(kind, NumericType) else "string"


def plain_columns(columns: ProbabilityColumns | None) -> str | Mapping[str, str] | None:
    """Columns of probabilities, one a class by the names of the classes."""
    if columns is None or isinstance(columns, str):
        return columns
    if isinstance(columns, Mapping):
        return {class_name(name): column for name, column in columns.items()}
    return {name: name for name in columns}


class State(Protocol):
    """What adds up."""

    @property
    def keys(self) -> Keys:
        """Names and types of the `by` and segment columns."""

    @property
    def weighted(self) -> bool:
        """Whether predictions carried weights."""

    @property
    def origin(self) -> Origin | None:
        """What it was made with, where that is known."""


def fitting(states: Sequence[State], names: Sequence[str], what: str, places: Sequence[str]) -> Origin | None:
    """The origin of states that are added; checks that they fit.

    A state of unknown origin (made by another program, saved by an older version, or without its note) is checked by
    its key columns alone, and then nothing is known of the sum's origin.

    Parameters
    ----------
    states : at least one.
    names : the fields of an origin that matter.
    what : they are, for the message.
    places : where each stands, for the message: "here", "in 'counts/monday'".

    Raises
    ------
    SchemaError : their key columns differ, or what they were made with, with the difference spelt out.
    """
    for state, place in zip(states, places, strict=True):
        schemas.check_same_keys(states[0].keys, state.keys, what, (places[0], place))
    known = [(state.origin, place) for state, place in zip(states, places, strict=True) if state.origin is not None]
    for (one, here), (other, there) in combinations(known, 2):
        if different := one.differences(other, names, here, there):
            raise SchemaError(
                f"These {what} do not fit together: {'; '.join(different)}. Make them again alike, or evaluate them "
                "apart."
            )
    if len(known) < len(states):
        return None
    return reduce(Origin.joined, (origin for origin, _ in known))


# --- notes of saved states


@dataclass(frozen=True)
class Note:
    """What a saved state says of itself.

    Attributes
    ----------
    weighted : whether predictions carried weights; true where the note was lost, which is right for any.
    by : the number of `by` columns, where it says so.
    names : of its key columns, where it says so.
    origin : what it was made with, where it says so.
    positive_class : the positive one of two predicted classes, where it says so.
    """

    weighted: bool = True
    by: int | None = None
    names: tuple[str, ...] | None = None
    origin: Origin | None = None
    positive_class: str | None = None

    def check_names(self, keys: Keys, where: str, what: str) -> None:
        """Raises SchemaError where key columns are not those that were saved: one was dropped, or renamed."""
        # Some catalogs change the case of names.
        if self.names is not None and [n.lower() for n in self.names] != [n.lower() for n in keys.names]:
            raise SchemaError(
                f"{where!r} holds {what} that were saved with the key columns {listed(self.names)}, and now has "
                f"{listed(keys.names)}. Key columns of a saved state stay as they are; roll_up gives fewer segments."
            )


def note(keys: Keys, weighted: bool, origin: Origin | None, **more: object) -> dict[str, Any]:
    """The note of a state as plain data, for `with_note`; what is None is left out."""
    known = {"origin": None if origin is None else origin.as_note(), **more}
    return {
        "format": FORMAT,
        "weighted": weighted,
        "by": list(keys.by),
        "segments": list(keys.segments),
        **{name: value for name, value in known.items() if value is not None},
    }


def with_note(frame: DataFrame, column: str, kept: Mapping[str, Any]) -> DataFrame:
    """The frame with what the reader of a saved state must know kept as metadata of a column."""
    metadata = {NOTE: dict(kept)}
    # A Connect session forgets the metadata of what withColumn names.
    return frame.select(
        *(F.col(quote(n)).alias(n, metadata=metadata) if n == column else F.col(quote(n)) for n in frame.columns)
    )


def notes_as_text(frame: DataFrame) -> str | None:
    """The notes of a saved state's columns as JSON; None where it has none."""
    notes = {field.name: field.metadata[NOTE] for field in frame.schema if NOTE in (field.metadata or {})}
    return json.dumps(notes, sort_keys=True) if notes else None


def with_notes_of_text(frame: DataFrame, text: str | None) -> DataFrame:
    """The frame without its column STATE_NOTE, if it has one, and with what `notes_as_text` gave as metadata again."""
    if schemas.STATE_NOTE not in frame.columns:
        return frame
    notes = {} if text is None else json.loads(text)
    return frame.select(
        *(
            F.col(quote(name)).alias(name, metadata={NOTE: notes[name]}) if name in notes else F.col(quote(name))
            for name in frame.columns
            if name != schemas.STATE_NOTE
        )
    )


def note_of(frame: DataFrame, column: str, where: str, what: str) -> Note:
    """What `with_note` kept. Raises SchemaError for a state of a later format, or a note that is none of ours."""
    found = (frame.schema[column].metadata or {}).get(NOTE, {})
    if found.get("format", FORMAT) > FORMAT:
        raise SchemaError(f"{where!r} holds {what} of format {found['format']}; this version reads up to {FORMAT}.")
    by = found.get("by")
    try:
        origin = Origin(**found["origin"]) if "origin" in found else None
        if origin is not None and origin.classes is not None:
            origin = replace(origin, classes=tuple(origin.classes))
        return Note(
            weighted=bool(found.get("weighted", True)),
            by=by if by is None or isinstance(by, int) else len(by),
            names=(*by, *found["segments"]) if isinstance(by, list) else None,
            origin=origin,
            positive_class=found.get("positive_class"),
        )
    except (KeyError, TypeError) as error:
        raise SchemaError(
            f"{where!r} holds {what} with a note, in the metadata of column {column!r}, that is none of ours: {error}."
        ) from error
