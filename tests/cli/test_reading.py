"""``get`` and ``describe``: every kind, every format, and missing resources."""

from __future__ import annotations

import json
from typing import Any

import pytest

from quorate.adapters.stores.store_sqlite import SqliteStore
from quorate.cli.commands.get_command import PHASES
from quorate.documents import API_VERSION
from quorate.model.amounts import HOUR_MS
from quorate.model.state.records import Phase
from quorate.views.kinds.kind import Kind
from quorate.views.kinds.kind_table import KINDS
from quorate.views.runs.wait_reasons import LIVE_MAX
from tests.cli.shell import EXAMPLES, Shell


@pytest.fixture
def busy(shell: Shell) -> Shell:
    """Return a shell beside a ledger with running, waiting and ended runs."""
    for name in ("train", "share", "borrow", "malleable", "too-big"):
        shell.ok("submit", "-f", EXAMPLES / f"{name}.yaml")
    shell.ok("complete", "share")
    shell.ok(
        "patch",
        "budget",
        "core",
        "--set",
        'spec.aggregateCaps=[{"name":"all","flavor":"H100","envelopes":["west"],"maxConcurrency":16}]',
    )
    return shell


@pytest.fixture
def planned(busy: Shell) -> Shell:
    """Return a shell beside that ledger with a planned start, a conflict and a claim."""
    busy.ok("claim", "--owner", "core", "--flavor", "H100", "--nodes", "1", "--for", "8h")
    busy.ok("submit", "--like", "malleable", "--name", "next")
    busy.ok("resolve", "--scope", "flavor=A100", "--deficit", "8")
    return busy


def _items(shell: Shell, kind: Kind) -> list[dict[str, Any]]:
    """Return the items of ``kind``; the System document is single, and not in a list."""
    listed = shell("get", kind.name, "-o", "json").json
    assert listed["apiVersion"] == "quorate.dev/v1"
    if kind.name == "system":
        return [listed]
    assert listed["kind"] == "List"
    items: list[dict[str, Any]] = listed["items"]
    return items


@pytest.mark.heavy
def test_every_kind_is_listed_in_every_form_under_every_name(planned: Shell) -> None:
    busy = planned
    for kind in KINDS:
        plain = busy.ok("get", kind.plural)
        assert len(plain.splitlines()) > 1, kind
        wide = busy.ok("get", kind.plural, "-o", "wide")
        assert len(wide.splitlines()) == len(plain.splitlines()), kind
        for item in _items(busy, kind):
            assert set(item) <= {"apiVersion", "kind", "metadata", "spec", "status"}
            assert item["metadata"]["name"]
            assert item["status"]
        assert busy.ok("get", kind.plural, "-o", "yaml").startswith("apiVersion: quorate.dev/v1\n")
        for short in kind.called.short:
            assert busy.ok("get", short) == plain


@pytest.mark.heavy
def test_every_thing_can_be_described(planned: Shell) -> None:
    busy = planned
    for kind in KINDS:
        for item in _items(busy, kind)[:2]:
            name = item["metadata"]["name"]
            assert name.partition("/")[0] in busy.ok("describe", kind.name, name)


@pytest.mark.heavy
def test_one_name_gives_the_document_itself(busy: Shell) -> None:
    document = busy("get", "run", "train", "-o", "json").json
    assert (document["kind"], document["metadata"]["name"]) == ("Run", "train")
    assert document["status"]["domains"] == {"us-west/c1/A": 64, "us-west/c1/B": 32}
    assert busy("get", "run/train", "-o", "json").json == document


@pytest.mark.heavy
def test_domains_tell_free_total_whole_nodes_and_the_largest_gang(busy: Shell) -> None:
    rows = [line.split() for line in busy.ok("get", "domains").splitlines()]
    assert rows[2] == ["us-west/c1/A", "H100", "[#################...]", "8", "72", "1", "8"]
    (row,) = (busy("get", "domain", "us-west/c1/A", "-o", "json").json["status"],)
    assert (row["freeGPUs"], row["totalGPUs"], row["largestGangGPUs"]) == (8, 72, 8)


