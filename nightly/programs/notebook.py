"""What a notebook does: evaluates a table, and a state cut into many ranges; writes the tables it fetched to a folder.

Arguments: predictions, day, output folder.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pyspark

import sparkmetrics as sm
from sparkmetrics import session


def save(evaluation: sm.Evaluation, folder: Path) -> None:
    folder.mkdir(parents=True)
    evaluation.share()
    for name, table in evaluation.tables().items():
        pq.write_table(table().toArrow(), folder / f"{name}.parquet")
    evaluation.unpersist()


def main(predictions: str, day: str, output: str) -> None:
    spark = session.get_session()
    frame = spark.read.parquet(predictions).where(f"event_date = DATE'{day}'")
    keys = {"by": ["model"], "segments": ["country", "scored_on"], "label": "label", "score": "score"}
    save(sm.evaluate(frame, **keys), Path(output, "rows"))
    save(sm.evaluate_path(spark, predictions, filter=f"event_date = DATE'{day}'", **keys), Path(output, "files"))
    many = sm.Sizing(ranges=7, placed_rows=1, task_scores=500, sample_every=1, broadcast_offsets=1)
    counts = sm.score_counts(frame, **keys, sizing=many)
    save(counts.evaluate(), Path(output, "ranges"))
    probabilities = {k: f"p{k}" for k in range(3)}
    save(
        sm.evaluate(
            *(frame,),
            by=["model"],
            segments=["country"],
            label="class",
            prediction="guess",
            probabilities=probabilities,
            top_k=[2],
        ),
        Path(output, "classes"),
    )
    loaded = sorted(name for name in ("py4j", "pyspark.core") if name in sys.modules)
    session_class = f"{type(spark).__module__}.{type(spark).__name__}"
    print(json.dumps({"pyspark": pyspark.__version__, "session": session_class, "loaded": loaded}))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
