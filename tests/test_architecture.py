"""Imports run one way, workers need NumPy and pyarrow alone, nothing reaches behind the DataFrame API, names stay."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import sparkmetrics as sm

PACKAGE = Path(sm.__file__).parent

ORDER = [
    *("errors", "kernel", "hashes", "packing", "columns", "schemas", "workers", "session", "batches", "ranges"),
    *("levels", "exact_sums", "joins", "small_groups", "segment_names"),
    *("metrics.arithmetic", "metrics.counts", "metrics.parameters", "metrics.intervals", "metrics.steps"),
    *("metrics.parts", "metrics.pair_parts", "metrics.list_parts", "metrics.segment_parts", "metrics.registry"),
    *("metrics.binary", "metrics.ranking", "metrics.best", "metrics.probability"),
    *("metrics.classes", "metrics.multiclass", "metrics", "metrics.known", "metrics.table"),
    *(
        "class_tables",
        "class_columns",
        "predictions",
        "parquet_files",
        "direct",
        "inspection",
        "origins",
        "merging",
        "score_counts",
        "class_counts",
        "class_scores",
    ),
    *("states", "saved_states", "offsets", "options", "row_kinds", "curves", "pooling", "segment_pairs", "versus"),
    *("evaluator", "groups", "buckets"),
    *("segments", "passes", "long_rows", "metric_rows", "class_metrics", "probability_metrics", "disparity"),
    *("evaluation", "api", "key_values", "gates", "gate_rows", "verdicts", "config"),
    *("files", "locks", "ledger", "lakes", "tables", "sparkmetrics"),
    *("progress", "sources", "stores", "catalog_stores", "lake_stores", "job", "periods", "dry_run", "show", "cli"),
]
"""Every module imports only modules before it; `sparkmetrics` is the package itself, what a user imports."""

UPWARD = {(state, of) for state in ("score_counts", "class_counts") for of in ("evaluation", "options", "states")}
"""The imports inside functions that run the other way: `evaluate` of a state knows the state's reader."""

MOST_LINES = 400

BEHIND_THE_API = {"rdd", "_jvm", "_jdf", "_jsc", "_jsparkSession", "_sc", "sparkContext"}
"""What neither Spark Connect nor a shared cluster offers."""

OF_CLASSIC_SESSIONS = "files"
"""The one module that may use it, where it is there: Spark has no interface to rename a file."""


class Import(NamedTuple):
    """One imported name: our module or a foreign package, and where the import stands."""

    module: str
    ours: bool
    in_function: bool
    for_types: bool


def module_name(path: Path) -> str:
    name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix("__init__").rstrip(".")
    return name or "sparkmetrics"


SOURCES = {module_name(path): path for path in PACKAGE.rglob("*.py")}
TREES = {name: ast.parse(path.read_text()) for name, path in SOURCES.items()}


