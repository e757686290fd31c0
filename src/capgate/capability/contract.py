"""The contract of one capability: what may go in, what may come out, built once.

A contract is two shapes, one for the input and one for the output, and how a validated input
becomes the handler's arguments. How a shape judges is in `typed` and `json_schema`.
"""

from __future__ import annotations

import dataclasses
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import pydantic

from capgate.capability.violation import ContractViolation

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from capgate.call import Argument
    from capgate.capability.shape import Judging, Shape
    from capgate.errors import JSON


class Binding(NamedTuple):
    """How a validated input becomes keyword arguments.

    Args:
        root: The parameter that takes the whole value; None: one parameter per field.
        names: The parameters that take fields, None for all fields there are.
    """

    root: str | None = None
    names: frozenset[str] | None = None


class Contract:
    """What one capability promises about its input and its output.

    Its functions are settled at registration, so a call finds each of them ready:
    `validate_input(raw)`, `copy_input(value)`, `dump_input(value)`, `restore_input(json)` (the
    value whose dump is that JSON, validators not applied again), `prove_input(value)` (the dump,
    once restoring is certain), `arguments(value)` (the top-level fields, read-only),
    `bind(value)` (fresh keyword arguments), `validate_output(raw)`, `dump_output(out)`.

    Raises:
        ContractViolation: From each of them: a value breaks the contract. Issues are value-free,
            the cause is private.
    """

    __slots__ = (
        "_binding",
        "_output",
        "_rebuild",
        "arguments",
        "bind",
        "copy_input",
        "dump_input",
        "dump_output",
        "flat",
        "input_schema",
        "judge_input",
        "judge_output",
        "max_depth",
        "output_schema",
        "prove_input",
        "restore_input",
        "validate_input",
        "validate_output",
    )

    input_schema: Mapping[str, JSON]
    output_schema: Mapping[str, JSON]
    flat: bool
    max_depth: int
    validate_input: Callable[[object], Argument]
    validate_output: Callable[[object], Argument]
    judge_input: Judging | None
    judge_output: Judging | None
    dump_input: Callable[[Argument], JSON]
    dump_output: Callable[[Argument], JSON]
    restore_input: Callable[[JSON], Argument]
    prove_input: Callable[[Argument], JSON]
    copy_input: Callable[[Argument], Argument]
    bind: Callable[[Argument], dict[str, Argument]]
    arguments: Callable[[Argument], Mapping[str, Argument]]

    def __init__(
        self,
        input_: Shape,
        output: Shape,
        binding: Binding,
        *,
        rebuild: Callable[[int], Contract],
    ) -> None:
        """Join two shapes.

        Args:
            input_: The shape of the input; its root is an object.
            output: The shape of the output.
            binding: How the input is handed to the handler.
            rebuild: Makes the same contract with another depth limit.
        """
        self._binding = binding
        self._output = output
        self._rebuild = rebuild
        self.input_schema = input_.schema
        self.output_schema = output.schema
        self.flat = input_.flat
        self.max_depth = input_.max_depth
        self.validate_input = input_.validate
        self.judge_input = input_.judging
        self.judge_output = output.judging
        self.dump_input = input_.dump
        self.restore_input = input_.restore
        self.prove_input = input_.prove
        self.copy_input = input_.copy
        self.validate_output = output.validate
        self.dump_output = output.dump
        self.bind = self._binder()
        self.arguments = self._reader()

    def with_depth(self, max_depth: int) -> Contract:
        """Return this contract with another limit on nesting; itself when it is the same."""
        return self if max_depth == self.max_depth else self._rebuild(max_depth)

    def restore_output(self, stored: JSON) -> Argument:
        """Return a stored output, its validators not applied again where that is possible."""
        try:
            return self._output.restore(stored)
        except ContractViolation:
            return self.validate_output(stored)

    def _reader(self) -> Callable[[Argument], Mapping[str, Argument]]:
        """Return what gives the top-level fields, read-only and shared with nobody."""
        copy = self.copy_input
        if self._binding.root is None:
            return lambda value: MappingProxyType(copy(value))
        return lambda value: MappingProxyType(_fields(copy(value)))

    def _binder(self) -> Callable[[Argument], dict[str, Argument]]:
        """Return what makes the handler's keyword arguments, fresh for each attempt."""
        copy, root, names = self.copy_input, self._binding.root, self._binding.names
        if root is not None:
            return lambda value: {root: copy(value)}
        if names is None:
            return cast("Callable[[Argument], dict[str, Argument]]", copy)
        return lambda value: {k: v for k, v in copy(value).items() if k in names}


def _fields(value: Argument) -> dict[str, Argument]:
    if isinstance(value, pydantic.BaseModel):
        return {**value.__dict__, **(value.__pydantic_extra__ or {})}
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    fields: dict[str, Any] = value
    return fields
