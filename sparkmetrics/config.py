"""YAML -> a checked config of one job. Every error of a config is in one message."""

from __future__ import annotations

import difflib
import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any, Literal, get_args

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from sparkmetrics.columns import TOTAL, Keys
from sparkmetrics.errors import ConfigError, SchemaError
from sparkmetrics.gates import Gate, checked_gates
from sparkmetrics.options import Options, checked_tables
from sparkmetrics.row_kinds import Source, check_fit
from sparkmetrics.schemas import RESULT_TABLES
from sparkmetrics.states import check_columns

RUN_DATE = "{run_date}"
"""Stands for the run's date in `predictions.path` and `predictions.filter`."""

NOT_YET: dict[str, dict[str, Any]] = {"columns": {"id": None}}
"""Keys of the config whose features this version lacks, with the only value it takes for them."""

TRIED = ("dict[", "list[", "literal[", "[key]")
SCALARS = ("str", "int", "float", "bool")
"""How pydantic names a type that it tried."""

MOST_DAYS = 36_500
"""A century."""

ClassKey = str | int | float | bool
"""A class as YAML has it."""


class Section(BaseModel):
    """A part of the config; an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def _without_nul(text: str | None) -> str | None:
    """The text. Raises ValueError where it has the one character that no path and no name can have."""
    if "\0" in (text or ""):
        raise ValueError(f"has a NUL character, found {text!r}")
    return text


class PredictionsSection(Section):
    """Where predictions are: a path in some format that Spark reads, or a catalog table."""

    path: str | None = Field(default=None, min_length=1)
    table: str | None = Field(default=None, min_length=1)
    format: str = "parquet"
    options: dict[str, str | bool | int | float] = Field(default_factory=dict)
    filter: str | None = None
    reader: Literal["auto", "spark", "arrow"] = "auto"

    @model_validator(mode="after")
    def _one_source(self) -> PredictionsSection:
        if (self.path is None) == (self.table is None):
            raise ValueError("give either path or table")
        return self

    @field_validator("path", "table", "filter")
    @classmethod
    def _text(cls, text: str | None) -> str | None:
        return _without_nul(text)

    @field_validator("path", "filter")
    @classmethod
    def _known_names(cls, text: str | None) -> str | None:
        # Globs and regular expressions have other braces.
        unknown = [name for name in re.findall(r"\{\w*(?:date|day)\w*\}", text or "") if name != RUN_DATE]
        if unknown:
            raise ValueError(f"{unknown[0]} stands for nothing, found in {text!r}; the run's date is {RUN_DATE}")
        return text


class ColumnsSection(Section):
    """Which column is what; arguments of `sparkmetrics.evaluate`."""

    by: list[str] = Field(default_factory=list)
    segments: list[str] = Field(default_factory=list)
    label: str
    positive: bool | int | float | str = 1
    score: str | None = None
    scores: dict[str, str] | None = None
    prediction: str | None = None
    probabilities: str | dict[ClassKey, str] | list[str] | None = None
    weight: str | None = None

    @model_validator(mode="after")
    def _fitting(self) -> ColumnsSection:
        check_columns(self.score, self.scores, self.prediction, self.probabilities)
        return self


class EvaluateSection(Section):
    """What to compute; the arguments of `sparkmetrics.evaluate`."""

    levels: Any = None
    metrics: list[str] | None = None
    thresholds: list[float] = Field(default_factory=lambda: [0.5])
    threshold_rule: Literal[">=", ">"] = ">="
    beta: list[float] = Field(default_factory=lambda: [1.0])
    costs: dict[str, float] | None = None
    curve_points: int | None = 1000
    buckets: int = 10
    calibration_bins: int = 10
    classes: list[ClassKey] | None = None
    class_costs: dict[ClassKey, dict[ClassKey, float]] | None = None
    accuracy_weights: dict[str, float] | None = None
    payoffs: dict[str, float] | None = None
    top_k: list[int | float | str] = Field(default_factory=list)
    curve_metrics: list[str] = Field(default_factory=list)
    partial_auc: list[Any] = Field(default_factory=list)
    confidence: float = 0.95
    min_group_rows: int = 0
    max_pair_segments: int = 200
    invalid_rows: Literal["error", "drop"] = "error"


class OutputSection(Section):
    """Where results go."""

    path: str | None = Field(default=None, min_length=1)
    format: Literal["parquet", "delta", "iceberg"] = "parquet"
    table_prefix: str | None = Field(default=None, min_length=1)
    atomic: bool = True
    save_counts: bool = True
    retention_days: int | None = Field(default=None, ge=1, le=MOST_DAYS)
    tables: list[str] | None = Field(default=None, min_length=1)

    @field_validator("path", "table_prefix")
    @classmethod
    def _text(cls, text: str | None) -> str | None:
        return _without_nul(text)

    @model_validator(mode="after")
    def _one_place(self) -> OutputSection:
        if self.path is None and self.table_prefix is None:
            raise ValueError("give path (a folder), or table_prefix (of catalog tables), or both")
        if self.format == "iceberg" and self.table_prefix is None:
            raise ValueError("format iceberg needs table_prefix, since its tables are those of a catalog")
        if self.format != "parquet" and self.path is not None and self.table_prefix is not None:
            raise ValueError(f"give either path or table_prefix for format {self.format}")
        return self


class GateSection(Section):
    """A check of a metric; the arguments of `gates.Gate.make`."""

    metric: str
    level: str = TOTAL
    segments: dict[str, Any] = Field(default_factory=dict)
    by: dict[str, Any] = Field(default_factory=dict)
    threshold: float | Literal["prediction"] | None = None
    average: Literal["macro", "micro", "weighted"] | None = None
    class_: Any = Field(default=None, alias="class")
    min: float | None = None
    max: float | None = None
    max_drop: float | None = None
    min_ratio: float | None = None
    max_ratio: float | None = None
    days_ago: int | None = None
    median_of: int | None = None
    min_rows: int = 0
    beyond: Literal["interval"] | None = None
    name: str | None = None


class Config(Section):
    """The config of one job."""

    predictions: PredictionsSection
    columns: ColumnsSection
    evaluate: EvaluateSection = Field(default_factory=EvaluateSection)
    output: OutputSection
    gates: list[GateSection] = Field(default_factory=list)

    def on(self, run_date: date) -> Config:
        """The config with the run's date in place of `{run_date}`."""
        source = self.predictions
        filled = {
            name: value.replace(RUN_DATE, run_date.isoformat())
            for name, value in (("path", source.path), ("filter", source.filter))
            if value is not None
        }
        return self.model_copy(update={"predictions": source.model_copy(update=filled)})

    def sha256(self) -> str:
        """A fingerprint of what the config says, whatever its layout."""
        return hashlib.sha256(json.dumps(self.model_dump(mode="json"), sort_keys=True).encode()).hexdigest()


