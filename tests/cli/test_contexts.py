"""Contexts: which service a command uses, and where the contexts are stored."""

from __future__ import annotations

import json
import stat
import tomllib
from pathlib import Path
from typing import Any

import pytest

from quorate.operations.common_requests import MORE
from tests.cli.shell import EXAMPLES, Said, Shell, process
from tests.client.scripted import Act, gives, page, refuses, serving

pytestmark = pytest.mark.slow


def _as(name: str) -> Act:
    """Return an act that answers every request with a line that contains ``name``."""
    body = b'{"out":["%s"],"err":[],"done":""}' % name.encode()
    return lambda stand: stand.send(200, body, "application/vnd.quorate.told+json")


@pytest.fixture
def home(bare: Shell) -> Shell:
    """Return a shell whose user has a home folder."""
    bare.environ["HOME"] = str(bare.folder)
    return bare


def _config(shell: Shell) -> Path:
    return shell.folder / ".config" / "quorate" / "config.toml"


def test_a_context_is_kept_where_nobody_else_reads_it(home: Shell) -> None:
    home.file("lab.token", "secret\n")
    out = home.ok(
        "context", "set", "lab", "--server", "http://127.0.0.1:1/", "--token-file", "lab.token"
    )
    assert f"context 'lab' created in {_config(home)}" in out
    assert "commands now use http://127.0.0.1:1" in out
    assert stat.S_IMODE(_config(home).stat().st_mode) == 0o600
    assert tomllib.loads(_config(home).read_text()) == {
        "current": "lab",
        "contexts": {
            "lab": {
                "server": "http://127.0.0.1:1",
                "token_file": str(home.folder / "lab.token"),
            }
        },
    }


def test_setting_a_further_context_says_which_is_still_current(home: Shell) -> None:
    home.ok("context", "set", "here", "--server", "http://127.0.0.1:1")
    made = home.ok("context", "set", "alice", "--server", "http://127.0.0.1:2").splitlines()
    still = "commands still use http://127.0.0.1:1, context 'here'; to use the new one: quorate "
    assert made[1:] == [f"{still}context use alice"]
    assert home.ok("context", "set", "here", "--server", "http://127.0.0.1:3").count("\n") == 1
    home.ok("context", "use", "file")
    changed = home.ok("context", "set", "alice", "--server", "http://127.0.0.1:4").splitlines()
    still = "commands still use the ledger's file; to use the new one: quorate context use alice"
    assert changed[1:] == [still]


def test_a_first_context_that_the_environment_overrides_says_so(home: Shell) -> None:
    home.environ["QUORATE_CONTEXT"] = "file"
    said = home("context", "set", "here", "--server", "http://127.0.0.1:1")
    assert "note: QUORATE_CONTEXT is set and takes precedence" in said.err


@pytest.mark.parametrize(
    ("environ", "leave"),
    [({}, "quorate context use file"), ({"QUORATE_CONTEXT": "here"}, "unset QUORATE_CONTEXT")],
)
def test_init_beside_a_service_says_how_to_reach_its_file(
    home: Shell, environ: dict[str, str], leave: str
) -> None:
    home.ok("context", "set", "here", "--server", "http://127.0.0.1:1")
    home.environ |= environ
    made = home("init")
    assert "next: quorate --ledger quorate.db apply -f FILE" in made.out
    assert (
        "warning: without --ledger quorate.db commands go to http://127.0.0.1:1, not to this "
        f"file; to work on it: {leave}\n"
    ) in made.err
    applied = home("--ledger", "quorate.db", "apply", "-f", EXAMPLES / "fleet.yaml")
    assert applied.code == 0, applied


def _keep_token(home: Shell) -> None:
    words = ("context", "set", "lab", "--server", "https://h:1", "--token", "-")
    said = process(home.folder, *words, env={"HOME": str(home.folder)}, stdin=b"  s3cret \n")
    assert said.code == 0, said


def _kept(home: Shell) -> Any:
    return tomllib.loads(_config(home).read_text())["contexts"]["lab"]


def test_a_token_is_taken_from_standard_input_and_never_shown(home: Shell) -> None:
    _keep_token(home)
    assert _kept(home) == {"server": "https://h:1", "token": "s3cret"}
    for words in (("list",), ("list", "-o", "json"), ("current",)):
        assert "s3cret" not in home.ok("context", *words)
    refused = home("context", "set", "lab", "--token", "s3cret")
    assert refused.code == 2
    assert "other users could see a token" in refused.err
    assert "s3cret" not in refused.err


