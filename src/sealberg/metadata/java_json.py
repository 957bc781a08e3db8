"""JSON as Iceberg Java writes it, so that a hash over these bytes equals the hash over Java's bytes.

Compact; non-ASCII characters unescaped; control characters in upper-case hex; numbers as they were
read, because Java writes 1e10 as `1.0E10` and Python does not.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
import struct
from itertools import chain
from typing import Any, Final, Self

from sealberg.metadata.gc_pause import gc_paused

_ESCAPES: Final = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_TO_ESCAPE: Final = re.compile(r'[\x00-\x1f"\\]')


_PLAIN: Final = frozenset({str, int})
_NESTED: Final = frozenset({dict, list})
_ONLY_TEXT: Final = frozenset({str})
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")

# A value takes up to 90 bytes of memory but as few as three of text, so the length of a text is not enough of a limit.
MOST_VALUES: Final = 16 << 20


class Number(float):
    """A number with a fraction or an exponent, with its literal."""

    literal: str

    @classmethod
    def read(cls, literal: str) -> Self:
        self = cls(literal)
        self.literal = literal
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).read, (self.literal,)


def loads(text: str | bytes) -> Any:
    """Parse JSON and keep the literals of numbers; ValueError if the text is not JSON in UTF-8.

    Of two members with the same name the last one counts, as in Java.
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8")
    if len(text) > MOST_VALUES and sum(map(text.count, ",[{")) > MOST_VALUES:
        raise ValueError(f"the JSON has more than {MOST_VALUES} values")
    try:
        with gc_paused():
            value = json.loads(text, parse_float=Number.read, parse_constant=_refuse_constant)
        if "\\" in text and _SURROGATE.search(text):
            dumps(value).encode()  # raises for a lone surrogate, which could not be written again
    except RecursionError:
        raise ValueError("objects or lists are nested too deeply") from None
    return value


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def dumps(value: Any) -> str:
    """The JSON text, as Java writes it."""
    if type(value) is dict:
        return _members(value)
    out: list[str] = []
    _write(value, out)
    return "".join(out)


def double(value: float) -> str:
    """A double as Java's Double.toString writes it: the fewest digits that identify the double, at least two."""
    two = f"{value:.1e}"
    return _java_form(two if float(two) == value else repr(float(value)), value)


def single(value: float) -> str:
    """A float as Java's Float.toString writes it: the fewest digits that identify the float."""
    bits = struct.pack(">f", value)
    (value,) = struct.unpack(">f", bits)
    for count in range(1, 9):
        digits = f"{value:.{count}e}"
        with contextlib.suppress(OverflowError):  # rounded up beyond the largest float
            if struct.pack(">f", float(digits)) == bits:
                return _java_form(digits, value)
    return _java_form(repr(value), value)


def _java_form(shortest: str, value: float) -> str:
    if math.isnan(value) or math.isinf(value):
        return '"NaN"' if math.isnan(value) else ('"Infinity"' if value > 0 else '"-Infinity"')
    sign = "-" if math.copysign(1, value) < 0 else ""
    mantissa, _, exponent = shortest.lstrip("-").partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0") or "0"
    # The power of ten of the first digit.
    power = int(exponent or 0) + (
        len(whole) - 1 if whole.strip("0") else -1 - (len(fraction) - len(fraction.lstrip("0")))
    )
    digits = digits.rstrip("0") or "0"
    if digits == "0":
        return f"{sign}0.0"
    if -3 <= power < 7:
        if power < 0:
            return f"{sign}0.{'0' * (-power - 1)}{digits}"
        return f"{sign}{digits[: power + 1].ljust(power + 1, '0')}.{digits[power + 1 :] or '0'}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{power}"


def _write(value: Any, out: list[str]) -> None:
    if isinstance(value, dict):
        if (flat := _flat(value)) is not None:
            out.append(flat)
            return
        out.append("{")
        for i, (name, item) in enumerate(value.items()):
            out.append(f"{',' if i else ''}{_text(name)}:")
            _write(item, out)
        out.append("}")
    elif isinstance(value, list | tuple):
        out.append("[")
        for i, item in enumerate(value):
            if i:
                out.append(",")
            _write(item, out)
        out.append("]")
    elif isinstance(value, str):
        out.append(_text(value))
    elif value is None or isinstance(value, bool):
        out.append({None: "null", True: "true", False: "false"}[value])
    elif isinstance(value, int):
        out.append(str(value))
    elif isinstance(value, Number):
        out.append(value.literal)
    elif isinstance(value, float):
        out.append(double(value))
    else:
        raise TypeError(f"internal error: a {type(value).__name__} cannot be written as JSON")


def _members(value: dict[Any, Any]) -> str:
    """An object whose large members are written by Python's encoder as a whole, if they are plain."""
    out = []
    for name, item in value.items():
        text = _ENCODER.encode(item) if type(item) in _NESTED and _is_plain(item) else None
        if text is None or "\\u00" in text:  # Python writes control characters in lower-case hex
            parts: list[str] = []
            _write(item, parts)
            text = "".join(parts)
        out.append(f"{_text(name)}:{text}")
    return f"{{{','.join(out)}}}"


def _is_plain(value: Any) -> bool:
    """Whether Java writes the value as Python does: strings and integers, in objects and lists."""
    level = [value]  # all objects and lists of one depth
    while level:
        objects = [each for each in level if type(each) is dict]
        if not _ONLY_TEXT.issuperset(map(type, chain.from_iterable(objects))):
            return False
        items = list(chain.from_iterable(each.values() if type(each) is dict else each for each in level))
        kinds = set(map(type, items))
        if not kinds <= _PLAIN | _NESTED:
            return False
        level = [each for each in items if type(each) in _NESTED] if kinds & _NESTED else []
    return True


def _flat(value: dict[Any, Any]) -> str | None:
    """An object of strings and integers by Python's encoder, which is ten times as fast; None for any other object."""
    if not all(type(item) in _PLAIN for item in value.values()) or not all(type(name) is str for name in value):
        return None
    text = _ENCODER.encode(value)
    return None if "\\u00" in text else text  # Python writes control characters in lower-case hex


def _text(text: str) -> str:
    return f'"{_TO_ESCAPE.sub(_escape, text)}"'


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    return _ESCAPES.get(character) or f"\\u{ord(character):04X}"
