"""Stores in a database: approvals, audit and idempotency that survive the process. The only door.

Here: SQLite, and PostgreSQL with the extra `capgate[postgres]`. Not here: what a store must do,
which the rooms `approvals`, `idempotency` and `audit` say.
"""

from __future__ import annotations

from capgate.stores.approvals import SqlApprovals
from capgate.stores.audit import SqlAudit
from capgate.stores.idempotency import SqlIdempotency
from capgate.stores.opening import migrate, status
from capgate.stores.schema import SchemaStatus
from capgate.stores.store import Store
from capgate.stores.unfinished import Unfinished

__all__ = [
    # One database for all three
    "Store",
    "Unfinished",
    # One each
    "SqlApprovals",
    "SqlAudit",
    "SqlIdempotency",
    # The schema
    "SchemaStatus",
    "migrate",
    "status",
]
