"""The form of one value, input or output, whatever it was declared with. Only the record."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Never, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from capgate.call import Argument
    from capgate.errors import JSON


Refuse: TypeAlias = "Callable[[object, Exception], Never]"


class Judging(NamedTuple):
    """How `validate` judges where one look is enough, for those who do it in place.

    Args:
        run: Judges a raw value.
        honest: The exact types whose values `run` may be given as they are.
        admit: Prepares any other.
        refuse: Raises the violation that a raw value's exception amounts to, from that exception.
    """

    run: Callable[[object], Argument]
    honest: frozenset[type]
    admit: Callable[[object], object]
    refuse: Refuse


class Shape(NamedTuple):
    """What can be done with a value of one form. Every function raises `ContractViolation`.

    Args:
        schema: Its JSON Schema, frozen.
        flat: Every value is a dict of immutable values.
        max_depth: How many containers may stand inside one another.
        validate: Judges a raw value; the result shares nothing mutable with it.
        copy: Copies a validated value.
        dump: Gives a validated value's JSON form.
        restore: Gives the value whose dump is this JSON, validators not applied again.
        prove: Dumps, once it is certain that restoring gives back this very value.
        judging: What `validate` does, None where that takes more than one look.
    """

    schema: Mapping[str, JSON]
    flat: bool
    max_depth: int
    validate: Callable[[object], Argument]
    copy: Callable[[Argument], Argument]
    dump: Callable[[Argument], JSON]
    restore: Callable[[JSON], Argument]
    prove: Callable[[Argument], JSON]
    judging: Judging | None = None
