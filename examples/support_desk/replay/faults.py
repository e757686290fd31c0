"""The faults that a recorded line can name; each holds for that line only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeAlias, cast

from capgate import CancelToken
from capgate.approvals import ApprovalRecord
from examples.support_desk.desk.errors import CourierBusyError
from examples.support_desk.desk.world import Tracking
from examples.support_desk.replay.rig import Rig

Fault: TypeAlias = Callable[[Rig, CancelToken], None]


def _alter(record: ApprovalRecord) -> ApprovalRecord:
    return replace(record, input={**record.input, "amount": "9999.00"})


def _altered_record(rig: Rig, _: CancelToken) -> None:
    rig.store.approvals.alter = _alter


def _approvals_down(rig: Rig, _: CancelToken) -> None:
    rig.store.approvals.up = False


def _audit_down(rig: Rig, _: CancelToken) -> None:
    rig.sink.up = False


def _directory_down(rig: Rig, _: CancelToken) -> None:
    rig.directory.down = True


def _scores_down(rig: Rig, _: CancelToken) -> None:
    rig.desk.scores.down = True


def _courier_busy(rig: Rig, _: CancelToken) -> None:
    rig.desk.courier.script.append(CourierBusyError())


def _courier_nonsense(rig: Rig, _: CancelToken) -> None:
    answer = cast("Tracking", {"order_id": "ord_0003", "place": "on the moon"})
    rig.desk.courier.script.append(answer)


def _courier_breaks(rig: Rig, _: CancelToken) -> None:
    rig.desk.courier.script.append(RuntimeError("courier refused key sample-private-key"))


def _gateway_silent(rig: Rig, _: CancelToken) -> None:
    rig.desk.gateway.answers_to_lose = 1


def _archive_slow(rig: Rig, _: CancelToken) -> None:
    rig.desk.archive.pause = 30.0


def _caller_gives_up(rig: Rig, token: CancelToken) -> None:
    def on_page(page: int) -> None:
        if page == 2:
            token.cancel("the caller went home")

    rig.desk.archive.on_page = on_page


def _caller_gave_up(_: Rig, token: CancelToken) -> None:
    token.cancel("the caller had gone already")


FAULTS: Final[dict[str, Fault]] = {
    "approval-record-altered": _altered_record,
    "approval-store-down": _approvals_down,
    "audit-down": _audit_down,
    "directory-down": _directory_down,
    "fraud-scores-down": _scores_down,
    "courier-busy": _courier_busy,
    "courier-answers-nonsense": _courier_nonsense,
    "courier-breaks": _courier_breaks,
    "gateway-loses-an-answer": _gateway_silent,
    "archive-slow": _archive_slow,
    "caller-gives-up": _caller_gives_up,
    "caller-gave-up-before": _caller_gave_up,
}
