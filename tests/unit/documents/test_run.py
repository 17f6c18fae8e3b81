"""Run documents: each fault with its path, message, remedy and line."""

from __future__ import annotations

import pytest

from quorate.documents import Documents, parse_documents, parse_tree
from quorate.model import specs as sp
from quorate.model.amounts import FLAVORS_MAX, RATES_MAX, SPONSORS_MAX, UPSTREAMS_MAX
from quorate.model.notice_kinds import NoticeKind
from tests.unit.documents.told import NAME_REMEDY, NAME_RULE, RUN, Told, faults, headed, spec

WHOLE = "write a whole number from 1 to 1048576"
ONE_COMMAND = "a run has one command: write command, env and workingDir"
DURATIONS = "write it like 90m, 1h30m, 2d, 45s, 500ms or PT1H30M"

# Each entry is added to a valid run of 16 GPUs, so that it stands on line 8.
ADDED: list[tuple[str, list[tuple[str, str, str]]]] = [
    (
        "malleable: {minTotalGPUs: 8, maxTotalGPUs: 30, stepGPUs: 8}",
        [
            (
                "malleable.maxTotalGPUs",
                "must be minTotalGPUs 8 plus whole steps of stepGPUs 8, got 30",
                "use 24 or 32",
            )
        ],
    ),
    (
        "malleable: {minTotalGPUs: 8, maxTotalGPUs: 24, stepGPUs: 8, desiredTotalGPUs: 20}",
        [
            (
                "malleable.desiredTotalGPUs",
                "must be minTotalGPUs 8 plus whole steps of stepGPUs 8, got 20",
                "use 16 or 24",
            )
        ],
    ),
    (
        "malleable: {minTotalGPUs: 8, maxTotalGPUs: 24, stepGPUs: 8, desiredTotalGPUs: 32}",
        [
            (
                "malleable.desiredTotalGPUs",
                "must fall within min/max, 8 to 24, got 32",
                "use 8 to 24",
            )
        ],
    ),
    (
        "malleable: {minTotalGPUs: 32, maxTotalGPUs: 16, stepGPUs: 0}",
        [
            ("malleable.stepGPUs", "must be positive, got 0", "use 1 or more"),
            (
                "malleable.minTotalGPUs",
                "must be <= maxTotalGPUs 16, got 32",
                "swap them or widen the range",
            ),
        ],
    ),
    (
        "malleable: {minTotalGPUs: true, maxTotalGPUs: .nan, stepGPUs: '8'}",
        [
            ("malleable.minTotalGPUs", "must be a whole number, got true", WHOLE),
            ("malleable.maxTotalGPUs", "must be a whole number, got NaN", WHOLE),
            ("malleable.stepGPUs", 'must be a whole number, got "8"', "write 8 without quotes"),
        ],
    ),
    (
        f"malleable: {{minTotalGPUs: 8.0, maxTotalGPUs: {'9' * 70}, stepGPUs: 1048577}}",
        [
            ("malleable.minTotalGPUs", "must be a whole number, got 8.0", WHOLE),
            (
                "malleable.maxTotalGPUs",
                f"must be at most 1048576, got {'9' * 60}...",
                "use 1048576 or less",
            ),
            ("malleable.stepGPUs", "must be at most 1048576, got 1048577", "use 1048576 or less"),
        ],
    ),
    ("malleable:", [("malleable", "has no value", "give it a value or remove the field")]),
    (
        "priority: 5",
        [
            (
                "priority",
                "unknown field 'priority'",
                "remove it: there are no priorities; budgets and the lottery decide",
            )
        ],
    ),
    ("roles: []", [("roles", "unknown field 'roles'", ONE_COMMAND)]),
    ("template: {}", [("template", "unknown field 'template'", ONE_COMMAND)]),
    ("localty: {}", [("localty", "unknown field 'localty'", "did you mean 'locality'?")]),
    (
        "<<: {a: 1}",
        [
            (
                '["<<"]',
                "unknown field '<<'",
                "merge keys are not part of YAML 1.2; write out the fields",
            )
        ],
    ),
    ("sparesPerGroup: -1", [("sparesPerGroup", "must not be negative, got -1", "use 0 or more")]),
    (
        "replace: sameDomain",
        [
            (
                "replace",
                'must be "SameDomain" or "Restart" when set, got "sameDomain"',
                "did you mean SameDomain?",
            )
        ],
    ),
    (
        "onQuota: never",
        [
            (
                "onQuota",
                'must be "refuse" or "wait" when set, got "never"',
                'write "refuse" or "wait", or leave it out',
            )
        ],
    ),
    (
        "sensitive: no",
        [
            (
                "sensitive",
                'must be true or false, got "no"',
                "write true or false without quotes",
            )
        ],
    ),
    (
        "runtime: {expectedDuration: 0s, checkpoint: 90}",
        [
            ("runtime.expectedDuration", 'must be positive, got "0s"', "use 1ms or more"),
            (
                "runtime.checkpoint",
                "must be a duration with its unit, got 90",
                "write 90h, 90m or 90s",
            ),
        ],
    ),
    (
        "runtime: {expectedDuration: soon, checkpoint: -5m}",
        [
            ("runtime.expectedDuration", 'must be a duration, got "soon"', DURATIONS),
            (
                "runtime.checkpoint",
                'must not be negative, got "-5m"',
                "write a length of time like 90m",
            ),
        ],
    ),
    (
        "funding: {maxBorrowGPUs: 4, sponsors: [b, b]}",
        [
            ("funding.sponsors", 'lists "b" more than once', "list it once"),
            (
                "funding.maxBorrowGPUs",
                "has no effect without allowBorrow",
                "add allowBorrow: true or remove maxBorrowGPUs",
            ),
            (
                "funding.sponsors",
                "has no effect without allowBorrow",
                "add allowBorrow: true or remove sponsors",
            ),
        ],
    ),
    (
        "funding: {allowBorrow: true, maxBorrowGPUs: 0}",
        [("funding.maxBorrowGPUs", "must be positive, got 0", "use 1 or more")],
    ),
    (
        "funding: {allowBorrow: yes, maxBorrowGPUs: 4}",
        [
            (
                "funding.allowBorrow",
                'must be true or false, got "yes"',
                "write true or false without quotes",
            )
        ],
    ),
    (
        "follow: {after: [train], grace: 5}",
        [
            (
                "follow.after",
                'names the run itself: a run cannot follow itself ("train")',
                "remove it",
            ),
            ("follow.grace", "must be a duration with its unit, got 5", "write 5h, 5m or 5s"),
        ],
    ),
    (
        "follow: {after: []}",
        [("follow.after", "must list at least one run", "name a run, or remove the field follow")],
    ),
    (
        "follow: {after: [b, b]}",
        [("follow.after", 'lists "b" more than once', "list it once")],
    ),
    ("follow: {}", [("follow.after", "is required", "list the runs that must complete first")]),
    (
        "follow: {after: [b], onUpstreamFailure: retry}",
        [
            (
                "follow.onUpstreamFailure",
                'must be "wait" or "fail" or "start" when set, got "retry"',
                'write "wait" or "fail" or "start", or leave it out',
            )
        ],
    ),
    (
        "locality: {groupGPUs: 0, selector: {zone: a, regoin: b}}",
        [
            ("locality.groupGPUs", "must be positive, got 0", "use 1 or more"),
            (
                "locality.selector.zone",
                'unknown label "zone"',
                "use region, cluster, fabric.domain, rack",
            ),
            ("locality.selector.regoin", 'unknown label "regoin"', "did you mean 'region'?"),
        ],
    ),
    (
        "env: {MASTER_ADDR: a, 1x: b, N: 8}",
        [
            (
                "env.MASTER_ADDR",
                "is set by Quorate for every process of a run",
                "remove it from env",
            ),
            (
                'env["1x"]',
                'has a name that no environment variable can have: "1x"',
                "use letters, digits and _, not beginning with a digit",
            ),
            ("env.N", "must be text, got 8", 'write "8" in quotes'),
        ],
    ),
    (
        r'env: {A: "\0"}',
        [
            (
                "env.A",
                "must not contain a NUL or half of a surrogate pair",
                "remove that character",
            )
        ],
    ),
    (
        "command: python train.py",
        [
            (
                "command",
                'must be a list, got "python train.py"',
                "write each argument as an entry, or [sh, -c, ...] for a shell",
            )
        ],
    ),
    ("command: [python, 3]", [("command[1]", "must be text, got 3", 'write "3" in quotes')]),
    (
        "command: []",
        [("command", "must begin with a program", "name a program, or leave command out")],
    ),
    ("pool: a/b", [("pool", f'{NAME_RULE}, got "a/b"', NAME_REMEDY)]),
    (
        r'user: "a\nb"',
        [
            (
                "user",
                r'must be one line of 1 to 256 characters, got "a\nb"',
                "write one line without control characters",
            )
        ],
    ),
    (
        "workingDir: ''",
        [("workingDir", 'must not be empty, got ""', "name a folder, or leave the field out")],
    ),
    (
        f"nonce: {'n' * 129}",
        [("nonce", "must be at most 128 characters, got 129", "shorten it")],
    ),
    (
        "throughputs: {v100: -1, p100: .inf}",
        [
            (
                "throughputs.v100",
                "must be 0, or from 0.000001 to 1000000 steps a second, got -1",
                "use larger or smaller steps as the unit of all rates; 0 means the job cannot run",
            ),
            ("throughputs.p100", "must be a finite number, got Infinity", "write a number"),
        ],
    ),
    (
        "throughputs: {}",
        [
            (
                "throughputs",
                "must give the rate of at least one flavor",
                "add one, e.g. {v100: 12.5}",
            )
        ],
    ),
]


