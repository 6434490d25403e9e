"""Jobs of many days: days evaluated one after the other, and saved days added up."""

from __future__ import annotations

import calendar
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone

from pyspark.sql import DataFrame

from sparkmetrics import job, schemas, session, sources
from sparkmetrics.config import MOST_DAYS, Config, OutputSection
from sparkmetrics.errors import ConfigError, DataError, SchemaError, SparkMetricsError, first_line, told
from sparkmetrics.files import is_inside, normal
from sparkmetrics.inspection import RowCounts
from sparkmetrics.job import Outcome
from sparkmetrics.ledger import RUNS, Input, Record, last_done
from sparkmetrics.progress import Progress
from sparkmetrics.saved_states import added, loaded
from sparkmetrics.states import States
from sparkmetrics.tables import TABLES, NoRunError, Place, as_written, looked, place

log = logging.getLogger("sparkmetrics")

PAUSE = 2.0
"""Seconds after which a folder that is being replaced is there again."""

BAD_INPUT = (ConfigError, SchemaError, DataError)
"""Errors that whoever runs a job can mend in its config or its data."""


@dataclass(frozen=True)
class Period:
    """Some days, both ends of which are in it."""

    first: date
    last: date

    def __post_init__(self) -> None:
        if self.last < self.first:
            raise ConfigError(f"The period ends on {self.last}, before it begins on {self.first}.")
        if (self.last - self.first).days >= MOST_DAYS:
            raise ConfigError(f"The period {self.first} to {self.last} is of more than {MOST_DAYS} days.")

    def __str__(self) -> str:
        return f"{self.first}_{self.last}"

    def __iter__(self) -> Iterator[date]:
        return (self.first + timedelta(days=number) for number in range((self.last - self.first).days + 1))

    @classmethod
    def month(cls, year: int, month: int) -> Period:
        """A calendar month."""
        return cls(date(year, month, 1), date(year, month, calendar.monthrange(year, month)[1]))

    @classmethod
    def ending(cls, last: date, days: int) -> Period:
        """So many days up to and with a day."""
        try:
            return cls(last - timedelta(days=days - 1), last)
        except OverflowError:
            raise ConfigError(f"There are no {days} days before {last}.") from None


@dataclass(frozen=True)
class Failures:
    """Days of a period that did not end well."""

    unexpected: int = 0
    bad_input: int = 0
    gates: int = 0


def printed(line: str) -> None:
    """Prints a line at once, also into a pipe."""
    print(line, flush=True)


def backfill(
    config: Config,
    period: Period,
    *,
    only_missing: bool = False,
    mature_after: timedelta | None = None,
    say: Callable[[str], None] = printed,
    progress: Progress | None = None,
) -> Failures:
    """Evaluates days one after the other, and says a line about each. A day that fails does not stop the others.

    Parameters
    ----------
    config : of the job.
    period : the days.
    only_missing : leaves out days whose last run is done, whose tables are of that run, and whose input has the rows
        and the newest file that it had.
    mature_after : labels are complete so long after a day begins: an earlier run of it counts as missing.
    say : told of each day.
    progress : told of each step.
    """
    spark, progress = session.get_session(), progress or Progress()
    where = place(spark, config.output.path, config.output.table_prefix, config.output.format)
    done = last_done(where.runs(period.first, period.last)) if only_missing else {}
    unexpected = bad_input = gates = 0
    for day in period:
        began = time.monotonic()
        try:
            why = _needed(config, where, day, done.get(day), mature_after) if only_missing else ""
            if why is None:
                say(f"{day} skipped: done, and its input is what it was")
                continue
            outcome = job.evaluate_day(config, day, progress)
        except Exception as error:
            progress.end()
            if isinstance(error, BAD_INPUT):
                bad_input += 1
            else:
                unexpected += 1
            if not isinstance(error, SparkMetricsError):
                log.exception("%s failed", day)
            say(f"{day} failed: {error if isinstance(error, SparkMetricsError) else first_line(error)}")
            continue
        gates += bool(outcome.failed)
        became = f"{outcome.failed} gates failed" if outcome.failed else "done"
        because = f" ({why})" if why else ""
        say(f"{day} {became}: {outcome.record.rows_used} rows, {time.monotonic() - began:.0f} s{because}")
    return Failures(unexpected, bad_input, gates)


def _is_mixed(where: Place, done: Record) -> bool:
    """Whether a day is not what its last run that was done left: one that came later was stopped between two tables."""
    with told(DataError, f"Cannot read the results of {done.run_date}"):
        found = where.run_ids(TABLES, done.run_date)
    left = {table: done.run_id for table, rows in done.tables.items() if rows}
    expired = {table: run_id for table, run_id in left.items() if table in schemas.STATE_TABLES}
    return {**expired, **found} != left


def _needed(config: Config, where: Place, day: date, done: Record | None, mature_after: timedelta | None) -> str | None:
    """Why a day is to be run; None where it is not."""
    if done is None:
        return "it was missing"
    if mature_after is not None:
        mature = datetime(day.year, day.month, day.day, tzinfo=timezone.utc) + mature_after
        if done.started_at < mature:
            return "its labels were young"
    if _is_mixed(where, done):
        return "another run was stopped"
    source = config.on(day).predictions
    predictions, _ = sources.read_predictions(session.get_session(), source)
    found = sources.input_of(predictions, source.filter)
    return None if (found.rows, found.newest) == (done.input_rows, done.input_newest) else "its input changed"


