"""What a job would do, in words: its config and the columns of its predictions are checked, and nothing is written."""

from __future__ import annotations

from datetime import date

from sparkmetrics import job, session, sources
from sparkmetrics.columns import listed
from sparkmetrics.config import Config, gates_of
from sparkmetrics.gates import check_values
from sparkmetrics.ranges import Sizing
from sparkmetrics.states import scan_for


def described(config: Config, day: date, last: date | None = None) -> str:
    """What `evaluate` would do with a config on a day, or on the days of a period, of which it looks at the first.

    Raises
    ------
    ConfigError, SchemaError, DataError : what `evaluate` would raise before it reads a row.
    """
    on_day = config.on(day)
    columns, options, output = on_day.columns, on_day.evaluate, on_day.output
    spark = session.get_session()
    sources.check_apart(on_day.predictions, output)
    store = job.open_store(spark, output, day, "dry run")
    predictions, files = sources.read_predictions(spark, on_day.predictions)
    evaluation, clean = job.planned(on_day, predictions)
    of_classes = evaluation.states.classes is not None
    scan = scan_for(files, on_day.predictions.reader, clean, Sizing(), of_classes=of_classes)
    store.check(lambda: job.frames_of(on_day, evaluation))
    keys, checked, gates = evaluation.states.keys, evaluation.options, gates_of(config)
    check_values(gates, keys)
    tables = [*job.tables_of(evaluation, output), *(["gates"] if gates else [])]
    source = on_day.predictions
    name = source.path or source.table
    where = f", where {source.filter}" if source.filter else ""
    scored = columns.score or (listed(columns.scores) if columns.scores else None)
    of_what = [f"label {columns.label!r} (positive: {columns.positive!r})"]
    of_what += [f"score {scored}" if columns.scores else f"score {scored!r}"] if scored else []
    of_what += [f"prediction {columns.prediction!r}"] if columns.prediction else []
    of_what += [f"probabilities {columns.probabilities!r}"] if columns.probabilities else []
    of_what += [f"weight {columns.weight!r}"] if columns.weight else []
    by = f"each distinct ({', '.join(keys.by)})" if keys.by else "all rows together"
    lines = {
        "run date": day.isoformat() if last is None else f"{day} to {last}, one after the other; below, of {day}",
        "predictions": f"{name}{where}, read by {'Spark' if scan is None else 'workers with pyarrow'}",
        "columns": "; ".join(of_what),
        "invalid rows": options.invalid_rows,
        "groups": f"{by}, at {len(checked.levels)} levels: {'; '.join(checked.level_names)}",
        "thresholds": f"{', '.join(f'{t:g}' for t in checked.thresholds)} (score {options.threshold_rule} threshold)",
        "tables": ", ".join([*tables, *(["saved counts"] if output.save_counts else []), "runs"]),
        "where to": f"{store.place}, the day {day} of each table {store.how}",
    }
    if gates:
        lines["gates"] = "; ".join(gate.name for gate in gates)
    width = max(map(len, lines))
    return "\n".join([f"{name + ':':{width + 2}}{said}" for name, said in lines.items()] + ["Nothing was written."])