@pytest.mark.parametrize(("line", "expected"), ADDED, ids=[line for line, _ in ADDED])
def test_a_fault_is_told_with_its_place_and_remedy(
    line: str, expected: list[tuple[str, str, str]]
) -> None:
    found = faults(f"{RUN}  {line}\n")
    assert found == [
        Told(8, f"spec{path}" if path.startswith("[") else f"spec.{path}", message, remedy)
        for path, message, remedy in expected
    ]


def test_the_requested_width_must_be_on_the_grid() -> None:
    text = RUN + "  malleable: {minTotalGPUs: 12, maxTotalGPUs: 28, stepGPUs: 8}\n"
    assert faults(text) == [
        Told(
            7,
            "spec.resources.totalGPUs",
            "must be minTotalGPUs 12 plus whole steps of stepGPUs 8, got 16",
            "use 12 or 20",
        )
    ]


def test_the_requested_width_must_be_in_range() -> None:
    text = RUN + "  malleable: {minTotalGPUs: 24, maxTotalGPUs: 32, stepGPUs: 8}\n"
    assert faults(text) == [
        Told(
            7,
            "spec.resources.totalGPUs",
            "must fall within malleable min/max, 24 to 32, got 16",
            "use 24 to 32",
        )
    ]


def test_a_remedy_never_leaves_the_range() -> None:
    text = RUN + "  malleable: {minTotalGPUs: 9, maxTotalGPUs: 17, stepGPUs: 16}\n"
    assert [(told.path, told.remedy) for told in faults(text)] == [
        ("spec.resources.totalGPUs", "use 9"),
        ("spec.malleable.maxTotalGPUs", "use 9 or 25"),
    ]


