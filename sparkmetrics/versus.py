"""One class against each other: a group's positives against its negatives of each label. For one-vs-one AUCs."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sparkmetrics import kernel
from sparkmetrics.kernel import Floats, Integers
from sparkmetrics.metrics.pair_parts import EXACT_TYPE, exact_array
from sparkmetrics.metrics.steps import Steps

VERSUS_COLUMNS = {"other_label": "string", "against_exact": EXACT_TYPE, "against_rounded": "double"}
"""What workers emit of a group and the label of its negatives: that label, and twice the group's wins over them, as an
integer where it is one, and rounded."""


def wins_by_label(
    steps: Steps, step: Integers, negative: Floats, label: Integers
) -> tuple[Integers, Integers, dict[str, pa.Array]]:
    """Worker: twice the wins of each group's positives over its negatives of each label.

    Parameters
    ----------
    steps : the scores of the groups, labels pooled.
    step, negative, label : of each entry: the step of its score, the weight of its negatives, and their label's code.

    Returns
    -------
    The position of the group, the label's code, and the wins of VERSUS_COLUMNS, for every pair of these that occurs.
    """
    lost = np.flatnonzero(negative > 0)
    step, negative, label = step[lost], negative[lost], label[lost]
    group_of_step = np.repeat(np.arange(len(steps.starts)), steps.lengths)
    labels = int(label.max(initial=0)) + 1
    order = kernel.sort_by_group(group_of_step[step] * labels + label)
    step, negative, label = step[order], negative[order], label[order]
    group = group_of_step[step]
    starts = kernel.segment_starts(group, label)
    owner = group[starts]
    weight, outside = kernel.segment_sums(negative, starts), steps.offsets.positives_above[owner]
    points = 2.0 * steps.positives_above_inside[step] + steps.positive[step]
    rounded = kernel.segment_sums(negative * points, starts) + 2.0 * outside * weight
    exact = pa.nulls(len(starts), pa.decimal128(38, 0))
    if kernel.whole(steps.positive, steps.negative) and np.all(outside == np.rint(outside)) and len(starts):
        most = 2.0 * steps.positives_inside[owner] * weight
        inside = kernel.integer_products(points.astype(np.int64), negative.astype(np.int64), starts, most)
        exact = exact_array(kernel.add_integers(inside, kernel.integer_product(2, outside, weight)))
    return owner, label[starts], {"against_exact": exact, "against_rounded": pa.array(rounded)}