def test_contexts_are_listed_used_and_deleted(home: Shell) -> None:
    home.ok("context", "set", "a", "--server", "http://127.0.0.1:1")
    home.ok("context", "set", "b", "--server", "http://127.0.0.1:2")
    assert home.ok("context", "current") == "a: http://127.0.0.1:1 (by quorate context use)\n"
    assert home.ok("context", "use", "b") == "commands now use http://127.0.0.1:2, context 'b'\n"
    listing = home("context", "list", "-o", "json").json
    assert listing["current"] == "b"
    assert [each["name"] for each in listing["contexts"]] == ["a", "b"]
    assert [line.split()[0] for line in home.ok("context", "list").splitlines()[1:]] == ["a", "*"]
    assert "now use the ledger's file" in home.ok("context", "delete", "b")
    assert home.ok("context", "current") == "the ledger's file quorate.db\n"
    assert home("context", "use", "b").code == 1
    home.ok("context", "use", "a")
    home.ok("context", "use", "file")
    assert home.ok("context", "current") == "the ledger's file quorate.db\n"


def test_a_token_is_not_shown_to_another_server(home: Shell) -> None:
    _keep_token(home)
    said = home("context", "set", "lab", "--server", "https://other:1")
    assert "the stored token was removed" in said.err
    assert _kept(home) == {"server": "https://other:1"}


def test_an_open_wire_is_warned_of(home: Shell) -> None:
    said = home("context", "set", "lab", "--server", "http://quorate.lab:8414")
    assert said.code == 0
    assert "is not encrypted: others on the network can read your token" in said.err


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("set", "lab"), 2, "to create it, give --server URL"),
        (("set", "file", "--server", "http://h"), 4, "'file' means the ledger's file"),
        (("set", "a b", "--server", "http://h"), 4, "cannot be the name of a context"),
        (("set", "a", "--server", "h:1"), 2, "write http://HOST:PORT"),
        (("set", "a", "--server", "http://u:p@h"), 2, "contains a user or password"),
        (("set", "a", "--server", "http://h?x=1"), 2, "more than an address"),
        (("set", "a", "--server", "http://h", "--token-file", "no"), 4, "cannot be read"),
        (("set", "a", "--server", "https://h", "--ca-file", "no"), 2, "no cannot be read"),
        (("use", "nope"), 1, "there is no context 'nope'"),
        (("delete", "nope"), 1, "there is no context 'nope'"),
    ],
)
def test_what_is_wrong_with_a_context_is_said(
    home: Shell, words: tuple[str, ...], code: int, text: str
) -> None:
    said = home("context", *words)
    assert (said.code, said.out) == (code, "")
    assert text in said.err
    assert not _config(home).exists()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("current = [", "is not TOML"),
        ("curent = 'a'", "curent: unknown setting"),
        ("current = 'a'", "current: there is no context 'a'"),
        ("[contexts.a]\ntoken = 'x'", "contexts.a: server is missing"),
        ("[contexts.a]\nserver = 'x'", "is not an address"),
        ("[contexts.a]\nserver = 'http://h'\nport = 'x'", "contexts.a.port: unknown setting"),
        ("[contexts.a]\nserver = 3", "must be a table of strings"),
    ],
)
def test_a_broken_file_of_contexts_says_where(home: Shell, text: str, told: str) -> None:
    home.environ["QUORATE_CONFIG"] = str(home.file("mine.toml", text))
    said = home("get", "runs")
    assert said.code == 4
    assert "mine.toml" in said.err
    assert told in said.err


def test_others_who_can_read_the_file_are_warned_of(home: Shell) -> None:
    path = home.file("mine.toml", "")
    path.chmod(0o644)
    home.environ["QUORATE_CONFIG"] = str(path)
    assert "others can read" in home("context", "list").err


def _get(shell: Shell, *before: str) -> Said:
    return shell(*before, "get", "runs")


def test_what_is_typed_wins_over_the_environment_and_that_over_the_file(home: Shell) -> None:
    with serving(_as("kept")) as kept, serving(_as("other")) as other:
        home.ok("context", "set", "kept", "--server", kept.url)
        home.ok("context", "set", "other", "--server", other.url)
        assert _get(home).out == "kept\n"
        assert home("get", "runs", "--context", "other").out == "other\n"
        assert _get(home, "--server", other.url).out == "other\n"
        home.environ["QUORATE_CONTEXT"] = "other"
        assert _get(home).out == "other\n"
        assert _get(home, "--context", "kept").out == "kept\n"
        home.environ["QUORATE_SERVER"] = kept.url
        assert _get(home).out == "kept\n"
        assert "there is no ledger" in _get(home, "--context", "file").err
        assert "there is no ledger" in _get(home, "--ledger", "x.db").err
        assert (
            "give only one of --ledger and --context"
            in _get(home, "--ledger", "x.db", "--context", "kept").err
        )
        home.environ |= {"QUORATE_CONTEXT": "", "QUORATE_SERVER": "", "QUORATE_LEDGER": "x.db"}
        assert "there is no ledger" in _get(home).err


