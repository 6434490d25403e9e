"""The benchmark: its data stay what they are, its peers are right, its check and its table do what they say."""

from __future__ import annotations

import dataclasses
import json
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks import report
from benchmarks.check import Checker, ValuesDifferError, check
from benchmarks.contenders import CONTENDERS
from benchmarks.contenders.base import Work, keyed
from benchmarks.contenders.scikit_learn import group_values
from benchmarks.data_sets import DATA_SETS, predictions
from benchmarks.generate import generate
from benchmarks.run import DAYS, PRESET, finished, partitions

SKEWED_KEYS = [("m0", "s01", 0), ("m1", "s00", 0), ("m1", "s00", 0)]
SKEWED_SCORES = [0.1239083083585915, 0.5512572906390247, 0.008873691920890402]
SKEWED_WEIGHTS = [1.6270429337159786, 1.1485703091781112, 0.34448175536312664]


@pytest.mark.parametrize("name", DATA_SETS)
def test_a_row_is_a_function_of_its_number(name: str) -> None:
    table = predictions(0, 20_000, 3, name)
    assert table.equals(predictions(0, 20_000, 3, name))
    assert table.slice(12_345, 4_000).equals(predictions(12_345, 16_345, 3, name))
    assert not table.equals(predictions(0, 20_000, 4, name))
    assert predictions(5, 5, 3, name).num_rows == 0


def test_skewed_data_stay_the_same() -> None:
    rows = predictions(0, 3, 0).to_pylist()
    assert [(row["model"], row["segment"], row["label"]) for row in rows] == SKEWED_KEYS
    assert [row["score"] for row in rows] == pytest.approx(SKEWED_SCORES, rel=1e-14)
    assert [row["weight"] for row in rows] == pytest.approx(SKEWED_WEIGHTS, rel=1e-14)


def test_data_sets_are_what_their_names_say() -> None:
    made = {name: predictions(0, 20_000, 0, name).to_pandas() for name in DATA_SETS}
    assert made["one_group"].groupby(["model", "segment"]).ngroups == 1
    assert made["half_equal"].score.eq(0.5).mean() == pytest.approx(0.5, abs=0.02)
    assert made["three_decimals"].score.mul(1000).round().div(1000).equals(made["three_decimals"].score)
    assert made["narrow_logits"].score.between(2.99999, 3.00001).all()
    assert made["days"].score.is_unique
    assert set(made["tiny_segments"].groupby("segment").size()) == {10}
    assert made["tiny_segments"].model.nunique() == 1
    models = predictions(0, 100_000, 0, "many_models").to_pandas()
    assert set(models.groupby("model").size()) == {10_000}
    assert models.segment.nunique() == 5


def test_files_do_not_change_the_data(tmp_path: Path) -> None:
    expected = predictions(0, 3_000, 0)
    for files in (1, 7):
        generate(3_000, tmp_path / str(files), files=files)
        found = sorted((tmp_path / str(files)).glob("*.parquet"))
        assert len(found) == files
        assert pa.concat_tables(pq.ParquetFile(file).read() for file in found).equals(expected)
    with pytest.raises(FileExistsError, match="remove it"):
        generate(10, tmp_path / "7")


def test_days_are_folders(tmp_path: Path) -> None:
    days = DATA_SETS["days"]
    folder = days.folder(tmp_path, 3_000)
    generate(3_000, folder, data_set="days")
    found = [pa.concat_tables(pq.ParquetFile(f).read() for f in Path(path).iterdir()) for path in days.paths(folder)]
    assert [len(day) for day in found] == [100] * 30
    assert pa.concat_tables(found).equals(predictions(0, 3_000, 0, "days"))


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Work:
    """5,000 rows with ties within classes and between them, and a segment of one class."""
    folder = tmp_path_factory.mktemp("predictions")
    table = predictions(0, 5_000, 1)
    frame = table.to_pandas()
    frame["score"] = np.where(frame.index % 3 == 0, frame.score.round(1), frame.score)
    frame.loc[frame.segment == "s07", "label"] = 1
    half = pa.Table.from_pandas(frame, schema=table.schema, preserve_index=False)
    pq.write_table(half.slice(0, 2_000), folder / "part-0.parquet")
    pq.write_table(half.slice(2_000), folder / "part-1.parquet")
    return Work(DATA_SETS["skewed"], folder)


