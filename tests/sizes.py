"""How many random cases are tried: all of them by `make nightly`, the first of them by `make test`."""

from __future__ import annotations

import os

WHOLE = os.environ.get("SPARKMETRICS_TEST_SIZE") == "whole"


def cases(whole: int, first: int) -> int:
    """The number of cases. The first ones are of every kind."""
    return whole if WHOLE else first
