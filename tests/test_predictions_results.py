"""What is made of a prediction table: states that add up, levels and segments by name, and the schemas of results."""

from __future__ import annotations

from typing import Any

import pytest
from prediction_tables import plain, state
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DateType, DoubleType, StringType

import sparkmetrics as sm
from sparkmetrics import schemas
from sparkmetrics.columns import Keys, level_name


def test_states_are_summed_by_sum(spark: SparkSession) -> None:
    counts = sm.score_counts(plain(spark), label="y", score="p")
    assert state(sum([counts, counts])) == {
        key: {score: (2 * p, 2 * n) for score, (p, n) in scores.items()} for key, scores in state(counts).items()
    }


def test_names_of_levels() -> None:
    assert level_name([]) == "total"
    assert level_name(["sex"]) == "sex"
    assert level_name(["sex", "pclass"]) == "sex,pclass"
    assert level_name(["a,b", "c"]) == '"a,b",c'
    assert level_name(["total"]) == '"total"'
    assert level_name(['"']) == r'"\""'


GROUPED = [
    ("m", sex, pclass, y, score)
    for sex, pclass, pairs in [
        ("a,b", 1, [(1, 0.9), (0, 0.2), (0, 0.9)]),
        ("x=y", 1, [(1, 0.9)]),
        ('say "hi"', 2, [(0, 0.3), (1, 0.7)]),
        ("NULL", None, [(0, 0.6)]),
        (None, 1, [(1, 0.6), (1, 0.1), (0, 0.4)]),
        (None, None, [(0, 0.9)]),
        ("(other)", 2, [(1, 0.5)]),
        ("O'Neil (é)", 2, [(0, 0.5), (0, 0.5)]),
    ]
    for y, score in pairs
]


@pytest.fixture(scope="module")
def grouped(spark: SparkSession) -> sm.Evaluation:
    frame = spark.createDataFrame(GROUPED, "model string, sex string, pclass int, y int, p double").repartition(3)
    return sm.evaluate(frame, by=["model"], segments=["sex", "pclass"], label="y", score="p", thresholds=[0.5, 0.9])


def test_levels_add_up_and_null_is_a_group_of_its_own(grouped: sm.Evaluation) -> None:
    confusion = grouped.confusion().collect()
    groups: dict[str, list[tuple[Any, Any]]] = {}
    sums: dict[tuple[str, float], list[float]] = {}
    for row in confusion:
        if row["threshold"] == 0.5:
            groups.setdefault(row["level"], []).append((row["sex"], row["pclass"]))
        cells = sums.setdefault((row["level"], row["threshold"]), [0.0] * 4)
        cells[:] = [a + row[name] for a, name in zip(cells, ("tp", "fp", "fn", "tn"), strict=True)]
    keys = {(sex, pclass) for _, sex, pclass, _, _ in GROUPED}
    expected = {
        "total": [(None, None)],
        "sex": [(sex, None) for sex in {sex for sex, _ in keys}],
        "pclass": [(None, pclass) for pclass in {pclass for _, pclass in keys}],
        "sex,pclass": list(keys),
    }
    assert {level: sorted(found, key=str) for level, found in groups.items()} == {
        level: sorted(wanted, key=str) for level, wanted in expected.items()
    }
    for threshold in (0.5, 0.9):
        called = [(y, score >= threshold) for _, _, _, y, score in GROUPED]
        by_hand = [float(called.count(pair)) for pair in ((1, True), (0, True), (1, False), (0, False))]
        for level in expected:
            assert sums[level, threshold] == by_hand
    null_sex = [r for r in confusion if (r["level"], r["sex"], r["threshold"]) == ("sex", None, 0.5)]
    assert [(r["tp"], r["fp"], r["fn"], r["tn"]) for r in null_sex] == [(1.0, 1.0, 1.0, 1.0)]