@pytest.mark.parametrize("weight", [None, "weight"])
@pytest.mark.parametrize(("name", "module"), [("Polars", "polars"), ("DuckDB", "duckdb")])
def test_peers_agree_with_scikit_learn(work: Work, name: str, module: str, weight: str | None) -> None:
    pytest.importorskip(module)
    weighted = dataclasses.replace(work, data_set=dataclasses.replace(work.data_set, weight=weight))
    found = keyed(CONTENDERS[name].run(weighted))
    values = dict(zip(found["key"].to_pylist(), found["value"].to_pylist(), strict=True))
    assert not any("/s07/" in key for key in values)
    check({"scikit-learn": by_scikit_learn(work.folder, weight), name: values})


@cache
def by_scikit_learn(folder: Path, weight: str | None) -> dict[str, float]:
    frame, found = pq.read_table(folder).to_pandas(), {}
    for model, of_model in frame.groupby("model"):
        for segment, rows in [(None, of_model), *of_model.groupby("segment")]:
            values = group_values(rows["label"], rows["score"], rows[weight] if weight else None)
            for metric, value in zip(("roc_auc", "average_precision", "ks"), values or (), strict=bool(values)):
                found[f"{model}/{segment}/{metric}"] = value
    return found


def test_values_by_hand() -> None:
    values = group_values(np.array([0, 1, 0, 1]), np.array([0.1, 0.5, 0.5, 0.9]))
    assert values == pytest.approx((0.875, 0.5 + 0.5 * 2 / 3, 0.5), rel=1e-15)
    assert group_values(np.array([1, 1]), np.array([0.1, 0.5])) is None


def test_keys_of_long_and_wide_tables() -> None:
    wide = pa.table({"model": ["m", "m"], "segment": ["s", None], "roc_auc": [0.5, float("nan")], "ks": [0.25, 0.5]})
    assert keyed(wide).to_pydict() == {"key": ["m/s/roc_auc", "m/s/ks", "m/None/ks"], "value": [0.5, 0.25, 0.5]}
    long = pa.table(
        {"model": ["m"] * 3, "segment": [None] * 3, "metric": ["ks", "f1", "brier"], "value": [0.5, 1, None]}
    )
    assert keyed(long).to_pydict() == {"key": ["m/None/ks"], "value": [0.5]}


def test_check_refuses_a_wrong_value() -> None:
    right = {"m/s/ks": 0.5, "m/None/ks": 0.25, "m/s/log_loss": 3.0}
    check({"a": right, "b": {key: value + 1e-13 for key, value in right.items()}, "c": {"m/s/log_loss": 3 + 2e-12}})
    with pytest.raises(ValuesDifferError, match=r"b and a: m/s/ks is 0.500000000002 and 0.5, 2e-12 apart"):
        check({"a": right, "b": right | {"m/s/ks": 0.5 + 2e-12}})
    with pytest.raises(ValuesDifferError, match="1 other groups have ks, as m/None/ks"):
        check({"a": right, "b": {"m/s/ks": 0.5}})
    with pytest.raises(ValuesDifferError, match="no values"):
        check({"a": right, "b": {}})
    with pytest.raises(ValuesDifferError, match="is nan"):
        check({"a": right, "b": right | {"m/s/ks": float("nan")}})


def test_a_sample_of_groups_is_checked_where_it_is() -> None:
    checker = Checker()
    checker.check("a", {"m/s/ks": 0.5, "m/None/ks": 0.25})
    checker.check("b", {"m/s/ks": 0.5}, sample=True)
    with pytest.raises(ValuesDifferError, match="apart"):
        checker.check("b", {"m/s/ks": 0.6}, sample=True)
    with pytest.raises(ValuesDifferError, match="other groups"):
        checker.check("b", {"m/t/ks": 0.5}, sample=True)


def record(contender: str, cold: float | None, warm: list[float], **more: Any) -> dict[str, Any]:
    memory = {"driver": 100, "JVM": 2000, "Python workers": 300, "largest worker": 200}
    common = {"data_set": "skewed", "what": "four models", "rows": 1000, "cores": 2, "heap": "6g", "partitions": 8}
    return common | {
        "contender": contender,
        "computes": "AUC",
        "cold": cold,
        "warm": warm,
        "memory": memory,
        "values": 204,
        "versions": {"python": "3.11"},
        **more,
    }


