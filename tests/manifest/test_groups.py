"""Groups and ranges: which hosts there are, what bears on them, and what is told when it can't be settled."""

from __future__ import annotations

import pytest

from cpudeploy.types.base import SecretRef
from cpudeploy.types.deployment import Host, Placement, Ssh

from .conftest import GOOD, Failer, Loader

HEAD = """\
version: 1
name: rag
backends: {llama: {playbook: engine, image: "ghcr.io/x/y:b9000"}}
"""
MODEL = "models: {m: {source: {path: /w/m}, backend: llama, port: 8100, memory: 1GiB, on: [ON]}}\n"


def hosts_of(load_text: Loader, text: str) -> dict[str, Host]:
    return load_text(HEAD + text).deployment.hosts


def placed(load_text: Loader, text: str, on: str = "all") -> dict[str, Placement]:
    """The one model's placement on each host that `on` means."""
    deployment = load_text(HEAD + text + MODEL.replace("ON", on)).deployment
    assert set(deployment.__struct_fields__).isdisjoint({"groups", "include", "defaults"})
    return {placement.host: placement for placement in deployment.placements}


def addresses(hosts: dict[str, Host]) -> dict[str, str]:
    return {name: host.ssh.address for name, host in hosts.items()}


@pytest.mark.parametrize(
    ("name", "address", "found"),
    [
        (
            "xeon-[01:04]",
            "10.20.1.[11:14]",
            {
                "xeon-01": "10.20.1.11",
                "xeon-02": "10.20.1.12",
                "xeon-03": "10.20.1.13",
                "xeon-04": "10.20.1.14",
            },
        ),
        (
            "x[8:11]",
            "h-[08:11].lan",
            {"x8": "h-08.lan", "x9": "h-09.lan", "x10": "h-10.lan", "x11": "h-11.lan"},
        ),
        ("[098:100]b", "[2001:db8::1]", None),
        ("x[0:1]", "[fe80::1]%eth[0:1]", {"x0": "[fe80::1]%eth0", "x1": "[fe80::1]%eth1"}),
        ("a", "[2001:db8::1]", {"a": "[2001:db8::1]"}),
    ],
)
def test_ranges_count_in_step(
    load_text: Loader, problems_of: Failer, name: str, address: str, found: dict[str, str] | None
) -> None:
    text = f'hosts: {{"{name}": {{address: "{address}"}}}}\n'
    if found is None:
        (problem,) = problems_of(HEAD + text)
        assert "stands for 3 hosts, the address `[2001:db8::1]` for one host" in problem.what
    else:
        assert addresses(hosts_of(load_text, text)) == found


def test_a_range_without_an_address_leaves_it_to_the_ssh_configuration(load_text: Loader) -> None:
    assert addresses(hosts_of(load_text, 'hosts: {"x-[1:2]": {user: root}}\n')) == {
        "x-1": "x-1",
        "x-2": "x-2",
    }


def test_one_host_of_a_range_may_say_more_of_itself(load_text: Loader) -> None:
    hosts = hosts_of(
        load_text,
        'hosts: {"x-[1:3]": {address: "10.0.0.[1:3]", user: ops}, x-2: {user: root, retired: true}}\n',
    )
    assert hosts["x-2"].ssh == Ssh(address="10.0.0.2", user="root")
    assert [host.retired for host in hosts.values()] == [False, True, False]
    assert [host.ssh.user for host in hosts.values()] == ["ops", "root", "ops"]


NESTED = """\
defaults: {context: 1, ssh: {user: d}, labels: {d: d}}
hosts:
  plain: {}
groups:
  outer:
    hosts: {one: {}, "two": {context: 5}}
    context: 2
    parallel: 2
    ssh: {user: outer}
    labels: {outer: o}
    groups:
      inner:
        hosts: {three: {}, four: {context: 6}}
        context: 3
        labels: {inner: i}
        groups:
          core: {hosts: [three, one], parallel: 9}
"""


