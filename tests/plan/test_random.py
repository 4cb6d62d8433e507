"""Whatever people want one after the other, and whoever dies in between: one apply more brings a host there,
a plan after it is empty, and nothing that is not ours is touched.

Plans go through the real runner onto a simulated host. CPUDEPLOY_HISTORIES is how many histories are tried.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from cpudeploy.execute import execute, settle, unsettled
from cpudeploy.plan import make_plan
from cpudeploy.types import operation as op
from cpudeploy.types.base import SecretRef, from_json, to_json
from cpudeploy.types.deployment import Deployment, Placement
from cpudeploy.types.event import Event
from cpudeploy.types.facts import Facts, Mark
from cpudeploy.types.names import container_name
from cpudeploy.types.outcome import ChangeStatus, HostOutcome, HostStatus
from cpudeploy.types.plan import Change, Plan
from cpudeploy.types.playbook import Playbook
from cpudeploy.types.resolved import Place
from tests.factories import container, cores, deployment, facts, network, placement, playbooks, resolved
from tests.simulated import Killed, SimulatedHost

HISTORIES = int(os.environ.get("CPUDEPLOY_HISTORIES", "200"))


def _with_cache() -> dict[str, Playbook]:
    """The shipped playbooks, llama.cpp's with a volume."""
    shipped = playbooks()
    llama = shipped["llama-cpp"]
    assert llama.container is not None
    template = msgspec.structs.replace(llama.container, volumes={"cache": "/cache"})
    return {**shipped, "llama-cpp": msgspec.structs.replace(llama, container=template)}


PLAYBOOKS = _with_cache()
MODELS = ("a", "b", "c")
FOR_EVER = 1000
"""More steps than any plan has."""


@dataclass(frozen=True)
class Wish:
    """What is wanted of one model. `key`: which version of its API key; 0: none."""

    model: str
    port: int
    context: int
    key: int


@dataclass(frozen=True)
class Want:
    """A whole manifest, and the image that its tag names today."""

    wishes: tuple[Wish, ...]
    image: str


@dataclass(frozen=True)
class Chapter:
    """Something is wanted and applied; `dies_at`: how far its controller comes before it dies, in percent of
    the steps; 100: it lives. `after`: what happens then. `failing`: models whose gate nothing passes."""

    want: Want
    dies_at: int
    after: str
    failing: frozenset[str]


@st.composite
def wants(draw: st.DrawFn) -> Want:
    """Models move between a few ports: what one gives up another may have in the same apply."""
    ports = draw(st.permutations(range(8100, 8105)))
    models = draw(st.sampled_from([MODELS, MODELS, MODELS[:2], MODELS[1:], MODELS[:1], ()]))
    wishes = tuple(
        Wish(
            model,
            port=ports[MODELS.index(model)],
            context=draw(st.sampled_from([512, 1024])),
            key=draw(st.integers(0, 2)),
        )
        for model in models
    )
    return Want(wishes, image=draw(st.sampled_from("de")) * 64)


chapters = st.builds(
    Chapter,
    want=wants(),
    dies_at=st.integers(0, 99) | st.just(100),
    after=st.sampled_from(["guards fire", "guards fail", "host restarts"]),
    failing=st.frozensets(st.sampled_from(MODELS), max_size=1),
)
histories = st.lists(chapters, min_size=1, max_size=4)


@dataclass
class Mortal:
    """A controller's hand on a host: it dies before the step `dies_at`, and does nothing ever after."""

    host: SimulatedHost
    dies_at: int = FOR_EVER
    steps: int = 0
    dead: bool = False
    log: list[str] = field(default_factory=list)

    def _step(self) -> None:
        if self.steps >= self.dies_at:
            self.dead = True
        if self.dead:
            raise Killed
        self.steps += 1

    def lock(self, plan: str) -> None:
        self._step()
        self.host.lock(plan)

    def unlock(self) -> None:
        self._step()
        self.host.unlock()

    def settle(self) -> None:
        self._step()
        self.host.settle()

    def begin(self, change: Change) -> None:
        self._step()
        self.host.begin(change)

    def end(self, change: Change, status: ChangeStatus) -> None:
        self._step()
        self.host.end(change, status)

    def finish(self, status: HostStatus, *, used: bool) -> None:
        self._step()
        self.host.finish(status, used=used)

    def perform(self, operation: op.Operation, tell: Callable[[Event], None]) -> None:
        self._step()
        self.host.perform(operation, tell)

    def facts(self) -> Facts:
        if self.dead:
            raise Killed
        return self.host.facts()

    def close(self) -> None:
        self._step()
        self.host.close()


