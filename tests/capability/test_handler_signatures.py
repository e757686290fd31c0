"""What a handler may look like, and what is said about one that cannot be a capability."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Generator, Iterable
from typing import TYPE_CHECKING, Annotated

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypeAliasType, TypedDict

from capgate import ConfigurationError, Context

if TYPE_CHECKING:
    from decimal import Decimal


def refused(declare, handler, **options):
    with pytest.raises(ConfigurationError) as caught:
        declare(handler, **options)
    return str(caught.value)


def test_a_parameter_without_annotation_is_named(declare):
    """No annotation and no schema is a configuration error naming the parameter."""

    def handler(a: int, b, c) -> None: ...

    assert "parameter 'b', 'c' has no annotation" in refused(declare, handler)


def test_a_missing_return_annotation_is_named(declare):
    """No return annotation and no output_schema is a configuration error that says so."""

    def handler(a: int): ...

    assert "the return annotation is missing" in refused(declare, handler)


def test_none_is_an_output_contract(contract, issues):
    """`-> None` promises null, and anything else is refused."""

    def handler() -> None: ...

    made = contract(handler)
    assert made.output_schema == {"type": "null"}
    assert made.validate_output(None) is None
    assert issues(made.validate_output, 0) == [{"path": "", "message": "Expected null."}]


def generator(a: int) -> None:
    yield


async def async_generator(a: int) -> None:
    yield


def positional(a: int, /) -> None: ...
def variadic(*a: int) -> None: ...
def keywords(**a: int) -> None: ...


@pytest.mark.parametrize(
    ("handler", "said"),
    [
        (generator, "generators are not capabilities yet"),
        (async_generator, "generators are not capabilities yet"),
        (positional, "'a' must not be positional-only"),
        (variadic, "*a cannot be filled from named fields"),
        (keywords, "**kwargs cannot be described"),
        (BaseModel, "a class is not a handler"),
    ],
)
def test_a_handler_of_the_wrong_kind_is_refused(declare, handler, said):
    """Each kind of handler that cannot work is refused with a message that says why."""
    assert said in refused(declare, handler)


def test_a_name_that_exists_only_for_type_checkers_is_named(declare):
    """An annotation that cannot be resolved at run time is a clear error, not a NameError."""

    def handler(a: Decimal) -> None: ...

    assert "use the name 'Decimal', which cannot be found at run time" in refused(declare, handler)


def test_types_of_the_enclosing_function_are_found(contract):
    """String annotations may name classes that are local to where the handler is declared."""

    class Local(BaseModel):
        a: int

    class Keys(TypedDict):
        b: int

    async def handler(item: Local, keys: Keys, ctx: Context[Local]) -> list[Local]: ...

    made = contract(handler)
    value = made.validate_input({"item": {"a": 1}, "keys": {"b": 2}})
    assert value["item"] == Local(a=1)
    assert made.validate_output([{"a": 2}]) == [Local(a=2)]


class Object:
    def method(self, a: int) -> int:
        return a

    async def __call__(self, a: int) -> int:
        return a


def plain(a: int, b: int = 0) -> int:
    return a + b


@pytest.mark.parametrize(
    ("handler", "is_async"),
    [
        (Object().method, False),
        (Object(), True),
        (functools.partial(plain, b=1), False),
        (plain, False),
    ],
)
def test_anything_callable_can_be_a_handler(declare, handler, is_async):
    """Bound methods, callable objects and partials are read like functions."""
    definition = declare(handler).definition
    assert "a" in definition.contract.input_schema["properties"]
    assert "self" not in definition.contract.input_schema["properties"]
    assert definition.is_async is is_async
    assert definition.contract.output_schema == {"type": "integer"}


def test_an_awaitable_result_is_described_by_what_it_gives(contract):
    """A plain function annotated to return an awaitable promises the awaited value."""

    def handler() -> Awaitable[int]: ...

    assert contract(handler).output_schema == {"type": "integer"}


class Strange: ...


def strange_parameter(fine: int, odd: Strange) -> None: ...
def strange_result() -> Strange: ...


@pytest.mark.parametrize(
    ("handler", "said"),
    [(strange_parameter, "parameter 'odd' cannot be"), (strange_result, "the return annotation")],
)
def test_a_type_without_schema_is_named(declare, handler, said):
    """A type pydantic cannot describe is reported by the parameter that has it."""
    assert said in refused(declare, handler)


def test_a_lazy_iterable_is_refused(declare):
    """Values that are only produced while they are read cannot be captured."""

    def handler(a: Iterable[int]) -> None: ...
    def lazy() -> Generator[int]: ...

    assert "lazy iterable" in refused(declare, handler)
    handler.__annotations__ = {"a": Generator[int], "return": None}
    assert refused(declare, handler)


def test_a_default_that_json_cannot_carry_is_refused(declare):
    """A default is part of the schema: one without a JSON form fails at registration."""

    def handler(a: float = float("nan")) -> None: ...
    def odd(a: int = object()) -> None: ...

    assert "the signature cannot be described" in refused(declare, handler)
    assert "the signature cannot be described" in refused(declare, odd)


def test_a_wrapper_keeps_the_handlers_signature(contract):
    """A decorated function is read through functools.wraps."""

    @functools.wraps(plain)
    def wrapper(*args, **kwargs):
        return plain(*args, **kwargs)

    assert set(contract(wrapper).input_schema["properties"]) == {"a", "b"}


def test_a_builtin_without_signature_is_refused(declare):
    """What Python itself cannot describe cannot be declared."""
    assert "its signature cannot be read" in refused(declare, vars)


def test_an_annotation_that_raises_is_refused(declare):
    """An annotation whose evaluation fails is a configuration error, not a crash."""

    def handler(a: 1 / 0) -> None: ...

    assert "its annotations cannot be read (ZeroDivisionError)" in refused(declare, handler)


def test_only_a_function_can_be_decorated(declare):
    """Something that cannot be called is refused."""
    assert "a capability decorates a function" in refused(declare, 5)


def test_an_alias_of_a_model_is_the_model(contract):
    """A type alias or an Annotated around the only model does not hide that it is the root."""

    class Item(BaseModel):
        a: int

    alias = TypeAliasType("alias", Annotated[Item, "note"])

    def handler(item: alias) -> None: ...

    made = contract(handler)
    assert made.bind(made.validate_input({"a": 1})) == {"item": Item(a=1)}


def test_two_fields_that_only_fail_together_are_refused(declare):
    """Two parameters that are read from one name cannot be told apart."""

    def handler(a: Annotated[int, Field(alias="b")] = 1, b: int = 2) -> None: ...

    assert "two parameters are read from 'b'" in refused(declare, handler)
