"""A web service that embeds an engine: it translates HTTP and decides nothing.

Run it with any ASGI server: `uvicorn --factory examples.embed_fastapi.service:create_app`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Annotated, Any, Literal, TypeAlias

import anyio
from fastapi import APIRouter, Body, Depends, FastAPI, Header, Request
from fastapi.responses import JSONResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from capgate import Actor, CancelToken, CapabilityError, Engine, ErrorCode, public_approval
from examples.embed_fastapi.answers import answer, refusal
from examples.embed_fastapi.rooms import build_engine

router = APIRouter()


def create_app(engine: Engine[None] | None = None) -> FastAPI:
    """Return the service around an engine, by default the sample's own."""
    served = build_engine() if engine is None else engine

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None, None]:
        async with served:  # on shutdown: no new calls, wait, cancel, drain the audit
            yield

    app = FastAPI(title="Meeting rooms", lifespan=lifespan)
    app.state.engine = served
    app.include_router(router)
    app.add_exception_handler(CapabilityError, _on_refusal)
    return app


async def _on_refusal(_: Request, error: Exception) -> JSONResponse:
    return refusal(error)


def _engine(request: Request) -> Engine[None]:
    engine: Engine[None] = request.app.state.engine
    return engine


_scheme = HTTPBearer(auto_error=False)
Bearer: TypeAlias = Annotated[HTTPAuthorizationCredentials | None, Depends(_scheme)]
Served: TypeAlias = Annotated[Engine[None], Depends(_engine)]


def _token(bearer: Bearer) -> str | None:
    return None if bearer is None else bearer.credentials


Token: TypeAlias = Annotated[str | None, Depends(_token)]


async def _actor(engine: Served, token: Token) -> Actor:
    """Return who asks; deciding and resuming is for people the engine knows."""
    if token is None:
        raise CapabilityError(ErrorCode.UNAUTHENTICATED)
    return await engine.authenticate(token)


Known: TypeAlias = Annotated[Actor, Depends(_actor)]
Payload: TypeAlias = Annotated[Any, Body()]


@asynccontextmanager
async def _until_disconnect(request: Request) -> AsyncGenerator[CancelToken, None]:
    """Hold a token that fires when the client goes away."""
    token = CancelToken()

    async def watch() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        token.cancel("the client disconnected")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch)
        yield token
        tasks.cancel_scope.cancel()


@router.get("/capabilities")
async def list_capabilities(engine: Served, token: Token) -> list[dict[str, Any]]:
    """Say what this caller may see here."""
    found = await engine.on("http").discover(credentials=token)
    return [
        {"id": each.id, "description": each.description, "input_schema": each.input_schema}
        for each in found
    ]


@router.post("/capabilities/{capability_id}")
async def call(
    capability_id: str,
    request: Request,
    engine: Served,
    token: Token,
    payload: Payload = None,
    idempotency_key: Annotated[str | None, Header()] = None,
) -> JSONResponse:
    """Call a capability; the engine judges the input, the caller and everything else."""
    async with _until_disconnect(request) as cancel:
        outcome = await engine.on("http").attempt(
            capability_id,
            payload,
            credentials=token,
            cancel=cancel,
            idempotency_key=idempotency_key,
        )
    return answer(outcome)


@router.get("/approvals/{approval_id}")
async def show_approval(approval_id: str, engine: Served, actor: Known) -> JSONResponse:
    """Tell the requester how a request stands; to anybody else it does not exist."""
    record = await engine.approvals.get(approval_id)
    if record.actor != actor:
        raise CapabilityError(ErrorCode.APPROVAL_NOT_FOUND)
    return JSONResponse(public_approval(record))


@router.post("/approvals/{approval_id}/resume")
async def resume(approval_id: str, request: Request, engine: Served, actor: Known) -> JSONResponse:
    """Run what was approved."""
    async with _until_disconnect(request) as cancel:
        outcome = await engine.on("http").attempt_resume(approval_id, actor=actor, cancel=cancel)
    return answer(outcome)


@router.post("/approvals/{approval_id}/{verb}")
async def decide(
    approval_id: str, verb: Literal["approve", "reject"], engine: Served, actor: Known
) -> JSONResponse:
    """Decide a request; the engine knows who is entitled to."""
    approvals = engine.approvals
    answered = approvals.approve if verb == "approve" else approvals.reject
    return JSONResponse(public_approval(await answered(approval_id, by=actor)))
