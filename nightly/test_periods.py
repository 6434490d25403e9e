"""Days that were saved one by one, and added up: the numbers of the union of their rows."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import predictions
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import results
import yaml
from children import run
from environments import Environment

import jobs

DAYS = [date.fromisoformat(predictions.DAY) - timedelta(days=back) for back in reversed(range(30))]
ROWS = 2000
"""Of a day."""

WEIGHTED = {**predictions.PLAIN["columns"], "weight": "weight"}
PERIODS: dict[str, tuple[dict[str, Any], float]] = {
    "scores": (predictions.PLAIN, 0.0),
    "weighted": ({"columns": WEIGHTED}, 1e-12),
    "classes": (predictions.JOBS["classes"], 0.0),
}
"""Jobs, and the relative tolerance of their numbers."""


@pytest.fixture(scope="module")
def days(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Predictions of thirty days whose scores drift and have more decimals on some days; a day lacks a country."""
    folder = tmp_path_factory.mktemp("days") / "predictions"
    for number, day in enumerate(DAYS):
        random = np.random.default_rng(number)
        table = predictions.make(seed=number).slice(0, ROWS)
        score = table["score"].to_numpy() * (0.5 + number / 60) + (random.random(ROWS) / 1e4) * (number % 3 == 0)
        table = table.set_column(table.column_names.index("score"), "score", pa.array(score))
        table = table.append_column("weight", pa.array(random.choice([0.0, 0.1, 1.0, 2.5, 1e6], ROWS)))
        if number == 7:
            table = table.filter(pc.is_valid(table["country"]))
        target = folder / f"event_date={day}"
        target.mkdir(parents=True)
        pq.write_table(table, target / "part-0.parquet")
    return folder


@pytest.mark.parametrize("name", PERIODS)
def test_thirty_days_added_up_are_their_union(name: str, installed: Environment, days: Path, tmp_path: Path) -> None:
    content, tolerance = PERIODS[name]
    variables = jobs.described(tmp_path / "spark", installed, installed, "local[2]", {})
    first, last = str(DAYS[0]), str(DAYS[-1])
    one_day, all_days = "event_date = DATE'{run_date}'", f"event_date BETWEEN DATE'{first}' AND DATE'{last}'"

    def sparkmetrics(command: str, filter: str, output: dict[str, Any], *words: str | Path) -> None:
        config = {**content, "predictions": {"path": str(days), "filter": filter}, "output": output}
        path = tmp_path / f"{command}.yaml"
        path.write_text(yaml.safe_dump(config), encoding="utf-8")
        program = [installed.python, "-m", "sparkmetrics.cli", command, "--config", path, *words]
        run(program, variables, tmp_path / f"process-{command}-{len(list(tmp_path.iterdir()))}", 1200)

    saved = {"path": str(tmp_path / "days")}
    sparkmetrics("evaluate", one_day, {**saved, "tables": ["metrics"]}, "--from", first, "--to", last)
    sparkmetrics("merge", one_day, saved, "--from", first, "--to", last, "--output", tmp_path / "merged" / name)
    sparkmetrics("evaluate", all_days, {"path": str(tmp_path / "union" / name)}, "--run-date", last)
    union = results.read_job(tmp_path / "union", name)
    assert max(union["metrics"]["rows"].to_pylist()) > 20 * ROWS / 2  # of two models
    results.assert_same(results.read_job(tmp_path / "merged", name), union, tolerance)
