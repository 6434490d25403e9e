"""The schema of every table that sparkmetrics returns or writes. Key columns stand before these, `run_id` behind."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from sparkmetrics.columns import Keys, quote
from sparkmetrics.errors import SchemaError

RESULT_TABLES = (
    *("metrics", "confusion", "curves", "gains", "calibration"),
    *("segment_auc", "segment_summary", "segment_gap", "segment_disparity", "class_counts"),
)
"""What an evaluation returns."""

STATE_NOTE = "state_note"
"""The column of a saved state in a Delta or Iceberg table that keeps its notes. Elsewhere they are metadata of columns:
Iceberg keeps none, and Delta that of the first day."""

JOB_TABLES = ("gates",)
"""What a job adds."""

STATE_TABLES = ("score_counts", "class_cells", "class_score_counts", "class_ranks")
"""What an evaluation keeps: of scores, of predicted classes, and two of class probabilities. (`class_counts` is a
result: at levels, and without rows.)"""


def _fields(**types: DataType) -> list[StructField]:
    return [StructField(name.rstrip("_"), kind) for name, kind in types.items()]


_TEXT, _NUMBER = StringType(), DoubleType()
_CELLS = _fields(tp=_NUMBER, fp=_NUMBER, fn=_NUMBER, tn=_NUMBER)

METRICS = _fields(
    metric=_TEXT,
    average=_TEXT,
    class_=_TEXT,
    threshold=_NUMBER,
    value=_NUMBER,
    lower=_NUMBER,
    upper=_NUMBER,
    reason=_TEXT,
    rows=_NUMBER,
    positives=_NUMBER,
    negatives=_NUMBER,
)
CONFUSION = [*_fields(threshold=_NUMBER), *_CELLS]
CURVES = [
    *_fields(point=LongType(), threshold=_NUMBER),
    *_CELLS,
    *_fields(tpr=_NUMBER, fpr=_NUMBER, precision=_NUMBER, predicted_positive_rate=_NUMBER, lift=_NUMBER),
]
GAINS = _fields(
    bucket=IntegerType(),
    rows=_NUMBER,
    positives=_NUMBER,
    positive_rate=_NUMBER,
    cumulative_positives=_NUMBER,
    cumulative_gain=_NUMBER,
    lift=_NUMBER,
    cumulative_lift=_NUMBER,
)
CALIBRATION = _fields(
    bin=IntegerType(),
    bin_lower=_NUMBER,
    bin_upper=_NUMBER,
    rows=_NUMBER,
    positives=_NUMBER,
    mean_score=_NUMBER,
    positive_rate=_NUMBER,
)
CLASS_COUNTS = _fields(label=_TEXT, prediction=_TEXT, count=_NUMBER)
CLASS_STATE = [*CLASS_COUNTS, *_fields(rows=_NUMBER)]
CLASS_RANKS = _fields(true_rank=IntegerType(), count=_NUMBER, rows=_NUMBER)


def with_reason(fields: list[StructField], small_groups: bool) -> list[StructField]:
    """The columns of a table, and where groups can be too small also the reason that they have no values."""
    has = any(field.name == "reason" for field in fields)
    return [*fields, *([] if has or not small_groups else _fields(reason=_TEXT))]


def curves(metrics: Iterable[str]) -> list[StructField]:
    """The columns of `curves`, with further metrics behind."""
    return [*CURVES, *_fields(**dict.fromkeys(metrics, _NUMBER))]


WINS = {False: DecimalType(38, 0), True: DoubleType()}
"""Type of `wins2` without and with weights."""

RUNS = StructType(
    _fields(
        run_id=_TEXT,
        started_at=TimestampType(),
        finished_at=TimestampType(),
        status=_TEXT,
        config_sha256=_TEXT,
        rows_read=LongType(),
        rows_used=LongType(),
        rows_dropped=MapType(_TEXT, LongType()),
        tables=MapType(_TEXT, LongType()),
        versions=MapType(_TEXT, _TEXT),
        input_rows=LongType(),
        input_newest=TimestampType(),
        message=_TEXT,
    )
)
"""One row a run. `run_date` is in the path."""


def runs_of_days() -> StructType:
    """The rows of the ledger with their day."""
    return StructType([*RUNS, StructField("run_date", DateType())])


def segment_auc(weighted: bool) -> list[StructField]:
    """The columns of `segment_auc` after `by..., level`."""
    return _fields(
        positive_segment=_TEXT,
        negative_segment=_TEXT,
        positives=_NUMBER,
        negatives=_NUMBER,
        pairs=_NUMBER,
        wins2=WINS[weighted],
        auc=_NUMBER,
        pair_share=_NUMBER,
        contribution=_NUMBER,
        mirror_auc=_NUMBER,
        auc_difference=_NUMBER,
        mixed=BooleanType(),
        reason=_TEXT,
    )


SEGMENT_SUMMARY = _fields(
    rows=_NUMBER,
    positives=_NUMBER,
    negatives=_NUMBER,
    prevalence=_NUMBER,
    subgroup_auc=_NUMBER,
    bpsn_auc=_NUMBER,
    bnsp_auc=_NUMBER,
    leave_one_out_auc=_NUMBER,
    gap_contribution=_NUMBER,
    reason=_TEXT,
)
SEGMENT_GAP = _fields(
    rows=_NUMBER,
    positives=_NUMBER,
    negatives=_NUMBER,
    segments=_NUMBER,
    defined_segments=_NUMBER,
    total_auc=_NUMBER,
    within_auc=_NUMBER,
    within_share=_NUMBER,
    between_auc=_NUMBER,
    between_share=_NUMBER,
    smallest_auc=_NUMBER,
    largest_auc=_NUMBER,
    mean_auc=_NUMBER,
    gauc=_NUMBER,
    gauc_positives=_NUMBER,
    total_position=_TEXT,
    segment_score_auc=_NUMBER,
    segment_prevalence_auc=_NUMBER,
    reason=_TEXT,
)
SEGMENT_DISPARITY = _fields(
    metric=_TEXT,
    average=_TEXT,
    class_=_TEXT,
    threshold=_NUMBER,
    segments=_NUMBER,
    macro_mean=_NUMBER,
    best_segment=_TEXT,
    best_value=_NUMBER,
    best_lower=_NUMBER,
    best_upper=_NUMBER,
    worst_segment=_TEXT,
    worst_value=_NUMBER,
    worst_lower=_NUMBER,
    worst_upper=_NUMBER,
    difference=_NUMBER,
    ratio=_NUMBER,
    reason=_TEXT,
)

GATES = _fields(
    gate=_TEXT,
    metric=_TEXT,
    average=_TEXT,
    class_=_TEXT,
    threshold=_NUMBER,
    value=_NUMBER,
    lower=_NUMBER,
    upper=_NUMBER,
    reference=_NUMBER,
    status=_TEXT,
    reason=_TEXT,
    rows=_NUMBER,
)
"""The names that no other table has are refused as key columns only where there are gates (`gates.checked_gates`)."""

SCORES = _fields(
    rows=_NUMBER,
    positives=_NUMBER,
    negatives=_NUMBER,
    score=ArrayType(DoubleType()),
    pos=ArrayType(DoubleType()),
    neg=ArrayType(DoubleType()),
)


def key_fields(keys: Keys) -> tuple[list[StructField], list[StructField]]:
    """The `by` and the segment columns, under their own names and types."""
    fields = [StructField(name, kind) for name, kind in zip(keys.names, keys.types, strict=True)]
    return fields[: len(keys.by)], fields[len(keys.by) :]


def check_same_keys(mine: Keys, theirs: Keys, what: str, places: tuple[str, str] = ("here", "there")) -> None:
    """Raises SchemaError where two states differ in their key columns, so that they cannot be added.

    Parameters
    ----------
    mine, theirs : the key columns.
    what : the states are, for the message.
    places : where each of them stands, for the message.
    """
    if mine == theirs:
        return
    shown = []
    for keys, place in zip((mine, theirs), places, strict=True):
        by, segments = (", ".join(f"{f.name!r} {f.dataType.simpleString()}" for f in part) for part in key_fields(keys))
        shown.append(f"by {by or 'none'}, segments {segments or 'none'} {place}")
    raise SchemaError(f"These {what} do not fit together: their key columns are {'; '.join(shown)}.")


def result_table(keys: Keys, fields: list[StructField], segments: bool = True) -> StructType:
    """The schema of a table of results: `by..., level, segments..., fields..., run_id`."""
    by, segment = key_fields(keys)
    return StructType([*by, *_fields(level=_TEXT), *(segment if segments else []), *fields, *_fields(run_id=_TEXT)])


def score_counts(keys: Keys) -> StructType:
    """The schema of the saved state: `by..., range, segments..., rows, positives, negatives, score, pos, neg`."""
    by, segment = key_fields(keys)
    return StructType([*by, *_fields(range=IntegerType()), *segment, *SCORES])


def class_state(keys: Keys) -> StructType:
    """The schema of saved class counts: `by..., segments..., label, prediction, count, rows`."""
    by, segment = key_fields(keys)
    return StructType([*by, *segment, *CLASS_STATE])


def class_ranks(keys: Keys) -> StructType:
    """The schema of saved ranks of the true class: `by..., segments..., true_rank, count, rows`."""
    by, segment = key_fields(keys)
    return StructType([*by, *segment, *CLASS_RANKS])


def reserved_names() -> set[str]:
    """Every column name of ours that stands beside key columns, and so cannot be the name of one."""
    others = _fields(level=_TEXT, range=_TEXT, run_id=_TEXT)
    of_segments = (segment_auc(False), SEGMENT_SUMMARY, SEGMENT_GAP, SEGMENT_DISPARITY)
    tables = (METRICS, CONFUSION, CURVES, GAINS, CALIBRATION, CLASS_STATE, CLASS_RANKS, *of_segments, SCORES, others)
    return {field.name for table in tables for field in table} | {"run_date", STATE_NOTE}


def conform(frame: DataFrame, schema: StructType) -> DataFrame:
    """Selects the columns of a schema, in its order and types, by name."""
    return frame.select(*(F.col(quote(f.name)).cast(f.dataType).alias(f.name) for f in schema))
