"""The steps for one custom resource: in any order of events, nothing is duplicated or lost.

A cluster and a ledger of a few lines are simulated. Users create and delete a resource under one
name, and its run ends; no finalizer is removed by force. The operator takes single steps, also on
outdated views, and may restart at any time, because it stores nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hypothesis import given
from hypothesis import strategies as st

from quorate.adapters.kubernetes.resource_objects import FINALIZER, RUN, Resource
from quorate.service.custom_resources.resource_steps import Standing, Step, next_step

DOINGS = st.lists(
    st.sampled_from(["create", "delete", "end", "step", "look", "step-on-old"]), max_size=60
)


@dataclass
class Played:
    """One name in a cluster, and the ledger's runs by uid: True until the run is over."""

    now: Resource | None = None
    version: int = 0
    uids: int = 0
    runs: dict[str, bool] = field(default_factory=dict)
    stopping: set[str] = field(default_factory=set)
    submits: list[str] = field(default_factory=list)
    created: dict[str, bool] = field(default_factory=dict)
    """Each resource, and whether it was deleted."""

    def create(self) -> None:
        if self.now is not None:
            return
        self.uids += 1
        self.version += 1
        self.created[f"u{self.uids}"] = False
        self.now = Resource(
            kind=RUN,
            namespace="n",
            name="r",
            uid=f"u{self.uids}",
            generation=1,
            version=str(self.version),
            is_deleting=False,
            finalizers=(),
            user="",
            ledger="",
            spec={},
            status={},
        )

    def delete(self) -> None:
        if self.now is None:
            return
        self.created[self.now.uid] = True
        self.put(replace(self.now, is_deleting=True))

    def put(self, resource: Resource) -> None:
        self.version += 1
        gone = resource.is_deleting and not resource.finalizers
        self.now = None if gone else replace(resource, version=str(self.version))

    def end(self) -> None:
        self.runs = dict.fromkeys(self.runs, False)

    def standing(self, resource: Resource) -> Standing:
        is_there = resource.uid in self.runs
        return Standing(
            is_there=is_there,
            is_current=is_there,
            is_ours=is_there,
            is_over=is_there and not self.runs[resource.uid],
            is_stopping=resource.uid in self.stopping,
        )

    def take(self, seen: Resource | None) -> Step:
        """Take the next step for the operator's view; the cluster refuses an old version."""
        if seen is None:
            return Step.REST
        step = next_step(seen, self.standing(seen))
        is_newest = self.now is not None and self.now.version == seen.version
        match step:
            case Step.DECLARE:
                self.submits.append(seen.uid)
                self.runs[seen.uid] = True
            case Step.WITHDRAW:
                self.stopping.add(seen.uid)
            case Step.HOLD if is_newest:
                self.put(replace(seen, finalizers=(FINALIZER,)))
            case Step.LET_GO if is_newest:
                self.put(replace(seen, finalizers=()))
            case _:
                pass
        return step


@given(doings=DOINGS)
def test_every_resource_is_submitted_once_and_none_goes_before_its_run(doings: list[str]) -> None:
    played = Played()
    old: Resource | None = None
    for doing in doings:
        match doing:
            case "look":
                old = played.now
            case "step":
                played.take(played.now)
            case "step-on-old":
                played.take(old if old is not None and _is_known(played, old) else None)
            case _:
                getattr(played, doing)()
    for _ in range(6):
        # Stopping runs end, and the operator continues until it has nothing to do.
        for uid in played.stopping & played.runs.keys():
            played.runs[uid] = False
        played.take(played.now)
    assert played.take(played.now) is Step.REST
    assert len(played.submits) == len(set(played.submits)), "no run is submitted twice"
    for uid, was_deleted in played.created.items():
        if was_deleted:
            assert played.now is None or played.now.uid != uid, "what was deleted goes"
            assert not played.runs.get(uid, False), "and no work of it goes on"
        else:
            assert played.now is not None, "what was not deleted stays"
            assert played.now.uid == uid
            assert uid in played.runs, "and has its run"


def _is_known(played: Played, old: Resource) -> bool:
    """Return whether the watch would still report ``old`` as an existing resource."""
    return played.now is not None and played.now.uid == old.uid
