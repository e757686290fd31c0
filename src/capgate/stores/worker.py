"""The one thread that talks to a database: jobs go in from any event loop, answers come back.

Nothing here knows what a job does.
"""

from __future__ import annotations

import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import anyio
import anyio.to_thread

from capgate.call import current_watch

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class Job(Generic[T]):
    """One piece of work, and what became of it; any task of its event loop can wait for it."""

    __slots__ = ("_done", "_failure", "_lock", "_result", "_taken", "_watch", "_work")

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._watch = current_watch()
        self._done = anyio.Event()
        self._lock = threading.Lock()
        self._taken = False
        self._failure: BaseException | None = None
        self._result: T | None = None

    def run(self) -> None:
        """Do it in the thread, unless its task has gone by then."""
        if not self.take():
            return
        try:
            self._result = self._work()
        except BaseException as error:  # for the task to raise
            self._failure = error
        self._watch.post(self._done.set)

    def take(self) -> bool:
        """Tell whether the caller is the first to take it."""
        with self._lock:
            first, self._taken = not self._taken, True
        return first

    async def wait(self) -> T:
        """Return what it returned, or raise what it raised."""
        await self._done.wait()
        if self._failure is not None:
            raise self._failure
        return cast("T", self._result)


class Worker:
    """Runs jobs one after another in a thread of its own, started by the first one.

    Args:
        name: The thread's.
        close: What the thread does last.
    """

    __slots__ = ("_close", "_closed", "_jobs", "_lock", "_name", "_thread")

    def __init__(self, name: str, close: Callable[[], None]) -> None:
        """See the class."""
        self._name = name
        self._close = close
        self._jobs: SimpleQueue[Job[Any] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._lock = threading.Lock()

    def post(self, work: Callable[[], T]) -> Job[T]:
        """Have `work` done in the thread, whether or not anybody waits for it.

        Raises:
            RuntimeError: The worker has been closed.
        """
        job = Job(work)
        with self._lock:
            if self._closed:
                raise RuntimeError("the store is closed")
            self._start()
            self._jobs.put(job)
        return job

    async def run(self, work: Callable[[], T]) -> T:
        """Do `work` in the thread and return what it returned.

        A task that is cancelled while its job runs does not learn how the job ended.

        Raises:
            RuntimeError: The worker has been closed.
            BaseException: Whatever `work` raised.
        """
        job = self.post(work)
        try:
            return await job.wait()
        except BaseException:
            # What has not begun never will; what has begun ends, and its answer is lost.
            job.take()
            raise
        finally:
            del job  # or what it raised would hold itself alive

    def _start(self) -> None:
        if self._thread is None:
            # A process that ends does not wait for a store nobody closed: commits are whole.
            self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            self._thread.start()

    def _work(self) -> None:
        try:
            while True:
                job = self._jobs.get()
                if job is None:
                    return
                job.run()
                del job  # what was asked last must not outlive its answer
        finally:
            self._close()

    async def aclose(self) -> None:
        """Take no more jobs, do those that wait, and end the thread."""
        with self._lock:
            thread, closed, self._closed = self._thread, self._closed, True
            if thread is not None and not closed:
                self._jobs.put(None)
        if thread is not None:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(thread.join)