@pytest.mark.heavy
def test_numbers_stand_right_and_lines_end_without_blanks(busy: Shell) -> None:
    lines = busy.ok("get", "nodes").splitlines()
    end = lines[0].index("FREE") + len("FREE")
    assert {line[end - 1] for line in lines[1:]} <= set("0123456789")
    assert not any(line.endswith(" ") for line in lines)


@pytest.mark.heavy
def test_a_runs_description_has_its_timeline_with_sequences(busy: Shell) -> None:
    out = busy.ok("describe", "run", "train")
    assert "Phase:          Running" in out
    assert " 27   " in out.partition("Timeline:")[2]
    assert "lease-started/2" in out
    waiting = busy.ok("describe", "run", "too-big")
    assert "Waits because:" in waiting
    assert "  this reason since " in waiting


@pytest.mark.heavy
def test_a_budgets_description_has_accounts_caps_and_what_it_pays(busy: Shell) -> None:
    out = busy.ok("describe", "budget", "core")
    assert "core/west" in out
    assert "core/all" in out
    assert "borrow/0" in out


@pytest.mark.heavy
def test_an_unknown_name_is_told_what_is_near_it(busy: Shell) -> None:
    said = busy("get", "run", "trian")
    assert (said.code, said.out) == (1, "")
    assert said.err.splitlines()[0] == "error: there is no run 'trian'; did you mean 'train'?"
    assert busy("describe", "node", "zz").code == 1


@pytest.mark.heavy
def test_an_unknown_kind_is_a_usage_error(busy: Shell) -> None:
    said = busy("get", "nods")
    assert said.code == 2
    assert "there is no kind 'nods'; did you mean nodes?" in said.err


@pytest.mark.heavy
def test_output_forms_may_stand_before_or_after_the_command(busy: Shell) -> None:
    assert busy("-o", "json", "get", "owners").json == busy("get", "owners", "-o", "json").json


def test_an_empty_list_is_no_error(shell: Shell) -> None:
    said = shell("get", "runs")
    assert (said.code, said.out, said.err) == (0, "", "there are no runs\n")
    nothing = "no run waits in the queue; runs in pools with rounds are in: quorate get runs\n"
    assert shell("get", "queue").err == nothing
    assert shell("get", "runs", "-o", "json").json["items"] == []


@pytest.mark.heavy
def test_reading_does_not_wait_for_a_writer(busy: Shell) -> None:
    with SqliteStore.open(busy.folder / "quorate.db"):
        assert busy.ok("get", "runs")
        assert busy.ok("explain", "too-big")
        assert busy.ok("ledger", "verify")
        assert busy("submit", "-f", EXAMPLES / "share.yaml", "--dry-run").code in (0, 1)
        held = busy("tick")
    assert held.code == 4
    assert "is open for writing in process" in held.err


@pytest.mark.heavy
def test_reasons_are_of_now_and_not_of_when_they_were_recorded(shell: Shell) -> None:
    """The code stays the same, so nothing is recorded, while the number of free GPUs falls."""
    shell.ok("submit", "-f", EXAMPLES / "malleable.yaml", "--set", "spec.malleable=null",
             "--set", "spec.resources.totalGPUs=8")  # fmt: skip
    shell.ok("submit", "--like", "malleable", "--name", "waits", "--set",
             "spec.resources.totalGPUs=16")  # fmt: skip
    assert "budgets can pay 8 of 16 GPUs, 8 short" in shell.ok("get", "queue")
    events = shell.ok("ledger", "log").count("run-refused/1")
    shell.clock.at_ms += 60_000
    # This run ends before the planned start of `waits`.
    short = ("--set", "spec.runtime.expectedDuration=15m")
    shell.ok("submit", "--like", "malleable", "--name", "more", *short, "--set",
             "spec.resources.totalGPUs=4")  # fmt: skip
    assert shell.ok("ledger", "log").count("run-refused/1") == events
    for words in (["get", "queue"], ["get", "runs"], ["describe", "run", "waits"],
                  ["describe", "owner", "rai"], ["explain", "waits"]):  # fmt: skip
        assert "budgets can pay 4 of 16 GPUs, 12 short" in shell.ok(*words), words
    assert "this reason since 2027-01-15T08:00:00Z (1m ago)" in shell.ok("describe", "run", "waits")
    refusal = shell("get", "run", "waits", "-o", "json").json["status"]["refusal"]
    assert (refusal["short"], refusal["since"]) == (12, "2027-01-15T08:00:00Z")
    for shortage in (*refusal["shortages"], *refusal["also"]["shortages"]):
        assert set(shortage) == {"where", "wanted", "available", "short", "limit"}