def test_rounds_work_needs_a_source_of_rates() -> None:
    assert faults(RUN + "  slo: 0\n  weight: 0\n  totalSteps: 0\n") == [
        Told(
            5,
            "spec.jobType",
            "is required for work in rounds, unless throughputs is set",
            "add jobType",
        ),
        Told(8, "spec.slo", "must be at least 0.001, got 0", "use 0.001 or more"),
        Told(
            9,
            "spec.weight",
            "must be from 0.001 to 1000, got 0",
            "use a weight in that range: it is compared with the weights of the owner's other runs",
        ),
        Told(10, "spec.totalSteps", "must be positive, got 0", "use 1 or more"),
    ]


@pytest.mark.parametrize("weight", ["1E-60", "0.00099", "1000.1", "1E+12", "-1"])
def test_a_weight_that_a_pool_could_not_share_by_is_refused(weight: str) -> None:
    (fault,) = faults(RUN + f"  jobType: lm\n  weight: {weight}\n")
    assert (fault.path, fault.message) == (
        "spec.weight",
        f"must be from 0.001 to 1000, got {weight}",
    )
    for sound in ("0.001", "1000"):
        text = RUN + f"  jobType: lm\n  weight: {sound}\n"
        assert isinstance(parse_documents(text, source="x.yaml"), Documents)


