"""The jobs: a day evaluated, many days one after the other, saved days added up. See docs/job.md."""

from __future__ import annotations

import logging
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta

import numpy
import pyarrow
import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sparkmetrics import __version__, schemas, session, sources
from sparkmetrics.catalog_stores import CatalogStore
from sparkmetrics.class_counts import class_counts_of
from sparkmetrics.columns import Keys
from sparkmetrics.config import Config, OutputSection, gates_of
from sparkmetrics.errors import SPARK_ERRORS, ConfigError, DataError, SparkMetricsError, first_line, told
from sparkmetrics.evaluation import Evaluation
from sparkmetrics.files import check_folder, files_of
from sparkmetrics.gates import Gate, check_values
from sparkmetrics.lake_stores import LakeStore
from sparkmetrics.lakes import LAKES, lake
from sparkmetrics.ledger import Record
from sparkmetrics.locks import LockedError
from sparkmetrics.options import Options
from sparkmetrics.predictions import Predictions
from sparkmetrics.progress import Progress
from sparkmetrics.ranges import Plan, Sizing
from sparkmetrics.saved_states import loaded, saved
from sparkmetrics.score_counts import ScoreCounts
from sparkmetrics.states import States, clean_predictions, read_states
from sparkmetrics.stores import FolderStore, PlainStore, Store
from sparkmetrics.tables import Catalog, whole_day
from sparkmetrics.verdicts import gate_table, outcome

log = logging.getLogger("sparkmetrics")

SMALL_STATE = 1_000_000
"""Rows of predictions up to which a saved state is one file."""


FORGIVEN: tuple[type[Exception], ...] = (SparkMetricsError, *SPARK_ERRORS)
"""What does not matter to a run that has ended."""


@dataclass(frozen=True)
class Outcome:
    """What became of a run.

    Attributes
    ----------
    record : its row in the ledger.
    failed : number of rows of gates that failed.
    told : some of them as text.
    """

    record: Record
    failed: int = 0
    told: tuple[str, ...] = ()


def evaluate_day(loaded_config: Config, day: date, progress: Progress | None = None) -> Outcome:
    """One run of the main job: predictions of a day in, tables of results out.

    Parameters
    ----------
    loaded_config : of the job.
    day : fills `{run_date}` in the config and names the folders of the results.
    progress : told of each step.

    Raises
    ------
    ConfigError, SchemaError, DataError : before anything is written, or with what was there left as it was.
    WriteError : the output cannot be written, or another run of the day is at work.
    """
    job, progress = loaded_config.on(day), progress or Progress()
    record = Record.begin(day, loaded_config.sha256(), versions())
    log.info("run %s: evaluate %s", record.run_id, day)
    spark = session.get_session()
    sources.check_apart(job.predictions, job.output)
    store = open_store(spark, job.output, day, record.run_id)
    progress.begin(len(schemas.RESULT_TABLES) + 3)
    progress.step("reading predictions")
    predictions, files = sources.read_predictions(spark, job.predictions)
    store.check(lambda: frames_of(job, planned(job, predictions)[0]))
    before = sources.input_of(predictions, job.predictions.filter)
    with told(DataError, "Cannot read the predictions"):
        states = read_states(
            predictions,
            **job.columns.model_dump(),
            classes=job.evaluate.classes,
            invalid_rows=job.evaluate.invalid_rows,
            files=files,
            reader=job.predictions.reader,
        )
    record = record.of_input(states.row_counts, before)
    log.info(
        "run %s: %s rows read, %s used, dropped %s",
        record.run_id,
        record.rows_read,
        record.rows_used,
        dict(record.rows_dropped) or 0,
    )

    def unchanged() -> None:
        again, _ = sources.read_predictions(spark, job.predictions)  # a DataFrame keeps its list of files
        sources.check_unchanged(before, sources.input_of(again, job.predictions.filter))

    return write_day(store, record, states, job, progress, unchanged)


