"""One database for everything an engine keeps."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from capgate.audit import AuditEvent, freeze
from capgate.stores.approvals import SqlApprovals
from capgate.stores.audit import SqlAudit
from capgate.stores.idempotency import SqlIdempotency
from capgate.stores.opening import database_of
from capgate.stores.text import page_size
from capgate.stores.unfinished import Unfinished, check_settling, settle, unfinished

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Literal, Self

    from capgate.call import Actor
    from capgate.stores.database import Db


class Store:
    """Approvals, audit and idempotency on one database: `Engine(store=Store("sqlite:///app.db"))`.

    A file is made, and the tables brought up to date, when the engine is entered or at first use.
    An engine that was entered closes it.

    Args:
        url: `sqlite:///FILE`, `sqlite:////ABSOLUTE/FILE` or `postgresql://USER@HOST/NAME`.

    Raises:
        ConfigurationError: Not such a URL.
    """

    __slots__ = ("_database", "approvals", "audit", "idempotency")

    approvals: SqlApprovals
    audit: SqlAudit
    idempotency: SqlIdempotency

    def __init__(self, url: str) -> None:
        """See the class."""
        self._database = database_of(url)
        self.audit = SqlAudit(self._database)
        self.approvals = SqlApprovals(self._database, chain=self.audit.chain)
        self.idempotency = SqlIdempotency(self._database, chain=self.audit.chain)

    async def open(self) -> None:
        """Open the database now.

        Raises:
            ConfigurationError: It is of a newer version of capgate.
            Exception: Whatever the driver raises: it cannot be opened or written.
        """
        await self._database.open()

    async def unfinished(self, limit: int = 100, *, entered: bool = True) -> list[Unfinished]:
        """Return executions that began and of whose end there is no word, oldest first.

        Those of a process that died, whose effect is unknown; and those that run at this moment.
        Nothing runs them again by itself.

        Args:
            limit: The most to return.
            entered: False for those instead that hold a key and had not come to their handler,
                so that nothing has happened.

        Raises:
            ValueError: The limit is below 1.
        """
        size = page_size(limit)
        return await self._database.transact(lambda db: unfinished(db, size, entered=entered))

    async def settle(
        self,
        execution_id: str,
        outcome: Literal["done", "none"],
        *,
        by: Actor,
        comment: str | None = None,
    ) -> None:
        """Say what became of an unfinished execution; the audit keeps who said so.

        Its approval stays spent. Its idempotency key is freed if nothing has happened, and
        answers with a failure otherwise.

        Args:
            execution_id: The execution; of a process that is no more.
            outcome: `done` if its effect has happened, `none` if it has not.
            by: Who found out.
            comment: Their words, for the audit.

        Raises:
            LookupError: There is no such unfinished execution.
            TypeError, ValueError: An argument that cannot be.
        """
        effect = check_settling(execution_id, outcome, by, comment)
        data = freeze({"effect": effect.value, "comment": comment})

        def run(db: Db) -> None:
            self.audit.chain.take_turn(db)
            settled = settle(db, execution_id, effect)
            event = AuditEvent(
                "capability.settled",
                datetime.now(UTC),
                actor=by.ref,
                execution_id=execution_id,
                capability_id=settled.capability_id,
                data=data,
            )
            self.audit.chain.append(db, [event.to_dict()])

        await self._database.transact(run)

    async def aclose(self) -> None:
        """Finish what was asked and close the database."""
        await self._database.aclose()

    async def __aenter__(self) -> Self:
        """Open the database."""
        await self.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the database."""
        await self.aclose()