def test_names_of_segments(grouped: sm.Evaluation) -> None:
    pairs = grouped.segment_auc().collect()
    text = {None: "NULL", "a,b": '"a,b"', "x=y": '"x=y"', 'say "hi"': r'"say \"hi\""', "NULL": '"NULL"'}
    text |= {"(other)": '"(other)"', "O'Neil (é)": "O'Neil (é)"}
    keys = {(sex, "NULL" if pclass is None else str(pclass)) for _, sex, pclass, _, _ in GROUPED}
    names = {
        "sex": {f"sex={text[sex]}" for sex, _ in keys},
        "pclass": {f"pclass={pclass}" for _, pclass in keys},
        "sex,pclass": {f"sex={text[sex]}, pclass={pclass}" for sex, pclass in keys},
    }
    for level, wanted in names.items():
        found = {(r["positive_segment"], r["negative_segment"]) for r in pairs if r["level"] == level}
        assert found == {(one, other) for one in wanted for other in wanted}


RESULTS = {
    "metrics": "metric string, average string, class string, threshold double, value double, lower double, "
    "upper double, reason string, rows double, positives double, negatives double",
    "confusion": "threshold double, tp double, fp double, fn double, tn double",
    "curves": "point bigint, threshold double, tp double, fp double, fn double, tn double, tpr double, fpr double, "
    "precision double, predicted_positive_rate double, lift double",
    "segment_auc": "positive_segment string, negative_segment string, positives double, negatives double, "
    "pairs double, wins2 decimal(38,0), auc double, pair_share double, contribution double, mirror_auc double, "
    "auc_difference double, mixed boolean, reason string",
    "segment_summary": "rows double, positives double, negatives double, prevalence double, subgroup_auc double, "
    "bpsn_auc double, bnsp_auc double, leave_one_out_auc double, gap_contribution double, reason string",
    "segment_gap": "rows double, positives double, negatives double, segments double, defined_segments double, "
    "total_auc double, within_auc double, within_share double, between_auc double, between_share double, "
    "smallest_auc double, largest_auc double, mean_auc double, gauc double, gauc_positives double, "
    "total_position string, segment_score_auc double, segment_prevalence_auc double, reason string",
    "segment_disparity": "metric string, average string, class string, threshold double, segments double, "
    "macro_mean double, best_segment string, best_value double, best_lower double, best_upper double, "
    "worst_segment string, worst_value double, worst_lower double, worst_upper double, difference double, "
    "ratio double, reason string",
}
"""The contract: what stands behind `by..., level, segments...` and before `run_id`."""


def contract(table: DataFrame) -> str:
    return ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in table.schema)


def test_schemas_of_the_results(grouped: sm.Evaluation) -> None:
    keys, fields = grouped.counts.keys, {"metrics": schemas.METRICS, "confusion": schemas.CONFUSION}
    fields |= {"curves": schemas.CURVES, "segment_auc": schemas.segment_auc(weighted=False)}
    fields |= {"segment_summary": schemas.SEGMENT_SUMMARY, "segment_gap": schemas.SEGMENT_GAP}
    fields |= {"segment_disparity": schemas.SEGMENT_DISPARITY}
    of_levels = ("segment_auc", "segment_gap", "segment_disparity")
    for name, columns in RESULTS.items():
        table = getattr(grouped, name)()
        front = "model string, level string, " + ("" if name in of_levels else "sex string, pclass int, ")
        assert contract(table) == f"{front}{columns}, run_id string"
        declared = schemas.result_table(keys, fields[name], segments=name not in of_levels)
        assert [(f.name, f.dataType) for f in table.schema] == [(f.name, f.dataType) for f in declared]
    saved = "rows double, positives double, negatives double, score array<double>, pos array<double>, neg array<double>"
    assert contract(grouped.counts.frame) == f"model string, range int, sex string, pclass int, {saved}"


def test_schema_of_weighted_pairs() -> None:
    assert [f.dataType for f in schemas.segment_auc(weighted=True) if f.name == "wins2"] == [DoubleType()]


def test_keys_are_declared_under_their_own_names_and_types() -> None:
    keys = Keys(("m",), ("s",), (StringType(), DateType()))
    assert schemas.result_table(keys, schemas.CONFUSION).names == [
        *("m", "level", "s", "threshold", "tp", "fp", "fn", "tn", "run_id")
    ]
