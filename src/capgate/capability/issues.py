"""What a rejected value did wrong, in capgate's own words.

Only the path, the rule and its constraint are said. Nothing of the value, and no text that the
schema library or an author's validator wrote, gets past this file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from pydantic_core import ErrorDetails, ValidationError

from capgate.capability.core_nodes import JSON_ERROR, UNION_LABEL
from capgate.capability.json_boundary import RULES, NotJson, is_object
from capgate.capability.violation import ContractIssue, ContractViolation, violation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from capgate.errors import JSON

INVALID: Final = "Not valid."

_LONGEST_SEGMENT: Final = 64
_MOST_SEGMENTS: Final = 16

_OBJECT = "Expected an object."
_ARRAY = "Expected an array."
_DATETIME = "Expected an ISO 8601 date and time."
_DEEP = "Nested too deeply, or refers to itself."

_MESSAGES: Final[Mapping[str, str]] = {
    "missing": "Field required.",
    "missing_argument": "Field required.",
    "missing_keyword_only_argument": "Field required.",
    "extra_forbidden": "Unknown field.",
    "unexpected_keyword_argument": "Unknown field.",
    "invalid_key": "Object keys must be strings.",
    "recursion_loop": _DEEP,
    "recursion_depth_exceeded": _DEEP,
    "model_type": _OBJECT,
    "model_attributes_type": _OBJECT,
    "dataclass_type": _OBJECT,
    "dataclass_exact_type": _OBJECT,
    "dict_type": _OBJECT,
    "mapping_type": _OBJECT,
    "list_type": _ARRAY,
    "tuple_type": _ARRAY,
    "set_type": _ARRAY,
    "frozen_set_type": _ARRAY,
    "iterable_type": _ARRAY,
    "named_tuple_type": _ARRAY,
    "arguments_type": _ARRAY,
    "none_required": "Expected null.",
    "string_type": "Expected a string.",
    "string_unicode": "Text must be encodable as UTF-8.",
    "bool_type": "Expected true or false.",
    "bool_parsing": "Expected true or false.",
    "int_type": "Expected an integer.",
    "int_parsing": "Expected an integer.",
    "int_parsing_size": "Expected an integer.",
    "int_from_float": "Expected an integer.",
    "float_type": "Expected a number.",
    "float_parsing": "Expected a number.",
    "finite_number": "Must be a finite number.",
    "decimal_type": "Expected a decimal number.",
    "decimal_parsing": "Expected a decimal number.",
    "bytes_type": "Expected bytes.",
    "date_type": "Expected an ISO 8601 date.",
    "date_parsing": "Expected an ISO 8601 date.",
    "date_from_datetime_parsing": "Expected an ISO 8601 date.",
    "date_from_datetime_inexact": "Expected an ISO 8601 date.",
    "time_type": "Expected an ISO 8601 time.",
    "time_parsing": "Expected an ISO 8601 time.",
    "datetime_type": _DATETIME,
    "datetime_parsing": _DATETIME,
    "datetime_object_invalid": _DATETIME,
    "datetime_from_date_parsing": _DATETIME,
    "date_past": "Must be in the past.",
    "datetime_past": "Must be in the past.",
    "date_future": "Must be in the future.",
    "datetime_future": "Must be in the future.",
    "timezone_naive": "Must not have a time zone.",
    "timezone_aware": "Must have a time zone.",
    "time_delta_type": "Expected an ISO 8601 duration.",
    "time_delta_parsing": "Expected an ISO 8601 duration.",
    "uuid_type": "Expected a UUID.",
    "uuid_parsing": "Expected a UUID.",
    "uuid_version": "Expected a UUID of another version.",
    "url_type": "Expected a URL.",
    "url_parsing": "Expected a URL.",
    "url_syntax_violation": "Expected a URL.",
    "url_scheme": "Expected a URL with another scheme.",
    "enum": "Must be one of the allowed values.",
    "literal_error": "Must be one of the allowed values.",
    "union_tag_invalid": "Must name one of the allowed kinds.",
    "union_tag_not_found": "Must name one of the allowed kinds.",
    "string_pattern_mismatch": "Must match the declared pattern.",
    "json_invalid": "Expected JSON text.",
    "json_type": "Expected JSON text.",
}

_LIMITS: Final[Mapping[str, tuple[str, str]]] = {
    "greater_than": ("gt", "Must be greater than {}."),
    "greater_than_equal": ("ge", "Must be at least {}."),
    "less_than": ("lt", "Must be less than {}."),
    "less_than_equal": ("le", "Must be at most {}."),
    "multiple_of": ("multiple_of", "Must be a multiple of {}."),
    "too_short": ("min_length", "Must have at least {} items."),
    "too_long": ("max_length", "Must have at most {} items."),
    "string_too_short": ("min_length", "Must have at least {} characters."),
    "string_too_long": ("max_length", "Must have at most {} characters."),
    "bytes_too_short": ("min_length", "Must have at least {} bytes."),
    "bytes_too_long": ("max_length", "Must have at most {} bytes."),
    "url_too_long": ("max_length", "Must have at most {} characters."),
    "decimal_max_digits": ("max_digits", "Must have at most {} digits."),
    "decimal_max_places": ("decimal_places", "Must have at most {} decimal places."),
    "decimal_whole_digits": ("whole_digits", "Must have at most {} digits before the point."),
}
_OUT_OF_BOUNDS: Final = "Out of bounds."


def violation_of(
    error: BaseException, raw: object, constraints: frozenset[str], tags: frozenset[str]
) -> ContractViolation:
    """Return what a failed validation may say.

    Args:
        error: Whatever validating raised; the caller makes it the private cause.
        raw: The rejected value; only exact containers are looked at, to find paths.
        constraints: The limits the schema declares. A limit an error brings along is repeated
            only if it is one of them: a validator may have put a value there.
        tags: The tags of the schema's tagged unions, which are no part of a path.
    """
    if isinstance(error, NotJson):
        return ContractViolation([_boundary_issue(error, ())])
    if not isinstance(error, ValidationError):
        return violation(INVALID)
    try:
        details = error.errors(include_url=False, include_input=False)
        issues = [_issue(each, raw, constraints, tags) for each in details]
    except Exception:
        return violation(INVALID)
    # Several branches of a union may complain alike.
    unique = {(issue["path"], issue["message"]): issue for issue in issues}
    return ContractViolation(list(unique.values()))


def _issue(
    details: ErrorDetails, raw: object, constraints: frozenset[str], tags: frozenset[str]
) -> ContractIssue:
    context = details.get("ctx", {})
    location = _without_labels(details["loc"], raw, tags)
    if details["type"] == JSON_ERROR and isinstance(context.get("cause"), NotJson):
        return _boundary_issue(context["cause"], location)
    return {"path": path_text(location), "message": _message(details["type"], context, constraints)}


def _boundary_issue(error: NotJson, location: tuple[int | str, ...]) -> ContractIssue:
    """Trust only the boundary's own rules: a validator may raise the same kind of error."""
    if error.message not in RULES:
        return {"path": path_text(location), "message": INVALID}
    return {"path": path_text((*location, *error.path)), "message": error.message}


