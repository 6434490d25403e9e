"""The main job on the Titanic prediction table, then its results as a table for people.

Runs `sparkmetrics evaluate --config conf/titanic.yaml` and reads what it wrote: three models' AUC in total and on every
segment, and where the pairs of the total come from.
"""

from __future__ import annotations

import os
import sys
from datetime import date
from pathlib import Path
from typing import Any

import pandas as pd

import sparkmetrics as sm
from sparkmetrics import cli, config, session

CONFIG = "conf/titanic.yaml"
POSITIONS = {
    "above": "above every segment",
    "below": "below every segment",
    "between": "between the segments",
    "equal": "like every segment",
}
RUN_DATE = date(2026, 11, 29)


def main() -> int:
    """Runs the job, shows its results, and returns its exit code."""
    os.chdir(Path(__file__).parents[1])
    code = cli.main(["evaluate", "--config", CONFIG, "--run-date", RUN_DATE.isoformat()])
    if code != 0:
        return code
    spark, results = session.get_session(), config.load(CONFIG).output.path
    metrics = sm.read_results(spark, results, "metrics", RUN_DATE).toPandas()
    gaps = sm.read_results(spark, results, "segment_gap", RUN_DATE).toPandas().set_index(["level", "model"])
    print(f"\nResults are in {results}/<table>/run_date={RUN_DATE}/ as Parquet.\n")
    print("AUC of each model, in total and on each segment\n")
    print(auc_table(metrics).to_string(float_format="{:.4f}".format, na_rep="-"))
    print("\n- : one class only, so there is no AUC")
    print("\nHow sure that is: the total of each model with its 95 % interval, and its best thresholds\n")
    print(total_table(metrics).to_string())
    print("\nWhy the total is not an average of the segments\n")
    for level in ("sex", "pclass", "sex,pclass"):
        for model in ("rf", "lr", "hgb"):
            print(pair_sentence(model, level, gaps.loc[(level, model)]))
        print()
    print("Accuracy and recall of the random forest at three thresholds (score > threshold)\n")
    print(threshold_table(metrics, "rf").to_string(float_format="{:.4f}".format))
    return 0


def auc_table(metrics: pd.DataFrame) -> pd.DataFrame:
    """One row a segment, one column a model."""
    auc = metrics[metrics.metric == "roc_auc"].sort_values(["level", "sex", "pclass"])
    auc = auc.assign(segment=[_segment(row) for row in auc.itertuples()], crossed=auc.level.str.count(","))
    auc = auc.assign(is_part=auc.level != "total").sort_values(["is_part", "crossed"], kind="stable")
    table = auc.set_index(["segment", "rows", "positives", "model"]).value.unstack("model")
    table = table.loc[auc.segment.unique(), ["rf", "lr", "hgb"]].reset_index(["rows", "positives"])
    return table.astype({"rows": int, "positives": int})


def _segment(row: Any) -> str:
    names = [] if row.level == "total" else row.level.split(",")
    values = {"sex": row.sex, "pclass": f"{row.pclass:g}"}
    return ", ".join(f"{name}={values[name]}" for name in names) or "total"


def total_table(metrics: pd.DataFrame) -> pd.DataFrame:
    """One row a measure of the total, one column a model."""
    total = metrics[metrics.level == "total"].set_index(["metric", "model"]).sort_index()

    def text(name: str, model: str) -> str:
        """The value, and what stands beside it: an interval, or the threshold where it is reached."""
        row = total.loc[(name, model)].squeeze()
        interval = f" ({row.lower:.3f} to {row.upper:.3f})" if name == "roc_auc" else ""
        threshold = f" at {row.threshold:.3f}" if name.startswith("best_") else ""
        return f"{row.value:.4f}{interval}{threshold}"

    names = ("roc_auc", "average_precision", "brier", "ece", "best_f1", "best_mcc")
    return pd.DataFrame({model: {name: text(name, model) for name in names} for model in ("rf", "lr", "hgb")})


def pair_sentence(model: str, level: str, gap: pd.Series) -> str:
    """How many of the total's pairs lie inside segments and between them, and the AUC of each kind."""
    pairs = gap.positives * gap.negatives
    return (
        f"{model:>3} by {level}: of {pairs:,.0f} positive-negative pairs {pairs * gap.within_share:,.0f} "
        f"({gap.within_share:.0%}) lie inside a segment, AUC {gap.within_auc:.4f}, and "
        f"{pairs * gap.between_share:,.0f} ({gap.between_share:.0%}) between two, AUC {gap.between_auc:.4f}; "
        f"together {gap.total_auc:.4f}, {POSITIONS[gap.total_position]}."
    )


def threshold_table(metrics: pd.DataFrame, model: str) -> pd.DataFrame:
    """One row a threshold."""
    total = metrics[(metrics.model == model) & (metrics.level == "total")]
    names = ["accuracy", "recall", "precision", "specificity"]
    return total[total.metric.isin(names)].pivot_table("value", "threshold", "metric")[names]


if __name__ == "__main__":
    sys.exit(main())