def test_the_inner_group_wins_over_the_outer_and_the_host_over_both(load_text: Loader) -> None:
    found = placed(load_text, NESTED, "plain, outer")
    assert {name: (each.context, each.parallel) for name, each in found.items()} == {
        "plain": (1, 1),
        "one": (3, 9),
        "two": (5, 2),
        "three": (3, 9),
        "four": (6, 2),
    }
    hosts = load_text(HEAD + NESTED).deployment.hosts
    assert hosts["plain"].ssh.user == "d"
    assert hosts["three"].ssh.user == "outer"
    assert hosts["three"].labels == {"d": "d", "outer": "o", "inner": "i"}
    assert list(hosts) == ["plain", "one", "two", "three", "four"]


def test_model_and_entry_win_over_groups(load_text: Loader) -> None:
    text = "groups: {all: {hosts: {a: {}, b: {address: h}}, context: 5, parallel: 5, cpus: 5}}\n"
    model = MODEL.replace("port: 8100", "port: 8100, context: 6, parallel: 6")
    model = model.replace("[ON]", "[a, {hosts: b, parallel: 7, port: 8200}]")
    a, b = load_text(HEAD + text + model).deployment.placements
    assert (a.host, a.context, a.parallel, a.cpus, a.port) == ("a", 6, 6, "cores:5", 8100)
    assert (b.host, b.context, b.parallel, b.cpus, b.port) == ("b", 6, 7, "cores:5", 8200)


def test_on_takes_hosts_and_groups_and_lists_of_both(load_text: Loader) -> None:
    text = 'hosts: {a: {}}\ngroups: {g: {hosts: {"x[1:2]": {}}, groups: {h: {hosts: {y: {}}}}}, e: {hosts: {z: {}}}}\n'
    assert list(placed(load_text, text, "e, {hosts: [a, g], context: 7}")) == ["z", "a", "x1", "x2", "y"]
    assert list(placed(load_text, text, "h")) == ["y"]
    assert list(placed(load_text, text, "{host: h}")) == ["y"]


def test_a_retired_host_leaves_its_groups_models(load_text: Loader) -> None:
    text = "groups: {all: {hosts: {a: {}, b: {retired: true}}}}\n"
    assert list(placed(load_text, text)) == ["a"]
    assert load_text(HEAD + text).deployment.hosts["b"].retired


def test_a_host_may_be_in_groups_that_agree_or_that_it_overrules(load_text: Loader) -> None:
    text = (
        "hosts: {a: {context: 3}}\n"
        "groups:\n"
        "  all: {hosts: [a], context: 1, parallel: 4, env: {A: x}}\n"
        "  some: {hosts: [a], context: 2, parallel: 4, env: {B: y}}\n"
    )
    found = placed(load_text, text)["a"]
    assert (found.context, found.parallel, found.env) == (3, 4, {"A": "x", "B": "y"})


def test_a_deeper_group_settles_what_two_others_disagree_on(load_text: Loader) -> None:
    text = (
        "hosts: {a: {}}\n"
        "groups:\n"
        "  all: {hosts: [a], sudo: none, groups: {deep: {hosts: [a], sudo: auto}}}\n"
        "  some: {hosts: [a], sudo: {password: {from_env: X}}}\n"
    )
    assert placed(load_text, text)["a"].context is None
    assert load_text(HEAD + text).deployment.hosts["a"].sudo.password is None


