"""The two engines that judge documents, made to agree: one answer, one list of faults.

An engine is asked for keywords and places only; the words are capgate's. Which engine runs
depends on what is installed, and nothing else may.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from jsonschema import Draft202012Validator, validators
from jsonschema.exceptions import ValidationError
from referencing import Registry

from capgate.capability.json_boundary import Path, is_object
from capgate.capability.metaschema import MANY, NAMED, ONE
from capgate.capability.patterns import translate
from capgate.errors import JSON

if TYPE_CHECKING:
    from types import ModuleType

Fault: TypeAlias = tuple[Path, str]
Judge: TypeAlias = Callable[[JSON], list[Fault]]

_MOST_FAULTS: Final = 1000
_BACKTRACKS: Final = 100_000

_MESSAGES: Final[Mapping[str, str]] = {
    "enum": "Must be one of the allowed values.",
    "const": "Must be the allowed value.",
    "pattern": "Must match the declared pattern.",
    "uniqueItems": "Must not have equal items.",
    "contains": "Must have the right number of matching items.",
    "anyOf": "Must match one of the allowed forms.",
    "oneOf": "Must match exactly one of the allowed forms.",
    "not": "Must not match a forbidden form.",
    "dependentRequired": "Has a field that requires another one.",
    "unevaluatedProperties": "Has unknown fields.",
    "unevaluatedItems": "Has items that are not allowed.",
    "propertyNames": "Has a field name that is not allowed.",
}
_LEFT_OVER: Final = frozenset({_MESSAGES["unevaluatedProperties"], _MESSAGES["unevaluatedItems"]})
_LIMITS: Final[Mapping[str, str]] = {
    "minimum": "Must be at least {}.",
    "maximum": "Must be at most {}.",
    "exclusiveMinimum": "Must be greater than {}.",
    "exclusiveMaximum": "Must be less than {}.",
    "multipleOf": "Must be a multiple of {}.",
    "minLength": "Must have at least {} characters.",
    "maxLength": "Must have at most {} characters.",
    "minItems": "Must have at least {} items.",
    "maxItems": "Must have at most {} items.",
    "minProperties": "Must have at least {} fields.",
    "maxProperties": "Must have at most {} fields.",
}
_SAME: Final = {"minContains": "contains", "maxContains": "contains"}
_SAID_BY_PARENT: Final = frozenset(
    ["additionalProperties", "unevaluatedProperties", "unevaluatedItems"]
)
_ASKED: Final = frozenset({"type", "required", "additionalProperties", *_LIMITS})
_TYPES: Final[Mapping[str, str]] = {
    "null": "Expected null.",
    "boolean": "Expected true or false.",
    "object": "Expected an object.",
    "array": "Expected an array.",
    "number": "Expected a number.",
    "integer": "Expected an integer.",
    "string": "Expected a string.",
}


@functools.cache
def fast_engine() -> ModuleType | None:
    """Return `jsonschema_rs` where it is installed; imported only once a document needs it."""
    try:
        return importlib.import_module("jsonschema_rs")
    except ImportError:
        return None


def make_judge(document: JSON, fast: ModuleType | None) -> Judge:
    """Return what finds the faults of a value, by the engine there is.

    Args:
        document: A checked document, without references that lead outside.
        fast: The module `jsonschema_rs`, or None to judge with `jsonschema`.

    Raises:
        BadPatternError: A pattern is not portable, or may take exponential time in this engine.
    """
    translated = _rewrite(document, lambda pattern: translate(pattern, linear=fast is not None))
    if fast is None:
        return _reference_judge(translated)
    return _fast_judge(_rewrite(document, str), fast)


def _rewrite(schema: JSON, write: Callable[[str], str]) -> JSON:
    """Write a schema so that both engines report the same keyword at the same place."""
    if not is_object(schema):
        return schema
    rewritten: dict[str, JSON] = {}
    for keyword, value in schema.items():
        if keyword == "pattern":
            rewritten[keyword] = write(value)
        elif keyword in NAMED:
            name = write if keyword == "patternProperties" else str
            rewritten[keyword] = {name(k): _branch(v, write) for k, v in value.items()}
        elif keyword in MANY:
            rewritten[keyword] = [_branch(each, write) for each in value]
        elif keyword in ONE:
            plain = keyword in _SAID_BY_PARENT
            rewritten[keyword] = _rewrite(value, write) if plain else _branch(value, write)
        else:
            rewritten[keyword] = value
    return rewritten


def _branch(schema: JSON, write: Callable[[str], str]) -> JSON:
    return {"not": {}} if schema is False else _rewrite(schema, write)


def _reference_judge(document: JSON) -> Judge:
    # An empty registry: without it jsonschema would fetch what a reference names.
    validator: Any = _REFERENCE(document, registry=Registry[Any]())

    def judge(value: JSON) -> list[Fault]:
        errors: Iterable[ValidationError] = validator.iter_errors(value)
        most = itertools.islice(errors, _MOST_FAULTS)
        return _sorted(fault for error in most for fault in _reference_faults(error))

    return judge


def _reference_faults(error: ValidationError) -> list[Fault]:
    keyword = str(error.validator)
    path: Path = tuple(error.absolute_path)
    limit: JSON = error.validator_value
    names: list[str] = []
    if keyword == "required":
        names = [name for name in limit if name not in cast("JSON", error.instance)]
    elif keyword == "additionalProperties":
        names = _unknown(cast("JSON", error.instance), cast("JSON", error.schema))
    types = [limit] if isinstance(limit, str) else limit
    return _faults(
        error.absolute_schema_path, keyword, path, types if keyword == "type" else limit, names
    )


def _unknown(instance: Mapping[str, JSON], schema: Mapping[str, JSON]) -> list[str]:
    known = schema.get("properties", {})
    patterns = [re.compile(pattern) for pattern in schema.get("patternProperties", {})]
    return [k for k in instance if k not in known and not any(p.search(k) for p in patterns)]


def _exact_multiple(
    validator: Any, step: float, instance: JSON, _schema: JSON
) -> Iterator[ValidationError]:
    """Decide by decimal digits, as they were written, and not by binary fractions."""
    if validator.is_type(instance, "number") and not _divides(step, instance):
        yield ValidationError("")


def _divides(step: float, number: float) -> bool:
    return (Fraction(str(number)) / Fraction(str(step))).denominator == 1


_REFERENCE: Final[Any] = cast("Any", validators).extend(
    Draft202012Validator, {"multipleOf": _exact_multiple}
)


def _fast_judge(document: JSON, fast: ModuleType) -> Judge:
    # Backtracking is bounded, formats are remarks, and nothing is ever fetched.
    options = fast.FancyRegexOptions(backtrack_limit=_BACKTRACKS)
    validator = fast.Draft202012Validator(
        document, pattern_options=options, validate_formats=False, offline=True
    )

    def judge(value: JSON) -> list[Fault]:
        if validator.is_valid(value):
            return []
        errors = itertools.islice(validator.iter_errors(value), _MOST_FAULTS)
        return _sorted(fault for error in errors for fault in _fast_faults(error))

    return judge


def _fast_faults(error: Any) -> list[Fault]:
    places = list(error.schema_path)
    keyword = next((place for place in reversed(places) if isinstance(place, str)), "")
    said: dict[str, Any] = error.kind.as_dict() if keyword in _ASKED else {}
    limit = next((said[name] for name in ("limit", "multiple_of", "types") if name in said), None)
    names = said.get("unexpected") or [said[name] for name in ("property",) if name in said]
    return _faults(places, keyword, tuple(error.instance_path), limit, names)


def _faults(
    places: Iterable[str | int], keyword: str, path: Path, limit: JSON, names: Iterable[str]
) -> list[Fault]:
    keyword = _SAME.get(keyword, keyword)
    if "propertyNames" in places:
        keyword = "propertyNames"
    if keyword == "required":
        return [((*path, name), "Field required.") for name in names]
    if keyword == "additionalProperties":
        return [((*path, name), "Unknown field.") for name in names]
    if keyword == "type":
        return [(path, _type_message(limit))]
    if keyword in _LIMITS:
        return [(path, _LIMITS[keyword].format(_plain_number(limit)))]
    return [(path, _MESSAGES.get(keyword, "Not valid."))]


def _type_message(types: list[str]) -> str:
    if len(types) == 1:
        return _TYPES[types[0]]
    return f"Expected one of: {', '.join(sorted(types))}."


def _plain_number(limit: JSON) -> JSON:
    return int(limit) if isinstance(limit, float) and limit.is_integer() else limit


def _sorted(faults: Iterable[Fault]) -> list[Fault]:
    """Order faults; what is left unevaluated only because of another fault is none."""
    found = set(faults)
    own = {fault for fault in found if fault[1] not in _LEFT_OVER}
    return sorted(own or found, key=lambda fault: ([*map(str, fault[0])], fault[1]))
