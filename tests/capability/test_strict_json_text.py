"""JSON text is read strictly: what other readers forgive is refused here."""

from __future__ import annotations

import pytest

from capgate.capability import NotJson, parse_json

GOOD = [
    (b'{"a": [1, -0.0, 1e3, "\\u00e9", null, true]}', {"a": [1, -0.0, 1000.0, "é", None, True]}),
    (" \t\r\n5 ", 5),
    (b"123456789012345678901234567890", 123456789012345678901234567890),
    ('"\\ud83d\\ude00"', "\U0001f600"),
    ('"\\u0000"', "\x00"),
    ('"[[[[{{{"', "[[[[{{{"),
    ('{"": {}}', {"": {}}),
]


@pytest.mark.parametrize(("text", "value"), GOOD)
def test_json_is_read_without_loss(text, value):
    """Valid text gives its value, integers of any size and -0.0 included."""
    assert repr(parse_json(text)) == repr(value)


BAD = [
    ('{"a": 1, "a": 2}', "An object has the same key twice."),
    ('{"x": {"a": 1, "\\u0061": 2}}', "An object has the same key twice."),
    ("NaN", "Must be a finite number."),
    ("[Infinity]", "Must be a finite number."),
    ("-Infinity", "Must be a finite number."),
    ("1e400", "Must be a finite number."),
    ("-1e400", "Must be a finite number."),
    ('"\\ud800"', "Text must be encodable as UTF-8."),
    ('{"\\udfff": 1}', "Text must be encodable as UTF-8."),
    ('"\ud800"', "Text must be encodable as UTF-8."),
    (b'"\xff"', "Not valid UTF-8."),
    (b'"\xed\xa0\x80"', "Not valid UTF-8."),
    (b'"\xc0\x80"', "Not valid UTF-8."),
    (b"\xef\xbb\xbf{}", "Not valid JSON."),
    ("", "Not valid JSON."),
    ("{} {}", "Not valid JSON."),
    ("[1,]", "Not valid JSON."),
    ("{'a': 1}", "Not valid JSON."),
    ('"\t"', "Not valid JSON."),
    ("01", "Not valid JSON."),
    ("1" * 5000, "Not valid JSON."),
    ("[" * 65 + "]" * 65, "Nested too deeply, or refers to itself."),
    ("[" * 100_000, "Nested too deeply, or refers to itself."),
    ('{"a":' * 100_000, "Nested too deeply, or refers to itself."),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), BAD, ids=range(len(BAD)))
def test_everything_else_is_refused(text, message):
    """Duplicate keys, NaN, overflow, surrogates, bad UTF-8 and depth are errors (B 130)."""
    with pytest.raises(NotJson) as caught:
        parse_json(text)
    assert caught.value.message == str(caught.value) == message


def test_depth_is_counted_in_containers_and_not_in_text():
    """Sixty-four levels pass; brackets inside strings, escaped quotes too, are no levels."""
    assert parse_json("[" * 64 + "]" * 64)
    assert parse_json('["\\"[[[[", "]", "\\\\", [1]]', max_depth=2) == ['"[[[[', "]", "\\", [1]]
    with pytest.raises(NotJson):
        parse_json("[[1], [[2]]]", max_depth=2)


def test_size_is_capped():
    """Text over the limit is refused before it is read."""
    assert parse_json("[1]", max_bytes=3) == [1]
    for text in ("[1] ", b"[1] "):
        with pytest.raises(NotJson, match="Longer than allowed"):
            parse_json(text, max_bytes=3)
