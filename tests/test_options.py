"""Arguments of an evaluation: what is accepted, the names that metrics get, and errors that say what is wrong."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from sparkmetrics.columns import Keys
from sparkmetrics.errors import ConfigError, first_line
from sparkmetrics.metrics import Parameters, score_metrics, threshold_metrics
from sparkmetrics.metrics.counts import Cells
from sparkmetrics.metrics.parameters import Region
from sparkmetrics.options import Options

KEYS = Keys(("model",), ("F1", "day"))

NUMBERS = (math.nan, "1", None, True, [1])
"""What is no number, each among others."""


def wrong() -> list[tuple[str, Any]]:
    """Arguments that are not accepted."""
    found: list[tuple[str, Any]] = [("beta", value) for value in (1, "1", None, [0], [-1], [math.inf])]
    found += [(name, [value]) for name in ("beta", "top_k", "partial_auc") for value in NUMBERS]
    for name in ("costs", "payoffs", "accuracy_weights"):
        found += [(name, value) for value in (1, "fp", [1, 2, 3, 4], {}, {"FP": 1}, {"tp": 1, "cost": 2})]
        found += [(name, {"fp": value}) for value in (*NUMBERS, math.inf, -math.inf)]
    found += [("accuracy_weights", {"tp": -1})]
    found += [("partial_auc", value) for value in (0.1, "fpr", None, {"fpr": [0, 0.1]}, [["fpr", 0]], [("roc", 0, 1)])]
    for ends in ((0.1, 0), (0.1, 0.1), (-0.1, 1), (0, 1.1), (0, math.nan), ("0", 1)):
        found += [("partial_auc", [("fpr", *ends)]), ("partial_auc", [{"tpr": list(ends)}])]
    found += [("partial_auc", [{"fpr": [0, 0.1], "tpr": [0.5, 1]}]), ("partial_auc", [{"fpr": 0.1}])]
    found += [("top_k", value) for value in (100, "1%", None, [0], [-5], [math.inf], ["0%"], ["100%"], ["1"], ["x%"])]
    for name in ("buckets", "calibration_bins"):
        found += [(name, value) for value in (0, -1, 2.0, "10", None, True)]
    found += [("curve_metrics", value) for value in ("f1", 1, None, ["roc_auc"], ["nope"], ["f1"], ["profit"], [1])]
    found += [("metrics", value) for value in ("ks", 1, [], ["auc"], ["fbeta_2"], [1], [["ks"]], {"ks": 1})]
    found += [("min_group_rows", value) for value in (-1, 1.5, "5", None, True, 10**30)]
    found += [("max_pair_segments", value) for value in (1, 0, 2.0, None, 10**9)]
    found += [("levels", value) for value in (1, "", "cubes", [], ["F2"], [["day", 1]], [None], {"day": 1.5}.values())]
    found += [("confidence", value) for value in (0, 1, 95, -0.5, *NUMBERS)]
    return found


@pytest.mark.parametrize(("name", "value"), wrong(), ids=repr)
def test_wrong_arguments_are_errors_that_name_them(name: str, value: object) -> None:
    with pytest.raises(ConfigError, match=rf"^{name}\b"):
        Options.make(KEYS, **{name: value})


def test_errors_say_what_was_found() -> None:
    for arguments, message in (
        ({"beta": [0.5, 0]}, "beta must be positive numbers, 1e-6 to 1e6, found 0"),
        ({"costs": {"fp": math.inf}}, "costs must be finite numbers, at most 1e+100, found {'fp': inf}"),
        ({"payoffs": {"gain": 1}}, "payoffs must give numbers for some of 'tp', 'fp', 'fn', 'tn', found {'gain': 1}"),
        ({"top_k": ["150%"]}, "top_k: '150%' is neither a number of rows"),
        ({"confidence": 1 - 1e-16}, "confidence must be a number between 0 and 1"),
        ({"thresholds": range(100_001)}, "thresholds must be at most 100,000 values, found 100,001"),
        ({"beta": range(1, 102)}, "beta must be at most 100 values, found 101"),
        ({"top_k": range(1, 102)}, "top_k must be at most 100 values, found 101"),
        ({"partial_auc": [("fpr", 0, n / 200) for n in range(1, 102)]}, "partial_auc must be at most 100 values"),
        ({"curve_points": 10**9}, "curve_points must be at most 100,000, found 1000000000"),
        ({"thresholds": (x for x in (0.5,))}, "thresholds must be a list of numbers"),
        ({"beta": [10**400]}, "beta must be numbers, found"),
        ({"curve_metrics": [["f1"]]}, "curve_metrics: ['f1'] is no metric at a threshold"),
        ({"classes": ["a", None]}, "classes: a class is a string, a number or a boolean, found None"),
        ({"confidence": 95}, "confidence must be a number between 0 and 1, for example 0.95, found 95"),
        ({"calibration_bins": 0}, "calibration_bins must be a whole number of at least 1, found 0"),
        ({"curve_metrics": ["auc"]}, "curve_metrics: 'auc' is no metric at a threshold. These are: 'accuracy'"),
        ({"curve_metrics": ["f1"]}, "curve_metrics: 'f1' is also the name of a key column"),
    ):
        with pytest.raises(ConfigError) as error:
            Options.make(KEYS, **arguments)
        assert str(error.value).startswith(message)


def test_arguments_are_read_as_they_are_meant() -> None:
    parameters = Options.make(
        KEYS,
        beta=[np.float64(0.5), 1, 1.0],
        costs={"fp": 1, "fn": 5},
        payoffs={"tp": 200, "fp": -80},
        accuracy_weights={"tp": 2},
        partial_auc=[("fpr", 0, 0.1), {"fpr": [0, 0.1]}, {"tpr": (0.9, 1)}],
        top_k=[100, 0.01, "1%", " 2.5 %", 1],
        confidence=np.float64(0.9),
    ).parameters
    assert parameters.beta == (0.5, 1.0)
    assert parameters.costs == Cells(tp=0.0, fp=1.0, fn=5.0, tn=0.0)
    assert parameters.payoffs == Cells(tp=200.0, fp=-80.0, fn=0.0, tn=0.0)
    assert parameters.accuracy_weights == Cells(tp=2.0, fp=1.0, fn=1.0, tn=1.0)
    assert parameters.partial_auc == (Region("fpr", 0.0, 0.1), Region("tpr", 0.9, 1.0))
    assert parameters.top_k == (100.0, 0.01, 0.025, 1.0)
    assert parameters.confidence == 0.9
    assert Options.make(KEYS).parameters == Parameters()


def test_parameters_are_part_of_the_name() -> None:
    parameters = Options.make(
        KEYS, beta=[0.5, 1, 2, 1 / 3], top_k=[100, 1e6, "1%", 0.025], partial_auc=[("tpr", 0.9, 1)]
    ).parameters
    names = [*threshold_metrics(parameters), *score_metrics(parameters)]
    assert len(set(names)) == len(names)
    assert [name for name in names if name.startswith("fbeta")] == [
        *("fbeta_0.5", "fbeta_1", "fbeta_2", "fbeta_0.333333333333333")
    ]
    assert [name for name in names if "precision_at" in name] == [
        f"precision_at_{top}" for top in ("100", "1000000", "1%", "2.5%")
    ]
    assert [name for name in names if "partial_auc" in name] == [
        *("partial_auc_tpr_0.9_1", "partial_auc_corrected_tpr_0.9_1")
    ]


CROSSED = Keys(("model",), ("country", "device", "day"))


@pytest.mark.parametrize(
    ("levels", "names"),
    [
        (None, ["total", "country", "device", "day", "country,device,day"]),
        ("total", ["total"]),
        ("each", ["country", "device", "day"]),
        ("rollup", ["total", "country", "country,device", "country,device,day"]),
        (
            "cube",
            [
                *("total", "country", "device", "day", "country,device", "country,day", "device,day"),
                "country,device,day",
            ],
        ),
        ("device", ["device"]),
        (["total", "day", ["day", "country"]], ["total", "day", "country,day"]),
        (["rollup", "each"], ["total", "country", "country,device", "country,device,day", "device", "day"]),
        ([[], ["day", "day"], ("day",)], ["total", "day"]),
    ],
)
def test_levels(levels: Any, names: list[str]) -> None:
    assert list(Options.make(CROSSED, levels=levels).level_names) == names


def test_a_shorthand_that_is_also_a_column_must_be_said_in_full() -> None:
    keys = Keys((), ("cube", "day"))
    with pytest.raises(ConfigError, match=r"'cube' is a shorthand and also a segment column. Write \['cube'\]"):
        Options.make(keys, levels=["cube"])
    assert Options.make(keys, levels=[["cube"], "day"]).level_names == ("cube", "day")


def test_a_cube_of_many_columns_is_an_error() -> None:
    with pytest.raises(ConfigError, match="a cube of 11 segment columns has 2,048 levels, and 1,024 are the most"):
        Options.make(Keys((), tuple(f"c{i}" for i in range(11))), levels="cube")


def test_the_first_line_of_an_error_is_its_cause() -> None:
    """Of Spark's errors as they read: of Python workers, of Java through py4j, and plain."""
    worker = (
        "\n  An exception was thrown from the Python worker. Please see the stack trace below.\n"
        'Traceback (most recent call last):\n  File "a.py", line 1, in run\n    f()\nValueError: no such file\n'
        "\n\tat org.apache.spark.Task.run(Task.scala:1)\n"
    )
    java = "An error occurred while calling o1.load.\n: java.io.IOException: disk full\n\tat java.base/Thread.run\n"
    assert first_line(RuntimeError(worker)) == "ValueError: no such file"
    assert first_line(RuntimeError(java)) == "java.io.IOException: disk full"
    assert first_line(RuntimeError("\nplain\nmore")) == "plain"
    assert first_line(RuntimeError()) == "RuntimeError"