def cells(table: str) -> dict[str, list[str]]:
    lines = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| ")]
    return {name: rest for name, *rest in lines}


def test_report_of_medians_and_ratios() -> None:
    records = [
        record("ours", 9.0, [3.0, 4.0]),
        record("scikit-learn", 12.0, [10.0]),
        record("ours", 7.0, [5.0, 6.0], memory={"driver": 150, "JVM": 1900}),
        record("scikit-learn", 18.0, [14.0]),
        record("ours", 6.0, []),
        record("loop", 3.0, [2.0], groups=[10, 204]),
    ]
    found = cells(report.report(records))
    assert found["contender"][4:7] == ["warm, least to most", "cold / scikit-learn", "warm / scikit-learn"]
    assert found["ours"] == [
        "AUC",
        "3",
        "7.00",
        "4.50",
        "3.00 to 6.00",
        "0.47",
        "0.38",
        "150",
        "2,000",
        "300",
        "200",
        "204",
    ]
    assert found["scikit-learn"][1:7] == ["2", "15.0", "12.0", "10.0 to 14.0", "1.00", "1.00"]
    assert found["loop, 10 groups scaled to 204"][3] == "40.8"
    assert found["loop, 10 groups scaled to 204"][6] == "3.40"
    assert cells(report.report(records, peer="ours"))["scikit-learn"][5:7] == ["2.14", "2.67"]


def test_report_of_runs_that_did_not_end() -> None:
    records = [
        record("ours", 9.0, [3.0]),
        record("scikit-learn", None, [], timeout=600, memory={}, values=0),
        record("slow", 500.0, [], timeout=600),
        record("wrong", 1.0, [1.0]),
        record("wrong", 1.0, [1.0], failed="values differ", differs=True),
        record("broken", 2.0, [1.0]),
        record("broken", None, [], failed="exit code 1: no memory", values=0),
    ]
    table = report.report(records)
    found = cells(table)
    assert found["contender"][5:7] == ["cold / ours", "warm / ours"]
    assert found["scikit-learn"][2:4] == ["> 600", "-"]
    assert found["slow"][2:4] == ["500.0", "> 600 with cold"]
    assert found["wrong"][2:4] == ["-", "-"]
    assert found["broken"][1:4] == ["1", "2.00", "1.00"]
    assert table.endswith("\n\nwrong: values differ\n\nbroken: exit code 1: no memory")


def test_raw_results_are_read_again(tmp_path: Path) -> None:
    lines = [json.dumps(record("ours", 9.0, [3.0])), json.dumps(record("ours", 8.0, [4.0]))]
    (tmp_path / "results.jsonl").write_text("\n".join([*lines, lines[0][:50]]))  # stopped while it wrote
    assert [found["cold"] for found in report.read(tmp_path / "results.jsonl")] == [9.0, 8.0]


def test_what_a_process_said_counts_however_it_ends() -> None:
    said = "print('{\"seconds\": 1.5}', flush=True); print('noise'); import sys, time; "
    assert finished([sys.executable, "-c", said], 60) == ([{"seconds": 1.5}], {})
    events, problem = finished([sys.executable, "-c", said + "sys.exit('no memory')"], 60)
    assert (events, problem) == ([{"seconds": 1.5}], {"failed": "exit code 1: no memory"})
    assert finished([sys.executable, "-c", said + "time.sleep(60)"], 3) == ([{"seconds": 1.5}], {"timeout": 3})


def test_the_preset_names_what_there_is() -> None:
    assert PRESET.keys() == DATA_SETS.keys()
    for name, contenders in PRESET.items():
        assert all(CONTENDERS[contender].fits(DATA_SETS[name]) for contender in contenders)
    assert {name for contenders in PRESET.values() for name in contenders} == CONTENDERS.keys()
    assert not any(CONTENDERS[name].fits(DATA_SETS["skewed"]) for name in DAYS)
    assert [partitions(rows) for rows in (1_000, 10**7, 10**8, 10**9)] == [8, 8, 16, 160]
