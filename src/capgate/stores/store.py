"""One database for everything an engine keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from capgate.stores.approvals import SqlApprovals
from capgate.stores.audit import SqlAudit
from capgate.stores.idempotency import SqlIdempotency
from capgate.stores.sqlite import Sqlite

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self


class Store:
    """Approvals, audit and idempotency on one database: `Engine(store=Store("sqlite:///app.db"))`.

    The file is made, or brought up to date, when the engine is entered or at first use. An engine
    that was entered closes it.

    Args:
        url: `sqlite:///FILE`; `sqlite:////ABSOLUTE/FILE` for an absolute path.

    Raises:
        ConfigurationError: Not such a URL.
    """

    __slots__ = ("_database", "approvals", "audit", "idempotency")

    approvals: SqlApprovals
    audit: SqlAudit
    idempotency: SqlIdempotency

    def __init__(self, url: str) -> None:
        """See the class."""
        self._database = Sqlite(url)
        self.approvals = SqlApprovals(self._database)
        self.audit = SqlAudit(self._database)
        self.idempotency = SqlIdempotency(self._database)

    async def open(self) -> None:
        """Open the database now.

        Raises:
            ConfigurationError: It is of a newer version of capgate.
            sqlite3.Error: It cannot be opened or written.
        """
        await self._database.open()

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
