"""Measures of the order of the scores."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial

import numpy as np

from sparkmetrics.kernel import Floats
from sparkmetrics.metrics import binary
from sparkmetrics.metrics.arithmetic import Number, absolute, choose, element, only_where, ratio
from sparkmetrics.metrics.counts import Cells, Totals
from sparkmetrics.metrics.intervals import logit_normal
from sparkmetrics.metrics.list_parts import PositivesInTop, top_weight
from sparkmetrics.metrics.pair_parts import Placements, TwiceWins, auc_of, delong_error
from sparkmetrics.metrics.parameters import Parameters, Region, as_text, top_text
from sparkmetrics.metrics.parts import Extreme, Sum
from sparkmetrics.metrics.registry import Each, Interval, score_metric
from sparkmetrics.metrics.steps import Steps

U2 = TwiceWins("u2")
OPTIMISTIC_U2 = TwiceWins("u2_optimistic", tie=2)
PLACEMENTS = Placements("placements")

BOTH = ("positives", "negatives")


# --- AUC, and what is a function of it


def auc_interval(auc: Number, placements: Number, totals: Totals, z: float) -> tuple[Number, Number]:
    """DeLong's interval of the AUC on the logit scale; undefined where the standard error is."""
    error = only_where(placements["whole"], delong_error(placements, totals))
    return logit_normal(auc, error, z)


def gini_interval(gini: Number, placements: Number, totals: Totals, z: float) -> tuple[Number, Number]:
    """The interval of 2 AUC - 1."""
    lower, upper = auc_interval((gini + 1.0) / 2.0, placements, totals, z)
    return 2.0 * lower - 1.0, 2.0 * upper - 1.0


def _no_error(placements: Number, totals: Totals) -> Mapping[str, Number]:
    return {
        "weights are not whole numbers": choose(placements["whole"], False, True),
        "fewer than two positives": totals.positives < 2.0,
        "fewer than two negatives": totals.negatives < 2.0,
    }


@score_metric(
    part=U2,
    formula="U2 / (2 P N), U2 = sum over scores of n (2 P_above + p)",
    needs=BOTH,
    of_pairs=True,
    best="highest",
    range=(0.0, 1.0),
    source="Hanley and McNeil 1982; interval of DeLong et al. 1988, logit",
    interval=Interval(PLACEMENTS, auc_interval),
    averaged=True,
)
def roc_auc(u2: Number, totals: Totals) -> Number:
    """Share of the positive-negative pairs in which the positive scores higher, a tie counting half."""
    return auc_of(u2, totals.positives * totals.negatives)


@score_metric(
    part=PLACEMENTS,
    formula="sqrt(S10 / P + S01 / N), S10 and S01 the variances of the placements",
    needs=BOTH,
    best="lowest",
    range=(0.0, float("inf")),
    source="DeLong et al. 1988",
    undefined=_no_error,
    also_undefined="fewer than two of either, or weights that are not whole numbers",
)
def roc_auc_se(placements: Number, totals: Totals) -> Number:
    """Standard error of roc_auc."""
    return delong_error(placements, totals)


@score_metric(
    part=U2,
    formula="2 roc_auc - 1",
    needs=BOTH,
    of_pairs=True,
    best="highest",
    range=(-1.0, 1.0),
    interval=Interval(PLACEMENTS, gini_interval),
)
def gini(u2: Number, totals: Totals) -> Number:
    """Gini coefficient of the ranking (Somers' D); negative for a reversed one."""
    return 2.0 * roc_auc(u2, totals) - 1.0


@score_metric(
    part=U2,
    formula="(area under the CAP - 1/2) / (that of a perfect ranking - 1/2), ties averaged; equals gini",
    needs=BOTH,
    of_pairs=True,
    best="highest",
    range=(-1.0, 1.0),
    source="Engelmann, Hayden and Tasche 2003",
    interval=Interval(PLACEMENTS, gini_interval),
)
def accuracy_ratio(u2: Number, totals: Totals) -> Number:
    """Accuracy ratio of the cumulative accuracy profile."""
    return gini(u2, totals)


