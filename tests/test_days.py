"""Many days: backfill, days that are missing, saved days added up, and what is refused."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import KIND
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from results import assert_close, assert_same_bits, tables

import sparkmetrics as sm
from sparkmetrics import cli, job, periods
from sparkmetrics.job import Outcome
from sparkmetrics.ledger import Record
from sparkmetrics.periods import Period

FIRST = date(2026, 11, 1)
DAYS = [FIRST + timedelta(days=number) for number in range(4)]
METRICS = ["roc_auc", "ks", "brier", "prevalence", "recall", "accuracy", "mcc"]
"""One of each kind: that all of them add up is in `test_saved_states.py`."""

SCHEMA = "model string, seg string, y int, p double, guess int, day date"
Run = Callable[..., tuple[int, str]]


def rows_of(day: date) -> list[tuple[Any, ...]]:
    """Predictions of a day: scores of another range each, ties, a segment that some days lack."""
    draw = random.Random(day.toordinal())
    number = (day - FIRST).days
    segments = ["a", "b", None] if number != 1 else ["b"]
    return [
        (
            draw.choice(["m1", "m2"]),
            draw.choice(segments),
            int(draw.random() < 0.4),
            round(min(1.0, draw.random() * (0.4 + 0.2 * number)), draw.choice([1, 15])),
            draw.randrange(2),
            day,
        )
        for _ in range(150)
    ]


def config(folder: Path, **changes: dict[str, Any]) -> str:
    content: dict[str, Any] = {
        "predictions": {"path": str(folder / "predictions"), "filter": "day = DATE'{run_date}'"},
        "columns": {"by": ["model"], "segments": ["seg"], "label": "y", "score": "p", "prediction": "guess"},
        "evaluate": {"thresholds": [0.3], "metrics": METRICS},
        "output": {"path": str(folder / "results"), "atomic": KIND != "connect", "tables": ["metrics", "confusion"]},
    }
    for section, keys in changes.items():
        content[section] = {**content.get(section, {}), **keys}
    path = folder / "job.yaml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return str(path)


@pytest.fixture(scope="module")
def evaluated(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three of the four days, evaluated by one backfill whose third day has no rows."""
    folder = tmp_path_factory.mktemp("days")
    for day in (DAYS[0], DAYS[1], DAYS[3]):
        spark.createDataFrame(rows_of(day), SCHEMA).coalesce(1).write.mode("append").parquet(
            str(folder / "predictions")
        )
    code = cli.main(["evaluate", "--config", config(folder), "--from", str(DAYS[0]), "--to", str(DAYS[3])])
    assert code == cli.BAD_INPUT
    return folder


