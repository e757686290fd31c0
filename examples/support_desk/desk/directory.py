"""Who works here: bearer tokens and the actors they stand for, from `data/actors.json`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from capgate import Actor
from examples.support_desk.desk.store import DATA


class Directory:
    """The identity provider of the sample."""

    def __init__(self, by_token: Mapping[str, Actor]) -> None:
        self._by_token = dict(by_token)
        self._by_id = {actor.id: actor for actor in by_token.values()}
        self.down = False

    @classmethod
    def load(cls, folder: Path = DATA) -> Directory:
        """Read the directory from one folder."""
        entries = json.loads((folder / "actors.json").read_text(encoding="utf-8"))
        return cls({entry.pop("token"): Actor(**entry) for entry in entries})

    def actor(self, id_: str) -> Actor:
        """Return a known actor.

        Raises:
            KeyError: Nobody has this id.
        """
        return self._by_id[id_]

    def actors(self) -> tuple[Actor, ...]:
        """Return everyone, in the order of the file."""
        return tuple(self._by_id.values())

    async def today(self, actor: Actor) -> Actor | None:
        """Return who the actor of a stored request is today, None if nobody any more."""
        return self._by_id.get(actor.id)

    async def authenticate(self, credentials: object) -> Actor | None:
        """Return whom a bearer token stands for, None for a token nobody has.

        Raises:
            ConnectionError: The identity provider does not answer.
        """
        if self.down:
            raise ConnectionError("directory.internal does not answer")
        return self._by_token.get(credentials) if isinstance(credentials, str) else None
