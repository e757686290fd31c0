"""The settings of an engine's approvals, checked when they are written down."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from capgate.approvals.plain import is_array
from capgate.approvals.record import ApprovalDecision, ApprovalRecord
from capgate.call import Actor, Duration, to_seconds
from capgate.errors import ConfigurationError, Issue

if TYPE_CHECKING:
    from capgate.approvals.store import ApprovalStore

ApprovalHandler: TypeAlias = Callable[[ApprovalRecord], Awaitable[ApprovalDecision | None]]
LoadActor: TypeAlias = Callable[[Actor], Awaitable[Actor | None]]

MIN_KEY_BYTES: Final = 16
STORE_METHODS: Final = (
    "create",
    "get",
    "decide",
    "consume",
    "release",
    "withdraw",
    "find",
    "expire_due",
)


@dataclass(frozen=True, slots=True)
class ApprovalConfig:
    """How one engine asks for approvals and resumes them.

    Args:
        store: Where requests are kept; None for the engine's store, or memory.
        handler: Asked within the call; None from it defers to the store.
        keys: Secrets of at least 16 bytes that seal records: the first signs, all verify.
        contract: `exact` refuses to resume when the capability has changed since;
            `compatible` lets today's contract judge the stored input.
        load_actor: Given the requester as stored, returns who that is today, or None.
        expire_every: Seconds, or a timedelta, between two passes that mark lapsed requests, while
            the engine is entered. None: they are marked when somebody looks.

    Raises:
        ConfigurationError: Naming every setting that is wrong.
    """

    store: ApprovalStore | None = None
    handler: ApprovalHandler | None = field(default=None, kw_only=True)
    keys: Sequence[bytes] = field(default=(), kw_only=True, repr=False)
    contract: Literal["exact", "compatible"] = field(default="exact", kw_only=True)
    load_actor: LoadActor | None = field(default=None, kw_only=True)
    expire_every: Duration | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        """Refuse what could only fail later, and keep the keys as a tuple."""
        issues = [*_store_issues(self.store), *_key_issues(self.keys), *_other_issues(self)]
        if issues:
            raise ConfigurationError(issues)
        object.__setattr__(self, "keys", tuple(self.keys))


def _store_issues(store: object) -> Iterator[Issue]:
    if store is None:
        return
    missing = [name for name in STORE_METHODS if not callable(getattr(store, name, None))]
    if isinstance(store, type) or missing:
        lacks = f" lacks {', '.join(missing)}" if missing else " is a class, not an instance"
        yield _issue(f"store{lacks}", "store")


def _key_issues(keys: object) -> Iterator[Issue]:
    if not is_array(keys):
        yield _issue("keys must be a list or tuple of bytes", "keys")
        return
    for place, key in enumerate(keys):
        if not isinstance(key, bytes) or len(key) < MIN_KEY_BYTES:
            yield _issue(f"a key must be bytes, at least {MIN_KEY_BYTES}", f"keys[{place}]")


def _other_issues(config: ApprovalConfig) -> Iterator[Issue]:
    contract: object = config.contract
    if contract not in ("exact", "compatible"):
        yield _issue("contract must be 'exact' or 'compatible'", "contract")
    for name in ("handler", "load_actor"):
        given: object = getattr(config, name)
        if given is not None and not callable(given):
            yield _issue(f"{name} must be an async callable or None", name)
    if config.expire_every is not None:
        try:
            to_seconds(config.expire_every, "expire_every")
        except TypeError as error:
            yield _issue(str(error), "expire_every")


def _issue(message: str, where: str) -> Issue:
    return Issue("APPROVAL_CONFIG_INVALID", message, f"approvals.{where}")
