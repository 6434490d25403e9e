"""What Spark has itself: MLlib's evaluator in a loop over groups, and a window over score."""

from __future__ import annotations

import pyarrow as pa

from benchmarks.contenders.base import LEVELS, Contender, Work, collected, stacked
from benchmarks.data_sets import MODELS, SEGMENTS, DataSet

SAMPLE = [
    ("m0", None),
    *(("m0", "s00"), ("m1", "s01"), ("m2", "s04")),
    *(("m3", "s09"), ("m0", "s14"), ("m1", "s19")),
    *(("m2", "s29"), ("m3", "s39"), ("m0", "s49")),
]
"""Groups of the 4 models x 50 segments: a total, and segments from the largest to the smallest."""


def mllib(work: Work) -> pa.Table:
    """A Spark job or more for each group of the sample."""
    from pyspark.ml.evaluation import BinaryClassificationEvaluator

    weight = {"weightCol": work.data_set.weight} if work.data_set.weight else {}
    evaluator = BinaryClassificationEvaluator(rawPredictionCol="score", labelCol="label", numBins=0, **weight)
    values = []
    for model, segment in SAMPLE:
        rows = work.frame("model", "segment").where(f"model = '{model}'")
        if segment is not None:
            rows = rows.where(f"segment = '{segment}'")
        values.append(evaluator.evaluate(rows))
    models, segments = zip(*SAMPLE, strict=True)
    return pa.table({"model": list(models), "segment": list(segments), "roc_auc": values})


def window(work: Work) -> pa.Table:
    """The AUC from the positives' mean ranks: ties count half, since equal scores share the mean of their ranks."""
    work.frame("model", "segment").createOrReplaceTempView("predictions")
    found = []
    for keys in (", ".join(level) for level in LEVELS):
        found.append(
            collected(
                work.spark.sql(f"""
                    WITH ranked AS (
                        SELECT {keys}, label, (rank() OVER scores + count(*) OVER scores) / 2 AS mean_rank
                        FROM predictions WINDOW scores AS (PARTITION BY {keys} ORDER BY score)
                    ), sums AS (
                        SELECT {keys}, sum(CASE WHEN label = 1 THEN mean_rank END) AS ranks,
                            CAST(sum(label) AS DOUBLE) AS p, CAST(sum(1 - label) AS DOUBLE) AS n
                        FROM ranked GROUP BY {keys}
                    )
                    SELECT {keys}, (ranks - p * (p + 1) / 2) / (p * n) AS roc_auc FROM sums WHERE p > 0 AND n > 0
                """)
            )
        )
    return stacked(found)


def zipf(data_set: DataSet) -> bool:
    return data_set.zipf


def unweighted(data_set: DataSet) -> bool:
    return data_set.weight is None


CONTENDERS = [
    Contender("MLlib", "AUC", mllib, fits=zipf, groups=(len(SAMPLE), MODELS * SEGMENTS + MODELS)),
    Contender("window", "AUC", window, fits=unweighted),
]
