"""Peak memory of this process, of its JVM and of its Python workers (Linux; elsewhere nothing is found)."""

from __future__ import annotations

import os
import threading
from pathlib import Path

SECONDS = 0.25
"""Between samples: reading one takes some milliseconds."""

KINDS = ("driver", "JVM", "Python workers", "largest worker")


class PeakMemory:
    """Samples memory while a block runs; blocks add up to one peak.

    Attributes
    ----------
    megabytes : of each kind; empty where nothing could be read.
    """

    def __init__(self) -> None:
        self.megabytes: dict[str, int] = {}

    def __enter__(self) -> PeakMemory:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while True:
            self._sample()
            if self._stop.wait(SECONDS):
                self._sample()
                return

    def _sample(self) -> None:
        driver = _megabytes(os.getpid())
        if driver is None:
            return
        jvm, workers = 0, [0]
        for pid in _descendants(os.getpid()):
            megabytes = _megabytes(pid)
            if megabytes is None:
                continue
            if _name(pid) == "java":
                jvm += megabytes
            else:
                workers.append(megabytes)
        for kind, found in zip(KINDS, (driver, jvm, sum(workers), max(workers)), strict=True):
            self.megabytes[kind] = max(self.megabytes.get(kind, 0), found)


def _megabytes(pid: int) -> int | None:
    """PSS: pages that workers share with the process they were forked from count once, not once a worker."""
    try:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return None
    return next((int(line.split()[1]) // 1024 for line in rollup.splitlines() if line.startswith("Pss:")), 0)


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def _descendants(pid: int) -> list[int]:
    """Processes below one."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except (OSError, IndexError):
                continue
            children.setdefault(parent, []).append(int(entry.name))
    found, waiting = [], [pid]
    while waiting:
        for child in children.get(waiting.pop(), []):
            found.append(child)
            waiting.append(child)
    return found
