"""Polars and DuckDB, in this process on all cores: exact, ties and all."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pyarrow as pa

from benchmarks.contenders.base import CORES, LEVELS, Contender, Work, stacked

if TYPE_CHECKING:
    import polars as pl

DUCKDB_MEMORY = "16GB"


def in_polars(work: Work) -> pa.Table:
    """Sorted by score once, by the streaming engine; then cumulative sums at the ends of ties in each group."""
    os.environ.setdefault("POLARS_MAX_THREADS", str(CORES))  # read when Polars is first imported
    import polars as pl

    weight = pl.col(work.data_set.weight) if work.data_set.weight else pl.lit(1.0)
    label = pl.col("label").cast(pl.Float64)
    rows = (
        pl.scan_parquet([f"{path}/*.parquet" for path in work.paths])
        .select("model", "segment", "score", p=label * weight, n=(1 - label) * weight)
        .sort("score", descending=True)
        .collect(engine="streaming")
    )
    found = pl.collect_all([_polars_level(rows.lazy(), keys) for keys in LEVELS])
    return stacked([level.to_arrow() for level in found])


def _polars_level(rows: pl.LazyFrame, keys: list[str]) -> pl.LazyFrame:
    """AUC, AP and KS of each group of rows that are sorted by score, from the highest."""
    import polars as pl

    tp, fp, dp, dn = (pl.col(name) for name in ("tp", "fp", "dp", "dn"))
    last_of_tie = (pl.col("score") != pl.col("score").shift(-1)).fill_null(True)
    first_of_group = pl.any_horizontal(pl.col(key) != pl.col(key).shift(1) for key in keys).fill_null(True)
    P, N = pl.col("P").first(), pl.col("N").first()
    return (
        rows.group_by(keys)
        .agg(
            tp=pl.col("p").cum_sum().filter(last_of_tie),
            fp=pl.col("n").cum_sum().filter(last_of_tie),
            P=pl.col("p").sum(),
            N=pl.col("n").sum(),
        )
        .filter((pl.col("P") > 0) & (pl.col("N") > 0))
        .explode("tp", "fp")
        .with_columns(
            dp=tp - pl.when(first_of_group).then(0.0).otherwise(tp.shift(1)),
            dn=fp - pl.when(first_of_group).then(0.0).otherwise(fp.shift(1)),
        )
        .group_by(keys)
        .agg(
            roc_auc=(dn * (2 * tp - dp)).sum() / (2 * P * N),
            average_precision=(dp * tp / (tp + fp)).sum() / P,
            ks=(tp / P - fp / N).abs().max(),
        )
    )


def in_duckdb(work: Work) -> pa.Table:
    """One window over score for each level, whose frame ends with the tie: so each row knows what its threshold takes.

    The positives that a negative ties with or loses to, less the negatives that a positive ties with or loses to, are
    P N (2 AUC - 1).
    """
    import duckdb

    settings = {"threads": CORES, "memory_limit": DUCKDB_MEMORY, "preserve_insertion_order": False}
    if work.scratch:
        settings["temp_directory"] = str(work.scratch)
    files = [f"{path}/*.parquet" for path in work.paths]
    weight = work.data_set.weight or "1.0::DOUBLE"
    # The frame's count is cheaper than a sum, and the same without weights.
    taken = f"sum({weight})" if work.data_set.weight else "count(*)"
    with duckdb.connect(config=settings) as connection:
        found = [
            connection.sql(f"""
                WITH rows AS (
                    SELECT {keys}, score, label * {weight} AS p, (1 - label) * {weight} AS n,
                        {work.data_set.weight or "1 AS nothing"}
                    FROM read_parquet({files})
                ), totals AS (
                    SELECT {keys}, sum(p) AS P_all, sum(n) AS N_all FROM rows GROUP BY {keys}
                ), ranked AS (
                    SELECT {keys}, p, n, sum(p) OVER scores AS tp, {taken} OVER scores AS taken
                    FROM rows WINDOW scores AS (PARTITION BY {keys} ORDER BY score DESC)
                )
                SELECT {keys},
                    0.5 + (sum(n * tp) - sum(p * (taken - tp))) / (2 * any_value(P_all) * any_value(N_all)) AS roc_auc,
                    sum(p * tp / taken) / any_value(P_all) AS average_precision,
                    max(abs(tp / P_all - (taken - tp) / N_all)) AS ks
                FROM ranked JOIN totals USING ({keys}) WHERE P_all > 0 AND N_all > 0 GROUP BY {keys}
            """).to_arrow_table()
            for keys in (", ".join(level) for level in LEVELS)
        ]
    return stacked(found)


CONTENDERS = [
    Contender("Polars", "AUC, AP, KS", in_polars, session=None),
    Contender("DuckDB", "AUC, AP, KS", in_duckdb, session=None),
]
