"""Before a ledger is created, checks every member of etcd, and writes a test file to the archive.

A ledger can be created even while a member is down. So this check tells the operator about such a
member first.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final
from uuid import uuid4

from quorate.adapters.etcd.etcd_address import EtcdAddress
from quorate.adapters.etcd.etcd_client import EtcdClient, MemberStatus
from quorate.adapters.s3.archive_s3 import S3Archive
from quorate.adapters.stores.archive_folder import ArchiveFolder
from quorate.ports.archive_port import FileArchive
from quorate.ports.errors import SegmentError, StoreError, StoreFullError

MEMBERS_MIN: Final = 3
"""The least number of members with which etcd survives the loss of a member."""
_SOUND: Final = {(3, 4): 22, (3, 5): 6}
"""For each minor version, the first patch release that keeps consistency after a crash."""
_VERSION: Final = re.compile(r"(\d+)\.(\d+)\.(\d+)")
_CHECK_ROOM: Final = "check"


def check_cluster(address: EtcdAddress) -> list[str]:
    """Return the faults of the members of ``address``, and of its archive, each with a remedy."""
    client = EtcdClient(address)
    found: list[MemberStatus] = []
    faults: list[str] = []
    try:
        for endpoint in address.endpoints:
            try:
                found.append(client.status_of(endpoint))
            except StoreError as error:
                faults.append(f"{error}; start this member, or correct the URL")
    finally:
        client.close()
    return [*faults, *faults_of(found), *_archive_faults(address)]


def faults_of(members: Sequence[MemberStatus]) -> list[str]:
    """Return the faults of ``members``, which have answered."""
    found: list[str] = []
    for each in members:
        parts = _VERSION.match(each.version)
        numbers = tuple(map(int, parts.groups())) if parts is not None else (0, 0, 0)
        sound = _SOUND.get((numbers[0], numbers[1]))
        if numbers < (3, 4, 0) or (sound is not None and numbers[2] < sound):
            found.append(
                f"{each.endpoint} runs etcd {each.version or 'of an unknown version'}, which may "
                f"lose consistency after a crash; use 3.5.6 or newer; of 3.4, use 3.4.22 or newer"
            )
        found += [f"{each.endpoint} reports: {trouble}" for trouble in each.troubles]
    for at, each in enumerate(members):
        for other in members[:at]:
            if each.cluster != other.cluster:
                found.append(f"{other.endpoint} and {each.endpoint} belong to two etcd clusters")
            elif each.member == other.member:
                found.append(
                    f"{other.endpoint} and {each.endpoint} are the same member; name it only once"
                )
    return found


def cautions_of(address: EtcdAddress) -> list[str]:
    """Return warnings: too few members of etcd, or an archive that only one machine has."""
    found: list[str] = []
    count = len(address.endpoints)
    if count < MEMBERS_MIN:
        members = "one member" if count == 1 else f"{count} members"
        found.append(
            f"the URL names {members} of etcd: if a member is lost, services cannot decide; with "
            f"{MEMBERS_MIN} members they can"
        )
    is_own = address.archive.name.endswith(".segments")
    if address.bucket is None and address.archive.parent == address.local.parent and is_own:
        found.append(
            f"the archive is {address.archive}: every machine must be able to access it; set "
            f"archive= in the URL to a shared folder or a bucket"
        )
    return found


def _archive_faults(address: EtcdAddress) -> list[str]:
    """Return the fault of the archive if a test file cannot be written, read back and removed."""
    bucket = None if address.bucket is None else S3Archive(address.bucket)
    files: FileArchive = ArchiveFolder(address.archive) if bucket is None else bucket
    name, data = f"{_CHECK_ROOM}/{uuid4().hex}", b"quorate"
    try:
        files.put(name, data)
        kept = files.get(name)
        files.remove(name)
    except (SegmentError, StoreFullError) as error:
        return [str(error)]
    finally:
        if bucket is not None:
            bucket.close()
    return [] if kept == data else [f"{name} in the archive has other bytes than were written"]