def test_a_reason_that_time_has_made_is_shown_before_it_is_recorded(shell: Shell) -> None:
    """There is money but no free GPUs; then the window of the envelope closes."""
    line = {
        "name": "n",
        "flavor": "A100",
        "selector": {"region": "eu-north"},
        "start": "2020-01-01T00:00:00Z",
        "end": "2027-01-15T10:00:00Z",
        "concurrency": 16,
    }
    guest = {"owner": "partner", "envelopes": [line]}
    head = {"apiVersion": API_VERSION, "kind": "Budget", "metadata": {"name": "guest"}}
    shell.ok("apply", "-f", shell.file("guest.json", json.dumps({**head, "spec": guest})))
    shell.ok("submit", "-f", EXAMPLES / "malleable.yaml", "--set", "spec.malleable=null")
    shell.ok("submit", "--like", "malleable", "--name", "waits", "--set", "spec.owner=partner")
    assert " insufficient-capacity " in shell.ok("get", "queue")
    shell.clock.at_ms += 3 * HOUR_MS
    assert " insufficient-capacity " not in shell.ok("get", "queue")
    told = "not recorded yet; the ledger has insufficient-capacity at 2027-01-15T08:00:00Z"
    assert told in shell.ok("describe", "run", "waits")
    assert shell("get", "run", "waits", "-o", "json").json["status"]["refusal"]["since"] is None


def test_a_run_that_nothing_holds_any_more_is_told_how_to_start(shell: Shell) -> None:
    opening = "2027-01-15T09:00:00Z"
    shell.ok("patch", "budget", "rai", "--set", f"spec.envelopes[north].start={opening}")
    shell.ok("submit", "-f", EXAMPLES / "malleable.yaml")
    shell.clock.at_ms += 2 * HOUR_MS
    assert "could start now; to start it: quorate tick" in shell.ok("get", "runs")
    assert shell("get", "run", "malleable", "-o", "json").json["status"]["startable"] is True
    assert "run/malleable started" in shell.ok("tick")


@pytest.mark.slow
def test_beyond_a_limit_reasons_are_those_recorded_and_say_so(shell: Shell) -> None:
    spec = {"owner": "rai", "resources": {"gpuType": "A100", "totalGPUs": 99}}
    runs = [
        {"apiVersion": API_VERSION, "kind": "Run", "metadata": {"name": f"r{n:03d}"}, "spec": spec}
        for n in range(LIVE_MAX + 1)
    ]
    shell.ok("apply", "-f", shell.file("many.json", "\n".join(map(json.dumps, runs))))
    rows = shell.ok("get", "queue").splitlines()[1:]
    marked = [row for row in rows if "(as of 2027-01-15T08:00:00Z)" in row]
    assert (len(rows), marked) == (LIVE_MAX + 1, rows[-1:])
    last = shell.ok("describe", "run", f"r{LIVE_MAX:03d}")
    assert "(as of " not in last
    assert "this reason since 2027-01-15T08:00:00Z" in last


@pytest.mark.heavy
def test_runs_can_be_chosen_by_owner_phase_and_number(busy: Shell) -> None:
    def found(*words: str) -> list[str]:
        return [row.split()[0] for row in busy.ok("get", "runs", *words).splitlines()[1:]]

    busy.ok("submit", "--like", "share", "--name", "theirs", "--set", "spec.owner=core")
    assert found("--owner", "core") == ["theirs"]
    assert found("--phase", "completed") == ["share"]
    assert found("--owner", "rai", "--phase", "Running") == ["train", "borrow", "malleable"]
    assert found("--owner", "rai", "--phase", "Running", "--limit", "2") == ["borrow", "malleable"]
    queue = busy.ok("get", "queue", "--limit", "1").splitlines()
    assert [row.split()[1] for row in queue[1:]] == ["too-big"]
    assert len(busy.ok("get", "nodes", "--limit", "3").splitlines()) == 4


