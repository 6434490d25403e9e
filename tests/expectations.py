"""What is told by hand of every metric of two classes that `asked.ASKED` asks for."""

from __future__ import annotations

import math

UNDEFINED: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("accuracy", "error_rate", "prevalence", "predicted_positive_rate", "mcc"), ("no weight",)),
    **dict.fromkeys(("weighted_accuracy", "empirical_risk"), ("no weight",)),
    **dict.fromkeys(("recall", "fnr"), ("no positives",)),
    **dict.fromkeys(("specificity", "fpr"), ("no negatives",)),
    **dict.fromkeys(("precision", "fdr"), ("no predicted positives",)),
    **dict.fromkeys(("npv", "for"), ("no predicted negatives",)),
    **dict.fromkeys(("fbeta_0.5", "fbeta_2", "f1", "jaccard"), ("no positives or predicted positives",)),
    **dict.fromkeys(("balanced_accuracy", "gmean", "informedness"), ("no positives", "no negatives")),
    **dict.fromkeys(
        ("precision_recall_mean", "precision_recall_min", "fowlkes_mallows"),
        ("no positives", "no predicted positives"),
    ),
    "markedness": ("no predicted positives", "no predicted negatives"),
    "cohen_kappa": ("no weight", "no expected disagreement"),
    "lr_plus": ("no positives", "no negatives", "no false positives"),
    "lr_minus": ("no positives", "no negatives", "no true negatives"),
    "dor": ("no false positives", "no false negatives"),
    "profit": ("no weight",),
    **dict.fromkeys(
        ("roc_auc", "gini", "accuracy_ratio", "accuracy_ratio_optimistic", "ks"), ("no positives", "no negatives")
    ),
    "roc_auc_se": ("no positives", "no negatives", "fewer than two positives", "fewer than two negatives"),
    **dict.fromkeys(("partial_auc_fpr_0_0.25", "partial_auc_corrected_fpr_0_0.25"), ("no positives", "no negatives")),
    **dict.fromkeys(("partial_auc_tpr_0.5_1", "partial_auc_corrected_tpr_0.5_1"), ("no positives", "no negatives")),
    **dict.fromkeys(("average_precision", "pr_auc_trapezoid", "average_precision_over_prevalence"), ("no positives",)),
    "precision_at_5": ("no weight", "fewer than 5 rows"),
    "precision_at_20%": ("no weight",),
    "recall_at_5": ("no positives", "fewer than 5 rows"),
    "recall_at_20%": ("no positives",),
    **dict.fromkeys(("best_accuracy", "best_f1", "best_mcc", "best_risk", "best_profit"), ("no weight",)),
    **dict.fromkeys(("best_informedness", "closest_to_top_left"), ("no positives", "no negatives")),
    **dict.fromkeys(("log_loss", "brier", "mean_score_minus_prevalence", "ece", "mce"), ("no weight",)),
    **dict.fromkeys(("log_loss_skill", "brier_skill"), ("no positives", "no negatives")),
    **dict.fromkeys(("brier_reliability", "brier_resolution", "brier_uncertainty"), ("no weight",)),
    **dict.fromkeys(("brier_reliability_binned", "brier_resolution_binned", "brier_within_bin"), ("no weight",)),
}
"""Why a value is NULL, in the order in which reasons come."""

PROBABILITIES = {
    *("log_loss", "brier", "log_loss_skill", "brier_skill", "mean_score_minus_prevalence", "ece", "mce"),
    *("brier_reliability", "brier_resolution", "brier_uncertainty"),
    *("brier_reliability_binned", "brier_resolution_binned", "brier_within_bin"),
}
"""Those that are also NULL where a score lies outside [0, 1]."""

OF_ROWS = {
    *("profit", "best_profit"),
    *("roc_auc_se", "precision_at_5", "recall_at_5"),
}
"""Those that depend on what one row weighs; all others are ratios of weights."""

PERFECT_AND_WORST: dict[str, tuple[float | None, float | None]] = {
    **dict.fromkeys(("accuracy", "balanced_accuracy", "weighted_accuracy"), (1, 0)),
    **dict.fromkeys(("precision", "recall", "specificity", "npv"), (1, 0)),
    **dict.fromkeys(("error_rate", "fpr", "fnr", "fdr", "for"), (0, 1)),
    **dict.fromkeys(("fbeta_0.5", "fbeta_2", "f1", "jaccard", "gmean"), (1, 0)),
    **dict.fromkeys(("precision_recall_mean", "precision_recall_min", "fowlkes_mallows"), (1, 0)),
    **dict.fromkeys(("informedness", "markedness", "mcc"), (1, -1)),
    "cohen_kappa": (1, 1 - 1 / 0.52),
    "prevalence": (0.4, 0.4),
    "predicted_positive_rate": (0.4, 0.6),
    "lr_plus": (None, 0),
    "lr_minus": (0, None),
    "dor": (None, 0),
    "empirical_risk": (0, 2.6),  # 6 false alarms of 1, 4 misses of 5
    "profit": (8, -6),
    "roc_auc": (1, 0),
    "roc_auc_se": (0, 0),
    **dict.fromkeys(("gini", "accuracy_ratio", "accuracy_ratio_optimistic"), (1, -1)),
    "partial_auc_fpr_0_0.25": (0.25, 0),
    "partial_auc_corrected_fpr_0_0.25": (1, 3 / 7),
    "partial_auc_tpr_0.5_1": (0.5, 0),
    "partial_auc_corrected_tpr_0.5_1": (1, 1 / 3),
    "average_precision": (1, 0.4),
    "pr_auc_trapezoid": (1, 0.2),
    "average_precision_over_prevalence": (2.5, 1),
    "precision_at_5": (0.8, 0),
    "precision_at_20%": (1, 0),
    "recall_at_5": (1, 0),
    "recall_at_20%": (0.5, 0),
    "ks": (1, 1),  # two-sided: a ranking that is always wrong separates as well
    "best_accuracy": (1, 0.6),  # of the worst: predict none
    "best_f1": (1, 8 / 14),  # predict all
    "best_mcc": (1, 0),
    "best_informedness": (1, 0),
    "closest_to_top_left": (0, 1),
    "best_risk": (0, 0.6),
    "best_profit": (8, 2),
    "log_loss": (-math.log1p(-(2.0**-52)), -math.log(2.0**-52)),
    "log_loss_skill": (
        1 + math.log1p(-(2.0**-52)) / -(0.4 * math.log(0.4) + 0.6 * math.log(0.6)),
        1 + math.log(2.0**-52) / -(0.4 * math.log(0.4) + 0.6 * math.log(0.6)),
    ),
    "brier": (0, 1),
    "brier_skill": (1, 1 - 1 / 0.24),
    "mean_score_minus_prevalence": (0, 0.2),
    **dict.fromkeys(("brier_reliability", "brier_reliability_binned", "ece", "mce"), (0, 1)),
    **dict.fromkeys(("brier_resolution", "brier_resolution_binned", "brier_uncertainty"), (0.24, 0.24)),
    "brier_within_bin": (0, 0),
}
"""Values of scores that are the labels, and of scores that are the labels turned round, for 4 positives of 10."""
