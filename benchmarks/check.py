"""Whether contenders found the same values."""

from __future__ import annotations

from collections.abc import Mapping

TOLERANCE = 1e-12

Values = Mapping[str, float]


class ValuesDifferError(AssertionError):
    """Two contenders disagree: neither's time means anything until it is known why."""


class Checker:
    """Compares all values of one data set with those of who gave them first.

    Attributes
    ----------
    givers : by metric, the first contender that gave it for all groups.
    """

    def __init__(self) -> None:
        self.givers: dict[str, str] = {}
        self._known: dict[str, dict[str, float]] = {}

    def check(self, name: str, values: Values, *, sample: bool = False) -> None:
        """Compares the values of one call, {model/segment/metric: value}, and keeps those of metrics that are new.

        Parameters
        ----------
        name : contender.
        values : its values.
        sample : it gives only some of the groups. What it alone gives is not kept.

        Raises
        ------
        ValuesDifferError : a value differs by more than 1e-12, relative and absolute; other groups have it; no values.
        """
        if not values:
            raise ValuesDifferError(f"{name}: no values")
        for metric, found in by_metric(values).items():
            if metric not in self._known:
                if not sample:
                    self.givers[metric], self._known[metric] = name, found
                continue
            expected, giver = self._known[metric], self.givers[metric]
            others = found.keys() - expected.keys() if sample else found.keys() ^ expected.keys()
            if others:
                raise ValuesDifferError(
                    f"{name} and {giver}: {len(others)} other groups have {metric}, as {min(others)}"
                )
            worst = max(found, key=lambda key: distance(found[key], expected[key]))
            if not distance(found[worst], expected[worst]) <= TOLERANCE:
                raise ValuesDifferError(
                    f"{name} and {giver}: {worst} is {found[worst]!r} and {expected[worst]!r}, "
                    f"{distance(found[worst], expected[worst]):.2g} apart"
                )


def check(found: Mapping[str, Values]) -> None:
    """Raises ValuesDifferError unless contenders, {name: values}, agree on all that two of them give."""
    checker = Checker()
    for name, values in found.items():
        checker.check(name, values)


def by_metric(values: Values) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for key, value in values.items():
        found.setdefault(key.rpartition("/")[2], {})[key] = value
    return found


def distance(value: float, expected: float) -> float:
    """Absolute, or relative where that is less."""
    return abs(value - expected) / max(1.0, abs(expected))
