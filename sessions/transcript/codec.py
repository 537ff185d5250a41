"""Bytes of a line to an entry and back. A line that was read is written as it was read, whatever it holds.

``orjson`` does the work; the standard library takes over for what orjson refuses or gets wrong: escapes of lone
surrogates, integers beyond 64 bits (orjson silently makes floats of them), nesting beyond 254 levels when writing.
"""

from __future__ import annotations

import json
import math
import re
from typing import NoReturn

import orjson

from sessions.transcript.entry import Entry, Kind, kind_of

_DIGITS = bytes(0x30 if chr(code).isdecimal() and code < 128 else 0x78 for code in range(256))
_LONG_RUN = b"0" * 19  # digits of the smallest integer beyond 64 bits
_FIRST_HUGE = 2.0**63
_STRICT = orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_DATACLASS
_SURROGATE = re.compile("[\ud800-\udfff]")


def decode(raw: bytes) -> Entry:
    """Return the entry a line holds; ``raw`` is the line without its newline.

    Never raises: a line that is not one readable JSON object is an entry of kind ``OPAQUE`` with no data. For every
    ``raw``, ``encode(decode(raw)) == raw``.
    """
    try:
        data = loads(raw)
    except ValueError:
        return Entry(raw, Kind.OPAQUE, None)
    if not isinstance(data, dict):
        return Entry(raw, Kind.OPAQUE, None)
    return Entry(raw, kind_of(data), data)


def peek(raw: bytes) -> Entry:
    """Return what ``decode`` does, faster, for a line that is only looked at: integers beyond 64 bits are floats."""
    try:
        data = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return decode(raw)
    return Entry(raw, kind_of(data), data) if isinstance(data, dict) else Entry(raw, Kind.OPAQUE, None)


def encode(entry: Entry) -> bytes:
    """Return the line of an entry, without a newline: the bytes it was read from."""
    return entry.raw


def loads(raw: bytes) -> object:
    r"""Return the value of strict JSON in strict UTF-8: integers exact, a lone ``\udXXX`` escape a lone surrogate.

    Raises:
        ValueError: It is not that: no JSON, NaN, a float out of range, too deep, an integer of thousands of digits.
    """
    try:
        value: object = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return _loads_exactly(raw)
    if _may_hold_long_number(raw) and _holds_huge_float(value):
        return _loads_exactly(raw)
    return value


def glance(raw: bytes) -> object:
    """Return the value of JSON as fast as can be: integers beyond 64 bits are floats, and not all JSON can be read.

    Raises:
        ValueError: It is not JSON, or needs the care of ``loads``.
    """
    value: object = orjson.loads(raw)
    return value


def dumps(value: object) -> bytes:
    r"""Return compact JSON: non-ASCII raw, lone surrogates as ``\udXXX`` escapes, keys in the order given.

    ``loads(dumps(value)) == value`` for what JSON can say; two half surrogates side by side come back as one character.

    Raises:
        ValueError: It cannot say this: NaN, an infinity, a value of another type, a cycle or thousands of levels.
    """
    try:
        raw = orjson.dumps(value, option=_STRICT)
    except TypeError:
        raw = b"null"
    # orjson writes null for NaN and infinities; only then, and where it gave up, is the exact way needed.
    return _dumps_exactly(value) if b"null" in raw else raw


def _dumps_exactly(value: object) -> bytes:
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except (TypeError, RecursionError) as error:
        raise ValueError(str(error)) from error
    return _SURROGATE.sub(lambda half: f"\\u{ord(half[0]):04x}", text).encode()


def _loads_exactly(raw: bytes) -> object:
    if raw[:1] == b"\0":
        raise ValueError("NUL bytes")  # what a power cut leaves can be long; do not decode it
    try:
        value: object = json.loads(raw.decode(), parse_float=_finite, parse_constant=_refuse)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    return value


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"number out of range: {text[:40]}")
    return number


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _may_hold_long_number(raw: bytes) -> bool:
    # A run of 19 digits or more covers three samples in a row: a sixth of the bytes to look at, all in C.
    return b"000" in raw[::6].translate(_DIGITS) and _LONG_RUN in raw.translate(_DIGITS)


def _holds_huge_float(value: object) -> bool:
    rest = [value]
    while rest:
        current = rest.pop()
        if isinstance(current, float):
            if abs(current) >= _FIRST_HUGE:
                return True
        elif isinstance(current, dict):
            rest.extend(current.values())
        elif isinstance(current, list):
            rest.extend(current)
    return False
