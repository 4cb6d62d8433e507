"""Pruning a real folder: facts by the real probe, a plan of them, its scripts by a real shell, ended anywhere."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cpudeploy.execute.change import document
from cpudeploy.plan import matches, prune_plan
from cpudeploy.transport.shell import assignments
from cpudeploy.types.base import from_data, to_json
from cpudeploy.types.facts import Engine, Facts
from cpudeploy.types.names import STATE_DIR
from cpudeploy.types.operation import Script
from cpudeploy.types.release import Release
from tests.factories import facts
from tests.probe.trees import Tree
from tests.simulated import SimulatedHost
from tests.upgrades import ALICE, BOB, upgraded

SHELLS = [["dash"], ["bash", "--posix"], ["busybox", "sh"]]
ENDED_AT = """
rm() {
    echo >>"$steps"
    [ "$(wc -l <"$steps")" -le "$last" ] || kill -9 0
    command rm "$@"
}
mv() {
    echo >>"$steps"
    [ "$(wc -l <"$steps")" -le "$last" ] || kill -9 0
    command mv "$@"
}
"""
"""Before a script: the controller's connection ends, and the script with it, before it removes once more."""


class Disk:
    """A host's state folder as two deployments left it, and what they think is on it."""

    def __init__(self, folder: Path, state: dict[str, Any]) -> None:
        self.folder = folder
        self.tree = Tree(folder)
        self.tree.cpus([((0,), 0, 0)])
        self.tree.memory(1 << 20)
        self.state = folder / STATE_DIR.lstrip("/")
        self.weights = self.state / "weights"
        for sha in state["weights"]["blobs"]:
            self.put(f"weights/blobs/{sha}", sha)
            self.put(f"weights/blobs/{sha}.meta", "x")
        inodes = {blob["inode"]: sha for sha, blob in state["weights"]["blobs"].items()}
        for tree, files in state["weights"]["trees"].items():
            for name, inode in files.items():
                (self.weights / "trees" / tree).mkdir(parents=True)
                os.link(self.weights / "blobs" / inodes[inode], self.weights / "trees" / tree / name)
        for kind in ("refs", "claims"):
            for name, lines in state["weights"][kind].items():
                self.put(f"weights/{kind}/{name}", "\n".join(lines))
        for name, documents in state["releases"].items():
            for id, release in documents.items():
                self.put(f"{name}/releases/{id}.json", to_json(from_data(release, Release)).decode())
                self.put(f"{name}/secrets/{name}_m0_0/{id}/api_key", "secret")

    def put(self, path: str, text: str) -> None:
        file = self.state / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")

    def facts(self) -> Facts:
        running = Engine(state="running")  # none is there to be asked, so nothing is in use
        return msgspec.structs.replace(self.tree.facts(), host="one", root="root", engine=running)

    def names(self, path: str) -> set[str]:
        return {entry.name for entry in (self.state / path).iterdir()}

    def run(self, operation: Script, shell: list[str], *, last: int) -> int:
        """`last`: removals after which it is ended."""
        args = {key: value.replace(STATE_DIR, str(self.state)) for key, value in operation.args.items()}
        text = assignments({**args, "steps": str(self.folder / "steps"), "last": str(last)})
        done = subprocess.run(
            [*shell, "-c", text + ENDED_AT + operation.text],
            start_new_session=True,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stderr == ""
        return done.returncode

    def prune(self, wanted: Any, shell: list[str], *, last: int = 1000) -> bool:
        """One prune, ended after `last` removals; whether it came to its end."""
        (self.folder / "steps").write_text("")
        plan = prune_plan(wanted, {"one": self.facts()}, origin="here", keep=0)
        assert plan.hosts["one"].unknown == ""
        for change in plan.hosts["one"].changes:
            assert matches(change.before, document(self.facts())) == ()
            for operation in change.operations:
                assert isinstance(operation, Script)
                if self.run(operation, shell, last=last) != 0:
                    return False
            assert matches(change.after, document(self.facts())) == ()
        return True


@pytest.fixture(params=SHELLS, ids=lambda words: words[0])
def shell(request: pytest.FixtureRequest) -> list[str]:
    if shutil.which(request.param[0]) is None:
        pytest.skip(f"no {request.param[0]} here")
    return request.param


@pytest.fixture(scope="module")
def left() -> tuple[Any, dict[str, Any]]:
    """What alice wants last, and what four releases of hers and two of bob's left; weights 1 and 2 are both's."""
    host = SimulatedHost(facts(memory=64 << 30))
    wanted = upgraded(host, ALICE, 5)
    upgraded(host, BOB, 2)
    return wanted, host.state


def check_whole(disk: Disk) -> None:
    """Every release that is still written down and stays has its files."""
    found = disk.facts()
    inodes = {blob.inode for blob in found.weights.blobs.values()}
    for ref in [f"{BOB}.{id}" for id in found.releases[BOB]] + [f"{ALICE}.{max(found.releases[ALICE])}"]:
        for tree in found.weights.refs[ref]:
            assert found.weights.trees[tree]
            assert set(found.weights.trees[tree].values()) <= inodes


def test_what_nobody_needs_is_gone_from_the_disk(shell: list[str], left: Any, tmp_path: Path):
    wanted, state = left
    disk = Disk(tmp_path, state)
    (disk.weights / "trees" / ".org-3.77").mkdir()
    os.link(disk.weights / "trees" / "org-3" / "m.gguf", disk.weights / "trees" / ".org-3.77" / "m.gguf")
    assert disk.prune(wanted, shell)
    check_whole(disk)
    # Nothing serves here: the newest stays, and the one before it.
    assert [id[:4] for id in sorted(disk.facts().releases[ALICE])] == ["0004", "0005"]
    assert disk.names("weights/trees") == {"org-1", "org-2", "org-4", "org-5"}
    assert len(disk.names("weights/blobs")) == 2 * 4
    assert {name[:4] for name in disk.names(f"{ALICE}/secrets/{ALICE}_m0_0")} == {"0004", "0005"}
    assert len(disk.names(f"{BOB}/secrets/{BOB}_m0_0")) == 2
    assert prune_plan(wanted, {"one": disk.facts()}, origin="here", keep=0).empty


def test_ended_before_any_removal_the_next_prune_converges(left: Any, tmp_path: Path):
    wanted, state = left
    ends = []
    for last in range(60):
        disk = Disk(tmp_path / str(last), state)
        ends.append(disk.prune(wanted, ["sh"], last=last))
        check_whole(disk)
        assert disk.prune(wanted, ["sh"])
        check_whole(disk)
        assert disk.names("weights/trees") == {"org-1", "org-2", "org-4", "org-5"}
        assert len(disk.names("weights/blobs")) == 2 * 4
        assert prune_plan(wanted, {"one": disk.facts()}, origin="here", keep=0).empty
        if ends[-1]:
            break
    assert ends[-1] and not any(ends[:-1]) and len(ends) > 8


@pytest.mark.parametrize("how", ["refs", "claims", "link"])
def test_what_somebody_came_to_need_since_it_was_decided_stays(
    shell: list[str], left: Any, tmp_path: Path, how: str
):
    wanted, state = left
    disk = Disk(tmp_path, state)
    (sha,) = [sha for sha in state["weights"]["blobs"] if sha.startswith("00000003")]
    changes = prune_plan(wanted, {"one": disk.facts()}, origin="here", keep=0).hosts["one"].changes
    if how == "refs":
        disk.put("weights/refs/carol.fetched", "org-3")
    elif how == "claims":
        disk.put("weights/claims/carol", sha)
    else:
        (disk.weights / "trees" / "new").mkdir()
        os.link(disk.weights / "blobs" / sha, disk.weights / "trees" / "new" / "m.gguf")
    for change in changes:
        for operation in change.operations:
            assert isinstance(operation, Script)
            assert disk.run(operation, shell, last=1000) == 0
    assert sha in disk.names("weights/blobs")
    assert ("org-3" in disk.names("weights/trees")) == (how == "refs")


def test_names_that_cannot_be_read_keep_everything(left: Any, tmp_path: Path, shell: list[str]):
    wanted, state = left
    disk = Disk(tmp_path, state)
    changes = prune_plan(wanted, {"one": disk.facts()}, origin="here", keep=0).hosts["one"].changes
    (disk.weights / "refs" / "carol.0001-aaaaaaaa").mkdir()  # what can't be read as a file
    weights = next(change for change in changes if change.subject == "weights")
    before = (disk.names("weights/trees"), disk.names("weights/blobs"))
    (operation,) = weights.operations
    assert isinstance(operation, Script)
    text = assignments(
        {key: value.replace(STATE_DIR, str(disk.state)) for key, value in operation.args.items()}
    )
    done = subprocess.run([*shell, "-c", text + operation.text], capture_output=True, check=False)
    assert done.returncode != 0
    assert before == (disk.names("weights/trees"), disk.names("weights/blobs"))
