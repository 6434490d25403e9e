"""Measures of predicted classes: formulas of class tables, for many groups at once, in NumPy.

Products of counts are products of shares of the group's weight, so that neither counts of 3e9 nor weights of 1e100
overflow, and nothing that may be small is the difference of what is large.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sparkmetrics.kernel import Booleans, Floats
from sparkmetrics.metrics import binary
from sparkmetrics.metrics.arithmetic import Number, clip, ratio, square_root
from sparkmetrics.metrics.counts import Cells
from sparkmetrics.metrics.registry import UNBOUNDED, Best, Metric
from sparkmetrics.metrics.steps import once

CLASS: dict[str, ClassMetric] = {}
"""Overall metrics of predicted classes, in the order they were registered."""

CLASS_REASONS = {
    "weight": "no weight",
    "order": "needs classes",
    "declared": "classes outside the declared ones",
    "free_diagonal": "class_costs is not 0 on the diagonal",
}
"""Why a metric is NULL where what it needs of a `ClassTable` is 0 or false."""


@dataclass(frozen=True)
class ClassTable:
    """The class counts of groups that have equally many classes, each group its own list of them.

    Attributes
    ----------
    counts : array of float64, shape (G, K, K): weight by [group, label, prediction].
    chosen : the first so many classes of each group are averaged over.
    order : array of bool, shape (G,): whether the classes of a group are in an order that means something.
    declared : array of bool, shape (G,): whether no class of a group is outside those that are averaged over.
    costs : array of float64, shape (G, K, K): the cost of each cell; None where only errors cost, 1 each.
    free_diagonal : whether right predictions cost nothing.
    """

    counts: Floats
    chosen: int
    order: Booleans
    declared: Booleans
    costs: Floats | None = None
    free_diagonal: bool = True

    @once
    def correct(self) -> Floats:
        """The weight of each class that is predicted right, shape (G, K)."""
        return np.diagonal(self.counts, axis1=1, axis2=2).copy()

    @once
    def errors(self) -> Floats:
        """The counts without their diagonal, shape (G, K, K)."""
        return _without_diagonal(self.counts)

    @once
    def cells(self) -> Cells:
        """Each class against the rest, arrays of shape (G, K).

        tn adds up the counts outside a class's row and column. As the total less that row and column it would lose a
        light class's digits to the rounding of a heavy one.
        """
        outside_row = _of_others(self.counts)
        return Cells(
            tp=self.correct,
            fp=self.errors.sum(axis=1),
            fn=self.errors.sum(axis=2),
            tn=_without_diagonal(outside_row).sum(axis=2),
        )

    @once
    def outcomes(self) -> Cells:
        """All rows of a group as right (tp) or wrong (fp), arrays of shape (G,)."""
        none = np.zeros(len(self.counts))
        return Cells(tp=self.correct.sum(axis=1), fp=self.errors.sum(axis=(1, 2)), fn=none, tn=none)

    @once
    def weight(self) -> Number:
        """The weight of each group, shape (G,)."""
        return self.outcomes.weight

    @once
    def chosen_cells(self) -> Cells:
        """The cells of the classes that are averaged over."""
        c = self.cells
        return Cells(*(cell[:, : self.chosen] for cell in (c.tp, c.fp, c.fn, c.tn)))


def _without_diagonal(counts: Floats) -> Floats:
    return np.where(np.eye(counts.shape[-1], dtype=bool), 0.0, counts)


def _of_others(values: Floats) -> Floats:
    """For each position of axis 1 the sum over all others: what lies before plus what lies behind."""
    sums = np.zeros_like(values)
    sums[:, 1:] += np.cumsum(values[:, :-1], axis=1)
    sums[:, :-1] += np.cumsum(values[:, :0:-1], axis=1)[:, ::-1]
    return sums


NO_LABELS = "no labels of the declared classes"
"""Why a mean over the labels of the declared classes is NULL."""


# --- averages of the classes' values of a two-class metric

Formula = Callable[[Cells], Number]


def macro(table: ClassTable, formula: Formula) -> Number:
    """The mean over the chosen classes; a class whose value is undefined counts as 0."""
    values = _defined(formula(table.chosen_cells))
    return ratio(values.sum(axis=1), table.chosen)


def micro_cells(table: ClassTable) -> Cells:
    """The cells summed over the chosen classes: a metric's micro average is its value of them."""
    c = table.chosen_cells
    return Cells(*(cell.sum(axis=1) for cell in (c.tp, c.fp, c.fn, c.tn)))


