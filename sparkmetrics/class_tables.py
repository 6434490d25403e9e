"""Rows of class counts -> dense class tables of many groups at once, in a worker.

Each group has its own list of classes: the declared ones in their order, then the others that occur in it. So a batch
of groups with equally many classes is one array without padding, whatever their classes are called.

No Spark import: what runs in a worker needs NumPy and pyarrow alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkmetrics import batches, kernel
from sparkmetrics.kernel import Booleans, Floats, Integers
from sparkmetrics.metrics.classes import ClassTable

BATCH_CELLS = 2**20
"""Most doubles in one array of a batch (8 MiB; formulas hold some ten), unless a single group has more cells."""

NUMBER = r"^-?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
"""A class that is a number."""

Costs = Mapping[str, Mapping[str, float]]
"""{label: {predicted class: cost}}; pairs that are not listed cost 0."""


@dataclass(frozen=True)
class Batch:
    """Groups with equally many classes.

    Attributes
    ----------
    first : array of int64, shape (G,): a row of the input that has the keys of each group.
    rows : array of float64, shape (G,): its prediction rows.
    names : array of int64, shape (G, K): its classes, as positions in `classes`.
    classes : the classes of the task.
    table : its class counts.
    """

    first: Integers
    rows: Floats
    names: Integers
    classes: pa.Array
    table: ClassTable


@dataclass(frozen=True)
class _Classes:
    """The classes of a task: the declared ones in their order, then the others, numbers before texts, each sorted.

    Attributes
    ----------
    names : the classes.
    numeric : array of bool: which of them are numbers.
    label, prediction : arrays of int64: the class of each row, as a position in `names`.
    """

    names: pa.Array
    numeric: Booleans
    label: Integers
    prediction: Integers


def class_tables(
    table: pa.Table, keys: Sequence[str], declared: Sequence[str] | None, costs: Costs | None
) -> Iterator[Batch]:
    """All groups of a table, in batches of bounded size.

    Parameters
    ----------
    table : columns `keys`, `label`, `prediction`, `count`, `rows`, one row for each combination. A count of 0 adds its
        rows to the group's and nothing else.
    keys : what tells one group from another.
    declared : the classes to average over, in their order; None takes those that occur in each group.
    costs : the cost of each (label, prediction), or None.
    """
    groups = batches.key_codes([batches.column(table, name) for name in keys], table.num_rows)
    rows = _sums(groups.row, batches.floats(table, "rows"), groups.size)
    counts = batches.floats(table, "count")
    filled = np.flatnonzero(counts > 0)
    fixed = len(declared or ())
    classes = _classes(table, declared or ())
    owner, counts = groups.row[filled], counts[filled]
    label, prediction, others = _within_groups(
        owner, classes.label[filled], classes.prediction[filled], fixed, len(classes.names)
    )
    owner_of_other, other = np.divmod(others, max(len(classes.names), 1))
    number = np.bincount(owner_of_other, minlength=groups.size)
    first_other = np.cumsum(number) - number
    cost_of = None if costs is None else _CostTable.of(costs, classes.names)

    order = kernel.sort_by_group(number)
    place = np.empty_like(order)
    place[order] = np.arange(groups.size)
    cells = kernel.sort_by_group(place[owner])
    bounds = np.searchsorted(place[owner][cells], np.arange(groups.size + 1))
    for begin, end in _slices(number[order], fixed):
        members, inside = order[begin:end], cells[bounds[begin] : bounds[end]]
        size, own = end - begin, int(number[order[begin]])
        width = fixed + own
        flat = ((place[owner[inside]] - begin) * width + label[inside]) * width + prediction[inside]
        names = np.empty((size, width), dtype=np.int64)
        names[:, :fixed] = np.arange(fixed)
        names[:, fixed:] = other[first_other[members][:, None] + np.arange(own)]
        class_table = ClassTable(
            counts=_sums(flat, counts[inside], size * width**2).reshape(size, width, width),
            chosen=width if declared is None else fixed,
            order=np.all(classes.numeric[names], axis=1) | (declared is not None),
            declared=np.full(size, declared is None or own == 0),
            costs=None if cost_of is None else cost_of(names),
            free_diagonal=cost_of is None or cost_of.free_diagonal,
        )
        yield Batch(groups.first[members], rows[members], names, classes.names, class_table)


def _classes(table: pa.Table, declared: Sequence[str]) -> _Classes:
    """The classes of a table, and the class of each row as label and as prediction."""
    columns = [batches.column(table, name).cast(pa.string()) for name in ("label", "prediction")]
    encoded = pc.dictionary_encode(pa.concat_arrays([pa.array(declared, pa.string()), *columns]))
    names, fixed = encoded.dictionary, len(declared)
    numeric = pc.match_substring_regex(names, NUMBER).to_numpy(zero_copy_only=False)
    numbers = np.zeros(len(names))
    numbers[numeric] = np.array(names.filter(pa.array(numeric)).to_pylist(), dtype=object).astype(np.float64)
    text_rank = np.empty(len(names), dtype=np.int64)
    text_rank[pc.sort_indices(names).to_numpy()] = np.arange(len(names))
    # The declared classes were encoded first, so their codes are their positions.
    position = np.minimum(np.arange(len(names)), fixed)
    order = np.lexsort((text_rank, numbers, ~numeric, position))
    codes = np.empty(len(names), dtype=np.int64)
    codes[order] = np.arange(len(names))
    label, prediction = codes[encoded.indices.to_numpy()[fixed:]].reshape(2, -1)
    return _Classes(names.take(pa.array(order)), numeric[order], label, prediction)


def _within_groups(
    owner: Integers, label: Integers, prediction: Integers, fixed: int, size: int
) -> tuple[Integers, Integers, Integers]:
    """Classes as positions in the list of their group.

    Parameters
    ----------
    owner : the group of each cell; `label` and `prediction` are its classes.
    fixed : so many classes are in every group's list.
    size : the number of classes.

    Returns
    -------
    Labels and predictions as positions, and group * size + class of every other class that a group has, increasing.
    """
    owners, codes = np.concatenate([owner, owner]), np.concatenate([label, prediction])
    own = codes >= fixed
    others, which = np.unique(owners[own] * size + codes[own], return_inverse=True)
    positions = codes.copy()
    if len(others):
        group = others // size
        starts = kernel.segment_starts(group)
        first = np.repeat(starts, kernel.segment_lengths(starts, len(group)))
        positions[own] = fixed + (np.arange(len(others)) - first)[which]
    positions = positions.reshape(2, -1)
    return positions[0], positions[1], others


def _sums(codes: Integers, weights: Floats, size: int) -> Floats:
    """The sum of the weights of each code from 0 to size - 1."""
    return np.bincount(codes, weights=weights, minlength=size).astype(np.float64, copy=False)


def _slices(number: Integers, fixed: int) -> Iterator[tuple[int, int]]:
    """Cuts groups, sorted by the number of their own classes, into stretches of one number and bounded size."""
    starts = kernel.segment_starts(number)
    for begin, length in zip(starts, kernel.segment_lengths(starts, len(number)), strict=True):
        cells = max(int(number[begin]) + fixed, 1) ** 2
        step = max(min(BATCH_CELLS // cells, batches.BATCH_ROWS), 1)
        for piece in range(int(begin), int(begin + length), step):
            yield piece, min(piece + step, int(begin + length))


@dataclass(frozen=True)
class _CostTable:
    """Costs by class.

    Attributes
    ----------
    costs : array of float64, shape (M + 1, M + 1): of the M classes that have any; 0 in the last row and column.
    row : array of int64: the position in `costs` of each class of the task; M for the others.
    free_diagonal : whether no class has a cost of being right.
    """

    costs: Floats
    row: Integers
    free_diagonal: bool

    @classmethod
    def of(cls, costs: Costs, names: pa.Array) -> _CostTable:
        classes = list(dict.fromkeys([*costs, *(predicted for row in costs.values() for predicted in row)]))
        position = {name: i for i, name in enumerate(classes)}
        matrix = np.zeros((len(classes) + 1, len(classes) + 1))
        for label, row in costs.items():
            for predicted, cost in row.items():
                matrix[position[label], position[predicted]] = cost
        found = pc.fill_null(pc.index_in(names, value_set=pa.array(classes, pa.string())), len(classes))
        return cls(matrix, found.to_numpy().astype(np.int64), not np.diagonal(matrix).any())

    def __call__(self, names: Integers) -> Floats:
        """The costs of groups with these classes, shape (G, K, K)."""
        row = self.row[names]
        return self.costs[row[:, :, None], row[:, None, :]]
