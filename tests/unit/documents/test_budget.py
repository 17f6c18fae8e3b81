"""Budget documents: each fault with its path, message, remedy and line."""

from __future__ import annotations

import pytest

from quorate.model import specs as sp
from tests.unit.documents.told import BUDGET, NAME_REMEDY, NAME_RULE, Told, faults, headed, spec

# Each entry is added to the envelope of a valid budget: 10 GPUs for a day, so 240 GPU-hours.
ENVELOPE: list[tuple[str, list[tuple[str, str, str]]]] = [
    (
        "maxGPUHours: 240.5",
        [
            (
                "maxGPUHours",
                (
                    "must be at most what concurrency 10 over the window can use, 240 GPU-hours, "
                    "got 240.5"
                ),
                "use 240 or less, or leave the field out",
            )
        ],
    ),
    (
        "maxGPUHours: 1.0000001",
        [
            (
                "maxGPUHours",
                "must be a whole number of GPU-milliseconds, got 1.0000001",
                "round it to 1",
            )
        ],
    ),
    ("maxGPUHours: -1", [("maxGPUHours", "must not be negative, got -1", "use 0 or more")]),
    (
        "maxGPUHours: .inf",
        [("maxGPUHours", "must be a finite number, got Infinity", "write a number")],
    ),
    (
        "maxGPUHours: '5'",
        [("maxGPUHours", 'must be a number, got "5"', "write 5 without quotes")],
    ),
    (
        "maxGPUHours: 1e30",
        [
            (
                "maxGPUHours",
                "must be at most 2114080210944, got 1E+30",
                "use 2114080210944 or less",
            )
        ],
    ),
    (
        "maxGPUHours: 1e-99",
        [("maxGPUHours", "has too many digits: 1E-99", "round it")],
    ),
    (
        "sharing: everyone",
        [
            (
                "sharing",
                'must be "family" or "none" when set, got "everyone"',
                'write "family" or "none", or leave it out',
            )
        ],
    ),
    (
        "preActivation: {allowAdmission: 1}",
        [
            (
                "preActivation.allowAdmission",
                "must be true or false, got 1",
                "write true or false without quotes",
            )
        ],
    ),
    (
        "lending: {to: [a*b, '**', '*', 'org:*', x, x], maxConcurrency: 0, maxGPUHours: -1}",
        [
            ("lending.to[0]", f'{NAME_RULE}, got "a*b"', NAME_REMEDY),
            (
                "lending.to[1]",
                'must be an owner\'s name, or a prefix of names and *, got "**"',
                "write one * and only at the end, e.g. org:ai:*",
            ),
            ("lending.to", 'lists "x" more than once', "list it once"),
            ("lending.maxConcurrency", "must be positive, got 0", "use 1 or more"),
            ("lending.maxGPUHours", "must not be negative, got -1", "use 0 or more"),
        ],
    ),
]


@pytest.mark.parametrize(("line", "expected"), ENVELOPE, ids=[line for line, _ in ENVELOPE])
def test_a_fault_of_an_envelope_is_told(line: str, expected: list[tuple[str, str, str]]) -> None:
    assert faults(f"{BUDGET}      {line}\n") == [
        Told(14, f"spec.envelopes[0].{path}", message, remedy) for path, message, remedy in expected
    ]


def test_an_empty_envelope_is_told_everything_it_lacks() -> None:
    assert faults(BUDGET + "    - {}\n") == [
        Told(14, "spec.envelopes[1].name", "is required", "add name"),
        Told(
            14,
            "spec.envelopes[1].flavor",
            "is required",
            "name the kind of GPU, e.g. flavor: H100-80GB",
        ),
        Told(
            14,
            "spec.envelopes[1].selector",
            "must contain at least one label",
            'name a place, e.g. selector: {region: us-west}, or all of them: {region: "*"}',
        ),
        Told(
            14,
            "spec.envelopes[1]",
            "has no start and no end: start and end are both required",
            "add both; an envelope grants GPUs from a start to an end",
        ),
        Told(
            14,
            "spec.envelopes[1].concurrency",
            "is required",
            "say how many GPUs at a time, e.g. concurrency: 64",
        ),
    ]


def test_an_envelope_without_start_is_told_that_both_are_needed() -> None:
    text = BUDGET.replace("      start: 2026-01-01T00:00:00Z\n", "")
    assert [(t.path, t.message) for t in faults(text)] == [
        ("spec.envelopes[0]", "has no start: start and end are both required")
    ]


@pytest.mark.parametrize("end", ["2026-01-01T00:00:00Z", "2025-12-31T00:00:00Z"])
def test_a_window_ends_after_it_starts(end: str) -> None:
    text = BUDGET.replace("2026-01-02T00:00:00Z", end)
    said = f"must be after start, which is 2026-01-01T00:00:00Z, got {end}"
    assert faults(text) == [Told(12, "spec.envelopes[0].end", said, "swap them or move the end")]


