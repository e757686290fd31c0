"""The caller's own way to stop a call."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class CancelToken:
    """A switch that a caller holds; once fired it stays fired.

    One token may serve many calls. `cancel` belongs to the event loop's thread,
    `cancel_from_thread` may come from anywhere, signal handlers included.
    """

    __slots__ = ("_fired", "_listeners", "_lock", "_reason")

    def __init__(self) -> None:
        """Start unfired."""
        self._fired = False
        self._reason: str | None = None
        self._listeners: dict[object, Callable[[bool], None]] = {}
        # Reentrant: a signal handler may fire the token while this thread holds the lock.
        self._lock = threading.RLock()

    @property
    def cancelled(self) -> bool:
        """Whether the token has fired."""
        return self._fired

    @property
    def reason(self) -> str | None:
        """Why it fired, in the words of whoever fired it first; private to the process."""
        return self._reason

    def cancel(self, reason: str | None = None) -> None:
        """Fire the token from the event loop's thread; a second time changes nothing."""
        self._fire(reason, threaded=False)

    def cancel_from_thread(self, reason: str | None = None) -> None:
        """Fire the token from any thread; each call's loop sees it as soon as it runs."""
        self._fire(reason, threaded=True)

    def _fire(self, reason: object, *, threaded: bool) -> None:
        if reason is not None and not isinstance(reason, str):
            raise TypeError("reason must be a str or None")
        with self._lock:
            if self._fired:
                return
            self._reason = reason
            self._fired = True
            listeners = list(self._listeners.values())
        for listener in listeners:
            listener(threaded)

    def subscribe(self, key: object, listener: Callable[[bool], None]) -> None:
        """Have `listener(threaded)` called once when the token fires; for the engine's use."""
        with self._lock:
            fired = self._fired
            if not fired:
                self._listeners[key] = listener
        if fired:
            listener(False)

    def unsubscribe(self, key: object) -> None:
        """Forget a listener; unknown keys are ignored."""
        with self._lock:
            self._listeners.pop(key, None)