def load(path: str | Path) -> Config:
    """Reads a config file.

    Parameters
    ----------
    path : of a YAML file.

    Raises
    ------
    ConfigError : the file cannot be read or is not YAML; or a list of all that is wrong with its keys.
    """
    try:
        content = yaml.load(Path(path).read_text(encoding="utf-8"), _UniqueKeys)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"Cannot read the config {str(path)!r}: {error}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # dates that do not exist, brackets without end
        raise ConfigError(f"The config {str(path)!r} is not valid YAML: {error}") from error
    return parse(content, str(path))


class _UniqueKeys(yaml.SafeLoader):
    """YAML in which no key comes twice: of two, the first would be lost without a word."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            name = str(key.value)
            if name in seen and name != "<<":
                raise yaml.constructor.ConstructorError(None, None, f"the key {name!r} comes twice", key.start_mark)
            seen.add(name)
        return super().construct_mapping(node, deep)


def parse(content: Any, where: str = "config") -> Config:
    """A config from what YAML gave. Raises ConfigError that lists every error."""
    if not isinstance(content, Mapping):
        raise ConfigError(
            f"The config {where!r} must have the keys {', '.join(Config.model_fields)}; found {content!r}."
        )
    problems, known = _without_not_yet(content)
    config = None
    try:
        config = Config.model_validate(known)
    except ValidationError as error:
        problems += _described(error)
    if config is not None:
        problems += _option_problems(config)
    if config is None or problems:
        raise ConfigError("\n  ".join([f"The config {where!r} has {len(problems)} error(s):", *problems]))
    return config


def _without_not_yet(content: Mapping[str, Any]) -> tuple[list[str], dict[str, Any]]:
    """The content without keys that have no effect yet, and what is wrong with those."""
    problems, known = [], dict(content)
    for section, neutral in NOT_YET.items():
        if not isinstance(known.get(section), Mapping):
            continue
        known[section] = {key: value for key, value in known[section].items() if key not in neutral}
        for key, value in content[section].items():
            if key in neutral and value != neutral[key]:
                problems.append(
                    f"{section}.{key}: {value!r} is not supported by this version; leave it out or at {neutral[key]!r}"
                )
    return problems, known


def _option_problems(config: Config) -> list[str]:
    """What the evaluation itself would refuse."""
    problems = []
    try:
        Keys(tuple(config.columns.by), tuple(config.columns.segments)).check_distinct()
    except SchemaError as error:
        problems.append(f"columns.by, columns.segments: {error}")
    lacking: dict[str, str] = {}
    try:
        source = _source(config)
        lacking = source.lacking
        problems += _gates(config, source)[1]
    except ConfigError as error:
        problems.append(f"evaluate.{error}")
    if config.gates and "metrics" not in (config.output.tables or ["metrics"]):
        problems.append("output.tables: gates judge the table 'metrics': add it, or leave out gates.")
    try:
        checked_tables(config.output.tables or (), RESULT_TABLES, lacking)
    except ConfigError as error:
        problems.append(f"output.{error}")
    return problems


def gates_of(config: Config) -> tuple[Gate, ...]:
    """The gates of a config, in its order. Raises ConfigError as `parse` does."""
    gates, problems = _gates(config, _source(config))
    if problems:
        raise ConfigError("\n  ".join(problems))
    return gates


def _gates(config: Config, source: Source) -> tuple[tuple[Gate, ...], list[str]]:
    """The gates, and what is wrong with them. Raises ConfigError for what is wrong with the evaluation itself."""
    check_fit(source)
    return checked_gates(source, [section.model_dump() for section in config.gates])


def _source(config: Config) -> Source:
    """What is evaluated, and of what. Raises ConfigError for options that are wrong by themselves."""
    columns = config.columns
    # The models of a wide table are a `by` column.
    keys = Keys((*columns.by, *([] if columns.scores is None else ["model"])), tuple(columns.segments))
    options = Options.make(keys, **config.evaluate.model_dump(exclude={"invalid_rows"}))
    return Source(
        keys,
        options,
        scores=columns.score is not None or columns.scores is not None,
        classes=columns.prediction is not None or columns.probabilities is not None,
        probabilities=columns.probabilities is not None,
    )


def _described(error: ValidationError) -> list[str]:
    """The errors of pydantic, a line for each key. Of a value that may be of several types there is one for each."""
    problems = error.errors()
    alike = Counter(problem["loc"][:-1] for problem in problems)
    lines: dict[str, list[str]] = {}
    found: dict[str, str] = {}
    for problem in problems:
        # Which of the types was tried is a part of the key; a key that is named like a type has one error.
        parts = [str(part) for part in problem["loc"] if not str(part).startswith(TRIED)]
        if len(parts) > 2 and parts[-1] in SCALARS and alike[problem["loc"][:-1]] > 1:
            parts.pop()
        key = ".".join(parts) or "config"
        key = key if key.isprintable() else repr(key)
        said = _unknown(problem["loc"]) if problem["type"] == "extra_forbidden" else problem["msg"]
        told = lines.setdefault(key, [])
        told.append(said.removeprefix("Value error, ") if not told else said.removeprefix("Input should be "))
        if problem["type"] not in ("missing", "value_error", "extra_forbidden"):
            found[key] = f", found {problem['input']!r}"
    return [f"{key}: {' or '.join(said)}{found.get(key, '')}" for key, said in lines.items()]


def _unknown(key: Sequence[int | str]) -> str:
    """What is said of a key that no section has."""
    section = Config.model_fields.get(str(key[0])) if len(key) > 1 else None
    model: Any = section.annotation if section else Config
    (model,) = get_args(model) or (model,)  # of a list
    names = [field.alias or name for name, field in getattr(model, "model_fields", {}).items()]
    close = difflib.get_close_matches(str(key[-1]), names, n=1)
    return "unknown key" + (f"; did you mean {close[0]!r}?" if close else f"; known: {', '.join(names)}")
