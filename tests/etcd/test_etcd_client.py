"""The client of etcd against a real member."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from socket import create_server

import pytest

from quorate.adapters.etcd.etcd_address import EtcdAddress
from quorate.adapters.etcd.etcd_client import EtcdClient
from quorate.adapters.etcd.etcd_requests import (
    Absent,
    CreatedAt,
    Delete,
    Get,
    ModifiedAt,
    Put,
    Txn,
    after_prefix,
)
from quorate.ports.errors import (
    NotLeaderError,
    StoreAccessError,
    StoreDownError,
    StoreError,
    StoreFullError,
)
from tests.bounds import WAIT_S, until
from tests.etcd.certificates import make_certificates
from tests.etcd.fault_proxy import Links
from tests.etcd_server import Member, free_port, pause
from tools.etcd_protobuf import COMPILED, compiled

pytestmark = pytest.mark.slow
SLOW_S = 0.3
SECRET, OTHER = "secret", "other"


def put(client: EtcdClient, key: bytes, value: bytes) -> None:
    assert client.commit(Txn(compare=(), then=(Put(key, value),))).held


def fill_up(client: EtcdClient) -> None:
    """Put one key until its history fills the space of etcd."""
    for _ in range(64):
        put(client, b"t/full", bytes(1 << 20))


def an_address(folder: Path, *endpoints: str, **more: object) -> EtcdAddress:
    return EtcdAddress(
        endpoints=endpoints,
        name="t",
        local=folder / "ledger",
        archive=folder / "segments",
        **more,  # type: ignore[arg-type]
    )


def test_the_description_is_that_of_the_text() -> None:
    """If this test fails: python -m tools.etcd_protobuf."""
    assert COMPILED.read_bytes() == compiled()


def test_rows_come_back_in_the_order_of_their_keys(
    client: EtcdClient, address: EtcdAddress
) -> None:
    prefix = f"{address.name}/".encode()
    for name in (b"b", b"a", b"c"):
        put(client, prefix + name, b"of " + name)
    rows = client.get(Get(prefix, after_prefix(prefix)))
    assert [(row.key, row.value) for row in rows] == [
        (prefix + name, b"of " + name) for name in (b"a", b"b", b"c")
    ]
    assert client.get(Get(prefix, after_prefix(prefix), limit=2)) == rows[:2]
    assert client.get(Get(prefix + b"b")) == rows[1:2]


def test_a_transaction_is_carried_out_if_its_comparisons_hold_and_else_the_other_part(
    client: EtcdClient, address: EtcdAddress
) -> None:
    key, other = f"{address.name}/x".encode(), f"{address.name}/y".encode()
    made = client.commit(Txn(compare=(ModifiedAt(key, 0),), then=(Put(key, b"1"), Get(key))))
    assert made.held
    ((row,),) = made.rows
    assert (row.value, row.mod_revision, row.create_revision) == (
        b"1",
        made.revision,
        made.revision,
    )
    late = client.commit(
        Txn(
            compare=(ModifiedAt(key, 0),),
            then=(Put(key, b"2"),),
            otherwise=(Get(key), Get(other)),
        )
    )
    assert not late.held
    assert late.rows == ((row,), ())
    changed = client.commit(
        Txn(compare=(ModifiedAt(key, row.mod_revision),), then=(Put(key, b"3"), Get(key)))
    )
    assert changed.held
    assert not client.commit(
        Txn(compare=(ModifiedAt(key, row.mod_revision),), then=(Delete(key),))
    ).held
    same = Txn(compare=(CreatedAt(key, row.create_revision),), then=(Delete(key),))
    assert client.commit(same).held
    assert not client.commit(same).held
    assert client.get(Get(key)) == ()


def test_a_range_is_absent_until_it_has_a_key(client: EtcdClient, address: EtcdAddress) -> None:
    first, last, end = (f"{address.name}/{name}".encode() for name in ("a", "c", "d"))
    absent = Txn(compare=(Absent(first, end),), then=(Put(last, b"1"),))
    client.commit(Txn(compare=(), then=(Put(end, b"not in the range"),)))
    assert client.commit(absent).held
    assert not client.commit(absent).held
    client.commit(Txn(compare=(), then=(Delete(last),)))
    assert client.commit(absent).held


def test_a_lease_takes_its_keys_with_it_and_is_over_after_that(
    client: EtcdClient, address: EtcdAddress
) -> None:
    key = f"{address.name}/leased".encode()
    lease = client.grant(30)
    client.commit(Txn(compare=(), then=(Put(key, b"", lease),)))
    assert client.keep_alive(lease, 5.0) == 30
    client.revoke(lease)
    assert client.get(Get(key)) == ()
    with pytest.raises(NotLeaderError, match="the lease expired"):
        client.keep_alive(lease, 5.0)
    with pytest.raises(NotLeaderError, match="the lease expired"):
        client.commit(Txn(compare=(), then=(Put(key, b"", lease),)))
    client.revoke(lease)


def test_reads_are_asked_of_the_next_member_when_one_is_not_there(
    etcd_member: Member, tmp_path: Path
) -> None:
    client = EtcdClient(an_address(tmp_path, f"127.0.0.1:{free_port()}", etcd_member.endpoint))
    assert client.get(Get(b"nothing")) == ()
    client.close()
    client.close()


def test_a_transaction_is_sent_once_and_then_another_member_is_asked(
    etcd_member: Member, tmp_path: Path
) -> None:
    client = EtcdClient(an_address(tmp_path, f"127.0.0.1:{free_port()}", etcd_member.endpoint))
    with pytest.raises(StoreDownError, match="cannot be reached"):
        put(client, b"t/x", b"")
    put(client, b"t/x", b"")
    client.close()


def test_a_connection_that_takes_part_of_a_second_is_waited_for(
    etcd_member: Member, tmp_path: Path
) -> None:
    with Links() as links:
        port = links.listen("client", "member", etcd_member.port)
        links.slow([("client", "member")], SLOW_S / 2)

        def is_put() -> bool:
            """Put a key over a new connection, which may exceed any limit on a busy machine."""
            client = EtcdClient(an_address(tmp_path, f"127.0.0.1:{port}"))
            try:
                put(client, b"t/slow", b"")
            except StoreDownError:
                return False
            finally:
                client.close()
            return True

        until(is_put, "a transaction is sent by a new connection")


def test_a_member_that_accepts_connections_and_says_nothing_is_named(tmp_path: Path) -> None:
    with create_server(("127.0.0.1", 0)) as silent:
        endpoint = f"127.0.0.1:{silent.getsockname()[1]}"
        client = EtcdClient(an_address(tmp_path, endpoint), call_s=WAIT_S)
        with pytest.raises(StoreDownError, match=f"not answered a new connection.*{endpoint}"):
            put(client, b"t/x", b"")
        client.close()


def test_a_member_that_does_not_answer_is_waited_for_no_longer_than_the_deadline(
    etcd_program: Path, tmp_path: Path
) -> None:
    member = Member(etcd_program, tmp_path, more=["--unsafe-no-fsync"])
    client = EtcdClient(an_address(tmp_path, member.endpoint))
    with member.run() as process:
        put(client, b"t/x", b"")
        client.call_s = SLOW_S
        pause(process)
        with pytest.raises(StoreDownError, match="did not answer in time"):
            put(client, b"t/y", b"")
    client.close()


def test_a_request_that_is_too_large_is_refused_with_what_to_raise(client: EtcdClient) -> None:
    with pytest.raises(StoreError, match="--max-request-bytes"):
        put(client, b"t/large", bytes(4 << 20))
    with pytest.raises(StoreError, match="--max-txn-ops"):
        client.commit(Txn(compare=(), then=tuple(Put(f"t/{n}".encode(), b"") for n in range(200))))


def test_an_etcd_without_space_is_explained_and_takes_writes_again_once_there_is_room(
    etcd_program: Path, tmp_path: Path
) -> None:
    quota = 16 << 20
    more = ["--unsafe-no-fsync", "--quota-backend-bytes", str(quota)]
    member = Member(etcd_program, tmp_path, more=more)
    client = EtcdClient(an_address(tmp_path, member.endpoint))
    with member.run():
        with pytest.raises(StoreFullError, match="NOSPACE"):
            fill_up(client)
        # The alarm stays set, and reads still work.
        with pytest.raises(StoreFullError, match="Remedy"):
            put(client, b"t/x", b"")
        (status,) = client.status()
        assert status.bytes_taken > quota // 2
        assert any("NOSPACE" in trouble for trouble in status.troubles)
        client.compact(status.revision)
        client.defragment(member.endpoint)
        assert client.disarm_space_alarms() == 1
        put(client, b"t/x", b"")
        (status,) = client.status()
        assert status.bytes_taken < quota // 2
        assert status.troubles == ()
    client.close()


def test_a_user_is_asked_for_its_password_and_may_do_what_its_role_allows(
    etcd_program: Path, tmp_path: Path
) -> None:
    member = Member(etcd_program, tmp_path, more=["--unsafe-no-fsync", "--auth-token-ttl", "1"])
    password, wrong = tmp_path / "password", tmp_path / "wrong"
    password.write_text(f"{SECRET}\n", "utf-8")
    wrong.write_text(OTHER, "utf-8")
    with member.run():
        as_user = an_address(tmp_path, member.endpoint, user="q", password_file=password)
        with pytest.raises(StoreAccessError, match="authentication is off"):
            EtcdClient(as_user).get(Get(b"t/x"))
        member.post("auth/user/add", name="root", password=OTHER)
        member.post("auth/role/add", name="root")
        member.post("auth/user/grant", user="root", role="root")
        member.post("auth/user/add", name="q", password=SECRET)
        member.post("auth/role/add", name="ledger")
        begin, end = (b64encode(each).decode() for each in (b"t/", after_prefix(b"t/")))
        permission = {"permType": "READWRITE", "key": begin, "range_end": end}
        member.post("auth/role/grant", name="ledger", perm=permission)
        member.post("auth/user/grant", user="q", role="ledger")
        member.post("auth/enable")
        client = EtcdClient(as_user)
        put(client, b"t/x", b"1")
        with pytest.raises(StoreAccessError, match="grant the user a role"):
            client.get(Get(b"other"))
        # If etcd no longer knows a token, the client gets a new one without an error.
        client._token = OTHER
        put(client, b"t/x", b"2")
        assert client.get(Get(b"t/x"))[0].value == b"2"
        client.close()
        for other, text in (
            (an_address(tmp_path, member.endpoint), "add user=NAME"),
            (
                an_address(tmp_path, member.endpoint, user="q", password_file=wrong),
                "check user= and password-file=",
            ),
            (
                an_address(tmp_path, member.endpoint, user="q", password_file=tmp_path / "no"),
                "cannot be read from",
            ),
        ):
            refused = EtcdClient(other)
            with pytest.raises(StoreAccessError, match=text):
                refused.get(Get(b"t/x"))
            refused.close()


def test_tls_shows_both_sides_who_the_other_is(etcd_program: Path, tmp_path: Path) -> None:
    made = make_certificates(tmp_path)
    member = Member(
        etcd_program,
        tmp_path,
        scheme="https",
        more=[
            *("--unsafe-no-fsync", "--client-cert-auth"),
            *("--cert-file", str(made.server_cert), "--key-file", str(made.server_key)),
            *("--trusted-ca-file", str(made.ca)),
        ],
    )
    with member.run(is_checked=False):
        known = an_address(
            tmp_path, member.endpoint, ca=made.ca, cert=made.client_cert, key=made.client_key
        )
        client = EtcdClient(known)
        assert client.get(Get(b"t/x")) == ()
        put(client, b"t/x", b"1")
        client.close()
        for other in (
            an_address(tmp_path, member.endpoint),
            an_address(tmp_path, member.endpoint, ca=made.ca),
            an_address(tmp_path, member.endpoint, ca=made.other_ca),
        ):
            refused = EtcdClient(other, call_s=2.0)
            with pytest.raises(StoreDownError):
                put(refused, b"t/y", b"")
            refused.close()
        missing = EtcdClient(an_address(tmp_path, member.endpoint, ca=tmp_path / "no.pem"))
        with pytest.raises(StoreAccessError, match=r"no\.pem"):
            missing.get(Get(b"t/x"))
