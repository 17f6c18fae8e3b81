"""URLs of ledgers in etcd: their parts, and the errors for invalid ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from quorate.adapters.etcd.etcd_address import EtcdAddress, parse_address
from quorate.adapters.stores import store_urls
from quorate.ports.errors import StoreUrlError


def test_a_url_says_who_to_ask_and_what_lies_here() -> None:
    assert parse_address("//one:2379,[::1]:2380/fleet") == EtcdAddress(
        endpoints=("one:2379", "[::1]:2380"),
        name="fleet",
        local=Path("fleet"),
        archive=Path("fleet.segments"),
    )
    settings = "ca=ca.pem&cert=c.pem&key=c.key&user=q&password-file=/run/p&local=/var/q&archive=/a"
    assert parse_address(f"//one:1/fleet?{settings}") == EtcdAddress(
        endpoints=("one:1",),
        name="fleet",
        ca=Path("ca.pem"),
        cert=Path("c.pem"),
        key=Path("c.key"),
        user="q",
        password_file=Path("/run/p"),
        local=Path("/var/q"),
        archive=Path("/a"),
    )


def test_the_files_of_this_machine_are_named_after_the_setting_local() -> None:
    assert store_urls.ledger_path("etcd://one:1/fleet") == Path("fleet")
    assert store_urls.ledger_path("etcd://one:1/fleet?local=/var/lib/q") == Path("/var/lib/q")


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("one:1/fleet", "names no servers"),
        ("//one/fleet", "'one' is not a server of etcd"),
        ("//one:1,/fleet", "'' is not a server"),
        ("//one:0/fleet", "is not a server"),
        ("//one:70000/fleet", "is not a server"),
        ("//me:secret@one:1/fleet", "not part of a URL"),
        ("//one:1", "'' is no name"),
        ("//one:1/a/b", "'a/b' is no name"),
        ("//one:1/fl eet", "is no name"),
        ("//one:1/fleet?colour=red", "'colour' is not a setting"),
        ("//one:1/fleet?ca=", "has no value"),
        ("//one:1/fleet?ca=a&ca=b", "given twice"),
        ("//one:1/fleet?ca=a&cert=b", "'cert' also needs 'key'"),
        ("//one:1/fleet?ca=a&key=b", "'key' also needs 'cert'"),
        ("//one:1/fleet?cert=a&key=b", "also needs 'ca'"),
        ("//one:1/fleet?user=q", "'user' also needs 'password-file'"),
        ("//one:1/fleet?password-file=q", "needs 'user'"),
        (
            "//127.0.0.1:1,one:1/fleet?user=q&password-file=p",
            "would be sent to one unencrypted: add ca=",
        ),
    ],
)
def test_a_url_that_cannot_be_used_is_refused_with_the_field_and_the_remedy(
    place: str, text: str
) -> None:
    with pytest.raises(StoreUrlError, match=text):
        store_urls.ledger_path(f"etcd:{place}")