def test_the_phases_that_can_be_asked_for_are_those_of_the_model() -> None:
    assert tuple(phase.value for phase in Phase) == PHASES


def test_envelopes_show_their_window_and_what_cannot_be_spent_now(shell: Shell) -> None:
    shell.ok("patch", "budget", "rai", "--set", "spec.envelopes[west].end=2027-01-01T00:00:00Z")
    shell.ok("patch", "budget", "core", "--set", "spec.envelopes[west].start=2028-01-01T00:00:00Z")
    early = "spec.envelopes[west].preActivation.allowAdmission=true"
    shell.ok("patch", "budget", "partner", "--set", early,
             "--set", "spec.envelopes[west].start=2028-01-01T00:00:00Z")  # fmt: skip
    rows = {
        row.split()[0]: row.split()[4:] for row in shell.ok("get", "envelopes").splitlines()[1:]
    }
    assert (rows["rai/north"][0], rows["rai/north"][-1]) == ("open", "2000.00")
    assert (rows["rai/west"][0], rows["rai/west"][-1]) == ("closed", "-")
    assert (rows["core/west"][:2], rows["core/west"][-1]) == (
        ["opens", "2028-01-01T00:00:00Z"],
        "-",
    )
    assert (rows["partner/west"][0], rows["partner/west"][-1]) == ("opens", "4000.00")


@pytest.mark.heavy
def test_spent_held_and_free_add_up_to_granted_as_shown(busy: Shell) -> None:
    for step in (1_234_567, 7_654_321, 12_345):
        busy.clock.at_ms += step
        for kind in ("envelopes", "budgets"):
            for row in busy.ok("get", kind).splitlines()[1:]:
                granted, *parts = [round(float(cell) * 100) for cell in row.split()[-4:]]
                assert sum(parts) == granted, row


@pytest.mark.heavy
def test_a_leases_description_has_its_slots_as_ranges(busy: Shell) -> None:
    out = busy.ok("describe", "lease", "train/1")
    assert "Slots:\n  b1[0-7]\n  b2[0-7]\n" in out
    assert "Paid from:  rai/west (owned)" in out


@pytest.mark.heavy
def test_a_list_is_chosen_by_labels_and_fields_and_ordered(busy: Shell) -> None:
    nodes = busy("get", "nodes", "-o", "json").json["items"]
    domain = nodes[0]["metadata"]["labels"]["fabric.domain"]
    inside = [
        each["metadata"]["name"]
        for each in nodes
        if each["metadata"]["labels"]["fabric.domain"] == domain
    ]
    listed = busy.ok("get", "nodes", "-l", f"fabric.domain={domain}", "-o", "name").split()
    assert listed == [f"node/{name}" for name in inside]
    assert 0 < len(inside) < len(nodes)
    rows = busy.ok("get", "nodes", "--field", f"metadata.name={inside[0]}").splitlines()
    assert [row.split()[0] for row in rows[1:]] == inside[:1]
    order = busy.ok("get", "nodes", "--sort-by", ".status.freeGPUs", "-o", "json")
    free = [each["status"]["freeGPUs"] for each in json.loads(order)["items"]]
    assert free == sorted(free)
    table = busy.ok("get", "nodes", "--sort-by", ".status.freeGPUs").splitlines()
    names = [each["metadata"]["name"] for each in json.loads(order)["items"]]
    assert [row.split()[0] for row in table[1:]] == names
    assert "no node matches" in busy("get", "nodes", "-l", "zone").err


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("nodes", "-l", "a b"), "-l 'a b': write KEY=VALUE"),
        (("nodes", "--field", "spec"), "--field 'spec': write PATH=VALUE"),
        (("nodes", "--sort-by", ".status.no"), ".status.no: no listed resource has a value"),
        (("nodes", "--field", "status.no=1"), "status.no=1: no listed resource has status.no"),
        (("nodes", "--field", "status.freeGPUs>=4"), "other operators do not exist"),
        (("nodes", "-l", "a", "--limit", "1"), "need the whole list: remove --limit"),
    ],
)
def test_a_choice_that_cannot_be_made_is_an_error(
    busy: Shell, words: tuple[str, ...], text: str
) -> None:
    said = busy("get", *words)
    assert (said.code, said.out) == (2, "")
    assert text in said.err
