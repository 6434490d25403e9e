"""The registry as a Markdown table; `python -m sparkmetrics.metrics.table` puts it into the README."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from sparkmetrics.metrics import Metric, Parameters, score_metrics, threshold_metrics
from sparkmetrics.metrics.classes import CLASS
from sparkmetrics.metrics.counts import Cells
from sparkmetrics.metrics.multiclass import POOLED, ROC_AUC_OVO, TOP_K_ACCURACY
from sparkmetrics.metrics.parameters import Region

README = Path(__file__).parents[2] / "README.md"
BEGIN, END = "<!-- metrics: begin (generated: python -m sparkmetrics.metrics.table) -->", "<!-- metrics: end -->"


EXAMPLES = Parameters(
    beta=(0.5,), payoffs=Cells(1.0, -1.0, 0.0, 0.0), partial_auc=(Region("fpr", 0.0, 0.1),), top_k=(100.0,)
)
"""Parameters that ask for one metric of every kind."""


def markdown() -> str:
    """One row a metric: name, purpose, formula, range, direction, undefined when, source."""
    scores = sorted(score_metrics(EXAMPLES).values(), key=lambda metric: metric.probability)
    two = _table([*scores, *threshold_metrics(EXAMPLES).values()])
    pooled = [metric for make in POOLED for metric in make(EXAMPLES)]
    return "\n".join([two, "", OF_CLASSES, "", _table([*CLASS.values(), *pooled, ROC_AUC_OVO, TOP_K_ACCURACY])])


OF_CLASSES = """Of K classes (`prediction`, `probabilities`): every metric at a threshold for each class against the
rest; `precision`, `recall`, `f1`, `fbeta_B`, `jaccard` and, of probabilities, `roc_auc` and `average_precision`
averaged `macro`, `micro` and `weighted`; and over all classes, with n[i, j] the weight of label i and prediction j:"""


def _table(metrics: Iterable[Metric]) -> str:
    head = ["| metric | what | formula | range | best | undefined when | source |", "|---|---|---|---|---|---|---|"]
    return "\n".join([*head, *(_row(metric) for metric in metrics)])


def _row(metric: Metric) -> str:
    low, high = (f"{bound:g}".replace("inf", "infinity") for bound in metric.range)
    cells = (
        f"`{metric.shown}`",
        metric.purpose,
        metric.formula.replace("|", "\\|"),
        f"{low} to {high}",
        metric.best or "",
        metric.undefined_when(),
        metric.source,
    )
    return f"| {' | '.join(cells)} |"


def filled(readme: str) -> str:
    """The README with the table of today."""
    block = f"{BEGIN}\n{markdown()}\n{END}"
    return re.sub(f"{re.escape(BEGIN)}.*{re.escape(END)}", lambda _: block, readme, flags=re.DOTALL)


if __name__ == "__main__":
    README.write_text(filled(README.read_text(encoding="utf-8")), encoding="utf-8")