@pytest.mark.parametrize("rate", ["1e-7", "1e7"])
def test_a_rate_that_no_policy_can_work_with_is_refused(rate: str) -> None:
    (fault,) = faults(RUN + f"  throughputs: {{v100: {rate}}}\n")
    assert fault.path == "spec.throughputs.v100"
    assert fault.message.startswith("must be 0, or from 0.000001 to 1000000 steps a second, got")
    for sound in ("0.000001", "1000000", "0"):
        text = RUN + f"  throughputs: {{v100: {sound}}}\n"
        assert isinstance(parse_documents(text, source="x.yaml"), Documents)


def test_rounds_work_has_one_source_of_rates() -> None:
    assert faults(RUN + "  jobType: lm\n  throughputs: {v100: 1}\n") == [
        Told(
            9,
            "spec.throughputs",
            "is set beside jobType",
            "keep jobType to use the rates of the table, or keep throughputs",
        )
    ]


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        (
            "{totalGPUs: 0}",
            [
                ("spec.resources.totalGPUs", "must be positive, got 0"),
                ("spec.resources.gpuType", "is required"),
            ],
        ),
        (
            "{gpuType: a, gpuTypes: [b], totalGPUs: 1}",
            [("spec.resources.gpuTypes", "is set beside gpuType")],
        ),
        (
            "{gpuTypes: [], totalGPUs: 1}",
            [("spec.resources.gpuTypes", "must list at least one kind of GPU")],
        ),
        (
            "{gpuTypes: [a, a], totalGPUs: 1}",
            [("spec.resources.gpuTypes", 'lists "a" more than once')],
        ),
        (
            "{gpuType: a, totalGpus: 8}",
            [
                ("spec.resources.totalGpus", "unknown field 'totalGpus'"),
                ("spec.resources.totalGPUs", "is required"),
            ],
        ),
    ],
)
def test_resources_say_which_gpus_and_how_many(
    resources: str, expected: list[tuple[str, str]]
) -> None:
    found = faults(headed("Run", f"spec: {{owner: a, resources: {resources}}}\n"))
    assert [(told.path, told.message) for told in found] == expected


def test_every_field_reaches_the_run() -> None:
    text = headed(
        "Run",
        """\
spec:
  owner: org:ai:rai
  user: ada@example.com
  pool: big
  resources: {gpuTypes: [H100, A100], totalGPUs: 16}
  locality: {groupGPUs: 8, allowCrossGroupSpread: false, selector: {region: us, rack: '*'}}
  malleable: {minTotalGPUs: 8, maxTotalGPUs: 32, stepGPUs: 8}
  sparesPerGroup: 1
  replace: Restart
  runtime: {expectedDuration: PT1H30M, checkpoint: 90s}
  funding: {allowBorrow: true, maxBorrowGPUs: 4, sponsors: [vision]}
  follow: {after: [prep], onUpstreamFailure: fail, grace: 1h}
  onQuota: wait
  sensitive: true
  command: [python, -c, "print(1)"]
  env: {B: "2", A: "1"}
  workingDir: /data
  processes: node
  mail: {to: ada@lab.example, kinds: [run-started, run-failed, run-started]}
  nonce: abc
  throughputs: {v100: 12.5}
  totalSteps: 100
  weight: 2
  slo: 3600.5
""",
    )
    assert spec(text) == sp.Run(
        name="a",
        owner="org:ai:rai",
        user="ada@example.com",
        pool="big",
        flavors=("H100", "A100"),
        gpus=16,
        group_gpus=8,
        cross_group_spread=False,
        selector=(("rack", "*"), ("region", "us")),
        malleable=sp.Malleable(gpus_min=8, gpus_max=32, gpus_step=8, gpus_desired=32),
        spares_per_group=1,
        replace=sp.Replace.RESTART,
        expected_duration_ms=5_400_000,
        checkpoint_ms=90_000,
        funding=sp.Funding(allow_borrow=True, borrow_gpus_max=4, sponsors=("vision",)),
        follow=sp.Follow(
            after=("prep",), on_upstream_failure=sp.UpstreamFailure.FAIL, grace_ms=3_600_000
        ),
        on_quota=sp.OnQuota.WAIT,
        sensitive=True,
        command=("python", "-c", "print(1)"),
        env=(("A", "1"), ("B", "2")),
        working_dir="/data",
        nonce="abc",
        rounds=sp.RoundsWork(
            throughputs=(("v100", 12.5),), total_steps=100, weight=2.0, slo_ms=3_600_500
        ),
        processes=sp.Processes.NODE,
        mail=sp.RunMail(
            to="ada@lab.example", kinds=(NoticeKind.RUN_STARTED, NoticeKind.RUN_FAILED)
        ),
    )


