"""The job's face: commands, log lines, exit codes. `sparkmetrics evaluate` and `jobs/evaluate.py` both come here."""

from __future__ import annotations

import argparse
import logging
import platform
import sys
import uuid
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime, timezone

import numpy
import pyarrow
import pyspark
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sparkmetrics import __version__, config, session, tables
from sparkmetrics.errors import ConfigError, DataError, SchemaError, SparkMetricsError
from sparkmetrics.evaluation import Evaluation
from sparkmetrics.options import Options
from sparkmetrics.parquet_files import read_parquet
from sparkmetrics.score_counts import counts_of_frame
from sparkmetrics.states import read_states
from sparkmetrics.tables import Run

DONE, FAILED, BAD_INPUT = 0, 1, 2
"""Exit codes: done; an unexpected failure; bad config or bad data, with one clear message."""

log = logging.getLogger("sparkmetrics")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command.

    Parameters
    ----------
    arguments : the words behind the program's name; None takes those of the process.

    Returns
    -------
    The exit code.
    """
    options = _parser().parse_args(arguments)
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", datefmt="%H:%M:%S"
    )
    for chatty in ("py4j", "pyspark"):
        # What they log as errors is raised as well, and told once below.
        logging.getLogger(chatty).setLevel(logging.CRITICAL)
    logging.captureWarnings(True)
    try:
        evaluate(options.config, options.run_date)
    except (ConfigError, SchemaError, DataError) as error:
        print(f"sparkmetrics: {error}", file=sys.stderr)
        return BAD_INPUT
    except SparkMetricsError as error:
        print(f"sparkmetrics: {error}", file=sys.stderr)
        return FAILED
    except Exception:
        log.exception("failed")
        return FAILED
    return DONE


def evaluate(config_path: str, run_date: date) -> str:
    """One run of the main job: predictions of a day in, tables of results out.

    Parameters
    ----------
    config_path : of the YAML config.
    run_date : the day; fills `{run_date}` in the config and names the folders of the results.

    Returns
    -------
    The run's id.

    Raises
    ------
    ConfigError, SchemaError, DataError : before anything is written.
    WriteError : the output cannot be written.
    """
    loaded = config.load(config_path)
    job = loaded.on(run_date)
    run = Run(uuid.uuid4().hex, run_date, datetime.now(timezone.utc), loaded.sha256(), _versions())
    log.info("run %s: evaluate %s with %s", run.run_id, run_date, config_path)
    spark = session.get_session()
    predictions, files = tables.read_predictions(spark, job.predictions)
    states = read_states(
        predictions,
        **job.columns.model_dump(),
        classes=job.evaluate.classes,
        invalid_rows=job.evaluate.invalid_rows,
        files=files,
        reader=job.predictions.reader,
    )
    rows = states.row_counts
    assert rows is not None
    log.info("run %s: %d rows read, %d used, dropped %s", run.run_id, rows.read, rows.used, dict(rows.dropped) or 0)
    options = Options.make(states.keys, **job.evaluate.model_dump(exclude={"invalid_rows"}))
    Evaluation(states, options).tables(job.output.tables)  # asks before anything is written
    root, written = job.output.path, {}
    if job.output.save_counts and states.scores is not None:
        # What is evaluated is what was saved, so that a lost executor cannot make the two differ.
        saved = states.scores.saved().withColumn("run_id", F.lit(run.run_id))
        written["score_counts"] = tables.write_day(saved, root, "score_counts", run_date)
        path = tables.day_path(root, "score_counts", run_date)
        states = replace(states, scores=counts_of_frame(read_parquet(spark, path), path, states.scores.sizing))
    evaluation = Evaluation(states, options, run.run_id)
    evaluation.share(job.output.tables)
    for name, table in evaluation.tables(job.output.tables).items():
        written[name] = tables.write_day(table(), root, name, run_date)
        log.info("run %s: %s, %d rows", run.run_id, tables.day_path(root, name, run_date), written[name])
    if "segment_auc" in written:
        path = tables.day_path(root, "segment_auc", run_date)
        _log_pooled(read_parquet(spark, path), run, options)
    evaluation.unpersist()
    tables.write_run(spark, root, run, rows, written)
    log.info("run %s: done", run.run_id)
    return run.run_id


def _log_pooled(pairs: DataFrame, run: Run, options: Options) -> None:
    """Says which levels have more segments than their pair matrix names."""
    crowded = pairs.where("mixed").groupBy("level").count().orderBy("level").collect()
    for row in crowded:
        log.info(
            "run %s: segment_auc of level %s names the %d largest segments (max_pair_segments) and pools the rest as "
            "(other), of %d by tuple(s)",
            run.run_id,
            row["level"],
            options.max_pair_segments,
            row["count"],
        )


def _versions() -> dict[str, str]:
    return {
        "sparkmetrics": __version__,
        "pyspark": pyspark.__version__,
        "python": platform.python_version(),
        "numpy": numpy.__version__,
        "pyarrow": pyarrow.__version__,
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="sparkmetrics",
        description="Exact evaluation of classifiers on Spark: every segment, every roll-up and the total.",
    )
    parser.add_argument("--version", action="version", version=f"sparkmetrics {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser(
        "evaluate",
        help="evaluate one day's predictions and write the results",
        description="Reads the predictions of a config, evaluates them and writes the tables of one day.",
        epilog="example: sparkmetrics evaluate --config conf/evaluate.yaml --run-date 2026-11-29",
    )
    command.add_argument("--config", required=True, metavar="FILE", help="YAML config")
    command.add_argument(
        "--run-date", type=_date, default=date.today(), metavar="YYYY-MM-DD", help="the day (default: today)"
    )
    return parser


def _date(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a date like 2026-11-29") from None


if __name__ == "__main__":
    sys.exit(main())
