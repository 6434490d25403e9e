"""One run of a day at a time: a lock with a lease, so that a killed run's lock ends by itself.

The lock of a day is the file with the highest number in `.locks`, `2026-11-29.<number>`, and it is held while its
modification time is within a lease of now. The holder renews it from a thread. Who finds the highest number free makes
the next one, which the file system lets one of them do. It then looks again: where somebody made a higher one in
between, it was late. A number is never used twice, because the highest file stays, with a time in 1970 once it is free.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
from datetime import date
from pathlib import Path

from sparkmetrics.errors import WriteError
from sparkmetrics.files import Files

LEASE_SECONDS = 120.0
"""A run that has not renewed its lock for as long is taken for dead."""

RENEWALS = 6
"""Times that a lock is renewed in a lease."""

FOLDER = ".locks"


class LockedError(WriteError):
    """Another run is at work on the day."""


class DayLock:
    """The lock of one day of one results folder, for one run.

    Parameters
    ----------
    files : where the folder is.
    root : the results folder.
    day : whose results the run writes.
    run_id : of the run.
    lease : seconds that it is held without being renewed.
    """

    def __init__(self, files: Files, root: str, day: date, run_id: str, lease: float = LEASE_SECONDS) -> None:
        self._files = files
        self._folder = f"{root}/{FOLDER}"
        self._day = day
        self._run_id = run_id
        self._lease = lease
        self._path: str | None = None
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()

    def __enter__(self) -> DayLock:
        self.acquire()
        return self

    def __exit__(self, *error: object) -> None:
        self.release()

    def acquire(self) -> None:
        """Takes the lock. Raises LockedError, which says who holds it, where another run does."""
        numbers = self._numbers()
        highest = max(numbers, default=0)
        if highest and (holder := self._holder(highest)):
            raise LockedError(holder)
        path = self._file(highest + 1)
        if not self._files.create(path, json.dumps({"run_id": self._run_id, **_this_process()})):
            raise LockedError(self._holder(highest + 1) or f"Another run of {self._day} has just begun.")
        if max(self._numbers()) != highest + 1:
            self._files.remove(path)
            raise LockedError(f"Another run of {self._day} has just begun.")
        for number in numbers:
            self._files.remove(self._file(number))
        self._path = path
        self._stopping.clear()
        self._thread = threading.Thread(target=self._keep, name=f"lock of {self._day}", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Raises WriteError where the lock was lost, because this run could not renew it for a whole lease."""
        if self._path is None or max(self._numbers(), default=0) != self._number(self._path):
            raise WriteError(
                f"The lock of {self._day} was lost: this run did not renew it within {self._lease:g} seconds, and "
                "another run took the day. Nothing of this run was put in place."
            )
        self._files.set_modified(self._path, time.time())

    def release(self) -> None:
        """Gives the lock back."""
        self._stopping.set()
        if self._thread is not None:  # or it could renew what is given back
            self._thread.join()
        if self._path is not None:
            path, self._path = self._path, None
            with contextlib.suppress(WriteError):  # it ends by itself
                self._files.set_modified(path, 0.0)

    def _keep(self) -> None:
        while not self._stopping.wait(self._lease / RENEWALS):
            path = self._path
            if path is None:
                return
            with contextlib.suppress(WriteError):  # the next may work
                self._files.set_modified(path, time.time())

    def _holder(self, number: int) -> str | None:
        """Who holds a lock, in words; None where nobody does."""
        path = self._file(number)
        modified = self._files.modified(path)
        # A time that is far ahead is of no run that renews its lock: it would hold the day for good.
        if modified is None or abs(time.time() - modified) > self._lease:
            return None
        try:
            found = json.loads(self._files.read(path) or "{}")
        except ValueError:  # it is being written
            found = {}
        if not isinstance(found, dict):
            found = {}
        if _has_ended(found):
            return None
        left = min(self._lease, max(0.0, self._lease - (time.time() - modified)))
        return (
            f"Another run of {self._day} is at work: run {found.get('run_id', '?')} on {found.get('host', '?')}, "
            f"process {found.get('pid', '?')}. Its lock {path!r} ends {left:.0f} seconds from now unless it goes on. "
            "Run again when it is done."
        )

    def _numbers(self) -> list[int]:
        prefix = f"{self._day.isoformat()}."
        ends = (name[len(prefix) :] for name in self._files.names(self._folder) if name.startswith(prefix))
        return [int(end) for end in ends if end.isdigit()]

    def _file(self, number: int) -> str:
        return f"{self._folder}/{self._day.isoformat()}.{number}"

    @staticmethod
    def _number(path: str) -> int:
        return int(path.rpartition(".")[2])


def _this_process() -> dict[str, str | int | None]:
    pid = os.getpid()
    return {"host": socket.gethostname(), "pid": pid, "machine": _machine(), "started": _started(pid)}


def _has_ended(found: dict[str, object]) -> bool:
    """Whether the holder was a process of this machine that is gone. Where that cannot be told, it is not."""
    machine, pid = _machine(), found.get("pid")
    if machine is None or found.get("machine") != machine or not isinstance(pid, int):
        return False
    return _started(pid) != found.get("started")


def _machine() -> str | None:
    """The boot of this machine and the namespace of its process numbers, on Linux."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return None


def _started(pid: int) -> str | None:
    """When a process was started, in ticks since the boot; None where there is none, or not on Linux."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return status.rpartition(")")[2].split()[19]
