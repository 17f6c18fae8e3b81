"""Every module is used, every public name exists, and few classes share a name."""

from __future__ import annotations

import ast
import importlib
import re
import tomllib
from collections import Counter
from pathlib import Path

import pytest

import quorate
from tests.tidy.tree import ROOT, SOURCE, project_files

_SCRIPTS = SOURCE / "quorate" / "cli" / "demo_files"
"""Modules that only the demo uses: it copies and runs them, and no module imports them."""
MODULES_MAX = 30
_SHARED_NAMES = {"__init__", "__main__", "errors", "table"}
SHARED_CLASSES = """
    Account Accounts Admission Amount Apply Asked Asking At Bill Book Budget Cancel Candidate
    Change Checkpoint Choice Chosen Compared Cut Draw Drawn Driver Effect Ended Ends Entry
    Explanation Family Fault Field Fields Filled FlavorUse Fleet Follower Following Forecast
    Foreseen Form Found Funds Head Holder IssueToken Kind Lease LeaseBound Limits Line Logs
    Lottery MarkNode Method Metrics Moment MoneyState MoveCause NodeStatus NodeWiped Notice
    Operation Outcome Part Parts Path Picture Place Placement Places PlanState Pod PodSet
    PodTemplate Problem Progress Question Queue Rank Read Recall Receipt Redrawn Repeat Reply
    Request ReservationStatus Resolve Resource RevokeToken Role RunMail Runs Said Scope Screen
    Script Seen Setting Shape Share Shown Stage Standing Start Statement Status Step Submit
    Tally Terms Tick Timers Token Told Top Trial Use UserUsage Waiting Wanted Watched Work
    Workload World Write Written
"""
"""The names of classes that several modules have. Give a new class a name of its own."""
_CLASS = re.compile(r"^class ([A-Z]\w*)", re.MULTILINE)
_MODULE_NAME = re.compile(r"quorate(?:\.\w+)+")


def _modules() -> dict[str, Path]:
    found: dict[str, Path] = {}
    for path in project_files():
        if path.is_relative_to(_SCRIPTS):
            continue
        if path.suffix == ".py" and path.is_relative_to(SOURCE):
            parts = path.relative_to(SOURCE).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def _mentioned(path: Path) -> set[str]:
    """Return the dotted names that a module imports, or has as strings for late imports."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Import(names=aliases):
                names.update(alias.name for alias in aliases)
            case ast.ImportFrom(module=str(module), names=aliases, level=0):
                names.add(module)
                names.update(f"{module}.{alias.name}" for alias in aliases)
            case ast.Constant(value=str(text)):
                names.update(_MODULE_NAME.findall(text) if " " not in text else ())
            case _:
                pass
    return names


def _with_parents(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[: count + 1]) for count in range(len(parts))]


def _roots(modules: dict[str, Path]) -> list[str]:
    """Return the modules that are used from outside: commands, modules for ``-m``, the test kit."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    commands = [target.partition(":")[0] for target in project["scripts"].values()]
    kit = [name for name in modules if name.startswith("quorate.testing")]
    return [
        "quorate",
        *commands,
        *(name for name in modules if name.endswith(".__main__")),
        *kit,
    ]


@pytest.mark.slow
def test_every_module_is_reached_from_an_entry_point() -> None:
    modules = _modules()
    waiting = _roots(modules)
    assert set(waiting) <= modules.keys(), "pyproject.toml names a command that is not there"
    reached: set[str] = set()
    while waiting:
        for name in _with_parents(waiting.pop()):
            if name in modules and name not in reached:
                reached.add(name)
                waiting.extend(_mentioned(modules[name]))
    assert sorted(modules.keys() - reached) == []


def test_every_package_has_an_init_file() -> None:
    """A folder without this file can be imported, but is skipped by checks that walk packages."""
    folders = {path.parent for path in _modules().values()}
    assert sorted(str(folder) for folder in folders if not (folder / "__init__.py").is_file()) == []


@pytest.mark.heavy
def test_the_architecture_page_shows_every_room() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    folders = {path.parent.relative_to(SOURCE / "quorate") for path in _modules().values()}
    rooms = {f"`{folder}`" if len(folder.parts) == 1 else f"`{folder.name}/`" for folder in folders}
    assert sorted(room for room in rooms - {"`/`"} if room not in page) == []


@pytest.mark.heavy
def test_no_folder_has_more_modules_than_one_can_survey() -> None:
    folders = Counter(path.parent.relative_to(SOURCE) for path in _modules().values())
    assert {str(folder): count for folder, count in folders.items() if count > MODULES_MAX} == {}


@pytest.mark.heavy
def test_no_two_modules_have_the_same_name() -> None:
    names = Counter(path.stem for path in _modules().values())
    assert [name for name, count in names.items() if count > 1 and name not in _SHARED_NAMES] == []


def test_every_package_says_what_lives_in_it() -> None:
    silent = [
        str(path)
        for path in _modules().values()
        if path.stem == "__init__" and not ast.get_docstring(ast.parse(path.read_text("utf-8")))
    ]
    assert silent == []


@pytest.mark.heavy
def test_no_further_classes_share_a_name_and_the_list_has_no_others() -> None:
    texts = (path.read_text(encoding="utf-8") for path in _modules().values())
    names = Counter(name for text in texts for name in _CLASS.findall(text))
    shared = {name for name, count in names.items() if count > 1}
    listed = SHARED_CLASSES.split()
    assert sorted(shared.difference(listed)) == [], "give the new class another name"
    assert sorted(set(listed) - shared) == [], "remove these from the list: one class has the name"


@pytest.mark.slow
def test_every_name_in_all_exists_and_is_listed_once() -> None:
    for name in _modules():
        if name.endswith("__main__"):
            continue
        module = importlib.import_module(name)
        public: list[str] = list(getattr(module, "__all__", ()))
        assert len(public) == len(set(public)), name
        assert [entry for entry in public if not hasattr(module, entry)] == [], name


def test_the_package_says_what_is_public() -> None:
    assert "__version__" in quorate.__all__
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert quorate.__version__ == project["version"]