@pytest.mark.parametrize("selector", ["{}", "{zone: a}", "{region: a/b}", "[region]"])
def test_a_selector_names_known_places(selector: str) -> None:
    text = BUDGET.replace("{region: us-west}", selector)
    assert [(t.line, t.path.split("selector")[0]) for t in faults(text)] == [
        (10, "spec.envelopes[0].")
    ]


def test_names_of_envelopes_and_caps_are_used_once() -> None:
    caps = (
        "  aggregateCaps:\n"
        "    - {name: all, flavor: H100, envelopes: [west], maxConcurrency: 5}\n"
        "    - {name: all, envelopes: [west], maxConcurrency: 5}\n"
    )
    again = "    - {name: west}\n"
    found = faults(BUDGET + again + caps)
    assert Told(
        14,
        "spec.envelopes[1].name",
        'is a duplicate envelope name "west"',
        "choose another name",
    ) in (found)
    assert Told(
        17,
        "spec.aggregateCaps[1].name",
        'is a duplicate aggregate cap name "all"',
        "choose another name",
    ) in (found)


def test_every_fault_of_a_cap_is_told() -> None:
    text = BUDGET + (
        "  aggregateCaps:\n"
        "    - {name: a, flavor: A100, envelopes: [west, north], maxConcurrency: 0}\n"
        "    - {name: b, flavor: H100, envelopes: [west], maxConcurrency: 5, maxGPUHours: 121}\n"
        "    - {name: c, envelopes: []}\n"
        "    - {name: d, flavor: H100, envelopes: [west, west], maxConcurrency: 5}\n"
    )
    assert faults(text) == [
        Told(
            15,
            "spec.aggregateCaps[0].envelopes[0]",
            'references envelope "west" of flavor "H100", but the cap is for "A100"',
            "list only envelopes of one flavor in a cap",
        ),
        Told(
            15,
            "spec.aggregateCaps[0].envelopes[1]",
            'references unknown envelope "north"',
            "use the name of an envelope of this budget: west",
        ),
        Told(
            15, "spec.aggregateCaps[0].maxConcurrency", "must be positive, got 0", "use 1 or more"
        ),
        Told(
            16,
            "spec.aggregateCaps[1].maxGPUHours",
            "must be at most what maxConcurrency 5 over the windows of its envelopes can use, "
            "120 GPU-hours, got 121",
            "use 120 or less, or leave the field out",
        ),
        Told(17, "spec.aggregateCaps[2].flavor", "is required", "name the flavor of its envelopes"),
        Told(
            17,
            "spec.aggregateCaps[2].envelopes",
            "must reference at least one envelope",
            "list the envelopes it bounds",
        ),
        Told(
            17,
            "spec.aggregateCaps[2].maxConcurrency",
            "is required",
            "state how many GPUs these envelopes may use together",
        ),
        Told(18, "spec.aggregateCaps[3].envelopes", 'lists "west" more than once', "list it once"),
    ]


def test_a_faulty_envelope_is_still_known_to_caps() -> None:
    text = BUDGET.replace("concurrency: 10", "concurrency: 0") + (
        "  aggregateCaps:\n"
        "    - {name: a, flavor: H100, envelopes: [west], maxConcurrency: 1, maxGPUHours: 1}\n"
    )
    assert [t.path for t in faults(text)] == ["spec.envelopes[0].concurrency"]


def test_a_budget_has_an_owner_and_envelopes() -> None:
    assert faults(headed("Budget", "spec: {envelopes: []}\n")) == [
        Told(5, "spec.owner", "is required", "name the owner of the budget, e.g. owner: rai"),
        Told(5, "spec.envelopes", "must not be empty", "add at least one envelope"),
    ]


def test_parents_belong_to_the_owner() -> None:
    assert faults(BUDGET + "  parents: [x]\n") == [
        Told(14, "spec.parents", "unknown field 'parents'", "write parents in the Owner document")
    ]


def test_every_field_reaches_the_budget() -> None:
    text = BUDGET + (
        "      maxGPUHours: 0.1\n"
        "      preActivation: {allowReservations: true, allowAdmission: true}\n"
        "      sharing: none\n"
        "      lending: {allow: true, to: ['org:*'], maxConcurrency: 4, maxGPUHours: 1.5}\n"
        "  aggregateCaps:\n"
        "    - {name: all, flavor: H100, envelopes: [west], maxConcurrency: 5, maxGPUHours: 120}\n"
    )
    assert spec(text) == sp.Budget(
        name="rai",
        owner="rai",
        envelopes=(
            sp.Envelope(
                name="west",
                flavor="H100",
                selector=(("region", "us-west"),),
                start_ms=1_767_225_600_000,
                end_ms=1_767_312_000_000,
                concurrency=10,
                gpu_ms_max=360_000,
                allow_reservations=True,
                allow_admission=True,
                sharing=sp.Sharing.NONE,
                lending=sp.Lending(
                    allow=True, to=("org:*",), concurrency_max=4, gpu_ms_max=5_400_000
                ),
            ),
        ),
        caps=(
            sp.Cap(
                name="all",
                flavor="H100",
                envelopes=("west",),
                concurrency_max=5,
                gpu_ms_max=432_000_000,
            ),
        ),
    )
