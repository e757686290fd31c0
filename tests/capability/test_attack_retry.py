"""`Retry.when` answers when it is called: anything that answers later is refused."""

from __future__ import annotations

import functools

import pytest

from capgate import ConfigurationError, Retry


async def later(error):
    return False


def generator(error):
    yield False


async def both(error):
    yield False


class Callable:
    """An object whose call is async."""

    async def __call__(self, error):
        return False


WRONG = [later, generator, both, Callable(), functools.partial(later), Callable().__call__]


@pytest.mark.parametrize("when", WRONG)
def test_when_must_be_a_plain_function(when):
    """An async function or a generator would always count as yes, so it is refused."""
    with pytest.raises(ConfigurationError) as caught:
        Retry(2, when=when)
    assert [issue.where for issue in caught.value.issues] == ["retry.when"]


def test_plain_callables_are_accepted():
    """Functions, partials and classes that answer at once are fine."""
    for when in (bool, lambda _error: True, functools.partial(isinstance, int), None):
        assert Retry(2, when=when).when is when
