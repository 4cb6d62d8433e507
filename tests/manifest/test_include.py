"""Manifests out of several files: what wins, where paths begin, and where what is wrong stands."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cpudeploy.errors import ManifestError, Problem
from cpudeploy.manifest import Manifest, load
from cpudeploy.types.base import SecretRef
from cpudeploy.types.deployment import Upload

from .conftest import CERTIFICATE

MAIN = """\
version: 1
name: rag
include: [INCLUDE]
hosts: {a: {}}
"""
MODELS = """\
backends: {llama: {playbook: engine, image: "ghcr.io/x/y:b9000"}}
models: {m: {source: {path: /w/m}, backend: llama, port: 8100, on: [a]}}
"""


class Folder:
    """A folder of manifests; `inventory.yaml` is the one that is loaded."""

    def __init__(self, path: Path, playbooks: Path) -> None:
        self.path = path
        self._playbooks = playbooks

    def write(self, name: str, text: str) -> None:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def load(self, **files: str) -> Manifest:
        """With these files written first: `site` is site.yaml, `main` inventory.yaml."""
        for name, text in files.items():
            self.write("inventory.yaml" if name == "main" else f"{name}.yaml", text)
        return load(self.path / "inventory.yaml", [self._playbooks])

    def problems(self, **files: str) -> list[Problem]:
        with pytest.raises(ManifestError) as caught:
            self.load(**files)
        folder = f"{self.path}/"
        return [Problem(p.where.removeprefix(folder), p.what, p.do) for p in caught.value.problems]


@pytest.fixture
def folder(tmp_path: Path, playbooks: Path) -> Folder:
    return Folder(tmp_path, playbooks)


def main(*included: str, more: str = "") -> str:
    return MAIN.replace("INCLUDE", ", ".join(included)) + more


def test_included_settings_come_before_those_of_the_file(folder: Folder) -> None:
    manifest = folder.load(
        site="defaults: {context: 1, parallel: 1, env: {A: site, B: site}, ssh: {user: site, port: 22}}\n"
        "mirrors: {huggingface: https://site, images: [{match: a.b/, try: [c.d/]}]}\n"
        "registries: {r.corp: {username: u, password: {from_env: SITE}}}\n"
        "proxy: {http: 'http://proxy:3128'}\n",
        main=main(
            "site.yaml",
            more=MODELS + "defaults: {context: 2, env: {B: own}, ssh: {port: 23}}\n"
            "mirrors: {images: []}\nregistries: {r.corp: {password: {from_file: own}}, s.corp: {}}\n",
        ),
    )
    deployment, (placement,) = manifest.deployment, manifest.deployment.placements
    assert (placement.context, placement.parallel) == (2, 1)
    assert placement.env == {"A": "site", "B": "own"}
    assert (deployment.hosts["a"].ssh.user, deployment.hosts["a"].ssh.port) == ("site", 23)
    assert deployment.mirrors.huggingface == "https://site"
    assert deployment.mirrors.images == ()
    assert deployment.registries[0].username == "u"
    assert deployment.registries[0].password == SecretRef(kind="from_file", name="own")
    assert [registry.scope for registry in deployment.registries] == ["r.corp", "s.corp"]
    assert deployment.proxy is not None
    assert (deployment.proxy.http, deployment.proxy.https) == ("http://proxy:3128", "http://proxy:3128")


def test_later_files_win_over_earlier_ones_and_what_these_include_comes_first(folder: Folder) -> None:
    manifest = folder.load(
        base="defaults: {context: 1, parallel: 1, cpus: 1}\n",
        one="include: [base.yaml]\ndefaults: {context: 2, parallel: 2}\n",
        two="defaults: {context: 3}\n",
        main=main("one.yaml", "two.yaml", more=MODELS),
    )
    (placement,) = manifest.deployment.placements
    assert (placement.context, placement.parallel, placement.cpus) == (3, 2, "cores:1")


def test_hosts_groups_backends_and_models_may_stand_in_any_file(folder: Folder) -> None:
    manifest = folder.load(
        hosts="hosts: {b: {address: h, user: x}}\n"
        "groups: {g: {hosts: {'x[1:2]': {}}, context: 1, groups: {i: {hosts: [x1], parallel: 2}}}}\n",
        models=MODELS.replace("on: [a]", "on: [g, b]"),
        main=main("hosts.yaml", "models.yaml")
        + "groups: {g: {context: 2, groups: {i: {parallel: 3}}}}\nmodels: {m: {port: 8200, on: [g]}}\n",
    )
    placed = {p.host: (p.context, p.parallel, p.port) for p in manifest.deployment.placements}
    assert placed == {"x1": (2, 3, 8200), "x2": (2, 1, 8200)}
    assert manifest.deployment.hosts["b"].ssh.user == "x"


def test_a_manifest_says_its_own_name(folder: Folder) -> None:
    assert folder.load(site="version: 1\nname: other\n", main=main("site.yaml")).deployment.name == "rag"
    found = folder.problems(main="include: [site.yaml]\nhosts: {a: {}}\n")
    assert "lacks `version` and `name`" in found[0].what


def test_paths_are_relative_to_the_file_they_stand_in(folder: Folder) -> None:
    folder.write("site/certs/ca.pem", CERTIFICATE)
    folder.write(
        "site/deep/more.yaml",
        "defaults: {sudo: {password: {from_sops: sudo.sops}}, api_key: {from_age: /keys/k.age}}\n"
        "models: {m: {source: {upload: files/m.gguf}}}\n",
    )
    folder.write(
        "site/site.yaml",
        "include: [deep/more.yaml]\n"
        "defaults: {ssh: {config: ssh_config}}\n"
        "registries: {r.corp: {username: u, password: {from_file: secrets/r}, ca: certs/ca.pem}}\n"
        "backends: {llama: {playbook: engine, image: 'ghcr.io/x/y:b9000'}}\n"
        "models: {m: {backend: llama, port: 8100, on: [a], memory: 1GiB}}\n",
    )
    deployment = folder.load(main=main("site/site.yaml")).deployment
    assert deployment.base == str(folder.path)
    assert deployment.registries[0].password == SecretRef(kind="from_file", name="site/secrets/r")
    assert (deployment.registries[0].ca or "").startswith("-----BEGIN")
    host, (placement,) = deployment.hosts["a"], deployment.placements
    assert host.ssh.config == str(folder.path / "site/ssh_config")
    assert host.sudo.password == SecretRef(kind="from_sops", name="site/deep/sudo.sops")
    assert placement.api_key == SecretRef(kind="from_age", name="/keys/k.age")
    assert placement.source == Upload(path="site/deep/files/m.gguf")


def test_a_file_elsewhere_is_named_by_its_whole_path(
    folder: Folder, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(elsewhere))
    (elsewhere / "site.yaml").write_text("registries: {r.corp: {username: u, password: {from_file: r}}}\n")
    for written in ("~/site.yaml", str(elsewhere / "site.yaml")):
        deployment = folder.load(main=main(written)).deployment
        assert deployment.registries[0].password == SecretRef(kind="from_file", name=str(elsewhere / "r"))


def test_positions_name_the_file_a_value_stands_in(folder: Folder) -> None:
    positions = folder.load(site="defaults:\n  context: 1\n", main=main("site.yaml")).positions
    assert positions["defaults.context"] == f"{folder.path}/site.yaml:2:12"
    assert positions["hosts.a"] == f"{folder.path}/inventory.yaml:4:9"


def test_what_is_wrong_in_any_file_is_told_with_its_place(folder: Folder) -> None:
    found = folder.problems(
        site="defaults: {contxt: 1}\nregistries: {r.corp: {ca: no.pem}}\nbackends: {x: {playbook: engine, image: x}}\n",
        other="defaults: {context: 010}\n",
        broken="a: [",
        main=main("site.yaml", "other.yaml", "broken.yaml") + "defaults: {context: x}\n",
    )
    assert [problem.where for problem in found] == [
        "broken.yaml:1:5",
        "inventory.yaml:5:21",
        "other.yaml:1:21",
        "site.yaml:1:12",
        "site.yaml:2:27",
        "site.yaml:3:41",
    ]


def test_what_is_wrong_is_told_also_where_another_file_wins_over_it(folder: Folder) -> None:
    found = folder.problems(
        site="defaults: {context: no}\n", main=main("site.yaml", more="defaults: {context: 1}\n")
    )
    assert [problem.where for problem in found] == ["site.yaml:1:21"]


@pytest.mark.parametrize(
    ("included", "words"),
    [
        ("no.yaml", "the file `no.yaml` can't be read: no such file"),
        (".", "`.` is not a file"),
        ("pipe", "`pipe` is not a file"),
        ("x" * 300, "can't be read: file name too long"),
        ("loop", "can't be read: too many levels of symbolic links"),
        ("latin.yaml", "`latin.yaml` is not UTF-8 text (line 1, byte 9)"),
        ("~nobody-here/x.yaml", "no home folder `~nobody-here`"),
        ("inventory.yaml", "`inventory.yaml` comes back to a file that includes it"),
        ("around.yaml", "`around.yaml` comes back to a file that includes it"),
    ],
)
def test_files_that_can_not_be_included(folder: Folder, included: str, words: str) -> None:
    os.mkfifo(folder.path / "pipe")
    (folder.path / "loop").symlink_to("loop")
    (folder.path / "around.yaml").symlink_to("inventory.yaml")
    (folder.path / "latin.yaml").write_bytes(b"# Pr\xc3\xbcf \xfc")
    (problem,) = folder.problems(main=main(included))
    assert problem.where == "inventory.yaml:3:11"
    assert words in problem.what


def test_a_circle_of_files_is_told_where_it_closes(folder: Folder) -> None:
    (problem,) = folder.problems(
        one="include: [two.yaml]\n", two="include:\n  - one.yaml\n", main=main("one.yaml")
    )
    assert problem.where == "two.yaml:2:5"
    assert "`inventory.yaml` → `one.yaml` → `two.yaml` → `one.yaml`" in problem.what


def test_one_file_may_be_included_on_two_ways(folder: Folder) -> None:
    deployment = folder.load(
        base="defaults: {ssh: {user: x}}\n",
        one="include: [base.yaml]\n",
        two="include: [base.yaml]\n",
        main=main("one.yaml", "two.yaml"),
    ).deployment
    assert deployment.hosts["a"].ssh.user == "x"


def test_a_tree_of_files_that_grows_without_end_is_refused(folder: Folder) -> None:
    for number in range(12):
        folder.write(f"f{number}.yaml", f"include: [f{number + 1}.yaml, ./f{number + 1}.yaml]\n")
    folder.write("f12.yaml", "{}\n")
    (problem,) = folder.problems(main=main("f0.yaml"))
    assert "more than 100 files" in problem.what


def test_what_is_in_none_of_the_files_is_missed_where_it_belongs(folder: Folder) -> None:
    found = folder.problems(
        site="models: {m: {backend: llama}}\nregistries: {r.corp: {username: u}}\n", main=main("site.yaml")
    )
    assert [problem.where for problem in found] == ["site.yaml:1:10", "site.yaml:2:14"]
    assert "`models.m` lacks `on`" in found[0].what
    assert "`registries.r.corp` lacks `password`" in found[1].what


def test_an_included_file_that_is_no_map_or_empty_is_told(folder: Folder) -> None:
    folder.write("list.yaml", "[a]\n")
    folder.write("empty.yaml", "")
    found = folder.problems(main=main("list.yaml", "empty.yaml"))
    assert [problem.where for problem in found] == ["empty.yaml:1:1", "list.yaml:1:1"]
