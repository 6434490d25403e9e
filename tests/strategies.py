"""How hypothesis tries examples: the same ones every time, however long they take; and scores that tie."""

from __future__ import annotations

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

# A busy machine is no failure, and every run tries the same examples.
steady = settings(deadline=None, derandomize=True)

SCORES = st.sampled_from([-np.inf, -1.5, 0.0, 0.25, 0.5, 1.0, np.inf])