def weighted(table: ClassTable, formula: Formula) -> Number:
    """The mean over the chosen classes by label weight, undefined values as 0; NaN where no label is of them."""
    values = _defined(formula(table.chosen_cells))
    weights = table.chosen_cells.positives
    return ratio((values * weights).sum(axis=1), weights.sum(axis=1))


def _defined(values: Number) -> Floats:
    return np.where(np.isnan(values), 0.0, values)


# --- overall metrics


@dataclass(frozen=True)
class ClassMetric(Metric):
    """A metric of a whole class table.

    Attributes
    ----------
    average : what stands in the column `average`.
    otherwise : the reason where the value is NaN although it has all that it needs; empty where that cannot be.
    proportion_of : the weight of a `ClassTable` that the value is a share of, if it is one.
    value : the metric of each group, NaN where undefined.
    """

    average: str | None
    otherwise: str
    proportion_of: str | None
    value: Callable[[ClassTable], Number]

    def undefined_when(self) -> str:
        """The undefined cases as a phrase."""
        reasons = [*(CLASS_REASONS[need] for need in self.needs), self.otherwise]
        return ", or ".join(reason for reason in reasons if reason)


def class_metric(
    *,
    formula: str,
    needs: tuple[str, ...] = ("weight",),
    otherwise: str = "",
    best: Best = "highest",
    range: tuple[float, float] = (0.0, 1.0),
    source: str = "",
    average: str | None = None,
    proportion_of: str | None = None,
) -> Callable[[Callable[[ClassTable], Number]], Callable[[ClassTable], Number]]:
    """Registers a function of a `ClassTable` as a metric under its own name; its docstring is the purpose."""

    def register(value: Callable[[ClassTable], Number]) -> Callable[[ClassTable], Number]:
        name = value.__name__
        purpose = (value.__doc__ or "").strip().splitlines()[0].rstrip(".")
        CLASS[name] = ClassMetric(
            name=name,
            shown=name,
            purpose=purpose,
            formula=formula,
            needs=needs,
            best=best,
            range=range,
            source=source,
            averaged=False,
            average=average,
            otherwise=otherwise,
            proportion_of=proportion_of,
            value=value,
        )
        return value

    return register


@class_metric(formula="sum over classes of n[k, k] / W", proportion_of="weight")
def accuracy(t: ClassTable) -> Number:
    """Share of rows called right."""
    return binary.accuracy(t.outcomes)


@class_metric(formula="(W - sum over classes of n[k, k]) / W", best="lowest", proportion_of="weight")
def error_rate(t: ClassTable) -> Number:
    """Share of rows called wrong."""
    return binary.error_rate(t.outcomes)


@class_metric(formula="mean over the classes that occur as labels of recall", otherwise=NO_LABELS)
def balanced_accuracy(t: ClassTable) -> Number:
    """Mean recall of the classes that occur as labels."""
    recalls = binary.recall(t.chosen_cells)
    return ratio(_defined(recalls).sum(axis=1), (~np.isnan(recalls)).sum(axis=1))


@class_metric(
    formula="F1 of (mean precision, mean recall), undefined ones as 0; 0 where nothing is right",
    source="Opitz and Burst 2019",
    average="macro",
)
def f1_of_means(t: ClassTable) -> Number:
    """Harmonic mean of macro precision and macro recall."""
    precision, recall = macro(t, binary.precision), macro(t, binary.recall)
    return _defined(ratio(2.0 * precision * recall, precision + recall))