class World:
    """One host with things of others on it, and who wants what there."""

    def __init__(self) -> None:
        theirs = msgspec.structs.replace(container("x"), mark=None, publish=(), cpuset="")
        mark = Mark(schema=1, deployment="other", model="x", instance=0, release="0001-bbbbbbbb")
        others = msgspec.structs.replace(container("x"), mark=mark, publish=(), cpuset="4", memory=1 << 30)
        found = facts(
            cores=cores(5),
            containers={"theirs": theirs, "other_x_0": others, "rag": theirs},
            networks={
                "theirs": msgspec.structs.replace(
                    network("theirs"), deployment="", subnets=("172.30.0.0/16",)
                ),
                "other_pub": msgspec.structs.replace(
                    network("other_pub"), deployment="other", subnets=("10.213.0.128/26",)
                ),
            },
        )
        self.host = SimulatedHost(found)
        self.host.state["volumes"] = {
            "theirs": {"deployment": ""},
            "rag_d_cache": {"deployment": ""},
            "other_a_cache": {"deployment": "other"},
        }
        self.host.state["releases"]["other"] = {"0001-bbbbbbbb": {"theirs": True}}
        self.host.state["weights"]["refs"]["other.0001-bbbbbbbb"] = ["tree"]
        self.keys: dict[tuple[str, str], int] = {}
        """(release, container) → the version of the key it was recorded with."""

    def ours(self) -> dict[str, dict[str, Any]]:
        """Our containers."""
        return {
            name: each
            for name, each in self.host.state["containers"].items()
            if each["mark"] and each["mark"]["deployment"] == "rag"
        }

    def not_ours(self) -> dict[str, Any]:
        """Everything on the host that a deployment `rag` has no business with."""
        state = copy.deepcopy(self.host.state)
        for name in self.ours():
            del state["containers"][name]
        return {
            "containers": state["containers"],
            "networks": {
                name: each for name, each in state["networks"].items() if each["deployment"] != "rag"
            },
            "volumes": {name: each for name, each in state["volumes"].items() if each["deployment"] != "rag"},
            "releases": {name: each for name, each in state["releases"].items() if name != "rag"},
            "refs": {name: each for name, each in state["weights"]["refs"].items() if name[:4] != "rag."},
            "held": {name: each for name, each in state["held"].items() if name != "rag"},
            "files": {name: each for name, each in state["files"].items() if "/cpudeploy/rag/" not in name},
        }

    def serving(self) -> dict[str, str]:
        """Container → id, of those that serve: proven, running, published."""
        return {
            name: each["id"]
            for name, each in self.ours().items()
            if each["running"]
            and each["restart_policy"] == "unless-stopped"
            and "rag_pub" in each["networks"]
        }

    def left_alone(self, after: str) -> None:
        """The controller is gone. `after`: what happens on the host then."""
        if after == "host restarts":
            self._restart()
            return
        if after == "guards fail":  # the engine was not to be had, say: they ran, and put nothing back
            for name in self.host.armed:
                self.host.state["guards"][name].update(state="fired", rc=1)
            self.host.armed.clear()
        self.host.die()

    def _restart(self) -> None:
        """The host starts anew: guards are lost, the lease is nobody's, and the engine starts what it should."""
        state = self.host.state
        if state["lease"]:
            state["lease"]["expired"] = True
        for guard in state["guards"].values():
            if guard["state"] == "armed":
                guard["state"] = "lost"
        for each in self.ours().values():
            if each["restart_policy"] == "no" and each["running"]:
                each.update(running=False, status="exited", exit_code=137)

    def plan(self, want: Want, *, retry: bool = False) -> Plan:
        """A fresh plan of what is wanted."""
        house = house_of(want)
        image = "sha256:" + want.image
        known = resolved(*house.placements, secrets=self._secrets(want))
        place = Place(
            reference=f"mirror.corp/ggml-org/llama.cpp@{image}", digest=image, registry="mirror.corp"
        )
        llama = msgspec.structs.replace(known.images["llama"], digest=image, places=(place,))
        known = msgspec.structs.replace(known, images={"llama": llama})
        made = make_plan(house, PLAYBOOKS, {"one": self.host.facts()}, known, origin="here", retry=retry)
        return from_json(to_json(made), Plan)

    def apply(self, want: Want, *, dies_at: int = 100, retry: bool = False) -> HostOutcome | None:
        """One apply, as the command does it: what was left in the middle is put right, then it is planned and
        carried out. None when its controller died."""
        if unsettled(self.host.facts()):
            settle(Mortal(self.host))
        plan = self.plan(want, retry=retry)
        refused = plan.hosts["one"].unknown
        # Ports in a circle, or one that what is held still has: such a wish leads nowhere, and nothing is done.
        assume("swap ports" not in refused and "is taken" not in refused)
        assert not refused, refused
        self._remember(plan, want)
        steps = 3 + sum(2 + len(change.operations) for change in plan.hosts["one"].changes)
        last = FOR_EVER if dies_at == 100 else dies_at * steps // 100
        try:
            return execute(plan, lambda _: Mortal(self.host, last), lambda event: None).hosts["one"]
        except Killed:
            return None

    def _secrets(self, want: Want) -> dict[str, str]:
        """Which keys are other than those of what has proven itself, as hosts tell by their marks."""
        told = {}
        for wish in want.wishes:
            name = container_name("rag", wish.model, 0)
            there = [
                (each["restart_policy"] != "no", each["mark"]["release"])
                for each in self.ours().values()
                if each["mark"]["model"] == wish.model
            ]
            if there and self.keys.get((max(there)[1], name)) != wish.key:
                told[f"one/rag/{wish.model}/0/api_key"] = "changed"
        return told

    def _remember(self, plan: Plan, want: Want) -> None:
        versions = {container_name("rag", wish.model, 0): wish.key for wish in want.wishes}
        for change in plan.hosts["one"].changes:
            for operation in change.operations:
                if isinstance(operation, op.Record):
                    for name in operation.instances:
                        self.keys.setdefault((operation.release, name), versions[name])