def write_day(
    store: Store, record: Record, states: States, job: Config, progress: Progress, unchanged: Callable[[], None]
) -> Outcome:
    """Evaluates states, and puts the tables of the day in place.

    Parameters
    ----------
    store : where they go.
    record : of the run so far.
    states : what is evaluated.
    job : the config.
    progress : told of each step.
    unchanged : raises where what the states were made of is not what it was.
    """
    gates = gates_of(job)
    check_values(gates, states.keys)
    tables_of(Evaluation(states, options_of(job, states.keys)), job.output)  # asked before anything is written
    try:
        store.begin()
        ended = _filled(store, record, states, job, gates, progress)
        unchanged()
        progress.step("putting the day in place")
        store.commit(ended.record)
    except BaseException as error:
        _try("what this run wrote is removed by the next, since", store.end)
        if not isinstance(error, LockedError):  # the ledger is its, who holds the lock
            failed = record.failed(first_line(error))
            _try("the failed run is not in the ledger:", lambda: store.note(failed))
        raise
    finally:
        states.unpersist()
        progress.end()
    if job.output.retention_days is not None:
        before = record.run_date - timedelta(days=job.output.retention_days)
        _try("earlier days are not removed:", lambda: store.expire(schemas.STATE_TABLES, before))
    _try("what was replaced is removed by the next run, since", store.end)
    log.info("run %s: done", record.run_id)
    return ended


def _filled(
    store: Store, record: Record, states: States, job: Config, gates: Sequence[Gate], progress: Progress
) -> Outcome:
    """Writes all tables of a run where nobody looks for them yet."""
    options, judged = options_of(job, states.keys), Outcome(record)
    if job.output.save_counts:
        progress.step("saving counts")
        states = _saved(store, record, states)
    evaluation = Evaluation(states, options, record.run_id)
    try:
        evaluation.share(job.output.tables)
        for name, table in tables_of(evaluation, job.output).items():
            progress.step(f"{name}, {record.rows_used:,} rows of predictions")
            store.write(name, table())
            log.info("run %s: %s, %d rows", record.run_id, name, store.tables[name])
    finally:
        evaluation.unpersist()
    if gates:
        progress.step("gates")
        judged = _judged(store, record, states.keys, gates)
    if "segment_auc" in store.tables:
        _log_pooled(store.written("segment_auc"), record, options)
    return replace(judged, record=record.done(store.tables))


def _try(otherwise: str, action: Callable[[], None]) -> None:
    """Does what a run that has ended may leave undone, with a warning."""
    try:
        action()
    except FORGIVEN as error:
        log.warning("%s %s", otherwise, first_line(error))


def options_of(job: Config, keys: Keys) -> Options:
    """What a config wants to be evaluated."""
    return Options.make(keys, **job.evaluate.model_dump(exclude={"invalid_rows"}))


def planned(job: Config, predictions: DataFrame) -> tuple[Evaluation, Predictions]:
    """The evaluation of predictions as its plan and its columns are known before a row is read, and what it is of.

    The classes of an array or map of probabilities are looked for in its rows, where the config does not name them. Of
    predicted classes it is not known how many there are: it is taken that there are two. Of probabilities there are
    those of the likeliest classes alone, so that metrics are not chosen: tables have the same columns whichever.
    """
    columns = job.columns
    clean, classes = clean_predictions(predictions, **columns.model_dump(), classes=job.evaluate.classes)
    scores = counts = None
    if columns.score is not None or columns.scores is not None:
        scores = ScoreCounts(
            clean.keys,
            clean.good,
            weighted=clean.weighted,
            of_predictions=True,
            sizing=Sizing(),
            plan=Plan(1),
        )
    if classes is not None:
        counts = class_counts_of(clean.frame.where(F.col("reason").isNull()), clean.keys, clean.weighted)
    states = States(clean.keys, scores, counts, positive=str(columns.positive))
    options = options_of(job, clean.keys)
    return Evaluation(states, options if columns.probabilities is None else replace(options, metrics=None)), clean


def tables_of(evaluation: Evaluation, output: OutputSection) -> dict[str, Callable[[], DataFrame]]:
    """The tables of results that a config asks for. Raises ConfigError for one that the evaluation cannot have."""
    try:
        return evaluation.tables(output.tables)
    except ConfigError as error:
        raise ConfigError(f"output.{error}") from None


def frames_of(job: Config, evaluation: Evaluation) -> dict[str, DataFrame]:
    """The tables that a run would write, as `planned` knows them, for their columns."""
    frames = {name: make() for name, make in tables_of(evaluation, job.output).items()}
    if job.output.save_counts:
        frames |= {name: frame.withColumn("run_id", F.lit("")) for name, frame in saved(evaluation.states).items()}
    evaluation.unpersist()
    return frames