@pytest.mark.parametrize(
    ("one", "other", "path"),
    [
        ("context: 1", "context: 2", "context"),
        ("env: {A: x}", "env: {A: y, B: z}", "env.A"),
        ("sudo: none", "sudo: {password: {from_env: A}}", "sudo"),
        ("source: {path: /a}", "source: {huggingface: a/b}", "source"),
        ("api_key: {from_env: A}", "api_key: {from_env: B}", "api_key"),
        ("sudo: {password: {from_env: A}}", "sudo: {password: {from_file: B}}", "sudo.password"),
        ("playbooks: [base]", "playbooks: []", "playbooks"),
    ],
)
def test_groups_that_disagree_are_both_named(problems_of: Failer, one: str, other: str, path: str) -> None:
    text = f"hosts: {{a: {{}}, b: {{}}}}\ngroups:\n  all: {{hosts: [a, b], {one}}}\n  some: {{hosts: [b, a], {other}}}\n"
    (problem,) = problems_of(HEAD + text)
    assert problem.where.startswith("inventory.yaml:7:")
    assert f"groups `all` and `some` disagree on `{path}`, and host `a` is in both" in problem.what
    assert "inventory.yaml:6:" in problem.do


def test_of_three_groups_the_two_that_disagree_are_named(problems_of: Failer) -> None:
    text = "hosts: {a: {}}\ngroups: {x: {hosts: [a], parallel: 2}, y: {hosts: [a], context: 1}, z: {hosts: [a], context: 2}}\n"
    (problem,) = problems_of(HEAD + text)
    assert "groups `y` and `z` disagree on `context`" in problem.what


ONE_FAULT = [
    ("hosts: {'x-[01:4]': {}}", "4:9", "padded numbers are of one length"),
    ("hosts: {'x-[4:1]': {}}", "4:9", "has the backward range [4:1]"),
    ("hosts: {'x-[1:2]-[1:2]': {}}", "4:9", "`x-[1:2]-[1:2]` has 2 ranges; one is taken"),
    ("hosts: {'x-[1:9999999]': {}}", "4:9", "stands for 9999999 hosts; a range may have 1000"),
    ("hosts: {'x-[a:f]': {}}", "4:9", "must be a name"),
    ("hosts: {'x[1:2': {}}", "4:9", "must be a name"),
    (f"hosts: {{'{'x' * 39}[9:10]': {{}}}}", "4:9", f"`{'x' * 39}10` must be a name"),
    ("hosts: {'x-[1:2]': {address: '10.0.0.[1:3]'}}", "4:30", "stands for 2 hosts, the address `10.0.0.[1:3]` for 3"),
    ("hosts: {'x-[1:2]': {address: '10.0.0.1'}}", "4:30", "the address `10.0.0.1` for one host"),
    ("hosts: {'x-[1:2]': {address: '[1:2].[1:2]'}}", "4:30", "the address `[1:2].[1:2]` has 2 ranges"),
    ("hosts: {x: {address: '10.0.0.[1:3]'}}", "4:22", "the name stands for one host"),
    ("hosts: {x-1: {user: a}, 'x-[1:2]': {user: b}, 'x-[2:3]': {user: c}}", "4:47", "`x-2` has settings in two places"),
    ("hosts: {a: {user: a}}\ngroups: {g: {hosts: {a: {user: b}}}}", "5:22", "host `a` has settings in two places"),
    ("hosts: {a: {}}\ngroups: {g: {hosts: [b]}}", "5:22", "there is no host `b` known: `a`"),
    ("hosts: {aa1: {}}\ngroups: {g: {hosts: ['aa[1:2]']}}", "5:22", "there is no host `aa2` did you mean `aa1`?"),
    ("hosts: {a: {}}\ngroups: {g: {hosts: [h]}, h: {hosts: [a]}}", "5:22", "`h` is a group, and this is a list of hosts"),
    ("hosts: {a: {}}\ngroups: {g: {hosts: [a], groups: {g: {hosts: [a]}}}}", "5:35", "a group `g` is there already"),
    ("hosts: {a: {}}\ngroups: {a: {hosts: [a]}}", "5:10", "`a` is the name of a host too"),
    ("hosts: {a: {}}\ngroups: {g: {hosts: []}}", "5:14", "`groups.g.hosts` is empty"),
    ("hosts: {a: {}}\ngroups: {g: {hosts: [a], port: 1}}", "5:26", "unknown key `port` in `groups.g`"),
    ("hosts: {a: {}}\ngroups: {g: {hosts: {a: {prot: 1}}}}", "5:26", "unknown key `prot` in `groups.g.hosts.a` did you mean `port`"),
    ("groups: {}", "1:1", "the manifest names no host list the machines under `hosts`"),
    ("groups: {g: {playbooks: [nobody]}}\nhosts: {a: {}}", "4:26", "there is no playbook `nobody`"),
    ("groups: {g: {hosts: {a: {playbooks: [nobody]}}}}", "4:38", "there is no playbook `nobody`"),
    ("hosts: {'x[1:1000]': {}, 'y[1:1000]': {}, 'z[1:1000]': {}, 'b[1:1000]': {}, 'c[1:1000]': {}, 'd[1:1000]': {},"
     " 'e[1:1000]': {}, 'f[1:1000]': {}, 'g[1:1000]': {}, 'h[1:1000]': {}, 'i[1:1000]': {}}", "4:179", "more than 10000 hosts"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "place", "words"), ONE_FAULT, ids=[case[0][:50] for case in ONE_FAULT])