def imported(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    """What an import names: modules as dotted names, of ours without the package in front."""
    for alias in node.names:
        if isinstance(node, ast.Import):
            name = alias.name
        else:
            assert node.level == 0, "imports are absolute"
            name = f"{node.module}.{alias.name}"
        if name != "sparkmetrics" and not name.startswith("sparkmetrics."):
            yield name
            continue
        parts = name.split(".")[1:]
        while parts and ".".join(parts) not in SOURCES:
            parts.pop()  # a name inside a module
        yield ".".join(parts) or "sparkmetrics"


def imports(node: ast.AST, in_function: bool = False, for_types: bool = False) -> Iterator[Import]:
    """All imports below a node."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.Import, ast.ImportFrom)):
            for name in imported(child):
                ours = name in SOURCES
                yield Import(name if ours else name.split(".")[0], ours, in_function, for_types)
        typing = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
        function = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        yield from imports(child, in_function or function, for_types or typing)


IMPORTS = {name: list(imports(tree)) for name, tree in TREES.items()}


def test_every_module_has_its_place() -> None:
    assert sorted(ORDER) == sorted(SOURCES)


@pytest.mark.parametrize("name", ORDER)
def test_imports_run_one_way(name: str) -> None:
    rank = ORDER.index(name)
    for found in IMPORTS[name]:
        if found.ours and not found.in_function and not found.for_types:
            assert ORDER.index(found.module) < rank, f"{name} imports {found.module}, which stands above it"


def test_imports_inside_functions_are_the_documented_ones() -> None:
    inside = {(name, i.module) for name, found in IMPORTS.items() for i in found if i.ours and i.in_function}
    assert inside == UPWARD


def foreign(name: str) -> set[str]:
    """Packages that a module needs when it is imported, beside Python's own."""
    found = {i.module for i in IMPORTS[name] if not i.ours and not i.in_function and not i.for_types}
    return found - set(sys.stdlib_module_names)


def test_kernel_knows_arrays_alone() -> None:
    assert {i.module for i in IMPORTS["kernel"] if not i.ours} - set(sys.stdlib_module_names) == {"numpy"}
    assert not any(i.ours for i in IMPORTS["kernel"])


@pytest.mark.parametrize(
    "name", [name for name in ORDER if name.split(".")[0] in ("batches", "class_tables", "metrics", "kernel")]
)
def test_formulas_and_batches_need_no_spark(name: str) -> None:
    assert foreign(name) <= {"numpy", "pyarrow"}


@pytest.mark.parametrize("name", [name for name in ORDER if name != "options"])
def test_functions_ask_no_dataclass_for_its_fields(name: str) -> None:
    """In a worker of PySpark 3.5 a dataclass that came by value has none. Options stay on the driver."""
    for function in ast.walk(TREES[name]):
        if isinstance(function, ast.FunctionDef):
            calls = [node.func for node in ast.walk(function) if isinstance(node, ast.Call)]
            called = {ast.unparse(call).split(".")[-1] for call in calls}
            assert not called & {"fields", "asdict", "astuple", "is_dataclass"}, f"{name}.{function.name}"


@pytest.mark.parametrize("name", ORDER)
def test_dataframe_api_alone(name: str) -> None:
    for node in ast.walk(TREES[name]):
        if isinstance(node, ast.Attribute):
            assert node.attr not in BEHIND_THE_API or name == OF_CLASSIC_SESSIONS, f"{name}:{node.lineno}"
            setting = node.attr == "set" and ast.unparse(node.value).endswith(".conf")
            assert not setting, f"{name}:{node.lineno} changes the caller's session"
        if isinstance(node, ast.Constant):
            assert node.value not in BEHIND_THE_API, f"{name}:{node.lineno}"


@pytest.mark.parametrize("name", ORDER)
def test_modules_are_of_one_subject(name: str) -> None:
    assert len(SOURCES[name].read_text().splitlines()) <= MOST_LINES


# --- what callers rely on


def signature(function: Callable[..., Any]) -> list[str]:
    """Parameters as they are written, then what is returned."""
    found = inspect.signature(function)
    parameters = []
    for parameter in found.parameters.values():
        default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
        star = {parameter.KEYWORD_ONLY: "* ", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        annotation = "" if parameter.annotation is parameter.empty else f": {parameter.annotation}"
        parameters.append(f"{star}{parameter.name}{annotation}{default}")
    return [*parameters, f"-> {found.return_annotation}"]


def public(kind: type) -> set[str]:
    return {name for name in vars(kind) if not name.startswith("_")}


SHARED_ARGUMENTS = [
    "* by: Sequence[str] = ()",
    "* segments: Sequence[str] = ()",
    "* label: str",
    "* score: str | None = None",
    "* scores: Mapping[str, str] | None = None",
    "* weight: str | None = None",
    "* positive: Label = 1",
]
CLASS_ARGUMENTS = ["* prediction: str | None = None", "* probabilities: ProbabilityColumns | None = None"]

SIGNATURES: dict[str, list[str]] = {
    "evaluate": [
        "frame: DataFrame",
        *SHARED_ARGUMENTS[:-2],
        *CLASS_ARGUMENTS,
        *SHARED_ARGUMENTS[-2:],
        "* levels: Levels | None = None",
        "* metrics: Sequence[str] | None = None",
        "* thresholds: Sequence[float] = (0.5,)",
        "* threshold_rule: str = '>='",
        "* beta: Sequence[float] = (1.0,)",
        "* costs: Mapping[str, float] | None = None",
        "* curve_points: int | None = 1000",
        "* buckets: int = 10",
        "* calibration_bins: int = 10",
        "* classes: Sequence[object] | None = None",
        "* class_costs: Mapping[object, Mapping[object, float]] | None = None",
        "* accuracy_weights: Mapping[str, float] | None = None",
        "* payoffs: Mapping[str, float] | None = None",
        "* top_k: Sequence[float | str] = ()",
        "* curve_metrics: Sequence[str] = ()",
        "* partial_auc: Sequence[Any] = ()",
        "* confidence: float = 0.95",
        "* min_group_rows: int = 0",
        "* max_pair_segments: int = 200",
        "* invalid_rows: str = 'error'",
        "-> Evaluation",
    ],
    "evaluate_path": [
        "spark: SparkSession",
        "path: str",
        "* filter: str | None = None",
        "* reader: str = 'auto'",
        "**arguments: Any",
        "-> Evaluation",
    ],
    "score_counts": [
        "frame: DataFrame",
        *SHARED_ARGUMENTS,
        "* invalid_rows: str = 'error'",
        "* sizing: Sizing | None = None",
        "-> ScoreCounts",
    ],
    "class_counts": [
        "frame: DataFrame",
        "* by: Sequence[str] = ()",
        "* segments: Sequence[str] = ()",
        "* label: str",
        "* prediction: str",
        "* weight: str | None = None",
        "* invalid_rows: str = 'error'",
        "-> ClassCounts",
    ],
    "read_class_counts": ["spark: SparkSession", "path: str", "-> ClassCounts"],
    "read_score_counts": ["spark: SparkSession", "path: str", "sizing: Sizing | None = None", "-> ScoreCounts"],
    "read_results": [
        *("spark: SparkSession", "path: str | None", "table: str", "run_date: date | str"),
        *("* table_prefix: str | None = None", "* format: str = 'parquet'", "-> DataFrame"),
    ],
    "Evaluation.metrics": ["self", "-> DataFrame"],
    "Evaluation.confusion": ["self", "thresholds: Sequence[float] | None = None", "-> DataFrame"],
    "Evaluation.curves": ["self", "-> DataFrame"],
    "Evaluation.gains": ["self", "-> DataFrame"],
    "Evaluation.calibration": ["self", "strategy: str = 'uniform'", "-> DataFrame"],
    "Evaluation.segment_auc": ["self", "-> DataFrame"],
    "Evaluation.segment_summary": ["self", "-> DataFrame"],
    "Evaluation.segment_gap": ["self", "-> DataFrame"],
    "Evaluation.segment_disparity": ["self", "-> DataFrame"],
    "Evaluation.class_counts": ["self", "normalize: str | None = None", "-> DataFrame"],
    "Evaluation.tables": ["self", "wanted: Collection[str] | None = None", "-> dict[str, Callable[[], DataFrame]]"],
    "Evaluation.share": ["self", "tables: Collection[str] | None = None", "-> None"],
    "Evaluation.unpersist": ["self", "-> None"],
    "ScoreCounts.__add__": ["self", "other: ScoreCounts", "-> ScoreCounts"],
    "ScoreCounts.roll_up": ["self", "segments: Sequence[str]", "-> ScoreCounts"],
    "ScoreCounts.write": ["self", "path: str", "mode: str = 'error'", "-> None"],
    "ScoreCounts.saved": ["self", "-> DataFrame"],
    "ScoreCounts.evaluate": ["self", "**options: Any", "-> Evaluation"],
    "ScoreCounts.unpersist": ["self", "-> None"],
    "ClassCounts.__add__": ["self", "other: ClassCounts", "-> ClassCounts"],
    "ClassCounts.roll_up": ["self", "segments: Sequence[str]", "-> ClassCounts"],
    "ClassCounts.table": ["self", "-> DataFrame"],
    "ClassCounts.write": ["self", "path: str", "mode: str = 'error'", "-> None"],
    "ClassCounts.evaluate": ["self", "positive: Label = 1", "**options: Any", "-> Evaluation"],
}


@pytest.mark.parametrize("name", SIGNATURES)
def test_signatures(name: str) -> None:
    function: Any = sm
    for part in name.split("."):
        function = getattr(function, part)
    assert signature(function) == SIGNATURES[name]


def test_public_names() -> None:
    assert sorted(sm.__all__) == [
        *(
            "ClassCounts",
            "ConfigError",
            "DataError",
            "Evaluation",
            "SchemaError",
            "ScoreCounts",
            "Sizing",
            "SparkMetricsError",
        ),
        *("SparkMetricsWarning", "WriteError", "class_counts", "evaluate", "evaluate_path", "read_class_counts"),
        *("read_results", "read_score_counts", "score_counts"),
    ]
    pinned = {name.split(".")[1] for name in SIGNATURES if name.startswith("Evaluation.")}
    assert public(sm.Evaluation) == pinned | {"counts"}
    pinned = {name.split(".")[1] for name in SIGNATURES if name.startswith("ScoreCounts.")} - {"__add__"}
    assert public(sm.ScoreCounts) == pinned | {"frame", "merged", "cells"}


def test_errors_have_one_root() -> None:
    for name in sm.__all__:
        if name.endswith("Error"):
            assert issubclass(getattr(sm, name), sm.SparkMetricsError)
    for error in (sm.ConfigError, sm.SchemaError, sm.DataError):
        assert issubclass(error, ValueError)
    assert issubclass(sm.WriteError, OSError)
    assert issubclass(sm.SparkMetricsWarning, UserWarning)
