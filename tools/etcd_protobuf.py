"""Compiles the part of etcd's API that Quorate calls: ``python -m tools.etcd_protobuf``."""

from __future__ import annotations

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from google.protobuf.descriptor_pb2 import FileDescriptorSet
from grpc_tools import protoc  # type: ignore[import-untyped]

from quorate.adapters.etcd.etcd_messages import DESCRIPTION

ROOT: Final = Path(__file__).resolve().parents[1]
PROTO: Final = ROOT / "proto" / "etcd" / "etcd_v3.proto"
COMPILED: Final = ROOT / "src" / "quorate" / "adapters" / "etcd" / DESCRIPTION


def main() -> None:
    """Write the compiled description; with ``--check``, only check that it is up to date."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m tools.etcd_protobuf")
    parser.add_argument("--check", action="store_true", help="Change nothing; fail if it would.")
    is_check = parser.parse_args().check
    data = compiled()
    if COMPILED.exists() and COMPILED.read_bytes() == data:
        return
    if is_check:
        raise SystemExit(f"{COMPILED.relative_to(ROOT)} is out of date; run without --check")
    COMPILED.write_bytes(data)
    print(f"wrote {COMPILED.relative_to(ROOT)}")


def compiled() -> bytes:
    """Return the description of proto/etcd/etcd_v3.proto, compiled."""
    with TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        failed = protoc.main(
            ["protoc", f"-I{PROTO.parent}", f"--descriptor_set_out={out}", str(PROTO)]
        )
        assert not failed, "protoc has printed the error"
        (file,) = FileDescriptorSet.FromString(out.read_bytes()).file
    return file.SerializeToString(deterministic=True)


if __name__ == "__main__":
    main()