def test_one_fault_is_told_where_it_is(problems_of: Failer, text: str, place: str, words: str) -> None:
    found = problems_of(HEAD + text + "\n")
    assert [problem.where for problem in found] == [f"inventory.yaml:{place}"], found
    said, position = f"{found[0].what} {found[0].do}", 0
    for word in words.split():
        position = said.find(word, position)
        assert position >= 0, f"{word!r} not said (in this order) by: {said}"


@pytest.mark.parametrize(
    ("on", "words"),
    [
        ("a, all", "model `m` is on host `a` twice, first at"),
        ("all, some", "model `m` is on host `a` twice"),
        ("{hosts: [a, some]}", "model `m` is on host `a` twice"),
        ("al", "there is no host or group `al` did you mean `all`?"),
        ("none-yet", "group `none-yet` has no hosts"),
    ],
)
def test_what_on_can_not_mean(problems_of: Failer, on: str, words: str) -> None:
    text = (
        "hosts: {a: {}, b: {}}\ngroups: {all: {hosts: [a, b]}, some: {hosts: [a]}, none-yet: {context: 1}}\n"
    )
    (problem,) = problems_of(HEAD + text + MODEL.replace("ON", on))
    assert words in f"{problem.what} {problem.do}"


@pytest.mark.parametrize("depth", [1, 10, 18, 19, 30])
def test_groups_may_be_as_deep_as_a_file(load_text: Loader, problems_of: Failer, depth: int) -> None:
    text = "{deepest: {context: 7}}"
    for level in range(depth):
        text = f"{{g{level}: {{hosts: [a], groups: {text}}}}}"
    text = HEAD + f"hosts: {{a: {{}}}}\ngroups: {text}\n"
    if depth < 19:
        assert load_text(text).deployment.hosts["a"].name == "a"
        (problem,) = problems_of(text.replace("context", "contxt"))
        assert "did you mean `context`" in problem.do
    else:
        (problem,) = problems_of(text)
        assert "nested more than 40 deep" in problem.what


def test_a_hosts_place_is_known_also_where_a_range_stands_for_it(load_text: Loader) -> None:
    positions = load_text(HEAD + 'groups:\n  g:\n    hosts: {"x[1:2]": {address: "h[1:2]"}}\n').positions
    assert positions["hosts.x2"].endswith(":6:13")


def test_settings_of_groups_know_their_secrets(load_text: Loader) -> None:
    text = "groups: {all: {hosts: {a: {}}, api_key: {from_env: A}, listen: 0.0.0.0}}\n"
    assert placed(load_text, text)["a"].api_key == SecretRef(kind="from_env", name="A")


def test_a_manifest_without_groups_is_as_before(load_text: Loader) -> None:
    assert list(load_text(GOOD).deployment.hosts) == ["a"]