KAPPA_FORMULA = "1 - sum(d n / W) / sum(d t p): shares n / W of cells, t of labels, p of predictions; d = "
NO_DISAGREEMENT = "no expected disagreement"


def _kappa(t: ClassTable, disagreement: Floats) -> Number:
    """1 - observed / expected disagreement; `disagreement` of shape (K, K) or (G, K, K), 0 on its diagonal."""
    shares = t.cells.shares
    labels, predictions = shares.positives, shares.predicted_positives
    observed = ratio((disagreement * t.counts).sum(axis=(1, 2)), t.weight)
    expected = (disagreement * labels[:, :, None] * predictions[:, None, :]).sum(axis=(1, 2))
    return 1.0 - ratio(observed, expected)


def _distances(t: ClassTable) -> Floats:
    positions = np.arange(t.counts.shape[1], dtype=np.float64)
    return np.abs(positions[:, None] - positions)


def _unequal(t: ClassTable) -> Floats:
    return (_distances(t) > 0).astype(np.float64)


@class_metric(
    formula=KAPPA_FORMULA + "1 off the diagonal",
    otherwise=NO_DISAGREEMENT,
    range=(-1.0, 1.0),
    source="Cohen 1960",
)
def cohen_kappa(t: ClassTable) -> Number:
    """Agreement of labels and predictions beyond that of their margins."""
    return _kappa(t, _unequal(t))


@class_metric(
    formula=KAPPA_FORMULA + "distance of the classes' positions",
    needs=("weight", "order", "declared"),
    otherwise=NO_DISAGREEMENT,
    range=(-1.0, 1.0),
    source="Cohen 1968",
)
def cohen_kappa_linear(t: ClassTable) -> Number:
    """Kappa of ordered classes: a miss weighs as its distance."""
    return _kappa(t, _distances(t))


@class_metric(
    formula=KAPPA_FORMULA + "squared distance of the classes' positions",
    needs=("weight", "order", "declared"),
    otherwise=NO_DISAGREEMENT,
    range=(-1.0, 1.0),
    source="Cohen 1968",
)
def cohen_kappa_quadratic(t: ClassTable) -> Number:
    """Kappa of ordered classes: a miss weighs as its squared distance."""
    return _kappa(t, np.square(_distances(t)))


@class_metric(
    formula=KAPPA_FORMULA + "class_costs",
    needs=("weight", "free_diagonal"),
    otherwise=NO_DISAGREEMENT,
    range=UNBOUNDED,
    source="Cohen 1968",
)
def cohen_kappa_class_costs(t: ClassTable) -> Number:
    """Kappa where a miss weighs as its cost; only where class_costs are given."""
    return _kappa(t, _costs(t))


@class_metric(
    formula="sum(tp tn - fp fn) / sqrt(sum t (W - t) sum p (W - p)), t labels and p predictions of a class; "
    "0 where one of the sums is 0",
    range=(-1.0, 1.0),
    source="Gorodkin 2004",
)
def mcc(t: ClassTable) -> Number:
    """Matthews correlation of labels and predictions; 0 where one class has all labels or all predictions."""
    s = t.cells.shares
    covariance = (s.tp * s.tn - s.fp * s.fn).sum(axis=1)
    labels, predictions = (
        square_root((shares * _of_others(shares)).sum(axis=1)) for shares in (s.positives, s.predicted_positives)
    )
    return clip(_defined(ratio(covariance, labels * predictions)), -1.0, 1.0)


@class_metric(formula="sum(cost n) / W; cost 1 off the diagonal unless class_costs", best="lowest", range=UNBOUNDED)
def empirical_risk(t: ClassTable) -> Number:
    """Mean cost of a row."""
    return ratio((_costs(t) * t.counts).sum(axis=(1, 2)), t.weight)


def _costs(t: ClassTable) -> Floats:
    return _unequal(t) if t.costs is None else t.costs
