"""The built files agree with the sources, are small, and name no other host."""

from __future__ import annotations

import json
import re
from hashlib import sha256
from pathlib import Path

from quorate.service.web.built_files import built_files

ROOT = Path(__file__).parents[2]
WEB = ROOT / "web"
BUILT = ROOT / "src" / "quorate" / "service" / "web" / "built"
MORE = ("build.mjs", "package.json", "package-lock.json", "tsconfig.json")


def test_they_were_built_from_the_sources_as_they_are() -> None:
    found = [path for path in (WEB / "src").rglob("*") if path.is_file()]
    paths = [
        *(path for path in found if path.name != "api_types.ts"),
        *(WEB / each for each in MORE),
    ]
    digest = sha256()
    for name, path in sorted((path.relative_to(WEB).as_posix(), path) for path in paths):
        digest.update(f"{name}\0".encode() + path.read_bytes())
    recorded = (BUILT / "sources.sha256").read_text(encoding="ascii").strip()
    assert recorded == digest.hexdigest(), "run: make web"


def test_they_are_within_three_hundred_kilobytes_compressed() -> None:
    built = built_files()
    sizes = [len(each.packed) for each in (*built.files.values(), built.page(1))]
    assert sum(sizes) <= 300_000


def test_they_load_nothing_from_another_host() -> None:
    for path in BUILT.iterdir():
        hosts = set(re.findall(r"https?://([\w.-]+)", path.read_text(encoding="utf-8")))
        assert hosts <= {"www.w3.org"}, path.name


def test_the_lock_names_no_registry_and_has_a_hash_for_every_package() -> None:
    text = (WEB / "package-lock.json").read_text(encoding="utf-8")
    packages = json.loads(text)["packages"]
    for name, package in packages.items():
        assert "resolved" not in package, name
        assert not name or package.get("integrity"), name
