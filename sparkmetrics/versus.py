"""One class against each other: a group's positives against its negatives of each label. For one-vs-one AUCs."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sparkmetrics import kernel
from sparkmetrics.kernel import Floats, Integers
from sparkmetrics.metrics.pair_parts import EXACT_TYPE, twice_wins
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
    exact, rounded = twice_wins(
        steps.positives_above_inside[step],
        steps.positive[step],
        negative,
        starts,
        outside=steps.offsets.positives_above[owner],
        inside=steps.positives_inside[owner],
        whole=steps.whole and kernel.whole(negative),
    )
    return owner, label[starts], {"against_exact": exact, "against_rounded": rounded}
