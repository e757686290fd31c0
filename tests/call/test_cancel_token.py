"""The caller's token: fired once, from anywhere, told to everybody who listens."""

from __future__ import annotations

import threading

import pytest

from capgate import CancelToken


def test_a_token_starts_unfired():
    """A new token has not fired and has no reason."""
    token = CancelToken()
    assert (token.cancelled, token.reason) == (False, None)


@pytest.mark.parametrize("method", ["cancel", "cancel_from_thread"])
def test_firing_is_idempotent(method):
    """The first firing counts, reason included."""
    token = CancelToken()
    getattr(token, method)("first")
    getattr(token, method)("second")
    token.cancel()
    assert (token.cancelled, token.reason) == (True, "first")


@pytest.mark.parametrize("reason", [1, b"x", object()])
def test_a_reason_is_text(reason):
    """Another type of reason is a TypeError, and the token stays unfired."""
    token = CancelToken()
    with pytest.raises(TypeError):
        token.cancel(reason)
    assert not token.cancelled


def test_every_listener_is_told_once():
    """Each listener is told once, and whether the firing came by `cancel_from_thread`."""
    token, told = CancelToken(), []
    token.subscribe("a", lambda threaded: told.append(("a", threaded)))
    token.subscribe("b", lambda threaded: told.append(("b", threaded)))
    token.cancel_from_thread()
    token.cancel()
    assert told == [("a", True), ("b", True)]


def test_a_late_listener_is_told_at_once():
    """Who subscribes to a fired token is told at once."""
    token, told = CancelToken(), []
    token.cancel()
    token.subscribe("a", told.append)
    assert told == [False]


def test_who_left_is_not_told():
    """After `unsubscribe` nothing is told; leaving twice is harmless."""
    token, told = CancelToken(), []
    token.subscribe("a", told.append)
    token.unsubscribe("a")
    token.unsubscribe("a")
    token.cancel()
    assert told == []


def test_a_listener_may_touch_the_token():
    """A listener may fire, leave or look without a deadlock, as a signal handler would."""
    token, told = CancelToken(), []

    def listener(threaded):
        token.cancel("again")
        token.unsubscribe("a")
        told.append(token.reason)

    token.subscribe("a", listener)
    token.cancel("first")
    assert told == ["first"]


def test_many_threads_fire_once():
    """Fired from many threads at once, each listener is told once."""
    token, told = CancelToken(), []
    token.subscribe("a", told.append)
    threads = [threading.Thread(target=token.cancel_from_thread, args=(str(n),)) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert told == [True]
    assert token.reason in {str(n) for n in range(20)}


def test_a_token_has_no_other_attributes():
    """Nothing can be hung on a token."""
    with pytest.raises(AttributeError):
        CancelToken().extra = 1
