"""Texts that a parser needs much time or memory to read, for tests and benchmarks."""

from __future__ import annotations

MIB = 1024 * 1024


def _filled(unit: str, length: int, before: str, after: str) -> str:
    """Return ``before``, then ``unit`` as often as ``length`` allows, then ``after``."""
    times = (length - len(before) - len(after)) // len(unit)
    return before + (unit * times).rstrip(", ") + after


def hostile_yaml(length: int = MIB) -> dict[str, str]:
    """Return YAML texts of about ``length`` characters, keyed by the reason why they are costly.

    Many of the texts are refused. None of them begins with a bracket, because a text that begins
    with a bracket is read as JSON.
    """
    keys = length // 16
    node = "apiVersion: quorate/v1\nkind: Node\nmetadata: {name: n}\nspec:\n  gpus: 8\n---\n"
    levels = "".join(f"a{n}: &a{n} [{f'*a{n - 1},' * 9}1]\n" for n in range(1, 9))
    return {
        "documents": _repeated(node, length),
        "empty documents": _repeated("---\n", length),
        "wide": "".join(f"key{number:07x}: 12\n" for number in range(keys)),
        "entries": _repeated("- 1234567\n", length),
        "small numbers": _filled("1,", length, "a: [", "]"),
        "small mappings": _filled("{a: 1}, ", length, "a: [", "]"),
        "empty lists": _filled("[], ", length, "a: [", "]"),
        "mappings apart": _filled("{a: 1}" + " " * 13 + ",", length, "a: [", "]"),
        "deep": _repeated("- " * 31 + "1\n", length),
        "deep apart": _repeated("- " * 31 + "1" + " " * 300 + "\n", length),
        "deeper than allowed": "a: " + "[" * (length - 3),
        "anchors": _filled("&a 12345, ", length, "a: [", "]"),
        "aliases": _filled("*a      , ", length, "b: &a 1\na: [", "]"),
        "aliases of aliases": "a0: &a0 [1]\n" + levels + "b:\n" + _repeated("- *a8\n", length),
        "tags": _filled("! 12345678,", length, "a: [", "]"),
        "declared tags": "".join(f"%TAG !{number:06x}! b\n" for number in range(length // 16)),
        "a long string": _filled("x", length, 'a: "', '"'),
        "a long plain text": _filled("x ", length, "a: ", "x\n"),
        "a long block": _filled(" x\n", length, "a: |\n", ""),
        "a long folded block": _filled(" x\n", length, "a: >\n", ""),
        "escapes": _filled("\\u0041", length, 'a: "', '"'),
        "comments": _filled("#\n", length, "a: 1\n", ""),
        "blank lines": _filled("\n", length, "a: 1\n", "b: 1\n"),
        "a long key": "k" * (length - 4) + ": 1\n",
        "one key twice among many": "".join(f"k{n:07x}: 1234\n" for n in range(keys))
        + "k0000000: 1",
        "quotes without end": _filled("x", length, 'a: "', ""),
        "cut off": _filled("1234567, ", length, "a: [", ""),
        "large numbers": _filled("9" * 4_000 + ",", length, "a: [", "]"),
    }


def _repeated(unit: str, length: int) -> str:
    return unit * (length // len(unit))


def _listed(unit: str, length: int) -> str:
    return _filled(unit, length, '{"documents":[', "]}")


def hostile_json(length: int = MIB) -> dict[str, bytes]:
    """Return JSON texts of about ``length`` bytes, keyed by the reason why they are costly."""
    keys = length // 12
    named = ",".join(f'"{number:07x}":1' for number in range(keys))
    found = {
        "many documents": "{} " * (length // 3),
        "many empty objects": _listed("{},", length),
        "empty objects apart": _listed("{}," + " " * 29, length),
        "small lists": _listed("[1]," + " " * 16, length),
        "small objects": _listed('{"":1},' + " " * 13, length),
        "short strings": _listed('"",' + " " * 7, length),
        "small numbers": _listed("1,", length),
        "numbers": _listed("123456789,", length),
        "exact numbers": _listed("1234567.1,", length),
        "absurd exponents": _listed("1e999999999999999999999,", length),
        "many keys": "{" + named + "}",
        "one key twice among many": "{" + named + ',"0000000":2}',
        "one key many times": _filled('"aaaa":1 ,', length, "{", "}"),
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
        "numbers of a thousand digits": _listed("9" * 1_000 + ",", length),
        "texts of many digits": _listed('"' + "9" * 1_001 + '",', length),
        "a huge key": '{"' + "k" * (length - 8) + '":1}',
        "blank lines": '{"a":1' + "\n" * (length - 8) + "x}",
        "cut off": _listed("1234567.1,", length)[:-1],
    }
    return {name: text.encode() for name, text in found.items()}
