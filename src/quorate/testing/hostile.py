"""Texts that are made to be costly to read, for tests and benchmarks."""

from __future__ import annotations

MIB = 1024 * 1024


def _filled(unit: str, length: int, before: str, after: str) -> str:
    """Return ``unit`` between ``before`` and ``after``, as often as ``length`` allows."""
    times = (length - len(before) - len(after)) // len(unit)
    return before + (unit * times).rstrip(", ") + after


def _listed(unit: str, length: int) -> str:
    return _filled(unit, length, '{"documents":[', "]}")


def hostile_json(length: int = MIB) -> dict[str, bytes]:
    """Return bodies of about ``length`` bytes, by what makes them costly."""
    keys = length // 12
    named = ",".join(f'"{number:07x}":1' for number in range(keys))
    found = {
        "many documents": "{} " * (length // 3),
        "many empty objects": _listed("{},", length),
        "empty objects apart": _listed("{}," + " " * 29, length),
        "small lists": _listed("[1]," + " " * 15, length),
        "small objects": _listed('{"":1},' + " " * 13, length),
        "short strings": _listed('"",' + " " * 6, length),
        "small numbers": _listed("1,", length),
        "numbers": _listed("12345678,", length),
        "exact numbers": _listed("123456.1,", length),
        "absurd exponents": _listed("1e999999999999999999999,", length),
        "many keys": "{" + named + "}",
        "one key twice among many": "{" + named + ',"0000000":2}',
        "one key many times": _filled('"aaa":1 ,', length, "{", "}"),
        "commas in strings": _listed('",,",', length),
        "a string of commas": _filled("1,", length, '{"documents":"', '1"}'),
        "deep": _listed("[" * 28 + "]" * 28 + "," + " " * 420, length),
        "deeper than allowed": "[" * length,
        "objects without end": '{"a":' * (length // 5),
        "escapes": _filled("\\u0041", length, '{"a":"', '"}'),
        "backslashes": _filled("\\\\", length, '{"a":"', '"}'),
        "escaped quotes": _filled('\\"', length, '{"a":"', '"}'),
        "one huge number": '{"a":' + "9" * (length - 6) + "}",
        "large numbers": _listed("9" * 4_000 + ",", length),
        "a huge key": '{"' + "k" * (length - 8) + '":1}',
        "blank lines": '{"a":1' + "\n" * (length - 8) + "x}",
        "cut off": _listed("123456.1,", length)[:-1],
    }
    return {name: text.encode() for name, text in found.items()}