@pytest.mark.parametrize(
    ("mail", "path", "message"),
    [
        ("{kinds: [run-failed]}", "mail.to", "is required"),
        ("{to: Ada}", "mail.to", 'must be a mail address of at most 254 characters, got "Ada"'),
        ("{to: 'a@b, c@d'}", "mail.to", "must be a mail address"),
        ('{to: "a@b\\nRCPT TO:<c@d>"}', "mail.to", "must"),
        ("{to: a@b, kinds: []}", "mail.kinds", "must name at least one kind"),
        ("{to: a@b, kinds: [lottery-won]}", "mail.kinds[0]", 'must be "run-started" or '),
        ("{to: a@b, cc: c@d}", "mail.cc", "unknown field"),
    ],
)
def test_mail_has_one_plain_address_and_kinds_about_one_run(
    mail: str, path: str, message: str
) -> None:
    (found,) = faults(f"{RUN}  mail: {mail}\n")
    assert found.path == f"spec.{path}"
    assert found.message.startswith(message)


def test_mail_without_kinds_is_about_the_end_of_the_run() -> None:
    found = spec(f"{RUN}  mail: {{to: a@b}}\n")
    assert isinstance(found, sp.Run)
    assert found.mail == sp.RunMail(
        to="a@b", kinds=(NoticeKind.RUN_COMPLETED, NoticeKind.RUN_FAILED)
    )


@pytest.mark.parametrize(
    ("line", "path", "most"),
    [
        ("funding: {{allowBorrow: true, sponsors: [{names}]}}", "funding.sponsors", SPONSORS_MAX),
        ("follow: {{after: [{names}]}}", "follow.after", UPSTREAMS_MAX),
        ("throughputs: {{{rates}}}", "throughputs", RATES_MAX),
    ],
)
def test_a_list_that_every_decision_would_walk_over_has_a_most(
    line: str, path: str, most: int
) -> None:
    def text(count: int) -> str:
        names = [f"n{number}" for number in range(count)]
        rates = ", ".join(f"{name}: 1" for name in names)
        return f"{RUN}  {line.format(names=', '.join(names), rates=rates)}\n"

    assert isinstance(parse_documents(text(most), source="x.yaml"), Documents)
    (fault,) = faults(text(most + 1))
    assert fault.path == f"spec.{path}"
    assert f"{most + 1}" in fault.message
    assert f"over {most}" in fault.message


def test_steps_of_all_kinds_of_gpu_together_have_a_most() -> None:
    """Each width is tried again whenever the reason for the run's wait is computed."""
    spec = {
        "owner": "o",
        "user": "u",
        "resources": {"gpuTypes": ["a", "b", "c", "d"], "totalGPUs": 100},
        "malleable": {"minTotalGPUs": 1, "maxTotalGPUs": 100, "stepGPUs": 3},
    }
    tree = {"apiVersion": "quorate.dev/v1", "kind": "Run", "metadata": {"name": "r"}, "spec": spec}
    found = parse_tree(None, tree)
    assert not isinstance(found, Documents)
    (problem,) = found.problems
    assert problem.text() == (
        "input: Run/r: spec.malleable.stepGPUs: must make at most 128 steps over all kinds of "
        "GPU, but 3 makes 33 for each of 4 kinds; use steps of 4 GPUs or more, or name fewer kinds"
    )
    spec["malleable"] = {"minTotalGPUs": 4, "maxTotalGPUs": 100, "stepGPUs": 4}
    assert isinstance(parse_tree(None, tree), Documents)


def test_a_run_names_few_kinds_of_gpu() -> None:
    flavors = [f"g{number}" for number in range(FLAVORS_MAX + 1)]
    spec = {"owner": "o", "user": "u", "resources": {"gpuTypes": flavors, "totalGPUs": 1}}
    tree = {"apiVersion": "quorate.dev/v1", "kind": "Run", "metadata": {"name": "r"}, "spec": spec}
    found = parse_tree(None, tree)
    assert not isinstance(found, Documents)
    assert "spec.resources.gpuTypes: lists 17 names, over 16" in found.problems[0].text()
    spec["resources"] = {"gpuTypes": flavors[1:], "totalGPUs": 1}
    assert isinstance(parse_tree(None, tree), Documents)
