"""Turn a wide table of Titanic scores, one column per model, into the long prediction table of the demo.

The passengers are OpenML's `titanic`, version 1 (licence: Public). The scores are those of three scikit-learn models,
a random forest (rf), a logistic regression (lr) and histogram gradient boosting (hgb), on the stratified 25% test
split. Scores are copied as text, so that no digit changes.

    python examples/make_titanic_predictions.py wide.csv
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

MODELS = ("rf", "lr", "hgb")
KEPT = ("sex", "pclass", "embarked", "age_band", "survived")
OUTPUT = Path(__file__).with_name("titanic_predictions.csv")


def long_rows(wide_rows: Iterable[dict[str, str]]) -> Iterator[dict[str, str]]:
    """One row per (model, passenger): the passenger's columns as they are and the model's score as text."""
    passengers = list(wide_rows)
    for model in MODELS:
        for passenger in passengers:
            yield {
                "model": model,
                "passenger": passenger["row"],
                **{column: passenger[column] for column in KEPT},
                "score": passenger[f"score_{model}"],
            }


def main(arguments: list[str]) -> None:
    if len(arguments) != 1:
        sys.exit("usage: python examples/make_titanic_predictions.py WIDE_CSV")
    with open(arguments[0], newline="", encoding="utf-8") as source:
        rows = list(long_rows(csv.DictReader(source)))
    with open(OUTPUT, "w", newline="", encoding="utf-8") as target:
        writer = csv.DictWriter(target, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    print(f"{OUTPUT.name}: {len(rows)} rows")


if __name__ == "__main__":
    main(sys.argv[1:])
