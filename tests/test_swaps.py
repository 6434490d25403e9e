"""A day is swapped whole: a run that is killed at any moment leaves the day as it was, or the next run completes it."""

from __future__ import annotations

import time
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from sparkmetrics import stores
from sparkmetrics.errors import SparkMetricsWarning, WriteError
from sparkmetrics.files import Files, LocalFiles
from sparkmetrics.ledger import Record
from sparkmetrics.stores import FolderStore

DAY, OTHER = date(2026, 11, 29), date(2026, 11, 30)
OLD = {"metrics": "old", "curves": "old", "gains": "old", "score_counts": "old"}
NEW = {"metrics": "new", "confusion": "new", "score_counts": "new"}
LEASE = 0.05


class Killed(BaseException):
    """The process is gone: nothing is caught, and nothing is cleaned up."""


class Dying:
    """Files of a process that is killed before, or in the middle of, its n-th change."""

    def __init__(self, files: Files) -> None:
        self.files, self.left = files, 1_000

    def __getattr__(self, name: str) -> Any:
        return getattr(self.files, name)

    def _change(self) -> None:
        if self.left == 0:
            raise Killed
        self.left -= 1

    def create(self, path: str, text: str) -> bool:
        self._change()
        return self.files.create(path, text)

    def publish(self, path: str, text: str) -> None:
        self._change()
        self.files.publish(path, text)

    def rename(self, source: str, target: str) -> None:
        self._change()
        self.files.rename(source, target)

    def remove(self, path: str) -> None:
        if self.left == 0 and Path(path).is_dir():
            for inside in sorted(Path(path).rglob("*"))[:1]:  # half removed
                if inside.is_file():
                    inside.unlink()
        self._change()
        self.files.remove(path)


def record(run_id: str) -> Record:
    return Record(run_id, DAY, datetime.now(timezone.utc), "0" * 64, {})


def put(folder: Path, text: str) -> None:
    folder.mkdir(parents=True)
    (folder / "part-0.parquet").write_text(text)


def day(root: Path) -> dict[str, str]:
    """What a reader finds of the day in each table."""
    return {
        path.parent.parent.name: path.read_text()
        for path in root.glob(f"*/run_date={DAY}/*.parquet")
        if path.parent.parent.name != "runs"
    }


def ledger(root: Path) -> list[str]:
    return sorted(path.read_text() for path in root.glob(f"runs/run_date={DAY}/*.parquet"))


@pytest.fixture(autouse=True)
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ledger's row as text: renames are what is tested."""

    def append(spark: Any, path: str, row: Record) -> None:
        put(Path(path), row.run_id) if not Path(path).exists() else None
        Path(path, "part-0.parquet").rename(Path(path, f"part-{row.run_id}.parquet"))

    monkeypatch.setattr(stores, "append_record", append)


def staged(root: Path, files: Files, run_id: str, tables: dict[str, str]) -> FolderStore:
    """A run that has begun and staged its tables."""
    store = FolderStore(None, files, str(root), DAY, run_id, LEASE)  # type: ignore[arg-type]
    store.begin()
    for table, text in tables.items():
        put(root / stores.STAGING / f"{DAY}.{run_id}" / table, text)
        store.tables[table] = 1
    return store


def run(root: Path, run_id: str, tables: dict[str, str], files: Files | None = None) -> None:
    store = staged(root, files or LocalFiles(), run_id, tables)
    try:
        store.commit(record(run_id))
    finally:
        store.end()


def test_a_day_is_replaced_whole_with_the_tables_that_it_no_longer_has(tmp_path: Path) -> None:
    run(tmp_path, "first", OLD)
    assert day(tmp_path) == OLD
    run(tmp_path, "second", NEW)
    assert day(tmp_path) == NEW
    assert ledger(tmp_path) == ["first", "second"]
    assert list((tmp_path / stores.STAGING).iterdir()) == []


@pytest.fixture
def files(request: pytest.FixtureRequest) -> Files:
    """Files of this machine, and those of Hadoop's own file system, which moves as HDFS does."""
    found: Files = LocalFiles() if request.param == "local" else request.getfixturevalue("hadoop_files")
    return found


