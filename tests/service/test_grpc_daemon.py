"""``quorate serve`` by gRPC, for a client that has only quorate.proto."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import grpc
import pytest
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from tests.bounds import WAIT_S
from tests.service.program import Program, program
from tests.tidy.tree import ROOT

CLIENT = """
import sys
import grpc
from google.protobuf import struct_pb2
from quorate.v1 import quorate_pb2, quorate_pb2_grpc

address, token = sys.argv[1:]
asks = {"metadata": [("authorization", f"Bearer {token}")], "timeout": 60}
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
    """Return the folder of client code that is generated from quorate.proto alone."""
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
    # A separate package, so that it is imported before the installed one.
    (folder / "quorate" / "__init__.py").touch()
    (folder / "client.py").write_text(textwrap.dedent(CLIENT), encoding="utf-8")
    return folder


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Program]:
    """Serve by gRPC and REST."""
    with program(tmp_path, "--grpc-listen", "127.0.0.1:0") as found:
        found.wait_ready()
        yield found


@pytest.mark.soak
@pytest.mark.slow
def test_the_proto_is_all_that_a_client_needs(stubs: Path, served: Program) -> None:
    address = re.search(r"grpc://(\S+)", served.err)
    assert address is not None, served.err
    found = subprocess.run(
        [sys.executable, "client.py", address[1], served.token],
        cwd=stubs,
        check=False,
        capture_output=True,
        text=True,
        timeout=5 * WAIT_S,
    )
    assert found.stderr == ""
    physics, usage, refusal, event, missing = found.stdout.splitlines()
    assert (physics, usage) == ("physics", "physics")
    assert refusal == "no-nodes"
    assert event == "run-submitted/1 r1"
    assert missing.startswith("NOT_FOUND there is no run 'r2'")
    assert served.end() == 0


@pytest.mark.slow
def test_reflection_knows_the_messages_before_any_call(served: Program) -> None:
    address = served.err and re.search(r"grpc://(\S+)", served.err)
    assert address, served.err
    asked = reflection_pb2.ServerReflectionRequest(file_containing_symbol="quorate.v1.RunService")
    with grpc.insecure_channel(address[1]) as channel:
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        (answer,) = stub.ServerReflectionInfo(iter([asked]), timeout=WAIT_S)
    assert answer.WhichOneof("message_response") == "file_descriptor_response", answer
