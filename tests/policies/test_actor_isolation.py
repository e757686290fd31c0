"""What a policy or a rule does to the actor it was handed stays with it."""

import pytest

from capgate import Actor, Context, Engine, allow, deny, policy


@policy("first")
def promotes(request):
    request.actor.attributes["roles"].append("admin")
    return allow()


@policy("second")
def admins_only(request):
    return allow() if "admin" in request.actor.attributes["roles"] else deny()


async def test_one_policy_does_not_decide_for_the_next():
    """A policy that changes the actor's attributes changes them for nobody else."""
    engine = Engine("shop", policies=[promotes, admins_only])

    @engine.capability("orders.delete")
    async def delete(order_id: str) -> str:
        """Delete."""
        return order_id

    dana = Actor("u_dana", attributes={"roles": ["clerk"]})
    outcome = await engine.attempt(delete, {"order_id": "o"}, actor=dana)
    assert outcome.error.code == "POLICY_DENIED"


@pytest.mark.parametrize("where", ["rule", "handler"])
async def test_nobody_changes_the_actor_of_a_call(where):
    """A rule's change does not reach the handler, nor the handler's the caller."""

    def rule(request):
        request.actor.attributes["roles"].append("rule")
        return True

    engine = Engine("shop")

    @engine.capability("orders.show", access=rule)
    async def show(ctx: Context) -> list[str]:
        """Show."""
        ctx.actor.attributes["roles"].append("handler")
        return ctx.actor.attributes["roles"]

    dana = Actor("u_dana", attributes={"roles": ["clerk"]})
    assert await engine.invoke(show, actor=dana) == ["clerk"]
    assert dana.attributes["roles"] == ["clerk"]


def test_an_identity_is_exact_text():
    """A str subclass that equals everything is taken as the text it is."""

    class Thief(str):
        __slots__ = ()

        def __eq__(self, other):
            return True

        __hash__ = str.__hash__

    assert Actor(Thief("u_eve")) != Actor("u_dana")
    assert "orders:delete" not in Actor("u_eve", permissions=[Thief("x")]).permissions
