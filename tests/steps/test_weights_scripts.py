"""The scripts that claim, link and forget weights, run by a real shell on real folders."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from cpudeploy.steps.context import script

SHELLS = [["dash"], ["bash", "--posix"], ["busybox", "sh"]]


@pytest.fixture(params=SHELLS, ids=lambda words: words[0])
def shell(request: pytest.FixtureRequest) -> list[str]:
    import shutil

    if shutil.which(request.param[0]) is None:
        pytest.skip(f"no {request.param[0]} here")
    return request.param


def run(shell: list[str], name: str, **args: str | Path) -> subprocess.CompletedProcess[str]:
    text = script(name, {}, id="x", deadline_s=1).text
    values = {key: str(value) for key, value in args.items()}
    assigned = "".join(f"{key}=$_{key}\n" for key in values)
    env = {"PATH": "/usr/bin:/bin", **{f"_{key}": value for key, value in values.items()}}
    return subprocess.run(
        [*shell, "-c", assigned + text], env=env, capture_output=True, text=True, check=False
    )


class Disk:
    """A weights folder with blobs, as downloads leave it."""

    def __init__(self, shell: list[str], state: Path, weights: Path) -> None:
        self.shell, self.state, self.weights = shell, state, weights

    def have(self, sha: str) -> None:
        (self.weights / "blobs").mkdir(parents=True, exist_ok=True)
        (self.weights / "blobs" / sha).write_text(sha)
        (self.weights / "blobs" / f"{sha}.meta").write_text("x")

    def do(self, name: str, deployment: str, tree: str, files: str) -> None:
        done = run(
            self.shell,
            name,
            state=self.state,
            weights=self.weights,
            deployment=deployment,
            tree=tree,
            files=files,
        )
        assert done.returncode == 0, done.stderr

    def fetched(self, deployment: str, tree: str, sha: str, name: str = "m.gguf") -> None:
        self.do("claim-weights", deployment, tree, f"{sha} {name}")
        self.have(sha)
        self.do("link-tree", deployment, tree, f"{sha} {name}")

    def forget(self, deployment: str) -> None:
        (self.state / deployment).mkdir(parents=True, exist_ok=True)
        done = run(self.shell, "forget", state=self.state, weights=self.weights, deployment=deployment)
        assert done.returncode == 0, done.stderr


@pytest.fixture
def disk(shell: list[str], tmp_path: Path) -> Disk:
    return Disk(shell, tmp_path / "state", tmp_path / "state" / "weights")


def test_a_folder_holds_hard_links_and_begins_with_a_private_state_folder(disk: Disk):
    disk.fetched("rag", "tree-1", "a" * 8, "sub/m.gguf")
    linked = disk.weights / "trees" / "tree-1" / "sub" / "m.gguf"
    assert linked.stat().st_ino == (disk.weights / "blobs" / ("a" * 8)).stat().st_ino
    assert oct(disk.state.stat().st_mode)[-3:] == "700"
    assert oct(linked.parent.stat().st_mode)[-3:] == "755"


def test_linking_again_replaces_an_altered_file_and_clears_what_a_killed_run_left(disk: Disk):
    disk.fetched("rag", "tree-1", "a" * 8)
    file = disk.weights / "trees" / "tree-1" / "m.gguf"
    file.unlink()
    file.write_text("altered")
    left = disk.weights / "trees" / ".tree-1.999"
    left.mkdir()
    disk.do("link-tree", "rag", "tree-1", f"{'a' * 8} m.gguf")
    assert file.read_text() == "a" * 8
    assert not left.exists()


@pytest.mark.parametrize("name", ["/etc/x", "../x", "a/../../x", "x/.."])
def test_a_name_that_leads_out_of_the_folder_is_refused(disk: Disk, name: str):
    disk.have("a" * 8)
    done = run(disk.shell, "link-tree", weights=disk.weights, tree="t", files=f"{'a' * 8} {name}")
    assert done.returncode != 0
    assert not (disk.weights / "trees" / "t").exists()


def test_forgetting_takes_what_only_this_deployment_had(disk: Disk):
    disk.fetched("rag", "tree-mine", "a" * 8)
    disk.fetched("rag", "tree-shared", "b" * 8)
    disk.fetched("other", "tree-shared", "b" * 8)
    disk.fetched("other", "tree-theirs", "c" * 8)
    disk.forget("rag")
    assert {path.name for path in (disk.weights / "trees").iterdir()} == {"tree-shared", "tree-theirs"}
    kept = {path.name for path in (disk.weights / "blobs").iterdir()}
    assert kept == {"b" * 8, "b" * 8 + ".meta", "c" * 8, "c" * 8 + ".meta"}
    assert not (disk.state / "rag").exists()


def test_forgetting_spares_what_another_deployment_is_just_fetching(disk: Disk):
    """A blob that is not linked yet, and a download that goes on, are somebody's."""
    disk.fetched("rag", "tree-mine", "a" * 8)
    disk.do("claim-weights", "other", "tree-theirs", f"{'c' * 8} m.gguf\n{'d' * 8} n.gguf")
    disk.have("c" * 8)
    (disk.weights / "partial").mkdir()
    (disk.weights / "partial" / ("d" * 8)).write_text("half")
    disk.forget("rag")
    assert (disk.weights / "blobs" / ("c" * 8)).exists()
    assert (disk.weights / "partial" / ("d" * 8)).exists()


def test_forgetting_clears_a_first_apply_that_failed_in_mid_download(disk: Disk):
    disk.do("claim-weights", "rag", "tree-mine", f"{'a' * 8} m.gguf\n{'b' * 8} n.gguf")
    disk.have("a" * 8)
    (disk.weights / "partial").mkdir()
    (disk.weights / "partial" / ("b" * 8)).write_text("half")
    disk.forget("rag")
    assert not disk.state.exists()


def test_an_administrators_own_weights_folder_stays(shell: list[str], tmp_path: Path):
    weights = tmp_path / "data"
    weights.mkdir(mode=0o775)
    disk = Disk(shell, tmp_path / "state", weights)
    disk.fetched("rag", "tree-mine", "a" * 8)
    disk.forget("rag")
    assert list(weights.iterdir()) == []
    assert weights.is_dir()


def test_forgetting_twice_is_forgetting_once(disk: Disk):
    disk.fetched("rag", "tree-mine", "a" * 8)
    disk.forget("rag")
    disk.forget("rag")


def test_secrets_of_other_releases_go_and_the_named_one_stays(shell: list[str], tmp_path: Path):
    text = script("forget-secrets", {}, id="x", deadline_s=1).text
    text = text.replace("/var/lib/cpudeploy", str(tmp_path))
    folder = tmp_path / "rag" / "secrets" / "rag_m_0"
    for release in ("0001-a", "0002-b"):
        (folder / release).mkdir(parents=True)
    head = "deployment=rag container=rag_m_0 keep={}\n"
    subprocess.run([*shell, "-c", head.format("0002-b") + text], check=True)
    assert [path.name for path in folder.iterdir()] == ["0002-b"]
    subprocess.run([*shell, "-c", head.format("''") + text], check=True)
    assert not folder.exists()
    subprocess.run([*shell, "-c", head.format("''") + text], check=True)