def _judged(store: Store, record: Record, keys: Keys, gates: Sequence[Gate]) -> Outcome:
    """Writes the table of gates, and says which failed."""

    def past(day: date) -> DataFrame | None:
        try:
            return whole_day(store.place, "metrics", day)
        except DataError as error:
            log.info("run %s: gates know nothing of %s: %s", record.run_id, day, error)
            return None

    table = gate_table(store.written("metrics"), keys, gates, past, record.run_date)
    store.write("gates", table.select("*", F.lit(record.run_id).alias("run_id")))
    failed, not_judged, lines = outcome(store.written("gates"))
    log.info(
        "run %s: gates, %d rows, %d failed, %d not judged", record.run_id, store.tables["gates"], failed, not_judged
    )
    return Outcome(record, failed, tuple(lines))


def _saved(store: Store, record: Record, states: States) -> States:
    """The states as they were saved, so that a lost executor cannot make what is saved and evaluated differ."""
    small = (record.rows_used or 0) <= SMALL_STATE
    for name, frame in saved(states).items():
        store.write(name, frame.select("*", F.lit(record.run_id).alias("run_id")), small)
    states.unpersist()
    tables = {name: store.written(name) for name in store.tables}
    if (counts := tables.get("score_counts")) is not None:
        _check_rows(counts, record)
    found = loaded(tables, f"the saved counts of {record.run_date}")
    return replace(found, row_counts=states.row_counts)


def _check_rows(counts: DataFrame, record: Record) -> None:
    """Raises DataError where saved counts are of other rows than were counted before."""
    found = counts.agg(F.coalesce(F.sum("rows"), F.lit(0)).alias("rows")).first()
    assert found is not None  # an aggregate of all rows has one
    if record.rows_used is not None and found["rows"] != record.rows_used:
        raise DataError(
            f"{record.rows_used} rows of predictions were counted, and {found['rows']:.0f} evaluated: their files "
            "changed in between. Run again when their writer is done."
        )


def open_store(spark: SparkSession, output: OutputSection, day: date, run_id: str) -> Store:
    """Where a run writes.

    Parameters
    ----------
    spark : session.
    output : section of the config.
    day, run_id : of the run.

    Raises
    ------
    ConfigError : the format is not installed, a file or no database is where results should go, or a day cannot be
        replaced whole there and `atomic` asks for that.
    """
    if output.format in LAKES:
        where = lake(spark, output.path, output.table_prefix, output.format)
        if output.table_prefix is not None:
            Catalog(spark, output.table_prefix).check(output.format)
        return LakeStore(spark, where, day, run_id)
    if output.table_prefix is not None:
        Catalog(spark, output.table_prefix).check()
        return CatalogStore(spark, output.table_prefix, output.path, day, run_id)
    path = str(output.path)
    try:
        found = files_of(spark, path)
    except ConfigError as error:
        raise ConfigError(f"output.path {error}") from error
    if found is not None:
        check_folder(*found)
        return FolderStore(spark, *found, day, run_id)
    if output.atomic:
        raise ConfigError(
            f"output.path {path!r}: a day cannot be replaced in one step there, since nothing can be renamed (an "
            "object store, or a client of Spark Connect). Set output.table_prefix to write catalog tables, or "
            "output.format to delta or iceberg, or say output.atomic: false, with which a reader may see a day half "
            "written, and two runs at once may mix."
        )
    if output.retention_days is not None:
        raise ConfigError(
            f"output.retention_days: nothing can be removed from output.path {path!r} (an object store, or a client of "
            "Spark Connect). Leave it out, and let the store's own rules remove old days."
        )
    return PlainStore(spark, path, day)


def _log_pooled(pairs: DataFrame, record: Record, options: Options) -> None:
    """Says which levels have more segments than their pair matrix names."""
    crowded = pairs.where("mixed").groupBy("level").count().orderBy("level").collect()
    for row in crowded:
        log.info(
            "run %s: segment_auc of level %s names the %d largest segments (max_pair_segments) and pools the rest as "
            "(other), of %d by tuple(s)",
            record.run_id,
            row["level"],
            options.max_pair_segments,
            row["count"],
        )


def versions() -> dict[str, str]:
    """What the ledger says of the software."""
    return {
        "sparkmetrics": __version__,
        "pyspark": pyspark.__version__,
        "python": platform.python_version(),
        "numpy": numpy.__version__,
        "pyarrow": pyarrow.__version__,
    }
