# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Stateful tests: threads that do what they are told.

Who uses it: machine.py. A worker lives as long as the test wants, so that its heap in the allocator
does too; its end is an operation of its own.
"""

import queue
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

Answer = TypeVar("Answer")
PATIENCE_SECONDS = 120


class Worker:
    """A thread with a queue of calls. The first call starts it."""

    def __init__(self) -> None:
        self.calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self.thread: threading.Thread | None = None

    def _work(self) -> None:
        while (call := self.calls.get()) is not None:
            call()

    def begin(self, function: Callable[[], Answer]) -> Callable[[], Answer]:
        """Has the thread call the function; the result waits for it, and raises what it raised."""
        if self.thread is None:
            self.thread = threading.Thread(target=self._work, daemon=True)
            self.thread.start()
        answers: queue.SimpleQueue[tuple[Answer | None, BaseException | None]] = queue.SimpleQueue()

        def call() -> None:
            try:
                answers.put((function(), None))
            except BaseException as error:
                answers.put((None, error))

        def wait() -> Answer:
            answer, error = answers.get(timeout=PATIENCE_SECONDS)
            if error is not None:
                raise error
            return answer  # type: ignore[return-value]

        self.calls.put(call)
        return wait

    def run(self, function: Callable[[], Answer]) -> Answer:
        """The same, and waits."""
        return self.begin(function)()

    def end(self) -> None:
        """Ends the thread; the next call starts another one."""
        if self.thread is not None:
            self.calls.put(None)
            self.thread.join(PATIENCE_SECONDS)
            assert not self.thread.is_alive(), "the end of a thread does not end"
            self._wait_for_system(Path(f"/proc/self/task/{self.thread.native_id}"))
            self.thread = None

    @staticmethod
    def _wait_for_system(task: Path) -> None:
        """Python calls a thread ended before the allocator has heard of its end."""
        give_up = time.monotonic() + PATIENCE_SECONDS
        while task.exists():
            assert time.monotonic() < give_up, "the end of a thread does not end"
            time.sleep(0.0001)
