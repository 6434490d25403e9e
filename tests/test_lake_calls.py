"""What is asked of a writer of Delta tables: `make nightly` writes some, by path; by name there is none to write to."""

from __future__ import annotations

from datetime import date
from types import SimpleNamespace
from typing import Any

import pytest

from sparkmetrics.lake_stores import LakeStore
from sparkmetrics.lakes import Lake

DAY = date(2026, 11, 29)


class Writer:
    """Notes what it is told, until it saves."""

    def __init__(self, calls: list[tuple[Any, ...]]) -> None:
        self._calls = calls

    def __getattr__(self, name: str) -> Any:
        def called(*arguments: Any) -> Writer:
            self._calls.append((name, *arguments))
            return self

        return called


class Session:
    """Keeps the SQL that it is given."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def sql(self, text: str) -> None:
        self.said.append(text)


def store(session: Any, path: str | None, prefix: str | None, there: bool) -> LakeStore:
    class Place(Lake):
        def frame(self, table: str, fresh: bool = False) -> Any:
            return "a table" if there else None

    return LakeStore(session, Place(session, "delta", path, prefix), DAY, "run")


PLACES = [
    ("/lake/", None, ("save", "/lake/metrics"), "delta.`/lake/metrics`"),
    (None, "main.ml.eval_", ("saveAsTable", "`main`.`ml`.`eval_metrics`"), "`main`.`ml`.`eval_metrics`"),
]


@pytest.mark.parametrize(("path", "prefix", "saved"), [place[:3] for place in PLACES])
def test_a_day_of_delta_is_written_under_its_condition(
    path: str | None, prefix: str | None, saved: tuple[str, str]
) -> None:
    """An overwrite without a condition takes all days; what makes a table must find none."""
    for there in (False, True):
        calls: list[tuple[Any, ...]] = []
        frame: Any = SimpleNamespace(write=Writer(calls))
        store(Session(), path, prefix, there)._overwrite("metrics", frame, there)
        *told, last = calls
        condition = [("option", "replaceWhere", "run_date = DATE'2026-11-29'")]
        expected = [("format", "delta"), ("partitionBy", "run_date"), ("mode", "overwrite" if there else "error")]
        assert sorted(told) == sorted([*expected, *(condition if there else [])])
        assert last == saved


@pytest.mark.parametrize(("path", "prefix", "name"), [(path, prefix, name) for path, prefix, _, name in PLACES])
def test_old_days_of_delta_are_deleted_by_their_date(path: str | None, prefix: str | None, name: str) -> None:
    session = Session()
    store(session, path, prefix, True).expire(["metrics"], DAY)
    assert session.said == [f"DELETE FROM {name} WHERE run_date < DATE'2026-11-29'"]
    store(session, path, prefix, False).expire(["metrics"], DAY)
    assert len(session.said) == 1