def test_a_token_goes_with_its_context_or_comes_from_the_environment(home: Shell) -> None:
    home.file("lab.token", "kept")
    with serving(_as("a")) as server:
        home.ok("context", "set", "bare", "--server", server.url)
        home.ok("context", "set", "lab", "--server", server.url, "--token-file", "lab.token")
        home.ok("get", "runs")
        home.environ |= {"QUORATE_TOKEN": "given"}
        home.ok("get", "runs")
        home.ok("get", "runs", "--context", "lab")
        home.ok("get", "runs", "--server", server.url)
    sent = [got.headers.get("authorization") for got in server.got]
    assert sent == [None, "Bearer given", "Bearer given", "Bearer given"]


def test_a_token_for_another_server_is_not_sent_to_a_context_that_has_its_own(home: Shell) -> None:
    home.file("lab.token", "kept")
    over = refuses(401, "unauthenticated", "the token is over")
    with serving(_as("a"), _as("a"), over) as server:
        home.ok("context", "set", "lab", "--server", server.url, "--token-file", "lab.token")
        home.environ |= {"QUORATE_TOKEN": "given", "QUORATE_SERVER": "http://127.0.0.1:1"}
        home.ok("get", "runs", "--context", "lab")
        home.environ["QUORATE_SERVER"] = ""
        current = home.ok("context", "current")
        assert "(by quorate context use, with the token in QUORATE_TOKEN)" in current
        home.ok("get", "runs")
        assert "correct it, or: unset QUORATE_TOKEN" in home("get", "runs").err
    sent = [got.headers.get("authorization") for got in server.got]
    assert sent == ["Bearer kept", "Bearer given", "Bearer given"]


@pytest.mark.parametrize(
    ("words", "code"),
    [(("init",), 0), (("demo", "--dir", "."), 1), (("serve", "--print-config"), 0)],
)
def test_what_works_on_a_file_says_so(home: Shell, words: tuple[str, ...], code: int) -> None:
    home.ok("context", "set", "lab", "--server", "http://127.0.0.1:1")
    said = home(*words)
    assert said.code == code, said
    note = f"note: {words[0]} works on a ledger's file, not on context 'lab' (by"
    assert said.err.startswith(note)
    refused = home("--context", "lab", *words)
    assert refused.code == 2
    assert f"--context: {words[0]} works on a ledger's file" in refused.err


def test_options_of_a_file_are_not_taken_for_a_service(home: Shell) -> None:
    said = home("--server", "http://127.0.0.1:1", "get", "runs", "--server", "http://127.0.0.1:1")
    assert said.code == 4
    said = home("--server", "http://127.0.0.1:1", "cancel", "a", "--actor", "eve")
    assert said.code == 2
    assert "--actor: is only for a ledger's file" in said.err


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("http://127.0.0.1:1", "nothing listens at http://127.0.0.1:1; is the service running?"),
        ("http://nowhere.invalid", "the host name in http://nowhere.invalid"),
        ("nonsense", "server 'nonsense' is not an address; write http://HOST:PORT"),
    ],
)
def test_a_service_that_cannot_be_reached_says_why(home: Shell, url: str, text: str) -> None:
    said = _get(home, "--server", url)
    assert said.out == ""
    assert text in said.err


def test_a_service_that_says_no_is_told_as_a_file_tells_it(home: Shell) -> None:
    def told(*words: str) -> Said:
        return home("--server", server.url, *words)

    unknown = refuses(404, "unknown-name", "there is no run 'a'; list them: quorate get runs")
    acts = [
        unknown,
        refuses(422, "invalid", "one", "two"),
        refuses(409, "unsound", "it does not verify"),
        refuses(401, "unauthenticated", "the token is over"),
        page("<p>hello</p>"),
    ]
    with serving(*acts) as server:
        missing = told("get", "run", "a")
        assert missing.code == 1
        assert missing.err == (
            "error: there is no run 'a'; list them: quorate get runs\n"
            f"searched: {server.url} (by --server)\n"
        )
        invalid = told("patch", "system", "--set", "spec.halfLife=soon")
        assert (invalid.code, invalid.err) == (3, "error: one\nerror: two\n")
        assert told("ledger", "verify").code == 5
        over = told("get", "runs")
        assert over.code == 1
        assert "error: the token is over\nerror: give your token in QUORATE_TOKEN" in over.err
        other = told("get", "runs")
        assert other.code == 4
        assert "the server is not Quorate: HTTP status 200, text/html: <p>hello</p>" in other.err


