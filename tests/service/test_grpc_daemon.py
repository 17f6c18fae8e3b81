"""``quorate serve`` by gRPC, as somebody meets it who has nothing but quorate.proto."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest

from tests.tidy.tree import ROOT

CLIENT = """
import sys
import grpc
from google.protobuf import struct_pb2
from quorate.v1 import quorate_pb2, quorate_pb2_grpc

address, token = sys.argv[1:]
asks = {"metadata": [("authorization", f"Bearer {token}")], "timeout": 20}
with grpc.insecure_channel(address) as channel:
    admin = quorate_pb2_grpc.AdminServiceStub(channel)
    runs = quorate_pb2_grpc.RunServiceStub(channel)
    ledger = quorate_pb2_grpc.LedgerServiceStub(channel)
    new = quorate_pb2.CreateTenantRequest(id="physics", max_nodes={"number_value": 4})
    print(admin.CreateTenant(new, **asks).changes[0].name)
    print(admin.GetTenantUsage(quorate_pb2.TenantUsageRequest(id="physics"), **asks).metadata.name)
    run = struct_pb2.Struct()
    run.update({"apiVersion": "quorate.dev/v1", "kind": "Run", "metadata": {"name": "r1"}})
    run.update({"spec": {"owner": "physics", "resources": {"gpuType": "H100", "totalGPUs": 8}}})
    runs.SubmitRun(quorate_pb2.SubmitRunRequest(document=run), **asks)
    print(runs.ExplainRun(quorate_pb2.AboutRunRequest(run="r1"), **asks).refusal["code"])
    for event in ledger.WatchEvents(quorate_pb2.WatchEventsRequest(first=1), **asks):
        if event.tag.startswith("run-submitted"):
            print(event.tag, event.more["run"]["name"])
            break
    try:
        runs.GetRun(quorate_pb2.GetThingRequest(name="r2"), **asks)
    except grpc.RpcError as error:
        print(error.code().name, error.details())
"""


@pytest.fixture
def stubs(tmp_path: Path) -> Path:
    """Return the folder of code made from quorate.proto alone, as any client does."""
    folder = tmp_path / "stubs"
    folder.mkdir()
    well_known = files("grpc_tools").joinpath("_proto")
    subprocess.run(
        [
            sys.executable,
            "-m",
            "grpc_tools.protoc",
            f"-I{ROOT / 'proto'}",
            f"-I{well_known}",
            f"--python_out={folder}",
            f"--grpc_python_out={folder}",
            "quorate/v1/quorate.proto",
        ],
        check=True,
    )
    # A package of its own, so that it comes before the one that is installed here.
    (folder / "quorate" / "__init__.py").touch()
    (folder / "client.py").write_text(textwrap.dedent(CLIENT), encoding="utf-8")
    return folder


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], str, str]]:
    """Serve; yields the daemon, its address for gRPC, and the token that it printed."""
    log = tmp_path / "log"
    with log.open("w") as written:
        daemon = subprocess.Popen(
            [
                sys.executable,
                "-c",
                "from quorate.cli.main import run; run()",
                "serve",
                *("--listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0"),
            ],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=written,
            text=True,
        )
    try:
        assert daemon.stdout is not None
        told = ""
        for line in daemon.stdout:
            told += line
            if "try it:" in line:
                break
        token = re.search(r"Bearer (\S+)'", told)
        address = re.search(r"grpc://(\S+)", log.read_text(encoding="utf-8"))
        assert token is not None, log.read_text(encoding="utf-8")
        assert address is not None, log.read_text(encoding="utf-8")
        yield daemon, address[1], token[1]
    finally:
        daemon.kill()
        daemon.wait()
        if daemon.stdout is not None:
            daemon.stdout.close()


@pytest.mark.slow
def test_the_proto_is_all_that_a_client_needs(
    stubs: Path, served: tuple[subprocess.Popen[str], str, str]
) -> None:
    daemon, address, token = served
    found = subprocess.run(
        [sys.executable, "client.py", address, token],
        cwd=stubs,
        check=False,
        capture_output=True,
        text=True,
    )
    assert found.stderr == ""
    physics, usage, refusal, event, missing = found.stdout.splitlines()
    assert (physics, usage) == ("physics", "physics")
    assert refusal == "no-nodes"
    assert event == "run-submitted/1 r1"
    assert missing.startswith("NOT_FOUND there is no run 'r2'")
    daemon.send_signal(signal.SIGTERM)
    assert daemon.wait(timeout=20) == 0
