"""make bench: ours and a peer on the same files, each run in its own process, medians, ratios and peak memory.

Contenders:
  sparkmetrics   AUC, AP, KS, log loss, Brier, confusion at 3 thresholds, 1000-point curves of segments and totals
  + pairs        the same and the pair matrix of the segments
  scikit-learn   AUC, AP and KS alone, in groupBy().applyInPandas: segments, then totals
Before any time counts, their AUC, AP and KS must agree to 1e-12.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from benchmarks.generate import generate

CONTENDERS = ("sparkmetrics", "sparkmetrics + pairs", "scikit-learn")
METRICS = ("roc_auc", "average_precision", "ks")


def main() -> None:
    """Makes the data where it is missing, runs each contender in turn, prints a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--data", type=Path, default=Path("benchmarks/data"))
    parser.add_argument("--runs", type=int, default=3, help="processes per contender")
    parser.add_argument("--warm", type=int, default=2, help="warm repeats in each process, after a cold one")
    parser.add_argument("--one", choices=CONTENDERS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    folder = options.data / f"skewed-{options.rows}"
    if options.one:
        print(json.dumps(measure(options.one, folder, options.warm)))
        return
    if not folder.exists():
        generate(options.rows, folder)
    found: dict[str, list[dict]] = {name: [] for name in CONTENDERS}
    for _ in range(options.runs):
        for name in CONTENDERS:
            arguments = ["--rows", str(options.rows), "--data", str(options.data), "--warm", str(options.warm)]
            command = [sys.executable, "-m", "benchmarks.run", *arguments, "--one", name]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            found[name].append(json.loads(done.stdout.strip().splitlines()[-1]))
    check(found)
    print(report(found, options.rows))


def measure(name: str, folder: Path, warm: int) -> dict:
    """Runs one contender in this process: seconds cold and warm, peak memory, and its values."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    from sparkmetrics import session

    session.ensure_java()
    with tempfile.TemporaryDirectory() as scratch:
        spark = (
            SparkSession.builder.master("local[2]")
            .config("spark.driver.memory", "6g")
            .config("spark.local.dir", scratch)
            .config("spark.sql.shuffle.partitions", "8")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .getOrCreate()
        )
        run = scikit_learn if name == "scikit-learn" else ours
        with PeakMemory() as peak:
            seconds = []
            for _ in range(1 + warm):
                begin = time.perf_counter()
                values = run(spark.read.parquet(str(folder)), pairs=name.endswith("pairs"))
                seconds.append(time.perf_counter() - begin)
        spark.stop()
    return {"cold": seconds[0], "warm": seconds[1:], "memory": peak.megabytes, "values": values}


def ours(frame, pairs: bool) -> dict[str, float]:
    """All tables, written nowhere but computed whole; the values of the compared metrics."""
    import sparkmetrics as sm

    ev = sm.evaluate(
        frame, by=["model"], segments=["segment"], label="label", score="score", thresholds=[0.1, 0.5, 0.9]
    )
    ev.share(pairs=pairs)
    rows = ev.metrics().where(f"metric in {METRICS}").select("model", "segment", "metric", "value").collect()
    for table in (ev.confusion(), ev.curves(), *([ev.segment_auc()] if pairs else [])):
        table.write.format("noop").mode("overwrite").save()
    ev.unpersist()
    return {f"{row.model}/{row.segment}/{row.metric}": row.value for row in rows}


def scikit_learn(frame, pairs: bool) -> dict[str, float]:
    """What people write today: one pandas function a group, for segments and then for totals."""
    import pandas as pd
    from sklearn.metrics import average_precision_score, roc_auc_score, roc_curve

    def evaluate(keys, group):
        fpr, tpr, _ = roc_curve(group.label, group.score, drop_intermediate=False)
        values = (
            roc_auc_score(group.label, group.score),
            average_precision_score(group.label, group.score),
            (tpr - fpr).__abs__().max(),
        )
        segment = keys[1] if len(keys) > 1 else None
        return pd.DataFrame([[keys[0], segment, *values]])

    schema = "model string, segment string, " + ", ".join(f"{name} double" for name in METRICS)
    narrow = frame.select("model", "segment", "label", "score")
    rows = [
        row
        for keys in (["model", "segment"], ["model"])
        for row in narrow.groupBy(*keys).applyInPandas(evaluate, schema).collect()
    ]
    return {f"{row.model}/{row.segment}/{name}": row[name] for row in rows for name in METRICS}


class PeakMemory:
    """Samples the memory of this process's JVM and Python workers while a block runs."""

    def __enter__(self) -> PeakMemory:
        self.megabytes = {"JVM": 0, "Python workers": 0, "largest worker": 0}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(0.1):
            jvm, workers = 0, [0]
            for pid in _descendants(os.getpid()):
                try:
                    name = Path(f"/proc/{pid}/comm").read_text().strip()
                    # Pages that workers share with the process they were forked from count once a worker: PSS does not.
                    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
                except OSError:
                    continue
                pss = next((int(line.split()[1]) // 1024 for line in rollup.splitlines() if line.startswith("Pss:")), 0)
                if name == "java":
                    jvm += pss
                else:
                    workers.append(pss)
            for key, value in (("JVM", jvm), ("Python workers", sum(workers)), ("largest worker", max(workers))):
                self.megabytes[key] = max(self.megabytes[key], value)


def _descendants(pid: int) -> list[int]:
    """Processes below one, from /proc (Linux)."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except (OSError, IndexError):
                continue
            children.setdefault(parent, []).append(int(entry.name))
    found, waiting = [], [pid]
    while waiting:
        for child in children.get(waiting.pop(), []):
            found.append(child)
            waiting.append(child)
    return found


def check(found: dict[str, list[dict]]) -> None:
    """Raises unless all contenders found the same values."""
    expected = found["scikit-learn"][0]["values"]
    for name, runs in found.items():
        for run in runs:
            assert run["values"].keys() == expected.keys(), f"{name}: other groups"
            worst = max(abs(run["values"][key] - value) for key, value in expected.items())
            assert worst <= 1e-12, f"{name}: differs by {worst}"


def report(found: dict[str, list[dict]], rows: int) -> str:
    """A Markdown table of medians, and ratios to scikit-learn."""
    peer = statistics.median(second for run in found["scikit-learn"] for second in run["warm"])
    lines = [
        f"{rows:,} rows, 4 models x 50 segments, local[2]; medians of {len(found['scikit-learn'])} processes",
        "",
        "| contender | cold s | warm s | warm / scikit-learn | JVM MB | Python workers MB | largest worker MB |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, runs in found.items():
        cold = statistics.median(run["cold"] for run in runs)
        warm = statistics.median(second for run in runs for second in run["warm"])
        memory = [max(run["memory"][key] for run in runs) for key in ("JVM", "Python workers", "largest worker")]
        lines.append(f"| {name} | {cold:.1f} | {warm:.1f} | {warm / peer:.2f} | {' | '.join(map(str, memory))} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
