"""A stage of your own: while its switch is on, nobody writes. Run `-m examples.custom_stage`."""

import anyio

import capgate as cg
from capgate.capability import CapabilityView


class ReadOnly(cg.Stage):
    name = "read-only"
    failure_stage = cg.FailureStage.POLICY
    on = False

    def bind(self, capability: CapabilityView) -> cg.Step | cg.Skip:  # once per capability
        reads = capability.side_effect in {"none", "read"}
        return cg.Skip("it only reads") if reads else super().bind(capability)

    def run(self, invocation: cg.Invocation) -> None:  # at every call: raise to refuse
        if self.on:
            raise cg.CapabilityError(cg.ErrorCode.POLICY_DENIED, "Maintenance: reading only.")


switch = ReadOnly()
engine = cg.Engine("notes", pipeline=cg.Pipeline.default().before("execution", switch))


@engine.capability("notes.add")
async def add(text: str) -> str:
    """Add a note."""
    return f"noted: {text}"


async def main() -> None:
    for switch.on in (False, True):
        print(await engine.attempt(add, {"text": "hello"}, actor=cg.Actor("u_1")))


if __name__ == "__main__":
    anyio.run(main)
