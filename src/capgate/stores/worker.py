"""The threads that talk to a database: jobs go in from any event loop, answers come back.

Nothing here knows what a job does.
"""

from __future__ import annotations

import os
import threading
from contextlib import nullcontext, suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast
from weakref import WeakSet

import anyio
import anyio.to_thread

from capgate.call import at_fork, current_watch

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
_GROUP: Final = 64
"""The most jobs in a group."""


class Job(Generic[T]):
    """One piece of work, and what became of it; any task of its event loop can wait for it."""

    __slots__ = ("_done", "_failure", "_lock", "_result", "_taken", "_watch", "grouped", "work")

    def __init__(self, work: Callable[..., T], *, grouped: bool = False) -> None:
        self.work: Callable[..., T] = work
        self.grouped: bool = grouped
        self._watch = current_watch()
        self._done = anyio.Event()
        self._lock = threading.Lock()
        self._taken = False
        self._failure: BaseException | None = None
        self._result: T | None = None

    def run(self) -> None:
        """Do it in a thread, unless its task has gone by then."""
        if self.take():
            self.attempt(self.work)

    def attempt(self, work: Callable[[], T]) -> None:
        """Do `work` for it, once it has been taken."""
        try:
            result = work()
        except BaseException as error:  # for the task to raise
            self.fail(error)
        else:
            self.finish(result)

    def finish(self, result: T) -> None:
        """Hand over what it returned."""
        self._result = result
        self._watch.post(self._done.set)

    def fail(self, error: BaseException) -> None:
        """Hand over what it raised."""
        self._failure = error
        self._watch.post(self._done.set)

    def take(self) -> bool:
        """Tell whether the caller is the first to take it."""
        with self._lock:
            first, self._taken = not self._taken, True
        return first

    def unless_taken(self, act: Callable[[], None]) -> bool:
        """Do something if nobody has taken it yet, and tell whether that was so."""
        with self._lock:
            if not self._taken:
                act()
            return not self._taken

    async def end(self) -> None:
        """Wait until it has ended, however."""
        await self._done.wait()

    async def wait(self) -> T:
        """Return what it returned, or raise what it raised."""
        await self._done.wait()
        if self._failure is not None:
            raise self._failure
        return cast("T", self._result)


class Worker:
    """Runs jobs in threads of its own, each started when there is work for it.

    Args:
        name: The threads'.
        close: What each thread does last.
        threads: How many jobs can run at once; with one, they run one after another.
        run_group: Takes and does the jobs that may be done as a group: as many as wait at that
            moment if there is one thread, one at a time if others could do them meanwhile.
    """

    __slots__ = (
        "__weakref__",
        "busy",
        "_close",
        "_closed",
        "_jobs",
        "_lock",
        "_most",
        "_name",
        "_process",
        "_threads",
        "_run_group",
    )

    def __init__(
        self,
        name: str,
        close: Callable[[], None],
        *,
        threads: int = 1,
        run_group: Callable[[list[Job[Any]]], None] | None = None,
    ) -> None:
        """See the class."""
        self._name = name
        self._close = close
        self._most = threads
        self._run_group = run_group
        self._closed = False
        self._begin()
        if threads == 1:
            _alone.add(self)

    def _begin(self) -> None:
        """Start with no thread: a new worker, or one in a process that was forked from its own."""
        self._process = os.getpid()
        self._jobs: SimpleQueue[Job[Any] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        # Held while the thread of a file is at work: see `_hold`.
        self.busy: threading.Lock = threading.Lock()

    def post(self, work: Callable[..., T], *, grouped: bool = False) -> Job[T]:
        """Have `work` done in a thread, whether or not anybody waits for it.

        Raises:
            RuntimeError: The worker has been closed.
        """
        job = Job(work, grouped=grouped)
        if self._process != os.getpid():
            self._begin()
        with self._lock:
            if self._closed:
                raise RuntimeError("the store is closed")
            self._jobs.put(job)
            try:
                self._start()
            except BaseException:
                job.take()  # whoever is told that it failed does not want it done later
                raise
        return job

    async def run(self, work: Callable[..., T], *, grouped: bool = False) -> T:
        """Do `work` in a thread and return what it returned.

        A task that is cancelled while its job runs does not learn how the job ended.

        Raises:
            RuntimeError: The worker has been closed.
            BaseException: Whatever `work` raised.
        """
        job = self.post(work, grouped=grouped)
        try:
            return await job.wait()
        except BaseException:
            # What has not begun never will; what has begun ends, and its answer is lost. Where
            # another thread could overtake it, what the caller does next must come after it.
            if not job.take() and self._most > 1:
                await current_watch().shielded(job.end())
            raise
        finally:
            del job  # or what it raised would hold itself alive

    def _start(self) -> None:
        """Start a thread for what nobody has taken yet, while there may be more of them."""
        if self._threads and (len(self._threads) == self._most or self._jobs.empty()):
            return
        # A process that ends does not wait for a store nobody closed: commits are whole.
        thread = threading.Thread(target=self._work, name=self._name, daemon=True)
        thread.start()
        self._threads.append(thread)

    def _work(self) -> None:
        jobs: list[Job[Any] | None] = []
        try:
            while (job := jobs.pop() if jobs else self._jobs.get()) is not None:
                with self.busy if self._most == 1 else nullcontext():
                    if job.grouped and self._run_group is not None:
                        jobs = self._do_group([job])
                    else:
                        job.run()
                del job  # what was asked last must not outlive its answer
        finally:
            self._close()

    def _do_group(self, jobs: list[Job[Any]]) -> list[Job[Any] | None]:
        """Do one job and those that wait behind it; returns the one that ends the group."""
        rest: list[Job[Any] | None] = []
        most = _GROUP if self._most == 1 else 1
        with suppress(Empty):
            while not rest and len(jobs) < most:
                job = self._jobs.get_nowait()
                if job is not None and job.grouped:
                    jobs.append(job)
                else:
                    rest.append(job)
        if self._run_group is not None:
            self._run_group(jobs)
        return rest

    async def aclose(self) -> None:
        """Take no more jobs, do those that wait, and end the threads."""
        if self._process != os.getpid():
            self._begin()
        with self._lock:
            threads, closed, self._closed = tuple(self._threads), self._closed, True
            for _ in () if closed else threads:
                self._jobs.put(None)
        with anyio.CancelScope(shield=True):
            for thread in threads:
                await anyio.to_thread.run_sync(thread.join)


_alone: Final[WeakSet[Worker]] = WeakSet()
_held: Final[list[threading.Lock]] = []


def _hold() -> None:
    """Have threads of a file finish what they do before a fork.

    What SQLite knows of its locks is copied into the child, where nobody would ever release them.
    """
    for worker in list(_alone):
        lock = worker.busy
        lock.acquire()
        _held.append(lock)


def _let_go() -> None:
    while _held:
        _held.pop().release()


at_fork(before=_hold, in_parent=_let_go, in_child=_let_go)
