"""The contract of one value whose form is declared by Python types.

Everything is decided here once, from the type: which validator runs, whether its result must be
looked at again, and how it is copied. Documents of JSON Schema are next door.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Never, cast

from pydantic_core import SchemaError, SchemaSerializer, SchemaValidator

from capgate.call import Argument
from capgate.capability.admission import Admit, check_honest, holds_instance
from capgate.capability.canonical import canonical_json
from capgate.capability.core_nodes import is_scalar
from capgate.capability.hardening import Hardened, harden
from capgate.capability.issues import violation_of
from capgate.capability.json_boundary import IMMUTABLE, NotJson, capture, snapshot
from capgate.capability.restoring import Restorer
from capgate.capability.shape import Judging, Shape
from capgate.capability.violation import ContractViolation, violation

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from capgate.errors import JSON

_HONEST_INPUT: Final[frozenset[type]] = frozenset()
_HONEST_FLAT_INPUT: Final[frozenset[type]] = frozenset({dict})
_HONEST_OUTPUT: Final[frozenset[type]] = IMMUTABLE | {dict, list}
_NO_JSON_FORM: Final = "Has no JSON form."


def typed_shape(
    core: Mapping[str, Any],
    schema: Mapping[str, JSON],
    *,
    max_depth: int,
    admit: Admit | None = None,
) -> Shape:
    """Make the shape of one core schema.

    Args:
        core: What pydantic generated.
        schema: Its JSON Schema, frozen.
        max_depth: How many containers may stand inside one another.
        admit: Prepares a raw input; None: it is an output. The dump of an input holds every
            field, also excluded ones, and no computed ones.
    """
    whole = admit is not None
    typed = _Typed(harden(core, max_depth, keep_excluded=whole), max_depth, whole=whole)
    flat = _is_flat(core)
    honest = _HONEST_OUTPUT if not whole else _HONEST_FLAT_INPUT if flat else _HONEST_INPUT
    judging = Judging(typed.run, honest, admit or check_honest, typed.refuse)
    return Shape(
        schema=schema,
        flat=flat,
        max_depth=max_depth,
        validate=typed.validator(judging),
        copy=_copier(core, flat=flat),
        dump=typed.dump,
        restore=typed.restore,
        prove=typed.prove,
        judging=judging if typed.closed else None,
    )


class _Typed:
    """The prepared parts of one shape."""

    def __init__(self, hardened: Hardened, max_depth: int, *, whole: bool) -> None:
        self.run, serializer = _build(hardened)
        self._serialize = serializer.to_python
        self._max_depth = max_depth
        self._whole = whole
        self._shared = hardened.shared
        self._transforms = hardened.transforms and not whole
        # A closed schema promises by itself all that JSON needs; then no value is looked at twice.
        looked_at = hardened.opaque or hardened.shared or self._transforms
        self.closed = not looked_at and hardened.depth <= max_depth
        self._labels = (hardened.limits, hardened.tags)
        self._restorer = Restorer(hardened.schema, self.run, self.dump, max_depth)

    def dump(self, value: Argument) -> JSON:
        """Return the JSON form of a validated value.

        Raises:
            ContractViolation: It has none.
        """
        try:
            written = self._serialize(
                value, mode="json", by_alias=True, round_trip=self._whole, warnings=False
            )
            return written if self.closed else capture(written, self._max_depth)
        except NotJson as error:
            raise self._violation(error, None) from error
        except Exception as error:
            raise violation(_NO_JSON_FORM) from error

    def restore(self, stored: JSON) -> Argument:
        """Return the value whose dump is `stored`, not validated a second time.

        Raises:
            ContractViolation: There is no such value.
        """
        return self._isolated(self._restorer.restore(stored))

    def prove(self, value: Argument) -> JSON:
        """Return the dump of a value, once it is certain that restoring it gives that value.

        Raises:
            ContractViolation: It has no JSON form, or would come back as another value.
        """
        stored = self.dump(value)
        self._restorer.prove(value, stored)
        return stored

    def _violation(self, error: BaseException, raw: object) -> ContractViolation:
        return violation_of(error, raw, *self._labels)

    def refuse(self, raw: object, error: Exception) -> Never:
        """Raise what `error` amounts to, which judging `raw` has raised."""
        raise self._violation(error, raw) from error

    def validator(self, judging: Judging) -> Callable[[object], Argument]:
        """Return the function that judges: with a second look only where it is needed."""
        run, honest, admit, refuse = judging

        def validate(raw: object) -> Argument:
            try:
                return run(raw if type(raw) in honest else admit(raw))
            except Exception as error:
                refuse(raw, error)

        def validate_and_look(raw: object) -> Argument:
            value = validate(raw)
            written = self.dump(value)  # what has no JSON form, or is too deep, fails here
            if self._transforms and holds_instance(raw):
                value = self._as_returned(raw, value, written)
            return self._isolated(value)

        return validate if self.closed else validate_and_look

    def _isolated(self, value: Argument) -> Argument:
        """Return the value, copied where an author's function may have kept part of it."""
        try:
            return snapshot(value) if self._shared else value
        except Exception as error:
            raise violation("Cannot be copied.") from error

    def _as_returned(self, raw: Argument, value: Argument, written: JSON) -> Argument:
        """Undo what validators did again to instances that went through them once already."""
        try:
            returned = self.dump(raw)
            if canonical_json(returned) == canonical_json(written):
                return value
            return self._restorer.restore(returned)
        except ContractViolation:
            return value


def _build(hardened: Hardened) -> tuple[Callable[[object], Argument], SchemaSerializer]:
    schema = cast("Any", hardened.schema)
    try:
        # A model class brings its own validator along; using that would undo the hardening.
        validator = SchemaValidator(schema, _use_prebuilt=False)
        return validator.validate_python, SchemaSerializer(schema, _use_prebuilt=False)
    except SchemaError as error:
        raise TypeError("its schema cannot be prepared") from error


def _is_flat(core: Mapping[str, Any]) -> bool:
    if core["type"] == "definitions":
        core = core["schema"]
    if core["type"] != "typed-dict":
        return False
    return all(is_scalar(field["schema"]) for field in core["fields"].values())


def _copier(core: Mapping[str, Any], *, flat: bool) -> Callable[[Argument], Argument]:
    if flat:
        return dict[str, Argument].copy
    return snapshot if not is_scalar(core) else _same


def _same(value: Argument) -> Argument:
    return value