@score_metric(
    part=OPTIMISTIC_U2,
    formula="accuracy_ratio + (tied pairs) / (P N)",
    needs=BOTH,
    of_pairs=True,
    best="highest",
    range=(-1.0, 1.0),
)
def accuracy_ratio_optimistic(u2: Number, totals: Totals) -> Number:
    """Accuracy ratio with tied positives put before tied negatives, as some published figures have it."""
    return accuracy_ratio(u2, totals)


# --- areas over a part of the ROC curve


def _area(region: Region, steps: Steps) -> Floats:
    """What a step adds to the area: of tpr over a stretch of fpr, or of 1 - fpr over a stretch of tpr."""
    cells, above, totals = steps.cells, steps.above, steps.totals
    fpr = ratio(above.negatives, totals.negatives), ratio(cells.fp, totals.negatives)
    tpr = ratio(above.positives, totals.positives), ratio(cells.tp, totals.positives)
    along, height = (fpr, tpr) if region.axis == "fpr" else (tpr, (1.0 - fpr[0], 1.0 - fpr[1]))
    begin, end = np.clip(along[0], region.begin, region.end), np.clip(along[1], region.begin, region.end)
    # The height in the middle of what lies inside, on the straight line of the step.
    share = ratio((begin + end) / 2.0 - along[0], along[1] - along[0])
    area = (end - begin) * (height[0] + np.nan_to_num(share) * (height[1] - height[0]))
    filled: Floats = np.nan_to_num(area)
    return filled


@cache
def _area_part(region: Region) -> Sum:
    # The name is a column's, in which a dot would be a field.
    name = f"area_{region.axis}_{region.begin!r}_{region.end!r}".replace(".", "p")
    return Sum(name, partial(_area, region), _one)


def _one(totals: Totals) -> Floats:
    return np.ones(len(totals.positives))


def _regions(corrected: str) -> Each:
    def each(parameters: Parameters) -> Mapping[str, Mapping[str, Region]]:
        return {f"partial_auc{corrected}_{region.name}": {"region": region} for region in parameters.partial_auc}

    return each


@score_metric(
    name="partial_auc_AXIS_A_B",
    each=_regions(""),
    part=_area_part,
    formula="integral of tpr over fpr in [A, B], or of 1 - fpr over tpr in [A, B]",
    needs=BOTH,
    best="highest",
    range=(0.0, 1.0),
    source="McClish 1989; Jiang, Metz and Nishikawa 1996",
)
def partial_auc(area: Number, totals: Totals, region: Region) -> Number:
    """Area under a stretch of the ROC curve."""
    return area


@score_metric(
    name="partial_auc_corrected_AXIS_A_B",
    each=_regions("_corrected"),
    part=_area_part,
    formula="(1 + (area - area of chance) / (B - A - area of chance)) / 2",
    needs=BOTH,
    best="highest",
    range=(float("-inf"), 1.0),
    source="McClish 1989",
)
def partial_auc_corrected(area: Number, totals: Totals, region: Region) -> Number:
    """Area under a stretch of the ROC curve, scaled so that chance is 0.5 and perfection 1."""
    a, b = region.begin, region.end
    chance = (b * b - a * a) / 2.0 if region.axis == "fpr" else ((1.0 - a) ** 2 - (1.0 - b) ** 2) / 2.0
    return (1.0 + (area - chance) / (b - a - chance)) / 2.0


# --- precision and recall along the ranking


def _precision_of_positives(steps: Steps) -> Floats:
    terms: Floats = steps.positive * binary.precision(steps.cells)
    return terms


def _trapezoids(steps: Steps) -> Floats:
    """The positives of a step times the mean precision at its two ends; the first step begins at its own precision."""
    precision, above = binary.precision(steps.cells), steps.above
    before = ratio(above.positives, above.weight)
    terms: Floats = steps.positive * (precision + np.where(np.isnan(before), precision, before)) / 2.0
    return terms


