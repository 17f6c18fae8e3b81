"""Documents of every kind stay the same over every interface: applied, read, applied again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, chdir, redirect_stdout
from dataclasses import dataclass, field
from decimal import Decimal
from io import StringIO
from itertools import count
from pathlib import Path
from typing import Any, Final, Protocol

import grpc
import httpx
import msgspec
import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from quorate import AsyncClient, Client
from quorate.cli.main import main
from quorate.cli.settings import Settings
from quorate.documents import Documents, kind_of, parse_documents, parse_tree, render
from quorate.documents.emit import to_json, to_yaml
from quorate.documents.parse import Declared
from quorate.model import specs as sp
from quorate.operations.resources import resource_operations
from quorate.operations.resources.resource_operations import Found, Thing
from quorate.service.config import configured
from quorate.service.daemon import Extras
from quorate.service.grpc.grpc_codec import read_struct, write_struct
from quorate.service.grpc.grpc_protocol import message_class
from quorate.service.grpc.grpc_schema import name_of, schema
from quorate.service.grpc.grpc_surface import configured_surface
from quorate.testing import spec_strategies as drawn
from tests.bounds import WAIT_S
from tests.oracles.effort import examples, few_of
from tests.service.program import reserved_port
from tests.service.serving import Served, new_ledger, serving

METHODS: Final = {method.operation.name: method for method in schema().methods}
OWNER: Final = "team"
BIND, ROUNDS, PODS = "bound", "shared", "pods"
POLICIES: Final = ("max_min_fairness", "fifo", "finish_time_fairness_perf")
NEW: Final = count()
UNSHRUNK: Final = (Phase.explicit, Phase.reuse, Phase.generate)
"""Every example changes the ledgers, so a smaller one takes longer and shows no more."""


class Surface(Protocol):
    """An interface of a ledger that takes and returns documents as trees."""

    def apply(self, *trees: Any) -> set[str]:
        """Apply documents together, and return their results: created, unchanged..."""
        ...

    def get(self, kind: str, name: str) -> Any:
        """Return a document in the form of this interface."""
        ...


@dataclass
class Rest:
    """REST requests; numbers are read with all digits."""

    http: httpx.Client

    def apply(self, *trees: Any) -> set[str]:
        text = "".join(f"{', ' if at else ''}{to_json(each)}" for at, each in enumerate(trees))
        body = f'{{"documents": [{text}]}}'.encode()
        headers = {"Content-Type": "application/json"}
        found = self.http.post("/api/v1/apply", content=body, headers=headers)
        assert found.status_code == 200, found.text
        return {each["change"] for each in found.json()["changes"]}

    def get(self, kind: str, name: str) -> Any:
        path = "/api/v1/system" if kind == "System" else f"/api/v1/{kind.lower()}s/{name}"
        found = self.http.get(path)
        assert found.status_code == 200, found.text
        return json.loads(found.text, parse_float=Decimal)


@dataclass
class Grpc:
    """gRPC messages."""

    channel: grpc.Channel
    token: str

    def apply(self, *trees: Any) -> set[str]:
        found = self._call("apply", resource_operations.Apply(documents=trees))
        return {each.change for each in found.changes}

    def get(self, kind: str, name: str) -> Any:
        if kind == "System":
            return tree_of(
                read_struct(self._call("get-system", resource_operations.GetSystem()), Thing)
            )
        found = self._call(f"get-{kind.lower()}", resource_operations.GetThing(name=name))
        return tree_of(read_struct(found, Found))

    def _call(self, name: str, question: msgspec.Struct) -> Any:
        method = METHODS[name]
        given_class = message_class(name_of(method.gives))
        call = self.channel.unary_unary(method.path, bytes, given_class.FromString)
        data = write_struct(question).SerializeToString()
        return call(data, metadata=(("authorization", f"Bearer {self.token}"),), timeout=WAIT_S)


@dataclass
class Sync:
    """The Python client."""

    client: Client

    def apply(self, *trees: Any) -> set[str]:
        return {each.change for each in self.client.apply(trees).changes}

    def get(self, kind: str, name: str) -> Any:
        if kind == "System":
            return tree_of(self.client.get_system())
        return tree_of(getattr(self.client, f"get_{kind.lower()}")(name))


@dataclass
class Async:
    """The Python client for asyncio."""

    served: Served

    def apply(self, *trees: Any) -> set[str]:
        async def ask() -> set[str]:
            async with AsyncClient(self.served.url, token=self.served.token) as client:
                return {each.change for each in (await client.apply(trees)).changes}

        return asyncio.run(ask())

    def get(self, kind: str, name: str) -> Any:
        async def ask() -> Any:
            async with AsyncClient(self.served.url, token=self.served.token) as client:
                if kind == "System":
                    return tree_of(await client.get_system())
                return tree_of(await getattr(client, f"get_{kind.lower()}")(name))

        return asyncio.run(ask())


@dataclass
class Typed:
    """The command line in YAML, on a file or with a service, as ``environ`` says."""

    folder: Path
    environ: Mapping[str, str]
    _files: Iterator[int] = field(default_factory=count)

    def apply(self, *trees: Any) -> set[str]:
        name = f"{next(self._files)}.yaml"
        (self.folder / name).write_text(to_yaml(*trees), encoding="utf-8")
        found = json.loads(self._type("apply", "-f", name, "-o", "json"))
        return {each["change"] for each in found["changes"]}

    def get(self, kind: str, name: str) -> Any:
        names = () if kind == "System" else (name,)
        text = self._type("get", kind.lower(), *names, "-o", "yaml")
        parsed = parse_documents(text, source="get")
        assert isinstance(parsed, Documents), parsed
        return render(parsed.items[0].spec)

    def _type(self, *words: str) -> str:
        with chdir(self.folder), redirect_stdout(StringIO()) as out:
            code = main(words, Settings(environ=self.environ))
        assert code == 0, words
        return out.getvalue()


def tree_of(found: Any) -> Any:
    """Return the document in a typed answer, with its numbers as received."""
    return {
        "apiVersion": found.api_version,
        "kind": found.kind,
        "metadata": found.metadata,
        "spec": found.spec,
    }


FURNITURE: Final[tuple[Declared, ...]] = (
    sp.Owner(name=OWNER),
    sp.Pool(name=BIND, selector=(("tier", "none"),)),
    sp.Pool(
        name=PODS,
        selector=(("tier", "cluster"),),
        executor=sp.PoolExecutor.KUBERNETES,
        cluster="west",
    ),
    sp.Pool(
        name=ROUNDS,
        selector=(("tier", "no-more"),),
        discipline=sp.Discipline.ROUNDS,
        policy="max_min_fairness",
    ),
)


@pytest.fixture(scope="module")
def surfaces(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Surface]]:
    """Return every interface of one service, and of a separate file."""
    folder = tmp_path_factory.mktemp("surfaces")
    alone = new_ledger(tmp_path_factory.mktemp("alone"))
    ledger = new_ledger(folder)
    with ExitStack() as stack:
        address = f"127.0.0.1:{stack.enter_context(reserved_port())}"
        flags = {"grpc.listen": address}
        named = {"listen": "127.0.0.1:0", "ledger": str(ledger), **flags}
        extras = Extras(surfaces=[configured_surface(configured(named, {}, None))])
        served = stack.enter_context(serving(ledger, flags, extras))
        http = stack.enter_context(served.client(served.token))
        client = stack.enter_context(Client(served.url, token=served.token))
        channel = stack.enter_context(grpc.insecure_channel(address))
        assert served.token is not None
        asking = {"QUORATE_SERVER": served.url, "QUORATE_TOKEN": served.token}
        found: dict[str, Surface] = {
            "file": Typed(folder, {"QUORATE_LEDGER": str(alone), "QUORATE_ACTOR": "ada"}),
            "rest": Rest(http),
            "grpc": Grpc(channel, served.token),
            "sync": Sync(client),
            "async": Async(served),
            "cli": Typed(folder, asking),
        }
        for each in (found["file"], found["rest"]):
            each.apply(*map(render, FURNITURE))
        yield found


def fitted(spec: Declared) -> Declared:
    """Return ``spec`` under a new name, with references to existing resources."""
    new = f".{next(NEW)}z"
    match spec:
        case sp.Node():
            return replace(spec, name=spec.name + new)
        case sp.Owner():
            return replace(spec, name=spec.name + new, parents=(OWNER,) if spec.parents else ())
        case sp.Budget():
            lines = tuple(map(_fitted_envelope, spec.envelopes))
            return replace(spec, name=spec.name + new, owner=OWNER, envelopes=lines)
        case sp.Pool():
            apart = dict(spec.selector) | {"example.com/apart": new}
            policy = POLICIES[len(spec.policy) % len(POLICIES)] if spec.policy else None
            selector = tuple(sorted(apart.items()))
            return replace(spec, name=spec.name + new, selector=selector, policy=policy)
        case sp.System():
            return spec
        case sp.Run():
            array = None if spec.array is None else replace(spec.array, name=spec.name + new)
            run = replace(spec, name=spec.name + new, array=array, owner=OWNER, follow=None)
            return _fitted_run(run)


def _fitted_envelope(line: sp.Envelope) -> sp.Envelope:
    named = {name if name.endswith("*") else OWNER: None for name in line.lending.to}
    return replace(line, lending=replace(line.lending, to=tuple(named)))


def _fitted_run(run: sp.Run) -> sp.Run:
    sponsors = (OWNER,) if run.funding.sponsors else ()
    run = replace(run, pool=BIND, funding=replace(run.funding, sponsors=sponsors), sensitive=False)
    run = replace(run, workload=None)  # only Quorate writes it.
    work = run.rounds
    if work is None:
        return run if run.image is None else replace(run, pool=PODS)
    run = replace(run, image=None, pod_template=None)
    # Rates are for the requested flavors, and not 0 everywhere.
    rates = tuple((flavor, rate or 1.5) for flavor, rate in work.throughputs)
    flavors = tuple(flavor for flavor, _ in rates) or run.flavors
    work = replace(work, throughputs=rates, slo_ms=None)
    return replace(
        run, pool=ROUNDS, rounds=work, flavors=flavors, malleable=None, spares_per_group=0
    )


def spec_of(tree: Any) -> Declared:
    """Return what a document declares, as its reader sees it."""
    parsed = parse_tree(None, tree)
    assert isinstance(parsed, Documents), parsed
    return parsed.items[0].spec


def whole(spec: Declared, found: Declared) -> Declared:
    """Return ``spec`` with the fields that Quorate fills in at submission."""
    if not isinstance(spec, sp.Run):
        return spec
    assert isinstance(found, sp.Run)
    return replace(spec, user=spec.user or found.user, nonce=spec.nonce or found.nonce)


every_kind = st.tuples(
    drawn.nodes(),
    drawn.owners(),
    drawn.budgets(),
    drawn.pools(),
    drawn.systems(),
    drawn.runs(),
)
"""One document of each kind."""
FINE: Final = (
    sp.Node(name="n", flavor="f", gpus=1, region="r", cluster="c", domain="d"),
    sp.Owner(
        name="o",
        quota=sp.Quota(fair_share_target_ppm=150_000, burst_allowance_ppm=1_500_000),
    ),
    sp.Budget(
        name="b",
        owner="o",
        envelopes=(
            sp.Envelope(
                name="e",
                flavor="f",
                selector=(("region", "*"),),
                start_ms=0,
                end_ms=7_258_118_400_000,
                concurrency=1_000_000,
                # 22 digits, which no double holds.
                gpu_ms_max=7_123_456_789_012_345_671,
            ),
        ),
    ),
    sp.Pool(
        name="p",
        discipline=sp.Discipline.ROUNDS,
        policy="p",
        throughputs=(
            sp.FlavorRates(
                flavor="f",
                types=(sp.TypeRates(job_type="m", gpus=1, alone=4_795_001, beside=()),),
            ),
        ),
    ),
    sp.System(instant_weight_ppm=333_333),
    sp.Run(
        name="r",
        owner="o",
        flavors=("f",),
        gpus=1,
        env=(("WIDE", "7123456789012345671.25"),),
        rounds=sp.RoundsWork(throughputs=(("f", 0.1),), weight=0.3),
    ),
)
"""Fractions, amounts that no double holds, and a text that looks like one."""


@pytest.mark.parametrize("surface", few_of(["rest", "cli", "grpc", "file", "sync", "async"], 2))
@settings(examples(0.1), phases=UNSHRUNK)
@example(specs=FINE)
@given(specs=every_kind)
def test_documents_of_every_kind_survive_a_surface(
    surfaces: dict[str, Surface], surface: str, specs: tuple[Declared, ...]
) -> None:
    through = surfaces[surface]
    declared = [fitted(spec) for spec in specs]
    through.apply(*map(render, declared))
    trees = [through.get(kind_of(each), getattr(each, "name", "")) for each in declared]
    found = [spec_of(tree) for tree in trees]
    assert found == [whole(spec, back) for spec, back in zip(declared, found, strict=True)]
    assert through.apply(*trees) == {"unchanged"}
