"""A plan in a file: known for what it is, refused when it is not whole, and carried out from anywhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cpudeploy.cli.saved import cautions, holds_plan, read_plan, secrets_of, write_plan
from cpudeploy.errors import SavedPlanError
from cpudeploy.report.outcome_text import end_code, render_outcome
from cpudeploy.types import operation as op
from cpudeploy.types.base import SecretRef, digest
from cpudeploy.types.deployment import Host, Registry, Ssh, Sudo
from cpudeploy.types.plan import Plan
from cpudeploy.types.resolved import Place
from cpudeploy.types.safety import InFlight
from tests.execute.plans import NAME, NEW, OLD, change, plan_of, replace, write_file
from tests.execute.test_runner import Fleet
from tests.factories import facts

from .test_commands import GOOD, cpudeploy


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "plan.json"


def edited(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def nowhere(name: str = "h1", **fields: Any) -> Plan:
    """A plan for a host on which nothing listens."""
    plan = plan_of(**{name: [write_file("/etc/x")]})
    host = Host(name=name, ssh=Ssh(address="127.0.0.1", port=1), **fields)
    return msgspec.structs.replace(plan, hosts={name: msgspec.structs.replace(plan.hosts[name], host=host)})


def test_what_was_saved_is_read_back_and_has_the_same_id(file: Path) -> None:
    saved = write_plan(file, plan_of(h1=[replace(), write_file("/etc/x")]))
    assert saved.saved.endswith("Z")
    assert read_plan(file) == saved
    assert json.loads(file.read_text())["id"] == saved.id


def test_two_plans_of_the_same_are_two_plans(file: Path) -> None:
    plan = plan_of(h1=[write_file("/etc/x")])
    assert write_plan(file, plan).id != write_plan(file, plan).id


def test_it_is_for_its_owners_eyes_and_replaces_what_was_there_whole(file: Path) -> None:
    write_plan(file, plan_of())
    file.chmod(0o644)
    write_plan(file, plan_of(h1=[]))
    assert list(read_plan(file).hosts) == ["h1"]
    assert file.stat().st_mode & 0o777 == 0o600
    assert [entry.name for entry in file.parent.iterdir()] == ["plan.json"]


@pytest.mark.parametrize("text", [GOOD, "", '{"version": 1}'])
def test_what_is_no_plan_is_not_written_over(file: Path, text: str) -> None:
    file.write_text(text)
    with pytest.raises(SavedPlanError, match="is no plan"):
        write_plan(file, plan_of())
    assert file.read_text() == text


@pytest.mark.parametrize("name", ["plan.json", "inventory.yaml", "no-ending"])
def test_it_is_known_by_what_it_says_not_by_its_name(tmp_path: Path, name: str) -> None:
    write_plan(tmp_path / name, plan_of(h1=[write_file("/etc/x")]))
    assert holds_plan(tmp_path / name)


@pytest.mark.parametrize(
    "text",
    [GOOD, "{version: 1, name: rag}", '{"version": 1, "name": "rag"}', "", '{"schema": "other/1"}', "{"],
)
def test_a_manifest_is_none_whatever_its_name(file: Path, text: str) -> None:
    file.write_text(text)
    assert not holds_plan(file)


def test_a_folder_or_nothing_is_none(tmp_path: Path) -> None:
    assert not holds_plan(tmp_path)
    assert not holds_plan(tmp_path / "absent")


def test_another_programs_order_and_spaces_do_not_matter(file: Path) -> None:
    saved = write_plan(file, plan_of(h1=[write_file("/etc/x")]))
    file.write_text(json.dumps(json.loads(file.read_text()), sort_keys=True, separators=(",", ":")))
    assert holds_plan(file)
    assert read_plan(file) == saved


@pytest.mark.parametrize("kept", [0.05, 0.5, 0.99])
def test_a_plan_that_was_cut_off_is_known_and_refused(file: Path, kept: float) -> None:
    write_plan(file, plan_of(h1=[replace()]))
    text = file.read_text()
    file.write_text(text[: int(len(text) * kept)])
    assert holds_plan(file)
    with pytest.raises(SavedPlanError, match="damaged"):
        read_plan(file)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"deployment": "other"}, "edited after it was written"),
        ({"saved": ""}, "edited after it was written"),
        ({"id": None}, "edited after it was written"),
        ({"surprise": 1}, "damaged: Object contains unknown field `surprise`"),
        ({"hosts": []}, "damaged"),
        ({"schema": "cpudeploy.plan/2"}, "was written by a newer cpudeploy"),
    ],
)
def test_an_edited_or_newer_one_is_refused(file: Path, changes: dict[str, Any], says: str) -> None:
    write_plan(file, plan_of(h1=[write_file("/etc/x")]))
    edited(file, **changes)
    with pytest.raises(SavedPlanError, match=says):
        read_plan(file)


@pytest.mark.parametrize("changes", [{"schema": "cpudeploy.plan/7"}, {"deployment": "x"}])
def test_what_is_wrong_with_it_is_one_error_with_its_file(file: Path, changes: dict[str, Any]) -> None:
    write_plan(file, nowhere())
    edited(file, **changes)
    done = cpudeploy("apply", str(file))
    assert done.returncode == 1
    assert done.stderr.startswith(f"✗ {file}: ")
    assert len(done.stderr.splitlines()) == 2


@pytest.mark.parametrize("option", [["--repack"], ["--playbooks", "."]])
def test_options_of_a_manifest_are_refused(file: Path, option: list[str]) -> None:
    write_plan(file, nowhere())
    done = cpudeploy("apply", str(file), *option)
    assert done.returncode == 64
    assert f"a saved plan and {option[0]} exclude each other" in done.stderr


def test_a_folder_of_secrets_is_for_saved_plans(tmp_path: Path) -> None:
    (tmp_path / "inventory.yaml").write_text(GOOD)
    done = cpudeploy("apply", "--secrets-dir", ".", cwd=tmp_path)
    assert done.returncode == 64
    assert "--secrets-dir" in done.stderr


def test_a_plan_of_records_can_not_be_saved(tmp_path: Path) -> None:
    (tmp_path / "inventory.yaml").write_text(GOOD)
    done = cpudeploy("plan", "--facts", ".", "-o", "plan.json", cwd=tmp_path)
    assert done.returncode == 64
    assert not (tmp_path / "plan.json").exists()


def test_a_limit_names_hosts_of_the_plan(file: Path) -> None:
    write_plan(file, nowhere("small"))
    done = cpudeploy("apply", str(file), "--limit", "smal")
    assert done.returncode == 64
    assert "choose from small" in done.stderr


def test_it_needs_no_manifest_and_reaches_its_own_hosts(file: Path) -> None:
    write_plan(file, nowhere())
    done = cpudeploy("apply", str(file), cwd=file.parent)
    assert done.returncode == 4
    assert "h1" in done.stdout and "127.0.0.1" in done.stdout


def test_a_secret_that_can_not_be_had_ends_it_before_anything_is_done(file: Path) -> None:
    put = op.Put(
        id="p", deadline_s=9, path="/etc/k", mode="0600", content=SecretRef(kind="from_file", name="k")
    )
    plan = plan_of(h1=[change("k", "provision", [put])])
    write_plan(file, msgspec.structs.replace(plan, base="/nowhere"))
    done = cpudeploy("apply", str(file))
    assert done.returncode == 1
    assert "cannot read secret file /nowhere/k" in done.stderr
    assert "--secrets-dir DIR" in done.stderr
    assert done.stdout == ""


def test_where_nothing_is_to_be_done_nobody_is_reached(file: Path) -> None:
    write_plan(file, plan_of(h1=[]))
    done = cpudeploy("apply", str(file))
    assert done.returncode == 0
    assert "no changes" in done.stdout


def test_more_that_could_not_be_seen_when_it_was_planned_is_said_and_is_no_success(file: Path) -> None:
    plan = plan_of(h1=[])
    hosts = {"h1": msgspec.structs.replace(plan.hosts["h1"], partial=True)}
    write_plan(file, msgspec.structs.replace(plan, hosts=hosts))
    done = cpudeploy("apply", str(file))
    assert done.returncode == 1
    assert "h1: note: more is wanted than could be seen" in done.stderr
    assert "plan again" in done.stderr


def test_a_plan_of_a_host_that_was_left_in_the_middle_is_said_to_become_stale() -> None:
    left = InFlight(deployment="rag", plan="p", change="c", subject="qwen", holder="ops@desk")
    plan = plan_of(h1=[write_file("/etc/x")], h2=[write_file("/etc/x")])
    told = dict(cautions(plan, {"h1": facts("h1", in_flight=left), "h2": facts("h2")}))
    assert list(told) == ["h1"]
    assert "this plan is stale once that is over or put right" in told["h1"]


def test_secrets_come_from_the_folder_that_is_named(file: Path) -> None:
    write_plan(file, nowhere(sudo=Sudo(password=SecretRef(kind="from_file", name="pw"))))
    secrets = file.parent / "secrets"
    secrets.mkdir()
    (secrets / "pw").write_text("word")
    assert cpudeploy("apply", str(file), "--secrets-dir", str(secrets)).returncode == 4


def test_a_password_that_was_asked_for_is_asked_for_again(file: Path) -> None:
    write_plan(file, nowhere(sudo=Sudo(password=SecretRef(kind="asked", name="sudo"))))
    done = cpudeploy("apply", str(file))
    assert done.returncode == 64
    assert "apply --ask-sudo-pass" in done.stderr


def test_the_login_of_a_registry_counts_only_where_something_is_pulled_from_it() -> None:
    key, login = SecretRef(kind="from_env", name="KEY"), SecretRef(kind="from_env", name="LOGIN")
    registry = Registry(scope="reg.corp", username="u", password=login)
    plan = msgspec.structs.replace(plan_of(h1=[replace()]), registries=(registry,))
    assert secrets_of(plan, plan.hosts) == (key,)
    place = Place(
        reference="reg.corp/a@sha256:1", digest="sha256:1", registry="reg.corp", login=registry.scope
    )
    pull = op.Engine(
        id="pull", deadline_s=9, request=op.PullImage(places=(place,), platform="linux/amd64", size=1)
    )
    pulling = plan_of(h1=[change("image", "fetch", [pull]), replace()])
    assert secrets_of(msgspec.structs.replace(pulling, registries=(registry,)), pulling.hosts) == (key, login)


@pytest.mark.parametrize("command", ["plan", "apply", "destroy", "facts"])
def test_a_command_that_failed_says_why_as_json_too(tmp_path: Path, command: str) -> None:
    (tmp_path / "inventory.yaml").write_text(GOOD.replace("port: 8100", "port: 99999, contxt: 1"))
    done = cpudeploy(command, "--format", "json", cwd=tmp_path)
    told = json.loads(done.stdout)["error"]
    assert told["exit_code"] == done.returncode == 1
    assert all("inventory.yaml:6:" in problem["where"] for problem in told["problems"])
    assert "contxt" in told["what"]
    assert "contxt" in done.stderr


def test_plan_saves_what_it_shows(tmp_path: Path) -> None:
    (tmp_path / "inventory.yaml").write_text(
        GOOD.replace("{one:", "{two: {address: 127.0.0.1, port: 1}, one:")
    )
    done = cpudeploy("plan", "-o", "out/p.json", "--limit", "two", "--format", "json", cwd=tmp_path)
    assert done.returncode == 4
    assert json.loads(done.stdout) == json.loads((tmp_path / "out/p.json").read_text())
    assert "saved in out/p.json" in done.stderr
    again = cpudeploy("apply", "out/p.json", cwd=tmp_path)
    assert again.returncode == 4
    assert "two   unreachable" in again.stdout


class Kept:
    """A saved plan and the simulated hosts it is for."""

    def __init__(self, file: Path, **changes: Any) -> None:
        self.fleet = Fleet(*changes)
        self.file = file
        write_plan(file, plan_of(**changes))

    def apply(self, *only: str) -> tuple[int, str, dict[str, str]]:
        """Read and carried out once more: exit code, what is said, how each host ended."""
        plan = read_plan(self.file)
        outcome = self.fleet.apply(plan, only=only or None)
        told = render_outcome(outcome, plan, colour=False, width=200)
        return end_code(outcome, plan), told, {name: host.status for name, host in outcome.hosts.items()}


def test_applied_twice_the_second_time_does_nothing_and_exits_6(file: Path) -> None:
    kept = Kept(file, h1=[write_file("/etc/x"), replace()])
    host = kept.fleet.hosts["h1"]
    host.add(NAME, OLD)
    assert kept.apply()[0] == 0
    host.state["containers"][NAME]["memory"] = 1  # somebody went on working on it
    host.log.clear()
    code, told, _ = kept.apply()
    assert (code, host.log) == (6, [])
    assert "this plan was carried out here already" in told
    assert "cpudeploy exits 6" in told


def test_a_retry_goes_on_with_the_hosts_that_are_not_done(file: Path) -> None:
    kept = Kept(file, a=[write_file("/etc/x")], b=[write_file("/etc/x")])
    kept.fleet.unreachable.add("b")
    assert kept.apply()[0] == 4
    kept.fleet.unreachable.clear()
    code, _, ended = kept.apply()
    assert (code, ended) == (0, {"a": "used", "b": "done"})
    assert kept.apply()[0] == 6


def test_host_by_host_it_is_the_same_plan(file: Path) -> None:
    kept = Kept(file, a=[write_file("/etc/x")], b=[write_file("/etc/x")])
    assert kept.apply("a")[::2] == (0, {"a": "done"})
    assert kept.apply("a")[0] == 6
    assert kept.apply()[::2] == (0, {"a": "used", "b": "done"})


def test_a_container_that_was_changed_by_hand_makes_it_stale(file: Path) -> None:
    kept = Kept(file, h1=[write_file("/etc/x"), replace()])
    host = kept.fleet.hosts["h1"]
    host.add(NAME, NEW + "-by-hand")
    code, told, _ = kept.apply()
    assert (code, host.log) == (6, [])
    assert "✗ h1   stale" in told
    assert f"container {NAME}: release was {OLD}, is {NEW}-by-hand" in told
    assert "plan again" in told


def test_a_plan_that_was_printed_and_not_saved_is_not_used_up(file: Path) -> None:
    kept = Kept(file, h1=[write_file("/etc/x")])
    from cpudeploy.report.json_text import plan_document

    file.write_text(plan_document(plan_of(h1=[write_file("/etc/x")])))
    assert [kept.apply()[0] for _ in range(3)] == [0, 0, 0]


def test_a_plan_of_a_version_that_knew_less_is_not_called_edited(file: Path) -> None:
    saved = write_plan(file, plan_of(h1=[write_file("/etc/x")]))
    data = json.loads(file.read_text())
    assert data["hosts"]["h1"].pop("not_yet") == {} and data.pop("id") == saved.id
    file.write_text(json.dumps({**data, "id": digest(data)}))
    assert read_plan(file) == saved
