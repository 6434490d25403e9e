"""Subset versus total straight from its definitions: pair by pair, in exact numbers.

Knows nothing of the library. Slow, meant for levels of a few hundred rows.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

from brute_force import Exact, Row, ratio, total, wins2

Segments = Mapping[Any, Sequence[Row]]
"""The rows of each segment of a level."""

Pairs = Mapping[tuple[Any, Any], Exact]
"""Twice the pairs in order of each (segment of the positive, segment of the negative)."""


def pairs_in_order(segments: Segments) -> Pairs:
    """Every positive against every negative."""
    return {(i, j): wins2(segments[i], segments[j]) for i, j in product(segments, segments)}


def auc(wins: Exact, pairs: Exact) -> Fraction | None:
    """None without pairs."""
    return ratio(wins, 2 * pairs)


def summary(segments: Segments, wins: Pairs) -> dict[Any, dict[str, Fraction | None]]:
    """What `segment_summary` has of each segment."""
    within_auc = gap(segments, wins)["within_auc"]
    everyone = [row for rows in segments.values() for row in rows]
    P, N = total(everyone, 1), total(everyone, 0)
    found = {}
    for s, rows in segments.items():
        p, n = total(rows, 1), total(rows, 0)
        outside = [row for other, others in segments.items() if other != s for row in others]
        p_out, n_out = total(outside, 1), total(outside, 0)
        bpsn = sum(wins[j, s] for j in segments if j != s)
        bnsp = sum(wins[s, j] for j in segments if j != s)
        rest = sum(count for (i, j), count in wins.items() if s not in (i, j))
        part = None
        if within_auc is not None and P * N:
            part = (Fraction(bpsn + bnsp, 2) - within_auc * (p * n_out + n * p_out)) / (2 * P * N)
        found[s] = {
            "prevalence": ratio(p, p + n),
            "subgroup_auc": auc(wins[s, s], p * n),
            "bpsn_auc": auc(bpsn, p_out * n),
            "bnsp_auc": auc(bnsp, p * n_out),
            "leave_one_out_auc": auc(rest, p_out * n_out),
            "gap_contribution": part,
        }
    return found


def gap(segments: Segments, wins: Pairs, slack: Exact = 0) -> dict[str, Any]:
    """What `segment_gap` has of a level, but for the AUCs of scores that segments share.

    AUCs within `slack` are equal.
    """
    weights = {s: (total(rows, 1), total(rows, 0)) for s, rows in segments.items()}
    pairs = {(i, j): weights[i][0] * weights[j][1] for i, j in product(segments, segments)}
    inside = [(s, s) for s in segments]
    between = [pair for pair in pairs if pair[0] != pair[1]]
    aucs = {s: auc(wins[s, s], pairs[s, s]) for s in segments}
    defined = {s: value for s, value in aucs.items() if value is not None}
    all_pairs = sum(pairs.values())
    total_auc = auc(sum(wins.values()), all_pairs)

    def mean(weight: Mapping[Hashable, Exact]) -> Fraction | None:
        return ratio(sum(weight[s] * value for s, value in defined.items()), sum(weight[s] for s in defined))

    smallest, largest = (end(defined.values(), default=None) for end in (min, max))
    position = None
    if total_auc is not None and defined:
        position = "between"
        if total_auc > largest + slack:
            position = "above"
        elif total_auc < smallest - slack:
            position = "below"
        elif largest - smallest <= slack:
            position = "equal"
    return {
        "segments": len(segments),
        "defined_segments": len(defined),
        "total_auc": total_auc,
        "within_auc": auc(sum(wins[pair] for pair in inside), sum(pairs[pair] for pair in inside)),
        "within_share": ratio(sum(pairs[pair] for pair in inside), all_pairs),
        "between_auc": auc(sum(wins[pair] for pair in between), sum(pairs[pair] for pair in between)),
        "between_share": ratio(sum(pairs[pair] for pair in between), all_pairs),
        "smallest_auc": smallest,
        "largest_auc": largest,
        "mean_auc": mean(dict.fromkeys(segments, 1)),
        "gauc": mean({s: sum(both) for s, both in weights.items()}),
        "gauc_positives": mean({s: both[0] for s, both in weights.items()}),
        "total_position": position,
    }


def auc_of_segment_values(segments: Segments, values: Mapping[Any, float]) -> Fraction | None:
    """The AUC of the rows if each had its segment's value for a score; values that differ by rounding alone are tied.

    A segment without a value has no row that counts.
    """
    weights = {s: (total(rows, 1), total(rows, 0)) for s, rows in segments.items() if s in values}
    all_pairs = sum(p for p, _ in weights.values()) * sum(n for _, n in weights.values())
    wins: Exact = 0
    for i, j in product(weights, weights):
        pairs = weights[i][0] * weights[j][1]
        if math.isclose(values[i], values[j], rel_tol=1e-14):
            wins += pairs
        elif values[i] > values[j]:
            wins += 2 * pairs
    return auc(wins, all_pairs)
