"""What a person at a terminal sees of a job: one line, with the step it is at."""

from __future__ import annotations

import sys
import threading
import time
from typing import TextIO

INTERVAL = 0.5
"""Seconds between two looks at the clock."""

WIDTH = 100


class Progress:
    """A line that says at which step a job is, of how many, and for how long. Silent where there is no terminal.

    Parameters
    ----------
    stream : where the line goes.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._shows = self._stream.isatty()
        self._lock = threading.Lock()
        self._text = ""
        self._steps = self._at = 0
        self._began = 0.0
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self, steps: int) -> None:
        """A job of so many steps begins."""
        self._steps, self._at, self._began = steps, 0, time.monotonic()
        self._stop.clear()
        if self._shows and self._thread is None:
            self._thread = threading.Thread(target=self._run, name="progress", daemon=True)
            self._thread.start()

    def step(self, what: str) -> None:
        """The next step begins, and what it is about."""
        self._at += 1
        self._text = what
        self._show()

    def end(self) -> None:
        """The job has ended: the line goes."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
            self.clear()

    def clear(self) -> None:
        """Takes the line away, so that something else can be written."""
        if self._shows:
            with self._lock:
                self._stream.write("\r\x1b[K")
                self._stream.flush()

    def _run(self) -> None:
        while not self._stop.wait(INTERVAL):
            self._show()

    def _show(self) -> None:
        if not self._shows or not self._text or self._stop.is_set():
            return
        seconds = time.monotonic() - self._began
        line = f"[{self._at}/{max(self._at, self._steps)}] {self._text}, {seconds:.0f} s"
        with self._lock:
            self._stream.write(f"\r\x1b[K{line[:WIDTH]}")
            self._stream.flush()