def _message(kind: str, context: Mapping[str, object], constraints: frozenset[str]) -> str:
    if kind in _LIMITS:
        name, template = _LIMITS[kind]
        limit = context.get(name)
        declared = isinstance(limit, int | float | str) and str(limit) in constraints
        return template.format(limit) if declared else _OUT_OF_BOUNDS
    return _MESSAGES.get(kind, INVALID)


def _without_labels(
    location: tuple[int | str, ...], raw: object, tags: frozenset[str]
) -> tuple[int | str, ...]:
    """Leave out what names a branch of a union and not a part of the value."""
    kept: list[int | str] = []
    here: JSON = cast("JSON", raw) if type(raw) is dict else None
    for position, segment in enumerate(location):
        inner = position < len(location) - 1
        if segment in {UNION_LABEL, "[key]"}:
            continue
        if inner and segment in tags and _lacks(here, segment):
            continue
        kept.append(segment)
        here = _step(here, segment)
    return tuple(kept)


def _lacks(here: JSON, segment: int | str) -> bool:
    return is_object(here) and segment not in here


def _step(here: JSON, segment: int | str) -> JSON:
    """Go one step into an exact container; anything else is not asked."""
    if type(here) in {dict, list}:
        if is_object(here):
            return here.get(str(segment))
        if isinstance(segment, int) and segment < len(here):
            return here[segment]
    return None


def path_text(path: tuple[int | str, ...]) -> str:
    """Return a path as text: `items.0.sku`, and nothing for the root."""
    segments = [str(segment)[:_LONGEST_SEGMENT] for segment in path[:_MOST_SEGMENTS]]
    if len(path) > _MOST_SEGMENTS:
        segments.append("…")
    return ".".join(segments).encode(errors="replace").decode()