@pytest.mark.parametrize("words", [("--team", "owner/vision"), ()])
def test_a_line_is_of_the_tenant_that_the_service_knows(
    home: Shell, words: tuple[str, ...]
) -> None:
    me = {"user": "ann", "role": "user", "tenant": "rai", "scopes": [], "tenants": ["rai"]}
    fleet = {"items": [{"status": {"flavor": "H100"}}]}
    acts = [*([] if words else [gives(me)]), gives(fleet), _as("done")]
    line = ("submit", "--gpus", "8", "--flavor", "H100", *words, "--", "true")
    with serving(*acts) as server:
        assert home("--server", server.url, *line).out == "done\n"
    paths = ["/api/v1/whoami", "/api/v1/domains", "/api/v1/runs"]
    assert [got.path for got in server.got] == paths[-len(acts) :]
    owner = server.got[-1].json["document"]["spec"]["owner"]
    assert owner == ("vision" if words else "rai")


def test_who_is_of_no_tenant_has_to_say_whose_work_it_is(home: Shell) -> None:
    me = {"user": "root", "role": "admin", "tenant": "", "scopes": [], "tenants": []}
    home.file("job.sh", "#!/bin/bash\n#SBATCH --gpus=8\ntrue\n")
    with serving(gives(me)) as server:
        typed = home("--server", server.url, "submit", "--gpus", "8", "--", "true")
        script = home("--server", server.url, "sbatch", "job.sh")
    assert (typed.code, script.code) == (2, 3)
    assert "add --team OWNER" in typed.err
    assert "has no owner" in script.err


def test_who_is_of_no_tenant_lists_runs_by_user_and_cancels_none_by_me(home: Shell) -> None:
    me = {"user": "root", "role": "admin", "tenant": "", "scopes": [], "tenants": []}

    def run_of(name: str, user: str) -> dict[str, Any]:
        spec = {
            "owner": "rai",
            "user": user,
            "pool": "default",
            "resources": {"gpuType": "H100", "totalGPUs": 1},
        }
        status = {"phase": "Pending", "submitted": "2026-01-01T00:00:00Z", "gpus": 0}
        return {"metadata": {"name": name}, "spec": spec, "status": status}

    runs = {"items": [run_of("a", "root"), run_of("b", "ann")]}
    with serving(gives(me), gives(runs)) as server:
        listed = home("--server", server.url, "squeue", "--me", "-t", "PD", "-h", "-o", "%i")
    assert (listed.code, listed.out) == (0, "a\n")
    for words in (("scancel", "--me"), ("cancel", "--all")):
        with serving(gives(me)) as server:
            refused = home("--server", server.url, *words)
        assert refused.code == 2
        assert "your token has no owner, and several owners may have a user 'root'" in refused.err
        assert "write: --user root" in refused.err


def test_a_tree_is_printed_as_json_and_yaml(home: Shell) -> None:
    tree = {
        "dryRun": False,
        "changes": [],
        "warnings": ["w"],
        "events": [],
        "head": None,
        "hours": 0.10,
    }
    with serving(gives(tree, Quorate_Notes='["warning: w", "\\u00e9"]')) as server:
        said = home("--server", server.url, "cancel", "a", "-o", "yaml")
    assert said.code == 0
    assert "hours: 0.1\n" in said.out
    assert said.err == "warning: w\n\u00e9\n"


def test_a_list_is_asked_for_to_its_end(home: Shell) -> None:
    def page_of(name: str, **more: str) -> dict[str, Any]:
        return {"apiVersion": "v", "kind": "List", "items": [{"name": name}], **more}

    note = json.dumps([MORE])
    pages = [gives(page_of("a", next="a"), Quorate_Notes=note), gives(page_of("b"))]
    with serving(*pages) as server:
        said = home("--server", server.url, "get", "nodes", "-o", "json")
    assert said.json == page_of("a") | {"items": [{"name": "a"}, {"name": "b"}]}
    assert said.err == ""
    assert [got.query for got in server.got] == [[], [("cursor", "a")]]
    with serving(gives(page_of("a", next="a"), Quorate_Notes=note)) as server:
        said = home("--server", server.url, "get", "nodes", "-o", "json", "--limit", "1")
    assert said.json["next"] == "a"
    assert said.err == f"{MORE}\n"


@pytest.mark.parametrize(
    "words", [("report",), ("whatif", "--at", "2027-01-01T00:00:00Z"), ("forecast", "score")]
)
def test_commands_that_replay_a_whole_ledger_name_the_way_from_a_service(
    home: Shell, words: tuple[str, ...]
) -> None:
    found = home("--server", "http://127.0.0.1:1", *words)
    assert (found.code, found.out) == (2, "")
    assert "quorate ledger export --out ledger.jsonl, and add: --from-ledger" in found.err
