"""The engine of the support desk, put together in one place."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from capgate import ApprovalConfig, AuditConfig, Engine, Pipeline
from capgate.audit import AuditSink
from capgate.call import Clock
from capgate.engine import Store
from examples.support_desk.desk.customers import customers
from examples.support_desk.desk.directory import Directory
from examples.support_desk.desk.errors import NotFoundError
from examples.support_desk.desk.orders import orders
from examples.support_desk.desk.payments import payments
from examples.support_desk.desk.policies import (
    not_suspended,
    own_countries,
    supervised_agents,
)
from examples.support_desk.desk.reports import reports
from examples.support_desk.desk.stages import BusinessHours, RateWindow
from examples.support_desk.desk.store import RowNotFoundError
from examples.support_desk.desk.tickets import tickets
from examples.support_desk.desk.world import Desk


def desk_pipeline(clock: Clock) -> Pipeline:
    """Return the default pipeline with the desk's two stages in their places."""
    window = RateWindow(clock, limit=2, per=timedelta(minutes=1))
    return (
        Pipeline.default().after("authorization", window).before("execution", BusinessHours(clock))
    )


def build_engine(
    desk: Desk,
    *,
    directory: Directory,
    store: Store,
    audit: Sequence[AuditSink] = (),
    pipeline: Pipeline | None = None,
) -> Engine[Desk]:
    """Return the support desk, ready to call.

    Args:
        desk: What handlers and policies work with; its clock is the engine's.
        directory: Who the bearer tokens stand for.
        store: Where open questions, keys and the audit are kept.
        audit: More sinks; strict, so a write that cannot be recorded does not happen.
        pipeline: Another pipeline than the desk's own.
    """
    return Engine(
        "support-desk",
        version="1.0",
        deps_type=Desk,
        deps=desk,
        libraries=[orders, payments, customers, tickets, reports],
        policies=[supervised_agents, own_countries],
        pipeline=pipeline or desk_pipeline(desk.clock),
        authenticate=directory.authenticate,
        authorize=not_suspended,
        store=store,
        approvals=ApprovalConfig(load_actor=directory.today),
        audit=AuditConfig(list(audit), strict=True),
        exceptions={RowNotFoundError: NotFoundError},
        clock=desk.clock,
    )
