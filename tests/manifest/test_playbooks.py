"""Playbooks: found, read, refused where they are wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from cpudeploy.data_files import data_dir
from cpudeploy.errors import ManifestError
from cpudeploy.manifest import load, load_playbook

from .conftest import BASE, ENGINE, GOOD

ONE_FAULT = [
    ("kind: engine", "kind: motor", "2:7", "must be engine or host"),
    ("name: engine", "name: other", "1:7", "calls itself `other`"),
    ("memory: gguf", "memry: gguf", "6:1", "did you mean `memory`"),
    ('"b([0-9]+)$"', '"b[0-9]+$"', "4:18", "exactly one group"),
    ('"b([0-9]+)$"', '"b([0-9+$"', "4:18", "not a regular expression"),
    ("alloc.context *", "alloc.contxt *", "12:29", "`alloc.contxt`"),
    ("param.kv }}", "param.kvv }}", "13:15", "did you mean `kv`"),
    ("image.version >= 9000", "image.version >= 0.22", "13:45", "version in quotes"),
    ("image.version >= 9000", "image.versoin >= 1", "13:45", "did you mean `version`"),
    ("image.version >= 9000", "range(9)", "13:45", "`call` is not part"),
    ("model.served_name|tojson", "model.served_name|center(9)", "17:59", "no filter `center`"),
    ("  port: 8080\n", "", "7:1", "lacks `port`"),
    ("flags: [--kv]", "flags: [kv]", "13:76", "a flag such as --ctx-size"),
    ("requires: [base]", "steps: [{docker_engin: {}}]", "3:10", "did you mean `docker_engine`"),
    ("requires: [base]", "steps: [{image: {pull: 1}}]", "3:10", "this step has no settings"),
    ("  port: 8080", "  port: 8080\n  shm: 4XB", "9:8", "write a size such as 4GiB"),
    ("    chat:", "    chta:", "17:5", "chat, embed or rerank"),
    (
        "requires: [base]",
        'diagnose: [{log: "x(?P<n>.)", cause: a, do: "b {m}"}]',
        "3:45",
        "a group that `log` does not",
    ),
    (
        "requires: [base]",
        "diagnose: [{exit_code: 1, cause: 'a {n}', do: b}]",
        "3:34",
        "a group that `log` does not",
    ),
    (
        "path: /v1/ask,",
        "path: /v1/ask, instead_when: 'x(', instead: {name: i, path: /},",
        "17:67",
        "not a regular",
    ),
    (
        "path: /v1/ask,",
        "path: /v1/ask, instead_when: x, instead: {name: i, path: '/{{y}}'},",
        "17:95",
        "`y`",
    ),
    ("path: /v1/ask,", "path: /v1/ask, instead_when: x,", "17:12", "lacks `instead`"),
]


@pytest.fixture
def write(tmp_path: Path) -> Path:
    (tmp_path / "engine.yaml").write_text(ENGINE)
    return tmp_path


def test_a_playbook_becomes_its_type(write: Path) -> None:
    playbook = load_playbook("engine", [write])
    assert playbook.container is not None
    assert playbook.container.arguments[0].flags == ("-c", "--ctx-size")
    assert playbook.health is not None
    assert playbook.health.tasks["chat"][0].method == "POST"


@pytest.mark.parametrize("path", sorted(data_dir("playbooks").glob("*.yaml")), ids=lambda path: path.stem)
def test_shipped_playbooks_are_right_and_so_is_what_they_require(path: Path) -> None:
    for required in load_playbook(path.stem).requires:
        assert load_playbook(required).kind == "host"


def test_the_first_folder_wins(write: Path, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "engine.yaml").write_text(ENGINE.replace("8080", "9090"))
    container = load_playbook("engine", [own, write]).container
    assert container is not None
    assert container.port == 9090


@pytest.mark.parametrize(
    ("old", "new", "place", "words"), ONE_FAULT, ids=[case[1][:30] for case in ONE_FAULT]
)
def test_one_fault_is_told_where_it_is(write: Path, old: str, new: str, place: str, words: str) -> None:
    assert ENGINE.count(old) == 1
    (write / "engine.yaml").write_text(ENGINE.replace(old, new))
    with pytest.raises(ManifestError) as caught:
        load_playbook("engine", [write])
    (problem,) = caught.value.problems
    assert problem.where == f"{write}/engine.yaml:{place}"
    assert words in f"{problem.what} {problem.do}"


@pytest.mark.parametrize("name", ["../engine", "/etc/passwd", "engine.yaml", "", "nothing", "-x"])
def test_a_name_never_leaves_the_folders(write: Path, name: str) -> None:
    with pytest.raises(ManifestError, match="no such playbook"):
        load_playbook(name, [write / "sub", write])


def test_an_engine_needs_a_container_and_a_health_gate(write: Path) -> None:
    (write / "engine.yaml").write_text("name: engine\nkind: engine\n")
    with pytest.raises(ManifestError, match="lacks `container` and `health`"):
        load_playbook("engine", [write])


def test_a_diagnosis_must_say_how_it_is_recognised(write: Path) -> None:
    (write / "engine.yaml").write_text(ENGINE + "diagnose: [{cause: a, do: b}]\n")
    with pytest.raises(ManifestError, match="exit_code, oom or log"):
        load_playbook("engine", [write])


@pytest.mark.parametrize(
    ("backend", "told"),
    [
        ('image: "ghcr.io/x/y:b8999"', "6:36"),
        ('image: "ghcr.io/x/y:latest", version: b8999', "6:67"),
        ('image: "ghcr.io/x/y:b9000"', None),
        ('image: "ghcr.io/x/y:latest"', None),
    ],
)
def test_an_image_of_a_version_the_playbook_does_not_know_is_refused(
    write: Path, tmp_path: Path, backend: str, told: str | None
) -> None:
    need = 'images: [{when: "image.version >= 9000", why: "older ones differ", do: "use b9000"}]\n'
    (write / "engine.yaml").write_text(ENGINE.replace("requires: [base]\n", "") + need)
    inventory = tmp_path / "inventory.yaml"
    inventory.write_text(GOOD.replace('image: "ghcr.io/x/y:b9000"', backend))
    if told is None:
        assert load(inventory, [write]).deployment.backends
        return
    with pytest.raises(ManifestError) as caught:
        load(inventory, [write])
    (problem,) = caught.value.problems
    assert problem.where == f"{inventory}:{told}"
    assert problem.what.startswith("playbook `engine` does not know version")
    assert problem.what.endswith("8999`: older ones differ")
    assert problem.do == "use b9000"


TUNED = "name: tuned\nkind: host\nsteps: [{docker_daemon: {settings: {log-level: warn, mtu: 1400}}}]\n"


def test_hosts_know_what_their_playbooks_want_of_the_engine(write: Path, tmp_path: Path) -> None:
    (write / "tuned.yaml").write_text(TUNED)
    (write / "docker.yaml").write_text(TUNED.replace("tuned", "docker").replace("log-level: warn, ", ""))
    inventory = tmp_path / "inventory.yaml"
    inventory.write_text(GOOD.replace("  a: {", "  a: {playbooks: [tuned], ").replace("llama-cpp", "engine"))
    (write / "engine.yaml").write_text(ENGINE.replace("[base]", "[docker]"))
    wanted = load(inventory, [write]).deployment.hosts["a"].engine_settings
    assert wanted == {"log-level": "warn", "mtu": 1400}


def test_two_playbooks_of_a_host_can_not_want_different_values(write: Path, tmp_path: Path) -> None:
    (write / "tuned.yaml").write_text(TUNED)
    (write / "base.yaml").write_text(BASE)
    (write / "other.yaml").write_text(TUNED.replace("tuned", "other").replace("1400", "9000"))
    inventory = tmp_path / "inventory.yaml"
    inventory.write_text(GOOD.replace("  a: {", "  a: {playbooks: [tuned, other], "))
    with pytest.raises(ManifestError) as caught:
        load(inventory, [write])
    assert [problem.what for problem in caught.value.problems] == [
        "playbooks `tuned` and `other` want different values of the engine's `mtu` on host `a`"
    ]


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("insecure-registries: [a]", "mirrors.images"),
        ("data-root: /data", "out of its sight"),
        ("features: {containerd-snapshotter: true}", "out of its sight"),
        ("pidfile: /x", "leave it"),
        ("Log_Level: warn", "as daemon.json names it"),
    ],
)
def test_settings_with_another_place_or_that_hide_what_the_engine_holds_are_refused(
    write: Path, setting: str, words: str
) -> None:
    (write / "tuned.yaml").write_text(TUNED.replace("mtu: 1400", setting))
    with pytest.raises(ManifestError) as caught:
        load_playbook("tuned", [write])
    (problem,) = caught.value.problems
    assert problem.where.startswith(f"{write}/tuned.yaml:3:")
    assert words in f"{problem.what} {problem.do}"