def output_of(output: OutputSection, period: Period, path: str | None, prefix: str | None) -> OutputSection:
    """Where the results of a period go: `<output.path>/periods/<first>_<last>`, or where one of path and prefix says.

    Raises
    ------
    ConfigError : the days are catalog tables, and neither is given.
    """
    if path is None and prefix is None:
        if output.table_prefix is not None:
            raise ConfigError(
                f"merge: the days are in catalog tables {output.table_prefix}*; give --output-prefix, or --output, for "
                "the results of a period, so that they do not replace those of its last day."
            )
        path = f"{str(output.path).rstrip('/')}/periods/{period}"
    over = (
        path is not None
        and output.path is not None
        and (normal(path) == normal(output.path) or any(is_inside(path, f"{output.path}/{t}") for t in (*TABLES, RUNS)))
    )
    # Catalogs take no notice of case, and `x` may be the `x` of a database and catalog that are not named.
    names = [str(name).lower().split(".")[-1] for name in (prefix, output.table_prefix) if name is not None]
    if over or (len(names) == 2 and names[0] == names[1]):
        raise ConfigError("merge: the results of a period would replace those of its last day. Name another place.")
    if prefix is None and output.format == "iceberg":
        raise ConfigError(
            "merge: output.format iceberg needs --output-prefix, since its tables are those of a catalog."
        )
    return output.model_copy(update={"path": path, "table_prefix": prefix, "retention_days": None})


def merge(
    config: Config,
    period: Period,
    *,
    allow_missing: bool = False,
    output: OutputSection,
    progress: Progress | None = None,
) -> Outcome:
    """Evaluates the sum of the saved counts of some days, without a look at their predictions.

    Parameters
    ----------
    config : of the job that saved them; its section `evaluate` says what to compute.
    period : the days.
    allow_missing : adds up the days that are there.
    output : where the results go, as those of the last day of the period.
    progress : told of each step.

    Raises
    ------
    ConfigError : the output is among the predictions, or a day cannot be replaced whole there.
    DataError : days without saved counts, which are named; or a day is run again, or replaced, meanwhile.
    SchemaError : days whose counts do not fit together, with the difference.
    WriteError : the output cannot be written.
    """
    progress = progress or Progress()
    record = Record.begin(period.last, config.sha256(), job.versions())
    log.info("run %s: merge %s to %s", record.run_id, period.first, period.last)
    spark = session.get_session()
    for day in period:
        sources.check_apart(config.on(day).predictions, output, "--output")
    store = job.open_store(spark, output, period.last, record.run_id)
    progress.begin(len(schemas.RESULT_TABLES) + 3)
    progress.step(f"reading the counts of {period.first} to {period.last}")
    where = place(spark, config.output.path, config.output.table_prefix, config.output.format)
    runs, states = looked(
        lambda: _saved_days(where, period, allow_missing), f"Saved counts of {period.first} to {period.last}"
    )
    rows = RowCounts(sum(run.rows_read or 0 for run in runs), sum(run.rows_used or 0 for run in runs), _dropped(runs))
    record = record.of_input(rows, Input())

    def unchanged() -> None:
        now = last_done(where.runs(period.first, period.last))
        again = [str(run.run_date) for run in runs if now.get(run.run_date, run).run_id != run.run_id]
        if again:
            raise DataError(f"{', '.join(again)} were run again while their counts were added up. Merge again.")
        # A run that is still at work may have replaced what was added up, and a DataFrame that is planned anew at each
        # use holds none of that day.
        with told(DataError, f"Cannot read the counts of {period.first} to {period.last} again"):
            _whole(where, runs)

    # What is saved of a period are the counts of its days, and gates judge days.
    settings = config.model_copy(update={"output": output.model_copy(update={"save_counts": False}), "gates": []})
    return job.write_day(store, record, states, settings, progress, unchanged)


def _saved_days(where: Place, period: Period, allow_missing: bool) -> tuple[list[Record], States]:
    """The runs of the days that have saved counts, and the sum of these."""
    done = last_done(where.runs(period.first, period.last))
    saved = {day: [t for t in schemas.STATE_TABLES if t in run.tables] for day, run in done.items()}
    if expired := _not_there(where, done, saved):
        time.sleep(PAUSE)  # or a run that is just being put in place would be taken for one that is gone
        for day in expired & _not_there(where, done, saved):
            saved[day] = []
    runs = [done[day] for day in period if saved.get(day)]
    missing = [str(day) for day in period if not saved.get(day)]
    if missing and not (allow_missing and runs):
        listed = ", ".join(missing[:31]) + (f" and {len(missing) - 31} more" if len(missing) > 31 else "")
        raise NoRunError(
            f"No saved counts of {listed} in {str(where)!r}. Evaluate these days (sparkmetrics evaluate --from D1 --to "
            "D2 --only-missing), with output.save_counts on" + ("." if allow_missing else ", or --allow-missing.")
        )
    tables = _whole(where, runs)
    states = [
        loaded({table: tables[table][run.run_date] for table in saved[run.run_date]}, f"the counts of {run.run_date}")
        for run in runs
    ]
    return runs, added(states)


def _whole(where: Place, runs: Sequence[Record]) -> dict[str, dict[date, DataFrame]]:
    """The saved counts of some days, as their runs wrote them. Raises DataError where they are others by now."""
    return {
        table: as_written(where, table, having)
        for table in schemas.STATE_TABLES
        if (having := [run for run in runs if table in run.tables])
    }


def _not_there(where: Place, done: Mapping[date, Record], saved: Mapping[date, Sequence[str]]) -> set[date]:
    """The days whose saved counts have been removed."""
    having = {table: [done[day] for day in saved if table in saved[day]] for table in schemas.STATE_TABLES}
    return {day for table, runs in having.items() if runs for day in where.gone(table, runs)}


def _dropped(runs: Sequence[Record]) -> dict[str, int]:
    total: dict[str, int] = {}
    for run in runs:
        for reason, rows in run.rows_dropped.items():
            total[reason] = total.get(reason, 0) + rows
    return total
