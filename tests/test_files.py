"""Files and locks: what a results folder relies on, on local disk and through Hadoop's interface."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sparkmetrics import locks
from sparkmetrics.errors import ConfigError, WriteError
from sparkmetrics.files import Files, LocalFiles, check_folder, files_of
from sparkmetrics.locks import DayLock, LockedError

DAY = date(2026, 11, 29)


@pytest.fixture(params=["local", "local with scheme", "hadoop"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Files, str]:
    if request.param != "hadoop":
        return LocalFiles(), f"{'file:' if 'scheme' in request.param else ''}{tmp_path}/a folder, 100%25"
    return request.getfixturevalue("hadoop_files"), f"{tmp_path}/a folder, 100%25"


def test_what_files_promise(place: tuple[Files, str]) -> None:
    files, root = place
    assert files.names(root) == []
    assert (files.read(f"{root}/no"), files.modified(f"{root}/no"), files.exists(f"{root}/no")) == (None, None, False)
    assert files.create(f"{root}/a/new", "é 1")
    assert not files.create(f"{root}/a/new", "2")  # what is there stays
    assert files.read(f"{root}/a/new") == "é 1"
    files.set_modified(f"{root}/a/new", 1_000_000_000.0)
    assert files.modified(f"{root}/a/new") == 1_000_000_000.0
    files.publish(f"{root}/b", "whole")
    assert files.read(f"{root}/b") == "whole"
    files.rename(f"{root}/a", f"{root}/deep/c")
    assert files.names(root) == ["b", "deep"]
    assert files.read(f"{root}/deep/c/new") == "é 1"
    files.create(f"{root}/a/other", "3")
    with pytest.raises(WriteError, match=r"Could not move .* to "):
        files.rename(f"{root}/a", f"{root}/deep/c")  # not into what is there
    with pytest.raises(WriteError, match="Could not move"):
        files.rename(f"{root}/b", f"{root}/a/other")  # nor over it
    with pytest.raises(WriteError, match="Could not move"):
        files.rename(f"{root}/nothing", f"{root}/d")
    files.remove(f"{root}/deep")
    files.remove(f"{root}/deep")
    assert files.names(root) == ["a", "b"]
    with pytest.raises(WriteError, match="Could not"):
        files.create(f"{root}/b/below a file", "")
    assert [files.is_file(f"{root}{name}") for name in ("", "/b", "/nothing")] == [False, True, False]
    check_folder(files, f"{root}/new/results")
    for below in ("b", "b/results"):
        with pytest.raises(ConfigError, match=r"b' is a file\. Name a folder"):
            check_folder(files, f"{root}/{below}")


class Namenode(LocalFiles):
    """Files of HDFS: there is no path that is just a server."""

    def exists(self, path: str) -> bool:
        assert path.startswith("hdfs://host:8020/"), path
        return False

    is_file = exists


def test_a_folder_that_is_not_there_yet_is_looked_for_below_the_root() -> None:
    check_folder(Namenode(), "hdfs://host:8020/results/of/models")
    check_folder(Namenode(), "hdfs://host:8020/results")


def test_files_of_a_path(spark: SparkSession, tmp_path: Path) -> None:
    found = files_of(spark, str(tmp_path))
    if found is None:
        assert "connect" in type(spark).__module__
        return
    assert isinstance(found[0], LocalFiles)
    assert found[1] == str(tmp_path)
    relative = files_of(spark, "results")
    assert relative is not None
    assert relative[1] == f"{os.getcwd()}/results"
    with pytest.raises(WriteError, match=r"Could not reach 'hdfs://nowhere\.invalid/results'"):
        files_of(spark, "hdfs://nowhere.invalid/results")
    for path in ("s3a://bucket/results", "no://such/results"):
        with pytest.raises(ConfigError, match=f"'{path}': this session has no such file system"):
            files_of(spark, path)


# --- locks


@pytest.fixture
def lock(tmp_path: Path) -> Callable[..., DayLock]:
    def make(run_id: str, day: date = DAY, lease: float = 60.0) -> DayLock:
        return DayLock(LocalFiles(), str(tmp_path), day, run_id, lease)

    return make


def test_one_run_of_a_day_at_a_time(lock: Callable[..., DayLock]) -> None:
    with lock("first") as held:
        with pytest.raises(LockedError, match=r"run first on .* ends 60 seconds from now"):
            lock("second").acquire()
        with lock("other day", day=date(2026, 11, 28)):
            held.check()
    with lock("second"):
        pass
    with lock("third"):
        pass


def test_of_many_runs_at_once_one_gets_the_lock(lock: Callable[..., DayLock]) -> None:
    for attempt in range(20):
        start, got, refused = threading.Barrier(8), [], []

        def run(
            number: int, start: threading.Barrier = start, got: list[DayLock] = got, refused: list[int] = refused
        ) -> None:
            mine = lock(f"run {number}")
            start.wait()
            try:
                mine.acquire()
            except LockedError:
                refused.append(number)
            else:
                got.append(mine)

        threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(got) == 1, f"attempt {attempt}"
        assert len(refused) == 7
        got[0].release()


def test_who_finds_a_higher_number_was_late(lock: Callable[..., DayLock], monkeypatch: pytest.MonkeyPatch) -> None:
    late, other = lock("late"), lock("other")

    def overtaken(path: str, text: str) -> bool:
        monkeypatch.undo()
        made = late._files.create(path, text)
        late._files.set_modified(path, 0.0)  # it slept for a lease
        other.acquire()
        return made

    monkeypatch.setattr(late._files, "create", overtaken)
    with pytest.raises(LockedError, match="has just begun"):
        late.acquire()
    other.check()
    other.release()


def test_a_lock_is_renewed_and_one_that_is_not_ends(lock: Callable[..., DayLock]) -> None:
    held = lock("renewed", lease=1.0)
    held.acquire()
    time.sleep(1.6)
    with pytest.raises(LockedError):
        lock("second", lease=1.0).acquire()
    held._stopping.set()  # as if it hung
    time.sleep(1.6)
    with lock("second", lease=1.0):
        with pytest.raises(WriteError, match="lock of 2026-11-29 was lost"):
            held.check()
        held.release()
        with pytest.raises(LockedError):  # the release of a lost lock frees nothing
            lock("third", lease=1.0).acquire()


def test_locks_that_no_run_would_leave_are_no_locks(lock: Callable[..., DayLock], tmp_path: Path) -> None:
    with lock("first"):
        (path,) = (tmp_path / locks.FOLDER).iterdir()
        path.write_text("[1]")
        with pytest.raises(LockedError, match=r"run \? on \?"):
            lock("second").acquire()
        os.utime(path, (time.time() + 1e6, time.time() + 1e6))
        with lock("second"):
            pass


def test_a_lock_of_a_killed_process_is_free_at_once(lock: Callable[..., DayLock], tmp_path: Path) -> None:
    script = (
        "import os, sys; from datetime import date; from sparkmetrics.files import LocalFiles; "
        "from sparkmetrics.locks import DayLock; "
        f"DayLock(LocalFiles(), {str(tmp_path)!r}, date(2026, 11, 29), 'killed').acquire(); "
        "os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == -9
    (path,) = (tmp_path / locks.FOLDER).iterdir()
    held = json.loads(path.read_text())
    assert held["run_id"] == "killed"
    if held["machine"] is None:
        pytest.skip("which process holds a lock is known on Linux alone")
    # Of another machine, or of a process that is alive, it is held.
    for change in ({"machine": "another"}, {"pid": os.getpid(), "started": locks._started(os.getpid())}):
        path.write_text(json.dumps(held | change))
        with pytest.raises(LockedError, match="run killed"):
            lock("second").acquire()
    path.write_text(json.dumps(held))
    with lock("second"):
        pass
