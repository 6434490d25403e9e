"""States as tables and back, and the sum of any number of them: what a day saves, and how days become a month."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark import StorageLevel
from pyspark.sql import DataFrame

from sparkmetrics.class_counts import ClassCounts, added_class_counts
from sparkmetrics.class_counts import counts_of_frame as class_counts_of_frame
from sparkmetrics.class_scores import added_class_scores, scores_of_frames
from sparkmetrics.columns import Keys, listed
from sparkmetrics.errors import SchemaError
from sparkmetrics.origins import FIELDS, Origin, note, note_of, with_note
from sparkmetrics.ranges import Sizing
from sparkmetrics.schemas import STATE_TABLES, check_same_keys
from sparkmetrics.score_counts import added_score_counts, counts_of_frame
from sparkmetrics.states import States, positive_class, seen_classes

SCORES, CELLS, CLASS_SCORES, RANKS = STATE_TABLES


def saved(states: States) -> dict[str, DataFrame]:
    """The tables that keep states, by name, of those in STATE_TABLES that they have. Lazy.

    Parameters
    ----------
    states : of one prediction table, or a sum.

    Returns
    -------
    `score_counts` (`by..., range, segments..., rows, positives, negatives, score, pos, neg`), `class_cells` (`by...,
    segments..., label, prediction, count, rows`), and of probabilities `class_score_counts` (as `score_counts`, with
    `class` and `label` behind the user's segments) and `class_ranks` (`by..., segments..., true_rank, count, rows`).
    What `loaded` must know is metadata of the column `score` or `count`; further columns may be added behind.
    """
    tables = {}
    if states.scores is not None:
        tables[SCORES] = states.scores.saved()
    if (cells := states.classes) is not None:
        kept = note(cells.keys, cells.weighted, cells.origin, positive_class=states.positive)
        tables[CELLS] = with_note(cells.table(), "count", kept)
    if states.probabilities is not None:
        tables[CLASS_SCORES] = states.probabilities.counts.saved()
        tables[RANKS] = states.probabilities.rank_table()
    return tables


def loaded(tables: Mapping[str, DataFrame], where: str, sizing: Sizing | None = None) -> States:
    """The states that `saved` gave the tables of. Lazy: only schemas are looked at.

    Parameters
    ----------
    tables : of one day, by name; further columns behind (`run_id`, `run_date`) are left out.
    where : they lie, for messages: a path, or a catalog's name and a day.
    sizing : how work is cut into tasks.

    Raises
    ------
    SchemaError : a table is something else, of a later format, or not of the same evaluation as the others; one of
        classes has lost its note. (Score counts without one are read, as weighted.)
    """
    sizing = sizing or Sizing()
    found = {name: tables[name] for name in STATE_TABLES if name in tables}
    if not found or (CLASS_SCORES in found) != (RANKS in found):
        raise SchemaError(
            f"{where!r} holds {listed(tables)}: states are {SCORES}, {CELLS}, or {CLASS_SCORES} with {RANKS}, which "
            "save_counts writes."
        )
    made: dict[str, tuple[Keys, Origin | None]] = {}
    scores = classes = probabilities = positive = None
    if SCORES in found:
        scores = counts_of_frame(found[SCORES], where, sizing)
        made[SCORES] = scores.keys, scores.origin
    if CELLS in found:
        classes = class_counts_of_frame(found[CELLS], where)
        positive = note_of(found[CELLS], "count", where, CELLS).positive_class
        made[CELLS] = classes.keys, classes.origin
    if CLASS_SCORES in found:
        probabilities = scores_of_frames(found[CLASS_SCORES], found[RANKS], where, sizing)
        made[CLASS_SCORES] = probabilities.keys, probabilities.counts.origin
    (first, (keys, origin)), *others = made.items()
    for name, (other_keys, other) in others:
        places = f"in {first}", f"in {name}"
        check_same_keys(keys, other_keys, f"states of {where!r}", places)
        if origin is not None and other is not None and (different := origin.differences(other, FIELDS, *places)):
            raise SchemaError(
                f"The states of {where!r} were not made together: {'; '.join(different)}. Run the day again."
            )
    return States(keys, scores, classes, probabilities, positive, where=where)


def added(states: Sequence[States], classes: Sequence[object] | None = None) -> States:
    """The sum of any number of states: those of the union of their rows. One action looks for the classes, if any.

    Parameters
    ----------
    states : at least one, of the same kinds.
    classes : those that are averaged over, as in `evaluate`, to warn of others.

    Raises
    ------
    SchemaError : they do not fit together; says which of them, and the difference.
    """
    if not states:
        raise SchemaError("There are no states to add.")
    places = [f"in {one.where!r}" if one.where else f"in state {number}" for number, one in enumerate(states, 1)]
    kinds = [_kinds(one) for one in states]
    for kind, place in zip(kinds, places, strict=True):
        if kind != kinds[0]:
            raise SchemaError(
                f"These states do not fit together: {listed(kinds[0])} {places[0]}, {listed(kind)} {place}. Run the "
                "days again with the same columns."
            )
    of_scores = [one.scores for one in states if one.scores is not None]
    of_classes = [one.classes for one in states if one.classes is not None]
    of_probabilities = [one.probabilities for one in states if one.probabilities is not None]
    scores = added_score_counts(of_scores, places) if of_scores else None
    cells = added_class_counts(of_classes, places) if of_classes else None
    probabilities = added_class_scores(of_probabilities, places) if of_probabilities else None
    positive = None if cells is None else _positive_class(cells, of_classes, places, classes, scores is not None)
    return States(states[0].keys, scores, cells, probabilities, positive)


def _positive_class(
    total: ClassCounts,
    counts: Sequence[ClassCounts],
    places: Sequence[str],
    classes: Sequence[object] | None,
    scored: bool,
) -> str | None:
    """The positive class of a sum, which is persisted: days of two classes can make a month of three."""
    if total.origin is None or total.origin.positive is None:
        origins = zip(places, (one.origin for one in counts), strict=True)
        silent = [place for place, origin in origins if origin is None or origin.positive is None]
        raise SchemaError(
            f"Class counts do not say which class is positive: {', '.join(silent)}. Add these counts by themselves "
            "and evaluate the sum with positive."
        )
    total.frame.persist(StorageLevel.MEMORY_AND_DISK)
    return positive_class(seen_classes(total, classes), total.origin.positive, scored)


def _kinds(states: States) -> list[str]:
    """The names of the tables that states have."""
    kinds = {SCORES: states.scores, CELLS: states.classes, CLASS_SCORES: states.probabilities}
    return [name for name, state in kinds.items() if state is not None]
