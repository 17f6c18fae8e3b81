"""The settings of a link to Waldur: all faults are named together."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from quorate.ports.errors import KeyFileError
from quorate.service.accounting.waldur_links import LINKS_MAX, links_of
from quorate.service.accounting.waldur_thread import read_token
from quorate.service.config import Configuration, configured
from quorate.views.exits import CommandError

ONE = "00000000-0000-0000-0000-000000000001"
WHOLE = f"""
[waldur]
url = "https://waldur.example"
token_file = "token"
[waldur.links.physics]
resource = "{ONE.upper()}"
gpu_hours = "gpu"
"""


def read(tmp_path: Path, text: str) -> Configuration:
    file = tmp_path / "quorate.toml"
    file.write_text(text, encoding="utf-8")
    return configured({}, {}, str(file))


def test_links_are_read(tmp_path: Path) -> None:
    found = read(tmp_path, WHOLE)
    (link,) = found.waldur_links
    assert (link.owner, link.resource, link.gpu, link.node) == ("physics", ONE, "gpu", "")
    assert link.components == ("gpu",)
    assert (found.waldur_refresh_s, found.waldur_stale_s, found.waldur_report_s) == (60, 600, 900)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('url = "https://waldur.example"', "", "belong together"),
        ('token_file = "token"', "", "belong together"),
        ("https://", "http://", "waldur.url: must be an address with https"),
        ("https://waldur.example", "https://me:it@waldur.example", "must be an address like"),
        ("https://waldur.example", "waldur.example", "must be an address"),
        (ONE.upper(), "physics", "physics.resource: must be the UUID"),
        ('gpu_hours = "gpu"', "", "must name the component of gpu_hours"),
        ('gpu_hours = "gpu"', "gpu_hours = 7", "a component must be text"),
        ('gpu_hours = "gpu"', 'gpu_hours = ""', "a component must be text"),
        ('gpu_hours = "gpu"', 'cpu_hours = "cpu"', "cpu_hours: is not a setting"),
        ('"gpu"', '"gpu"\nnode_hours = "gpu"', "must be different components"),
        (
            '"gpu"',
            f'"gpu"\n[waldur.links.art]\nresource = "{ONE}"\ngpu_hours = "gpu"',
            "art already has this resource",
        ),
        ("[waldur]", "[waldur]\nstale_s = 5", "stale_s: must not be less than"),
        ("[waldur]", "[waldur]\ntimeout_s = 0", "must be seconds from 0.1 to 300"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, old: str, new: str, words: str) -> None:
    assert old in WHOLE
    with pytest.raises(CommandError) as caught:
        read(tmp_path, WHOLE.replace(old, new))
    assert words in "\n".join(caught.value.lines)


def test_tables_that_are_none_and_too_many_links_are_refused() -> None:
    assert links_of(7, "f")[1] == ["f: waldur.links: must be a table with a table for each owner"]
    assert "must be a table" in links_of({"physics": 7}, "f")[1][0]
    many: dict[str, object] = {f"o{n}": {} for n in range(LINKS_MAX + 1)}
    assert "not have more than" in links_of(many, "f")[1][0]


def test_a_token_is_alone_in_a_file_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "token"
    with pytest.raises(KeyFileError, match="no token file"):
        read_token(file)
    file.write_text("abc\n", encoding="utf-8")
    file.chmod(0o644)
    with pytest.raises(KeyFileError, match="chmod 600"):
        read_token(file)
    file.chmod(0o600)
    assert read_token(file) == "abc"
    for text in ("", "two words", "a\nb"):
        file.write_text(text, encoding="utf-8")
        with pytest.raises(CommandError, match="must have one token"):
            read_token(file)


@pytest.mark.slow
def test_nobody_who_is_not_linked_loads_the_client() -> None:
    code = """
import sys
sys.modules["waldur_api_client"] = None  # As where it is not installed.
import quorate.cli.main, quorate.cli.operator_commands.serve_command
import quorate.cli.operator_commands.waldur_command
import quorate.service.daemon, quorate.service.accounting.waldur_thread
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
