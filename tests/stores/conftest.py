"""A fresh database file for each test."""

import pytest

from capgate.stores import Store


@pytest.fixture
def url(tmp_path):
    """The URL of a file that is not there yet."""
    return f"sqlite:///{tmp_path / 'capgate.db'}"


@pytest.fixture
async def store(url):
    """An open store, closed after the test."""
    async with Store(url) as opened:
        yield opened