@pytest.fixture
def run(evaluated: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Run:
    """Runs a command in a copy of the evaluated days; gives its exit code and what it printed."""
    shutil.copytree(evaluated, tmp_path, dirs_exist_ok=True)

    def command(*words: str, **changes: dict[str, Any]) -> tuple[int, str]:
        capfd.readouterr()
        code = cli.main([words[0], "--config", config(tmp_path, **changes), *words[1:]])
        printed = capfd.readouterr()
        return code, printed.out + printed.err

    return command


def lines(printed: str) -> dict[str, str]:
    """What was said of each day."""
    said = (line.partition(" ") for line in printed.splitlines() if line.startswith("2026-"))
    return {day: rest for day, _, rest in said}


def test_a_day_that_fails_does_not_stop_the_others(spark: SparkSession, evaluated: Path) -> None:
    done = spark.read.parquet(f"{evaluated}/results/runs").where("status = 'done'")
    assert sorted(str(row[0]) for row in done.select("run_date").collect()) == [str(DAYS[i]) for i in (0, 1, 3)]


def test_only_missing_days_are_run_and_those_whose_input_changed(spark: SparkSession, run: Run, tmp_path: Path) -> None:
    """The input of a folder is known by its rows and newest file: the folders here are one day each."""
    shutil.rmtree(tmp_path / "predictions")
    days = DAYS[1:3]
    for day in days:
        frame = spark.createDataFrame(rows_of(day), SCHEMA)
        frame.coalesce(1).write.parquet(str(tmp_path / "predictions" / f"of={day}"))
    done, missing = map(str, days)
    changes: dict[str, dict[str, Any]] = {
        "predictions": {"path": str(tmp_path / "predictions" / "of={run_date}"), "filter": None},
        "columns": {"prediction": None},
        "evaluate": {"levels": [[]]},
    }
    period = ["--from", done, "--to", missing, "--only-missing"]
    code, said = run("evaluate", *period, **changes)
    assert code == cli.DONE
    assert {day: what.split(":")[0] for day, what in lines(said).items()} == {done: "done", missing: "done"}
    assert "(it was missing)" in lines(said)[missing]
    assert "(its input changed)" in lines(said)[done]
    # A day is corrected in place: as many rows, another file.
    (file,) = (tmp_path / "predictions" / f"of={done}").glob("*.parquet")
    os.utime(file, (2_000_000_000, 2_000_000_000))
    code, said = run("evaluate", *period, **changes)
    assert code == cli.DONE
    assert {day for day, what in lines(said).items() if what.startswith("skipped")} == {missing}
    assert "(its input changed)" in lines(said)[done]
    # They ran long after their days: mature. A day that is not over yet never is.
    code, said = run("evaluate", *period, "--mature-after", "3d", **changes)
    assert {what.split(":")[0] for what in lines(said).values()} == {"skipped"}
    ahead = (date.today() - days[1]).days + 2
    of_one = ["--from", missing, "--to", missing, "--only-missing", "--mature-after", f"{ahead}d"]
    code, said = run("evaluate", *of_one, **changes)
    assert "(its labels were young)" in lines(said)[missing]


def test_only_missing_runs_days_that_a_stopped_run_left_mixed(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table that is not there, or is of another run; but saved counts may have been removed."""
    metrics = tmp_path / "results" / "metrics"
    shutil.rmtree(metrics / f"run_date={DAYS[0]}")
    shutil.rmtree(metrics / f"run_date={DAYS[1]}")
    shutil.copytree(metrics / f"run_date={DAYS[3]}", metrics / f"run_date={DAYS[1]}")
    shutil.rmtree(tmp_path / "results" / "score_counts" / f"run_date={DAYS[3]}")
    done = Outcome(Record.begin(DAYS[0], "", {}))
    monkeypatch.setattr(job, "evaluate_day", lambda *_: done)
    _, said = run("evaluate", "--from", str(DAYS[0]), "--to", str(DAYS[3]), "--only-missing")
    why = [lines(said)[str(day)].rpartition("(")[2] for day in DAYS]
    assert why[:3] == ["another run was stopped)", "another run was stopped)", "it was missing)"]
    assert lines(said)[str(DAYS[3])].startswith("skipped")


def test_the_sum_of_days_is_the_union_of_their_rows(spark: SparkSession, run: Run, tmp_path: Path) -> None:
    code, _ = run("merge", "--from", str(DAYS[0]), "--to", str(DAYS[1]))
    assert code == cli.DONE
    rows = [row for day in DAYS[:2] for row in rows_of(day)]
    union = spark.createDataFrame(rows, SCHEMA)
    columns: dict[str, Any] = {"by": ["model"], "segments": ["seg"], "label": "y", "score": "p", "prediction": "guess"}
    ev = sm.evaluate(union, **columns, thresholds=[0.3], metrics=METRICS)
    where = f"{tmp_path}/results/periods/{DAYS[0]}_{DAYS[1]}"
    expected = tables(ev, ("metrics", "confusion"))
    for name, table in expected.items():
        merged = sm.read_results(spark, where, name, DAYS[1]).drop("run_id").toArrow()
        keys = [(key, "ascending") for key in table.column_names]
        # DeLong's intervals are the same to 1e-12, all else bit for bit.
        loose = [column for column in ("lower", "upper") if column in table.column_names]
        sides = [side.sort_by(keys).combine_chunks() for side in (merged, table)]
        assert_same_bits(*({name: side.drop_columns(loose)} for side in sides))
        assert_close(*({name: side} for side in sides), relative=frozenset())
    ledger = spark.read.parquet(f"{where}/runs").collect()
    assert [(row["rows_read"], row["rows_used"], sorted(row["tables"])) for row in ledger] == [
        (300, 300, ["confusion", "metrics"])
    ]
    # The day itself is as it was.
    (day,) = sm.read_results(spark, f"{tmp_path}/results", "metrics", DAYS[1]).select(F.max("rows")).collect()
    assert day[0] < 150


def test_periods_by_their_month_and_their_end(run: Run) -> None:
    assert Period.ending(date(2026, 3, 1), 3) == Period(date(2026, 2, 27), date(2026, 3, 1))
    assert Period.month(2028, 2) == Period(date(2028, 2, 1), date(2028, 2, 29))
    code, said = run("merge", "--month", "2026-02")
    assert code == cli.BAD_INPUT
    assert "No saved counts of 2026-02-01, 2026-02-02" in said
    code, said = run("merge", "--last", "2", "--run-date", "2026-03-01")
    assert code == cli.BAD_INPUT
    assert "No saved counts of 2026-02-28, 2026-03-01 in" in said


def test_missing_days_are_named(spark: SparkSession, run: Run, tmp_path: Path) -> None:
    code, said = run("merge", "--month", "2026-11")
    assert code == cli.BAD_INPUT
    assert f"No saved counts of {DAYS[2]}, 2026-11-05" in said
    assert "--allow-missing" in said
    code, said = run("merge", "--last", "30", "--run-date", "2026-10-31", "--allow-missing")
    assert code == cli.BAD_INPUT
    code, said = run(
        "merge", "--last", "4", "--run-date", str(DAYS[3]), "--allow-missing", "--output", str(tmp_path / "sum")
    )
    assert code == cli.DONE
    ledger = spark.read.parquet(f"{tmp_path}/sum/runs").first()
    assert ledger is not None
    assert ledger["rows_used"] == 450


def test_days_whose_counts_were_removed_are_missing(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(periods, "PAUSE", 0.0)
    shutil.rmtree(tmp_path / "results" / "score_counts" / f"run_date={DAYS[0]}")
    code, said = run("merge", "--from", str(DAYS[0]), "--to", str(DAYS[1]))
    assert code == cli.BAD_INPUT
    assert f"No saved counts of {DAYS[0]} in" in said
    code, said = run("merge", "--from", str(DAYS[0]), "--to", str(DAYS[1]), "--output", str(tmp_path / "results"))
    assert code == cli.BAD_INPUT
    assert "would replace those of its last day" in said
    for other in (f"{tmp_path}/./results/", f"file:{tmp_path}/results", f"{tmp_path}/results/metrics"):
        code, said = run("merge", "--from", str(DAYS[1]), "--to", str(DAYS[1]), "--output", other)
        assert code == cli.BAD_INPUT
        assert "would replace those of its last day" in said
    code, said = run("merge", "--last", "999999", "--run-date", str(DAYS[0]))
    assert code == cli.BAD_INPUT
    assert "There are no 999999 days before" in said


def test_days_whose_counts_are_replaced_while_they_are_added_up(
    spark: SparkSession, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a run that is not in the ledger yet. Where frames are planned anew, they hold nothing of that day."""
    counts = str(tmp_path / "results" / "class_cells" / f"run_date={DAYS[0]}")
    write_day = job.write_day

    def meanwhile(*arguments: Any) -> Outcome:
        *others, unchanged = arguments

        def replaced() -> None:
            spark.read.parquet(counts).withColumn("run_id", F.lit("other")).write.parquet(f"{tmp_path}/other")
            shutil.rmtree(counts)
            shutil.move(f"{tmp_path}/other", counts)
            unchanged()

        return write_day(*others, replaced)

    monkeypatch.setattr(job, "write_day", meanwhile)
    code, said = run("merge", "--from", str(DAYS[0]), "--to", str(DAYS[1]))
    assert code == cli.BAD_INPUT
    assert f"{DAYS[0]} is not what its last finished run" in said
    assert "0 of them of that run" in said
    with pytest.raises(sm.DataError, match="No finished run"):
        sm.read_results(spark, f"{tmp_path}/results/periods/{DAYS[0]}_{DAYS[1]}", "metrics", DAYS[1])


def test_a_sum_among_the_predictions_is_refused(run: Run, tmp_path: Path) -> None:
    among = str(tmp_path / "predictions" / "sum")
    code, said = run("merge", "--month", "2026-11", "--allow-missing", "--output", among)
    assert code == cli.BAD_INPUT
    assert f"--output '{among}' and predictions.path" in said
    assert not Path(among).exists()


def test_days_that_do_not_fit_are_refused_with_the_difference(run: Run, tmp_path: Path) -> None:
    code, _ = run("evaluate", "--run-date", str(DAYS[1]), columns={"positive": 0}, evaluate={"levels": [[]]})
    assert code == cli.DONE
    code, said = run("merge", "--from", str(DAYS[0]), "--to", str(DAYS[1]))
    assert code == cli.BAD_INPUT
    assert "positive" in said
    assert str(DAYS[0]) in said
    assert "Traceback" not in said
    assert not (tmp_path / "results" / "periods").exists()


def test_gates_judge_what_was_written_and_end_with_3(spark: SparkSession, run: Run, tmp_path: Path) -> None:
    """Against a bound and against another day; a day of too few rows is not judged. Results are there all the same."""
    gates: Any = [
        {"name": "auc", "metric": "roc_auc", "min": 0.999},
        {"name": "as before", "metric": "prevalence", "threshold": 0.3, "days_ago": 1, "min_ratio": 0.01},
        {"name": "many rows", "metric": "roc_auc", "max": 0.001, "min_rows": 10_000},
    ]
    path = config(tmp_path)
    Path(path).write_text(yaml.safe_dump({**yaml.safe_load(Path(path).read_text()), "gates": gates}), encoding="utf-8")
    words = ["evaluate", "--config", path, "--run-date", str(DAYS[1])]
    assert cli.main(words) == cli.GATE_FAILED
    found = sm.read_results(spark, f"{tmp_path}/results", "gates", DAYS[1])
    statuses = {(row["gate"], row["status"]) for row in found.select("gate", "status").collect()}
    assert statuses == {("auc", "failed"), ("as before", "passed"), ("many rows", "not judged")}
    assert found.columns[-1] == "run_id"
    assert sm.read_results(spark, f"{tmp_path}/results", "metrics", DAYS[1]).count() > 0


WRONG = {
    "evaluate --from 2026-11-01": "--from and --to go together",
    "evaluate --only-missing": "--only-missing is of many days",
    "evaluate --from 2026-11-01 --to 2026-11-02 --mature-after 3d": "give --only-missing",
    "evaluate --from 2026-11-01 --to 2026-11-02 --only-missing --mature-after 3": "'3' is not a number of days like 3d",
    "evaluate --from 2026-11-01 --to 2026-11-02 --run-date 2026-11-02": "give --run-date, or --from and --to",
    "merge --month 2026-11 --run-date 2026-11-02": "--run-date is the last day of --last",
    "merge": "give one of --from and --to, --last, --month",
    "merge --last 3 --month 2026-11": "give one of",
    "merge --month 2026-13": "'2026-13' is not a month",
    "merge --last 0": "is not a number from 1",
    "merge --to 2026-11-01": "--from and --to go together",
    "merge --last 3 --output a --output-prefix b": "give --output or --output-prefix",
}


@pytest.mark.parametrize("words", WRONG)
def test_words_that_do_not_go_together_are_refused(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    command, *others = words.split()
    with pytest.raises(SystemExit) as stop:
        cli.main([command, "--config", "none.yaml", *others])
    assert stop.value.code == cli.BAD_INPUT
    assert WRONG[words] in capsys.readouterr().err


@pytest.mark.parametrize("command", ["evaluate", "merge"])
def test_periods_that_are_none(command: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = [command, "--config", config(tmp_path), "--from"]
    assert cli.main([*words, "2026-11-02", "--to", "2026-11-01"]) == cli.BAD_INPUT
    assert "ends on 2026-11-01, before it begins" in capsys.readouterr().err
    assert cli.main([*words, "0001-01-01", "--to", "9999-12-31"]) == cli.BAD_INPUT
    assert "0001-01-01 to 9999-12-31 is of more than 36500 days" in capsys.readouterr().err
    if command == "evaluate":
        assert cli.main([*words, "2026-11-02", "--to", "2026-11-01", "--dry-run"]) == cli.BAD_INPUT
