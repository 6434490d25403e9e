"""The job's face: commands, log lines, exit codes. `sparkmetrics evaluate` and `jobs/evaluate.py` both come here."""

from __future__ import annotations

import argparse
import json
import logging
import re
import sys
from collections.abc import Sequence
from datetime import date, datetime, timedelta, timezone

from sparkmetrics import __version__, config, job, periods, session
from sparkmetrics.dry_run import described
from sparkmetrics.errors import SparkMetricsError
from sparkmetrics.job import Outcome
from sparkmetrics.periods import BAD_INPUT as BAD_INPUT_ERRORS
from sparkmetrics.periods import Period
from sparkmetrics.progress import Progress
from sparkmetrics.show import shown
from sparkmetrics.tables import FORMATS, TABLES

DONE, FAILED, BAD_INPUT, GATE_FAILED = 0, 1, 2, 3
"""Exit codes: done; an unexpected failure; bad config or bad data, with one clear message; a quality gate failed."""

log = logging.getLogger("sparkmetrics")

CHATTY = ("py4j", "pyspark", "SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""Loggers of Spark's Python side."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command.

    Parameters
    ----------
    arguments : the words behind the program's name; None takes those of the process.

    Returns
    -------
    The exit code.
    """
    parser = _parser()
    options = parser.parse_args(arguments)
    if wrong := options.check(options):
        parser.error(wrong)
    progress = Progress()
    _log_to_stderr(options.log_format, progress)
    try:
        code: int = options.run(options, progress)
        return code
    except BAD_INPUT_ERRORS as error:
        _say(str(error), options)
        return BAD_INPUT
    except SparkMetricsError as error:
        _say(str(error), options)
        return FAILED
    except Exception:
        log.exception("failed")
        return FAILED
    finally:
        progress.end()


def _evaluate(options: argparse.Namespace, progress: Progress) -> int:
    """`evaluate`: a day, or the days of a period."""
    loaded = config.load(options.config)
    period = None if options.first is None else Period(options.first, options.last)
    if options.dry_run:
        print(described(loaded, options.first or _day(options), options.last))
        return DONE
    if period is None:
        return _told(job.evaluate_day(loaded, _day(options), progress), options)
    failures = periods.backfill(
        loaded,
        period,
        only_missing=options.only_missing,
        mature_after=options.mature_after,
        progress=progress,
    )
    if failures.unexpected:
        return FAILED
    return BAD_INPUT if failures.bad_input else GATE_FAILED if failures.gates else DONE


def _merge(options: argparse.Namespace, progress: Progress) -> int:
    """`merge`: the saved counts of a period."""
    loaded = config.load(options.config)
    if options.month is not None:
        period = Period.month(*options.month)
    elif options.days is not None:
        period = Period.ending(_day(options), options.days)
    else:
        period = Period(options.first, options.last)
    output = periods.output_of(loaded.output, period, options.output, options.output_prefix)
    merged = periods.merge(loaded, period, allow_missing=options.allow_missing, output=output, progress=progress)
    return _told(merged, options)


def _show(options: argparse.Namespace, progress: Progress) -> int:
    """`show`: a table of results."""
    said = shown(
        session.get_session(),
        options.results,
        _day(options),
        table=options.table,
        levels=options.level,
        metrics=options.metric,
        rows=options.rows,
        table_prefix=options.table_prefix,
        format=options.format,
    )
    print(said)
    return DONE


def _told(outcome: Outcome, options: argparse.Namespace) -> int:
    """Says which gates failed; the exit code."""
    for line in outcome.told:
        _say(f"gate failed: {line}", options)
    if outcome.failed > len(outcome.told):
        _say(f"{outcome.failed - len(outcome.told)} more failed: see the table gates", options)
    return GATE_FAILED if outcome.failed else DONE


def _say(message: str, options: argparse.Namespace) -> None:
    """Says on stderr what a person is to know: a line with the program's name, or one of a log that is JSON."""
    if options.log_format == "json":
        log.error("%s", message)
    else:
        print(f"sparkmetrics: {message}", file=sys.stderr)


class _ClearsProgress(logging.StreamHandler):  # type: ignore[type-arg]  # generic to the type checker alone
    """Log lines to stderr, where the progress line makes room for them."""

    def __init__(self, progress: Progress) -> None:
        super().__init__(sys.stderr)
        self._progress = progress

    def emit(self, record: logging.LogRecord) -> None:
        self._progress.clear()
        super().emit(record)


class _JsonLines(logging.Formatter):
    """One JSON object a line: time, level, message, and the trace of an exception."""

    def format(self, record: logging.LogRecord) -> str:
        said = {
            "time": datetime.fromtimestamp(record.created, timezone.utc).isoformat(),
            "level": record.levelname,
            "message": record.getMessage(),
        }
        if record.exc_info:
            said["exception"] = self.formatException(record.exc_info)
        return json.dumps(said, ensure_ascii=False)


def _log_to_stderr(log_format: str, progress: Progress) -> None:
    handler = _ClearsProgress(progress)
    plain = logging.Formatter("%(asctime)s %(levelname)s %(message)s", datefmt="%H:%M:%S")
    handler.setFormatter(_JsonLines() if log_format == "json" else plain)
    logging.basicConfig(handlers=[handler], level=logging.INFO)
    for chatty in CHATTY:
        # What they log as errors is raised as well, and told once by main.
        logging.getLogger(chatty).setLevel(logging.CRITICAL)
    logging.captureWarnings(True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="sparkmetrics",
        description="Exact evaluation of classifiers on Spark: every segment, every roll-up and the total.",
        epilog="Exit codes: 0 done, 1 unexpected failure, 2 bad config or bad data, 3 a quality gate failed.",
    )
    parser.add_argument("--version", action="version", version=f"sparkmetrics {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_evaluate(commands)
    _add_merge(commands)
    _add_show(commands)
    return parser


Commands = argparse._SubParsersAction  # what add_subparsers returns has no public name


def _add_evaluate(commands: Commands[argparse.ArgumentParser]) -> None:
    command = _command(
        commands,
        "evaluate",
        _evaluate,
        "evaluate one day's predictions, or those of many days, and write the results",
        "Reads the predictions of a config, evaluates them and replaces the tables of the day.",
        "sparkmetrics evaluate --config conf/evaluate.yaml --run-date 2026-11-29\n"
        "  sparkmetrics evaluate --config conf/evaluate.yaml --from 2026-11-01 --to 2026-11-29 --only-missing",
    )
    _add_config(command)
    _add_run_date(command)
    days = command.add_argument_group("many days", "one after the other; a day that fails does not stop the others")
    _add_period(days)
    days.add_argument(
        "--only-missing",
        action="store_true",
        help="leave out days that are done and whole, and whose input is as it was",
    )
    days.add_argument(
        "--mature-after",
        type=_days,
        metavar="Nd",
        help="a day that was run earlier than N days after it began is missing",
    )
    command.add_argument(
        "--dry-run", action="store_true", help="check config and columns, say what would be done, and stop"
    )
    command.set_defaults(check=_check_evaluate)


def _add_merge(commands: Commands[argparse.ArgumentParser]) -> None:
    command = _command(
        commands,
        "merge",
        _merge,
        "evaluate the sum of saved days, without a look at their predictions",
        "Adds up the counts that evaluate saved for the days of a period, and evaluates the sum as the config says.\n"
        "The results go to <output.path>/periods/<first>_<last>/, as those of the period's last day.",
        "sparkmetrics merge --config conf/evaluate.yaml --month 2026-11\n"
        "  sparkmetrics merge --config conf/evaluate.yaml --last 7 --run-date 2026-11-29 --allow-missing",
    )
    _add_config(command)
    _add_run_date(command)
    _add_period(command)
    command.add_argument("--last", dest="days", type=_count, metavar="N", help="the N days up to --run-date")
    command.add_argument("--month", type=_month, metavar="YYYY-MM", help="a calendar month")
    command.add_argument("--allow-missing", action="store_true", help="add up the days that are there")
    command.add_argument("--output", metavar="PATH", help="where the results go instead")
    command.add_argument("--output-prefix", metavar="PREFIX", help="of the catalog tables that the results go to")
    command.set_defaults(check=_check_merge)


def _add_show(commands: Commands[argparse.ArgumentParser]) -> None:
    command = _command(
        commands,
        "show",
        _show,
        "print a table of results",
        "Prints results of a day as its last finished run wrote them.",
        "sparkmetrics show results/ --run-date 2026-11-29 --level total --metric roc_auc --metric ks",
    )
    command.add_argument("results", nargs="?", metavar="PATH", help="output.path of the job")
    command.add_argument("--table-prefix", metavar="PREFIX", help="output.table_prefix of the job, instead of PATH")
    command.add_argument(
        "--format", default="parquet", choices=FORMATS, help="output.format of the job (default: %(default)s)"
    )
    _add_run_date(command)
    command.add_argument(
        "--table", default="metrics", choices=TABLES, metavar="TABLE", help=f"one of {', '.join(TABLES)}"
    )
    command.add_argument("--level", action="append", default=[], help="only this level; may be repeated")
    command.add_argument("--metric", action="append", default=[], help="only this metric; may be repeated")
    command.add_argument("--rows", type=_count, default=100, help="most rows (default: %(default)s)")


def _command(
    commands: Commands[argparse.ArgumentParser], name: str, run: object, help: str, description: str, example: str
) -> argparse.ArgumentParser:
    command: argparse.ArgumentParser = commands.add_parser(
        name,
        help=help,
        description=description,
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.set_defaults(run=run, check=lambda options: None)
    command.add_argument(
        "--log-format", choices=("text", "json"), default="text", help="of the log on stderr (default: %(default)s)"
    )
    return command


def _add_config(command: argparse.ArgumentParser) -> None:
    command.add_argument("--config", required=True, metavar="FILE", help="YAML config")


def _add_run_date(command: argparse.ArgumentParser) -> None:
    command.add_argument("--run-date", type=_date, metavar="YYYY-MM-DD", help="the day (default: today)")


def _day(options: argparse.Namespace) -> date:
    """The day that a command is about."""
    return options.run_date or date.today()


def _add_period(command: argparse._ActionsContainer) -> None:
    command.add_argument("--from", dest="first", type=_date, metavar="YYYY-MM-DD", help="first day of the period")
    command.add_argument("--to", dest="last", type=_date, metavar="YYYY-MM-DD", help="its last day")


def _check_evaluate(options: argparse.Namespace) -> str | None:
    """What is wrong with words that do not go together."""
    if (options.first is None) != (options.last is None):
        return "evaluate: --from and --to go together"
    if options.first is not None and options.run_date is not None:
        return "evaluate: give --run-date, or --from and --to"
    if options.only_missing and options.first is None:
        return "evaluate: --only-missing is of many days: give --from and --to"
    if options.mature_after is not None and not options.only_missing:
        return "evaluate: --mature-after says which days are missing: give --only-missing"
    return None


def _check_merge(options: argparse.Namespace) -> str | None:
    """What is wrong with words that do not go together."""
    if (options.first is None) != (options.last is None):
        return "merge: --from and --to go together"
    if sum(given is not None for given in (options.first, options.days, options.month)) != 1:
        return "merge: give one of --from and --to, --last, --month"
    if options.run_date is not None and options.days is None:
        return "merge: --run-date is the last day of --last"
    if options.output is not None and options.output_prefix is not None:
        return "merge: give --output or --output-prefix"
    return None


def _date(text: str) -> date:
    if (found := _date_of(text)) is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a date like 2026-11-29")
    return found


def _date_of(text: str) -> date | None:
    try:
        return date.fromisoformat(text) if re.fullmatch(r"\d{4}-\d\d-\d\d", text) else None
    except ValueError:
        return None


def _days(text: str) -> timedelta:
    if not (found := re.fullmatch(r"(\d{1,5})d", text)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of days like 3d")
    return timedelta(days=int(found[1]))


def _month(text: str) -> tuple[int, int]:
    if (first := _date_of(f"{text}-01")) is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a month like 2026-11")
    return first.year, first.month


def _count(text: str) -> int:
    if not re.fullmatch(r"[1-9]\d{0,5}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to 999999")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
