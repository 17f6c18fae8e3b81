"""The archive in an object store: signed, complete, and readable on other machines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from quorate.adapters.etcd.etcd_address import EtcdAddress, parse_address
from quorate.adapters.s3.archive_s3 import ATTEMPTS_MAX, S3Archive
from quorate.adapters.s3.s3_address import S3Address, S3Key, parse_s3
from quorate.adapters.s3.s3_signing import S3Request, signed_headers
from quorate.adapters.stores.store_etcd import EtcdStore
from quorate.ledger.chain import Verified, seal, verify_blocks
from quorate.ports.errors import SegmentError, StoreFullError, StoreUrlError
from tests.contract.crash_writer import events_of
from tests.etcd.s3_server import KEY_ID, REGION, SECRET, S3Server, s3_server


def test_the_published_example_has_the_published_signature() -> None:
    request = S3Request(
        method="GET",
        path="/test.txt",
        query={},
        headers={"Host": "examplebucket.s3.amazonaws.com", "Range": "bytes=0-9"},
        body_sha256="e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        at="20130524T000000Z",
    )
    secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"  # noqa: S105 - published
    key = S3Key(key_id="AKIAIOSFODNN7EXAMPLE", secret=secret)
    assert signed_headers(request, key, "us-east-1")["authorization"] == (
        "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,"
        "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,"
        "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
    )


@pytest.fixture
def server() -> Iterator[S3Server]:
    with s3_server() as found:
        yield found


@pytest.fixture
def bucket(server: S3Server, tmp_path: Path) -> S3Address:
    file = tmp_path / "s3.key"
    file.touch(mode=0o600)
    file.write_text(f"{KEY_ID}\n{SECRET}\n", "ascii")
    return parse_s3(f"{server.place}/fleet/old", file, REGION)


@pytest.fixture
def archive(bucket: S3Address) -> Iterator[S3Archive]:
    found = S3Archive(bucket, pause=lambda _: None)
    yield found
    found.close()


@pytest.mark.heavy
def test_files_are_kept_listed_read_back_and_removed(
    archive: S3Archive, server: S3Server, tmp_path: Path
) -> None:
    assert archive.names("segments") == []
    names = [f"segments/{number}.seg" for number in range(5)]
    for name in names:
        archive.put(name, name.encode() * 1_000)
    archive.put("snapshots/1", b"")
    assert archive.names("segments") == names
    assert archive.get(names[3]) == names[3].encode() * 1_000
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(b"x" * 3_000_000)
    archive.put_file("snapshots/2", source)
    archive.get_file("snapshots/2", target)
    assert target.read_bytes() == source.read_bytes()
    archive.remove("snapshots/2")
    archive.remove("snapshots/2")
    assert archive.names("snapshots") == ["snapshots/1"]
    assert all(path.startswith("/bucket-1/fleet/old/") for path in server.objects)


@pytest.mark.heavy
def test_a_busy_store_is_asked_again_and_a_dead_one_is_an_explained_error(
    archive: S3Archive, server: S3Server
) -> None:
    server.failures = [503, 500]
    archive.put("segments/1", b"a")
    assert server.requests == 3
    server.failures = [503] * ATTEMPTS_MAX
    with pytest.raises(SegmentError, match="SlowDown"):
        archive.get("segments/1")
    with pytest.raises(SegmentError, match="NoSuchKey"):
        archive.get("segments/2")
    server.failures = [507]
    with pytest.raises(StoreFullError, match="full"):
        archive.put("segments/3", b"a")


def test_a_wrong_secret_is_an_explained_error(
    archive: S3Archive, bucket: S3Address, server: S3Server
) -> None:
    bucket.credentials.write_text(f"{KEY_ID}\nanother\n", "ascii")
    with pytest.raises(SegmentError, match=r"SignatureDoesNotMatch.*may read, list, write"):
        archive.put("segments/1", b"a")
    bucket.credentials.write_text("one line\nand\nmore", "ascii")
    with pytest.raises(SegmentError, match="must have 2 lines"):
        archive.put("segments/1", b"a")
    bucket.credentials.chmod(0o644)
    with pytest.raises(SegmentError):
        archive.put("segments/1", b"a")
    assert server.objects == {}


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("archive=s3://h/b1&archive-credentials=f", "names no bucket"),
        ("archive=s3://h/bucket", "needs archive-credentials=FILE"),
        ("archive=s3%2Bhttp://far.example.org/bucket&archive-credentials=f", "unencrypted"),
        ("archive=/srv/a&archive-credentials=f", "needs archive=s3://"),
        ("archive-region=eu", "needs archive=s3://"),
    ],
)
def test_a_faulty_address_is_refused_with_the_remedy(url: str, said: str) -> None:
    with pytest.raises(StoreUrlError, match=said):
        parse_address(f"//127.0.0.1:1/t?{url}")


@pytest.mark.slow
def test_closed_segments_move_to_the_object_store_and_are_read_from_there(
    address: EtcdAddress, bucket: S3Address, server: S3Server, tmp_path: Path
) -> None:
    here = replace(address, bucket=bucket)
    with EtcdStore.create(here, segment_bytes=1_000) as store:
        for _ in range(20):
            head = store.head()
            store.append(seal(head, events_of(head)), expected=head)
        store.save_snapshot(store.head(), b"a state")
        known = list(store.blocks())
    assert any("/segments/" in path for path in server.objects)
    assert any("/snapshots/" in path for path in server.objects)
    there = replace(here, local=tmp_path / "another-machine")
    with EtcdStore.open(there) as store:
        assert list(store.blocks()) == known
        assert isinstance(verify_blocks(store.blocks(), deep=True), Verified)
        snapshot = store.load_snapshot()
        assert snapshot is not None
        assert snapshot[1] == b"a state"
