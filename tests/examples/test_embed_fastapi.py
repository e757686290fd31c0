"""The FastAPI service translates faithfully, in process, without a network."""

import json

import anyio
import httpx
import pytest

from capgate.audit import MemoryAudit
from examples.embed_fastapi.rooms import build_engine
from examples.embed_fastapi.service import create_app


@pytest.fixture
def audit():
    return MemoryAudit()


@pytest.fixture
def app(audit):
    return create_app(build_engine(audit=audit))


@pytest.fixture
async def client(app):
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://rooms.test") as client:
        yield client


def bearer(who):
    return {"Authorization": f"Bearer sample-{who}"}


async def book(client, hours, who="member", **headers):
    body = {"room": "attic", "hours": hours}
    return await client.post(
        "/capabilities/rooms.book", json=body, headers={**bearer(who), **headers}
    )


async def test_a_call_returns_its_output(client):
    """A completed call is 200 with the output as JSON."""
    reply = await book(client, 2)
    assert (reply.status_code, reply.json()) == (200, {"room": "attic", "hours": 2})


async def test_a_public_capability_needs_no_token(client):
    """No body and no token are fine where nobody has to be known."""
    reply = await client.post("/capabilities/rooms.list")
    assert (reply.status_code, reply.json()) == (200, ["attic", "cellar", "garden"])


@pytest.mark.parametrize(
    ("path", "headers", "status", "code"),
    [
        ("rooms.sell", bearer("member"), 404, "CAPABILITY_NOT_FOUND"),
        ("rooms.book", {}, 401, "UNAUTHENTICATED"),
        ("rooms.book", bearer("nobody"), 401, "UNAUTHENTICATED"),
    ],
)
async def test_refusals_have_the_public_shape(client, path, headers, status, code):
    """Each refusal is the public error, under the status of its public code."""
    reply = await client.post(
        f"/capabilities/{path}", json={"room": "attic", "hours": 2}, headers=headers
    )
    assert (reply.status_code, reply.json()["code"]) == (status, code)
    assert set(reply.json()) == {"code", "message", "retryable"}
    assert ("www-authenticate" in reply.headers) == (status == 401)


async def test_invalid_input_says_what_to_mend(client):
    """Issues name the path and the rule, never the value."""
    reply = await book(client, 99)
    assert reply.status_code == 422
    (issue,) = reply.json()["details"]["issues"]
    assert "hours" in issue["path"]
    assert "99" not in reply.text


async def test_a_domain_error_shows_its_details(client):
    """What the author declared may be shown."""
    await book(client, 2)
    reply = await book(client, 3)
    assert reply.status_code == 422
    assert reply.json()["details"] == {"reason": "ROOM_TAKEN", "room": "attic"}


async def test_a_repeat_with_its_key_books_once(client):
    """The Idempotency-Key header makes a repeat harmless."""
    first = await book(client, 2, **{"Idempotency-Key": "k1"})
    second = await book(client, 2, **{"Idempotency-Key": "k1"})
    assert (first.status_code, second.status_code) == (200, 200)
    assert first.json() == second.json()


async def test_an_approval_is_asked_for_decided_and_resumed(client):
    """Three requests by two people: 202, approve, resume."""
    asked = await book(client, 8)
    assert asked.status_code == 202
    where = asked.headers["location"]
    early = await client.post(f"{where}/resume", headers=bearer("member"))
    assert (early.status_code, early.json()["code"]) == (409, "APPROVAL_PENDING")
    decided = await client.post(f"{where}/approve", headers=bearer("keeper"))
    assert (decided.status_code, decided.json()["status"]) == (200, "approved")
    done = await client.post(f"{where}/resume", headers=bearer("member"))
    assert (done.status_code, done.json()) == (200, {"room": "attic", "hours": 8})


async def test_nobody_approves_their_own_or_without_the_permission(client):
    """SI-4: the engine's answers come through as 403."""
    where = (await book(client, 8, who="keeper")).headers["location"]
    own = await client.post(f"{where}/approve", headers=bearer("keeper"))
    other = await client.post(f"{where}/approve", headers=bearer("member"))
    assert (own.status_code, own.json()["code"]) == (403, "APPROVAL_SELF_APPROVAL")
    assert (other.status_code, other.json()["code"]) == (403, "FORBIDDEN")


async def test_an_approval_exists_for_its_requester_only(client):
    """A stranger gets what an unknown id gets, byte for byte."""
    where = (await book(client, 8)).headers["location"]
    own = await client.get(where, headers=bearer("member"))
    assert own.json()["status"] == "pending"
    assert "hours" not in own.text
    strange = await client.get(where, headers=bearer("other"))
    unknown = await client.get("/approvals/apr_unknown", headers=bearer("other"))
    assert strange.status_code == unknown.status_code == 404
    assert strange.content == unknown.content


async def test_the_list_is_what_the_caller_may_see(client):
    """Discovery comes from the engine."""
    reply = await client.get("/capabilities", headers=bearer("member"))
    assert {each["id"] for each in reply.json()} == {"rooms.list", "rooms.inspect", "rooms.book"}


async def test_a_client_that_leaves_cancels_its_call(app, audit):
    """The disconnect reaches the token; the call ends long before its thirty seconds."""
    incoming = [{"type": "http.request", "body": b"{}", "more_body": False}]

    async def receive():
        if incoming:
            return incoming.pop()
        while not audit.of_type("capability.started"):
            await anyio.lowlevel.checkpoint()
        return {"type": "http.disconnect"}

    sent = []

    async def send(message):
        sent.append(message)

    with anyio.fail_after(10):
        await app(_scope("/capabilities/rooms.inspect"), receive, send)
    (ended,) = audit.of_type("capability.cancelled")
    assert ended.data["code"] == "CANCELLED"
    assert sent[0]["status"] == 499


def _scope(path):
    headers = [(b"authorization", b"Bearer sample-member"), (b"content-type", b"application/json")]
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": headers,
        "server": ("rooms.test", 80),
        "client": ("127.0.0.1", 1),
    }


async def test_the_service_runs_its_engine(app):
    """The application's lifespan enters the engine and drains it."""
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://rooms.test") as client:
            reply = await client.post("/capabilities/rooms.list")
    assert json.loads(reply.content)[0] == "attic"