@pytest.mark.parametrize(
    ("files", "next_day"),
    [
        *(("local", DAY), ("local", OTHER), ("hadoop", DAY)),
        pytest.param("hadoop", OTHER, marks=pytest.mark.slow),
    ],
    indirect=["files"],
)
def test_killed_at_any_change_the_next_run_restores_or_completes_the_day(
    tmp_path: Path, next_day: date, files: Files
) -> None:
    outcomes = []
    for changes in range(100):
        root = tmp_path / f"killed after {changes}"
        run(root, "first", OLD, files)
        dying: Any = Dying(files)
        store = staged(root, dying, "killed", NEW)
        dying.left = changes
        try:
            store.commit(record("killed"))
            store.end()
        except Killed:
            store._lock._stopping.set()  # the thread that renews the lock dies with the process
        else:
            break
        time.sleep(2 * LEASE)
        journal = list(root.glob(f"{stores.STAGING}/*/{stores.JOURNAL}"))
        if not journal:
            assert day(root) in (OLD, NEW)  # nothing begun, or all done
        after = FolderStore(None, files, str(root), next_day, "next", LEASE)  # type: ignore[arg-type]
        after.begin()
        found, rows = day(root), ledger(root)
        after.end()
        assert (found, rows) in ((OLD, ["first"]), (NEW, ["first", "killed"]))
        assert not list((root / stores.STAGING).iterdir())
        outcomes.append(found)
    assert OLD in outcomes
    assert NEW in outcomes
    assert len(outcomes) > 10  # it was killed in each of its changes


@pytest.mark.parametrize("content", ["[1]", "{", '{"tables": "metrics"}'])
def test_a_damaged_journal_is_told_and_nothing_is_moved(tmp_path: Path, content: str) -> None:
    run(tmp_path, "one", OLD)
    journal = tmp_path / stores.STAGING / f"{DAY}.two" / stores.JOURNAL
    put(journal.parent / "metrics", "new")
    journal.write_text(content)
    with pytest.raises(WriteError, match=r"journal.json' is no journal of a run.* Remove its folder"):
        run(tmp_path, "three", NEW)
    assert day(tmp_path) == OLD


def test_a_damaged_journal_of_another_day_is_a_warning(tmp_path: Path) -> None:
    journal = tmp_path / stores.STAGING / f"{OTHER}.two" / stores.JOURNAL
    put(journal.parent / "metrics", "new")
    journal.write_text("{")
    with pytest.warns(SparkMetricsWarning, match=r"of 2026-11-30 stays as it is.* is no journal"):
        run(tmp_path, "one", OLD)
    assert day(tmp_path) == OLD
    assert (journal.parent / "metrics").exists()


def test_what_a_live_run_stages_is_left_alone(tmp_path: Path) -> None:
    live = staged(tmp_path, LocalFiles(), "live", NEW)
    other = FolderStore(None, LocalFiles(), str(tmp_path), OTHER, "other", 60.0)  # type: ignore[arg-type]
    other.begin()
    other.end()
    live.commit(record("live"))
    live.end()
    assert day(tmp_path) == NEW


def test_a_run_that_lost_its_lock_puts_nothing_in_place(tmp_path: Path) -> None:
    run(tmp_path, "first", OLD)
    hung = staged(tmp_path, LocalFiles(), "hung", NEW)
    hung._lock._stopping.set()
    time.sleep(2 * LEASE)
    run(tmp_path, "second", {"metrics": "second"})
    with pytest.raises(WriteError, match="lock of 2026-11-29 was lost"):
        hung.commit(record("hung"))
    hung.end()
    assert day(tmp_path) == {"metrics": "second"}
    assert ledger(tmp_path) == ["first", "second"]


def test_earlier_days_expire(tmp_path: Path) -> None:
    for name in ("run_date=2026-10-29", "run_date=2026-10-30", "run_date=x", "_SUCCESS"):
        put(tmp_path / "score_counts" / name, "")
        put(tmp_path / "metrics" / name, "")
    store = staged(tmp_path, LocalFiles(), "run", {})
    store.expire(["score_counts"], date(2026, 10, 30))
    store.end()
    assert sorted(p.name for p in (tmp_path / "score_counts").iterdir()) == [
        "_SUCCESS",
        "run_date=2026-10-30",
        "run_date=x",
    ]
    assert len(list((tmp_path / "metrics").iterdir())) == 4