def house_of(want: Want) -> Deployment:
    return deployment(*(placement_of(wish) for wish in want.wishes))


def placement_of(wish: Wish) -> Placement:
    key = SecretRef(kind="from_env", name="KEY") if wish.key else None
    return placement(wish.model, port=wish.port, context=wish.context, cpus="cores:1", api_key=key)


def check_whole(world: World, want: Want) -> None:
    """The host is as wanted, and nothing is left of the way there."""
    state = world.host.state
    wanted = {container_name("rag", wish.model, 0): wish.port for wish in want.wishes}
    assert set(world.serving()) == set(world.ours()) == set(wanted)
    assert {name: each["publish"][0]["port"] for name, each in world.ours().items()} == wanted
    assert (state["lease"], state["in_flight"], state["guards"]) == (None, None, {})
    assert world.host.armed == {}
    caches = {f"rag_{wish.model}_cache" for wish in want.wishes}
    assert {name for name, each in state["volumes"].items() if each["deployment"] == "rag"} == caches
    assert set(state["networks"]) == {"rag_pub", "rag_int", "theirs", "other_pub"} or not wanted
    assert world.plan(want).empty


@settings(
    max_examples=HISTORIES,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(histories)
def test_one_apply_more_always_converges_and_nothing_of_others_is_touched(history: list[Chapter]):
    world = World()
    others = world.not_ours()
    before: Want | None = None
    for chapter in history:
        untouched = unchanged(world, before, chapter.want)
        world.host.failing = set(chapter.failing)
        outcome = world.apply(chapter.want, dies_at=chapter.dies_at)
        if outcome is None:
            world.left_alone(chapter.after)
        assert untouched.items() <= world.serving().items()
        assert world.not_ours() == others
        world.host.failing = set()
        served = world.serving()
        healed = world.apply(chapter.want)
        assert healed is not None
        assert healed.status in ("done", "unchanged", "held"), healed
        assert untouched.items() <= world.serving().items()
        assert world.not_ours() == others
        held = set(world.plan(chapter.want).hosts["one"].held)
        assert held <= chapter.failing
        for model in held:  # what failed is left alone until somebody insists, and so is what serves instead
            name = container_name("rag", model, 0)
            assert served.get(name) == world.serving().get(name)
        if held:
            insisted = world.apply(chapter.want, retry=True)
            assert insisted is not None and insisted.status == "done", insisted
        check_whole(world, chapter.want)
        before = chapter.want


def unchanged(world: World, before: Want | None, want: Want) -> dict[str, str]:
    """Who serves and is wanted as before: nothing that happens to others may touch it."""
    if before is None or before.image != want.image:
        return {}
    stay = {container_name("rag", wish.model, 0) for wish in set(before.wishes) & set(want.wishes)}
    return {name: id for name, id in world.serving().items() if name in stay}