PRECISION_SUM = Sum("precision_sum", _precision_of_positives, lambda totals: totals.positives)


@score_metric(
    part=PRECISION_SUM,
    formula="sum over scores of p precision / P, tie blocks whole",
    needs=("positives",),
    best="highest",
    range=(0.0, 1.0),
    averaged=True,
)
def average_precision(precision_sum: Number, totals: Totals) -> Number:
    """Mean precision over the positives: the step sum under the precision-recall curve, never the trapezoid."""
    return ratio(precision_sum, totals.positives)


@score_metric(
    part=Sum("precision_trapezoids", _trapezoids, lambda totals: totals.positives),
    formula="trapezoids under the precision-recall curve, from (0, precision of the first block)",
    needs=("positives",),
    best="highest",
    range=(0.0, 1.0),
    source="as Spark MLlib; too optimistic, see Davis and Goadrich 2006",
)
def pr_auc_trapezoid(trapezoids: Number, totals: Totals) -> Number:
    """Trapezoid area under the precision-recall curve."""
    return ratio(trapezoids, totals.positives)


@score_metric(
    part=PRECISION_SUM,
    formula="average_precision / prevalence",
    needs=("positives",),
    best="highest",
    range=(0.0, float("inf")),
)
def average_precision_over_prevalence(precision_sum: Number, totals: Totals) -> Number:
    """Average precision as a multiple of what chance gets."""
    return ratio(average_precision(precision_sum, totals), ratio(totals.positives, totals.weight))


def tops(parameters: Parameters) -> PositivesInTop:
    """The positives in buckets and tops of the ranking that an evaluation asks for."""
    return PositivesInTop("tops", parameters.buckets, parameters.top_k)


def _each_top(metric: str) -> Each:
    def each(parameters: Parameters) -> Mapping[str, Mapping[str, object]]:
        top = tops(parameters)
        return {
            f"{metric}_at_{top_text(k)}": {"k": k, "position": parameters.buckets + i, "top": top}
            for i, k in enumerate(parameters.top_k)
        }

    return each


def _top(k: float, position: int, top: PositivesInTop) -> PositivesInTop:
    return top


def _short_of(found: Number, totals: Totals, k: float, position: int, top: PositivesInTop) -> Mapping[str, Number]:
    return {f"fewer than {as_text(k)} rows": totals.weight < k} if k >= 1 else {}


@score_metric(
    name="precision_at_K",
    each=_each_top("precision"),
    part=_top,
    formula="positives in the top K / K; K rows, or K% of the rows; a tie block across the edge in proportion",
    needs=("weight",),
    best="highest",
    range=(0.0, 1.0),
    undefined=_short_of,
    also_undefined="fewer than K rows",
)
def precision_at(found: Number, totals: Totals, k: float, position: int, top: PositivesInTop) -> Number:
    """Share of positives among the highest scores."""
    return ratio(element(found, position), top_weight(k, totals.weight))


@score_metric(
    name="recall_at_K",
    each=_each_top("recall"),
    part=_top,
    formula="positives in the top K / P",
    needs=("positives",),
    best="highest",
    range=(0.0, 1.0),
    undefined=_short_of,
    also_undefined="fewer than K rows",
)
def recall_at(found: Number, totals: Totals, k: float, position: int, top: PositivesInTop) -> Number:
    """Share of the positives that the highest scores hold."""
    return ratio(element(found, position), totals.positives)


# --- best thresholds


def rate_gap(cells: Cells) -> Number:
    """|tpr - fpr|; undefined without one of the classes."""
    return absolute(binary.informedness(cells))


@score_metric(
    part=Extreme("largest_gap", rate_gap),
    formula="max |tpr - fpr| over the distinct scores",
    needs=BOTH,
    of_pairs=True,
    best="highest",
    range=(0.0, 1.0),
    source="Kolmogorov-Smirnov, two samples",
)
def ks(largest_gap: Number, totals: Totals) -> Number:
    """Largest distance between the score distributions of the classes, with the threshold where it is reached."""
    return largest_gap["value"]
