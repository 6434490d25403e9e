"""make bench: contenders in turn on the same files, each run in its own process; medians, ratios and peak memory.

Without arguments it runs PRESET. Before a contender's time counts, its values must equal those of the others to 1e-12.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from benchmarks.check import Checker, ValuesDifferError
from benchmarks.contenders import CONTENDERS
from benchmarks.contenders.base import CORES, Contender
from benchmarks.data_sets import DATA_SETS, DataSet
from benchmarks.generate import generate
from benchmarks.report import PEER, Record, report

ROWS = 10_000_000
SHORT = ("sparkmetrics (AUC, AP, KS)", "scikit-learn")
DAYS = ("re-read 30 days", "state of days: add and evaluate")
PRESET: dict[str, tuple[str, ...]] = {
    "skewed": tuple(name for name in CONTENDERS if name not in DAYS),
    "one_group": SHORT,
    "half_equal": SHORT,
    "three_decimals": SHORT,
    "narrow_logits": SHORT,
    "tiny_segments": SHORT,
    "many_models": SHORT,
    "weighted": SHORT,
    "days": DAYS,
    "days_three_decimals": DAYS,
}
"""What `make bench` runs, in this order."""

ROWS_OF_PARTITION = 6_250_000
LEAST_PARTITIONS = 8


def partitions(rows: int) -> int:
    """Shuffle partitions of the session: 8, and 16 of 100,000,000 rows."""
    return max(LEAST_PARTITIONS, rows // ROWS_OF_PARTITION)


def main() -> None:
    options = parsed()
    options.results.parent.mkdir(parents=True, exist_ok=True)
    records: list[Record] = []
    for name in options.data_sets:
        records += run_data_set(DATA_SETS[name], options.contenders or PRESET[name], options)
        options.results.with_suffix(".md").write_text(report(records, options.peer) + "\n", encoding="utf-8")
    print(report(records, options.peer))
    print(f"\nRaw results: {options.results}", file=sys.stderr)
    sys.exit(any(record.get("failed") for record in records))


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.run", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data-set", nargs="+", choices=[*DATA_SETS, "all"], default=["all"], metavar="NAME")
    parser.add_argument("--contenders", nargs="+", choices=CONTENDERS, metavar="NAME", help="default: those of PRESET")
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--runs", type=int, default=5, help="processes per contender (default: %(default)s)")
    parser.add_argument("--warm", type=int, default=1, help="calls in each process after the cold one (%(default)s)")
    parser.add_argument("--heap", default="6g", help="of the JVM (default: %(default)s)")
    parser.add_argument("--partitions", type=int, help="shuffle partitions (default: by rows, at least 8)")
    parser.add_argument("--timeout", type=float, default=1200, help="seconds a process may take (%(default)s)")
    parser.add_argument("--data", type=Path, default=Path("benchmarks/data"), help="where data sets are made")
    parser.add_argument("--results", type=Path, help="raw results, a new .jsonl; the table goes beside it as .md")
    parser.add_argument("--peer", default=PEER, help="the contender that ratios are to (default: %(default)s)")
    parser.add_argument("--list", action="store_true", help="say which data sets and contenders there are")
    options = parser.parse_args()
    if options.list:
        print("\n".join(f"data set   {name}: {found.what}" for name, found in DATA_SETS.items()))
        print("\n".join(f"contender  {name}: {found.computes}" for name, found in CONTENDERS.items()))
        sys.exit()
    options.data_sets = list(PRESET) if "all" in options.data_set else list(dict.fromkeys(options.data_set))
    options.results = options.results or Path("benchmarks/results") / time.strftime("%Y-%m-%d-%H%M%S.jsonl")
    return options


def run_data_set(data_set: DataSet, names: Sequence[str], options: argparse.Namespace) -> list[Record]:
    """All runs of one data set: each round has one process of each contender. Makes the data where they are missing."""
    folder = data_set.folder(options.data, options.rows)
    if not folder.exists():
        say(f"{data_set.name}: making {options.rows:,} rows")
        made_of = data_set.shared_folder or data_set.name
        generate(options.rows, folder, data_set=made_of, processes=os.cpu_count() or 1)
    running = [CONTENDERS[name] for name in names if CONTENDERS[name].fits(data_set)]
    for contender in running:
        if contender.prepare:
            say(f"{data_set.name}: preparing {contender.name}")
            with scratch_folder(options.data) as scratch:
                _, problem = finished(
                    [*command(contender, data_set, folder, Path(scratch), options), "--prepare"], None
                )
            if problem:
                raise SystemExit(f"{contender.name} cannot be prepared: {problem['failed']}")
    checker, records = Checker(), []
    for number in range(1, options.runs + 1):
        for contender in list(running):
            record = run_process(contender, data_set, folder, checker, options)
            records.append(record)
            with options.results.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")
            say(f"{data_set.name}, round {number}: {contender.name}: {outcome(record)}")
            if record.get("failed") or record.get("timeout"):
                running.remove(contender)  # it would do so again
    return records


def run_process(
    contender: Contender, data_set: DataSet, folder: Path, checker: Checker, options: argparse.Namespace
) -> Record:
    """One process: its record, with `failed` where it or its values are wrong, `timeout` where it took too long."""
    record: Record = {
        "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "data_set": data_set.name,
        "what": data_set.what,
        "rows": options.rows,
        "contender": contender.name,
        "computes": contender.computes,
        "groups": contender.groups,
        "cores": CORES,
        "heap": options.heap,
        "partitions": options.partitions or partitions(options.rows),
    }
    with scratch_folder(options.data) as scratch:
        events, problem = finished(command(contender, data_set, folder, Path(scratch), options), options.timeout)
        seconds = [event["seconds"] for event in events if "seconds" in event]
        record |= {"cold": seconds[0] if seconds else None, "warm": seconds[1:]}
        for event in events:
            record |= {name: event[name] for name in ("memory", "versions") if name in event}
        record |= problem
        try:
            for call in range(len(seconds)):
                found = pq.read_table(Path(scratch) / f"call-{call}.parquet")
                values = dict(zip(found["key"].to_pylist(), found["value"].to_pylist(), strict=True))
                checker.check(contender.name, values, sample=contender.groups is not None)
                record["values"] = len(values)
        except ValuesDifferError as error:
            record["differs"] = True
            record["failed"] = f"values differ, so that its times do not count: {error}"
    return record


def finished(arguments: Sequence[str], timeout: float | None) -> tuple[list[dict[str, Any]], Record]:
    """What a process said, and how it failed. It and all that it started are gone afterwards."""
    problem: Record = {}
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True)
        try:
            said, _ = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            problem["timeout"] = timeout
            said = stopped(process)
        except BaseException:
            stopped(process)
            raise
        if process.returncode and not problem:
            log.seek(0)
            lines = [line.strip() for line in log if line.strip()]
            problem["failed"] = f"exit code {process.returncode}: {lines[-1] if lines else 'no message'}"[:500]
    return [json.loads(line) for line in said.splitlines() if line.startswith("{") and line.endswith("}")], problem


def stopped(process: subprocess.Popen[str]) -> str:
    """Ends a process and its children; what it had said."""
    os.killpg(process.pid, signal.SIGKILL)  # its workers end with their JVM
    said, _ = process.communicate()
    return said


def command(
    contender: Contender, data_set: DataSet, folder: Path, scratch: Path, options: argparse.Namespace
) -> list[str]:
    arguments = {
        "--contender": contender.name,
        "--data-set": data_set.name,
        "--folder": folder,
        "--scratch": scratch,
        "--warm": options.warm,
        "--heap": options.heap,
        "--partitions": options.partitions or partitions(options.rows),
    }
    found = [sys.executable, "-m", "benchmarks.measure"]
    for name, value in arguments.items():
        found += [name, str(value)]
    return found


class scratch_folder(tempfile.TemporaryDirectory):  # noqa: N801 - used like a function
    """A folder beside the data for what one process writes, which is gone afterwards."""

    def __init__(self, data: Path) -> None:
        super().__init__(prefix="scratch-", dir=data.resolve(), ignore_cleanup_errors=True)


def outcome(record: Record) -> str:
    if record.get("failed"):
        return str(record["failed"])
    times = " ".join(f"{seconds:.1f}" for seconds in ([record["cold"]] if record["cold"] else []) + record["warm"])
    return f"{times} s" + (f", stopped after {record['timeout']:g} s" if record.get("timeout") else "")


def say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
